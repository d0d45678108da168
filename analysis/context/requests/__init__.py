"""Requests and their answers, and the streams that they begin and end."""
