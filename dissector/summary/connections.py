"""The connections of a run: what their set-up messages say, which forms their messages have, which defects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from dissector.codec.dialect_evidence import IS_UPR_REQUEST
from dissector.frames.batch import DRAFT, NOTHING, PLAIN, PROTO, FrameBatch, distinct
from dissector.frames.writers import text_of
from dissector.spec import enums, fingerprints, registry
from dissector.spec.model import Dialect, Party
from dissector.summary.era import Era, RequestForm

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dissector.tcp.connections import Connection

_OPEN, _ADD_STREAM, _HELLO, _SELECT_BUCKET = (
    registry.named(Dialect.DCP, name).opcode for name in ("open", "add_stream", "hello", "select_bucket")
)
_DRAFT_REQUEST = registry.named(Dialect.DRAFT, "stream_request").opcode
_SET_UP = ("opcode", "response", "direction", "key", "opaque", "status", "extras_length", "open_flags", "dialect")
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
_SENDERS[PLAIN][_ADD_STREAM] = 1  # it goes to a consumer: this leg's producer side is who sends it


@dataclass(slots=True, eq=False)
class ConnectionSummary:
    """A connection as its frames so far show it."""

    id: str
    number: int  #: counts connections from 1 as their first frames come up
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
    memory: Any = None  #: of whoever follows the connection further, until it ends

    @property
    def producer(self) -> int | None:
        """Return the direction that produces, if anything tells."""
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
        self._waiting: dict[str, Connection] = {}  #: over, but not all of their rows have come
        self._count = 0

    @property
    def live(self) -> int:
        """Return how many connections are being followed."""
        return len(self._live) + len(self._waiting)

    def end(self, connection: Connection) -> None:
        """Take note of a connection's end; its last rows may still be on their way."""
        member = self._live.get(connection.id)
        frames = _frames(connection)
        if frames == (member.rows if member is not None else 0):
            self._finish(connection)
        else:
            self._waiting[connection.id] = connection

    def fold(self, view: FrameBatch, *, names_only: bool = False) -> list[ConnectionSummary]:
        """Take a batch; return its connections, in the order of the view's codes."""
        members = [self._member(name) for name in view.ids]
        for member, count in zip(members, np.bincount(view.code, minlength=len(members)).tolist(), strict=True):
            member.rows += count
        self._set_up(view, members)
        if not names_only:
            self._forms(view, members)
            self._senders(view, members)
            self._defects(view, members)
        return members

    def settle(self) -> None:
        """Behind a batch: let go of the connections that are over."""
        for connection in list(self._waiting.values()):
            member = self._live.get(connection.id)
            if member is not None and member.rows >= _frames(connection):
                del self._waiting[connection.id]
                self._finish(connection)

    def _finish(self, connection: Connection) -> None:
        self._ended(connection, self._live.pop(connection.id, None))

    def _member(self, name: str) -> ConnectionSummary:
        member = self._live.get(name)
        if member is None:
            self._count += 1
            member = self._live[name] = ConnectionSummary(name, self._count)
        return member

    def _set_up(self, view: FrameBatch, members: list[ConnectionSummary]) -> None:
        """Read opens, HELLOs and bucket selections."""
        opcode = view.opcode
        wanted = (opcode == _HELLO) | (opcode == _SELECT_BUCKET) | (opcode == _OPEN)
        wanted &= view.numbering == PLAIN
        wanted |= (view.numbering == DRAFT) & (opcode == _DRAFT_REQUEST)
        which = np.flatnonzero(wanted)
        for code, row in zip(view.code[which].tolist(), view.rows(which, _SET_UP), strict=True):
            member = members[code]
            key = None if row["key"] is None else text_of(row["key"])
            if row["opcode"] == _SELECT_BUCKET:
                _select(member, row, key)
            elif row["response"]:
                continue
            elif row["opcode"] == _HELLO:
                member.agent = key or member.agent
            else:
                member.name = member.name or key
                if row["opcode"] == _OPEN and row["open_flags"] is not None:
                    _open(member, row)

    def _forms(self, view: FrameBatch, members: list[ConnectionSummary]) -> None:
        """Look at every form of request once."""
        extras = view.numbers("extras_length")
        parts = view.numbers("framing_length") + extras + view.numbers("key_length")
        chosen = np.flatnonzero(
            (view.numbering == PLAIN)
            & ~view.response
            & IS_UPR_REQUEST[view.opcode, extras]
            & (parts <= view.numbers("body_length"))
        )
        if not len(chosen):
            return
        flexible = np.isin(view.numbers("magic")[chosen], _FLEXIBLE)
        packed = view.code[chosen]
        for numbers, bits in (
            (view.direction[chosen], 1),
            (flexible, 1),
            (view.opcode[chosen], _OPCODE_BITS),
            (extras[chosen], _EXTRAS_BITS),
            (view.numbers("marker_version")[chosen] + 1, _MARKER_BITS),
        ):
            packed = (packed << bits) | numbers
        below = _MARKER_BITS + _EXTRAS_BITS + _OPCODE_BITS + 2
        for number in distinct(packed)[0]:
            member, form = members[number >> below], number & ((1 << below) - 1)
            if form not in member.forms:
                member.forms.add(form)
                version = (form & ((1 << _MARKER_BITS) - 1)) - 1
                size = form >> _MARKER_BITS & 0xFF
                opcode = form >> _MARKER_BITS + _EXTRAS_BITS & 0xFF
                member.era.add(RequestForm(opcode, size, None if version < 0 else version, bool(form >> below - 2 & 1)))
                sender = int(_SENDERS[PLAIN][opcode])
                if member.seen is None and sender != NOTHING:
                    direction = form >> below - 1
                    member.seen = direction if sender else 1 - direction

    def _senders(self, view: FrameBatch, members: list[ConnectionSummary]) -> None:
        """Learn roles from the dialects that have numbers of their own; in the draft all but requests are pushes."""
        draft = view.numbering == DRAFT
        if (view.numbering == PLAIN).all():
            return
        usual = view.response == (draft & (view.opcode != _DRAFT_REQUEST))
        sender = np.where(draft, _SENDERS[DRAFT][view.opcode], _SENDERS[PROTO][view.opcode])
        told = np.flatnonzero(usual & (view.numbering != PLAIN) & (sender != NOTHING))
        _, first = np.unique(view.code[told], return_index=True)
        for row in told[first].tolist():
            member, direction = members[int(view.code[row])], int(view.direction[row])
            if member.seen is None:
                member.seen = direction if sender[row] else 1 - direction

    def _defects(self, view: FrameBatch, members: list[ConnectionSummary]) -> None:
        column = view.batch.column("defects")
        found = pc.list_flatten(column)
        if not len(found):
            return
        parents = pc.list_parent_indices(column).to_numpy()
        counts = np.bincount(view.code[np.unique(parents)], minlength=len(members)).tolist()
        for member, count in zip(members, counts, strict=True):
            member.defects += count
        encoded = found.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        for number in distinct(view.code[parents] * len(names) + encoded.indices.to_numpy())[0]:
            members[number // len(names)].defect_ids.add(names[number % len(names)])


def forget(connection: Connection, member: ConnectionSummary | None) -> None:
    """Let go of what was remembered of a connection that is over."""
    del connection
    if member is not None:
        member.memory = None


def _frames(connection: Connection) -> int:
    return sum(framer.frames for framer in connection.framers)


def _select(member: ConnectionSummary, row: dict[str, Any], key: str | None) -> None:
    if not row["response"]:
        if key is not None:
            member.selections = [*member.selections[1 - _MAX_SELECTIONS :], (row["opaque"], key)]
    elif row["status"] != enums.SUCCESS:
        for index in range(len(member.selections) - 1, -1, -1):
            if member.selections[index][0] == row["opaque"]:
                del member.selections[index]
                break


def _open(member: ConnectionSummary, row: dict[str, Any]) -> None:
    """Learn from an open: its flag names the role of the *receiver*; a notifier is a producer that tells less."""
    if row["extras_length"] != registry.OPEN_EXTRAS:
        return
    member.opened = 1 - row["direction"] if row["open_flags"] & _PRODUCES else row["direction"]
    if row["open_flags"] & _DELETE_TIMES:
        member.era.narrow(fingerprints.DELETE_TIMES_SINCE, None)
