"""One page about captures: verdicts, findings, connections, streams, pictures, and what could not be decided.

The page is one file that fetches nothing, and that can be read without its script.
"""
