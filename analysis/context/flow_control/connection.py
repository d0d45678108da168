"""One connection's flow-control books: which rows can be settled, in which pieces, and what must be kept for later.

An ack is settled once the producer's messages are known as far as its sender had received them; a message once the
consumer's are. Pieces end where the window changes. So the sums depend on offsets alone: neither on the order of the
two directions in the capture nor on how it was cut. Must not know rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.codes import UnknownReason
from analysis.context.flow_control.buffer_size import NEVER, SHORTEST, BufferSizes
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

    Longs = NDArray[np.int64]

KEEP = 1 << 17  #: messages of one connection that may wait for their acks; of more than these the sums are given up


class FlowTables:
    """The tables to be."""

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
        self.rests = RowBuffer(
            ("leftover", "window", "quiet_ns", "quiet_s", "drift", "drift_count", "unknown"), ("last",)
        )


class CapturedSoFar(NamedTuple):
    """How much of a direction is known: what its last message ends with, and so on."""

    heard: int  #: end of its last message; 0: none
    hole: int  #: where something is missing first
    acked: int  #: what its last message acknowledged
    time_ns: int  #: of its last message


class ConnectionFlow:
    """The books."""

    def __init__(self, connection: int, producer: int, piles: FlowTables) -> None:
        self.producer = producer
        self.windows = BufferSizes()
        self.unopened = False
        self._connection = connection
        self._piles = piles
        self._store = UnackedMessages()
        self._sender = ProducerFlow(connection, piles.sent, piles.stalls)
        self._receiver = ConsumerFlow(connection, piles.acks, self._store)
        self._settled = 0  #: messages of the store that are settled
        self._acks: Longs = NONE
        self._heard_acks = 0  #: of these, known to the producer
        self._judged = 0  #: of these, settled
        self._forgot = False

    @property
    def kept(self) -> int:
        """Return how many rows are kept."""
        return int(self._store.rows.shape[1] + self._acks.shape[1] + self._receiver.noops_kept)

    def enter(self, rows: Longs) -> None:
        """Take rows, in the order of the capture."""
        code = rows[CODE]
        own = code >> SIDE_SHIFT & 1 == self.producer
        kind = code & KIND
        if own.all() and not kind.any():
            self._store.enter(rows)
            return
        sent = own & (kind == COUNTED)
        if sent.any():
            self._store.enter(rows[:, sent])
        acks = ~own & (kind == ACK)
        if acks.any():
            self._acks = np.concatenate((self._acks, rows[:, acks]), axis=1)
        noops = own & (kind == NOOP)
        if noops.any():
            self._receiver.noops(rows[END, noops])

    def settle(self, known: tuple[CapturedSoFar, CapturedSoFar], *, final: bool = False) -> None:
        """Settle what can be settled."""
        producer, consumer = known[self.producer], known[1 - self.producer]
        if self.windows.overflowed:
            self._forgot = True
        final = final or self._forgot  # nothing is waited for any more
        self.windows.resolve(consumer.heard, final=final)
        self._settle_acks(producer, consumer, final=final)
        self._settle_frames(producer, consumer, final=final)
        self._trim()

    def finish(self, known: tuple[CapturedSoFar, CapturedSoFar]) -> None:
        """The capture is over."""
        self.settle(known, final=True)
        self._finish(known[self.producer], known[1 - self.producer])

    def forget(self, known: tuple[CapturedSoFar, CapturedSoFar]) -> None:
        """Give the sums up: there is too much to remember."""
        self._forgot = True
        self.settle(known)

    def _settle_frames(self, producer: CapturedSoFar, consumer: CapturedSoFar, *, final: bool) -> None:
        sender, store = self._sender, self._store
        ends, acked = store.rows[END], store.rows[ACKED]
        while True:
            change, limit = self.windows.following(sender.changes)
            stop = int(np.searchsorted(ends, limit, side="right")) if limit < NEVER else len(ends)
            if self._settled < stop:
                ready = stop
                if not final:
                    late = acked[self._settled : stop] >= consumer.heard + SHORTEST
                    ready = self._settled + _prefix(late)
                if ready > self._settled:
                    part = store.rows[:, self._settled : ready]
                    doubt = self._doubt(part, producer, consumer)
                    self._heard_acks += sender.settle(part, self._acks[:, self._heard_acks :], doubt)
                    self._settled = ready
            if self._settled < stop or change is None:
                return
            sender.change(change)

    def _settle_acks(self, producer: CapturedSoFar, consumer: CapturedSoFar, *, final: bool) -> None:
        receiver = self._receiver
        acked = self._acks[ACKED]
        while True:
            change, limit = self.windows.following(receiver.changes)
            behind = acked[self._judged :] >= min(limit, NEVER)
            stop = self._judged + _prefix(behind)
            if receiver.top >= limit:
                stop = self._judged
            if self._judged < stop:
                ready = stop
                if not final:
                    ready = self._judged + _prefix(acked[self._judged : stop] >= producer.heard + SHORTEST)
                if ready > self._judged:
                    part = self._acks[:, self._judged : ready]
                    receiver.settle(part, self.windows, self._doubt(part, consumer, producer))
                    self._judged = ready
            if change is None or self._judged < stop or (stop == len(acked) and receiver.top < limit):
                return
            receiver.change(change.offset, change.size)

    def _doubt(self, rows: Longs, own: CapturedSoFar, other: CapturedSoFar) -> Longs | int:
        """Tell which rows stand behind a hole, in their own direction or in what their sender had received."""
        if self.unopened:
            return UnknownReason.START
        if self._forgot:
            return UnknownReason.LIMIT
        ends, acked = rows[END], rows[ACKED]
        top = int(acked.max())
        if ends[-1] <= own.hole and top <= other.hole and top < other.heard + SHORTEST and acked.min() >= 0:
            return UnknownReason.KNOWN
        top_acked = np.maximum.accumulate(acked)
        doubt = np.where((ends > own.hole) | (top_acked > other.hole), UnknownReason.GAP, UnknownReason.KNOWN)
        doubt[top_acked >= other.heard + SHORTEST] = UnknownReason.GAP if other.heard else UnknownReason.ONE_SIDED
        doubt[acked < 0] = UnknownReason.ONE_SIDED
        return doubt

    def _finish(self, producer: CapturedSoFar, consumer: CapturedSoFar) -> None:
        """The capture is over: look at the producer's last rest, and at the window if it is full."""
        sender, receiver, store = self._sender, self._receiver, self._store
        rest = self._acks[:, self._heard_acks :]
        if sender.window <= 0 or not sender.last.shape[1]:
            return
        lost = min(producer.hole, consumer.hole) < NEVER or consumer.acked >= producer.heard + SHORTEST
        doubt = UnknownReason.GAP if lost else UnknownReason.KNOWN
        if self.unopened or self._forgot:
            doubt = UnknownReason.START if self.unopened else UnknownReason.LIMIT
        if rest.shape[1]:
            at = np.full(rest.shape[1], sender.least, np.int64)
            back = acked_bytes(at, rest[SIZE])
            none = np.zeros(rest.shape[1], np.int64)
            sender.full(NONE, rest, none, FlowSums(at, at, back, 0, 0), doubt)
            sender.lower(int((at - back).min()))
            sender.least -= int(back[-1])
        end_ns = max(producer.time_ns, consumer.time_ns)
        sender.still_full(end_ns, doubt)
        quiet = end_ns - int(sender.last[TIME, 0])
        if quiet <= QUIET_NS and sender.rest is None:
            return
        place = int(np.searchsorted(store.rows[END], max(consumer.acked, receiver.top), side="right"))
        left = min(max(int(store.sums[place]) - receiver.position, 0), sender.least)
        drift, count = receiver.miscount(left, place) if quiet > QUIET_NS and receiver.window > 0 else (0, 0)
        guilty = receiver.last if receiver.last.shape[1] else sender.last
        if sender.rest is not None and not drift:
            left, quiet, guilty = sender.rest.low, sender.rest.quiet_ns, sender.rest.guilty
        elif sender.least >= sender.window:
            return
        self._piles.rests.add(
            self._connection,
            {"guilty": guilty, "last": sender.last},
            leftover=left,
            window=sender.window,
            quiet_ns=quiet,
            quiet_s=quiet // SECOND_NS,
            drift=drift,
            drift_count=count,
            unknown=doubt,
        )

    def _trim(self) -> None:
        """Let go of what no later sum needs."""
        sender, receiver, store = self._sender, self._receiver, self._store
        done = self._settled
        if not self._forgot and (sender.window > 0 or receiver.changes != sender.changes):
            arrived = int(np.searchsorted(store.rows[END], receiver.top, side="right"))
            given = int(np.searchsorted(store.sums[1:], receiver.position, side="right"))
            done = min(done, arrived, given)
            if sender.window <= 0:
                # What was sent while flow control is off matters as a whole only.
                self._settled = store.merge(
                    max(sender.changed_at, int(store.rows[END, done - 1]) if done else -1), self._settled
                )
        if self.kept - done > KEEP:
            self._forgot, done = True, self._settled
        self._settled -= done
        store.drop(done)
        acks = min(self._heard_acks, self._judged)
        self._acks = self._acks[:, acks:].copy()
        self._heard_acks -= acks
        self._judged -= acks
        self.windows.forget(min(sender.changes, receiver.changes))


def _prefix(stops: NDArray[np.bool_]) -> int:
    """Return how many entries come before the first one that is true."""
    place = int(np.argmax(stops)) if len(stops) else 0
    return place if len(stops) and stops[place] else len(stops)
