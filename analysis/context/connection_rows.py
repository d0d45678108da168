"""Messages that do not fit the state of their connection: not opened, sent by the wrong side, not agreed upon.

Hardly any batch has one; what follows from their number is a table of its own for each kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.feature_uses import FEATURE_USES, unagreed_uses
from analysis.context.frame_refs import REF
from analysis.context.roles import SENDERS
from analysis.context.tables import Table
from dissector.frames.batch import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.requests.state import ConnectionState
    from dissector.array_types import Longs, Mask

_LAST = max(kinds.CACHE_TRANSFER, kinds.CACHE_TRANSFER_END)
#: Every opcode that a connection must have been opened for.
_AFTER_OPEN = np.zeros(256, bool)
_AFTER_OPEN[kinds.OPEN + 1 : _LAST + 1] = True


class ConnectionRows:
    """The rows of a batch that do not fit the state of their connections."""

    def __init__(self, frames: ContextBatch, facts: dict[str, Longs], states: Mapping[int, ConnectionState]) -> None:
        self._frames, self._facts, self._states = frames, facts, states

    def tables(self, spoken: Mask, searched: Mask, doubtful: Callable[[], Mask]) -> Iterator[tuple[str, Table]]:
        """Yield the tables that have rows.

        ``spoken`` tells which rows are messages of UPR, ``searched`` which frames were searched for, ``doubtful`` where
        something may have been lost before.
        """
        rows = self._unopened()
        if len(rows):
            columns = {"side": self._frames.side[rows], "searched": searched[rows], "doubtful": doubtful()[rows]}
            yield "unopened_requests", self._table(rows, columns)
        rows = self._misplaced(spoken)
        if len(rows):
            producer = self._facts["producer"][rows]
            columns = {
                "produces": self._frames.side[rows] == producer,
                "role_unknown": producer < 0,
                "searched": searched[rows],
            }
            yield "misplaced_requests", self._table(rows, columns, open=self._opens(rows))
        uses = unagreed_uses(self._frames, self._facts, spoken)
        rows = uses.rows
        if len(rows):
            columns = {
                "use": uses.use,
                "maybe_agreed": uses.unsure,
                "refused": uses.refused,
                "searched": searched[rows],
            }
            refusals = self._refusals(rows, uses.use, uses.refused)
            yield "unagreed_uses", self._table(rows, columns, open=self._opens(rows), refusal=refusals)

    def _table(self, rows: Longs, columns: dict[str, NDArray[np.generic]], **refs: NDArray[np.void]) -> Table:
        """Return a table of connections, not of vbuckets: what is wrong with one message is wrong with all like it."""
        place = {
            "connection": self._frames.connection[rows],
            "vbucket": np.full(len(rows), -1),
            "stream_id": np.zeros(len(rows), np.int64),
            "opcode": self._frames.opcode[rows],
        }
        return Table(len(rows), {**place, **columns}, {"guilty": self._frames.refs()[rows], **refs})

    def _unopened(self) -> Longs:
        """Return the requests before any open, of sides that began a connection which was captured from there on.

        Whatever their dialect: a single message may not tell it.
        """
        frames = self._frames
        early = self._facts["opened"] == 0
        if not early.any():
            return np.zeros(0, np.int64)
        early &= (frames.side == 0) & _AFTER_OPEN[frames.opcode] & self._requests()
        return np.flatnonzero(early & (frames.numbers("from_start") > 0))

    def _misplaced(self, spoken: Mask) -> Longs:
        """Return the requests that only the other role sends; where roles are not known, that only one role sends."""
        frames, producer = self._frames, self._facts["producer"]
        role = SENDERS[PLAIN, 0, frames.opcode]
        wrong = (role >= 0) & ((producer < 0) | (role != (frames.side == producer)))
        if not wrong.any():
            return np.zeros(0, np.int64)
        return np.flatnonzero(wrong & spoken & self._requests())

    def _requests(self) -> Mask:
        found: Mask = (self._frames.numbering == PLAIN) & ~self._frames.response
        return found

    def _opens(self, rows: Longs) -> NDArray[np.void]:
        """Return the open of each row's connection."""
        found = np.zeros(len(rows), REF)
        numbers = self._frames.connection[rows]
        for number in np.unique(numbers).tolist():
            first = self._states[number].opening.first if number in self._states else None
            if first is not None:
                found[numbers == number] = np.array(tuple(first.ref), REF)
        return found

    def _refusals(self, rows: Longs, uses: Longs, refused: Mask) -> NDArray[np.void]:
        """Return, where a message uses what was refused, the answer that refused it."""
        found = np.zeros(len(rows), REF)
        for at in np.flatnonzero(refused).tolist():
            row, use = int(rows[at]), FEATURE_USES[int(uses[at]) - 1]
            wanted = int(self._facts["refused"][row]) & use.agreements
            refusals = self._states[int(self._frames.connection[row])].refusals
            ref = next((ref for agreement, ref in refusals.items() if agreement & wanted), None)
            if ref is not None:
                found[at] = tuple(ref)
        return found
