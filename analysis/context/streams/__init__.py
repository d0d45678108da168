"""Vbucket streams: their instances, snapshots, and the versions of documents in them."""
