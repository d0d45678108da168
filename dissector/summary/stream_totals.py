"""Sums over the messages of streams, as columns that grow with the number of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dissector.array_types import Longs


NEVER = -1  #: no such message yet
_UNKNOWN_REASON = -2  #: it ended, and the reason was lost
_COLUMNS = ("messages", "items", "bytes", "snapshots", "first_seqno", "last_seqno", "last_ns", "end_reason")


class StreamTotals:
    """Sums by stream: every column has one entry per stream."""

    def __init__(self) -> None:
        self.messages = np.empty(0, np.int64)
        self.items = np.empty(0, np.int64)
        self.bytes = np.empty(0, np.int64)
        self.snapshots = np.empty(0, np.int64)
        self.first_seqno = np.empty(0, np.int64)
        self.last_seqno = np.empty(0, np.int64)
        self.last_ns = np.empty(0, np.int64)
        self.end_reason = np.empty(0, np.int64)

    def grow(self, count: int) -> None:
        """Make room for this many streams."""
        room = len(self.items)
        if count <= room:
            return
        size = max(count, 2 * room, 64)
        for name in _COLUMNS:
            empty = NEVER if name in ("first_seqno", "last_seqno", "end_reason") else 0
            grown = np.full(size, empty, np.int64)
            grown[:room] = getattr(self, name)
            setattr(self, name, grown)

    def add(self, streams: Longs, size: Longs, time_ns: Longs) -> None:
        """Add messages: each one's stream, frame size and time."""
        np.add.at(self.messages, streams, 1)
        np.add.at(self.bytes, streams, size)
        self.last_ns[streams] = time_ns  # of several, the last one stays

    def add_items(self, streams: Longs, seqno: Longs) -> None:
        """Add data messages; a seqno that was cut off is not there."""
        np.add.at(self.items, streams, 1)
        there = seqno >= 0
        if not there.all():
            streams, seqno = streams[there], seqno[there]
        self.last_seqno[streams] = seqno
        fresh = np.flatnonzero(self.first_seqno[streams] == NEVER)[::-1]
        self.first_seqno[streams[fresh]] = seqno[fresh]  # backwards: the first one stays

    def end(self, streams: Longs, reason: Longs) -> None:
        """Note stream ends and their reasons."""
        self.end_reason[streams] = np.where(reason >= 0, reason, _UNKNOWN_REASON)

    def ended(self, stream: int) -> tuple[bool, int | None]:
        """Tell whether a stream has ended, and why."""
        reason = int(self.end_reason[stream])
        return reason != NEVER, reason if reason >= 0 else None
