"""Messages that a later one shows to be the draft's: read as such from the first one on, within a bound."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from dissector.frames import look_ahead, reference_reader
from dissector.options import ReadOptions
from dissector.spec.model import Dialect
from tests.support import tcp_by_hand
from tests.support.tcp_by_hand import (
    CLIENT,
    READERS,
    SERVER,
    Conversation,
    Ends,
    Message,
    ReaderClass,
    Wire,
    drafted,
    drafted_item,
    drafted_request,
    mutation,
    noop,
    request,
    response,
)

readers = pytest.mark.parametrize("reader_class", READERS)
chunks = pytest.mark.parametrize("chunk_bytes", [64, 300, 4096, 1 << 16])
OTHER = Ends(ports=(40_001, 11_210), isns=(7, 8))
LOG = drafted(2, 2, value=bytes(16), vbucket=500, opaque=1)
ASKS_FOR_LOG = drafted(1, 2, vbucket=500, opaque=1)
OK, BEGIN = (drafted(opcode, subtype, vbucket=500, opaque=2) for opcode, subtype in ((2, 1), (3, 0)))
STARTS, ENDS = (drafted(4, subtype, vbucket=500, opaque=2) for subtype in (1, 2))
ASKS = drafted_request(500, 2)
ITEM = drafted_item(500, 2, 1)
SET = request(0x01, bytes(8), b"key", b"value", opaque=2, vbucket=500)
HELLO = request(0x1F, key=b"agent", value=b"\0\x12", opaque=9)
#: A SET whose extras are too long: nothing answers it in the draft's words.
BROKEN_SET = request(0x01, bytes(32), b"key", b"", opaque=3, vbucket=500, datatype=1)


def talk(*said: tuple[int, Message], opened: bool = True) -> Conversation:
    made = Conversation()
    if opened:
        made.open()
    for side, message in said:
        made.send(side, message)
    return made


def dialects(packets: Sequence[Wire], reader_class: ReaderClass, chunk_bytes: int, **more: Dialect) -> list[str]:
    options = ReadOptions(chunk_bytes=chunk_bytes, **more)
    return [row["dialect"] for row in tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), reader_class, options)]


@readers
@chunks
def test_from_the_first_message_on(reader_class: ReaderClass, chunk_bytes: int) -> None:
    said = [(CLIENT, ASKS), (SERVER, OK), (SERVER, BEGIN), (SERVER, STARTS), (SERVER, ITEM), (SERVER, ENDS)]
    made = talk(*said)
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(made.packets), reader_class, ReadOptions(chunk_bytes=chunk_bytes))
    names = ["stream_request", "stream_ok", "stream_start", "snapshot_start", "mutation", "snapshot_end"]
    assert [row["name"] for row in rows] == names
    assert [row["frame"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert (rows[0]["end_seqno"], rows[0]["key"]) == (2**63 - 1, "group")
    for row, sent in zip(rows, made.sent, strict=True):
        assert {name: row[name] for name in sent.message.expected} == dict(sent.message.expected)


SHOWN: dict[str, tuple[list[tuple[int, Message]], list[int]]] = {
    "an answer": ([(CLIENT, ASKS), (SERVER, OK)], [1, 1]),
    "a failover log": ([(CLIENT, ASKS_FOR_LOG), (SERVER, LOG)], [1, 1]),
    "an item": ([(SERVER, STARTS), (SERVER, ITEM)], [1, 1]),
    "an answer that was captured first": ([(SERVER, OK), (CLIENT, ASKS), (SERVER, STARTS), (SERVER, ITEM)], [1] * 4),
    "many questions": ([(CLIENT, ASKS), *[(CLIENT, ASKS_FOR_LOG)] * 9, (SERVER, OK)], [1] * 11),
    "after key-value commands": ([(CLIENT, SET), (CLIENT, ASKS), (CLIENT, SET), (SERVER, OK)], [0, 1, 1, 1]),
    "nothing": ([(CLIENT, ASKS), (SERVER, STARTS), (SERVER, ENDS)], [0, 0, 0]),
    "an answer to another question": ([(CLIENT, ASKS), (SERVER, LOG), (CLIENT, SET)], [0, 0, 0]),
    "an answer to another vbucket's": (
        [(CLIENT, ASKS), (SERVER, drafted(2, 1, vbucket=499, opaque=2)), (CLIENT, SET)],
        [0, 0, 0],
    ),
    "a broken SET": ([(CLIENT, BROKEN_SET), (SERVER, response(0x01, 4, opaque=3)), (CLIENT, SET)], [0, 0, 0]),
    "a HELLO before": ([(CLIENT, HELLO), (CLIENT, ASKS), (SERVER, OK), (SERVER, ITEM)], [0] * 4),
    "a HELLO between": ([(CLIENT, ASKS), (CLIENT, HELLO), (SERVER, OK), (SERVER, ITEM)], [0] * 4),
    "a broken SET, then the draft": ([(CLIENT, BROKEN_SET), (CLIENT, SET), (SERVER, ITEM)], [1, 1, 1]),
}


@readers
@chunks
@pytest.mark.parametrize("name", SHOWN)
def test_what_shows_the_draft(reader_class: ReaderClass, name: str, chunk_bytes: int) -> None:
    said, expected = SHOWN[name]
    found = dialects(talk(*said).packets, reader_class, chunk_bytes)
    assert [each == "draft" for each in found] == [bool(each) for each in expected]


@readers
@chunks
def test_upr_in_between_settles_it_too(reader_class: ReaderClass, chunk_bytes: int) -> None:
    made = talk((CLIENT, ASKS), (SERVER, tcp_by_hand.marker(500, 2, 1, 2)), (SERVER, ITEM), (SERVER, STARTS))
    assert "draft" not in dialects(made.packets, reader_class, chunk_bytes)


@readers
@chunks
def test_a_dialect_that_is_given_is_not_looked_for(reader_class: ReaderClass, chunk_bytes: int) -> None:
    made = talk((CLIENT, ASKS), (SERVER, OK), (SERVER, ITEM))
    assert dialects(made.packets, reader_class, chunk_bytes, dialect=Dialect.MEMCACHED) == ["memcached"] * 3


@readers
@chunks
@pytest.mark.parametrize("answered", [True, False])
def test_others_go_on_in_order(reader_class: ReaderClass, chunk_bytes: int, answered: bool) -> None:
    """Rows of other connections wait too, so that all stay in their order; numbers have no holes."""
    made, other = talk((CLIENT, ASKS)), Conversation(OTHER).open()
    for seqno in range(1, 40):
        other.send(SERVER, mutation(5, 6, seqno, b"key", b"v" * 99)).send(CLIENT, noop(seqno))
    if answered:
        made.send(SERVER, OK).send(SERVER, ITEM)
    packets = [*made.packets[:4], *other.packets, *made.packets[4:]]
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), reader_class, ReadOptions(chunk_bytes=chunk_bytes))
    assert [row["frame"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["packet_last"] for row in rows] == sorted(row["packet_last"] for row in rows)
    assert [row["dialect"] for row in rows if row["sport"] == 40_000][:1] == ["draft" if answered else "memcached"]


@readers
@chunks
@pytest.mark.parametrize("between", [0, 10, 18, 19, 20, 60])
def test_no_further_than_the_bound(
    reader_class: ReaderClass, chunk_bytes: int, between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too far from its proof stays what it seemed; later messages in the same form are near enough."""
    for module in (look_ahead, reference_reader):
        monkeypatch.setattr(module, "LOOK_AHEAD_BYTES", 20 * (look_ahead.FRAME_OVERHEAD + 24))
    other = Conversation(OTHER).open()
    for opaque in range(between):
        other.send(CLIENT, noop(opaque))
    made = talk((CLIENT, ASKS_FOR_LOG), (CLIENT, ASKS_FOR_LOG), (CLIENT, ASKS_FOR_LOG), (SERVER, LOG))
    packets = [*made.packets[:4], *other.packets, *made.packets[4:]]
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), reader_class, ReadOptions(chunk_bytes=chunk_bytes))
    found = [row["dialect"] for row in rows if row["sport"] == 40_000 or row["dport"] == 40_000]
    # Its own end, two messages more and the proof count as well; the proof has 16 bytes more than the others.
    assert found == ["draft" if between <= 16 else "memcached", "draft", "draft", "draft"]


@readers
@chunks
def test_ports_that_are_used_again(reader_class: ReaderClass, chunk_bytes: int) -> None:
    """What proves another connection's dialect proves nothing of the one before."""
    first = talk((CLIENT, ASKS))
    second = Conversation(Ends(isns=(90, 91))).open().send(CLIENT, SET).send(SERVER, OK).send(SERVER, ITEM)
    found = dialects([*first.packets, *second.packets], reader_class, chunk_bytes)
    assert found == ["memcached", "memcached", "draft", "draft"]


def test_frames_of_ended_connections_wait_for_nothing() -> None:
    """Hostile traffic of this form holds back no more than the bound, whatever becomes of its connections."""
    packets: list[Wire] = []
    for number in range(200):
        made = Conversation(Ends(ports=(41_000 + number, 11_210))).open().send(CLIENT, ASKS)
        packets += made.packets
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), READERS[1], ReadOptions(chunk_bytes=300))
    assert [row["dialect"] for row in rows] == ["memcached"] * 200


def test_an_open_in_the_drafts_place() -> None:
    """UPR whose vbucket and opaque agree with a question of the draft is still UPR."""
    opens = request(0x50, struct.pack(">II", 0, 1), b"name", opaque=1)
    for reader_class in READERS:
        found = dialects(talk((CLIENT, ASKS), (CLIENT, opens)).packets, reader_class, 300)
        assert found == ["memcached", "dcp"]
