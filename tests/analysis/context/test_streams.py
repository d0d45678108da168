"""Streams in context: every column as the plain oracle has it, and the same however frames are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.context import Context, Table
from analysis.context.schema import TABLES as SCHEMA
from analysis.context.streams.index import StreamIndex
from analysis.context.streams.key_versions import COLUMN, FIELDS, KeyVersions
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import size_all_buffer_acks
from tests.support.checking import batches_of, captured, clean, single_rows
from tests.support.context_oracle import Oracle
from tests.support.rule_proofs import NAMES, recut

Longs = NDArray[np.int64]

#: What networks and recorders do; each alone and some together.
TROUBLES = (
    Impairments(),
    Impairments(mss=(1, 200)),
    Impairments(loss=0.1, mss=(20, 300)),
    Impairments(loss=0.03, duplicate=0.1, mss=(20, 300)),
    Impairments(reorder=0.3, retransmit=0.1, mss=(20, 300)),
    Impairments(overlap=0.2, duplicate=0.2, mss=(20, 300)),
    Impairments(skip_packets=9),
    Impairments(skip_messages=13, loss=0.02, mss=(50, 600)),
    Impairments(only=0),
    Impairments(only=1),
    Impairments(only=1, loss=0.05, mss=(50, 600)),
)
VERSION = ("version_ordinal", "version_snapshot", "version_seqno", "version_rev")


class WatchedVersions(KeyVersions):
    """Notes the rows that find another key's version in their place, so that their own may be forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.displaced: set[int] = set()

    def exchange(self, space: Longs, key_hash: Longs, fresh: dict[str, Longs]) -> tuple[Longs, NDArray[np.bool_]]:
        found, strange = super().exchange(space, key_hash, fresh)
        self.displaced.update(fresh["ordinal"][strange].tolist())
        return found, strange


def told(batches: Sequence[pa.RecordBatch], names: Sequence[str], versions: KeyVersions) -> dict[int, dict[str, int]]:
    """What the context says of each message of a stream, by ordinal."""
    context, found = Context(), {}
    context._streams.versions = versions
    for batch in batches:
        for name, table in context.fold(batch):
            if name == "stream":
                columns = [table[each].astype(np.int64).tolist() for each in names]
                for ordinal, *row in zip(table["ordinal"].tolist(), *columns, strict=True):
                    found[ordinal] = dict(zip(names, row, strict=True))
    return found


def held(batches: Sequence[pa.RecordBatch], cut: Sequence[pa.RecordBatch]) -> int:
    """Hold the context against the oracle; return how many messages there were."""
    expected = Oracle().take(row for batch in batches for row in batch.to_pylist())
    names = list(next(iter(expected.values()), {}))
    versions = WatchedVersions()
    found = told(cut, names, versions) if expected else {}
    assert found.keys() == expected.keys()
    for ordinal, row in expected.items():
        if ordinal in versions.displaced:  # then, and only then, a version may be forgotten, and all of it
            assert {found[ordinal][name] for name in VERSION} == {-1}
            row.update(dict.fromkeys(VERSION, -1))
        wrong = {name: (found[ordinal][name], value) for name, value in row.items() if found[ordinal][name] != value}
        assert not wrong, f"row {ordinal}: column (found, expected) {wrong}"
    return len(expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario(name: str) -> None:
    batches = batches_of(captured(clean(name)))
    assert held(batches, recut(batches, random.Random(name))) > 0  # noqa: S311


@pytest.mark.parametrize("name", ["oso", "draft", "early-upr", "sync-writes", "history", "close-resume"])
def test_row_by_row(name: str) -> None:
    batches = batches_of(captured(clean(name)))
    assert held(batches, single_rows(batches)) > 0


@given(
    st.sampled_from(NAMES),
    st.integers(1, 50),
    st.sampled_from(TROUBLES),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40)
def test_whatever_happens_to_the_frames(name: str, seed: int, troubles: Impairments, chance: random.Random) -> None:
    """Cuts do not matter, whatever was lost: rows are brought into their order before they are read."""
    batches = batches_of(captured(clean(name, seed), troubles, seed))
    if batches:
        assert by_frame(recut(batches, chance)) == by_frame(batches)


def by_frame(batches: Sequence[pa.RecordBatch]) -> dict[tuple[int, str], dict[str, int]]:
    """What the context says of each message of a stream, by frame and table; rows are named by their frames."""
    context, frames, found = Context(), {0: 0}, {}

    def gather(tables: Iterable[tuple[str, Table]]) -> None:
        for name, table in tables:
            if name not in SCHEMA:
                continue
            guilty, columns = table.refs("guilty"), {}
            for each in ("guilty", "request", "answer", "marker", "last"):
                if each in table.ref_names:
                    refs = table.refs(each)
                    frames.update(zip(refs["ordinal"].tolist(), refs["frame"].tolist(), strict=True))
            for each in SCHEMA[name].column_names:
                if each in table and each not in ("connection", "serial") and not each.endswith("root"):
                    columns[each] = table[each].astype(np.int64).tolist()
            for at, frame in enumerate(guilty["frame"].tolist()):
                found[frame, name] = {each: values[at] for each, values in columns.items()}

    for batch in batches:
        gather(context.fold(batch))
    gather(context.finish())
    for row in found.values():
        for each in [name for name in row if name.endswith(("ordinal", "gap", "version_snapshot", "opened"))]:
            row[each] = frames.get(row[each], -1)
    return found


@given(st.sampled_from(NAMES), st.integers(1, 50), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_whatever_the_producer_says(name: str, seed: int, chance: random.Random) -> None:
    """Numbers, keys and the order of messages as no producer would have them."""
    batches = said(name, seed, chance)
    held(batches, recut(batches, chance))


def test_a_version_whose_place_another_key_has_taken_is_forgotten() -> None:
    """Two of these 47 keys have one place among a million: row 110 does not find the version of row 63."""
    batches = said("basic", 2, random.Random(0))  # noqa: S311
    assert held(batches, batches) > 0
    versions = WatchedVersions()
    assert told(batches, VERSION, versions)[110] == dict.fromkeys(VERSION, -1)
    assert 110 in versions.displaced


def said(name: str, seed: int, chance: random.Random) -> list[pa.RecordBatch]:
    """Traffic of a scenario with numbers, keys and messages changed and swapped at random."""
    talks = clean(name, seed)
    for talk in talks:
        for each in talk:
            fields = each.frame.fields
            for field in ("by_seqno", "snap_start_seqno", "snap_end_seqno", "snapshot_type", "rev_seqno"):
                if field in fields and chance.random() < 0.1:
                    fields[field] = max(0, min(fields[field], 1 << 40) + chance.randrange(-30, 30))
            if fields.get("by_seqno") and each.frame.key and chance.random() < 0.3:
                each.frame.key = b"\0key-%d" % chance.randrange(5)
        producing = [each for each in talk if not each.frame.response and each.side == 1]
        for one in producing:
            if chance.random() < 0.05:
                other = chance.choice(producing)
                one.frame, other.frame = other.frame, one.frame
    size_all_buffer_acks(talks)
    return batches_of(captured(talks, seed=seed))


def test_what_is_remembered_is_bounded() -> None:
    """Streams that are over leave nothing behind; old batches can go."""
    context = Context()
    batches = batches_of(captured(clean("multiplex")))
    for batch in batches:
        list(context.fold(batch))
    kept = context._instances.live
    assert kept == 12  # vbuckets


# ------------------------------------------------------------------------------------------------- versions of keys


def fresh(ordinal: Sequence[int]) -> dict[str, Any]:
    """Rows that say nothing but their ordinal."""
    numbers = np.array(ordinal, np.int64)
    return dict.fromkeys(FIELDS, numbers)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=60), st.data())
def test_versions_are_those_of_a_dictionary(keys: list[tuple[int, int]], data: st.DataObject) -> None:
    """Eight places for many keys: what is found is right, and what is forgotten is told."""
    versions, known, places = KeyVersions(8), {}, {}
    start = 0
    while start < len(keys):
        size = data.draw(st.integers(1, len(keys) - start))
        part = keys[start : start + size]
        space, key = (np.array(column, np.int64) for column in zip(*part, strict=True))
        found, strange = versions.exchange(space, key, fresh(range(start + 1, start + size + 1)))
        for at, name in enumerate(part):
            before = found[at, COLUMN["ordinal"]]
            assert before == known.get(name, -1) or strange[at]
            assert before in (-1, known.get(name, -1))
            places[name] = True
            known[name] = start + at + 1
        start += size


def test_versions_do_not_depend_on_batches() -> None:
    chance = random.Random(5)  # noqa: S311
    space = np.array([chance.randrange(3) for _ in range(400)], np.int64)
    key = np.array([chance.randrange(40) for _ in range(400)], np.int64)
    whole, strange = KeyVersions(16).exchange(space, key, fresh(range(1, 401)))
    parts = KeyVersions(16)
    for start in range(0, 400, 7):
        part = slice(start, min(start + 7, 400))
        found, odd = parts.exchange(space[part], key[part], fresh(range(part.start + 1, part.stop + 1)))
        assert (found == whole[part]).all()
        assert (odd == strange[part]).all()


def test_a_table_with_all_rows_is_the_table_itself() -> None:
    table = Table(3, {"a": np.arange(3)}, {})
    assert table.where(np.ones(3, bool)) is table
    assert table.where(np.array([True, False, True]))["a"].tolist() == [0, 2]


def test_acks_of_streams_that_nobody_has_seen_make_no_stream() -> None:
    talks = clean("sync-writes")
    batches = batches_of(captured(talks, Impairments(only=0)))
    context = Context()
    for batch in batches:
        assert "seqno_acks" not in dict(context.fold(batch))
    assert isinstance(context._streams, StreamIndex)
    assert context._instances.live == 0
