"""What clients of 7.x do: collections, xattrs, compression, stream ids, out-of-order and change streams.

Each function writes conversations that recorded servers would have written; must not know rules or faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam

from dissector.codec.encoder import pack_records, pack_xattrs
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.setup import count, modern
from dissector.generate.session import CHECKPOINT, DISK, HISTORY, MAY_DUPLICATE, MEMORY, REASON_CLOSED
from dissector.generate.stream import JSON
from dissector.spec import enums, fields
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Stream

XATTR, SNAPPY = enums.DATATYPES.bit("xattr"), enums.DATATYPES.bit("snappy")
COLLECTION_BEGIN, COLLECTION_END, SCOPE_CREATE = 0, 1, 3
OSO_START, OSO_END = 1, 2
FROM_DISK = DISK | CHECKPOINT  #: what 7.x says of its backfills
ENDS_CLOSED = ("send_stream_end_on_client_close_stream", "true")
FRUIT, DAIRY = 0x8, 0x9
_MODERN_FRAMES, _MODERN_VBUCKETS = 110, 3
_FILTER = b'{"collections":["%x"]}'


def document(chance: random.Random, seqno: int, *, compressed: bool = False) -> tuple[bytes, int]:
    """Return a value and its datatype: JSON or binary, with xattrs or without."""
    kind = chance.randrange(4)
    value, datatype = b'{"seqno":%d,"text":"%s"}' % (seqno, b"abc" * chance.randrange(4, 40)), JSON
    if kind == 0:
        value, datatype = chance.randbytes(chance.randrange(1, 60)), 0
    elif kind == 1:
        value = pack_xattrs([(b"_sync", b'{"rev":"%d-a"}' % seqno), (b"meta", b'{"by":"test"}')], value)
        datatype |= XATTR
    if compressed:
        value, datatype = bytes(cramjam.snappy.compress_raw(value)), datatype | SNAPPY
    return value, datatype


def manifest(stream: Stream, first: int = 1, names: tuple[bytes, ...] = (b"fruit", b"dairy")) -> int:
    """Send the events that make a scope and collections; return the last seqno. Only the last has the new uid."""
    scope = pack_records((fields.MANIFEST_UID, fields.SCOPE_ID), [{"manifest_uid": 0, "scope_id": 8}])
    stream.event(first, SCOPE_CREATE, key=b"shop", value=scope)
    entry = (fields.MANIFEST_UID, fields.SCOPE_ID, fields.COLLECTION_ID)
    for at, name in enumerate(names, 1):
        row = {"manifest_uid": int(at == len(names)), "scope_id": 0, "collection_id": FRUIT + at - 1}
        stream.event(first + at, COLLECTION_BEGIN, key=name, value=pack_records(entry, [row]))
    return first + len(names)


def drop(stream: Stream, seqno: int, collection: int, uid: int = 2) -> None:
    """Send the event of a dropped collection."""
    entry = (fields.MANIFEST_UID, fields.SCOPE_ID, fields.COLLECTION_ID)
    row = {"manifest_uid": uid, "scope_id": 0, "collection_id": collection}
    stream.event(seqno, COLLECTION_END, value=pack_records(entry, [row]))


def write(stream: Stream, first: int, last: int, *, compressed: bool = False, prefix: bytes = b"doc") -> None:
    """Send documents, deletions and expirations of all collections, each key once."""
    chance = stream.session.chance
    for seqno in range(first, last + 1):
        key, collection = b"%s-%d" % (prefix, seqno), chance.choice((0, FRUIT, DAIRY))
        kind = chance.randrange(8)
        stream.session.keep_alive()
        if kind == 0:
            # A tombstone keeps its system xattrs, and those alone.
            kept = pack_xattrs([(b"_sync", b'{"rev":"%d-d"}' % seqno)])
            stream.deletion(seqno, key, collection=collection, value=kept, datatype=XATTR)
        elif kind == 1:
            stream.deletion(seqno, key, collection=collection)
        elif kind == 2:
            stream.expiration(seqno, key, collection=collection)
        else:
            value, datatype = document(chance, seqno, compressed=compressed)
            stream.mutation(seqno, key, value, collection=collection, datatype=datatype)


def _modern(chance: random.Random, size: Size) -> list[Conversation]:
    session = modern(
        chance,
        "modern",
        window=20_000,
        controls=(
            ("force_value_compression", "true"),
            ENDS_CLOSED,
            ("enable_expiry_opcode", "true"),
            ("set_priority", "high"),
            ("backfill_order", "round-robin"),
        ),
    )
    vbuckets = size.vbuckets or _MODERN_VBUCKETS
    streams = [session.stream(vbucket) for vbucket in range(vbuckets)]
    for stream in streams:
        stream.marker(0, 14, FROM_DISK)
        write(stream, manifest(stream) + 1, 14, compressed=True)
    filtered = session.stream(vbuckets, value=_FILTER % FRUIT)
    filtered.marker(0, 30, FROM_DISK)
    for seqno in (6, 11, 17):
        value, datatype = document(chance, seqno, compressed=True)
        filtered.mutation(seqno, b"doc-%d" % seqno, value, collection=FRUIT, datatype=datatype)
    # The last item of this disk snapshot is in another collection.
    filtered.advance(30)
    wanted = size.frames or _MODERN_FRAMES
    turn = 0
    while count(session) < wanted - 4:
        stream = streams[turn % vbuckets]
        turn += 1
        end = stream.last + chance.randrange(3, 9)
        stream.marker(stream.snap_end + 1, end, MEMORY | CHECKPOINT if turn <= vbuckets else MEMORY)
        write(stream, stream.last + 1, end)
    session.idle(21)
    streams[0].close()
    streams[0].end(REASON_CLOSED)
    return [session.conversation]


def _collections(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "filters")
    one = session.stream(0, value=_FILTER % FRUIT)
    both = session.stream(1, value=b'{"collections":["8","9"],"uid":"1"}')
    scope = session.stream(2, value=b'{"scope":"8"}')
    one.marker(0, 40, FROM_DISK)
    row = {"manifest_uid": 0, "scope_id": 0, "collection_id": FRUIT}
    entry = (fields.MANIFEST_UID, fields.SCOPE_ID, fields.COLLECTION_ID)
    one.event(4, COLLECTION_BEGIN, key=b"fruit", value=pack_records(entry, [row]))
    for seqno in (7, 12, 19, 33):
        one.mutation(seqno, b"k%d" % seqno, collection=FRUIT, datatype=JSON)
    one.advance(40)
    both.marker(0, 25, FROM_DISK)
    for seqno in range(5, 26, 4):
        both.mutation(seqno, b"k%d" % seqno, collection=chance.choice((FRUIT, DAIRY)), datatype=JSON)
    # Nothing is advanced where the last item of the snapshot passes the filter.
    scope.marker(0, 31, FROM_DISK)
    for seqno in (9, 18, 27):
        scope.mutation(seqno, b"k%d" % seqno, collection=0x1FF, datatype=JSON)
    scope.advance(31)
    # A memory snapshot is trimmed to the last item that passes: nothing is left to advance to.
    one.marker(41, 52, MEMORY | CHECKPOINT)
    for seqno in (44, 52):
        one.mutation(seqno, b"k%d" % seqno, collection=FRUIT, datatype=JSON)
    one.marker(60, 61, MEMORY)
    one.mutation(60, b"k60", collection=FRUIT, datatype=JSON)
    drop(one, 61, FRUIT)
    one.end(7)
    both.marker(26, 30, MEMORY | CHECKPOINT)
    for seqno in (26, 27, 30):
        both.mutation(seqno, b"k%d" % seqno, collection=DAIRY, datatype=JSON)
    session.idle(6)
    both.close()
    both.end(REASON_CLOSED)
    return [session.conversation]


def _stream_ids(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "ids", controls=(("enable_stream_id", "true"), ENDS_CLOSED), window=20_000)
    # Streams of one vbucket have its seqnos in common, and each shows what passes its filter.
    owners = {FRUIT: 0, DAIRY: 1, 0: 2}
    opened = []
    for number, collection in enumerate(owners, 1):
        value = b'{"sid":%d,"collections":["%x"]}' % (number, collection)
        opened.append((session.stream(0, stream_id=number, value=value), collection))
    for stream, collection in opened:
        stream.marker(0, 30, FROM_DISK)
        for seqno in range(4 + owners[collection], 28, 3):
            stream.mutation(seqno, b"k%d" % seqno, collection=collection, datatype=JSON)
        stream.advance(30)
    for stream, collection in opened:
        mine = range(31 + owners[collection], 52, 3)
        stream.marker(31, mine[-1], MEMORY | CHECKPOINT)
        for seqno in mine:
            stream.mutation(seqno, b"k%d" % seqno, collection=collection, datatype=JSON)
    first, _ = opened[0]
    first.close()
    first.end(REASON_CLOSED)
    session.idle(6)
    return [session.conversation]


def _oso(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "oso", controls=(("enable_out_of_order_snapshots", "true"), ENDS_CLOSED))
    stream = session.stream(0, value=_FILTER % FRUIT)
    stream.bracket(OSO_START)
    # In the order of keys: no snapshot, no order of seqnos, but each key once.
    seqnos = list(range(4, 60, 2))
    chance.shuffle(seqnos)
    for at, seqno in enumerate(seqnos):
        stream.mutation(seqno, b"k%03d" % at, collection=FRUIT, datatype=JSON)
    stream.bracket(OSO_END)
    # The first ordinary marker starts where the request said, below what was sent already.
    stream.last = max(seqnos)
    stream.marker(0, 71, MEMORY | CHECKPOINT)
    for seqno in range(61, 72, 2):
        stream.mutation(seqno, b"later-%d" % seqno, collection=FRUIT, datatype=JSON)
    stream.marker(72, 78, MEMORY)
    for seqno in (73, 75, 78):
        stream.mutation(seqno, b"later-%d" % seqno, collection=FRUIT, datatype=JSON)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _history(chance: random.Random, _size: Size) -> list[Conversation]:
    controls = (("flatbuffers_system_events", "true"), ("change_streams", "true"), ENDS_CLOSED)
    session = modern(chance, "changes", controls=controls, era=Release(7, 2))
    stream = session.stream(0)
    # What is older than the history comes without duplicates; the history repeats the end of the range (MB-55590).
    stream.marker(0, 40, FROM_DISK)
    for seqno in range(2, 19, 2):
        stream.mutation(seqno, b"old-%d" % seqno, datatype=JSON)
    stream.marker(20, 40, FROM_DISK | HISTORY | MAY_DUPLICATE)
    for seqno in range(20, 41):
        stream.mutation(seqno, b"busy-%d" % (seqno % 4), b'{"n":%d}' % seqno, datatype=JSON)
    stream.marker(41, 50, MEMORY | CHECKPOINT | HISTORY | MAY_DUPLICATE)
    for seqno in range(41, 51):
        stream.mutation(seqno, b"busy-%d" % (seqno % 4), b'{"n":%d}' % seqno, datatype=JSON)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "modern",
        "a 7.x client: collections, xattrs, snappy, expirations, a filter, close with stream end",
        _modern,
        "dcp",
        "7.0 to 7.6",
        (
            ("FRM-05", "deletions may carry xattrs since 5.0 (E-35)"),
            ("SNP-08", "7.x says disk and checkpoint of its backfills"),
            ("SEQ-12", "items that do not pass the filter are not sent"),
        ),
    ),
    Scenario(
        "collections",
        "streams of collections and of a scope",
        _collections,
        "dcp",
        "7.0 and later",
        (
            ("FRM-04", "a dropped collection's event has no key"),
            ("SNP-04", "a filtered memory snapshot may start higher than behind the last end"),
            ("SNP-06", "a filtered disk snapshot is completed by seqno advanced, one of memory is trimmed"),
            ("SEQ-12", "items that do not pass the filter are not sent"),
        ),
    ),
    Scenario("stream-ids", "three streams of one vbucket, told apart by id", _stream_ids, "dcp", "7.0 and later"),
    Scenario(
        "oso",
        "an out-of-order snapshot and what follows it",
        _oso,
        "dcp",
        "7.0 and later",
        (
            ("SNP-01", "an out-of-order snapshot begins with its bracket, not with a marker"),
            ("SNP-02", "inside the bracket there is no marker"),
            ("SNP-04", "the first ordinary marker starts below what came out of order"),
            ("SNP-05", "inside the bracket each key comes once, whatever its seqno"),
            ("SNP-07", "the first ordinary marker starts where the request said, behind the bracket"),
            ("SEQ-01", "inside the bracket seqnos have no order"),
        ),
    ),
    Scenario(
        "history",
        "a change stream: every version of a document",
        _history,
        "dcp",
        "7.2 and later",
        (
            ("SNP-04", "a history marker starts inside the range of the marker before it, and repeats its end"),
            ("SNP-05", "a snapshot that may contain duplicates has a key several times"),
            ("SNP-06", "what is older than the history stops where the history begins"),
        ),
    ),
)
