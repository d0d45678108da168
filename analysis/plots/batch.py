"""A batch of frames for plots: columns as arrays, and connection numbers and names that hold for the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.kinds import CONTROL, OPEN
from dissector.frames.batch import DRAFT, PLAIN, FrameBatch
from dissector.frames.byte_text import text_of
from dissector.frames.connection_numbers import AppearanceOrder
from dissector.frames.message_kinds import IS_UPR
from dissector.summary.connection_ends import ConnectionEnds

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dissector.array_types import Longs


#: Columns that every plot needs.
COLUMNS = frozenset(
    (
        *("frame", "time_ns", "connection", "direction", "opcode", "response", "dialect", "key_bytes", "text"),
        *("src", "sport", "dst", "dport"),
    )
)
_MOST_DIGITS = 18
_FOREVER = 1 << 62


class ConnectionName(NamedTuple):
    """What listings and labels call a connection."""

    id: str
    number: int  #: in listings, from 1
    client: str
    server: str


class ConnectionNames:
    """The connections of a run, numbered from 0 in order of appearance."""

    def __init__(self) -> None:
        self.connections: list[ConnectionName] = []
        self.dcp_names: dict[int, str] = {}  #: by number, as the open request has it
        self.ends = ConnectionEnds()
        self.until_ns = _FOREVER  #: nothing later is drawn
        self._order = AppearanceOrder()

    @property
    def ids(self) -> list[str]:
        """Return the ids of all connections, in the order of their numbers."""
        return self._order.names

    def number(self, name: str) -> int | None:
        """Return the number of the connection with this id."""
        found = self._order.numbers.get(name)
        return None if found is None else found - 1

    def label(self, number: int) -> str:
        """Return a connection's label: its number in listings, and its DCP name or else its client's address."""
        connection = self.connections[number]
        return f"{connection.number} {self.dcp_names.get(number, connection.client)}"

    def end_ns(self, number: int) -> int:
        """Return until when a connection was there, or the picture shows it."""
        return min(self.ends.end_ns(self.connections[number].id), self.until_ns)

    def numbers_of(self, frames: FrameBatch) -> Longs:
        """Return the connection number of each row, and number connections that are new."""
        found = self._order.indexes(frames.ids)
        for code in np.flatnonzero(found >= len(self.connections)).tolist():
            self._add(frames, int(np.argmax(frames.code == code)))
        return found[frames.code]

    def _add(self, frames: FrameBatch, row: int) -> None:
        source, target = (
            f"{frames.batch.column(address)[row].as_py()}:{frames.batch.column(port)[row].as_py()}"
            for address, port in (("src", "sport"), ("dst", "dport"))
        )
        if frames.direction[row]:
            source, target = target, source
        number = len(self.connections)
        self.connections.append(ConnectionName(self.ids[number], number + 1, source, target))


class PlotBatch(FrameBatch):
    """One batch, with the connection numbers of the run."""

    def __init__(self, batch: pa.RecordBatch, names: ConnectionNames) -> None:
        super().__init__(batch)
        self.names = names
        self.connection = names.numbers_of(self)
        self.time_ns = self.numbers("time_ns")
        self.draft = self.numbering == DRAFT
        self._note_names()

    def requests(self, opcode: int) -> NDArray[np.bool_]:
        """Return a mask of the requests with this opcode, in all dialects but the draft."""
        found: NDArray[np.bool_] = (self.opcode == opcode) & ~self.response & ~self.draft
        return found

    @property
    def upr(self) -> NDArray[np.bool_]:
        """Return a mask of the messages of UPR or DCP: not those of plain memcached."""
        found: NDArray[np.bool_] = (self.numbering != PLAIN) | IS_UPR[self.opcode]
        return found

    def controls(self, key: bytes) -> list[tuple[int, int]]:
        """Return the rows of control requests with this key and the number each sets; other values are left out."""
        rows = np.flatnonzero(self.requests(CONTROL))
        found = []
        for at, row in zip(rows.tolist(), self.rows(rows, ("key_bytes", "text")), strict=True):
            text = row["text"] or ""
            if row["key_bytes"] == key and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
                found.append((at, int(text)))
        return found

    def _note_names(self) -> None:
        rows = np.flatnonzero(self.requests(OPEN))
        for at, row in zip(rows.tolist(), self.rows(rows, ("key_bytes",)), strict=True):
            if row["key_bytes"]:
                self.names.dcp_names.setdefault(int(self.connection[at]), text_of(row["key_bytes"]))
