"""Flow control message by message: slow, obvious, and all of a connection at once. The oracle of the context's sums."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

SECOND = 1_000_000_000
NEVER = 1 << 62
HEADER = 24
EARLY = "upr"
BACK = {0x55: 3, 0x56: 8, 0x57: 1, 0x60: 2}  # bytes that were once miscounted
NOOP, CONTROL, ACK, OPEN = 0x5C, 0x5E, 0x5D, 0x50


@dataclass
class Books:
    """What is expected; messages are named by their offset."""

    sent: dict[int, tuple[int, ...]] = field(default_factory=dict)  # outstanding, unacked, window, full, doubt
    acks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stalls: list[tuple[int, ...]] = field(default_factory=list)
    rests: list[tuple[int, ...]] = field(default_factory=list)


def counts(row: Row) -> bool:
    return bool(row["flow_bytes"] > 0 and not row["response"])


class Connection:
    def __init__(self, rows: list[Row]) -> None:
        opened = next((row for row in rows if row["opcode"] == OPEN and not row["response"]), None)
        self.producer = 1 - opened["direction"] if opened and opened["open_flags"] & 1 else 0
        if opened is not None and not opened["open_flags"] & 1:
            self.producer = opened["direction"]
        before = rows[: rows.index(opened)] if opened else rows
        self.unopened = any(counts(row) or row["opcode"] in (ACK, NOOP) and not row["response"] for row in before)
        self.sides: tuple[list[Row], list[Row]] = ([], [])
        for row in rows:
            row["acked"] = -1 if row["acked_offset"] is None else row["acked_offset"]
            self.sides[row["direction"]].append(row)
        self.sending, self.consuming = self.sides[self.producer], self.sides[1 - self.producer]
        self.heard = [side[-1]["end_offset"] if side else 0 for side in self.sides]
        self.hole = [
            min((r["start_offset"] - r["gap"] - r["skipped"] for r in side if lossy(r)), default=NEVER)
            for side in self.sides
        ]
        self.asked, self.refused, self.changes = self.windows()

    def windows(self) -> tuple[list[int], list[int], list[tuple[int, int, int]]]:
        """Pair controls by their order in each direction."""
        questions = defaultdict(list)
        for row in self.consuming:
            if row["opcode"] == CONTROL and not row["response"]:
                questions[row["opaque"]].append(row)
        asked = [
            r["end_offset"] for each in questions.values() for r in each if r["key"] == b"connection_buffer_size"
        ]
        refused, changes = [], []
        for row in self.sending:
            if row["opcode"] == CONTROL and row["response"] and questions[row["opaque"]]:
                question = questions[row["opaque"]].pop(0)
                if question["key"] == b"connection_buffer_size":
                    size = int(question["text"]) if (question["text"] or "").isdigit() else 0
                    if row["status"] == 0:
                        changes.append((row["end_offset"], size, row["time_ns"]))
                    elif not changes:
                        refused.append(row["end_offset"])
        return sorted(asked), refused, changes

    def doubt(self, row: Row, top: int) -> int:
        side = row["direction"]
        if self.unopened:
            return 2
        if row["acked"] < 0:
            return 3
        if top >= self.heard[1 - side] + HEADER:
            return 1 if self.heard[1 - side] else 3
        return int(row["end_offset"] > self.hole[side] or top > self.hole[1 - side])


def lossy(row: Row) -> bool:
    return bool(row["gap"] > 0 or row["skipped"] > 0 or row["missing"] > 0)


def books(rows: list[Row]) -> Books:
    """Return the books of one connection; ``rows`` are its frames in the order of the capture."""
    found = Books()
    connection = Connection(rows)
    acks = [row for row in connection.consuming if row["opcode"] == ACK and not row["response"]]
    _send(connection, acks, found)
    _receive(connection, acks, found)
    return found


def _amount(ack: Row) -> int:
    return max(-1 if ack["buffer_bytes"] is None else ack["buffer_bytes"], 0)


def _send(connection: Connection, acks: list[Row], found: Books) -> None:
    """Go through the producer's messages as it sent them."""
    changes, known = list(connection.changes), 0
    window, unacked, least, top, largest = -1, 0, 0, -1, 0
    freed = changed = latest = 0
    slack, slack_until = 0, -1
    last: Row | None = None

    def ack_comes(ack: Row, doubt: int) -> None:
        nonlocal unacked, least, freed
        unacked = max(0, unacked - _amount(ack))
        if window > 0:
            if _amount(ack) and least >= window and last is not None:
                waited = max(0, ack["time_ns"] - max(freed, last["time_ns"]))
                found.stalls.append((ack["start_offset"], last["start_offset"], least, window, waited, doubt))
            least = max(0, least - _amount(ack))
            if _amount(ack):
                freed = max(freed, ack["time_ns"])

    for row in connection.sending:
        while changes and row["end_offset"] > changes[0][0]:
            _, size, changed = changes.pop(0)
            if window <= 0 or size <= 0:
                least, slack, slack_until = 0, 0, -1
            window, freed = size, max(freed, changed)
        if not counts(row):
            continue
        top = max(top, row["acked"])
        doubt, heard_something = connection.doubt(row, top), False
        size = row["flow_bytes"]
        time = max(latest, row["time_ns"])
        if slack_until >= 0 and last is not None and time <= slack_until + 0 and False:
            pass
        while known < len(acks) and acks[known]["end_offset"] <= top:
            if window > 0 and _amount(acks[known]) > least:
                slack, slack_until = 0, time + SECOND
            ack_comes(acks[known], doubt)
            known, heard_something = known + 1, True
        if window > 0:
            early = row["dialect"] == EARLY
            largest = max(largest, size) if early else largest
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
        window, freed = size, max(freed, changed)
    if window <= 0 or last is None:
        return
    producer, consumer = connection.sending, connection.consuming
    heard = connection.heard[connection.producer]
    acked = consumer[-1]["acked"] if consumer else -1
    doubt = 2 if connection.unopened else int(min(connection.hole) < NEVER or acked >= heard + HEADER)
    for ack in acks[known:]:
        ack_comes(ack, doubt)
    end = max(side[-1]["time_ns"] for side in (producer, consumer) if side)
    if least >= window:
        waited = max(0, end - max(freed, last["time_ns"]))
        found.stalls.append((last["start_offset"], last["start_offset"], least, window, waited, doubt))


def _receive(connection: Connection, acks: list[Row], found: Books) -> None:
    """Go through the acks as the consumer sent them."""
    messages = [row for row in connection.sending if counts(row)]
    noops = [row["end_offset"] for row in connection.sending if row["opcode"] == NOOP and not row["response"]]
    changes = list(connection.changes)
    window, back, position, top, noops_before = -1, 0, 0, -1, 0
    for ack in acks:
        top = max(top, ack["acked"])
        while changes and top >= changes[0][0]:
            offset, size, _ = changes.pop(0)
            if window <= 0 or size <= 0:
                position = max(position, sum(m["flow_bytes"] for m in messages if m["end_offset"] <= offset))
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
