"""Bytes to messages and back, one frame at a time, by the tables of the spec."""
