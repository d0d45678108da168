"""One connection's flow-control books.

S is what was sent and counts, A what was given back. After each ack A is the smaller of A + ack and S: servers clamp
what is given back twice, and so does everybody who counts along. With C the plain sum of the acks that recursion is
``A = C + min(0, running minimum of (S - C))``, so it needs no loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.refs import REF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.sight import Sight

    Longs = NDArray[np.int64]
    Settled = tuple[dict[str, NDArray[Any]], NDArray[np.void], dict[str, NDArray[np.void]]]

QUIET_NS = 10 * 10**9  #: a producer that sends nothing for so long is at rest
NO_GAP = (1 << 63) - 1
_KEEP = 1 << 18  #: frames that may wait for an ack; of more than these the sums are given up
_FRAME = ("end", "size", "acked", "time_ns", "window", "opened", "drift", "early")
_ACK = ("end", "bytes", "acked", "time_ns", "window", "opened", "noops", "returned", "ordinal", "early")

#: Messages whose size consumers have been known to count wrongly: what they are, and the bytes they are off by.
DRIFTS: tuple[tuple[str, int], ...] = (
    ("prepare", 2),
    ("stream end with a stream id", 3),
    ("snapshot marker V2.1", 8),
    ("mutation", 1),
)


@dataclass(slots=True, eq=False)
class Ledger:
    """The books."""

    frames: dict[str, Longs] = field(default_factory=lambda: {name: np.empty(0, np.int64) for name in _FRAME})
    acks: dict[str, Longs] = field(default_factory=lambda: {name: np.empty(0, np.int64) for name in _ACK})
    frame_refs: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, REF))
    ack_refs: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, REF))
    producer: int = -1
    waiting: int = 0
    due: bool = False
    heard: list[int] = field(default_factory=lambda: [0, 0])  #: how far each side's frames have come
    gap_at: list[int] = field(default_factory=lambda: [NO_GAP, NO_GAP])  #: offset of each side's first hole
    latest_ns: int = 0
    noops: int = 0
    sent_before: int = 0  #: bytes of the frames that are not kept any more
    drift_before: Longs = field(default_factory=lambda: np.zeros(len(DRIFTS) + 1, np.int64))
    frames_done: int = 0
    acks_done: int = 0
    returned: int = 0  #: A behind the last settled ack; S is what the consumer had received
    credited: int = 0  #: A behind the acks that are not kept any more; S is what the producer had sent
    floor: int = 0  #: S when flow control was last off
    floor_credit: int = 0  #: A then
    last_received: int = 0
    last_frame_ns: int = -1
    forgot: bool = False
    returned_before: int = 0  #: A, as the consumer knows it, before the acks that are kept

    def enter_frames(self, sight: Sight, facts: dict[str, Longs], rows: Longs) -> None:
        """Take counted frames of the producer."""
        opcode, version = sight.opcode[rows], sight.numbers("marker_version")[rows]
        drift = np.zeros(len(rows), np.int64)
        drift[opcode == kinds.PREPARE] = 1
        drift[(opcode == kinds.STREAM_END) & (sight.numbers("stream_id")[rows] >= 0)] = 2
        drift[(opcode == kinds.SNAPSHOT_MARKER) & (version == 1)] = 3
        drift[opcode == kinds.MUTATION] = 4
        fresh = {
            "end": sight.numbers("end_offset")[rows],
            "size": sight.numbers("flow_bytes")[rows],
            "acked": sight.numbers("acked_offset")[rows],
            "time_ns": sight.numbers("time_ns")[rows],
            "window": facts["window"][rows],
            "opened": facts["opened"][rows],
            "drift": drift,
            "early": sight.early[rows].astype(np.int64),
        }
        self.frames = {name: np.r_[self.frames[name], fresh[name]] for name in _FRAME}
        self.frame_refs = np.r_[self.frame_refs, sight.refs()[rows]]

    def enter_acks(self, sight: Sight, facts: dict[str, Longs], rows: Longs, others: Longs) -> None:
        """Take acks of the consumer, and the no-ops around them."""
        noops = others[(sight.opcode[others] == kinds.NOOP) & ~sight.response[others]]
        before = np.searchsorted(noops, rows) + self.noops
        self.noops += len(noops)
        if not len(rows):
            return
        fresh = {
            "end": sight.numbers("end_offset")[rows],
            "bytes": sight.numbers("buffer_bytes")[rows],
            "acked": sight.numbers("acked_offset")[rows],
            "time_ns": sight.numbers("time_ns")[rows],
            "window": facts["window"][rows],
            "opened": facts["opened"][rows],
            "noops": before,
            "returned": np.zeros(len(rows), np.int64),
            "ordinal": sight.ordinal[rows],
            "early": sight.early[rows].astype(np.int64),
        }
        malformed = fresh["bytes"] < 0
        fresh["bytes"][malformed] = 0
        self.acks = {name: np.r_[self.acks[name], fresh[name]] for name in _ACK}
        self.ack_refs = np.r_[self.ack_refs, sight.refs()[rows]]

    def _sums(self) -> Longs:
        """Return S before each frame, and behind the last one."""
        sums: Longs = np.r_[0, np.cumsum(self.frames["size"])] + self.sent_before
        return sums

    def settle_acks(self, *, final: bool) -> Settled | None:
        """Settle the acks whose sender has received nothing that is not here."""
        acks, first = self.acks, self.acks_done
        acked = acks["acked"][first:]
        ready = len(acked) if final else _prefix(acked <= self.heard[self.producer])
        if not ready:
            return None
        part = slice(first, first + ready)
        sums = self._sums()
        acked = acks["acked"][part]
        received = sums[np.searchsorted(self.frames["end"], acked, side="right")]
        given = acks["bytes"][part]
        plain = self.returned + np.cumsum(given)
        returned = plain + np.minimum(0, np.minimum.accumulate(received - plain))
        before = np.r_[self.returned, returned[:-1]]
        acks["returned"][part] = returned
        # The oldest frame that this ack gives back bytes of, and for how long it was here.
        oldest = np.searchsorted(sums[1:], before, side="right")
        there = (oldest < len(self.frame_refs)) & (given > 0)
        oldest = np.minimum(oldest, max(len(self.frame_refs) - 1, 0))
        if len(self.frame_refs):
            there &= self.frames["end"][oldest] <= acked
            latency = np.where(there, acks["time_ns"][part] - self.frames["time_ns"][oldest], 0)
            oldest_refs = self.frame_refs[oldest]
        else:
            latency, oldest_refs = np.zeros(ready, np.int64), np.zeros(ready, REF)
        oldest_refs[~there] = np.zeros((), REF)[()]
        noops = acks["noops"][part]
        columns: dict[str, NDArray[Any]] = {
            "bytes": given,
            "received": received,
            "returned_before": before,
            "excess": np.maximum(before + given - received, 0),
            "window": acks["window"][part],
            "noops": noops,
            "latency_ns": latency,
            "unknown": self._unknown(acks, part, 1 - self.producer)
            | (acked > self.heard[self.producer])
            | (acks["acked"][part] < 0),
            "early": acks["early"][part],
        }
        self.returned = int(returned[-1])
        self.last_received = int(acked[-1])
        self.acks_done += ready
        return columns, self.ack_refs[part], {"oldest": oldest_refs}

    def settle_frames(self, *, final: bool) -> tuple[Settled | None, Settled | None]:
        """Settle the frames whose sender has heard nothing that is not here; also find the producer's rests."""
        frames, first = self.frames, self.frames_done
        acked = np.maximum.accumulate(frames["acked"])[first:] if len(frames["acked"]) else frames["acked"]
        ready = len(acked) if final else _prefix(acked <= self.heard[1 - self.producer])
        rests = self._rests(first, ready, final=final)
        if not ready:
            return None, rests
        part = slice(first, first + ready)
        sums = self._sums()
        credit = self._credits(sums)
        known = credit[np.searchsorted(self.acks["end"], acked[:ready], side="right")]
        sent = sums[part]
        outstanding = sent - known
        window = frames["window"][part]
        # While flow control was off nobody counted: take whichever way of counting leaves less outstanding.
        off = window <= 0
        floor = np.maximum.accumulate(np.where(off, sent + frames["size"][part], self.floor))
        at = np.maximum.accumulate(np.where(off, np.arange(ready), -1))
        floor_credit = np.where(at >= 0, known[at], self.floor_credit)
        outstanding = np.maximum(np.minimum(outstanding, sent - floor - (known - floor_credit)), 0)
        self.floor, self.floor_credit = int(floor[-1]), int(floor_credit[-1])
        # The first ack that its sender had not heard yet ends what may be a stall.
        following = np.searchsorted(self.acks["end"], acked[:ready], side="right")
        times = np.r_[self.acks["time_ns"], self.latest_ns]
        columns: dict[str, NDArray[Any]] = {
            "size": frames["size"][part],
            "outstanding": outstanding,
            "window": window,
            "waited_ns": np.maximum(times[np.minimum(following, len(times) - 1)] - frames["time_ns"][part], 0),
            "unknown": self._unknown(frames, part, self.producer)
            | (acked[:ready] > self.heard[1 - self.producer])
            | (frames["acked"][part] < 0),
            "early": frames["early"][part],
            "last": np.r_[np.zeros(ready - 1, bool), first + ready == len(frames["end"])],
        }
        self.frames_done += ready
        return (columns, self.frame_refs[part], {}), rests

    def _credits(self, sums: Longs) -> Longs:
        """Return A in the producer's eyes before each ack that is kept, and behind the last one."""
        heard = np.maximum.accumulate(self.frames["acked"]) if len(self.frames["acked"]) else self.frames["acked"]
        sent = sums[np.searchsorted(heard, self.acks["end"], side="left")]
        plain = self.credited + np.cumsum(self.acks["bytes"])
        if not len(plain):
            return np.array([self.credited], np.int64)
        found: Longs = np.r_[self.credited, plain + np.minimum(0, np.minimum.accumulate(sent - plain))]
        return found

    def _rests(self, first: int, ready: int, *, final: bool) -> Settled | None:
        """Find where the producer rested, and what had not been given back by then."""
        frames = self.frames
        times = frames["time_ns"][first : first + ready]
        before = np.r_[self.last_frame_ns, times[:-1]] if ready else times
        at = np.flatnonzero((times - before > QUIET_NS) & (before >= 0)) + first if ready else np.empty(0, np.int64)
        last = self.last_frame_ns if not ready else int(times[-1])
        if ready:
            self.last_frame_ns = last
        trailing = final and last >= 0 and self.latest_ns - last > QUIET_NS
        if trailing:
            at = np.r_[at, len(frames["end"])]
        if not len(at):
            return None
        sums = self._sums()
        refs = np.r_[self.frame_refs, np.zeros(1, REF)]
        guilty = np.array([refs[max(index - 1, 0)] for index in at], REF)
        ordinals = np.r_[self.frame_refs["ordinal"], NO_GAP][at]
        settled = np.searchsorted(self.acks["ordinal"][: self.acks_done], ordinals)
        returned = np.r_[self.returned_before, self.acks["returned"][: self.acks_done]][settled]
        kinds_before = np.cumsum(
            np.r_[[self.drift_before[1:]], frames["drift"][:, None] == np.arange(1, len(DRIFTS) + 1)], axis=0
        )
        windows = np.r_[frames["window"], frames["window"][-1:] if len(frames["window"]) else [-1]]
        columns: dict[str, NDArray[Any]] = {
            "leftover": sums[at] - returned,
            "window": windows[at],
            "quiet_ns": np.r_[frames["time_ns"], self.latest_ns][at]
            - np.r_[frames["time_ns"], 0][np.maximum(at - 1, 0)],
            "unknown": np.full(len(at), self.forgot or min(self.gap_at) != NO_GAP),
            "unopened": np.array([not self._opened()] * len(at)),
            "early": np.full(len(at), int(frames["early"][-1]) if len(frames["early"]) else 0),
        }
        for number, (_, _size) in enumerate(DRIFTS):
            columns[f"drift_{number}"] = kinds_before[at, number]
        return columns, guilty, {}

    def _opened(self) -> bool:
        return bool(len(self.frames["opened"]) and self.frames["opened"][-1])

    def _unknown(self, entries: dict[str, Longs], part: slice, side: int) -> NDArray[np.bool_]:
        """Tell which entries stand behind a hole, in their own direction or in what their sender had heard."""
        own, other = self.gap_at[side], self.gap_at[1 - side]
        unknown: NDArray[np.bool_] = (entries["end"][part] > own) | (entries["acked"][part] > other)
        unknown |= (entries["opened"][part] == 0) | self.forgot
        return unknown

    def trim(self) -> None:
        """Let go of what no later sum needs."""
        sums = self._sums()
        needed = int(np.searchsorted(sums[1:], self.returned, side="right"))
        heard = int(np.searchsorted(self.frames["end"], self.last_received, side="right"))
        done = max(min(self.frames_done - 1, needed, heard), 0)
        if len(self.frame_refs) - done > _KEEP:
            done, self.forgot = min(self.frames_done, len(self.frame_refs) - _KEEP // 2), True
        acks = 0
        if self.acks_done and self.frames_done:
            known = np.maximum.accumulate(self.frames["acked"])[self.frames_done - 1]
            acks = min(self.acks_done, int(np.searchsorted(self.acks["end"], known, side="right")))
        if acks:
            self.credited = int(self._credits(sums)[acks])
            self.returned_before = int(self.acks["returned"][acks - 1])
            self.acks = {name: column[acks:] for name, column in self.acks.items()}
            self.ack_refs = self.ack_refs[acks:]
            self.acks_done -= acks
        if done:
            self.sent_before = int(sums[done])
            self.drift_before = self.drift_before + np.bincount(self.frames["drift"][:done], minlength=len(DRIFTS) + 1)
            self.frames = {name: column[done:] for name, column in self.frames.items()}
            self.frame_refs = self.frame_refs[done:]
            self.frames_done -= done


def _prefix(mask: NDArray[np.bool_]) -> int:
    """Return how many entries from the first one on are true."""
    return len(mask) if mask.all() else int(np.argmin(mask))
