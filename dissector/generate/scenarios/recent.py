"""What servers of 7.2 and later do: events as FlatBuffers tables, streams of keys, cache transfer within a window.

Each function writes conversations that recorded servers would have written; must not know rules or faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.flatbuffers import pack_table
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import DAIRY, ENDS_CLOSED, FROM_DISK, FRUIT, OSO_END, OSO_START
from dissector.generate.scenarios.setup import INCLUDE_DELETE_TIMES, modern
from dissector.generate.scenarios.special import transfer
from dissector.generate.session import CHECKPOINT, MEMORY, PRODUCER, REASON_CLOSED
from dissector.generate.stream import JSON
from dissector.spec import enums, events
from dissector.spec.model import UNRELEASED, Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Stream
    from dissector.spec.model import TableSpec

_NO_VALUE = enums.OPEN_FLAGS.bit("no_value")
_BEGIN, _END, _CREATE, _DROP, _MODIFY = map(
    events.EVENT_NAMES.number, ("collection_begin", "collection_end", "scope_create", "scope_drop", "collection_modify")
)
_TABLES: dict[int, TableSpec] = {
    _BEGIN: events.COLLECTION,
    _END: events.DROPPED_COLLECTION,
    _CREATE: events.SCOPE,
    _DROP: events.DROPPED_SCOPE,
    _MODIFY: events.COLLECTION,
}
_SHOP = 0x8  #: a scope
_SMALL_WINDOW = 1_200


def _told(stream: Stream, seqno: int, event: int, name: bytes = b"", **numbers: int) -> None:
    """Send an event as a table; the name is in the key and in the table."""
    table = _TABLES[event]
    texts = {slot.name: name for slot in table.slots if slot.name.endswith("_name")}
    stream.event(seqno, event, version=2, key=name, value=pack_table(table, {**numbers, **texts}))


def _event_tables(chance: random.Random, _size: Size) -> list[Conversation]:
    controls = (("flatbuffers_system_events", "true"), ENDS_CLOSED)
    session = modern(chance, "tables", controls=controls, era=Release(8))
    stream = session.stream(0)
    stream.marker(0, 14, FROM_DISK)
    # Of the events of one manifest change the last has the new uid; what is 0 is not in the table.
    _told(stream, 1, _CREATE, b"shop", scope_id=_SHOP)
    _told(stream, 2, _BEGIN, b"fruit", scope_id=_SHOP, collection_id=FRUIT)
    _told(stream, 3, _BEGIN, b"dairy", manifest_uid=1, collection_id=DAIRY, ttl_valid=1, max_ttl=3_600)
    for seqno in range(4, 15):
        collection = chance.choice((0, FRUIT, DAIRY))
        stream.mutation(seqno, b"key-%d" % seqno, b'{"n":%d}' % seqno, collection=collection, datatype=JSON)
    stream.marker(15, 24, MEMORY | CHECKPOINT)
    _told(stream, 15, _MODIFY, b"dairy", manifest_uid=2, collection_id=DAIRY, history=1)
    _told(stream, 16, _MODIFY, b"fruit", manifest_uid=3, scope_id=_SHOP, collection_id=FRUIT, metered=1)
    stream.mutation(17, b"key-17", b'{"n":17}', collection=FRUIT, datatype=JSON)
    # A collection that is flushed begins again, with the manifest of the flush.
    _told(stream, 18, _BEGIN, b"dairy", manifest_uid=4, collection_id=DAIRY, history=1, flush_uid=4)
    stream.mutation(19, b"key-19", b'{"n":19}', collection=DAIRY, datatype=JSON)
    _told(stream, 20, _END, manifest_uid=4, scope_id=_SHOP, collection_id=FRUIT)
    _told(stream, 21, _DROP, manifest_uid=5, scope_id=_SHOP)
    for seqno in (22, 23, 24):
        stream.mutation(seqno, b"key-%d" % seqno, b'{"n":%d}' % seqno, datatype=JSON)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _key_only(chance: random.Random, _size: Size) -> list[Conversation]:
    flags = PRODUCER | _NO_VALUE | INCLUDE_DELETE_TIMES
    session = modern(chance, "keys", flags=flags, controls=(ENDS_CLOSED,), era=Release(7, 6))
    stream = session.stream(0)
    _keys_from_disk(stream, 0, 12, [b"key-%d" % at for at in range(12)])
    stream.marker(13, 18, MEMORY | CHECKPOINT)
    for seqno in range(13, 18):
        stream.mutation(seqno, b"key-%d" % (seqno - 12), b"", item_flags=7)
    stream.deletion(18, b"key-0")
    # A stream that has fallen behind is given the rest from disk, where no revision is known.
    _keys_from_disk(stream, 19, 26, [b"key-%d" % at for at in range(8)])
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _keys_from_disk(stream: Stream, start: int, end: int, keys: list[bytes]) -> None:
    """Send keys without their documents: CAS 0, revision 1, and no difference between documents and tombstones."""
    stream.marker(start, end, FROM_DISK)
    for seqno, key in zip(range(end - len(keys) + 1, end + 1), keys, strict=True):
        stream.mutation(seqno, key, b"", cas=0, rev_seqno=1)


def _v22_without_durability(chance: random.Random, _size: Size) -> list[Conversation]:
    controls = (("max_marker_version", "2.2"), ENDS_CLOSED)
    session = modern(chance, "purges", controls=controls, era=Release(8))
    stream = session.stream(0)
    # Only markers of disk snapshots have the form, and of its numbers the purge seqno alone is one.
    zeros = {"max_visible_seqno": 0, "high_completed_seqno": 0, "high_prepared_seqno": 0}
    stream.marker(0, 20, FROM_DISK, purge_seqno=4, **zeros)
    stream.items(5, 20)
    stream.marker(21, 26, MEMORY | CHECKPOINT)
    stream.items(21, 26)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _oso_advanced(chance: random.Random, _size: Size) -> list[Conversation]:
    controls = (("enable_out_of_order_snapshots", "true_with_seqno_advanced"), ENDS_CLOSED)
    session = modern(chance, "oso", controls=controls, era=UNRELEASED)
    stream = session.stream(0, value=b'{"collections":["8","9"]}')
    stream.bracket(OSO_START)
    # Collection by collection, and in each by key.
    for collection, first in ((FRUIT, 4), (DAIRY, 5)):
        seqnos = list(range(first, 60, 2))
        chance.shuffle(seqnos)
        for at, seqno in enumerate(seqnos):
            stream.mutation(seqno, b"k%03d" % at, collection=collection, datatype=JSON)
    # What the backfill read lies beyond its last item: that is said inside of the bracket.
    stream.advance(64)
    stream.bracket(OSO_END)
    # The first ordinary marker starts at the last seqno of the backfill.
    stream.marker(64, 71, MEMORY | CHECKPOINT)
    for seqno in range(65, 72, 2):
        stream.mutation(seqno, b"later-%d" % seqno, collection=FRUIT, datatype=JSON)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _memory_advance(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "without tables", controls=(ENDS_CLOSED,), era=Release(8))
    stream = session.stream(0)
    stream.marker(0, 8, FROM_DISK)
    stream.items(1, 8)
    # A modified collection can be told in a table only: to others it is a seqno without a content.
    stream.marker(9, 12, MEMORY | CHECKPOINT)
    stream.items(9, 11)
    stream.advance(12)
    stream.marker(13, 13, MEMORY)
    stream.advance(13)
    stream.marker(14, 16, MEMORY)
    stream.items(14, 16)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _cache_transfer_window(chance: random.Random, _size: Size) -> list[Conversation]:
    return [transfer(chance, "replication:narrow", window=_SMALL_WINDOW).conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "event-tables",
        "system events as FlatBuffers tables, each kind of them",
        _event_tables,
        "dcp",
        "8.0 and later",
        (
            ("FRM-04", "the event of a dropped scope or collection has no key"),
            ("FRM-05", "a table has no fixed length"),
            ("FRM-10", "a table is no document, and its datatype says nothing of it"),
        ),
    ),
    Scenario(
        "key-only",
        "a stream of keys: from disk they come without CAS and revision",
        _key_only,
        "dcp",
        "7.6 and later",
        (
            ("FRM-07", "keys from disk have CAS 0 where neither values nor xattrs were asked for"),
            ("SEQ-04", "keys from disk have revision 1, whatever came before"),
            ("SEQ-05", "keys from disk have CAS 0, whatever came before"),
            ("SEQ-06", "keys from disk have CAS 0 where neither values nor xattrs were asked for"),
        ),
    ),
    Scenario(
        "v22-without-durability",
        "V2.2 markers on a connection without synchronous writes",
        _v22_without_durability,
        "dcp",
        "8.0 and later",
        (("SNP-09", "without synchronous writes all numbers but the purge seqno are 0"),),
    ),
    Scenario(
        "oso-advanced",
        "an out-of-order snapshot of two collections that ends in a seqno advanced",
        _oso_advanced,
        "dcp",
        "after 8.0",
        (
            ("SNP-01", "an out-of-order snapshot begins with its bracket, not with a marker"),
            ("SNP-02", "inside the bracket there is no marker"),
            ("SNP-04", "the first ordinary marker starts at the last seqno of what came out of order"),
            ("SNP-07", "the first ordinary marker starts at the last seqno of what came out of order"),
            ("SEQ-01", "inside the bracket seqnos have no order"),
            ("SEQ-11", "the seqno advanced is inside of the bracket, where there is no marker"),
        ),
    ),
    Scenario(
        "memory-advance",
        "a seqno advanced ends snapshots from memory",
        _memory_advance,
        "dcp",
        "8.0 and later",
        (("SEQ-11", "it stands for the event of a modified collection, which is told in tables only"),),
    ),
    Scenario(
        "cache-transfer-window",
        "a cache transfer within a small window",
        _cache_transfer_window,
        "dcp",
        "after 8.0",
        (
            ("SNP-01", "cache transfer needs no marker"),
            ("SNP-02", "the records of a cache transfer lie in no snapshot"),
            ("FLC-01", "messages of a cache transfer count with their whole frame"),
            ("FLC-02", "a producer may overshoot by a whole message of a cache transfer"),
        ),
    ),
)
