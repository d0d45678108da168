"""Flow control of a connection, message by message: slow and obvious. The oracle of the context's sums.

It takes what it is given for everything that was sent: where something was lost, ask it about the whole traffic.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from analysis.context.codes import UnknownReason

Row = dict[str, Any]

SECOND = 1_000_000_000
HEADER = 24
UPR = "upr"
DRIFTS = (2, 3, 8, 1)  # bytes by which a prepare, a stream end with a stream id, a V2.1 marker, a mutation was off
NOOP, CONTROL, ACK, OPEN = 0x5C, 0x5E, 0x5D, 0x50
STREAM_END, MARKER, MUTATION, PREPARE = 0x55, 0x56, 0x57, 0x60


@dataclass
class FlowRows:
    """The rows that a connection must give; messages are named by their offset."""

    sent: dict[int, tuple[int, ...]] = field(default_factory=dict)  # outstanding, unacked, window, full, doubt
    acks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stalls: list[tuple[int, ...]] = field(default_factory=list)
    idle: list[tuple[int, ...]] = field(default_factory=list)


def counts(row: Row) -> bool:
    return bool(row["flow_bytes"] > 0 and not row["response"])


class Connection:
    def __init__(self, rows: list[Row]) -> None:
        opened = next((row for row in rows if row["opcode"] == OPEN and not row["response"]), None)
        producing = opened is not None and (opened["open_flags"] or 0) & 1  # the other side shall produce
        self.producer = 0 if opened is None else opened["direction"] ^ int(bool(producing))
        self.sides: tuple[list[Row], list[Row]] = ([], [])
        for row in rows:
            row["acked"] = -1 if row["acked_offset"] is None else row["acked_offset"]
            self.sides[row["direction"]].append(row)
        self.sending, self.consuming = self.sides[self.producer], self.sides[1 - self.producer]
        self.heard = [side[-1]["end_offset"] if side else 0 for side in self.sides]
        self.asked, self.refused, self.changes = self.windows()

    def windows(self) -> tuple[list[int], list[int], list[tuple[int, int, int]]]:
        """Pair controls by their order in each direction."""
        questions = defaultdict(list)
        for row in self.consuming:
            if row["opcode"] == CONTROL and not row["response"]:
                questions[row["opaque"]].append(row)
        asked = [
            r["end_offset"] for each in questions.values() for r in each if r["key_bytes"] == b"connection_buffer_size"
        ]
        refused, changes = [], []
        for row in self.sending:
            if row["opcode"] == CONTROL and row["response"] and questions[row["opaque"]]:
                question = questions[row["opaque"]].pop(0)
                if question["key_bytes"] == b"connection_buffer_size":
                    size = int(question["text"]) if (question["text"] or "").isdigit() else 0
                    if row["status"] == 0:
                        changes.append((row["end_offset"], size, row["time_ns"]))
                    elif not changes:
                        refused.append(row["end_offset"])
        return sorted(asked), refused, changes

    def doubt(self, row: Row, top: int) -> int:
        one_sided = row["acked"] < 0 or (top >= HEADER and not self.heard[1 - row["direction"]])
        return UnknownReason.ONE_SIDED if one_sided else UnknownReason.KNOWN


def flow_rows(rows: list[Row]) -> FlowRows:
    """Return the rows of one connection; ``rows`` are its frames in the order of the capture."""
    found = FlowRows()
    connection = Connection(rows)
    acks = [row for row in connection.consuming if row["opcode"] == ACK and not row["response"]]
    _send(connection, acks, found, _receive(connection, acks, found))
    return found


def _drift(row: Row) -> int:
    """Return which of the miscounted messages it is, from 0; -1: none."""
    if row["opcode"] == PREPARE:
        return 0
    if row["opcode"] == STREAM_END and row["stream_id"] is not None:
        return 1
    if row["opcode"] == MARKER and row["marker_version"] == 1:
        return 2
    return 3 if row["opcode"] == MUTATION else -1


def _amount(ack: Row) -> int:
    return max(-1 if ack["buffer_bytes"] is None else ack["buffer_bytes"], 0)


@dataclass
class IdlePoint:
    """A pause of the producer."""

    low: int
    window: int
    quiet: int
    guilty: int


@dataclass
class Received:
    """What the consumer has acked in the end."""

    position: int
    window: int
    floor: list[int]
    #: After each ack with a window: what was left, and the messages of each kind by then.
    left: list[tuple[int, list[int]]]


def _send(connection: Connection, acks: list[Row], found: FlowRows, received: Received) -> None:
    """Go through the producer's messages as it sent them."""
    pauses: list[IdlePoint] = []
    changes, known = list(connection.changes), 0
    window, unacked, least, top, largest = -1, 0, 0, -1, 0
    freed = changed = latest = 0
    slack, slack_until = 0, -1
    last: Row | None = None

    def ack_comes(ack: Row, doubt: int) -> None:
        nonlocal unacked, least, freed
        if window >= 0:  # without a window, acks are ignored
            unacked = max(0, unacked - _amount(ack))
        if window > 0:
            if _amount(ack) and least >= window and last is not None:
                waited = max(0, ack["time_ns"] - max(freed, last["time_ns"]))
                found.stalls.append((ack["start_offset"], last["start_offset"], least, window, waited, doubt))
            least = max(0, least - _amount(ack))
            if _amount(ack):
                freed = max(freed, ack["time_ns"])
            for pause in pauses:
                pause.low = min(pause.low, least)

    for row in connection.sending:
        while changes and row["end_offset"] > changes[0][0]:
            _, size, changed = changes.pop(0)
            if window <= 0 or size <= 0:
                least, slack, slack_until = 0, 0, -1
            window, freed, pauses = size, max(freed, changed), []
        if not counts(row):
            continue
        top = max(top, row["acked"])
        doubt, heard_something = connection.doubt(row, top), False
        size = row["flow_bytes"]
        time = max(latest, row["time_ns"])
        while known < len(acks) and acks[known]["end_offset"] <= top:
            if window > 0 and _amount(acks[known]) > least:
                slack, slack_until = 0, time + SECOND
            ack_comes(acks[known], doubt)
            known, heard_something = known + 1, True
        if window > 0:
            quiet = row["time_ns"] - max(last["time_ns"], changed) if last is not None else 0
            if quiet > 10 * SECOND and not doubt and least < window:
                guilty = acks[known - 1] if known else last
                pauses.append(IdlePoint(least, window, quiet, guilty["start_offset"] if guilty else -1))
            early = row["dialect"] == UPR
            largest = max(largest, size)  # whether or not a frame before it had shown the dialect
            full = window + (largest if early else 0) + slack
            found.sent[row["start_offset"]] = (least, unacked, window, full, doubt)
            least += 0 if early and heard_something else size
            if slack_until >= 0 and time <= slack_until:
                slack += size
        unacked += size
        latest, last = time, row
    while changes:
        _, size, changed = changes.pop(0)
        if window <= 0 or size <= 0:
            least = 0
        window, freed, pauses = size, max(freed, changed), []
    if window <= 0 or last is None:
        return
    producer, consumer = connection.sending, connection.consuming
    acked = consumer[-1]["acked"] if consumer else -1
    doubt = UnknownReason.KNOWN if producer and consumer else UnknownReason.ONE_SIDED
    for ack in acks[known:]:
        ack_comes(ack, doubt)
    end = max(side[-1]["time_ns"] for side in (producer, consumer) if side)
    if least >= window:
        waited = max(0, end - max(freed, last["time_ns"]))
        found.stalls.append((last["start_offset"], last["start_offset"], least, window, waited, doubt))
    pauses = [pause for pause in pauses if pause.low * 5 >= pause.window]
    # The other direction's clock may be a second ahead.
    ends = [side[-1]["time_ns"] - skew for side, skew in ((producer, 0), (consumer, SECOND)) if side]
    quiet = max(0, max(ends) - last["time_ns"])
    if quiet <= 10 * SECOND and not pauses:
        return
    top = max([acked, *(ack["acked"] for ack in acks)])
    there = [row for row in producer if counts(row) and row["end_offset"] <= top]
    left = min(max(0, sum(row["flow_bytes"] for row in there) - received.position), least)
    drift, count = (
        (0, 0) if quiet <= 10 * SECOND or received.window <= 0 else _miscount(left, there, received, producer)
    )
    if pauses and not drift:
        first = pauses[0]
        found.idle.append((first.guilty, first.low, first.window, first.quiet, 0, 0, doubt))
    elif least < window:
        guilty = acks[-1] if acks else last
        found.idle.append((guilty["start_offset"], left, window, quiet, drift, count, doubt))


def _miscount(left: int, there: list[Row], received: Received, producer: list[Row]) -> tuple[int, int]:
    """Tell which kind of message explains what is left."""
    sums, total = {0}, 0
    for row in producer:
        if counts(row):
            total += row["flow_bytes"]
            sums.add(total)
    for kind, each in enumerate(DRIFTS):
        number = sum(_drift(row) == kind for row in there) - received.floor[kind]
        history = [(numbers[kind] if rest else -1, rest) for rest, numbers in received.left]
        if not history or left <= 0 or number < 3 or number * each != left:
            continue
        count, rest = history[-1]
        before = [entry for entry in history if entry[0] != count]
        shown = bool(before) and before[-1][1] > 0 and before[-1][0] * each == before[-1][1]
        if rest > 0 and count * each == rest and (shown or received.position not in sums):
            return kind + 1, number
    return 0, 0


def _receive(connection: Connection, acks: list[Row], found: FlowRows) -> Received:
    """Go through the acks as the consumer sent them."""
    messages = [row for row in connection.sending if counts(row)]
    noops = [row["end_offset"] for row in connection.sending if row["opcode"] == NOOP and not row["response"]]
    changes = list(connection.changes)
    window, back, position, top, noops_before = -1, 0, 0, -1, 0
    floor, history = [0] * len(DRIFTS), []
    for ack in acks:
        top = max(top, ack["acked"])
        while changes and top >= changes[0][0]:
            offset, size, _ = changes.pop(0)
            if window <= 0 or size <= 0:
                there = [message for message in messages if message["end_offset"] <= offset]
                position = max(position, sum(message["flow_bytes"] for message in there))
                floor = [sum(_drift(message) == kind for message in there) for kind in range(len(DRIFTS))]
            window = size
        arrived = sum(message["flow_bytes"] for message in messages if message["end_offset"] <= top)
        number = sum(end <= top for end in noops)
        asked = sum(end < ack["end_offset"] for end in connection.asked)
        refused = sum(end <= top for end in connection.refused)
        due = excess = latency = 0
        amount = _amount(ack)
        if window > 0:
            due = arrived - back
            excess = max(0, amount - due)
            back += min(amount, due)
            before, position = position, min(position + amount, arrived)
            there = [message for message in messages if message["end_offset"] <= top]
            kinds = [sum(_drift(each) == kind for each in there) - floor[kind] for kind in range(len(DRIFTS))]
            history.append((arrived - position, kinds))
            total = 0
            for message in messages:
                total += message["flow_bytes"]
                if total > before:
                    if total <= position:
                        latency = max(0, ack["time_ns"] - message["time_ns"])
                    break
        found.acks[ack["start_offset"]] = (
            *(amount, due, excess, window, int(asked > refused), number, number - noops_before, latency),
            connection.doubt(ack, top),
        )
        noops_before = number
    return Received(position, window, floor, history)
