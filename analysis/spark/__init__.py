"""Spark: sessions, the data source ``upr``, captures on any storage; ``split`` reads one run with many tasks."""
