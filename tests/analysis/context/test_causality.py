"""Rows in an order that acknowledgements do not contradict, whatever order the capture has them in."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.context import causality
from analysis.context.causality import CausalOrder, had_received
from dissector.frames.connection_numbers import AppearanceOrder, ConnectionNumbers
from tests.support.checking import batches_of, captured, clean


def recorded(name: str) -> pa.RecordBatch:
    """The rows of a scenario, in one batch."""
    table = pa.Table.from_batches(batches_of(captured(clean(name)))).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


def shuffled(batch: pa.RecordBatch, chance: random.Random) -> pa.RecordBatch:
    """The same rows; directions keep their order, but lie beside each other as chance has it."""
    lanes: dict[tuple[str, int], list[int]] = {}
    for row, lane in enumerate(
        zip(*(batch.column(name).to_pylist() for name in ("connection", "direction")), strict=True)
    ):
        lanes.setdefault(lane, []).append(row)
    order = []
    while lanes:
        lane = chance.choice(sorted(lanes))
        order.append(lanes[lane].pop(0))
        if not lanes[lane]:
            del lanes[lane]
    return batch.take(pa.array(order))


def arranged(batches: list[pa.RecordBatch]) -> list[tuple[dict[str, object], bool]]:
    """Rows as they are given out, and whether something that their sender had received is not there."""
    order, base, found = CausalOrder(ConnectionNumbers(), AppearanceOrder()), 1, []
    for frames in [*(order.arrange(batch, base) for batch in batches), order.finish(base)]:
        if frames is not None:
            rows = frames.batch.select(["frame", "connection", "direction", "end_offset", "acked_offset"]).to_pylist()
            found += zip(rows, np.asarray(frames.peer_lost).tolist(), strict=True)
    return found


def contradictions(rows: list[dict[str, object]]) -> list[object]:
    """Frames that come before something that their sender had received."""
    wrong, ends = [], {}
    for row in reversed(rows):
        later = ends.get((row["connection"], 1 - row["direction"]))
        if later is not None and row["acked_offset"] is not None and had_received(row["acked_offset"], later):
            wrong.append(row["frame"])
        ends[row["connection"], row["direction"]] = row["end_offset"]
    return wrong


@given(st.sampled_from(["basic", "sync-writes", "takeover", "relay"]), st.randoms(use_true_random=False))
def test_no_acknowledgement_is_contradicted(name: str, chance: random.Random) -> None:
    """Acks of flow control do not wait: they are added up by offsets."""
    whole = recorded(name)
    mixed = shuffled(whole, chance)
    cut = chance.randrange(1, mixed.num_rows)
    given_out = arranged([mixed.slice(0, cut), mixed.slice(cut)])
    rows = [row for row, _ in given_out]
    assert sorted(row["frame"] for row in rows) == whole.column("frame").to_pylist()
    names = dict(zip(whole.column("frame").to_pylist(), whole.column("name").to_pylist(), strict=True))
    assert not [
        frame
        for frame in contradictions(rows)
        if names[frame] != "buffer_ack"
        and names[frame] is not None
        and names[frame] not in ("hello", "select_bucket", "sasl_auth", "sasl_list_mechs", "sasl_step")
    ]
    assert not any(lost for _, lost in given_out), "everything was there"


def test_rows_in_their_order_are_not_touched() -> None:
    batch = recorded("basic")
    order = CausalOrder(ConnectionNumbers(), AppearanceOrder())
    frames = order.arrange(batch, 1)
    assert frames is not None
    assert frames.batch is batch
    assert order.finish(1) is None


def test_what_never_comes_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one direction alone every row is given out, and told that something is missing."""
    monkeypatch.setattr(causality, "MOST_OF_ONE_SIDED", 5)
    batch = recorded("basic")
    server = batch.filter(pa.array([side == 1 for side in batch.column("direction").to_pylist()]))
    given_out = arranged([server.slice(0, 40), server.slice(40)])
    assert [row["frame"] for row, _ in given_out] == server.column("frame").to_pylist()
    assert given_out[10][1]


def test_acknowledgements_that_contradict_each_other_prove_nothing() -> None:
    """Each of two rows was sent after the other had arrived: one was sent again, with a later acknowledgement."""
    batch = recorded("basic")
    ends = batch.column("end_offset").to_pylist()
    sides = batch.column("direction").to_pylist()
    one = next(row for row in range(20, batch.num_rows) if sides[row] == 0 and sides[row - 1] == 1)
    acked = batch.column("acked_offset").to_pylist()
    acked[one - 1] = ends[one]
    changed = batch.set_column(
        batch.schema.get_field_index("acked_offset"), "acked_offset", pa.array(acked, pa.int64())
    )
    given_out = arranged([changed])
    assert len(given_out) == batch.num_rows
    assert any(lost for _, lost in given_out)
