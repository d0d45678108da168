"""Captures summed up: one row per connection, or one per vbucket stream. Folds over batches of frames.

Connections and streams have a state each, frames have none; the states are bounded in number.
"""
