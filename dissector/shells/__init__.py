"""Shells that complete the command line: what there is to complete, and a script for each of them."""
