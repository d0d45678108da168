"""Frames as rows: their schema, the readers that fill record batches, and the writers of every format."""
