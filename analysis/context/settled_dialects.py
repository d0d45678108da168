"""Which dialect a connection speaks, where the evidence of its messages leaves no doubt; and messages of another one.

The reader gives each message the dialect that most speaks for at that point, and may change its mind. Whether a message
has the form of another dialect is told here only when the dialect is settled: a message that comes before is kept until
then, within bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.frame_refs import REF
from analysis.context.lookback import as_of
from analysis.context.tables import Table
from dissector.codec.dialect_evidence import HAS_FINGERPRINT, HELLO, IS_UPR_ALONE, DialectTally
from dissector.spec import enums, fingerprints
from dissector.spec.model import Dialect, MessageType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs, Mask

#: What columns of dialects hold; 0: not settled.
NOT_SETTLED, UPR, DCP = 0, 1, 2
_CODE = {None: NOT_SETTLED, Dialect.UPR: UPR, Dialect.DCP: DCP}
_REQUESTS = [magic.value for magic in enums.MAGICS if magic.direction is MessageType.REQUEST and not magic.server_push]
#: Messages that wait for a dialect: on one connection, and in all. More are not decided.
MAX_WAITING, MAX_WAITING_IN_ALL = 64, 65_536


class SettledDialects:
    """The evidence of all connections, carried from batch to batch."""

    def __init__(self) -> None:
        self._settled: Longs = np.zeros(0, np.int64)  #: by connection
        self._over: Mask = np.zeros(0, bool)  #: by connection: nothing can change it any more
        self._tallies: dict[int, DialectTally] = {}
        self._news: dict[int, list[tuple[int, int]]] = {}  #: by connection: rows of the batch that settle a dialect

    def fold(self, frames: ContextBatch, believed: Mask) -> Longs:
        """Return each row's settled dialect, with all evidence up to it among the rows that are ``believed``."""
        room = int(frames.connection.max()) + 1
        if room > len(self._settled):
            more = max(room, 2 * len(self._settled)) - len(self._settled)
            self._settled = np.r_[self._settled, np.zeros(more, np.int64)]
            self._over = np.r_[self._over, np.zeros(more, bool)]
        changes: dict[int, int] = {}
        self._news = {}
        for row in np.flatnonzero(self._telling(frames) & believed).tolist():
            number = int(frames.connection[row])
            if self._over[number]:
                continue
            tally = self._tallies.setdefault(number, DialectTally())
            self._add(tally, frames, row)
            changes[row] = _CODE[tally.settled]
            if changes[row]:
                self._news.setdefault(number, []).append((row, changes[row]))
            if tally.settled_for_good:
                self._over[number] = True
                del self._tallies[number]
        return as_of(self._settled, frames.connection, changes)

    @property
    def news(self) -> Iterable[int]:
        """Return the connections for which rows of the last batch settle a dialect."""
        return self._news

    def settled_after(self, connection: int, row: int) -> int:
        """Return the dialect that is settled first after a row of the last batch; row -1 stands for all before it."""
        return next((code for at, code in self._news.get(connection, ()) if at > row), NOT_SETTLED)

    def _telling(self, frames: ContextBatch) -> Mask:
        extras = frames.numbers("extras_length") & 0xFF
        hello = (frames.opcode == HELLO) & (~frames.response | (frames.numbers("status") == enums.SUCCESS))
        request = HAS_FINGERPRINT[frames.opcode, extras] & np.isin(frames.numbers("magic"), _REQUESTS)
        parts = frames.numbers("framing_length") + extras + frames.numbers("key_length")
        telling: Mask = (hello | request) & (parts <= frames.numbers("body_length")) & ~self._over[frames.connection]
        return telling

    @staticmethod
    def _add(tally: DialectTally, frames: ContextBatch, row: int) -> None:
        opcode = int(frames.opcode[row])
        if opcode == HELLO:
            tally.hello = True
            return
        extras, version = (int(frames.numbers(name)[row]) for name in ("extras_length", "marker_version"))
        for form in fingerprints.fingerprints_of(opcode, extras, version):
            tally.add(opcode, form.dialect)


class _Waiting(NamedTuple):
    """A message in a form that one dialect alone has."""

    ref: np.void
    connection: int
    vbucket: int
    stream_id: int
    opcode: int
    extras_length: int
    response: int
    shape_of: int  #: the dialect that has it
    settled: int  #: the dialect that is spoken, as far as it is settled


class DialectForms:
    """Makes the table ``dialect_forms``: messages that one dialect alone has in their form, when theirs is settled."""

    def __init__(self, dialects: SettledDialects) -> None:
        self._dialects = dialects
        self._waiting: dict[int, list[tuple[int, _Waiting]]] = {}  #: by connection, with their rows in the batch
        self._count = 0

    def fold(self, frames: ContextBatch, settled: Longs, other: Longs, searched: Mask) -> Table | None:
        """Take a batch. ``other`` are the rows that the reader read in the form of a dialect that is not theirs.

        Frames that were ``searched`` for may be none, and wait for nothing.
        """
        early = frames.early & ~frames.response & (settled != UPR)
        early &= IS_UPR_ALONE[frames.opcode, frames.numbers("extras_length") & 0xFF]
        form = np.where(early, UPR, NOT_SETTLED)
        form[other] = np.where(frames.early[other], DCP, UPR)
        done: list[_Waiting] = []
        seen = set[int]()
        for row in np.flatnonzero(form).tolist():
            entry = _Waiting(
                frames.refs()[row],
                int(frames.connection[row]),
                int(frames.numbers("vbucket")[row]),
                int(frames.numbers("stream_id")[row]),
                int(frames.opcode[row]),
                int(frames.numbers("extras_length")[row]),
                int(frames.response[row]),
                int(form[row]),
                NOT_SETTLED if searched[row] else int(settled[row]),
            )
            waiting = self._waiting.get(entry.connection, [])
            if entry.settled or searched[row] or len(waiting) >= MAX_WAITING or self._count >= MAX_WAITING_IN_ALL:
                done.append(entry)
            else:
                self._waiting.setdefault(entry.connection, []).append((row, entry))
                seen.add(entry.connection)
                self._count += 1
        done += self._settle(seen)
        return _table(done) if done else None

    def finish(self) -> Table | None:
        """Return what waits in vain."""
        left = [entry for entries in self._waiting.values() for _, entry in entries]
        self._waiting, self._count = {}, 0
        return _table(left) if left else None

    def _settle(self, seen: set[int]) -> Iterable[_Waiting]:
        """Yield what waits no longer; those that were ``seen`` in this batch are of an earlier one from now on."""
        for connection in {*self._dialects.news} & self._waiting.keys():
            still = []
            for row, entry in self._waiting[connection]:
                settled = self._dialects.settled_after(connection, row)
                if settled:
                    self._count -= 1
                    yield entry._replace(settled=settled)
                else:
                    still.append((row, entry))
            self._waiting[connection] = still
        for connection in seen & self._waiting.keys():
            self._waiting[connection] = [(-1, entry) for _, entry in self._waiting[connection]]
            if not self._waiting[connection]:
                del self._waiting[connection]


def _table(entries: list[_Waiting]) -> Table:
    entries.sort(key=lambda entry: int(entry.ref["ordinal"]))
    refs = np.array([entry.ref.tolist() for entry in entries], REF)
    names = ("connection", "vbucket", "stream_id", "opcode", "extras_length", "response", "shape_of", "settled")
    columns = {name: np.array([getattr(entry, name) for entry in entries], np.int64) for name in names}
    columns["form"] = columns["expected"] = (
        np.maximum(columns["settled"], UPR) << 9 | columns["response"] << 8 | columns["opcode"]
    )
    columns["root"] = columns["opcode"] << 8 | columns["extras_length"]
    return Table(len(entries), columns, {"guilty": refs})
