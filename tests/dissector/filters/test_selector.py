"""Choosing frames: connections and vbuckets, held against a slow walk over the rows, however they come in batches."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.capture import expand
from dissector.errors import UsageError
from dissector.filters import parse
from dissector.filters import selector as selector_module
from dissector.filters.selector import FrameSelector
from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions
from tests.support.paths import ROOT

#: Opaques used again for another vbucket, refusals, several connections, the early dialect.
NAMES = ("25_stream_id_v705.pcap", "04_rollback_errors.pcap", "10_upr_early_dialect.pcap", "09_feed_real_consumer.pcap")
#: Opcodes of UPR that set a connection up, by their numbers: open, noop, buffer ack, control.
SETUP = {0x50, 0x5C, 0x5D, 0x5E}


@cache
def frames() -> pa.Table:
    paths = [str(ROOT / "captures" / name) for name in NAMES]
    return pa.Table.from_batches(FrameReader(expand(paths), ReadOptions()), SCHEMA).combine_chunks()


@cache
def rows() -> list[dict[str, Any]]:
    columns = ["connection", "direction", "opcode", "opaque", "vbucket", "response", "subtype", "status"]
    found: list[dict[str, Any]] = frames().select(columns).to_pylist()
    return found


@cache
def ids() -> list[str]:
    return list(dict.fromkeys(row["connection"] for row in rows()))


def by_vbucket(vbucket: int) -> list[int]:
    """Walk through the rows: a request says which vbucket an answer is about, until its opaque is used again."""
    latest: dict[tuple[Any, ...], int] = {}
    chosen = []
    for index, row in enumerate(rows()):
        if not 0x50 < row["opcode"] < 0x70 or row["opcode"] in SETUP:
            continue
        asked = (row["connection"], row["direction"], row["opcode"], row["opaque"])
        if not row["response"]:
            latest[asked] = row["vbucket"]
            about = row["vbucket"]
        else:
            about = latest.get((row["connection"], 1 - row["direction"], row["opcode"], row["opaque"]), -1)
        if about == vbucket:
            chosen.append(index)
    return chosen


def split(cuts: list[int]) -> list[pa.RecordBatch]:
    bounds = [0, *sorted(cuts), frames().num_rows]
    whole = frames().to_batches()[0]
    return [whole.slice(low, high - low) for low, high in itertools.pairwise(bounds)]


def chosen(selector: FrameSelector, batches: list[pa.RecordBatch]) -> list[int]:
    found: list[int] = []
    start = 0
    for batch in batches:
        found += (selector.indexes(batch) + start).tolist()
        start += batch.num_rows
    return found


CUTS = st.lists(st.integers(0, 2_000).map(lambda cut: min(cut, frames().num_rows)), max_size=6)


def test_the_captures_have_what_is_to_be_chosen() -> None:
    """Else the tests below would show nothing: several connections, and an opaque that goes to another vbucket."""
    assert len(frames().to_batches()) == 1
    assert len(ids()) > 10
    vbuckets: dict[tuple[Any, ...], set[int]] = {}
    for row in rows():
        if row["opcode"] == 0x53 and not row["response"]:
            vbuckets.setdefault((row["connection"], row["opaque"]), set()).add(row["vbucket"])
    assert any(len(found) > 1 for found in vbuckets.values())


@given(st.sampled_from([0, 1, 2, 3, 4, 5, 999, 1023]), CUTS)
def test_a_vbucket(vbucket: int, cuts: list[int]) -> None:
    assert chosen(FrameSelector(None, None, vbucket), split(cuts)) == by_vbucket(vbucket)


@pytest.mark.parametrize("vbucket", range(4))
def test_a_vbucket_has_answers(vbucket: int) -> None:
    found = [rows()[index] for index in by_vbucket(vbucket)]
    assert sum(row["response"] for row in found) > 2
    assert {row["vbucket"] for row in found} == {vbucket, None}


@given(st.data(), CUTS)
def test_a_connection_by_number_and_by_id(data: st.DataObject, cuts: list[int]) -> None:
    number = data.draw(st.integers(1, len(ids())))
    wanted = ids()[number - 1]
    expected = [index for index, row in enumerate(rows()) if row["connection"] == wanted]
    for name in (str(number), wanted, wanted.upper()):
        selector = FrameSelector(None, name, None)
        assert chosen(selector, split(cuts)) == expected
        assert selector.unknown is None


@given(CUTS)
def test_everything_at_once(cuts: list[int]) -> None:
    refused = [index for index in by_vbucket(1) if rows()[index]["opcode"] == 0x53 and rows()[index]["status"]]
    wanted = rows()[refused[0]]["connection"]
    expected = [index for index in refused if rows()[index]["connection"] == wanted]
    selector = FrameSelector(parse("opcode == stream_request and status != success"), str(ids().index(wanted) + 1), 1)
    assert chosen(selector, split(cuts)) == expected


@given(CUTS)
def test_connections_are_numbered_as_they_come_up(cuts: list[int]) -> None:
    numbering = ConnectionNumbers()
    for batch in split(cuts):
        numbering.see(batch)
    assert numbering.numbers == {name: number for number, name in enumerate(ids(), 1)}
    assert numbering.start_ns == frames()["time_ns"][0].as_py()


@pytest.mark.parametrize("follow", ["", "x", "²", "-1", "1.0", "0x1", "0123456789abcde", "0123456789abcdeg", "1" * 17])
def test_what_is_neither_a_number_nor_an_id(follow: str) -> None:
    with pytest.raises(UsageError, match="--follow"):
        FrameSelector(None, follow, None)


@pytest.mark.parametrize("follow", ["0", "4711", "0" * 16, "9" * 15])
def test_a_connection_that_never_comes_up_is_said(follow: str) -> None:
    selector = FrameSelector(None, follow, None)
    assert chosen(selector, split([5])) == []
    assert selector.unknown == f"no connection {follow} (connections are 1 to {len(ids())})"


def test_a_vbucket_that_never_comes_up_is_said() -> None:
    """HELLO and its like have a vbucket of 0 in the header: they are about none."""
    selector = FrameSelector(None, None, 9999)
    assert chosen(selector, split([5])) == []
    assert selector.unknown is not None
    assert selector.unknown.startswith("no vbucket 9999 (vbuckets are 0 to ")
    hello = next(at for at, row in enumerate(rows()) if row["opcode"] == 0x1F and not row["response"])
    selector = FrameSelector(None, None, 0)
    assert chosen(selector, split([hello, hello + 1])[1:2]) == []
    assert selector.unknown == "no vbucket 0 (no frame has a vbucket)"


def test_a_connection_that_is_over_did_come_up() -> None:
    for follow in (ids()[0], "1"):
        selector = FrameSelector(None, follow, None)
        assert chosen(selector, split([5]))
        for name in ids():
            selector.forget(name)
        assert selector.unknown is None


def test_narrow_is_what_may_leave_frames_out() -> None:
    assert not FrameSelector(None, None, None).is_selective
    assert FrameSelector(None, None, 0).is_selective
    assert FrameSelector(None, "1", None).is_selective
    assert FrameSelector(parse("frame"), None, None).is_selective
    assert chosen(FrameSelector(None, None, None), split([])) == list(range(frames().num_rows))


def test_requests_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(opaque: int, *, response: bool) -> dict[str, Any]:
        common = {"time_ns": 0, "connection": "c", "opcode": 0x53, "opaque": opaque}
        return {**common, "response": response, "direction": int(response), "vbucket": None if response else 7}

    monkeypatch.setattr(selector_module, "_MAX_PENDING", 2)
    requests = [row(opaque, response=False) for opaque in (1, 2, 3)]
    answers = [row(opaque, response=True) for opaque in (1, 2, 3)]
    batch = pa.RecordBatch.from_pylist([*requests, *answers], SCHEMA)
    assert FrameSelector(None, None, 7).indexes(batch).tolist() == [0, 1, 2, 4, 5]
