"""The dialect of each frame as its connection shows it; and frames that wait until a later one shows it.

Messages of the draft look like broken key-value commands until an answer or an item proves that it is spoken. A frame
of such a form waits for that, with everything behind it: then it and all later frames of its connection are the
draft's. It waits no longer when its connection has ended or speaks something else, or when :data:`LOOK_AHEAD_BYTES`
have come after it. What a frame becomes depends on this distance alone, not on how frames are cut into tables.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dissector.codec.dialect_evidence import HELLO, IS_EVIDENCE, SAYS_MORE
from dissector.frames.decode_plans import DIALECTS
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dissector.array_types import Longs, Mask
    from dissector.tcp.connections import Connection
    from dissector.tcp.frame_table import FrameTable

#: How far a frame's dialect is looked for behind it: bytes of all frames of the run, and so many more for each.
LOOK_AHEAD_BYTES, FRAME_OVERHEAD = 16 << 20, 512
_DRAFT = DIALECTS.index(Dialect.DRAFT)


@dataclass(slots=True, eq=False)
class NumberedFrames:
    """The frames of a table with their numbers, places and dialects: all that rows are made of."""

    table: FrameTable
    numbers: Longs
    places: Longs
    """Of each frame: what has come of the run until its end, see :func:`places_after`."""
    dialect: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    """Index into ``DIALECTS``."""
    collections: Mask = field(default_factory=lambda: np.zeros(0, bool))
    """Whether its key carries a collection id."""


def places_after(table: FrameTable, before: int) -> Longs:
    """Return each frame's place in the run, of which ``before`` has come: bytes, and a fixed cost of each frame."""
    places: Longs = np.cumsum(table.available + FRAME_OVERHEAD) + before
    return places


class LookAhead:
    """Gives frames their dialects, and holds back what a later frame may give another one."""

    def __init__(self, is_open: Callable[[Connection], bool]) -> None:
        """Prepare; ``is_open`` tells whether more frames of a connection can come."""
        self._is_open = is_open
        self.live = False  #: nothing waits: of servers that are there today none speaks the draft
        self._held: deque[Sequence[NumberedFrames]] = deque()
        self._waiting: dict[Connection, list[int]] = {}  #: places of frames in a form that the draft alone has
        self._now = 0

    @property
    def holds(self) -> bool:
        """Tell whether any frames are held back."""
        return bool(self._held)

    def take(self, group: Sequence[NumberedFrames]) -> list[NumberedFrames]:
        """Take frames; return those that wait for nothing. Groups come in order, and are never taken apart."""
        group = [each for each in group if len(each.table)]
        self._held.append(group)
        for each in group:
            self._find_dialects(each)
            self._now = int(each.places[-1])
        first = self._first_waiting() if self._waiting else None
        ready: list[NumberedFrames] = []
        while self._held and (first is None or all(each.places[-1] < first for each in self._held[0])):
            ready += self._held.popleft()
        return ready

    def _find_dialects(self, frames: NumberedFrames) -> None:
        """Find out each frame's dialect and whether its keys carry collection ids, as of that frame."""
        table = frames.table
        source = np.frombuffer(table.stream, np.uint8)
        opcode = source[table.position + 1]
        entries = table.connections
        hello = set(table.connection[opcode == HELLO].tolist())
        watched = {entries[entry].index for entry in hello}
        watched |= {connection.index for connection in entries if not connection.detector.decided}
        code = DIALECTS.index  # by identity: an enumeration's members are slow to hash
        dialects = np.array([code(connection.detector.dialect) for connection in entries], np.int64)
        collections = np.array([connection.detector.collections for connection in entries], bool)
        frames.dialect = dialects[table.connection]
        frames.collections = collections[table.connection]
        if not watched:
            return
        owner = np.array([connection.index for connection in entries], np.int64)[table.connection]
        likely = np.array([connection.detector.likely for connection in entries], bool)[table.connection]
        telling = IS_EVIDENCE[opcode] & (~likely | SAYS_MORE[opcode, source[table.position + 4]])
        for index in np.flatnonzero(telling & np.isin(owner, [*watched])).tolist():
            connection = entries[table.connection[index]]
            detector = connection.detector
            if detector.decided and opcode[index] != HELLO:
                continue
            before = detector.dialect, detector.collections
            forms = detector.draft_forms
            detector.feed(int(table.side[index]), table.data(index))
            if detector.draft_forms > forms and not self.live:
                self._waiting.setdefault(connection, []).append(int(frames.places[index]))
            if (detector.dialect, detector.collections) != before:
                later = index + np.flatnonzero(owner[index:] == owner[index])
                frames.dialect[later] = code(detector.dialect)
                frames.collections[later] = detector.collections
                if detector.dialect is Dialect.DRAFT:
                    self._found_draft(connection, int(frames.places[index]))

    def _found_draft(self, connection: Connection, place: int) -> None:
        """Correct the dialect of what waited for it, and of what came after that."""
        near = [each for each in self._waiting.pop(connection, ()) if each >= place - LOOK_AHEAD_BYTES]
        if not near:
            return
        for group in self._held:
            for each in group:
                if len(each.dialect):
                    own = np.array([entry is connection for entry in each.table.connections], bool)
                    each.dialect[own[each.table.connection] & (each.places >= near[0])] = _DRAFT

    def _first_waiting(self) -> int | None:
        """Forget what waits in vain; return the place of the first frame that still waits."""
        for connection, places in list(self._waiting.items()):
            near = [each for each in places if each >= self._now - LOOK_AHEAD_BYTES]
            if near and connection.detector.may_be_draft and self._is_open(connection):
                self._waiting[connection] = near
            else:
                del self._waiting[connection]
        return min((places[0] for places in self._waiting.values()), default=None)
