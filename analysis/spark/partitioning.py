"""Which partition a connection belongs to, when the connections of a run are spread over the tasks of a Spark job.

Knows keys of flows and how they are hashed. The unit is the *conversation*: all connections of one pair of addresses
and ports, so both directions of a connection, and connections that reuse its ports, are in one partition.
"""

from __future__ import annotations

import zlib

from dissector.link.flow_key import reverse_key


def conversation_key(key: bytes) -> tuple[bytes, bool]:
    """Return the key that both directions of a connection share, and whether ``key`` is that of the other direction."""
    other = reverse_key(key)
    return (other, True) if other < key else (key, False)


def partition_of(name: bytes, partitions: int) -> int:
    """Return the partition of a conversation or connection, by its key or id; the same in every process and run."""
    return zlib.crc32(name) % partitions
