"""Frames in context: what a single message cannot show. Imports ``dissector``; never imported by it."""
