"""Flow control in context: the sums are what a slow count gives, whatever happened to the capture."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from analysis.context import Context, clock
from analysis.context.codes import UnknownReason
from analysis.context.flow_control import connection as connection_flow
from analysis.context.flow_control import tracker
from analysis.context.flow_control.buffer_size import NO_WINDOW, UNKNOWN_WINDOW, BufferSizes, requested_size
from analysis.context.tables import Table
from dissector.generate.conversation import Conversation
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import size_all_buffer_acks
from dissector.generate.scenarios import SCENARIOS
from dissector.generate.session import MEMORY, SECOND, Session
from dissector.spec.model import Dialect
from tests.support.checking import batches_of, captured, clean, single_rows
from tests.support.flow_oracle import ACK, OPEN, FlowRows, Row, flow_rows
from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import is_judged

NAMES = (
    *("frame", "connection", "direction", "start_offset", "end_offset", "acked_offset", "gap", "skipped", "missing"),
    *(
        "time_ns",
        "opcode",
        "response",
        "flow_bytes",
        "buffer_bytes",
        "opaque",
        "key_bytes",
        "text",
        "status",
        "open_flags",
    ),
    *("dialect", "stream_id", "marker_version"),
)
SENT = ("outstanding", "unacked", "window", "full", "unknown")
ACKS = ("bytes", "due", "excess", "window", "wanted", "noops", "noops_since", "latency_ns", "unknown")
BOUNDS = {"sent": ("outstanding_most",), "acks": ("due_least", "request_unknown")}
STALLS = ("outstanding", "window", "waited_ns", "unknown")
RESTS = ("leftover", "window", "quiet_ns", "drift", "drift_count", "unknown")
ROUGH = (
    Impairments(),
    Impairments(reorder=0.3, duplicate=0.2, retransmit=0.2, overlap=0.2, mss=(30, 300)),
    Impairments(only=0),
    Impairments(only=1),
)
LOSSY = (
    Impairments(loss=0.02),
    Impairments(loss=0.1),
    Impairments(loss=0.05, mss=(60, 300)),
    Impairments(skip_messages=9),
    Impairments(skip_messages=3, loss=0.03),
    Impairments(skip_packets=12, loss=0.02),
)


def tables_of(batches: Iterable[pa.RecordBatch]) -> tuple[list[tuple[str, Table]], list[str]]:
    """The tables of flow control, made whole before the context goes on, and the names of the connections."""
    context, found = Context(), []

    def take(tables: Iterable[tuple[str, Table]]) -> None:
        for name, table in tables:
            if name in ("sent", "acks", "stalls", "idle_producers"):
                found.append((name, table))

    for batch in batches:
        take(context.fold(batch))
    take(context.finish())
    return found, context.connections.names


def ours(batches: Iterable[pa.RecordBatch]) -> dict[str, FlowRows]:
    found: dict[str, FlowRows] = defaultdict(FlowRows)
    tables, names = tables_of(batches)
    for name, table in tables:
        places = table.refs("guilty")["start_offset"].tolist()
        columns = {"sent": SENT, "acks": ACKS, "stalls": STALLS, "idle_producers": RESTS}[name] + BOUNDS.get(name, ())
        rows = [tuple(map(int, row)) for row in zip(*(table[each].tolist() for each in columns), strict=True)]
        for connection, place, row in zip(table["connection"].tolist(), places, rows, strict=True):
            each = found[names[connection]]
            if name == "sent":
                each.sent[place] = row
            elif name == "acks":
                each.acks[place] = row
            elif name == "idle_producers":
                each.idle.append((place, *row))
        if name == "stalls":
            lasts = table.refs("last")["start_offset"].tolist()
            for connection, place, last, row in zip(table["connection"].tolist(), places, lasts, rows, strict=True):
                found[names[connection]].stalls.append((place, last, *row))
    return found


def expected(batches: Iterable[pa.RecordBatch]) -> dict[str, FlowRows | None]:
    """What the oracle says, by connection; None where the open was not captured whole, so that it can't be known."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for batch in batches:
        for row in batch.select(NAMES).to_pylist():
            rows[row["connection"]].append(row)
    return {
        name: flow_rows(each) if any(row["opcode"] == OPEN and row["open_flags"] is not None for row in each) else None
        for name, each in rows.items()
        if each[0]["dialect"] != "draft"
    }


def compare(batches: Sequence[pa.RecordBatch]) -> dict[str, FlowRows]:
    found, wanted = ours(batches), expected(batches)
    for name, each in wanted.items():
        if each is None:
            doubts = [*(row[4] for row in found[name].sent.values()), *(row[8] for row in found[name].acks.values())]
            assert all(doubts)
            continue
        sent, acks = found[name].sent, found[name].acks
        assert {place: row[: len(SENT)] for place, row in sent.items()} == each.sent
        assert {place: row[: len(ACKS)] for place, row in acks.items()} == each.acks
        assert all(row[0] == row[-1] for row in sent.values()), "nothing was lost"
        assert all(row[1] == row[-2] for row in acks.values())
        assert sorted(found[name].stalls) == sorted(each.stalls)
        assert found[name].idle == each.idle
    return found


def compare_row_by_row(batches: Sequence[pa.RecordBatch]) -> None:
    """Compare once more, with every row added up as soon as it can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracker, "_ROWS_AT_ONCE", (1, 1))
        compare(single_rows(batches))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_scenarios_add_up(scenario: Any) -> None:
    talks = clean(scenario.name)
    for troubles in ROUGH:
        compare(batches_of(captured(talks, troubles)))


def chatter(chance: random.Random, *, early: bool = False) -> Conversation:
    """A connection that does not care for rules."""
    talk = Conversation()
    session = Session(talk, chance, dialect=Dialect.UPR if early else Dialect.DCP)
    session.open(b"chatter")
    if chance.random() < 0.7:
        session.control("connection_buffer_size", str(chance.choice((300, 1000, 4000))))
    stream = session.stream(0)
    if not early:
        stream.marker(0, 1 << 20, MEMORY)
    for _ in range(chance.randint(5, 60)):
        session.pending_ns = chance.choice((0, 0, 0, 0, SECOND // 2, 12 * SECOND, 70 * SECOND))
        session.in_flight = chance.choice((0, 0, 0, 1, 2))
        act = chance.random()
        if act < 0.6:
            for _ in range(chance.randint(1, 4)):
                stream.mutation(stream.last + 1, b"k%d" % stream.last, b"x" * chance.choice((0, 10, 100, 700)))
        elif act < 0.85:
            session.in_flight = 0  # a request has arrived when it is answered
            amount = chance.choice((-1, -1, 0, 1, 57, 200, 900, 5000))
            session.ack(amount, unheard=0 if early else chance.choice((0, 0, 1, 3)))
        elif act < 0.92:
            session.noop()
        else:
            session.in_flight = 0
            status = chance.choice((0, 0, 0, 4))
            session.control("connection_buffer_size", chance.choice(("0", "500", "2500", "9000")), status=status)
    session.in_flight = 0
    session.idle(chance.choice((0, 3, 30)))
    session.failover_log(0)
    size_all_buffer_acks([talk])
    for each in talk:
        if each.frame.fields.get("buffer_bytes", 0) < 0:  # more was given back before than had arrived
            each.frame.fields["buffer_bytes"] = 0
    return talk


def honest(chance: random.Random) -> Conversation:
    """A connection that keeps the rules: what is sent fits the window, and what is given back had arrived."""
    talk = Conversation()
    session = Session(talk, chance)
    session.open(b"honest")
    window = chance.choice((600, 1500, 5000))
    session.control("connection_buffer_size", str(window))
    stream = session.stream(0)
    stream.marker(0, 1 << 20, MEMORY)
    sent = [each.frame.flow_bytes for each in talk if each.side == session.producer]
    acked = list[int]()  # by each of the consumer's messages that the producer may not have heard yet
    for _ in range(chance.randint(10, 150)):
        act = chance.random()
        if act < 0.65:
            session.in_flight = chance.choice((0, 0, 0, 1, 2)) if acked else 0
            session.in_flight = min(session.in_flight, len(acked))
            known = acked[: len(acked) - session.in_flight]
            if sum(sent) - sum(known) < window:
                stream.mutation(stream.last + 1, b"k%d" % stream.last, b"x" * chance.choice((0, 10, 100, 700)))
                sent.append(talk.emissions[-1].frame.flow_bytes)
                acked = [sum(known), *acked[len(known) :]] if known else acked  # what was heard once stays heard
        elif act < 0.97:
            session.in_flight = 0
            unheard = chance.choice((0, 0, 1, 3))
            due = sum(sent[: len(sent) - unheard]) - sum(acked)
            if due > 0:
                acked.append(chance.choice((due, due, due, max(due // 2, 1))))
                session.ack(acked[-1], unheard=unheard)
        else:
            session.in_flight = 0
            acked = [sum(acked), 0]
            window = chance.choice((600, 1500, 5000))
            session.control("connection_buffer_size", str(window))
    size_all_buffer_acks([talk])
    return talk


def by_place(batches: Iterable[pa.RecordBatch]) -> dict[tuple[int, int], Row]:
    """Rows by the port of the sender and their offset."""
    rows = (row for batch in batches for row in batch.select([*NAMES, "sport"]).to_pylist())
    return {(row["sport"], row["start_offset"]): row for row in rows}


def moved_by(whole: dict[tuple[int, int], Row], damaged: dict[tuple[int, int], Row], port: int) -> int:
    """How many bytes of a direction came before the capture began."""
    here = [(place, row) for (sender, place), row in damaged.items() if sender == port]

    def fits(shift: int) -> bool:
        return all(
            (port, place + shift) in whole
            and all(whole[port, place + shift][name] == row[name] for name in ("opcode", "opaque", "flow_bytes"))
            for place, row in here
        )

    return next(start - here[0][0] for sender, start in whole if sender == port and fits(start - here[0][0]))


def lies_within(talk: Conversation, troubles: Impairments, seed: int) -> tuple[int, int]:
    """Compare a damaged capture with the truth; return how many rows were certain, and how many had bounds."""
    damaged = batches_of(captured([talk], troubles, seed))
    if not damaged:
        return 0, 0
    found = ours(damaged)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracker, "_ROWS_AT_ONCE", (1, 1))
        assert ours(single_rows(damaged)) == found, "it matters how the capture is cut"
    rows, here = by_place(batches_of(captured([talk]))), by_place(damaged)
    truth = flow_rows([*rows.values()])
    consumer = next((row["sport"] for row in rows.values() if row["opcode"] == ACK and not row["response"]), None)
    if consumer is None:
        return 0, 0
    moved = {port: moved_by(rows, here, port) for port in {port for port, _ in here}}
    # Up to 4.1 what was sent before the window is never given back, and takes nothing from it.
    late_window = any(row[0] != row[1] for row in truth.sent.values())
    certain = bounded = 0
    for each in found.values():
        for place, row in each.sent.items():
            outstanding, _, window, full, doubt, most = row
            true = truth.sent[place + next(shift for port, shift in moved.items() if port != consumer)]
            if window == UNKNOWN_WINDOW or doubt == UnknownReason.ONE_SIDED:
                assert doubt
                continue
            assert window == true[2]
            assert outstanding <= true[0] <= most, (row, true)
            assert outstanding < full or true[0] >= true[3], "a message is called wrong that was not"
            assert bool(doubt) == (outstanding != most)
            certain, bounded = certain + (not doubt), bounded + bool(doubt)
        for place, row in each.acks.items():
            true = truth.acks[place + moved[consumer]]
            due, window, least, doubt = row[1], row[3], row[-2], row[8]
            assert row[4] == true[4] or row[-1]
            if window == UNKNOWN_WINDOW or doubt == UnknownReason.ONE_SIDED:
                assert doubt
                continue
            assert window == true[3]
            assert least <= true[1], (row, true)
            assert true[1] <= due or (row[2] == 0 and late_window), (row, true)
            assert bool(doubt) == (least != due)
            certain, bounded = certain + (not doubt), bounded + bool(doubt)
    return certain, bounded


# A seed cannot be made simpler, so nothing is shrunk.
@settings(max_examples=100, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 32), st.sampled_from(LOSSY))
def test_the_truth_lies_within_the_bounds(seed: int, troubles: Impairments) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    lies_within(honest(chance), troubles, chance.randint(1, 99))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_truth_of_scenarios_lies_within_the_bounds(scenario: Any) -> None:
    for number, talk in enumerate(clean(scenario.name)):
        if any(each.frame.name == "buffer_ack" for each in talk):
            for troubles in LOSSY:
                lies_within(talk, troubles, 3 + number)


def test_bounds_close_again() -> None:
    sums = [lies_within(honest(random.Random(seed)), LOSSY[0], seed) for seed in range(20)]  # noqa: S311
    certain, bounded = (sum(each) for each in zip(*sums, strict=True))
    assert certain > 3 * bounded > 0


def shuffled(batches: Sequence[pa.RecordBatch], chance: random.Random) -> pa.RecordBatch:
    """Put the directions into each other by chance, each in its own order, after the open."""
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    sides = whole.column("direction").to_pylist()
    keep = min(2, len(sides))
    queues = [[row for row in range(keep, len(sides)) if sides[row] == side] for side in (0, 1)]
    order = list(range(keep))
    while any(queues):
        side = chance.choice([side for side in (0, 1) if queues[side]])
        count = chance.randint(1, 9)
        order += queues[side][:count]
        del queues[side][:count]
    return whole.take(pa.array(order))


# A seed cannot be made simpler, so nothing is shrunk.
@settings(max_examples=80, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 32), st.booleans(), st.sampled_from(ROUGH))
def test_random_traffic_adds_up(seed: int, early: bool, troubles: Impairments) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    talk = chatter(chance, early=early)
    batches = batches_of(captured([talk], troubles, chance.randint(1, 99)))
    if not batches:
        return
    found = compare(batches)
    compare_row_by_row(batches)
    if troubles.lossless:
        # The order of the directions in the capture is of no matter, nor how it is cut.
        mixed = shuffled(batches, chance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock, "BACK_NS", 1 << 60)  # its times are not in order then
            patch.setattr(clock, "LEAP_NS", 1 << 60)
            again = compare([mixed])
            assert {name: each.sent for name, each in found.items()} == {
                name: each.sent for name, each in again.items()
            }
            compare_row_by_row([mixed])


def test_small_lots_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    talks = [chatter(random.Random(seed)) for seed in range(12)]  # noqa: S311
    for number, talk in enumerate(talks):
        talk.client_port += number
    batches = batches_of(captured(talks, Impairments(reorder=0.1)), 2048)
    whole = compare(batches)
    for lot in (1, 7, 100):
        monkeypatch.setattr(tracker, "_ROWS_AT_ONCE", (lot, lot))
        assert ours(batches) == whole


def test_too_much_to_keep_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = batches_of(captured(clean("flow-control")))
    sure = ours(batches)
    assert {row[4] for each in sure.values() for row in each.sent.values()} == {0}
    monkeypatch.setattr(tracker, "_ROWS_AT_ONCE", (1, 1))
    for module, name in ((connection_flow, "KEEP"), (tracker, "KEEP_ALL")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 3)
            found = ours(single_rows(batches))
            for name_of, each in sure.items():
                assert set(each.sent) == set(found[name_of].sent)
                assert set(each.acks) == set(found[name_of].acks)
            doubts = {row[4] for each in found.values() for row in each.sent.values()}
            assert UnknownReason.LIMIT in doubts


def test_recordings_taken_for_one_connection_are_not_known() -> None:
    talks = [chatter(random.Random(seed)) for seed in range(40)]  # noqa: S311
    batches = [batch for talk in talks for batch in batches_of(captured([talk]))]
    for lot in ((1, 1), (1 << 15, 1 << 18)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tracker, "_ROWS_AT_ONCE", lot)
            found = ours(batches)
        assert len(found) == 1
        assert UnknownReason.LIMIT in {row[4] for each in found.values() for row in each.sent.values()}


def test_connections_without_a_window_keep_nothing() -> None:
    session = Session(Conversation(), random.Random(1))  # noqa: S311
    session.open(b"plain")
    stream = session.stream(0)
    stream.marker(0, 900, MEMORY)
    while stream.last < 900:
        stream.mutation(stream.last + 1, b"key")
    session.noop()
    context = Context()
    for batch in batches_of(captured([session.conversation])):
        assert not {"sent", "acks", "stalls", "idle_producers"} & {name for name, _ in context.fold(batch)}
    assert context._flow._gathered_rows <= 1, "a no-op may be remembered"


def truth_of(path: Path) -> dict[str, Any]:
    name = path.with_suffix(".truth.json")
    if name.exists():
        return dict(json.loads(name.read_text(encoding="utf-8")))
    return dict(json.loads(gzip.decompress(name.with_name(f"{name.name}.gz").read_bytes())))


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_recordings_agree_with_what_the_client_counted(path: Path) -> None:
    agree(path)


@pytest.mark.shared
def test_shared_recordings_agree_too(shared_dir: Path) -> None:
    own = {path.name for path in CAPTURES.glob("*.pcap*")}
    for path in sorted((shared_dir / "captures").glob("*.pcap*")):
        if path.name not in own and is_judged(path):
            agree(path)


def agree(path: Path) -> None:
    """What was outstanding is the client's own number, if no ack was on its way; else it differs by those acks."""
    batches = batches_of(path)
    found = compare(batches)
    rows = {}
    for batch in batches:
        for row in batch.select([*NAMES, "src", "sport", "dst", "dport"]).to_pylist():
            ends = f"{row['src']}:{row['sport']}", f"{row['dst']}:{row['dport']}"
            rows[(*ends, row["start_offset"])] = row
    checked = 0
    for connection in truth_of(path)["connections"]:
        before, acks = 0, []
        ends = {
            "c2s": (connection["client"], connection["server"]),
            "s2c": (connection["server"], connection["client"]),
        }
        for message in connection.get("messages", ()):
            row = rows.get((*ends[message["dir"]], message["off"]))
            if row is not None and "buffer_bytes" in message.get("f", {}) and message["magic"] == 0x80:
                acks.append((row["end_offset"], row["direction"]))
            if row is not None and message.get("fc_bytes"):
                assert row["flow_bytes"] == message["fc_bytes"]
                sums = found[row["connection"]].sent.get(row["start_offset"])
                known = row["acked_offset"] or 0
                heard = sum(end <= known for end, _ in acks) == len(acks)
                unread = (
                    any(
                        other["opcode"] == 0x5D
                        and not other["response"]
                        and other["direction"] != row["direction"]
                        and other["end_offset"] <= known
                        and (other["end_offset"], other["direction"]) not in acks
                        for other in rows.values()
                        if other["connection"] == row["connection"]
                    )
                    if sums is not None
                    else False
                )
                if sums is not None and heard and not unread and not sums[4]:
                    assert sums[1] == before, message
                    checked += 1
            before = message.get("unacked_after", before)
    if path.name.startswith(("02", "06", "10", "11", "12", "22", "23", "24", "25", "26", "27")):
        assert checked > 25


def test_windows_are_paired_by_their_order() -> None:
    sizes = BufferSizes()
    sizes.note_response(24, 0, 7, 1, granted=True)  # the capture shows it before the question
    sizes.pair_controls(0)
    assert sizes.next_change(0) == (None, 1 << 62), "nothing was heard that could be its question"
    sizes.note_response(48, 60, 7, 2, granted=False)
    sizes.note_response(72, 120, 7, 3, granted=True)
    sizes.pair_controls(30)
    assert sizes.next_change(0) == (None, 48)
    sizes.note_request(60, 7, 500)
    sizes.note_request(120, 7, 700)
    sizes.pair_controls(120)
    change, offset = sizes.next_change(0)
    assert change is not None
    assert (change.size, offset) == (700, 72)
    ends, acked = np.array([59, 61, 61, 121]), np.array([0, 0, 48, 48])
    assert sizes.was_requested(ends, acked).tolist() == [False, True, False, True]
    assert (requested_size("20"), requested_size("abc"), requested_size("")) == (20, 0, 0)
    assert NO_WINDOW < 0
