"""Messages and bytes: by opcode, by connection, by second; and how long each connection was silent.

Knows columns of frames. Bytes are those of frames, as their headers say; what TCP sent twice counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.stats.statistics import Busiest, OpcodeTraffic, TimeRange
from dissector.frames.batch import DRAFT, PLAIN, PROTO
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from dissector.array_types import Longs
    from dissector.frames.batch import FrameBatch

COLUMNS = frozenset(
    ("time_ns", "connection", "direction", "opcode", "response", "dialect", "name", "start_offset", "end_offset")
)
_SECOND_NS = 10**9
#: Seconds that are remembered, until all but the busiest of them are forgotten.
_MOST_SECONDS = 1 << 16
_LONGEST_SPAN = 1 << 20  #: seconds of a batch that are counted at once
_RESPONSE, _NUMBERING = 8, 9  #: bits of a kind's number that stand above the opcode
_KINDS = 3 << _NUMBERING
_DIALECTS = {PLAIN: Dialect.DCP, PROTO: Dialect.PROTO, DRAFT: Dialect.DRAFT}


class Traffic:
    """Sums over all frames. Connections are given by their places in the order of appearance."""

    def __init__(self) -> None:
        self.messages = np.zeros(0, np.int64)  #: by connection
        self.bytes = np.zeros(0, np.int64)
        self.longest_silence_ns = np.zeros(0, np.int64)
        self.latest_ns = np.zeros(0, np.int64)  #: when its latest frame came
        self.time: TimeRange | None = None
        self._kinds = np.zeros((2, _KINDS), np.int64)  #: messages, and bytes
        self._names: dict[int, str] = {}
        self._seconds: dict[int, tuple[int, int]] = {}  #: messages and bytes

    def fold(self, frames: FrameBatch, connection: Longs) -> None:
        """Add a batch of frames, each with the place of its connection."""
        self._grow(int(connection.max()) + 1)
        size = frames.numbers("end_offset") - frames.numbers("start_offset")
        time_ns = frames.numbers("time_ns")
        self.messages += np.bincount(connection, minlength=len(self.messages))
        self.bytes += _sums(connection, size, len(self.bytes))
        self._count_kinds(frames, size)
        self._count_seconds(time_ns // _SECOND_NS, size)
        self._note_silences(connection, time_ns)
        first, last = int(time_ns.min()), int(time_ns.max())
        if self.time is not None:
            first, last = min(first, self.time.first_ns), max(last, self.time.last_ns)
        self.time = TimeRange(first, last)

    def opcodes(self) -> tuple[OpcodeTraffic, ...]:
        """Return all opcodes, those with the most messages first."""
        found = []
        for code in np.flatnonzero(self._kinds[0]).tolist():
            messages, size = self._kinds[:, code].tolist()
            response, numbering = bool(code >> _RESPONSE & 1), code >> _NUMBERING
            dialect = _DIALECTS[numbering].value
            found.append(OpcodeTraffic(self._names[code], code & 0xFF, response, dialect, messages, size))
        return tuple(sorted(found, key=lambda kind: (-kind.messages, kind.name, kind.response)))

    def busiest(self) -> Busiest | None:
        """Return the busiest seconds."""
        if not self._seconds:
            return None
        of_messages = max(self._seconds, key=lambda second: (self._seconds[second][0], -second))
        of_bytes = max(self._seconds, key=lambda second: (self._seconds[second][1], -second))
        return Busiest(self._seconds[of_messages][0], of_messages, self._seconds[of_bytes][1], of_bytes)

    def _grow(self, connections: int) -> None:
        known = len(self.messages)
        if connections <= known:
            return
        more = np.zeros(max(connections, 2 * known) - known, np.int64)
        for name in ("messages", "bytes", "longest_silence_ns", "latest_ns"):
            setattr(self, name, np.concatenate((getattr(self, name), more)))

    def _count_kinds(self, frames: FrameBatch, size: Longs) -> None:
        code = frames.opcode | frames.response.astype(np.int64) << _RESPONSE | frames.numbering << _NUMBERING
        counts = np.bincount(code, minlength=_KINDS)
        for each in np.flatnonzero(counts).tolist():
            if each not in self._names:
                row = int(np.argmax(code == each))
                self._names[each] = frames.batch.column("name")[row].as_py() or f"0x{each & 0xFF:02x}"
        self._kinds[0] += counts
        self._kinds[1] += _sums(code, size, _KINDS)

    def _count_seconds(self, second: Longs, size: Longs) -> None:
        first = int(second.min())
        if int(second.max()) - first < _LONGEST_SPAN:
            places, base = second - first, np.arange(first, int(second.max()) + 1)
        else:  # a clock that was set, or packets of many days
            base, places = np.unique(second, return_inverse=True)
        messages = np.bincount(places, minlength=len(base))
        there = np.flatnonzero(messages)
        columns = base[there].tolist(), messages[there].tolist(), _sums(places, size, len(base))[there].tolist()
        for each, count, total in zip(*columns, strict=True):
            before = self._seconds.get(each, (0, 0))
            self._seconds[each] = before[0] + count, before[1] + total
        if len(self._seconds) > _MOST_SECONDS:
            self._forget_quiet_seconds(int(second[-1]))

    def _forget_quiet_seconds(self, latest: int) -> None:
        """Forget all but the busiest seconds, and the latest one: that goes on."""
        kept = {latest}
        for column in (0, 1):
            counts = sorted(((sums[column], second) for second, sums in self._seconds.items()), reverse=True)
            kept.update(second for _, second in counts[: _MOST_SECONDS // 4])
        self._seconds = {second: self._seconds[second] for second in kept if second in self._seconds}

    def _note_silences(self, connection: Longs, time_ns: Longs) -> None:
        order = np.argsort(connection, kind="stable")
        sorted_connection, sorted_ns = connection[order], time_ns[order]
        heads = np.flatnonzero(np.diff(sorted_connection, prepend=-1))
        before = np.empty_like(sorted_ns)
        before[1:] = sorted_ns[:-1]
        latest = self.latest_ns[sorted_connection[heads]]
        before[heads] = np.where(latest > 0, latest, sorted_ns[heads])
        np.maximum.at(self.longest_silence_ns, sorted_connection[heads], np.maximum.reduceat(sorted_ns - before, heads))
        self.latest_ns[sorted_connection] = sorted_ns  # of several writes the last one stays


def _sums(place: Longs, numbers: Longs, size: int) -> Longs:
    """Return the sum of the numbers at each place. Doubles are exact up to 2^53, which no batch reaches."""
    return np.bincount(place, numbers, size).astype(np.int64)
