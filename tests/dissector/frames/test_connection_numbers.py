"""Numbers in the order of appearance: from 0 in arrays, from 1 for people."""

from __future__ import annotations

import pyarrow as pa

from dissector.frames.connection_numbers import AppearanceOrder, ConnectionNumbers


def test_names_keep_the_numbers_they_came_up_with() -> None:
    order = AppearanceOrder()
    assert order.indexes(["b", "a", "b"]).tolist() == [0, 1, 0]
    assert order.indexes(["c", "a"]).tolist() == [2, 1]
    assert order.indexes([]).tolist() == []
    assert (order.names, order.numbers) == (["b", "a", "c"], {"b": 1, "a": 2, "c": 3})


def test_a_number_is_not_given_to_another_name() -> None:
    order = AppearanceOrder()
    order.add(["a", "b"])
    order.forget("a")
    order.forget("never seen")
    order.add(["c", "b"])
    assert order.numbers == {"b": 2, "c": 3}
    assert order.names == ["", "b", "c"]


def test_the_first_frame_tells_when_everything_began() -> None:
    def batch(*rows: tuple[str, int]) -> pa.RecordBatch:
        ids, times = [row[0] for row in rows], [row[1] for row in rows]
        return pa.RecordBatch.from_pydict(
            {"connection": pa.array(ids, pa.string()), "time_ns": pa.array(times, pa.int64())}
        )

    numbers = ConnectionNumbers()
    numbers.see(batch())
    assert (numbers.start_ns, numbers.names) == (None, [])
    numbers.see(batch(("x", 50), ("y", 40), ("x", 60)))
    numbers.see(batch(("z", 10), ("y", 70)))
    assert (numbers.start_ns, numbers.numbers) == (50, {"x": 1, "y": 2, "z": 3})
