"""Frames that look wrong and are not: errors with bodies, keys and values that may be absent, other protocols.

Each scenario is about exceptions of the framing rules (FRM); the reasons stand beside it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam

from dissector.codec.encoder import pack_records, pack_xattrs
from dissector.generate.conversation import CLIENT, SERVER
from dissector.generate.frame import Frame
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import COLLECTION_BEGIN, COLLECTION_END, DAIRY, ENDS_CLOSED, FROM_DISK, FRUIT
from dissector.generate.scenarios.setup import INCLUDE_DELETE_TIMES, INCLUDE_XATTRS, modern, new_conversation, plain
from dissector.generate.session import CHECKPOINT, DISK, DISK_ONLY, MEMORY, PRODUCER, REASON_CLOSED
from dissector.generate.stream import JSON
from dissector.spec import enums, fields
from dissector.spec.model import Dialect, Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Session

_XATTR, _SNAPPY = enums.DATATYPES.bit("xattr"), enums.DATATYPES.bit("snappy")
_KEEP_DATATYPE = enums.OPEN_FLAGS.bit("no_value_with_underlying_datatype")
_DURATION = 0  #: frame info of responses: how long the server took
_COLLECTION_FLUSH = 2  #: an event of 5.0 to 7.1
_ENOENT, _EEXISTS, _EINVAL, _NOT_MY_VBUCKET, _ERANGE, _NOT_SUPPORTED = map(
    enums.STATUSES.number,
    ("key_not_found", "key_exists", "invalid_arguments", "not_my_vbucket", "out_of_range", "not_supported"),
)
#: The beginning of a TLS connection: a ClientHello, and a ServerHello, of no other meaning.
_TLS = (
    bytes.fromhex("16030100 2f 0100 002b 0303") + bytes(range(32)) + bytes.fromhex("00 0002 1301 0100"),
    bytes.fromhex("16030300 2a 0200 0026 0303") + bytes(range(32, 64)) + bytes.fromhex("00 1301 00"),
)


def refusal(session: Session, request: Frame, status: int, text: bytes = b"") -> None:
    """Send a request of the consumer's and have it refused, with or without a text."""
    answer = session.frame(request.name, response=True, status=status, value=text)
    session.ask(session.consumer, request, answer=answer)


def _error_replies(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "errors")
    stream = session.stream(0)
    stream.follow(12, DISK)
    for vbucket, status in ((0, _EEXISTS), (700, _NOT_MY_VBUCKET)):
        session.request(vbucket, 0, 20).refuse(status)
    # Less than that is on disk, so the stream would end before it starts.
    uuid = session.bucket.vbucket(1).uuid
    session.request(1, 30, uuid=uuid, flags=DISK_ONLY).refuse(_ERANGE, b"Outside range")
    for name, status, text in (
        ("get_failover_log", _NOT_MY_VBUCKET, b'{"rev":12,"nodesExt":[]}'),
        ("close_stream", _ENOENT, b"Not found"),
    ):
        refusal(session, session.frame(name, vbucket=700, opaque=session.opaque()), status, text)
    session.ask(
        session.consumer,
        session.frame("control", key=b"stream_buffer_size", value=b"1000", opaque=session.opaque()),
        status=_NOT_SUPPORTED,
    )
    stream.follow(19, MEMORY | CHECKPOINT)
    # The consumer had gone on to close: it refuses what was on its way, many frames with one opaque.
    session.acking = False
    stream.marker(20, 25, MEMORY)
    sent = stream.items(20, 25)
    stream.ask_close(unheard=len(sent) + 1)
    stream.reject("snapshot_marker", _ENOENT, unheard=len(sent))
    for late, emission in enumerate(sent, 1):
        stream.reject(emission.frame.name, _ENOENT, unheard=len(sent) - late)
    stream.answer_close()
    session.acking = True
    session.idle(6)
    return [session.conversation]


def _key_value(number: int, chance: random.Random) -> Conversation:
    """Write ordinary KV traffic, answered with the server's duration in framing extras."""
    conversation = new_conversation(number, name="kv")
    for at in range(12):
        key = b"user::%d" % at
        opaque = at.to_bytes(4, "big")
        if at % 3 == 0:
            request = Frame(
                Dialect.MEMCACHED, "set", {"item_flags": 0, "expiration": 0}, key=key, value=b"{}", opaque=opaque
            )
            answer = Frame(Dialect.MEMCACHED, "set", response=True, opaque=opaque, cas=chance.getrandbits(60) << 4)
        else:
            request = Frame(Dialect.MEMCACHED, "get", key=key, opaque=opaque)
            answer = Frame(
                Dialect.MEMCACHED, "get", {"item_flags": 0}, response=True, value=b"{}", opaque=opaque, cas=1 + at
            )
        answer.framing = [(_DURATION, (at + 1).to_bytes(2, "big"))]
        conversation.send(CLIENT, request)
        conversation.send(SERVER, answer)
    return conversation


def _other_protocols(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "consumer")
    # A 7.x consumer asks for the error map on its DCP connection; clients ask for statistics on theirs.
    for name, key, value in (("get_error_map", b"", b"\0\2"), ("stat", b"dcp", b"")):
        request = Frame(Dialect.MEMCACHED, name, key=key, value=value, opaque=session.opaque())
        session.ask(CLIENT, request, answer=Frame(Dialect.MEMCACHED, name, response=True))
    stream = session.stream(0)
    stream.follow(20, FROM_DISK)
    session.idle(6)
    encrypted = new_conversation(2, name="tls")
    for side, data in ((CLIENT, _TLS[0]), (SERVER, _TLS[1])):
        encrypted.send(side, Frame(Dialect.MEMCACHED, "kv_noop", raw=data))
    encrypted.server_port = 11_207
    return [session.conversation, _key_value(1, chance), encrypted]


def _deletion_values(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "tombstones")
    stream = session.stream(0)
    stream.marker(0, 24, FROM_DISK)
    xattrs = pack_xattrs([(b"_sync", b'{"rev":"3-d"}')])
    packed = bytes(cramjam.snappy.compress_raw(xattrs))
    # 5 and 7 say JSON of a document that is gone, and 2 has no xattrs: accepted producer bugs.
    shapes = (
        (b"", 0),
        (xattrs, _XATTR),
        (packed, _XATTR | _SNAPPY),
        (xattrs, _XATTR | JSON),
        (packed, _XATTR | JSON | _SNAPPY),
        (bytes(cramjam.snappy.compress_raw(b"")), _SNAPPY),
    )
    for seqno in range(1, 25):
        value, datatype = shapes[seqno % len(shapes)]
        stream.deletion(seqno, b"gone-%d" % seqno, value=value, datatype=datatype)
    session.idle(6)
    return [session.conversation]


def _open_with_json(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "named", controls=())
    conversation = session.conversation
    opened = next(each.frame for each in conversation if each.frame.name == "open" and not each.frame.response)
    opened.value, opened.datatype = b'{"consumer_name":"n1"}', JSON
    stream = session.stream(0)
    stream.follow(15, FROM_DISK)
    session.idle(6)
    return [conversation]


def _newer_server(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "ahead", era=Release(9))
    # A stream flag that came after this program; servers ignore those that they do not know.
    stream = session.stream(0, flags=0x400)
    stream.follow(15, FROM_DISK)
    stream.follow(21, MEMORY | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _missing_hello(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "begun-before")
    before = ("hello", "select_bucket")
    # The capture begins after HELLO: that keys have collection ids shows in the keys alone.
    session.conversation.emissions = [each for each in session.conversation if each.frame.name not in before]
    streams = [session.stream(vbucket) for vbucket in range(2)]
    for stream in streams:
        stream.marker(0, 30, FROM_DISK)
        for seqno in range(1, 31):
            stream.mutation(seqno, b"key-%d" % seqno, collection=chance.choice((0, FRUIT, DAIRY)), datatype=JSON)
    session.idle(6)
    return [session.conversation]


def _kept_datatype(chance: random.Random, _size: Size) -> list[Conversation]:
    flags = PRODUCER | INCLUDE_XATTRS | INCLUDE_DELETE_TIMES | _KEEP_DATATYPE
    session = modern(chance, "keys-only", flags=flags)
    stream = session.stream(0)
    stream.marker(0, 20, FROM_DISK)
    for seqno in range(1, 21):
        stream.mutation(seqno, b"key-%d" % seqno, b"", datatype=chance.choice((0, JSON, JSON | _XATTR, _XATTR)))
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _system_events(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "events", era=Release(7))
    stream = session.stream(0)
    stream.marker(0, 12, FROM_DISK)
    entry = (fields.MANIFEST_UID, fields.SCOPE_ID, fields.COLLECTION_ID)
    row = {"manifest_uid": 1, "scope_id": 0, "collection_id": FRUIT}
    stream.event(1, COLLECTION_BEGIN, key=b"fruit", value=pack_records(entry, [row]))
    for seqno in range(2, 9):
        stream.mutation(seqno, b"key-%d" % seqno, collection=FRUIT, datatype=JSON)
    stream.event(9, _COLLECTION_FLUSH, key=b"fruit", value=pack_records(entry, [{**row, "manifest_uid": 2}]))
    stream.event(10, COLLECTION_END, value=pack_records(entry, [{**row, "manifest_uid": 3}]))
    for seqno in (11, 12):
        stream.mutation(seqno, b"key-%d" % seqno, datatype=JSON)
    session.idle(6)
    return [session.conversation]


def _test_cluster(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "large")
    for vbucket in (1023, 1024, 4095):
        stream = session.stream(vbucket)
        stream.follow(10, DISK)
    session.idle(6)
    return [session.conversation]


def _framed_deletions(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "ids", controls=(("enable_stream_id", "true"), ENDS_CLOSED))
    streams = [session.stream(0, stream_id=number, value=b'{"sid":%d}' % number) for number in (1, 2)]
    for stream in streams:
        stream.marker(0, 16, FROM_DISK)
        for seqno in range(1, 17):
            if seqno % 4:
                stream.mutation(seqno, b"key-%d" % seqno, datatype=JSON)
                continue
            sent = stream.deletion(seqno, b"key-%d" % seqno)
            # 7.0.5 leaves the length of the framing extras out: the header's key length has its upper byte zero.
            sent.frame.header = {"key_word": len(sent.frame.key)}
    session.idle(6)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "error-replies",
        "requests that are refused, with texts and without, and items refused behind a close",
        _error_replies,
        "dcp",
        "3.0 to 4.1",
        (
            ("FRM-03", "an error may have no extras where a success has some"),
            ("FRM-05", "an error may carry a text or a cluster map"),
            ("OPQ-01", "several refusals of items pair with one stream opaque"),
            ("OPQ-07", "status 0x02 is the right answer to a second request for a live stream"),
            ("OPQ-11", "the refused items were in flight when the consumer closed the stream"),
            ("FOL-04", "other refusals are decided before the range, and a server puts in an end of its own"),
        ),
    ),
    Scenario(
        "other-protocols",
        "KV traffic with tracing, TLS, and KV commands on a DCP connection",
        _other_protocols,
        "dcp",
        "7.0 and later",
        (("FRM-02", "other protocols on the port are none of UPR's business, 0x18 answers included"),),
    ),
    Scenario(
        "deletion-values",
        "deletions with xattrs, compressed or not, and with datatypes that make little sense",
        _deletion_values,
        "dcp",
        "5.5 and later",
        (
            ("FRM-05", "deletions may carry xattrs since 5.0 (E-35)"),
            ("FRM-06", "datatypes 2, 5 and 7 of deletions are accepted producer bugs (MB-31141, MB-29040)"),
        ),
    ),
    Scenario(
        "open-with-json",
        "an open that names the consumer in its value",
        _open_with_json,
        "dcp",
        "6.5 and later",
        (("FRM-06", "since 6.5 an open may have a JSON value"),),
    ),
    Scenario(
        "newer-server",
        "a stream flag that nobody knows yet",
        _newer_server,
        "dcp",
        "later than this program",
        (("FRM-08", "a newer server or client than this program may use more flags"),),
    ),
    Scenario(
        "missing-hello",
        "collections on a connection whose beginning was not captured",
        _missing_hello,
        "dcp",
        "7.0 and later",
        (
            ("FRM-09", "HELLO was not captured: only the keys tell that they have collection ids"),
            ("CON-04", "HELLO and SELECT_BUCKET were not captured"),
            ("CON-05", "HELLO was not captured: nobody saw collections agreed upon"),
        ),
    ),
    Scenario(
        "kept-datatype",
        "no values, but the datatypes of the stored documents",
        _kept_datatype,
        "dcp",
        "6.5 and later",
        (("FRM-10", "with open flag 0x40 the datatype describes the stored document, not the empty value"),),
    ),
    Scenario(
        "system-events",
        "events with a key and without, and one of 5.0 to 7.1",
        _system_events,
        "dcp",
        "7.0 to 7.1",
        (
            ("FRM-04", "a dropped collection's event has no key"),
            ("FRM-13", "event 2 existed in 5.0 to 7.1"),
        ),
    ),
    Scenario(
        "test-cluster",
        "vbuckets beyond the usual 1024",
        _test_cluster,
        "dcp",
        "3.0 and later",
        (("FRM-15", "test clusters have other numbers of vbuckets"),),
    ),
    Scenario(
        "framed-deletions",
        "deletions with a stream id whose header denies the framing extras",
        _framed_deletions,
        "dcp",
        "7.0.5",
        (("FRM-01", "7.0.5 writes framing length 0 there: a defect of its own, not one of lengths"),),
    ),
)
