"""Connections as rows of frames tell them, where the capture itself is not there.

Rows have every frame, but not the packets: how a connection ended, what was sent twice, and packets before the first
frame or after the last one are not known. Those columns are null, and bytes are those of frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dissector.spec import enums, registry
from dissector.spec.model import Dialect
from dissector.summary.connections import ConnectionSummaries, forget
from dissector.summary.rows import MAX_CONNECTIONS, iso_time, told_by_frames
from dissector.summary.schema import SIDES

if TYPE_CHECKING:
    from dissector.array_types import Longs
    from dissector.frames.batch import FrameBatch
    from dissector.summary.connections import ConnectionSummary

    Row = dict[str, Any]

_HELLO = registry.named(Dialect.DCP, "hello").opcode
_COLLECTIONS = enums.COLLECTIONS_FEATURE
_SUMS = ("frames", "bytes", "gaps", "bytes_lost", "bytes_skipped")


@dataclass(slots=True)
class _Sums:
    """What adds up of one connection."""

    addresses: Row
    start_ns: int
    last_ns: int = 0
    dialect: str = ""
    handshake: bool = False
    collections: bool = False
    of_side: dict[str, int] = field(default_factory=dict)


class StoredConnections:
    """Sums up batches of rows, connection by connection."""

    def __init__(self) -> None:
        self.left_out = 0  #: connections beyond the limit
        self._summaries = ConnectionSummaries(forget)
        self._sums: dict[str, _Sums] = {}

    def fold(self, frames: FrameBatch) -> list[ConnectionSummary]:
        """Take a batch; return its connections, in the order of the batch's codes."""
        summaries = self._summaries.fold(frames)
        start, end = (frames.numbers(name) for name in ("start_offset", "end_offset"))
        gap, missing = frames.numbers("gap"), frames.numbers("missing")
        lost = gap + missing
        columns = (np.ones(frames.size, np.int64), end - start - missing, (lost > 0).astype(np.int64), lost)
        sums = dict(zip(_SUMS, (*columns, frames.numbers("skipped")), strict=True))
        time_ns = frames.numbers("time_ns")
        from_start = frames.batch.column("from_start").to_numpy(zero_copy_only=False)
        order = np.argsort(frames.code, kind="stable")
        bounds = np.searchsorted(frames.code[order], np.arange(len(frames.ids) + 1))
        for code, name in enumerate(frames.ids):
            rows = order[bounds[code] : bounds[code + 1]]
            found = self._sums.get(name) or self._begin(frames, name, rows)
            found.last_ns = max(found.last_ns, int(time_ns[rows].max()))
            found.start_ns = min(found.start_ns, int(time_ns[rows].min()))
            found.dialect = frames.batch.column("dialect")[int(rows[-1])].as_py()
            found.handshake |= bool(from_start[rows].any())
            for direction, side in enumerate(SIDES):
                of_side = rows[frames.direction[rows] == direction]
                for column, numbers in sums.items():
                    key = f"{side}_{column}"
                    found.of_side[key] = found.of_side.get(key, 0) + int(numbers[of_side].sum())
        self._note_collections(frames)
        return summaries

    def rows(self) -> list[Row]:
        """Return a row for each connection."""
        summaries = self._summaries.rest()
        self.left_out = max(len(summaries) - MAX_CONNECTIONS, 0)
        found = []
        for summary in summaries[:MAX_CONNECTIONS]:
            sums = self._sums[summary.id]
            dialect = Dialect(sums.dialect)
            spoken = None if dialect is Dialect.MEMCACHED else dialect
            found.append(
                {
                    "connection": summary.id,
                    **sums.addresses,
                    "handshake": sums.handshake,
                    "start": iso_time(sums.start_ns),
                    "start_ns": sums.start_ns,
                    "duration_ns": sums.last_ns - sums.start_ns,
                    **sums.of_side,
                    **told_by_frames(summary, dialect, spoken),
                    "collections": sums.collections,
                }
            )
        return found

    def _begin(self, frames: FrameBatch, name: str, rows: Longs) -> _Sums:
        first = int(rows[0])
        row = frames.rows(rows[:1], ("src", "sport", "dst", "dport"))[0]
        ends = [(row["src"], row["sport"]), (row["dst"], row["dport"])]
        (client, client_port), (server, server_port) = ends if frames.direction[first] == 0 else ends[::-1]
        addresses = {"client": client, "client_port": client_port, "server": server, "server_port": server_port}
        time_ns = int(frames.numbers("time_ns")[first])
        found = self._sums[name] = _Sums(addresses, time_ns, time_ns)
        return found

    def _note_collections(self, frames: FrameBatch) -> None:
        """Read what HELLO granted; the last one counts."""
        hello = np.flatnonzero((frames.opcode == _HELLO) & frames.response)
        for index, row in zip(hello.tolist(), frames.rows(hello, ("status", "features")), strict=True):
            if row["status"] == enums.SUCCESS:
                self._sums[frames.ids[frames.code[index]]].collections = _COLLECTIONS in (row["features"] or ())
