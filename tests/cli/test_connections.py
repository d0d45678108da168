"""``uprscope connections``: against what the clients of the recordings saw, and against conversations made by hand."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import struct
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.capture import Input
from dissector.frames.batch import FrameBatch
from dissector.frames.reader import FrameReader
from dissector.frames.reference_reader import ReferenceReader
from dissector.options import ReadOptions
from dissector.spec import enums, registry
from dissector.summary import rows as summary_rows
from dissector.summary.connections import ConnectionSummaries, ConnectionSummary, forget
from dissector.summary.rows import ConnectionRows, stream_rows
from dissector.summary.schema import CONNECTION_COLUMNS, HASH_COLUMNS, STREAM_COLUMNS
from dissector.summary.streams import Streams
from dissector.tcp.connections import Connection
from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import (
    CLIENT,
    FIN,
    RST,
    SERVER,
    STEP_NS,
    Conversation,
    Ends,
    Message,
    Wire,
    counted,
    drop,
    duplicate,
    first_copies,
    marker,
    move,
    mutation,
    pcap,
    request,
    response,
    stream_answer,
    widen,
)
from uprscope.cli import main

Row = dict[str, Any]
Run = Callable[..., tuple[int, bytes, str]]
COMMITTED = sorted(path for path in CAPTURES.glob("*.pcap*") if path.with_suffix(".truth.json.gz").exists())
#: Cut, or begun in the middle: their truth tells more than they hold.
WHOLE = [path for path in COMMITTED if not path.name.startswith(("07a", "07b"))]
ITEMS = {0x57, 0x58, 0x59, 0x5F, 0x60, 0x62, 0x63, 0x64}
MESSAGES = {*ITEMS, 0x55, 0x56, 0x5A, 0x5B, 0x65}
LISTS = {"contradictions", "defect_ids", "client_gap_list", "server_gap_list"}


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command on captures, given as paths or as packets; return status, stdout and stderr."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def command(source: Path | Sequence[Wire], *args: str) -> tuple[int, bytes, str]:
        path = source
        if not isinstance(path, Path):
            path = tmp_path / "made.pcap"
            path.write_bytes(pcap(source if not isinstance(source, Path) else ()))
        status = main(["connections", str(path), *args])
        out, err = capsysbinary.readouterr()
        return status, out, err.decode()

    return command


@pytest.fixture
def listed(run: Run) -> Callable[..., list[Row]]:
    """Run the command and return its rows; it must succeed."""

    def command(source: Path | Sequence[Wire], *args: str) -> list[Row]:
        status, out, _ = run(source, "--format", "json", *args)
        assert status == 0
        rows: list[Row] = json.loads(out)
        return rows

    return command


def truth_of(path: Path) -> list[Row]:
    with gzip.open(path.with_suffix(".truth.json.gz"), "rt") as file:
        connections: list[Row] = json.load(file)["connections"]
    return connections


def place(address: str, port: int) -> str:
    return f"{address}:{port}"


def plain(text: str) -> str:
    return text.replace("[", "").replace("]", "")


# -------------------------------------------------------------------------------------------------------------- truth


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_connections_are_what_the_client_saw(path: Path, listed: Callable[..., list[Row]]) -> None:
    rows = {place(row["client"], row["client_port"]): row for row in listed(path)}
    seen = 0
    for truth in truth_of(path):
        row = rows.get(plain(truth["client"]))
        if row is None:
            assert not truth["message_count"]
            continue
        seen += 1
        assert place(row["server"], row["server_port"]) == plain(truth["server"])
        assert row["handshake"]
        assert (row["client_bytes"], row["server_bytes"]) == (truth["bytes"]["c2s"], truth["bytes"]["s2c"])
        assert row["client_frames"] == sum(message["dir"] == "c2s" for message in truth["messages"])
        assert row["server_frames"] == sum(message["dir"] == "s2c" for message in truth["messages"])
        opens = [message for message in truth["messages"] if message["opcode"] == 0x50 and message["magic"] == 0x80]
        assert row.get("name") == (opens[0]["key"] if opens else None)
        if opens:
            # Bit 0: the receiver, here the server, is the producer; bit 1, a notifier, is one too.
            assert row["producer"] == ("server" if opens[-1]["f"]["flags"] & 3 else "client")
            assert row["consumer"] == ("client" if row["producer"] == "server" else "server")
        assert row["ended"] == "closed"
        agents = [message["key"] for message in truth["messages"] if message["opcode"] == 0x1F and "key" in message]
        assert row.get("agent") == (agents[-1] if agents else None)
    assert seen


def truth_streams(truth: Row) -> list[Row]:
    """Go through a client's messages one by one: what each stream was."""
    streams: list[Row] = []
    pending: defaultdict[tuple[str, int], deque[Row]] = defaultdict(deque)
    current: dict[tuple[str, int, int], Row] = {}
    for message in truth["messages"]:
        opcode, way = message["opcode"], message["dir"]
        fields = message.get("f", {})
        is_request = message["magic"] in (0x80, 0x08)
        if opcode == 0x53 and is_request:
            value = json.loads(fields.get("json", "{}"))
            stream = {
                "vbucket": message["vbucket"],
                "stream_id": value.get("sid"),
                "opaque": message["opaque"],
                "status_code": None,
                **dict.fromkeys(("items", "snapshots", "bytes"), 0),
                **dict.fromkeys(("first_seqno", "last_seqno", "end_reason")),
            }
            streams.append(stream)
            pending[way, message["opaque"]].append(stream)
        elif opcode == 0x53:
            stream = pending["c2s" if way == "s2c" else "s2c", message["opaque"]].popleft()
            stream["status_code"] = message["status"]
            if message["status"] == 0:
                current[way, stream["vbucket"], stream["stream_id"] or 0] = stream
        elif is_request and opcode in MESSAGES:
            sid = fields.get("sid") or message.get("sid") or 0
            stream = current[way, message["vbucket"], sid]
            stream["bytes"] += message["size"]
            if opcode in ITEMS:
                seqno = fields["by_seqno"]
                stream["items"] += 1
                stream["first_seqno"] = seqno if stream["first_seqno"] is None else stream["first_seqno"]
                stream["last_seqno"] = seqno
            elif opcode == 0x56:
                stream["snapshots"] += 1
            elif opcode == 0x55:
                stream["end_reason"] = fields["flags"] if "flags" in fields else fields["reason"]
    return streams


@pytest.mark.parametrize("path", [path for path in WHOLE if "09_feed" not in path.name], ids=lambda path: path.stem)
def test_streams_are_what_the_client_saw(path: Path, listed: Callable[..., list[Row]]) -> None:
    ids = {row["connection"]: place(row["client"], row["client_port"]) for row in listed(path)}
    rows = listed(path, "--streams")
    for truth in truth_of(path):
        expected = truth_streams(truth)
        own = [row for row in rows if ids[row["connection"]] == plain(truth["client"])]
        assert [{name: row.get(name) for name in expected[0]} for row in own] == expected if expected else not own
        assert all(row["request_captured"] for row in own)
        for key, sums in truth.get("per_vbucket", {}).items():
            vbucket, _, sid = key.partition("/")
            there = [
                row for row in own if row["vbucket"] == int(vbucket) and (not sid or row.get("stream_id") == int(sid))
            ]
            assert sum(row["snapshots"] for row in there) == sums["markers"]
            assert sum(row["items"] for row in there) >= sums["count"]
            assert sorted(row["end_reason"] for row in there if "end_reason" in row) == sorted(sums["stream_ends"])


def test_the_leg_to_a_real_consumer(listed: Callable[..., list[Row]]) -> None:
    """The TCP client feeds: it is the producer, and the server asks for the streams."""
    path = CAPTURES / "09_feed_real_consumer.pcap"
    rows = [row for row in listed(path, "--streams") if row["name"] == "feed-good"]
    truth = next(entry for entry in truth_of(path) if entry["name"] == "feed-good")
    assert {row["producer"] for row in rows} == {"client"}
    for vbucket, sums in truth["per_vbucket"].items():
        row = next(row for row in rows if row["vbucket"] == int(vbucket))
        found = (row["items"], row["snapshots"], row["first_seqno"], row["last_seqno"])
        assert found == (sums["count"], sums["markers"], sums["first_seqno"], sums["last_seqno"])


def test_a_capture_from_the_middle(listed: Callable[..., list[Row]]) -> None:
    path = CAPTURES / "07b_midconnection.pcap"
    rows = [row for row in listed(path, "--streams") if not row["request_captured"]]
    assert [row["vbucket"] for row in rows] == [0, 1, 2, 3]
    assert all("request_frame" not in row and "status" not in row for row in rows)
    truth = next(entry for entry in truth_of(path) if 0x56 in {each["opcode"] for each in entry["messages"]})
    lasts = {int(vbucket): sums["last_seqno"] for vbucket, sums in truth["per_vbucket"].items()}
    assert {row["vbucket"]: row["last_seqno"] for row in rows} == lasts
    late = [entry["client"] for entry in truth_of(path) if "capture_started_mid_connection" in entry]
    ends = ("client", "server")  # which of them is the client cannot be told
    places = [{place(row[end], row[f"{end}_port"]) for end in ends} for row in listed(path) if not row["handshake"]]
    assert len(places) == len(late)
    assert all(any(client in pair for pair in places) for client in late)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_era_and_dialect_are_the_detector_s(path: Path) -> None:
    """The detector of the plain path sees every frame; the fold sees every form once."""
    found: dict[str, ConnectionSummary | None] = {}
    summaries = ConnectionSummaries(lambda connection, member: found.__setitem__(connection.id, member))
    ended: list[Connection] = []
    for batch in FrameReader([Input(path.name, path)], ReadOptions(chunk_bytes=4096), ended=summaries.end):
        summaries.fold(FrameBatch(batch))
        summaries.release_ended()
    for _ in ReferenceReader([Input(path.name, path)], ended=ended.append):
        pass
    assert len(ended) == len(found)
    for connection in ended:
        verdict, member = connection.detector.verdict(), found[connection.id]
        if member is None:
            assert not any(framer.frames for framer in connection.framers)
            continue
        spoken = connection.detector.spoken
        assert member.era.releases(spoken) == (verdict.era, verdict.until)
        assert member.era.contradictions(spoken) == [entry.says for entry in verdict.contradictions]
        # The detector takes the flag of a notifier for none, and reads flags that a snap length has cut off as 0.
        if member.name != "notifier" and not path.name.startswith("07a"):
            assert member.producer == verdict.producer


# ------------------------------------------------------------------------------------------------------ conversations


def open_request(name: bytes, flags: int = 1) -> Message:
    return request(0x50, struct.pack(">II", 0, flags), name, opaque=1)


def stream_request(
    vbucket: int, opaque: int, *, start: int = 0, end: int = 2**64 - 1, uuid: int = 0, value: bytes = b""
) -> Message:
    extras = struct.pack(">IIQQQQQ", 0, 0, start, end, uuid, start, start)
    return request(0x53, extras, b"", value, vbucket=vbucket, opaque=opaque)


def stream_end(vbucket: int, opaque: int, reason: int) -> Message:
    return counted(0x55, struct.pack(">I", reason), vbucket=vbucket, opaque=opaque)


def begun(name: bytes = b"replica", ends: Ends | None = None) -> Conversation:
    conversation = Conversation(ends or Ends()).open()
    return conversation.send(CLIENT, open_request(name)).send(SERVER, response(0x50, opaque=1))


def test_one_connection_of_every_kind_of_trouble(listed: Callable[..., list[Row]]) -> None:
    conversation = begun(b"lossy").send(CLIENT, stream_request(3, 9)).send(SERVER, stream_answer(9))
    lines = [mutation(3, 9, seqno, b"k%d" % seqno, bytes(300)) for seqno in range(1, 21)]
    conversation.send(SERVER, marker(3, 9, 0, 20), *lines, mss=500).close(CLIENT).close(SERVER)
    packets = conversation.packets
    data = [index for index, packet in enumerate(packets) if packet.side == SERVER and len(packet.data) == 500]
    faulty = drop(duplicate(packets, data[0], data[0] + 1), data[5] + 1)
    (row,) = listed(faulty)
    assert row["name"] == "lossy"
    assert (row["server_gaps"], row["server_bytes_lost"], row["server_bytes_repeated"]) == (1, 500, 500)
    assert row["server_bytes"] == len(conversation.streams[SERVER]) - 500
    assert (row["client_bytes"], row["client_gaps"]) == (len(conversation.streams[CLIENT]), 0)
    assert row["duration_ns"] == (len(faulty) - 1) * STEP_NS
    assert row["start"] == "2023-11-14T22:13:20.000000000Z"  # date -u -d @1700000000
    assert (row["dialect"], row["era"], row["contradictions"]) == ("dcp", "3.0+", [])
    assert row["ended"] == "closed"


@pytest.mark.parametrize(
    ("closing", "ended"),
    [
        ([], "open"),
        ([(CLIENT, FIN)], "half-closed"),
        ([(SERVER, FIN), (CLIENT, FIN)], "closed"),
        ([(SERVER, RST)], "reset"),
        ([(CLIENT, FIN), (SERVER, RST)], "reset"),
    ],
)
def test_how_a_connection_ended(closing: list[tuple[int, int]], ended: str, listed: Callable[..., list[Row]]) -> None:
    conversation = begun()
    for side, flags in closing:
        conversation.close(side, flags)
    assert [row["ended"] for row in listed(conversation.packets)] == [ended]


def test_ports_that_are_used_again(listed: Callable[..., list[Row]]) -> None:
    first, second = begun(b"one"), begun(b"two", Ends(isns=(77_000, 99_000)))
    rows = listed([*first.packets, *second.packets])
    assert [(row["name"], row["ended"]) for row in rows] == [("one", "reused"), ("two", "open")]
    assert [row["number"] for row in rows] == [1, 2]
    assert rows[0]["connection"] != rows[1]["connection"]


def test_contradictions_are_listed(run: Run, listed: Callable[..., list[Row]]) -> None:
    short = request(0x53, struct.pack(">IIQQQQ", 0, 0, 0, 5, 0, 0), vbucket=1, opaque=3)
    conversation = begun().send(CLIENT, stream_request(0, 2), short)
    (row,) = listed(conversation.packets)
    assert row["contradictions"] == ["upr: stream_request with 40 bytes of extras"]
    assert b"contradiction: upr: stream_request" in run(conversation.packets)[1]
    prototype = counted(0x57, bytes(7) + b"\1" + bytes(24), b"k", vbucket=0, opaque=2)  # 5.0 to 6.0
    version_0 = counted(0x56, b"\0", b"", bytes(36), vbucket=0, opaque=2)  # 6.5 and later
    assert [row["era"] for row in listed(begun().send(SERVER, prototype).packets)] == ["5.0 to 6.0"]
    (row,) = listed(begun().send(SERVER, prototype, version_0).packets)
    assert row["era"] == "6.5+"
    assert row["contradictions"] == ["messages that only 6.0 and before sent, and some of 6.5"]


def test_a_refused_bucket_does_not_count(listed: Callable[..., list[Row]]) -> None:
    conversation = Conversation().open()
    for opaque, bucket, status in ((1, b"first", 0), (2, b"second", 0), (3, b"third", 0x24)):
        conversation.send(CLIENT, request(0x89, b"", bucket, opaque=opaque))
        conversation.send(SERVER, response(0x89, status, opaque=opaque))
    hello = request(0x1F, b"", b"agent/1.0", struct.pack(">H", 0x12), opaque=4)
    conversation.send(CLIENT, hello).send(SERVER, response(0x1F, 0, struct.pack(">H", 0x12), opaque=4))
    (row,) = listed(conversation.packets)
    assert (row["bucket"], row["agent"], row["collections"]) == ("second", "agent/1.0", True)


def test_defects_are_counted_by_frame(listed: Callable[..., list[Row]]) -> None:
    conversation = begun().send(SERVER, mutation(0, 1, 1, b"k"), request(0x57, b"\1\2\3", b"", vbucket=0, opaque=1))
    (row,) = listed(conversation.packets)
    assert (row["defective_frames"], row["worst_defect"]) == (1, "error")
    assert set(row["defect_ids"]) <= set(registry.DEFECT_BY_ID)
    assert "extras-length-unknown" in row["defect_ids"]


def test_streams_that_follow_each_other(listed: Callable[..., list[Row]]) -> None:
    conversation = begun()
    conversation.send(CLIENT, stream_request(5, 7, start=40, uuid=2**64 - 1))
    conversation.send(SERVER, response(0x53, 0x23, struct.pack(">Q", 12), opaque=7))
    conversation.send(CLIENT, stream_request(5, 7, start=12))  # the same opaque again: legal (OPQ-12)
    conversation.send(
        SERVER, stream_answer(7), marker(5, 7, 12, 14), mutation(5, 7, 13, b"a"), mutation(5, 7, 14, b"b")
    )
    conversation.send(CLIENT, stream_request(5, 8, start=14))
    conversation.send(SERVER, mutation(5, 7, 15, b"c"), stream_answer(8), mutation(5, 8, 16, b"d"), stream_end(5, 8, 4))
    conversation.send(CLIENT, stream_request(6, 9), stream_request(7, 10)).send(SERVER, stream_answer(10))
    rows = listed(conversation.packets, "--streams")
    size = [len(mutation(5, 7, 1, b"a").data), len(marker(5, 7, 1, 2).data), len(stream_end(5, 8, 4).data)]
    names = ("opaque", "status", "items", "bytes", "first_seqno", "last_seqno", "ended")
    assert [tuple(row.get(name) for name in names) for row in rows] == [
        (7, "rollback", 0, 0, None, None, "refused"),
        (7, "success", 3, 3 * size[0] + size[1], 13, 15, "replaced"),
        (8, "success", 1, size[0] + size[2], 16, 16, "too_slow"),
        (9, None, 0, 0, None, None, "unanswered"),
        (10, "success", 0, 0, None, None, "open"),
    ]
    assert (rows[0]["rollback_seqno"], rows[0]["vbucket_uuid"]) == (12, "0x" + 16 * "f")
    assert ("end_seqno" in rows[0], rows[0]["open_ended"]) == (False, True)


def test_a_close_without_a_stream_end(listed: Callable[..., list[Row]]) -> None:
    conversation = begun().send(CLIENT, stream_request(5, 7)).send(SERVER, stream_answer(7), mutation(5, 7, 1, b"a"))
    conversation.send(CLIENT, request(0x52, vbucket=5, opaque=8)).send(SERVER, response(0x52, opaque=8))
    assert [row["ended"] for row in listed(conversation.packets, "--streams")] == ["close_stream"]


def test_an_answer_whose_request_is_lost_is_found_by_its_opaque(listed: Callable[..., list[Row]]) -> None:
    conversation = begun().send(CLIENT, stream_request(5, 7))
    lost = len(conversation.packets) - 1
    conversation.send(SERVER, stream_answer(7), mutation(5, 7, 1, b"a")).send(SERVER, response(0x53, 7, opaque=44))
    (first, second) = listed(drop(conversation.packets, lost), "--streams")
    assert (first["vbucket"], first["status"], first["items"], first["request_captured"]) == (5, "success", 1, False)
    assert (second["status"], second["ended"], second.get("vbucket")) == ("not_my_vbucket", "refused", None)


def test_an_answer_that_was_captured_before_its_request(listed: Callable[..., list[Row]]) -> None:
    conversation = begun().send(CLIENT, stream_request(5, 7))
    late = len(conversation.packets) - 1
    conversation.send(SERVER, stream_answer(7), mutation(5, 7, 1, b"a"), mss=40).send(SERVER, mutation(5, 7, 2, b"b"))
    (row,) = listed(move(conversation.packets, late, len(conversation.packets) - 2), "--streams")
    assert (row["vbucket"], row["status"], row["items"], row["request_captured"]) == (5, "success", 2, True)
    # The same opaque again: an answer that was sent before this request had arrived is not its own.
    again = begun().send(SERVER, stream_answer(7)).send(CLIENT, stream_request(5, 7))
    assert [row["ended"] for row in listed(again.packets, "--streams")] == ["open", "unanswered"]


def test_the_draft(listed: Callable[..., list[Row]]) -> None:
    def push(opcode: int, subtype: int, extras: bytes = b"", key: bytes = b"", *, vbucket: int, opaque: int) -> Message:
        head = struct.pack(">BBHBBH", 0x81, opcode, len(key), len(extras), subtype, vbucket)
        return Message(head + struct.pack(">IIQ", len(extras) + len(key), opaque, 0) + extras + key)

    asked = struct.pack(">QQQQ", 0, 100, 0xABC, 50)
    item = struct.pack(">QQIII", 41, 1, 0, 0, 0)
    conversation = Conversation().open()
    for vbucket, opaque in ((3, 70), (4, 71)):
        conversation.send(CLIENT, request(0x01, asked, b"group", vbucket=vbucket, opaque=opaque, datatype=1))
    conversation.send(SERVER, push(0x02, 1, vbucket=3, opaque=70), push(0x03, 0, vbucket=3, opaque=70))
    conversation.send(SERVER, push(0x02, 2, vbucket=4, opaque=71))
    conversation.send(SERVER, push(0x04, 1, vbucket=3, opaque=70), push(0x04, 3, item, b"key", vbucket=3, opaque=70))
    conversation.send(SERVER, push(0x04, 2, vbucket=3, opaque=70), push(0x05, 1, vbucket=3, opaque=70))
    # The requests look like SETs until an answer tells: they are read when it has come.
    (row,) = listed(conversation.packets)
    assert (row["dialect"], row["era"], row["producer"]) == ("draft", "before 3.0", "server")
    first, second = listed(conversation.packets, "--streams")
    assert (first["vbucket"], first["status"], first["items"], first["request_captured"]) == (3, "stream_ok", 1, True)
    assert (second["vbucket"], second["ended"]) == (4, "refused")
    (row,) = listed(conversation.packets, "--dialect", "draft")
    assert row["name"] == "group"
    first, second = listed(conversation.packets, "--streams", "--dialect", "draft")
    assert (first["vbucket"], first["status"], first["start_seqno"], first["end_seqno"]) == (3, "stream_ok", 0, 100)
    assert (first["items"], first["snapshots"], first["first_seqno"], first["end_reason"]) == (1, 1, 41, 1)
    known = enums.DRAFT_END_REASONS.member(1)
    assert known is not None
    assert first["ended"] == known.name
    assert first["bytes"] == sum(len(frame) for frame in (bytes(24),) * 4) + 24 + len(item) + len(b"key")
    assert (second["vbucket"], second["status"], second["ended"]) == (4, "stream_not_my_vbucket", "refused")


def slow_streams(frames: list[Row]) -> list[tuple[Any, ...]]:
    """Go through rows of frames one by one."""
    streams: list[Row] = []
    pending: defaultdict[tuple[str, int, int], deque[Row]] = defaultdict(deque)
    current: dict[tuple[str, int, int], Row] = {}
    for frame in frames:
        connection, way = frame["connection"], frame["direction"]
        if frame["opcode"] == 0x53 and not frame["response"]:
            stream = {"connection": connection, "vbucket": frame["vbucket"], "asked": True, "status": None}
            streams.append(stream)
            pending[connection, way, frame["opaque"]].append(stream)
        elif frame["opcode"] == 0x53:
            stream = pending[connection, 1 - way, frame["opaque"]].popleft()
            stream["status"] = frame["status"]
            if not frame["status"]:
                current[connection, way, stream["vbucket"]] = stream
        elif frame["opcode"] in MESSAGES and not frame["response"]:
            key = (connection, way, frame["vbucket"])
            if key not in current:
                current[key] = {"connection": connection, "vbucket": frame["vbucket"], "asked": False, "status": None}
                streams.append(current[key])
            stream = current[key]
            stream["bytes"] = stream.get("bytes", 0) + frame["end_offset"] - frame["start_offset"]
            if frame["opcode"] in ITEMS:
                stream["items"] = stream.get("items", 0) + 1
                stream.setdefault("first", frame["by_seqno"])
                stream["last"] = frame["by_seqno"]
            stream["reason"] = frame["end_reason"] if frame["opcode"] == 0x55 else stream.get("reason")
    return [
        (
            *(each["connection"], each["vbucket"], each["asked"], each["status"], each.get("bytes", 0)),
            *(each.get("items", 0), each.get("first"), each.get("last"), each.get("reason")),
        )
        for each in streams
    ]


steps = st.lists(
    st.tuples(st.sampled_from(("ask", "answer", "refuse", "send", "end")), st.integers(0, 1), st.integers(0, 2)),
    max_size=40,
)


@given(steps, st.integers(0, 2**32))
def test_any_order_of_requests_answers_and_data(todo: list[tuple[str, int, int]], salt: int) -> None:
    """Against a state machine that takes one frame at a time, for several chunk sizes."""
    made = [begun(b"c%d" % each, Ends(ports=(40_000 + each, 11_210))) for each in range(2)]
    waiting: tuple[list[tuple[int, int]], ...] = ([], [])
    packets: list[Wire] = [packet for each in made for packet in each.packets]
    for number, (what, which, vbucket) in enumerate(todo):
        conversation, before = made[which], len(made[which].packets)
        if what == "ask":
            waiting[which].append((vbucket, salt % 3))
            conversation.send(CLIENT, stream_request(vbucket, salt % 3))
        elif what in ("answer", "refuse") and waiting[which]:
            _, opaque = waiting[which].pop(0)
            conversation.send(SERVER, stream_answer(opaque) if what == "answer" else response(0x53, 2, opaque=opaque))
        elif what == "send":
            conversation.send(SERVER, mutation(vbucket, 1, number + 1, b"key", bytes(number)))
        elif what == "end":
            conversation.send(SERVER, stream_end(vbucket, 1, number % 5))
        packets += conversation.packets[before:]
    data = pcap(packets)
    expected = slow_streams(folded(data, 1 << 20)[0])
    names = ("connection", "vbucket", "request_captured", "status_code", "bytes", "items")
    names += ("first_seqno", "last_seqno", "end_reason")
    for chunk in (200, 3_000, 1 << 20):
        rows = [tuple(row[name] for name in names) for row in folded(data, chunk)[1]]
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))


def folded(data: bytes, chunk: int, limit: int = 1000) -> tuple[list[Row], list[Row]]:
    """Read a capture's bytes in chunks of some size; return its frames and its streams."""
    summaries, streams, frames = ConnectionSummaries(forget), Streams(limit), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made.pcap")
        path.write_bytes(data)
        for batch in FrameReader([Input(path.name, path)], ReadOptions(chunk_bytes=chunk), ended=summaries.end):
            frames += batch.to_pylist()
            frames_batch = FrameBatch(batch)
            streams.fold(frames_batch, summaries.fold(frames_batch, names_only=True))
            summaries.release_ended()
    return frames, list(stream_rows(streams))


def busy(name: bytes = b"busy") -> Conversation:
    """Streams that are asked for, refused, closed and asked for again, among data of others."""
    conversation = begun(name)
    for number in range(12):
        vbucket = number % 4
        conversation.send(CLIENT, stream_request(vbucket, 100 + number))
        if number % 5 == 3:
            conversation.send(SERVER, response(0x53, 0x23, struct.pack(">Q", number), opaque=100 + number))
            continue
        sent = [mutation(vbucket, 100 + number, seqno, b"k", bytes(40)) for seqno in range(1, 6)]
        conversation.send(SERVER, stream_answer(100 + number), marker(vbucket, 100 + number, 0, 5), *sent, mss=200)
        if number % 3 == 0:
            conversation.send(CLIENT, request(0x52, vbucket=vbucket, opaque=900 + number))
            conversation.send(SERVER, response(0x52, opaque=900 + number))
    return conversation


@given(st.lists(st.integers(3, 80), max_size=6, unique=True), st.integers(3, 80), st.integers(3, 80))
def test_lost_and_moved_packets_in_any_chunks(lost: list[int], source: int, target: int) -> None:
    """Whatever is missing, chunks make no difference, and every message is counted once."""
    packets = busy().packets
    data = pcap(drop(move(packets, source % len(packets), target % len(packets)), *lost))
    frames, expected = folded(data, 1 << 20)
    for chunk in (120, 1_000):
        assert folded(data, chunk)[1] == expected
    sent = [frame for frame in frames if frame["opcode"] in MESSAGES and not frame["response"]]
    assert sum(row["items"] for row in expected) == sum(frame["opcode"] in ITEMS for frame in sent)
    assert sum(row["bytes"] for row in expected) == sum(frame["end_offset"] - frame["start_offset"] for frame in sent)


# ------------------------------------------------------------------------------------------------------------- limits


def test_streams_beyond_the_limit_are_left_out_and_harm_no_other() -> None:
    data = pcap(busy().packets)
    every = folded(data, 1 << 20)[1]
    for chunk in (150, 1 << 20):
        kept = folded(data, chunk, limit=5)[1]
        wanted = [{**row, "ended": "-"} for row in every[:5]]
        assert [{**row, "ended": "-"} for row in kept] == wanted


def test_reaching_a_limit_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Streams.__init__, "__defaults__", (5,))
    status, _, err = run(busy().packets, "--streams")
    assert status == 0
    assert "limit reached: 5 streams are listed" in err
    monkeypatch.setattr(summary_rows, "MAX_CONNECTIONS", 1)
    both = [*begun(b"a").packets, *begun(b"b", Ends(ports=(5, 6))).packets]
    _, out, err = run(both)
    assert "1 connections are listed, 1 are not" in err
    assert len(out.splitlines()) == 2


# -------------------------------------------------------------------------------------------------------------- hashes


def concatenated(packets: Sequence[Wire], side: int) -> tuple[str, int, list[Row]]:
    """Put the first copies of a direction together, the plain way; the end is where the last packet ends."""
    copies = first_copies(packets, side)
    known = {offset: byte for offset, byte in copies.items() if byte is not None}
    missing = [offset for offset in range(max(copies, default=-1) + 1) if offset not in known]
    gaps: list[Row] = []
    for offset in missing:
        if gaps and gaps[-1]["offset"] + gaps[-1]["length"] == offset:
            gaps[-1]["length"] += 1
        else:
            gaps.append({"offset": offset, "length": 1})
    data = bytes(known[offset] for offset in sorted(known))
    return hashlib.sha256(data).hexdigest(), len(data), gaps


def faults() -> dict[str, list[Wire]]:
    conversation = busy()
    packets = conversation.packets
    data = [index for index, packet in enumerate(packets) if packet.side == SERVER and len(packet.data) == 200]
    stream = bytes(conversation.streams[SERVER])
    return {
        "as it was": packets,
        "lost": drop(packets, data[0], data[4]),
        "swapped": move(packets, data[1], data[2] + 1),
        "twice": duplicate(packets, data[1], data[3]),
        "overlapping": widen(packets, data[3], stream, 30, 40),
        "nothing at all from the client": [packet for packet in packets if packet.side == SERVER],
    }


@pytest.mark.parametrize("fault", sorted(faults()))
def test_hashes_agree_with_a_plain_concatenation(fault: str, listed: Callable[..., list[Row]]) -> None:
    packets = faults()[fault]
    (row,) = listed(packets, "--hash")
    for side, name in ((CLIENT, "client"), (SERVER, "server")):
        sha256, length, gaps = concatenated(packets, side)
        assert row[f"{name}_sha256"] == sha256
        assert row[f"{name}_hashed_bytes"] == row[f"{name}_bytes"] == length
        assert row[f"{name}_gap_list"] == gaps
        assert row[f"{name}_gaps"] == len(gaps)
    without = listed(packets)
    assert without == [{name: value for name, value in row.items() if name not in {each.name for each in HASH_COLUMNS}}]


def test_hashes_are_those_of_the_recording(run: Run, listed: Callable[..., list[Row]]) -> None:
    path = CAPTURES / "25_stream_id_v705.pcap"
    rows = listed(path, "--hash")
    assert [{key: row.get(key) for key in row if "sha256" not in key} for row in rows]
    lengths = {place(row["client"], row["client_port"]): row["server_hashed_bytes"] for row in rows}
    for truth in truth_of(path):
        assert lengths[plain(truth["client"])] == truth["bytes"]["s2c"]
    text = run(path, "--hash")[1].decode()
    assert all(row["server_sha256"] in text for row in rows)


# ------------------------------------------------------------------------------------------------------------- formats


def from_csv(out: bytes) -> list[Row]:
    """Read rows back, by the declared types."""
    kinds = {column.name: column.type for column in (*CONNECTION_COLUMNS, *HASH_COLUMNS, *STREAM_COLUMNS)}
    rows = []
    for row in csv.DictReader(io.StringIO(out.decode())):
        found: Row = {}
        for name, text in row.items():
            if name.endswith("gap_list"):
                pairs = [pair.split("+") for pair in text.split()]
                found[name] = [{"offset": int(offset), "length": int(length)} for offset, length in pairs]
            elif name in LISTS:
                found[name] = text.split("; ") if text else []
            elif text:
                found[name] = text == "true" if kinds[name] == pa.bool_() else text
                if pa.types.is_integer(kinds[name]) and name != "vbucket_uuid":
                    found[name] = int(text)
        rows.append(found)
    return rows


def from_arrow(table: pa.Table) -> list[Row]:
    """Return rows as text formats write them: an end that is none is left out, uuids are text."""
    rows = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
    for row in rows:
        if row.get("open_ended"):
            assert row.pop("end_seqno") == 2**63 - 1
        if "vbucket_uuid" in row:
            row["vbucket_uuid"] = f"0x{row['vbucket_uuid'] % 2**64:016x}"
    return rows


@pytest.mark.parametrize("args", [(), ("--hash",), ("--streams",)], ids=str)
@pytest.mark.parametrize("name", ["25_stream_id_v705.pcap", "04_rollback_errors.pcap", "07a_snaplen96.pcap"])
def test_every_format_has_the_same_rows(
    name: str, args: tuple[str, ...], run: Run, listed: Callable[..., list[Row]], tmp_path: Path
) -> None:
    path = CAPTURES / name
    expected = listed(path, *args)
    assert expected
    assert [json.loads(line) for line in run(path, "--format", "ndjson", *args)[1].splitlines()] == expected
    assert from_csv(run(path, "--format", "csv", *args)[1]) == expected
    with pa.ipc.open_stream(run(path, "--format", "arrow", *args)[1]) as reader:
        assert from_arrow(reader.read_all()) == expected
    target = tmp_path / "rows.parquet"
    assert run(path, "--format", "parquet", "-o", str(target), *args)[1] == b""
    assert from_arrow(pq.read_table(target)) == expected
    columns = STREAM_COLUMNS if "--streams" in args else (*CONNECTION_COLUMNS, *(HASH_COLUMNS if args else ()))
    schema = pq.read_schema(target)
    assert schema.names == [column.name for column in columns]
    assert schema.field("connection").metadata[b"doc"]
    assert {entry.name for entry in tmp_path.iterdir()} == {"rows.parquet"}
    text = run(path, *args)[1].decode()
    assert len(text.splitlines()) >= len(expected) + 1


def test_no_rows_are_rows_too(run: Run) -> None:
    nothing = Conversation().open().packets
    assert json.loads(run(nothing, "--format", "json")[1]) == []
    assert run(nothing, "--format", "ndjson")[1] == b""
    assert run(nothing)[1] == b""
    assert from_csv(run(nothing, "--format", "csv")[1]) == []
    assert len(from_csv(run(nothing, "--format", "csv", "--all")[1])) == 1


HOSTILE = [
    b"\x1b]0;owned\x07\x1b[2J",
    b"\xff\xfe\x80",
    "\u202egnp.exe".encode(),
    b"a\r\nb",
    b"hex:00",
    b"back\\slash",
    b'a; b,"c',
]


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_hostile_names(name: bytes, run: Run, listed: Callable[..., list[Row]]) -> None:
    conversation = begun(name).send(CLIENT, request(0x89, b"", name, opaque=3), request(0x1F, b"", name, opaque=4))
    (row,) = listed(conversation.packets)
    for column in ("name", "bucket", "agent"):
        found = row[column]
        assert (bytes.fromhex(found[4:]) if found.startswith("hex:") else found.encode()) == name
    assert from_csv(run(conversation.packets, "--format", "csv")[1])[0]["name"] == row["name"]
    text = run(conversation.packets)[1].decode()
    assert all(char.isprintable() for line in text.split("\n") for char in line)
    assert len(text.splitlines()) == 2


def test_the_table_fits_the_room_there_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = begun(b"n" * 200).send(CLIENT, stream_request(1, 2)).send(SERVER, stream_answer(2))
    wide = run(conversation.packets)[1].decode().splitlines()
    assert "n" * 39 + "…" in wide[1]
    assert "n" * 40 not in wide[1]
    for columns in (150, 120, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        for args in ((), ("--streams",)):
            lines = run(conversation.packets, *args)[1].decode().splitlines()
            assert max(map(len, lines)) <= columns
            assert lines[0].split()[0] == "conn"
            assert "nnnnnnnnnnn…" in lines[1]


def test_numbers_are_aligned_and_headings_coloured(run: Run) -> None:
    path = CAPTURES / "25_stream_id_v705.pcap"
    lines = run(path, "--streams")[1].decode().splitlines()
    end = lines[0].index("items") + len("items")
    assert all(line[end - 1].isdigit() and line[end] == " " for line in lines[1:])
    assert run(path, "--color", "always")[1].startswith(b"\x1b[1m")
    assert b"\x1b" not in run(path, "--color", "never")[1]


# ------------------------------------------------------------------------------------------------ statuses and messages


def test_other_protocols_are_counted_and_listed_on_request(run: Run, listed: Callable[..., list[Row]]) -> None:
    web = Conversation(Ends(ports=(50_000, 80))).open().send(CLIENT, Message(b"GET / HTTP/1.1\r\n\r\n" * 4))
    packets = [*web.packets, *begun().packets]
    status, out, err = run(packets)
    assert (status, len(out.splitlines())) == (0, 2)
    assert "1 other connection has no frames" in err
    rows = listed(packets, "--all")
    assert [row["server_port"] for row in rows] == [11_210, 80]
    assert "number" not in rows[1]
    assert rows[1]["client_frames"] == 0
    assert "no frames" not in run(packets, "--all")[2]


@pytest.mark.parametrize("hashes", [(), ("--hash",)])
def test_connections_of_other_protocols_are_counted_to_their_end(
    run: Run, listed: Callable[..., list[Row]], hashes: tuple[str, ...]
) -> None:
    """A request of 72 bytes and a page of 1,000, five times; nothing of it can be skipped as what could be frames."""
    web = Conversation(Ends(ports=(50_000, 80))).open()
    for _ in range(5):
        web.send(CLIENT, Message(b"GET / HTTP/1.1\r\n\r\n" * 4)).send(SERVER, Message(b"<html></html>       " * 50))
    packets = [*begun().packets, *web.close(CLIENT).close(SERVER).packets]
    row = listed(packets, "--all", *hashes)[1]
    assert (row["client_bytes"], row["server_bytes"], row["ended"]) == (5 * 72, 5 * 1000, "closed")
    assert (row.get("client_bytes_skipped"), row.get("server_bytes_skipped")) == (None, None)
    assert ("client_hashed_bytes" in row, row.get("client_hashed_bytes", 0) < 5 * 72) == (bool(hashes), True)
    line = run(packets, "--all")[1].decode().splitlines()[2]
    assert line.split()[-3:] == ["360", "5,000", "closed"]


def test_damage_is_status_3_and_everything_readable_is_there(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap(busy().packets)[:-7])
    for args in ((), ("--streams",), ("--hash",)):
        status, out, err = run(path, "--format", "json", *args)
        assert status == 3
        assert json.loads(out)
        assert "cut" in err


@pytest.mark.parametrize("args", [("--streams", "--hash"), ("--streams", "--all")])
def test_options_that_do_not_go_together(args: tuple[str, ...], run: Run) -> None:
    status, out, err = run(begun().packets, *args)
    assert (status, out) == (2, b"")
    assert err.count("\n") == 1


def test_a_missing_input_writes_nothing(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    target = tmp_path / "out.json"
    args = ["connections", str(tmp_path / "none.pcap"), "--format", "json", "-o", str(target)]
    assert main(args) == 2
    assert not target.exists()
    assert capsysbinary.readouterr().err.count(b"\n") == 1


def test_the_same_file_twice_stands_alone_twice(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Both copies have connections of the same ends and times: neither may take the other's frames."""
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(pcap(busy().packets))
    status = main(
        ["connections", "--separate", "--format", "json", *(str(tmp_path / each) for each in ("a.pcap", "b.pcap"))]
    )
    rows = json.loads(capsysbinary.readouterr().out)
    assert (status, len(rows)) == (0, 2)
    assert rows[0]["connection"] != rows[1]["connection"]
    assert rows[0]["client_frames"] == rows[1]["client_frames"]


def test_nothing_is_kept_of_connections_that_are_over() -> None:
    """A run of many short connections must not grow with their number."""
    found = ConnectionRows()
    summaries = ConnectionSummaries(found.add)
    packets = [
        packet for port in range(50) for packet in begun(ends=Ends(ports=(port + 1, 11_210))).close(CLIENT, RST).packets
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made.pcap")
        path.write_bytes(pcap(packets))
        for batch in FrameReader([Input(path.name, path)], ReadOptions(chunk_bytes=500), ended=summaries.end):
            summaries.fold(FrameBatch(batch))
            summaries.release_ended()
    assert len(found.rows) == 50
    assert summaries.live == 0
