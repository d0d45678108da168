"""Features of single releases: extended metadata of 4.x, cache transfer after 8.0.

Each function writes conversations that servers of that release would have written; must not know rules or faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.encoder import pack_fields, pack_metadata
from dissector.codec.leb128 import pack as leb128
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import ENDS_CLOSED
from dissector.generate.scenarios.setup import RELEASE_4, modern, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, NO_END
from dissector.generate.stream import JSON
from dissector.spec import enums, fields
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Session, Stream

CACHE_TRANSFER = 0x100  #: stream flag
_ACTIVE_ONLY = enums.STREAM_FLAGS.bit("active_vbucket_only")
_CONFLICT_MODE = 2  #: id of an entry of the extended metadata
_METADATA = pack_metadata(1, [(_CONFLICT_MODE, b"\0")])


def _ext_metadata(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "xdcr", era=RELEASE_4, window=4_096)
    session.control("set_priority", "high")
    session.control("enable_ext_metadata", "true")
    stream = session.stream(0)
    stream.marker(0, 20, DISK)
    _described(stream, 1, 20)
    stream.marker(21, 36, MEMORY | CHECKPOINT)
    _described(stream, 21, 36)
    session.idle(21)
    stream.close()
    return [session.conversation]


def _described(stream: Stream, first: int, last: int) -> None:
    """Send items whose metadata follows the value; it counts for flow control."""
    size = len(_METADATA)
    for seqno in range(first, last + 1):
        key = b"key-%d" % seqno
        if seqno % 5 == 0:
            stream.deletion(seqno, key, value=_METADATA, nmeta=size)
        else:
            stream.mutation(seqno, key, b'{"n":%d}' % seqno + _METADATA, datatype=JSON, nmeta=size)


def _cache_transfer(chance: random.Random, _size: Size) -> list[Conversation]:
    return [transfer(chance, "replication:cache").conversation]


def transfer(chance: random.Random, name: str, *, only: bool = False, window: int = 100_000) -> Session:
    """Write a connection on which a replica is given what is in memory, and then the rest, or nothing else."""
    controls = (ENDS_CLOSED, ("cache_transfer", "true"))
    session = modern(chance, name, controls=controls, era=Release(8, 1), window=window)
    value = b'{"cts":{"free_memory":1048576,"all_keys":false}}'
    # A stream of cache transfer alone has its end at its start.
    stream = session.stream(0, end=0 if only else NO_END, flags=_ACTIVE_ONLY | CACHE_TRANSFER, value=value)
    seqnos = list(range(1, 31))
    chance.shuffle(seqnos)
    # What is in memory comes first, in no order and in no snapshot.
    for at in range(0, len(seqnos), 5):
        records = b"".join(_record(stream, seqno) for seqno in seqnos[at : at + 5])
        stream.produce("cache_transfer", value=records)
    stream.produce("cache_transfer_end")
    if only:
        stream.end()
    else:
        for start, end, flags in ((0, 30, DISK | CHECKPOINT), (31, 34, MEMORY | CHECKPOINT)):
            stream.marker(start, end, flags)
            for seqno in range(max(1, start), end + 1):
                stream.mutation(seqno, b"key-%d" % seqno, b'{"n":%d}' % seqno, datatype=JSON)
    session.idle(6)
    return session


def _record(stream: Stream, seqno: int) -> bytes:
    key, value = b"key-%d" % seqno, b'{"n":%d}' % seqno
    rev, cas = stream.session.bucket.vbucket(stream.vbucket).version(seqno, 0, key)
    wire_key = leb128(0) + key
    numbers = {
        "cas": cas,
        "by_seqno": seqno,
        "rev_seqno": rev,
        "value_length": len(value),
        "key_length": len(wire_key),
        "datatype": JSON,
    }
    return pack_fields(fields.CACHE_RECORD, numbers) + wire_key + value


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "ext-metadata",
        "metadata behind the values",
        _ext_metadata,
        "dcp",
        "4.0 to 4.6",
        (("FRM-12", "4.x puts metadata behind the value when it was asked to"),),
    ),
    Scenario(
        "cache-transfer",
        "a replica is given what is in memory, then the rest",
        _cache_transfer,
        "dcp",
        "after 8.0",
        (
            ("SNP-01", "cache transfer needs no marker"),
            ("SNP-02", "the records of a cache transfer lie in no snapshot"),
            ("SNP-07", "the first marker comes behind the cache transfer"),
            ("SEQ-01", "the records of a cache transfer have no order, and their seqnos come again"),
            ("SEQ-02", "the records of a cache transfer are not counted from the start"),
        ),
    ),
)
