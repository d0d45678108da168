"""The flow control of one connection: which messages and acks can be added up now, and what is kept for later.

An ack is added up once all messages are captured that the consumer had received when it sent the ack; a message once
all acks are captured that the producer had received. Rows are added up in parts that end where the window changes. So
the sums depend on offsets alone: neither on the order of the two directions in the capture nor on how it was cut.
Must not know rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.codes import UnknownReason
from analysis.context.flow_control.buffer_size import NEVER, SHORTEST_MESSAGE, BufferSizes
from analysis.context.flow_control.consumer import ConsumerFlow, UnackedMessages
from analysis.context.flow_control.producer import QUIET_NS, SECOND_NS, FlowSums, ProducerFlow, acked_bytes
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
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs


KEEP = 1 << 17  #: rows of one connection that may be kept; above that its sums are given up


class FlowTables:
    """The tables of flow control, as buffers of rows: one set for all connections."""

    def __init__(self) -> None:
        self.sent = RowBuffer(("window", "full", "outstanding", "unacked", "root", "unknown"), ("ack",))
        self.stalls = RowBuffer(("outstanding", "window", "waited_ns", "waited_s", "root", "unknown"), ("last",))
        self.acks = RowBuffer(
            (
                *(
                    "bytes",
                    "due",
                    "excess",
                    "window",
                    "wanted",
                    "malformed",
                    "noops",
                    "noops_since",
                    "latency_ns",
                    "latency_s",
                ),
                *("over_root", "late_root", "zero_root", "unwanted_root", "unknown"),
            ),
            ("oldest",),
        )
        self.idle_producers = RowBuffer(
            ("leftover", "window", "quiet_ns", "quiet_s", "drift", "drift_count", "unknown"), ("last",)
        )


class CapturedSoFar(NamedTuple):
    """How much of a direction was captured so far."""

    end: int  #: offset at which its last message ends; 0: there is none
    first_gap: int  #: offset of the first byte that is missing; NEVER: none is
    acked: int  #: offset of the other direction that its last message acknowledged
    time_ns: int  #: of its last message


class ConnectionFlow:
    """Collects the rows of one connection and adds them up, for its producer and its consumer."""

    def __init__(self, connection: int, producer_side: int, tables: FlowTables) -> None:
        self.producer_side = producer_side
        self.buffer_sizes = BufferSizes()
        self.unopened = False  #: messages came before the connection's open, so its beginning is missing
        self._connection = connection
        self._tables = tables
        self._unacked = UnackedMessages()
        self._producer = ProducerFlow(connection, tables.sent, tables.stalls)
        self._consumer = ConsumerFlow(connection, tables.acks, self._unacked)
        self._messages_done = 0  #: messages of these that were added up
        self._acks: Longs = NONE  #: that one side has not passed yet
        self._acks_known = 0  #: of these, known to the producer
        self._acks_done = 0  #: of these, added up for the consumer
        self._gave_up = False

    @property
    def kept(self) -> int:
        """Return how many rows are kept in memory."""
        return int(self._unacked.rows.shape[1] + self._acks.shape[1] + self._consumer.noops_kept)

    def add_rows(self, rows: Longs) -> None:
        """Add rows, in the order of the capture."""
        code = rows[CODE]
        own = code >> SIDE_SHIFT & 1 == self.producer_side
        kind = code & KIND
        if own.all() and not kind.any():
            self._unacked.append(rows)
            return
        sent = own & (kind == COUNTED)
        if sent.any():
            self._unacked.append(rows[:, sent])
        acks = ~own & (kind == ACK)
        if acks.any():
            self._acks = np.concatenate((self._acks, rows[:, acks]), axis=1)
        noops = own & (kind == NOOP)
        if noops.any():
            self._consumer.add_noops(rows[END, noops])

    def add_up(self, captured: tuple[CapturedSoFar, CapturedSoFar], *, final: bool = False) -> None:
        """Add up the messages and acks for which everything is captured that their senders knew."""
        from_producer, from_consumer = captured[self.producer_side], captured[1 - self.producer_side]
        if self.buffer_sizes.overflowed:
            self._gave_up = True
        final = final or self._gave_up  # nothing is waited for any more
        self.buffer_sizes.pair_controls(from_consumer.end, final=final)
        self._add_up_acks(from_producer, from_consumer, final=final)
        self._add_up_messages(from_producer, from_consumer, final=final)
        self._drop_done()

    def finish(self, captured: tuple[CapturedSoFar, CapturedSoFar]) -> None:
        """Add up the rest at the end of the capture."""
        self.add_up(captured, final=True)
        self._finish_producer(captured[self.producer_side], captured[1 - self.producer_side])

    def give_up(self, captured: tuple[CapturedSoFar, CapturedSoFar]) -> None:
        """Give the sums up, to free memory."""
        self._gave_up = True
        self.add_up(captured)

    def _add_up_messages(self, from_producer: CapturedSoFar, from_consumer: CapturedSoFar, *, final: bool) -> None:
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
                    unknown = self._unknown_reasons(part, from_producer, from_consumer)
                    self._acks_known += producer.add_up(part, self._acks[:, self._acks_known :], unknown)
                    self._messages_done = ready
            if self._messages_done < stop or change is None:
                return
            producer.change_window(change)

    def _add_up_acks(self, from_producer: CapturedSoFar, from_consumer: CapturedSoFar, *, final: bool) -> None:
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
                    consumer.add_up(part, self.buffer_sizes, self._unknown_reasons(part, from_consumer, from_producer))
                    self._acks_done = ready
            if change is None or self._acks_done < stop or (stop == len(acked) and consumer.acked_offset < limit):
                return
            consumer.change_window(change.offset, change.size)

    def _unknown_reasons(self, rows: Longs, own: CapturedSoFar, other: CapturedSoFar) -> Longs | int:
        """Tell which rows come after a gap, in their own direction or in what their sender had received."""
        if self.unopened:
            return UnknownReason.START
        if self._gave_up:
            return UnknownReason.LIMIT
        ends, acked = rows[END], rows[ACKED]
        top = int(acked.max())
        if (
            ends[-1] <= own.first_gap
            and top <= other.first_gap
            and top < other.end + SHORTEST_MESSAGE
            and acked.min() >= 0
        ):
            return UnknownReason.KNOWN
        top_acked = np.maximum.accumulate(acked)
        unknown = np.where(
            (ends > own.first_gap) | (top_acked > other.first_gap), UnknownReason.GAP, UnknownReason.KNOWN
        )
        unknown[top_acked >= other.end + SHORTEST_MESSAGE] = UnknownReason.GAP if other.end else UnknownReason.ONE_SIDED
        unknown[acked < 0] = UnknownReason.ONE_SIDED
        return unknown

    def _finish_producer(self, from_producer: CapturedSoFar, from_consumer: CapturedSoFar) -> None:
        """At the end of the capture, report a full window, or an idle producer with unacked bytes."""
        producer, consumer, unacked = self._producer, self._consumer, self._unacked
        late_acks = self._acks[:, self._acks_known :]
        if producer.window <= 0 or not producer.last_message.shape[1]:
            return
        lost = (
            min(from_producer.first_gap, from_consumer.first_gap) < NEVER
            or from_consumer.acked >= from_producer.end + SHORTEST_MESSAGE
        )
        unknown = UnknownReason.GAP if lost else UnknownReason.KNOWN
        if self.unopened or self._gave_up:
            unknown = UnknownReason.START if self.unopened else UnknownReason.LIMIT
        if late_acks.shape[1]:
            at = np.full(late_acks.shape[1], producer.outstanding, np.int64)
            acked = acked_bytes(at, late_acks[SIZE])
            none = np.zeros(late_acks.shape[1], np.int64)
            producer.note_stalls(NONE, late_acks, none, FlowSums(at, at, acked, 0, 0), unknown)
            producer.note_outstanding(int((at - acked).min()))
            producer.outstanding -= int(acked[-1])
        end_ns = max(from_producer.time_ns, from_consumer.time_ns)
        producer.note_final_stall(end_ns, unknown)
        quiet = end_ns - int(producer.last_message[TIME, 0])
        if quiet <= QUIET_NS and producer.idle is None:
            return
        place = int(np.searchsorted(unacked.rows[END], max(from_consumer.acked, consumer.acked_offset), side="right"))
        left = min(max(int(unacked.sums[place]) - consumer.acked_lenient, 0), producer.outstanding)
        drift, count = consumer.explaining_drift(left, place) if quiet > QUIET_NS and consumer.window > 0 else (0, 0)
        guilty = consumer.last_ack if consumer.last_ack.shape[1] else producer.last_message
        if producer.idle is not None and not drift:
            left, quiet, guilty = producer.idle.low, producer.idle.quiet_ns, producer.idle.guilty
        elif producer.outstanding >= producer.window:
            return
        self._tables.idle_producers.add(
            self._connection,
            {"guilty": guilty, "last": producer.last_message},
            leftover=left,
            window=producer.window,
            quiet_ns=quiet,
            quiet_s=quiet // SECOND_NS,
            drift=drift,
            drift_count=count,
            unknown=unknown,
        )

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
