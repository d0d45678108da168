"""Captures to frames: containers, TCP streams, and the UPR/DCP protocol as data.

This package knows nothing of Spark, matplotlib or rules over several frames: those live in ``analysis``,
which imports this package and never the reverse.
"""

__version__ = "0.1.0"
