"""The connections of a run: their set-up messages, the releases that their messages fit, their defects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from dissector.codec.dialect_evidence import IS_UPR_REQUEST
from dissector.frames.batch import DRAFT, NOTHING, PLAIN, PROTO, FrameBatch, distinct
from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.spec import enums, fingerprints, registry
from dissector.spec.model import Dialect, Party
from dissector.summary.era import Era, RequestForm

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dissector.summary.stream_summary import ConnectionStreams
    from dissector.tcp.connections import Connection

_OPEN, _ADD_STREAM, _HELLO, _SELECT_BUCKET = (
    registry.named(Dialect.DCP, name).opcode for name in ("open", "add_stream", "hello", "select_bucket")
)
_DRAFT_REQUEST = registry.named(Dialect.DRAFT, "stream_request").opcode
_SET_UP = ("opcode", "response", "direction", "key", "opaque", "status", "extras_length", "open_flags", "dialect")
#: Columns that the names of connections are read from.
NAME_COLUMNS = frozenset(("connection", *_SET_UP))
_PRODUCES = enums.OPEN_FLAGS.bit("producer") | enums.OPEN_FLAGS.bit("notifier")
_DELETE_TIMES = enums.OPEN_FLAGS.bit("include_delete_times")
#: More bucket selections that may still be refused are not remembered: a hostile capture must not fill the memory.
_MAX_SELECTIONS = 16
_FLEXIBLE = tuple(magic.value for magic in enums.MAGICS if magic.flexible)
_MARKER_BITS, _EXTRAS_BITS, _OPCODE_BITS = 9, 8, 8


def _senders(dialect: Dialect) -> NDArray[np.int8]:
    """Return, by opcode, 1 where the sender of a request produces, 0 where it consumes, else -1."""
    table = np.full(256, NOTHING, np.int8)
    for message in registry.MESSAGES:
        if message.dialect is dialect and message.sender in (Party.PRODUCER, Party.CONSUMER):
            table[message.opcode] = message.sender is Party.PRODUCER
    return table


_SENDERS = {PLAIN: _senders(Dialect.DCP), PROTO: _senders(Dialect.PROTO), DRAFT: _senders(Dialect.DRAFT)}
_SENDERS[PLAIN][_ADD_STREAM] = 1  # it goes to the consumer: its sender is on the producer's side of this connection


@dataclass(slots=True, eq=False)
class ConnectionSummary:
    """A connection as its frames so far show it."""

    id: str
    number: int  #: from 1, in the order of first frames
    rows: int = 0
    name: str | None = None
    agent: str | None = None
    selections: list[tuple[int, str]] = field(default_factory=list)  #: opaque and bucket
    era: Era = field(default_factory=Era)
    forms: set[int] = field(default_factory=set)
    opened: int | None = None  #: direction that produces, as the last open says
    seen: int | None = None  #: the same, as the first message that only one side sends says
    defects: int = 0
    defect_ids: set[str] = field(default_factory=set)
    streams: ConnectionStreams | None = None  #: as long as the connection lives, if its streams are wanted

    @property
    def producer(self) -> int | None:
        """Return the direction that produces, if it is known."""
        return self.seen if self.opened is None else self.opened

    @property
    def bucket(self) -> str | None:
        """Return the bucket that was selected last."""
        return self.selections[-1][1] if self.selections else None


class ConnectionSummaries:
    """All connections with frames, from their first frame to their end."""

    def __init__(self, ended: Callable[[Connection, ConnectionSummary | None], None]) -> None:
        self._ended = ended
        self._live: dict[str, ConnectionSummary] = {}
        self._waiting: dict[str, Connection] = {}  #: ended, but not all of their rows have come
        self._numbering = ConnectionNumbers()

    @property
    def live(self) -> int:
        """Return how many connections are being followed."""
        return len(self._live) + len(self._waiting)

    def end(self, connection: Connection) -> None:
        """Note that a connection has ended; its last rows may still have to come."""
        summary = self._live.get(connection.id)
        frames = _frames(connection)
        if frames == (summary.rows if summary is not None else 0):
            self._finish(connection)
        else:
            self._waiting[connection.id] = connection

    def fold(self, frames: FrameBatch, *, names_only: bool = False) -> list[ConnectionSummary]:
        """Take a batch; return its connections, in the order of the batch's codes."""
        self._numbering.take(frames.ids, frames.code, frames.batch)
        summaries = [self._summary(name) for name in frames.ids]
        for summary, count in zip(summaries, np.bincount(frames.code, minlength=len(summaries)).tolist(), strict=True):
            summary.rows += count
        self._set_up(frames, summaries)
        if not names_only:
            self._forms(frames, summaries)
            self._senders(frames, summaries)
            self._defects(frames, summaries)
        return summaries

    def rest(self) -> list[ConnectionSummary]:
        """Return the connections that have not ended, in the order of their numbers."""
        return list(self._live.values())

    def release_ended(self) -> None:
        """After a batch: finish the connections that have ended and whose rows have all come."""
        for connection in list(self._waiting.values()):
            summary = self._live.get(connection.id)
            if summary is not None and summary.rows >= _frames(connection):
                del self._waiting[connection.id]
                self._finish(connection)

    def _finish(self, connection: Connection) -> None:
        self._ended(connection, self._live.pop(connection.id, None))
        self._numbering.forget(connection.id)

    def _summary(self, name: str) -> ConnectionSummary:
        summary = self._live.get(name)
        if summary is None:
            summary = self._live[name] = ConnectionSummary(name, self._numbering.numbers[name])
        return summary

    def _set_up(self, frames: FrameBatch, summaries: list[ConnectionSummary]) -> None:
        """Read opens, HELLOs and bucket selections."""
        opcode = frames.opcode
        wanted = (opcode == _HELLO) | (opcode == _SELECT_BUCKET) | (opcode == _OPEN)
        wanted &= frames.numbering == PLAIN
        wanted |= (frames.numbering == DRAFT) & (opcode == _DRAFT_REQUEST)
        which = np.flatnonzero(wanted)
        for code, row in zip(frames.code[which].tolist(), frames.rows(which, _SET_UP), strict=True):
            summary = summaries[code]
            key = row["key"]
            if row["opcode"] == _SELECT_BUCKET:
                _select(summary, row, key)
            elif row["response"]:
                continue
            elif row["opcode"] == _HELLO:
                summary.agent = key or summary.agent
            else:
                summary.name = summary.name or key
                if row["opcode"] == _OPEN and row["open_flags"] is not None:
                    _open(summary, row)

    def _forms(self, frames: FrameBatch, summaries: list[ConnectionSummary]) -> None:
        """Learn era and roles from every form of request, looking at each form once."""
        extras = frames.numbers("extras_length")
        parts = frames.numbers("framing_length") + extras + frames.numbers("key_length")
        chosen = np.flatnonzero(
            (frames.numbering == PLAIN)
            & ~frames.response
            & IS_UPR_REQUEST[frames.opcode, extras]
            & (parts <= frames.numbers("body_length"))
        )
        if not len(chosen):
            return
        flexible = np.isin(frames.numbers("magic")[chosen], _FLEXIBLE)
        packed = frames.code[chosen]
        for numbers, bits in (
            (frames.direction[chosen], 1),
            (flexible, 1),
            (frames.opcode[chosen], _OPCODE_BITS),
            (extras[chosen], _EXTRAS_BITS),
            (frames.numbers("marker_version")[chosen] + 1, _MARKER_BITS),
        ):
            packed = (packed << bits) | numbers
        below = _MARKER_BITS + _EXTRAS_BITS + _OPCODE_BITS + 2
        for number in distinct(packed)[0]:
            summary, form = summaries[number >> below], number & ((1 << below) - 1)
            if form not in summary.forms:
                summary.forms.add(form)
                version = (form & ((1 << _MARKER_BITS) - 1)) - 1
                size = form >> _MARKER_BITS & 0xFF
                opcode = form >> _MARKER_BITS + _EXTRAS_BITS & 0xFF
                summary.era.add(
                    RequestForm(opcode, size, None if version < 0 else version, bool(form >> below - 2 & 1))
                )
                sender = int(_SENDERS[PLAIN][opcode])
                if summary.seen is None and sender != NOTHING:
                    direction = form >> below - 1
                    summary.seen = direction if sender else 1 - direction

    def _senders(self, frames: FrameBatch, summaries: list[ConnectionSummary]) -> None:
        """Learn roles from the dialects that have numbers of their own; in the draft all but requests are pushes."""
        draft = frames.numbering == DRAFT
        if (frames.numbering == PLAIN).all():
            return
        usual = frames.response == (draft & (frames.opcode != _DRAFT_REQUEST))
        sender = np.where(draft, _SENDERS[DRAFT][frames.opcode], _SENDERS[PROTO][frames.opcode])
        told = np.flatnonzero(usual & (frames.numbering != PLAIN) & (sender != NOTHING))
        _, first = np.unique(frames.code[told], return_index=True)
        for row in told[first].tolist():
            summary, direction = summaries[int(frames.code[row])], int(frames.direction[row])
            if summary.seen is None:
                summary.seen = direction if sender[row] else 1 - direction

    def _defects(self, frames: FrameBatch, summaries: list[ConnectionSummary]) -> None:
        column = frames.batch.column("defects")
        found = pc.list_flatten(column)
        if not len(found):
            return
        parents = pc.list_parent_indices(column).to_numpy()
        counts = np.bincount(frames.code[np.unique(parents)], minlength=len(summaries)).tolist()
        for summary, count in zip(summaries, counts, strict=True):
            summary.defects += count
        encoded = found.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        for number in distinct(frames.code[parents] * len(names) + encoded.indices.to_numpy())[0]:
            summaries[number // len(names)].defect_ids.add(names[number % len(names)])


def forget(connection: Connection, summary: ConnectionSummary | None) -> None:
    """Forget the streams of a connection that has ended."""
    del connection
    if summary is not None:
        summary.streams = None


def _frames(connection: Connection) -> int:
    return sum(framer.frames for framer in connection.framers)


def _select(summary: ConnectionSummary, row: dict[str, Any], key: str | None) -> None:
    if not row["response"]:
        if key is not None:
            summary.selections = [*summary.selections[1 - _MAX_SELECTIONS :], (row["opaque"], key)]
    elif row["status"] != enums.SUCCESS:
        for index in range(len(summary.selections) - 1, -1, -1):
            if summary.selections[index][0] == row["opaque"]:
                del summary.selections[index]
                break


def _open(summary: ConnectionSummary, row: dict[str, Any]) -> None:
    """Learn from an open: its flag names the role of the *receiver*; a notifier is a producer that sends less."""
    if row["extras_length"] != registry.OPEN_EXTRAS:
        return
    summary.opened = 1 - row["direction"] if row["open_flags"] & _PRODUCES else row["direction"]
    if row["open_flags"] & _DELETE_TIMES:
        summary.era.at_least(fingerprints.DELETE_TIMES_SINCE)
