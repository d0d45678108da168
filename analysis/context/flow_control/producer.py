"""Flow control as the producer knew it: bytes outstanding before each message, stalls at a full window, idle points.

The producer knew an ack when it sent a message exactly if that message's TCP segment acknowledges the ack's last byte.
Bytes that are acked beyond what was sent are dropped, as servers do. With S the bytes sent before each ack arrived and
C the plain sum of the acks, the acked bytes are ``C + min(0, running minimum of (S - C))``: no loop over messages is
needed.

Knows sums and times; must not know how rows are gathered, nor which of them break a rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.codes import UnknownReason
from analysis.context.flow_control.buffer_size import NO_WINDOW
from analysis.context.flow_control.rows import ACKED, CODE, END, NONE, ORDINAL, SIZE, TIME, UPR, WIDTH

if TYPE_CHECKING:
    from analysis.context.flow_control.buffer_size import SizeChange
    from analysis.context.flow_control.rows import RowBuffer
    from dissector.array_types import Longs


SECOND_NS = 10**9
QUIET_NS = 10 * SECOND_NS  #: a producer that sends nothing for so long is idle (FLC-04)
KEPT_PART = 5  #: consumers may leave less than a fifth of the window unacked
_NO_ROW = np.zeros((WIDTH, 1), np.int64)
_READ_DELAY_NS = SECOND_NS  #: a server may read an ack this much later than it arrived


class FlowSums(NamedTuple):
    """Sums over some messages, and over the acks that the producer received meanwhile."""

    before: Longs  #: outstanding before each message
    at: Longs  #: what would be outstanding at each ack, had none of these acks come
    acked: Longs  #: bytes acked up to each ack
    end: int  #: outstanding after the last message
    excess: int  #: bytes acked beyond what was outstanding

    @property
    def before_acks(self) -> Longs:
        """Return what was outstanding before each ack."""
        found = self.at.copy()
        found[1:] -= self.acked[:-1]
        return found

    @property
    def after_acks(self) -> Longs:
        """Return what was outstanding after each ack."""
        return self.at - self.acked


def flow_sums(start: int, size: Longs, known: Longs | None, first: Longs, given: Longs) -> FlowSums:
    """Add up messages and acks, from ``start`` bytes outstanding.

    ``known``: how many of the acks the producer knew before each message; ``first``: the first message after each ack.
    """
    sums = np.cumsum(size)
    before = sums - size + start
    end = start + int(sums[-1])
    if known is None:
        return FlowSums(before, first, first, end, 0)
    at = before[first]
    acked = acked_bytes(at, given)
    total = int(acked[-1])
    return FlowSums(before - np.concatenate(([0], acked))[known], at, acked, end - total, int(given.sum()) - total)


def acked_bytes(most: Longs, given: Longs) -> Longs:
    """Return the cumulative acked bytes at each ack, capped at ``most`` (the bytes sent by then)."""
    plain = np.cumsum(given)
    found: Longs = plain + np.minimum(0, np.minimum.accumulate(most - plain))
    return found


@dataclass(slots=True, eq=False)
class IdlePoint:
    """A pause of the producer while much was outstanding."""

    low: int  #: the least that was outstanding since
    window: int
    quiet_ns: int
    guilty: Longs  #: the last ack before it, or the last message


@dataclass(slots=True, eq=False)
class ProducerFlow:
    """The producer of one connection."""

    connection: int
    sent: RowBuffer
    stalls: RowBuffer
    window: int = NO_WINDOW
    changes: int = 0  #: how many changes of the window it has passed
    changed_at: int = -1  #: offset of the last one
    unacked: int = 0  #: bytes outstanding if everything counts, as newer servers count
    outstanding: int = 0  #: bytes outstanding, counted in the producer's favour
    acked_offset: int = -1  #: what it has acknowledged of the consumer's bytes
    last_message: Longs = field(default_factory=lambda: NONE)  #: that counts
    last_ack: Longs = field(default_factory=lambda: NONE)
    idle: IdlePoint | None = None  #: the first one whose bytes are not acked yet
    _largest_message: int = 0  #: bytes of the largest message that was sent under a window
    _freed_ns: int = 0  #: when bytes were last acked, or the window changed
    _changed_ns: int = 0
    _latest_ns: int = 0  #: of all messages
    _delay_until_ns: int = -1  #: until then an ack of too many bytes may be unread; -1: there was none
    _delay_bytes: int = 0  #: sent since that ack
    _overdrawn: int = 0  #: ordinal of the first message of a run that was sent at a full window; 0: none

    def change_window(self, change: SizeChange) -> None:
        """Go on with a window of another size."""
        self.changes += 1
        if self.window <= 0 or change.size <= 0:
            # Old servers begin to count with the window, and drop their count when it is switched off; newer ones also
            # count what was sent before and meanwhile. A violation must show in both ways of counting.
            self.outstanding, self._delay_until_ns, self._delay_bytes = 0, -1, 0
        self.window, self.idle, self._overdrawn = change.size, None, 0
        self.changed_at, self._changed_ns = change.offset, change.time_ns
        self._freed_ns = max(self._freed_ns, change.time_ns)

    def add_up(self, messages: Longs, acks: Longs, unknown: Longs | int) -> int:
        """Add up messages under one window.

        ``acks`` are those that the producer did not know before; returns how many of them it knows at the end.
        """
        acked = np.maximum.accumulate(messages[ACKED])
        if acked[0] < self.acked_offset:
            np.maximum(acked, self.acked_offset, out=acked)
        self.acked_offset = int(acked[-1])
        ends, size = acks[END], messages[SIZE]
        known, count = None, 0
        if len(ends) and ends[0] <= self.acked_offset:
            known = np.searchsorted(ends, acked, side="right")
            count = int(known[-1])
        given = acks[SIZE, :count]
        first = np.searchsorted(acked, ends[:count], side="left")
        if self.window == NO_WINDOW:
            self.unacked += int(size.sum())  # acks are ignored where there is no window
        else:
            same = self.unacked == self.outstanding
            strict = flow_sums(self.unacked, size, known, first, given)
            self.unacked = strict.end
        if self.window > 0:
            counted = size
            if (messages[CODE, -1] | messages[CODE, 0]) & UPR:
                counted = self._counted_by_upr(messages, known)
                same = False
            lenient = strict if same else flow_sums(self.outstanding, counted, known, first, given)
            self._add_sent_rows(messages, acks, known, first, lenient, strict, size, unknown)
            self.outstanding = lenient.end
        self.last_message = messages[:, -1:].copy()
        self._latest_ns = max(self._latest_ns, int(messages[TIME].max()))
        if count:
            self.last_ack = acks[:, count - 1 : count].copy()
        return count

    def _counted_by_upr(self, messages: Longs, known: Longs | None) -> Longs:
        """Return the bytes that UPR servers count: none of a message that waited at a full window until an ack came."""
        size: Longs = messages[SIZE]
        if known is None:
            return size
        held_back = np.diff(known, prepend=0) > 0
        counted: Longs = np.where(held_back & (messages[CODE] & UPR > 0), 0, size)
        return counted

    def _add_sent_rows(
        self,
        messages: Longs,
        acks: Longs,
        known: Longs | None,
        first: Longs,
        lenient: FlowSums,
        strict: FlowSums,
        size: Longs,
        unknown: Longs | int,
    ) -> None:
        full: Longs | int = self.window
        if (messages[CODE, -1] | messages[CODE, 0]) & UPR:
            # FLC-02: UPR servers send one message more than fits.
            largest = np.maximum(np.maximum.accumulate(size), self._largest_message)
            full = full + np.where(messages[CODE] & UPR, largest, 0)
        # A lost packet may hide for a while that the server speaks UPR: its messages until then count as well.
        self._largest_message = max(self._largest_message, int(size.max()))
        if self._delay_until_ns >= 0 or lenient.excess:
            full = full + self._read_delay_allowance(messages, acks, known, first, lenient, size)
        root: Longs | int = 0
        overdrawn = lenient.before >= full
        if overdrawn.any() or self._overdrawn:
            place = np.arange(len(size))
            fine = np.maximum.accumulate(np.where(overdrawn, -1, place))
            begin = messages[ORDINAL, np.minimum(fine + 1, len(size) - 1)]
            root = np.where(overdrawn, np.where((fine < 0) & (self._overdrawn > 0), self._overdrawn, begin), 0)
            self._overdrawn = int(root[-1])
        self.sent.add(
            self.connection,
            {
                "guilty": messages,
                "ack": self._acks_before(messages, acks, known) if isinstance(root, np.ndarray) else _NO_ROW,
            },
            window=self.window,
            full=full,
            outstanding=lenient.before,
            unacked=strict.before,
            root=root,
            unknown=unknown,
        )
        if known is not None:
            self.note_stalls(messages, acks[:, : len(first)], first, lenient, unknown)
            if self.idle is not None:
                self.note_outstanding(int(lenient.after_acks.min()))
        if self.idle is None:
            self._find_idle_point(messages, acks, known, lenient, unknown)

    def _acks_before(self, messages: Longs, acks: Longs, known: Longs | None) -> Longs:
        """Return the last ack that the producer knew at each message."""
        found = np.zeros_like(messages)
        number = np.zeros(messages.shape[1], np.int64) if known is None else known
        if self.last_ack.shape[1]:
            found[:, number == 0] = self.last_ack
        some = number > 0
        found[:, some] = acks[:, number[some] - 1]
        return found

    def _read_delay_allowance(
        self, messages: Longs, acks: Longs, known: Longs | None, first: Longs, lenient: FlowSums, size: Longs
    ) -> Longs:
        """Return how many bytes more may be outstanding after an ack of more bytes than were outstanding.

        Nothing is outstanding when the server reads such an ack, which may be a bit later than it arrived.
        """
        sums = np.concatenate(([0], np.cumsum(size)))
        times = np.maximum(np.maximum.accumulate(messages[TIME]), self._latest_ns)
        excess = np.flatnonzero(acks[SIZE, : len(first)] > lenient.before_acks)
        begin = np.concatenate(([0], first[excess]))
        until = np.concatenate(([self._delay_until_ns], times[first[excess]] + _READ_DELAY_NS))
        origin = np.concatenate(([-self._delay_bytes], sums[first[excess]]))
        stop = np.maximum(np.searchsorted(times, until, side="right"), begin)
        which = np.zeros(len(size), np.int64) if known is None else np.searchsorted(excess, known, side="left")
        found: Longs = sums[np.minimum(np.arange(len(size)), stop[which])] - origin[which]
        final = int(which[-1])
        self._delay_bytes = int(sums[min(len(size), int(stop[final]))] - origin[final])
        self._delay_until_ns = int(until[final])
        return found

    def note_stalls(self, messages: Longs, acks: Longs, first: Longs, lenient: FlowSums, unknown: Longs | int) -> None:
        """Note the acks that came at a full window, and how long the producer had waited for them (FLC-03)."""
        before = lenient.before_acks
        some = np.flatnonzero(acks[SIZE] > 0)
        if not len(some):
            return
        times = acks[TIME, some]
        since = np.maximum.accumulate(np.concatenate(([self._freed_ns], times[:-1])))
        self._freed_ns = max(self._freed_ns, int(times.max()))
        late = np.flatnonzero(before[some] >= self.window)
        if not len(late):
            return
        chosen = some[late]
        place = first[chosen] - 1
        last_message = np.empty((len(messages), len(chosen)), np.int64)
        inside = place >= 0
        last_message[:, inside] = messages[:, place[inside]]
        last_message[:, ~inside] = self.last_message
        waited = np.maximum(times[late] - np.maximum(since[late], last_message[TIME]), 0)
        self.stalls.add(
            self.connection,
            {"guilty": acks[:, chosen], "last": last_message},
            outstanding=before[chosen],
            window=self.window,
            waited_ns=waited,
            waited_s=waited // SECOND_NS,
            root=last_message[ORDINAL],
            unknown=unknown if isinstance(unknown, int) else unknown[np.minimum(first[chosen], len(unknown) - 1)],
        )

    def note_final_stall(self, end_ns: int, unknown: int) -> None:
        """Note that the window is still full at the end of the capture (FLC-03)."""
        if self.outstanding >= self.window:
            waited = max(end_ns - max(self._freed_ns, int(self.last_message[TIME, 0])), 0)
            self.stalls.add(
                self.connection,
                {"guilty": self.last_message, "last": self.last_message},
                outstanding=self.outstanding,
                window=self.window,
                waited_ns=waited,
                waited_s=waited // SECOND_NS,
                root=int(self.last_message[ORDINAL, 0]),
                unknown=unknown,
            )

    def note_outstanding(self, low: int) -> None:
        """Note that only ``low`` bytes were outstanding: if that is little, the idle point is none any more."""
        if self.idle is not None:
            self.idle.low = min(self.idle.low, low)
            if self.idle.low * KEPT_PART < self.idle.window:
                self.idle = None

    def _find_idle_point(
        self, messages: Longs, acks: Longs, known: Longs | None, lenient: FlowSums, unknown: Longs | int
    ) -> None:
        """Find the first pause at which much was outstanding that has not been acked since (FLC-04)."""
        times = messages[TIME]
        before = np.concatenate((self.last_message[TIME] if self.last_message.shape[1] else times[:1], times[:-1]))
        quiet = times - np.maximum(before, self._changed_ns)
        for place in np.flatnonzero(quiet > QUIET_NS).tolist():
            low = level = int(lenient.before[place])
            number = 0 if known is None else int(known[place])
            if known is not None and number < len(lenient.at):
                low = min(low, int(lenient.after_acks[number:].min()))
            sure = unknown == UnknownReason.KNOWN if isinstance(unknown, int) else unknown[place] == UnknownReason.KNOWN
            if sure and level < self.window and low * KEPT_PART >= self.window:
                guilty = acks[:, number - 1 : number] if number else self.last_ack
                if not guilty.shape[1]:
                    guilty = messages[:, place - 1 : place] if place else self.last_message
                self.idle = IdlePoint(low, self.window, int(quiet[place]), guilty.copy())
                return
