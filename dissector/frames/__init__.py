"""Frames as rows: their schema, the readers that fill record batches, and the writers of every format.

Read ``reference_reader.py`` first: it goes from captures to rows in six plain steps.
"""
