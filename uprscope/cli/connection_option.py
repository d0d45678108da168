"""One way to name a connection, for every command: by its number in listings, its id, or its name."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from dissector.terminal.style import Terminal, one_line, safe_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.filters.selector import FrameSelector
    from dissector.options import ReadOptions
    from dissector.summary.connection_choice import NamedConnections
    from dissector.tcp.connections import Connection


def add_connection_argument(group: argparse._ArgumentGroup, what: str, *, first: str = "--connection") -> None:
    """Declare the option, under both of its names; ``first`` is the one that help and messages put first."""
    second = "--follow" if first == "--connection" else "--connection"
    group.add_argument(
        first,
        second,
        dest="connection",
        metavar="C",
        help=f"{what}: its number or id, as uprscope connections lists them, or its name or a part of that",
    )


def needs_names(args: argparse.Namespace) -> bool:
    """Tell whether the inputs have to be read once more, to find the connection by its name."""
    from dissector.frames.connection_numbers import is_name  # noqa: PLC0415 - brings numpy and pyarrow along

    return is_name(args.connection)


def chosen_connection(args: argparse.Namespace, inputs: Sequence[Input], options: ReadOptions) -> str | None:
    """Return the connection that was asked for as its number or id; a name is looked up in the inputs."""
    text: str | None = args.connection
    if text is None or not needs_names(args):
        return text
    from dissector.summary.connection_choice import id_of  # noqa: PLC0415 - names only
    from dissector.terminal.progress import progress  # noqa: PLC0415

    return id_of(text, inputs, options, partial(progress, wanted=True))


class NameOnPipe:
    """A connection that is asked for by its name where the input can be read only once: followed from its open on.

    The first one whose name fits is taken; that others fit as well is said at the end.
    """

    def __init__(self, text: str) -> None:
        from dissector.summary.connection_choice import NamedConnections  # noqa: PLC0415 - as above
        from dissector.summary.connections import NAME_COLUMNS  # noqa: PLC0415

        self.columns = NAME_COLUMNS  #: that names are read from
        self._text = text
        self._found: str | None = None
        self._named: NamedConnections = NamedConnections(text)

    def end(self, connection: Connection) -> None:
        """Note that a connection has ended."""
        self._named.end(connection)

    def found_by(self, batch: pa.RecordBatch, selector: FrameSelector) -> bool:
        """Tell whether the connection came up, in this batch or before; let the selector follow it."""
        new = self.found_in(batch)
        if new is not None:
            selector.follow(new)
        if self._found is None:
            selector.pass_over(batch)
        return self._found is not None

    def found_in(self, batch: pa.RecordBatch) -> str | None:
        """Return the id of the connection if it comes up in this batch."""
        self._named.fold(batch)
        if self._found is not None or not (meant := self._named.meant()):
            return None
        self._found = meant[0]
        return self._found

    def finish(self) -> None:
        """Raise UsageError if no connection has the name, and say if several have it."""
        if self._found is None:
            self._named.only()
        others = len(self._named.meant()) - 1
        if others > 0:
            line = (
                f"{safe_text(self._text)!r} is in the names of {others:,} more connection{'s' if others > 1 else ''}: "
                "only the first one was followed"
            )
            sys.stderr.write(f"{Terminal.of(sys.stderr).warning('uprscope:')} {one_line(line)}\n")
