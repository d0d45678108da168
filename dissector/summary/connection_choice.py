"""A connection by its name: that of its open, or the part of it that no other connection has.

Numbers and ids are known to :mod:`dissector.frames.connection_numbers`; here they are what a name is turned into.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.frames.batch import FrameBatch
from dissector.frames.sources import open_frames
from dissector.summary.connections import NAME_COLUMNS, ConnectionSummaries, forget
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection

_SHOWN = 4  #: names in a message
_LONGEST = 1024  #: characters of a name that are remembered: keys of opens may have 64 KiB


class NamedConnections:
    """The names of connections, batch after batch, and those among them that a text means."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._summaries = ConnectionSummaries(forget)
        self._names: dict[str, tuple[int, str]] = {}  #: number and name, by id; those with a name

    def end(self, connection: Connection) -> None:
        """Note that a connection has ended."""
        self._summaries.end(connection)

    def fold(self, batch: pa.RecordBatch) -> None:
        """Learn the names that a batch shows."""
        for summary in self._summaries.fold(FrameBatch(batch), names_only=True):
            if summary.name is not None and summary.id not in self._names:
                self._names[summary.id] = summary.number, summary.name[:_LONGEST]
        self._summaries.release_ended()

    def meant(self) -> list[str]:
        """Return the ids that the text may mean: those of this very name or, if there is none, those with it inside."""
        same = [each for each, (_, name) in self._names.items() if name == self._text]
        part = self._text.casefold()
        return same or [each for each, (_, name) in self._names.items() if part in name.casefold()]

    def only(self) -> str:
        """Return the id that the text means; raise UsageError where it is none, or not the only one."""
        meant = self.meant()
        if len(meant) == 1:
            return meant[0]
        shown = safe_text(self._text[:60])
        if not meant:
            known = f"known: {self._listed(list(self._names))}" if self._names else "none has a name"
            raise UsageError(f"no connection is called {shown!r} ({known})")
        raise UsageError(f"{shown!r} is in the names of {len(meant):,} connections: choose one ({self._listed(meant)})")

    def _listed(self, ids: Sequence[str]) -> str:
        names = [self._names[each] for each in ids]
        listed = ", ".join(f"{number} {safe_text(name[:60])}" for number, name in names[:_SHOWN])
        return listed + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def id_of(
    text: str,
    inputs: Sequence[Input],
    options: ReadOptions,
    watch: Callable[[BatchReader], AbstractContextManager[Callable[[], None]]],
) -> str:
    """Return the id of the connection of this name; the inputs are read for that, so none may be a pipe."""
    named = NamedConnections(text)
    reader = open_frames(inputs, replace(options, columns=NAME_COLUMNS), ended=named.end)
    with watch(reader) as advance:
        for batch in reader:
            advance()
            named.fold(batch)
    return named.only()
