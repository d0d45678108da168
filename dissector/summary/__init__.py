"""Summaries of captures: one row per connection, or one per vbucket stream.

Batches of frames go in one after the other. What is remembered of connections and streams is bounded, and nothing is
remembered of single frames.
"""
