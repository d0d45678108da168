"""Stream instances: what was requested and granted, and what is remembered of each between batches.

A successful response to a stream request starts an instance. Its entry is a row of many columns; entries of streams
that are over are used again, so the table is as large as the largest number of streams that were open at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.frame_refs import NO_REF, REF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs


UNKNOWN = -1
#: What each column of numbers is before anything is known.
_NUMBERS: dict[str, int] = {
    "serial": 0,  #: number of the instance; never used again
    "granted": 0,  #: 1: the response was captured, and its request
    "presumed": 0,  #: why it may have begun where nothing was captured: a member of UnknownReason
    "start": UNKNOWN,
    "end": UNKNOWN,
    "flags": 0,
    "ask_snap_start": UNKNOWN,
    "ask_snap_end": UNKNOWN,
    "uuid": 0,
    "opaque": UNKNOWN,
    "candidate": UNKNOWN,  #: opaque of the last message, where the stream's own is not known
    "ending_opaque": UNKNOWN,  #: of the last stream end
    "seen": 0,  #: ordinal of the last message
    "resumed_after": UNKNOWN,  #: the last seqno of the vbucket's stream before, if this one goes on behind it
    "resumed_surely": 0,  #: 1: and nothing of that one can have come after it
    "filtered": 0,  #: 1: the request names collections, so items may be missing
    # what the last messages of the instance said
    "marker_start": UNKNOWN,
    "marker_end": UNKNOWN,
    "marker_type": UNKNOWN,
    "marker_offset": UNKNOWN,  #: where the marker ends
    "completed": UNKNOWN,  #: high completed seqno of the last disk marker that has one
    "disk_end": UNKNOWN,  #: of the last disk marker
    "typed": 0,  #: 1: a marker's type was 2 or more, so that types are bits
    "merged": 0,  #: 1: a marker started inside what the one before it had left unsent
    "markers_lost": 0,  #: markers before which another one may have been lost
    "unconfirmed_markers": 0,  #: markers that request an ack and have none yet
    "states": 0,  #: vbucket states since the beginning
    "last_state": UNKNOWN,
    "items": 0,  #: since the marker
    "total": 0,  #: since the beginning
    "last_seqno": UNKNOWN,
    "last_opcode": UNKNOWN,
    "last_offset": UNKNOWN,  #: where the last item ends
    "last_cas": 0,
    "foreign": 0,  #: ordinal of the last document whose revision or CAS came from another cluster
    "oso": 0,  #: 1: inside an out-of-order snapshot
    "dense": 0,  #: markers whose items were dense
    "acked_seqno": UNKNOWN,  #: by a replica
    "whole_from": UNKNOWN,  #: seqno of the first item after a marker after the last loss
    "whole_gap": UNKNOWN,  #: the row after that loss
    "unreadable": 0,  #: ordinal of the last item that has no seqno
    "keyless": 0,  #: ordinal of the last item whose key was cut off
}
_REFS = (
    *("request", "answer", "marker", "last", "opening", "ending", "closing", "bracket", "seqno_ack"),
    "activated",
    *("started", "finish"),  # the draft's
)


class Instances:
    """All open instances."""

    def __init__(self) -> None:
        self._room = 0
        self._free: list[int] = []
        self._count = 0
        self.numbers: dict[str, Longs] = {name: np.empty(0, np.int64) for name in _NUMBERS}
        self.refs: dict[str, NDArray[np.void]] = {name: np.empty(0, REF) for name in _REFS}

    def __getitem__(self, name: str) -> Longs:
        return self.numbers[name]

    @property
    def live(self) -> int:
        """Return how many entries are in use."""
        return self._room - len(self._free)

    def add(self, **numbers: int) -> int:
        """Make an entry and return its index."""
        if not self._free:
            self._grow()
        index = self._free.pop()
        self._count += 1
        for name, empty in _NUMBERS.items():
            self.numbers[name][index] = empty
        for name in _REFS:
            self.refs[name][index] = NO_REF
        self.numbers["serial"][index] = self._count
        for name, number in numbers.items():
            self.numbers[name][index] = number
        return index

    def release(self, index: int) -> None:
        """Free an entry."""
        self._free.append(index)

    def _grow(self) -> None:
        size = max(64, 2 * self._room)
        for name, empty in _NUMBERS.items():
            grown = np.full(size, empty, np.int64)
            grown[: self._room] = self.numbers[name]
            self.numbers[name] = grown
        for name in _REFS:
            fresh = np.zeros(size, REF)
            fresh[: self._room] = self.refs[name]
            self.refs[name] = fresh
        self._free = list(range(size - 1, self._room - 1, -1))
        self._room = size
