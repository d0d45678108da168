"""One page about captures: verdicts, findings, connections, streams, pictures, and what could not be decided.

The page is one file, fetches nothing, and can be read without its script.
"""
