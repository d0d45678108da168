"""Sources of frames that can be read more than once: captures, or rows that ``uprscope dissect`` has written.

Both give the same batches. Knows files; must not know plots.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.frames.sources import are_rows, open_frames
from dissector.options import ReadOptions

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Sequence

    from dissector.capture import Input
    from dissector.frames.sources import BatchReader
    from dissector.tcp.connections import Connection


@dataclass(frozen=True, slots=True)
class FrameSource:
    """Captures, or files of rows."""

    inputs: Sequence[Input]
    options: ReadOptions = field(default_factory=ReadOptions)
    label: str = ""  #: what the files are together, if they have a name

    @property
    def names(self) -> list[str]:
        """Return the names of the files."""
        return [each.name for each in self.inputs]

    @property
    def has_packets(self) -> bool:
        """Tell whether these are captures."""
        return not are_rows(self.inputs)

    def open(
        self, columns: frozenset[str] | None = None, ended: Callable[[Connection], None] | None = None
    ) -> BatchReader:
        """Return a reader of these columns (None: all). Only captures call ``ended`` when a connection ends."""
        return open_frames(self.inputs, dataclasses.replace(self.options, columns=columns), ended=ended)


def source_of(names: Sequence[str], options: ReadOptions, stack: contextlib.ExitStack, *, twice: bool) -> FrameSource:
    """Find the files that names stand for; a pipe that will be read ``twice`` is copied to a file."""
    from dissector.capture import expand  # noqa: PLC0415 - brings numpy along

    inputs = expand(names, rows=True)
    if twice and any(each.once for each in inputs):
        from dissector.capture.input import spooled  # noqa: PLC0415 - pipes only

        inputs = [stack.enter_context(spooled(each)) if each.once else each for each in inputs]
    return FrameSource(inputs, options)
