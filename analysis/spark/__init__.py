"""Spark: its session, the data source, and captures on any storage."""
