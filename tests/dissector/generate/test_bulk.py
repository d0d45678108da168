"""Large captures: the frames are the encoder's, the count is exact, and every rule of a stream's life holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest

from dissector.codec.encoder import encode
from dissector.errors import UsageError
from dissector.generate.bulk import Bulk, mutation_heads
from dissector.generate.capture_files import Medium
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Size
from dissector.generate.to_capture import BulkRun
from dissector.spec import registry
from dissector.spec.model import Dialect
from tests.support.tcp_by_hand import READERS, ReaderClass, Row, read_run

FRAMES, CONNECTIONS, VBUCKETS = 6000, 3, 10
SIZE = Size(FRAMES, CONNECTIONS, VBUCKETS)


def made(
    size: Size = SIZE, seed: int = 1, impairments: Impairments | None = None, medium: Medium | None = None
) -> tuple[list[bytes], BulkRun]:
    files: list[BytesIO] = []

    def opener(_: int) -> BytesIO:
        files.append(BytesIO())
        return files[-1]

    run = BulkRun(seed, size, medium or Medium("pcap"), impairments or Impairments(), opener)
    for _ in run:
        pass
    return [file.getvalue() for file in files], run


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    found, report = read_run(made()[0], READERS[1])
    assert report.losses() == []
    return found


def test_mutations_are_those_of_the_encoder() -> None:
    columns = [np.array(numbers) for numbers in ((513, 0), (0x01020304, 9), (70_000, 1), (3, 1), (5, 0), (1 << 60, 7))]
    rows = mutation_heads(*columns)
    message = registry.named(Dialect.DCP, "mutation")
    for index, (key, value) in enumerate(((b"key", b"value"), (b"k", b""))):
        vbucket, opaque, seqno, _, _, cas = (int(column[index]) for column in columns)
        fields = {"by_seqno": seqno, "rev_seqno": 1, "item_flags": 0x0200_0006}
        wanted = encode(
            message, fields, key=key, value=value, vbucket=vbucket, opaque=opaque.to_bytes(4, "big"), cas=cas
        )
        assert rows[index].tobytes() + key + value == wanted


def test_exactly_the_frames_that_were_asked_for(rows: list[Row]) -> None:
    assert len(rows) == FRAMES
    assert len({row["connection"] for row in rows}) == CONNECTIONS
    assert {row["vbucket"] for row in rows if row["name"] == "mutation"} == set(range(VBUCKETS))
    assert not any(row["defects"] for row in rows)
    assert {row["name"] for row in rows} == {
        *("open", "control", "stream_request", "snapshot_marker", "mutation", "buffer_ack"),
    }


def test_every_stream_is_as_it_should_be(rows: list[Row]) -> None:
    """SNP-01 to SNP-07, SEQ-01, SEQ-02, OPQ-04, by a machine of its own."""
    requests: dict[tuple[str, int], Row] = {}
    answered: set[tuple[str, int]] = set()
    markers: dict[tuple[str, int], tuple[int, int]] = {}
    last: Counter[tuple[str, int]] = Counter()
    keys: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    snapshots = 0
    for row in rows:
        where = (row["connection"], row["vbucket"])
        if row["name"] == "stream_request":
            if row["response"]:
                assert row["status"] == 0
                answered.add((row["connection"], row["opaque"]))
            else:
                requests[where] = row
        elif row["name"] == "snapshot_marker":
            assert row["opaque"] == requests[where]["opaque"]
            assert (row["connection"], row["opaque"]) in answered
            start, end = row["snap_start_seqno"], row["snap_end_seqno"]
            if where in markers:
                assert last[where] == markers[where][1]  # the former one is complete
                assert start == markers[where][1] + 1
            else:
                assert start == requests[where]["snap_start_seqno"] == 0
            assert start <= end
            markers[where] = (start, end)
            keys[where].clear()
            snapshots += 1
        elif row["name"] == "mutation":
            assert row["opaque"] == requests[where]["opaque"]
            assert row["by_seqno"] == last[where] + 1
            assert markers[where][0] <= row["by_seqno"] <= markers[where][1]
            assert row["key"] not in keys[where]
            keys[where].add(row["key"])
            last[where] = row["by_seqno"]
    assert snapshots > 2 * VBUCKETS
    cas = [row["cas"] for row in rows if row["name"] == "mutation" and row["vbucket"] == 3]
    assert all(former < later for former, later in pairwise(cas))


def test_flow_control_adds_up(rows: list[Row]) -> None:
    """FLC-01 and FLC-02: nothing is given back that had not arrived, and the window is never full."""
    acks = 0
    for connection in {row["connection"] for row in rows}:
        mine = [row for row in rows if row["connection"] == connection]
        window = int(next(row["text"] for row in mine if row["name"] == "control" and not row["response"]))
        produced = [row for row in mine if row["flow_bytes"]]
        returned = 0
        for row in mine:
            if row["name"] == "buffer_ack":
                returned += row["buffer_bytes"]
                arrived = [each["flow_bytes"] for each in produced if each["end_offset"] <= row["acked_offset"]]
                assert returned <= sum(arrived)
                acks += 1
        assert sum(row["flow_bytes"] for row in produced) - returned < window
    assert acks > 5


@pytest.mark.parametrize("reader_class", READERS)
def test_troubles_change_nothing(rows: list[Row], reader_class: ReaderClass) -> None:
    impairments = Impairments(reorder=0.02, overlap=0.02, retransmit=0.02, duplicate=0.02)
    files, run = made(impairments=impairments, medium=Medium(rotate=1500))
    assert len(files) > 2
    found, report = read_run(files, reader_class)
    names = ("sport", "start_offset", "end_offset", "acked_offset", "opcode", "opaque")
    wanted, there = (sorted(tuple(row[name] for name in names) for row in each) for each in (rows, found))
    assert wanted == there
    assert report.bytes_repeated > 0
    assert report.losses() == []
    assert sum(run.files) == report.link.packets


def test_the_truth_counts_what_is_there(rows: list[Row]) -> None:
    facts = made()[1].bulk.facts()
    counted: Counter[str] = Counter()
    for connection in facts:
        counted.update(connection["messages"])  # type: ignore[arg-type]
    assert counted == Counter(row["name"] for row in rows)
    last = {vbucket: seqno for connection in facts for vbucket, seqno in connection["last_seqno"].items()}  # type: ignore[attr-defined]
    seen: dict[str, int] = {}
    for row in rows:
        if row["name"] == "mutation":
            seen[str(row["vbucket"])] = row["by_seqno"]
    assert last == seen


def test_the_same_seed_gives_the_same_bytes() -> None:
    size = Size(1000, 2, 4)
    assert made(size, 7)[0] == made(size, 7)[0]
    assert made(size, 7)[0] != made(size, 8)[0]


def test_memory_is_bounded_by_the_round() -> None:
    longest = max(len(batch) for batch in Bulk(1, Size(40_000, 4, 64), lambda: 1448).rounds())
    assert longest < 8000


def test_the_rate_is_kept() -> None:
    run = Bulk(1, Size(20_000, 2, 8), lambda: 1448, rate=10_000.0)
    *_, last = run.rounds()
    assert last[-1].time_ns == pytest.approx(2e9, rel=0.1)


@pytest.mark.parametrize(
    ("size", "what"),
    [
        (Size(10, 2, 4), r"10 frames do not suffice: 2 connections with 4 vbuckets take 16 to set up"),
        (Size(1000, 8, 4), r"8 connections need 8 vbuckets"),
        (Size(1_000_000, 1, 70_000), r"no more than 65,536"),
    ],
)
def test_what_cannot_be(size: Size, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        Bulk(1, size, lambda: 1448)
