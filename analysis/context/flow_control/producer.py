"""Flow control as the producer knew it: bytes outstanding before each message, stalls at a full window, idle points.

The producer knew an ack when it sent a message exactly if that message's TCP segment acknowledges the ack's last byte.
Once something was lost, what is outstanding is known within bounds: lost messages may have counted or not, and lost
acks may have given everything back or nothing. Sums are those of the least; the most is added to them. A producer that
sends shows that less than the window was outstanding, which narrows the bounds again, as acks do.

Knows sums and times; must not know how rows are gathered, nor which of them break a rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from analysis.context.clock import SECOND_NS
from analysis.context.flow_control.buffer_size import NO_WINDOW, UNKNOWN_WINDOW
from analysis.context.flow_control.doubts import EVERYTHING, UNBOUNDED
from analysis.context.flow_control.lost_bytes import SHORTEST_ACK
from analysis.context.flow_control.rows import (
    ACKED,
    CODE,
    END,
    LOST,
    NONE,
    ORDINAL,
    SIZE,
    START,
    TIME,
    UPR,
    VAGUE,
    WIDTH,
    places_of,
)
from analysis.context.flow_control.sums import (
    READ_DELAY_NS,
    FlowSums,
    Level,
    Steps,
    acked_bytes,
    bounded_sums,
    captured_until,
    flow_sums,
    known_for_sure,
)

if TYPE_CHECKING:
    from analysis.context.clock import CaptureClock
    from analysis.context.flow_control.buffer_size import SizeChange
    from analysis.context.flow_control.doubts import Doubts
    from analysis.context.flow_control.lost_bytes import LostBytes
    from analysis.context.flow_control.rows import RowBuffer
    from dissector.array_types import Longs, Mask


QUIET_NS = 10 * SECOND_NS  #: a producer that sends nothing for so long is idle (FLC-04)
KEPT_PART = 5  #: consumers may leave less than a fifth of the window unacked
UNSEEN_PART = 2  #: those that have never given anything back, half of it
_NO_ROW = np.zeros((WIDTH, 1), np.int64)


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
    clock: CaptureClock
    window: int = NO_WINDOW
    changes: int = 0  #: how many changes of the window it has passed
    changed_at: int = -1  #: offset of the last one
    unacked: int = 0  #: bytes outstanding if everything counts, as newer servers count
    outstanding: int = 0  #: bytes outstanding, counted in the producer's favour
    more: int = 0  #: bytes that may be outstanding beyond those, because something was lost
    acked_offset: int = -1  #: what it has acknowledged of the consumer's bytes
    last_message: Longs = field(default_factory=lambda: NONE)  #: that counts
    last_ack: Longs = field(default_factory=lambda: NONE)
    idle: IdlePoint | None = None  #: the first one whose bytes are not acked yet
    _largest_message: int = 0  #: bytes of the largest message that was sent under a window
    _freed_ns: int = 0  #: when bytes were last acked, or the window changed
    _freed: int = 0  #: place of that frame's packet in the captures
    _had_window: bool = False
    _late: bool = False  #: the last message acknowledges less than others before it
    _upr: bool = False  #: an ack has shown that it speaks UPR
    _changed_ns: int = 0
    _changed: int = 0  #: place of the response's packet
    _extra: int = 0  #: lost bytes that may have counted up to the last message
    _latest_ns: int = 0  #: of all messages
    _delay_until_ns: int = -1  #: until then an ack of too many bytes may be unread; -1: there was none
    _delay_bytes: int = 0  #: sent since that ack
    _overdrawn: int = 0  #: ordinal of the first message that overdrew the window, which is not made up for; 0: none
    _overdraft: int = 0  #: the most by which it was overdrawn since

    @property
    def passed(self) -> int:
        """Return the offset up to which its messages were added up."""
        return int(self.last_message[START, 0]) if self.last_message.shape[1] else -1

    def begin_unknown(self) -> None:
        """The connection's beginning was not captured."""
        self.window = UNKNOWN_WINDOW

    def change_window(self, change: SizeChange) -> None:
        """Go on with a window of another size."""
        self.changes += 1
        if self.window <= 0 or change.size <= 0:
            # Old servers begin to count with the window, and drop their count when it is switched off; newer ones also
            # count what was sent before and meanwhile. A violation must show in both ways of counting.
            self.outstanding, self._delay_until_ns, self._delay_bytes = 0, -1, 0
            self.more = UNBOUNDED if self.window == UNKNOWN_WINDOW else 0
        self.window, self.idle, self._overdrawn = change.size, None, 0
        self.changed_at, self._changed_ns, self._changed = change.offset, change.time_ns, change.place
        self._had_window |= change.size != UNKNOWN_WINDOW
        self._freed_ns = max(self._freed_ns, change.time_ns)
        self._freed = max(self._freed, change.place)

    def add_up(self, messages: Longs, acks: Longs, lost: tuple[LostBytes, LostBytes], unknown: Doubts) -> int:
        """Add up messages under one window.

        ``acks`` are those that the producer did not know before; returns how many of them it knows at the end.
        ``lost`` are bytes of the producer and of the consumer.
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
        first = np.searchsorted(acked, ends[:count], side="left")
        early = None
        if known is not None:
            early, known = known, known_for_sure(messages, acks[:, :count], known)
            if known is early:
                early = None
            else:
                count = int(known[-1])
                first = np.searchsorted(known, np.arange(1, count + 1), side="left")
                known = known if count else None
        given = acks[SIZE, :count]
        vague = None
        if count and acks[CODE, :count].max() >= VAGUE:
            vague = acks[CODE, :count] & VAGUE > 0
            given = np.where(vague, EVERYTHING, given)
        messages = self._shown_as_upr(messages, acks[:, :count], first)
        extra = lost[0].most_until(messages[START]) if lost[0] else None
        if self.window in (NO_WINDOW, UNKNOWN_WINDOW):
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
            full = self._full_at(messages, size)
            damaged = bool(lost[0] or lost[1] or self.more)
            late = messages[ACKED] < acked if damaged else None  # other packets were sent again before
            if (
                self.more
                or vague is not None
                or early is not None
                or (extra is not None and extra[-1] > self._extra)
                or (late is not None and (self._late or late.any()))
            ):
                lenient, full = self._within_bounds(
                    messages, acks, known, early, late, full, extra, counted, lost[1], acked
                )
            else:
                lenient = strict if same else flow_sums(self.outstanding, counted, known, first, given)
                if self._delay_until_ns >= 0 or lenient.excess:
                    full = full + self._read_delay_allowance(messages, acks, known, first, lenient, size)
            self._late = late is not None and bool(late[-1])
            self._add_sent_rows(messages, acks, known, first, lenient, strict, full, unknown)
            self.outstanding = lenient.end
        elif self.window == UNKNOWN_WINDOW and self._had_window:  # of what came before, only the sum is kept
            self._add_unknown_rows(messages, unknown)
        if extra is not None:
            self._extra = int(extra[-1])
        self.last_message = messages[:, -1:].copy()
        self._latest_ns = max(self._latest_ns, int(messages[TIME].max()))
        if count:
            real = np.flatnonzero(acks[CODE, :count] & LOST == 0)[-1:]
            self.last_ack = acks[:, real].copy() if len(real) else self.last_ack
        return count

    def _within_bounds(
        self,
        messages: Longs,
        acks: Longs,
        known: Longs | None,
        early: Longs | None,
        late: Mask | None,
        full: Longs | int,
        extra: Longs | None,
        counted: Longs,
        lost_acks: LostBytes,
        acked: Longs,
    ) -> tuple[FlowSums, Longs]:
        """Return the sums within bounds, and what is full at each message.

        ``early``: how many acks the producer knew before each message at most; ``late``: which messages acknowledge
        less than others before them. Those were sent again then, so that it is not known when lost acks arrived.
        """
        room = messages.shape[1]
        none = np.zeros(room, np.int64)
        forgotten = lost_acks.inside(acked, SHORTEST_ACK) if lost_acks else np.zeros(room, bool)
        if late is not None:
            forgotten = forgotten | late | np.concatenate(([self._late], late[:-1]))
        vague = acks[CODE] & VAGUE > 0
        unsure = none
        if early is not None:
            sums = np.concatenate(([0], np.cumsum(np.where(vague, EVERYTHING, acks[SIZE]))))
            unsure = sums[early] - sums[none if known is None else known]
        most = messages[SIZE]
        if known is not None and (messages[CODE, -1] | messages[CODE, 0]) & UPR:
            captured = np.concatenate(([0], np.cumsum(acks[CODE] & LOST == 0)))
            most = self._counted_by_upr(messages, captured[known])
        steps = Steps(
            known=none if known is None else known,
            lost=none if extra is None else np.diff(extra, prepend=self._extra),
            forgotten=forgotten,
            unsure=unsure,
            least=counted,
            most=most,
            size=messages[SIZE],
            full=np.broadcast_to(full, room),
            time_ns=np.maximum(np.maximum.accumulate(messages[TIME]), self._latest_ns),
            acks=acks[SIZE],
            vague=vague,
        )
        level = Level(self.outstanding, self.outstanding + self.more, self._delay_until_ns, self._delay_bytes)
        found, full, level = bounded_sums(level, steps)
        self.more = level.most - level.least
        self._delay_until_ns, self._delay_bytes = level.until_ns, level.allowance
        return found, full

    def _add_unknown_rows(self, messages: Longs, unknown: Doubts) -> None:
        """Add messages of which nothing is known, since the window is not."""
        none = np.zeros(messages.shape[1], np.int64)
        most = np.full(messages.shape[1], UNBOUNDED, np.int64)
        self.sent.add(
            self.connection,
            {"guilty": messages, "ack": _NO_ROW},
            window=self.window,
            full=1,
            outstanding=none,
            outstanding_most=most,
            unacked=none,
            root=0,
            unknown=unknown.of(none, most),
        )

    def _shown_as_upr(self, messages: Longs, acks: Longs, first: Longs) -> Longs:
        """Return messages marked as UPR where the form of an ack before them shows it, if not they themselves do.

        Where the stream request was lost, messages may have been read before anything showed it.
        """
        if messages[CODE, 0] & UPR or not (self._upr or (acks.shape[1] and acks[CODE, -1] & UPR)):
            return messages
        begin = 0 if self._upr else int(first[np.argmax(acks[CODE] & UPR > 0)])
        self._upr = True
        messages = messages.copy()
        messages[CODE, begin:] |= UPR
        return messages

    def _counted_by_upr(self, messages: Longs, known: Longs | None) -> Longs:
        """Return the bytes that UPR servers count: none of a message that waited at a full window until an ack came."""
        size: Longs = messages[SIZE]
        if known is None:
            return size
        held_back = np.diff(known, prepend=0) > 0
        counted: Longs = np.where(held_back & (messages[CODE] & UPR > 0), 0, size)
        return counted

    def _full_at(self, messages: Longs, size: Longs) -> Longs | int:
        """Return from which outstanding bytes on nothing may be sent, at each message."""
        full: Longs | int = self.window
        if (messages[CODE, -1] | messages[CODE, 0]) & UPR:
            # FLC-02: UPR servers send one message more than fits.
            largest = np.maximum(np.maximum.accumulate(size), self._largest_message)
            full = full + np.where(messages[CODE] & UPR, largest, 0)
        # A lost packet may hide for a while that the server speaks UPR: its messages until then count as well.
        self._largest_message = max(self._largest_message, int(size.max()))
        return full

    def _add_sent_rows(
        self,
        messages: Longs,
        acks: Longs,
        known: Longs | None,
        first: Longs,
        lenient: FlowSums,
        strict: FlowSums,
        full: Longs | int,
        unknown: Doubts,
    ) -> None:
        root: Longs | int = 0
        overdrawn = lenient.before >= full
        if overdrawn.any() or self._overdrawn:
            root = self._roots_of_overdrafts(messages[ORDINAL], lenient.before, full)
        most = lenient.before if lenient.most is None else lenient.most
        self.sent.add(
            self.connection,
            {
                "guilty": messages,
                "ack": self._acks_before(messages, acks, known) if isinstance(root, np.ndarray) else _NO_ROW,
            },
            window=self.window,
            full=full,
            outstanding=lenient.before,
            outstanding_most=most,
            unacked=strict.before,
            root=root,
            unknown=unknown.of(lenient.before, most),
        )
        if known is not None:
            self.note_stalls(messages, acks[:, : len(first)], first, lenient, unknown)
            if self.idle is not None:
                self.note_outstanding(int(lenient.after_acks.min()))
        if self.idle is None:
            self._find_idle_point(messages, acks, known, lenient, unknown)

    def _roots_of_overdrafts(self, ordinal: Longs, before: Longs, full: Longs | int) -> Longs:
        """Return the first message that overdrew the window, for each that did so before that was made up for.

        It is not made up for before less is outstanding than it was overdrawn by: a single ack that never came leaves
        that much outstanding, and every message that fills the window again goes back to it.
        """
        roots = np.zeros(len(before), np.int64)
        over: Longs = np.maximum(before - full + 1, 0)
        at = 0
        while at < len(before):
            if not self._overdrawn:
                at += int(np.argmax(over[at:] > 0))
                if not over[at]:
                    break
                self._overdrawn, self._overdraft = int(ordinal[at]), 0
            most = np.maximum(np.maximum.accumulate(over[at:]), self._overdraft)
            even = np.flatnonzero(before[at:] < most)
            stop = at + int(even[0]) if len(even) else len(before)
            roots[at:stop] = np.where(over[at:stop] > 0, self._overdrawn, 0)
            self._overdraft = int(most[stop - at - 1]) if stop > at else self._overdraft
            if len(even):
                self._overdrawn = 0
            at = stop
        return roots

    def _acks_before(self, messages: Longs, acks: Longs, known: Longs | None) -> Longs:
        """Return the last ack that the producer knew at each message."""
        found = np.zeros_like(messages)
        number = np.zeros(messages.shape[1], np.int64) if known is None else captured_until(acks)[known]
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
        until = np.concatenate(([self._delay_until_ns], times[first[excess]] + READ_DELAY_NS))
        origin = np.concatenate(([-self._delay_bytes], sums[first[excess]]))
        stop = np.maximum(np.searchsorted(times, until, side="right"), begin)
        which = np.zeros(len(size), np.int64) if known is None else np.searchsorted(excess, known, side="left")
        found: Longs = sums[np.minimum(np.arange(len(size)), stop[which])] - origin[which]
        final = int(which[-1])
        self._delay_bytes = int(sums[min(len(size), int(stop[final]))] - origin[final])
        self._delay_until_ns = int(until[final])
        return found

    def note_stalls(self, messages: Longs, acks: Longs, first: Longs, lenient: FlowSums, unknown: Doubts) -> None:
        """Note the acks that came at a full window, and how long the producer had waited for them (FLC-03)."""
        before = lenient.before_acks
        some = np.flatnonzero((acks[SIZE] > 0) | (acks[CODE] & VAGUE > 0))
        if not len(some):
            return
        times, places = acks[TIME, some], places_of(acks[:, some])
        since = np.maximum.accumulate(np.concatenate(([self._freed_ns], times[:-1])))
        freed = np.maximum.accumulate(np.concatenate(([self._freed], places[:-1])))
        self._freed_ns, self._freed = max(self._freed_ns, int(times.max())), max(self._freed, int(places.max()))
        most = before if lenient.most_before_acks is None else lenient.most_before_acks
        late = np.flatnonzero((most[some] >= self.window) & (acks[CODE, some] & VAGUE == 0))
        if not len(late):
            return
        chosen = some[late]
        place = first[chosen] - 1
        last_message = np.empty((len(acks), len(chosen)), np.int64)
        inside = place >= 0
        last_message[:, inside] = messages[:, place[inside]]
        if not inside.all():
            last_message[:, ~inside] = self.last_message if self.last_message.shape[1] else 0
        begin_ns = np.maximum(since[late], last_message[TIME])
        begin = np.maximum(freed[late], places_of(last_message))
        waited = self.clock.elapsed(begin_ns, times[late], begin, places[late])
        least = before[chosen]
        doubts = unknown.some(np.minimum(first[chosen], max(messages.shape[1] - 1, 0)))
        self.stalls.add(
            self.connection,
            {"guilty": acks[:, chosen], "last": last_message},
            outstanding=least,
            window=self.window,
            waited_ns=waited,
            waited_s=waited // SECOND_NS,
            stepped=self.clock.was_set_between(begin, places[late]) if self.clock.stepped else 0,
            root=last_message[ORDINAL],
            unknown=doubts.of(least, most[chosen]),
        )

    def receive_late_acks(self, acks: Longs, lost: LostBytes, end: int, unknown: Doubts) -> None:
        """At the end of the capture, receive the acks that were on their way after the last message."""
        extra = int(lost.most_until(np.array([end]))[0]) - self._extra if lost else 0
        self.more += max(extra, 0)
        count = acks.shape[1]
        if not count:
            return
        at = np.full(count, self.outstanding, np.int64)
        acked = acked_bytes(at, np.where(acks[CODE] & VAGUE, EVERYTHING, acks[SIZE]))
        most = most_before = None
        if self.more or (acks[CODE] & VAGUE).any():
            most = at + self.more
            most_before = most - np.concatenate(([0], acked_bytes(most, acks[SIZE])[:-1]))
        none = np.zeros(count, np.int64)
        self.note_stalls(NONE, acks, none, FlowSums(at, at, acked, 0, 0, most, most_before), unknown)
        self.note_outstanding(int((at - acked).min()))
        if most is not None:
            self.more += int(acked[-1]) - int(acked_bytes(most, acks[SIZE])[-1])
        self.outstanding -= int(acked[-1])

    def note_final_stall(self, end_ns: int, end: int, unknown: Doubts) -> None:
        """Note that the window is still full at the end of the capture (FLC-03)."""
        if self.outstanding + self.more >= self.window:
            begin_ns = max(self._freed_ns, int(self.last_message[TIME, 0]))
            begin = max(self._freed, int(places_of(self.last_message)[0]))
            waited = self.clock.elapsed(begin_ns, end_ns, begin, end)
            least = np.array([self.outstanding])
            self.stalls.add(
                self.connection,
                {"guilty": self.last_message, "last": self.last_message},
                outstanding=self.outstanding,
                window=self.window,
                waited_ns=waited,
                waited_s=waited // SECOND_NS,
                stepped=int(self.clock.was_set_between(begin, end)),
                root=int(self.last_message[ORDINAL, 0]),
                unknown=unknown.of(least, least + self.more),
            )

    def note_outstanding(self, low: int) -> None:
        """Note that only ``low`` bytes were outstanding: if that is little, the idle point is none any more."""
        if self.idle is not None:
            self.idle.low = min(self.idle.low, low)
            if self.idle.low * KEPT_PART < self.idle.window:
                self.idle = None

    def _find_idle_point(
        self, messages: Longs, acks: Longs, known: Longs | None, lenient: FlowSums, unknown: Doubts
    ) -> None:
        """Find the first pause at which much was outstanding that has not been acked since (FLC-04)."""
        times = messages[TIME]
        last = self.last_message if self.last_message.shape[1] else messages[:, :1]
        before = np.maximum(np.concatenate((last[TIME], times[:-1])), self._changed_ns)
        quiet = times - before
        if quiet.max() <= QUIET_NS:
            return
        if self.clock.stepped:
            places = places_of(messages)
            begin = np.maximum(np.concatenate((places_of(last), places[:-1])), self._changed)
            quiet = self.clock.elapsed(before, times, begin, places)
        sure = np.broadcast_to(unknown.sure, len(times))
        most = lenient.before if lenient.most is None else lenient.most
        for place in np.flatnonzero(quiet > QUIET_NS).tolist():
            low = int(lenient.before[place])
            number = 0 if known is None else int(known[place])
            if known is not None and number < len(lenient.at):
                low = min(low, int(lenient.after_acks[number:].min()))
            if sure[place] and most[place] < self.window and low * KEPT_PART >= self.window:
                number = int(captured_until(acks)[number])
                guilty = acks[:, number - 1 : number] if number else self.last_ack
                if not guilty.shape[1]:
                    guilty = messages[:, place - 1 : place] if place else self.last_message
                self.idle = IdlePoint(low, self.window, int(quiet[place]), guilty.copy())
                return
