"""Findings as comments on the packets of a copy of the captures."""
