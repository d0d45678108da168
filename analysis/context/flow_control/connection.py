"""The flow control of one connection: which messages and acks can be added up now, and what is kept for later.

An ack is added up once all messages are captured that the consumer had received when it sent the ack; a message once
all acks are captured that the producer had received. Rows are added up in parts that end where the window changes. So
the sums depend on offsets alone: neither on the order of the two directions in the capture nor on how it was cut.
Must not know rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.clock import SECOND_NS, SKEW_NS
from analysis.context.codes import UnknownReason
from analysis.context.flow_control.buffer_size import NEVER, SHORTEST_MESSAGE, BufferSizes
from analysis.context.flow_control.consumer import ConsumerFlow, UnackedMessages
from analysis.context.flow_control.doubts import EVERYTHING, Doubts
from analysis.context.flow_control.lost_bytes import MOST_PENDING, SHORTEST_ACK, Loss, LostBytes
from analysis.context.flow_control.producer import KEPT_PART, QUIET_NS, UNSEEN_PART, ProducerFlow
from analysis.context.flow_control.rows import (
    ACK,
    ACKED,
    CODE,
    COUNTED,
    END,
    KIND,
    NONE,
    NOOP,
    SIDE_SHIFT,
    SIZE,
    TIME,
    RowBuffer,
    loss_rows,
    places_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.clock import CaptureClock
    from dissector.array_types import Longs


KEEP = 1 << 17  #: rows of one connection that may be kept; above that its sums are given up


class FlowTables:
    """The tables of flow control, as buffers of rows: one set for all connections."""

    def __init__(self) -> None:
        self.sent = RowBuffer(
            ("window", "full", "outstanding", "outstanding_most", "unacked", "root", "unknown"), ("ack",)
        )
        self.stalls = RowBuffer(
            ("outstanding", "window", "waited_ns", "waited_s", "stepped", "root", "unknown"), ("last",)
        )
        self.acks = RowBuffer(
            (
                *(
                    "bytes",
                    "due",
                    "due_least",
                    "excess",
                    "window",
                    "wanted",
                    "malformed",
                    "noops",
                    "noops_since",
                    "latency_ns",
                    "latency_s",
                    "stepped",
                ),
                *("over_root", "late_root", "zero_root", "unwanted_root", "request_unknown", "unknown"),
            ),
            ("oldest",),
        )
        self.idle_producers = RowBuffer(
            (
                "leftover",
                "leftover_most",
                "allowance",
                "window",
                "quiet_ns",
                "quiet_s",
                "stepped",
                "drift",
                "drift_count",
                "unknown",
            ),
            ("last",),
        )


class CapturedSoFar(NamedTuple):
    """How much of a direction was captured so far."""

    end: int  #: offset at which its last message ends; 0: there is none
    acked: int  #: offset of the other direction that its last message acknowledged
    time_ns: int  #: of its last message
    place: int  #: of its last message's packet in the captures


class ConnectionFlow:
    """Collects the rows of one connection and adds them up, for its producer and its consumer."""

    def __init__(self, connection: int, producer_side: int, tables: FlowTables, clock: CaptureClock) -> None:
        self.producer_side = producer_side
        self.buffer_sizes = BufferSizes()
        self._connection = connection
        self._tables = tables
        self._clock = clock
        self._unacked = UnackedMessages()
        self._producer = ProducerFlow(connection, tables.sent, tables.stalls, clock)
        self._consumer = ConsumerFlow(connection, tables.acks, self._unacked, clock)
        self._messages_done = 0  #: messages of these that were added up
        self._acks: Longs = NONE  #: that one side has not passed yet
        self._acks_known = 0  #: of these, known to the producer
        self._acks_done = 0  #: of these, added up for the consumer
        self._lost = LostBytes(), LostBytes()  #: of the producer and of the consumer
        self._smallest_ack = 0  #: in bytes; 0: there was none
        self._acks_lost = False  #: or may have been
        self._lost_acks: list[Loss] = []  #: of the consumer, not yet among the acks
        self._unopened = False
        self.without_open = False  #: requests may have been sent before the first that was captured
        self._gave_up = False

    @property
    def kept(self) -> int:
        """Return how many rows are kept in memory."""
        return int(self._unacked.rows.shape[1] + self._acks.shape[1] + self._consumer.noops_kept)

    def begin_unknown(self) -> None:
        """Messages came before the connection's open: its beginning is missing, so its window is not known."""
        if not self._unopened:
            self._unopened = True
            if not self._producer.changes:
                self._producer.begin_unknown()
            if not self._consumer.changes:
                self._consumer.begin_unknown()

    def note_loss(self, side: int, loss: Loss) -> None:
        """Bytes of a side were lost, or have no name."""
        if side == self.producer_side:
            self._lost[0].add(loss.begin, loss.end)
            if not loss.unnamed:
                self.buffer_sizes.note_lost_responses(loss.begin, loss.acked, loss.time_ns, loss.place)
        elif loss.end - loss.begin >= SHORTEST_ACK and not loss.unnamed:  # what has no name gives nothing back
            self._lost[1].add(loss.begin, loss.end)
            self._lost_acks.append(loss)
            self._acks_lost = True
            self.buffer_sizes.note_lost_requests(loss.begin, loss.end)
        self._gave_up |= max(each.pending for each in self._lost) > MOST_PENDING

    def add_rows(self, rows: Longs) -> None:
        """Add rows, in the order of the capture."""
        code = rows[CODE]
        own = code >> SIDE_SHIFT & 1 == self.producer_side
        kind = code & KIND
        if own.all() and not kind.any():
            self._unacked.append(self._in_order(rows, self._unacked.rows))
            return
        sent = own & (kind == COUNTED)
        if sent.any():
            self._unacked.append(self._in_order(rows[:, sent], self._unacked.rows))
        acks = ~own & (kind == ACK)
        if acks.any():
            self._acks = np.concatenate((self._acks, self._in_order(rows[:, acks], self._acks)), axis=1)
            given = rows[SIZE, acks & (rows[SIZE] > 0)]
            if len(given):
                self._smallest_ack = min(int(given.min()), self._smallest_ack or EVERYTHING)
        noops = own & (kind == NOOP)
        if noops.any():
            self._consumer.add_noops(rows[END, noops])

    def _in_order(self, rows: Longs, before: Longs) -> Longs:
        """Return rows whose ends never go back.

        Where they do, recordings of several connections were taken for one: nothing is known of its sums any more.
        """
        last = int(before[END, -1]) if before.shape[1] else 0
        ends = rows[END]
        if ends[0] < last or (ends[1:] < ends[:-1]).any():
            self._gave_up = True
            rows = rows.copy()
            rows[END] = np.maximum(np.maximum.accumulate(ends), last)
        return rows

    def add_up(self, captured: tuple[CapturedSoFar, CapturedSoFar], *, final: bool = False) -> None:
        """Add up the messages and acks for which everything is captured that their senders knew."""
        from_producer, from_consumer = captured[self.producer_side], captured[1 - self.producer_side]
        if self.buffer_sizes.overflowed:
            self._gave_up = True
        final = final or self._gave_up  # nothing is waited for any more
        self._insert_lost_acks()
        self.buffer_sizes.pair_controls(from_consumer.end, final=final)
        self._add_up_acks(from_producer, final=final)
        self._add_up_messages(from_consumer, final=final)
        self._drop_done()

    def _insert_lost_acks(self) -> None:
        """Put losses among the acks: each may have held some."""
        if self._lost_acks:
            rows = [loss_rows(loss, 1 - self.producer_side) for loss in self._lost_acks]
            acks = np.concatenate((self._acks, *rows), axis=1)
            self._acks = acks[:, np.argsort(acks[END], kind="stable")]
            self._lost_acks = []

    def finish(self, captured: tuple[CapturedSoFar, CapturedSoFar]) -> None:
        """Add up the rest at the end of the capture."""
        for side in (0, 1):
            own, other = captured[side], captured[1 - side]
            if own.end and other.acked >= own.end + SHORTEST_MESSAGE:  # the other side had received more
                self.note_loss(side, Loss(own.end, other.acked, own.acked, own.time_ns, own.place))
        self.add_up(captured, final=True)
        self._finish_producer(captured[self.producer_side], captured[1 - self.producer_side])

    def give_up(self, captured: tuple[CapturedSoFar, CapturedSoFar]) -> None:
        """Give the sums up, to free memory."""
        self._gave_up = True
        self.add_up(captured)

    def _add_up_messages(self, from_consumer: CapturedSoFar, *, final: bool) -> None:
        producer, unacked = self._producer, self._unacked
        ends, acked = unacked.rows[END], unacked.rows[ACKED]
        while True:
            change, limit = self.buffer_sizes.next_change(producer.changes)
            stop = int(np.searchsorted(ends, limit, side="right")) if limit < NEVER else len(ends)
            if self._messages_done < stop:
                ready = stop
                if not final:
                    unknown_acks = acked[self._messages_done : stop] >= from_consumer.end + SHORTEST_MESSAGE
                    ready = self._messages_done + _prefix(unknown_acks)
                if ready > self._messages_done:
                    part = unacked.rows[:, self._messages_done : ready]
                    doubts = self._doubts(part, from_consumer)
                    self._acks_known += producer.add_up(part, self._acks[:, self._acks_known :], self._lost, doubts)
                    self._messages_done = ready
            if self._messages_done < stop or change is None:
                return
            producer.change_window(change)

    def _add_up_acks(self, from_producer: CapturedSoFar, *, final: bool) -> None:
        consumer = self._consumer
        acked = self._acks[ACKED]
        while True:
            change, limit = self.buffer_sizes.next_change(consumer.changes)
            too_late = acked[self._acks_done :] >= min(limit, NEVER)
            stop = self._acks_done + _prefix(too_late)
            if consumer.acked_offset >= limit:
                stop = self._acks_done
            if self._acks_done < stop:
                ready = stop
                if not final:
                    ready = self._acks_done + _prefix(
                        acked[self._acks_done : stop] >= from_producer.end + SHORTEST_MESSAGE
                    )
                if ready > self._acks_done:
                    part = self._acks[:, self._acks_done : ready]
                    consumer.add_up(part, self.buffer_sizes, self._lost[0], self._doubts(part, from_producer))
                    self._acks_done = ready
            if change is None or self._acks_done < stop or (stop == len(acked) and consumer.acked_offset < limit):
                return
            consumer.change_window(change.offset, change.size)

    def _doubts(self, rows: Longs, other: CapturedSoFar) -> Doubts:
        """Tell which rows can't be decided at all, and why sums of the others may have bounds."""
        reason = UnknownReason.START if self._unopened else UnknownReason.GAP
        if self._gave_up:
            return Doubts(reason, self._unopened or self.without_open, np.full(rows.shape[1], UnknownReason.LIMIT))
        acked = rows[ACKED]
        if other.end and acked.min() >= 0:
            return Doubts(reason, self._unopened or self.without_open)
        one_sided = acked < 0
        if not other.end:  # and it had received something
            one_sided |= np.maximum.accumulate(acked) >= SHORTEST_MESSAGE
        unknown = np.where(one_sided, UnknownReason.ONE_SIDED, UnknownReason.KNOWN)
        return Doubts(reason, self._unopened or self.without_open, unknown)

    def _finish_producer(self, from_producer: CapturedSoFar, from_consumer: CapturedSoFar) -> None:
        """At the end of the capture, report a full window, or an idle producer with unacked bytes."""
        producer = self._producer
        late_acks = self._acks[:, self._acks_known :]
        if producer.window <= 0 or not producer.last_message.shape[1]:
            return
        reason = UnknownReason.START if self._unopened else UnknownReason.GAP
        rows = np.array([UnknownReason.LIMIT]) if self._gave_up else None
        if rows is None and not (from_producer.end and from_consumer.end):
            rows = np.array([UnknownReason.ONE_SIDED])
        doubts = Doubts(reason, self._unopened or self.without_open, rows)
        sent = max(from_producer.end, from_consumer.acked)
        producer.receive_late_acks(late_acks, self._lost[0], sent, doubts)
        end_ns = max(from_producer.time_ns, from_consumer.time_ns)
        end = max(from_producer.place, from_consumer.place)
        producer.note_final_stall(end_ns, end, doubts)
        self._report_idle_producer(from_producer, from_consumer, end, doubts)

    def _report_idle_producer(
        self, from_producer: CapturedSoFar, from_consumer: CapturedSoFar, end: int, doubts: Doubts
    ) -> None:
        producer, consumer, unacked = self._producer, self._consumer, self._unacked
        last = producer.last_message
        begin = int(places_of(last)[0])
        # The two directions may be stamped by clocks of their own.
        quiet, by_other = (
            self._clock.elapsed(int(last[TIME, 0]), each.time_ns, begin, max(each.place, begin))
            for each in (from_producer, from_consumer)
        )
        quiet = max(quiet, by_other - SKEW_NS)
        stepped = bool(self._clock.was_set_between(begin, end))
        if quiet <= QUIET_NS and not stepped and producer.idle is None:
            return
        acked = max(from_consumer.acked, consumer.acked_offset)
        place = int(np.searchsorted(unacked.rows[END], acked, side="right"))
        arrived = int(unacked.sums[place])
        most = min(consumer.most_left(arrived, self._lost[0], acked), producer.outstanding + producer.more)
        left = min(max(arrived - consumer.acked_lenient, 0), producer.outstanding)
        exact = left == most or not (producer.more or consumer.uncertain)
        most = left if exact else max(most, left)
        drift, count = (0, 0)
        if quiet > QUIET_NS and consumer.window > 0:
            drift, count = consumer.explaining_drift(left, place, exact=exact)
        guilty = consumer.last_ack if consumer.last_ack.shape[1] else last
        if producer.idle is not None and not drift:
            left = most = producer.idle.low
            quiet, stepped = producer.idle.quiet_ns, False
            guilty = producer.idle.guilty
        elif producer.outstanding >= producer.window:
            return
        self._tables.idle_producers.add(
            self._connection,
            {"guilty": guilty, "last": last},
            leftover=left,
            leftover_most=most,
            allowance=self._allowance(producer.window),
            window=producer.window,
            quiet_ns=quiet,
            quiet_s=quiet // SECOND_NS,
            stepped=int(stepped),
            drift=drift,
            drift_count=count,
            unknown=doubts.of(np.array([left]), np.array([most])),
        )

    def _allowance(self, window: int) -> int:
        """Return how much this consumer keeps on purpose: it gives bytes back once so many have come together.

        Servers do so at a fifth of the window, clients at as much as they want: no ack of theirs is smaller. Of one
        that has never given anything back only half of the window shows that it should have.
        """
        if not self._smallest_ack:
            return window if self._unopened or self._acks_lost else window // UNSEEN_PART
        return max(window // KEPT_PART, self._smallest_ack)

    def _drop_done(self) -> None:
        """Drop the rows that no later sum needs."""
        producer, consumer, unacked = self._producer, self._consumer, self._unacked
        done = self._messages_done
        if not self._gave_up and (producer.window > 0 or consumer.changes != producer.changes):
            arrived = int(np.searchsorted(unacked.rows[END], consumer.acked_offset, side="right"))
            given = int(np.searchsorted(unacked.sums[1:], consumer.acked_lenient, side="right"))
            done = min(done, arrived, given)
            if producer.window <= 0:
                # Of messages that were sent while flow control is off, only their sum matters.
                self._messages_done = unacked.merge(
                    max(producer.changed_at, int(unacked.rows[END, done - 1]) if done else -1), self._messages_done
                )
        self._lost[0].drop_until(min(producer.passed, consumer.acked_offset))
        self._lost[1].drop_until(producer.acked_offset)
        if self.kept - done > KEEP:
            self._gave_up, done = True, self._messages_done
        self._messages_done -= done
        unacked.drop(done)
        acks = min(self._acks_known, self._acks_done)
        self._acks = self._acks[:, acks:].copy()
        self._acks_known -= acks
        self._acks_done -= acks
        self.buffer_sizes.drop_passed(min(producer.changes, consumer.changes))


def _prefix(stops: NDArray[np.bool_]) -> int:
    """Return how many entries come before the first one that is true."""
    place = int(np.argmax(stops)) if len(stops) else 0
    return place if len(stops) and stops[place] else len(stops)
