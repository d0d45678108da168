"""How connections are set up otherwise than usual: all at once, at the second try, with fewer features than wanted.

Each scenario is about exceptions of the rules on connections (CON); the reasons stand beside it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.encoder import pack_xattrs
from dissector.generate.bucket import Bucket
from dissector.generate.conversation import CLIENT
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import ENDS_CLOSED, FROM_DISK, FRUIT, OSO_END, OSO_START, XATTR
from dissector.generate.scenarios.setup import (
    INCLUDE_DELETE_TIMES,
    INCLUDE_XATTRS,
    JSON_VALUES,
    RELEASE_7,
    SELECT_BUCKET,
    SNAPPY,
    XERROR,
    modern,
    new_conversation,
    plain,
)
from dissector.generate.scenarios.setup import XATTR as XATTR_FEATURE
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, PRODUCER, REASON_CLOSED, Session
from dissector.generate.stream import JSON
from dissector.spec import enums

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.frame import Frame
    from dissector.generate.scenario import Size

NO_VALUE = enums.OPEN_FLAGS.bit("no_value")
_KEEP_DATATYPE = enums.OPEN_FLAGS.bit("no_value_with_underlying_datatype")
_INVALID, _NOT_SUPPORTED = map(enums.STATUSES.number, ("invalid_arguments", "not_supported"))
#: What a consumer of 7.x asks for, in its order.
_CONTROLS = (
    ("connection_buffer_size", "20480"),
    ("enable_noop", "true"),
    ("set_noop_interval", "20"),
    ("supports_cursor_dropping_vulcan", "true"),
    ("supports_hifi_MFU", "true"),
    ENDS_CLOSED,
    ("enable_expiry_opcode", "true"),
    ("v7_dcp_status_codes", "true"),
)


def _pipelined_open(chance: random.Random, _size: Size) -> list[Conversation]:
    session = Session(new_conversation(name="hasty"), chance, bucket=Bucket(), acking=True)
    asked = [
        session.frame("open", fields={"open_flags": PRODUCER}, key=b"hasty", opaque=session.opaque()),
        _control(session, "connection_buffer_size", "20480"),
        _control(session, "enable_noop", "true"),
        _control(session, "set_noop_interval", "20"),
    ]
    for frame in asked:
        session.send(CLIENT, frame)
    stream = session.request(0)
    for frame in asked:
        session.send(session.producer, session.frame(frame.name, response=True, opaque=frame.opaque))
        if frame.name == "control":
            session.heed(frame.key.decode(), frame.value.decode())
    stream.accept()
    stream.follow(12, DISK)
    stream.follow(20, MEMORY | CHECKPOINT)
    session.idle(21)
    stream.close()
    return [session.conversation]


def _control(session: Session, key: str, value: str) -> Frame:
    return session.frame("control", key=key.encode(), value=value.encode(), opaque=session.opaque())


def _open_retried(chance: random.Random, _size: Size) -> list[Conversation]:
    session = Session(new_conversation(name="second-try"), chance, bucket=Bucket(), acking=True, delete_times=True)
    session.hello((XATTR_FEATURE, XERROR, SELECT_BUCKET, SNAPPY, JSON_VALUES))
    session.select_bucket()
    both = PRODUCER | NO_VALUE | _KEEP_DATATYPE  # these two exclude each other
    refused = session.frame("open", fields={"open_flags": both}, key=b"second-try", opaque=session.opaque())
    session.ask(CLIENT, refused, status=_INVALID)
    session.open(b"second-try", PRODUCER | NO_VALUE | INCLUDE_DELETE_TIMES)
    session.control("enable_noop", "true")
    session.control("set_noop_interval", "20")
    stream = session.stream(0)
    stream.marker(0, 10, FROM_DISK)
    for seqno in range(1, 11):
        stream.mutation(seqno, b"key-%d" % seqno, b"")
    stream.marker(11, 12, MEMORY)
    stream.deletion(11, b"key-1")
    stream.mutation(12, b"key-2", b"")
    session.idle(21)
    stream.close()
    return [session.conversation]


def _server_consumer(chance: random.Random, _size: Size) -> list[Conversation]:
    session = Session(
        new_conversation(name="replication:n0->n1:default", server="10.0.0.3"),
        chance,
        era=RELEASE_7,
        producer=CLIENT,
        bucket=Bucket(),
    )
    session.hello((XATTR_FEATURE, XERROR, SELECT_BUCKET, SNAPPY, JSON_VALUES, enums.COLLECTIONS_FEATURE))
    session.select_bucket()
    session.open(b"replication:n0->n1:default", 0)
    # The relay adds a stream; the consumer sets its parameters, all at once, and waits for the answers.
    added = session.frame("add_stream", opaque=bytes.fromhex("000000a1"), fields={"stream_flags": 0})
    session.send(CLIENT, added)
    session.next_opaque = 2
    asked = [_control(session, key, value) for key, value in _CONTROLS]
    for frame in asked:
        session.send(session.consumer, frame)
    for frame in asked:
        session.send(session.producer, session.frame("control", response=True, opaque=frame.opaque))
    stream = session.request(0, opaque=(1).to_bytes(4, "little"), value=b'{"uid":"0"}')
    stream.accept()
    confirmed = session.frame("add_stream", response=True, opaque=added.opaque, fields={"stream_opaque": 1})
    session.send(session.consumer, confirmed)
    stream.marker(0, 12, FROM_DISK)
    for seqno in range(1, 13):
        # Deletions have their times, whatever the open says: the consumer has collections.
        if seqno % 4 == 0:
            stream.deletion(seqno, b"key-%d" % seqno)
        else:
            stream.mutation(seqno, b"key-%d" % seqno, b'{"n":%d}' % seqno, datatype=JSON)
    session.ack()
    session.idle(21)
    return [session.conversation]


def _old_expirations(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "expiry")
    stream = session.stream(0)
    stream.marker(0, 12, DISK)
    for seqno in range(1, 13):
        if seqno % 3 == 0:
            stream.expiration(seqno, b"key-%d" % seqno, nmeta=0)
        else:
            stream.mutation(seqno, b"key-%d" % seqno, b'{"n":%d}' % seqno, datatype=JSON)
    session.idle(21)
    stream.close()
    return [session.conversation]


def _expiry_without_times(chance: random.Random, _size: Size) -> list[Conversation]:
    controls = (("enable_expiry_opcode", "true"), ENDS_CLOSED)
    session = modern(chance, "no-times", collections=False, flags=PRODUCER | INCLUDE_XATTRS, controls=controls)
    stream = session.stream(0)
    stream.marker(0, 12, FROM_DISK)
    for seqno in range(1, 13):
        # What has expired is a deletion of the old form: without flag 0x20 the control has no effect.
        if seqno % 3 == 0:
            stream.deletion(seqno, b"key-%d" % seqno)
        else:
            stream.mutation(seqno, b"key-%d" % seqno, b'{"n":%d}' % seqno, datatype=JSON)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _no_value_xattrs(chance: random.Random, _size: Size) -> list[Conversation]:
    flags = PRODUCER | INCLUDE_XATTRS | INCLUDE_DELETE_TIMES | NO_VALUE
    session = modern(chance, "xattrs-only", flags=flags)
    stream = session.stream(0)
    stream.marker(0, 12, FROM_DISK)
    for seqno in range(1, 13):
        kept = pack_xattrs([(b"_sync", b'{"rev":"%d-a"}' % seqno)]) if seqno % 2 else b""
        stream.mutation(seqno, b"key-%d" % seqno, kept, datatype=XATTR if kept else 0)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _control_retried(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "retries")
    # A server of 7.0 has no seqno advanced in out-of-order snapshots, and no fractions of seconds.
    session.control("set_noop_interval", "0.5", status=_INVALID)
    session.control("set_noop_interval", "20")
    session.control("enable_out_of_order_snapshots", "true_with_seqno_advanced", status=_INVALID)
    session.control("enable_out_of_order_snapshots", "true")
    stream = session.stream(0, value=b'{"collections":["%x"]}' % FRUIT)
    stream.bracket(OSO_START)
    seqnos = list(range(4, 40, 3))
    chance.shuffle(seqnos)
    for at, seqno in enumerate(seqnos):
        stream.mutation(seqno, b"k%03d" % at, collection=FRUIT, datatype=JSON)
    stream.bracket(OSO_END)
    session.idle(21)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


def _control_refused(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "modest")
    session.control("enable_stream_id", "true", status=_NOT_SUPPORTED)
    session.control("max_marker_version", "2.2", status=_INVALID)
    stream = session.stream(0, log=session.bucket.vbucket(0).log)
    stream.marker(0, 12, FROM_DISK)
    for seqno in range(1, 13):
        stream.mutation(seqno, b"key-%d" % seqno, b'{"n":%d}' % seqno, datatype=JSON)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "pipelined-open",
        "a client that sends open, controls and a stream request before any answer comes",
        _pipelined_open,
        "dcp",
        "3.0 and later",
        (
            ("CON-01", "controls may be sent before the open is answered"),
            ("CON-09", "clients need not wait for the answers to their controls"),
        ),
    ),
    Scenario(
        "open-retried",
        "an open that is refused, and one with other flags",
        _open_retried,
        "dcp",
        "6.5 and later",
        (
            ("CON-01", "the second open is the one that counts"),
            ("CON-02", "an open that was refused may be tried again"),
        ),
    ),
    Scenario(
        "server-consumer",
        "a relay's leg to a consumer of 7.x, which sends its controls at once and waits for the answers",
        _server_consumer,
        "dcp",
        "7.0 and later",
        (
            ("CON-03", "the side that opened the connection sends the data"),
            ("CON-05", "a consumer with collections demands deletions with their times, whatever the open says"),
            ("CON-09", "controls may be sent all at once, before any of them is answered"),
        ),
    ),
    Scenario(
        "old-expirations",
        "expirations in the form of 3.0",
        _old_expirations,
        "dcp",
        "3.0 to 6.0",
        (("CON-05", "expirations of 18 bytes are older than the control that asks for them"),),
    ),
    Scenario(
        "expiry-without-times",
        "enable_expiry_opcode without open flag 0x20: deletions in the old form",
        _expiry_without_times,
        "dcp",
        "6.5 and later",
        (("CON-05", "without open flag 0x20 deletions have 18 bytes, and nothing comes as an expiration"),),
    ),
    Scenario(
        "no-value-xattrs",
        "open flags 0x08 and 0x04: xattrs, and no documents",
        _no_value_xattrs,
        "dcp",
        "5.0 and later",
        (("CON-06", "with flag 0x04 xattrs come though documents do not"),),
    ),
    Scenario(
        "control-retried",
        "controls that are refused with one value and granted with another",
        _control_retried,
        "dcp",
        "7.0 and later",
        (
            ("CON-07", "a control may be tried again with another value"),
            ("SNP-01", "an out-of-order snapshot begins with its bracket, not with a marker"),
            ("SNP-02", "inside the bracket there is no marker"),
            ("SEQ-01", "inside the bracket seqnos have no order"),
        ),
    ),
    Scenario(
        "control-refused",
        "controls that are refused, and done without",
        _control_refused,
        "dcp",
        "7.0 and later",
        (("CON-07", "what was refused is not used"),),
    ),
)
