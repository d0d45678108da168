"""The columns in front of what a message says: which of them there are, and how wide, in the room that there is.

Where room is short, columns become narrower first; then go, one by one, those that are needed least. Knows columns,
and no message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from dissector.display.times import RELATIVE

if TYPE_CHECKING:
    from dissector.display.times import TimeFormat

SAYS = "what it says"


class Overflow(Enum):
    """What becomes of a line that is longer than the room it has."""

    WHOLE = "stays as it is"
    CHOP = "is chopped"
    WRAP = "goes on in the next line"


@dataclass(frozen=True, slots=True)
class ListForm:
    """How a list is to be written."""

    room: int | None = None  #: columns that a line should take at most; None: any number
    overflow: Overflow = Overflow.WHOLE
    time: TimeFormat = RELATIVE
    #: Of these columns those that may go, the one that is needed least first; at least one.
    droppable: tuple[str, ...] = ("time", "connection")

    def indented(self, columns: int) -> ListForm:
        """Return the form of a list behind a margin."""
        return self if self.room is None else replace(self, room=max(self.room - columns, 1))


@dataclass(frozen=True, slots=True)
class ListLayout:
    """Widths of columns; those that are left out have 0."""

    frame: int
    time: int
    connection: int
    message: int
    vbucket: int
    opaque: int
    brief: bool  #: names of fields are short as well

    @property
    def start(self) -> int:
        """Return the column in which what the message says begins."""
        columns = (self.frame, self.time, self.connection, 1, self.message, self.vbucket, self.opaque)
        return sum(width + 1 for width in columns if width) + 1

    def heading(self, time: TimeFormat) -> str:
        """Return the line above the others."""
        parts = [f"{'frame':>{self.frame}}"]
        if self.time:
            parts.append(f"{time.heading:>{self.time}}")
        if self.connection:
            parts.append(f"{'conn':>{self.connection}}")
        parts.append(f"  {'message':<{self.message}}")
        if self.vbucket:
            parts.append(f"{'vb' if self.vbucket < len('vbucket') else 'vbucket':>{self.vbucket}}")
        if self.opaque:
            parts.append(f"{'opaque':>{self.opaque}}")
        return f"{' '.join(parts)}  {SAYS}"


#: Room for set_vbucket_state reply.
_WIDE = ListLayout(frame=7, time=12, connection=5, message=23, vbucket=7, opaque=8, brief=False)
#: A longer name is that of a reply mostly, which has no vbucket and may take its place.
_NARROW = ListLayout(frame=6, time=11, connection=4, message=18, vbucket=4, opaque=8, brief=True)
#: Columns for what the message says, below which an earlier column goes: with all of them, without the opaque, without
#: one more, without two.
_ALL, _NO_OPAQUE, _ONE_LESS, _TWO_LESS = 40, 22, 18, 10


def fitting(form: ListForm) -> ListLayout:
    """Return the columns that fit."""
    wide, narrow = (_timed(layout, form.time) for layout in (_WIDE, _NARROW))
    if form.room is None:
        return wide
    bare = replace(narrow, opaque=0)
    less = _without(bare, form.droppable[0])
    least = _without(less, form.droppable[-1])
    wishes = ((wide, _ALL), (narrow, _ALL), (bare, _NO_OPAQUE), (less, _ONE_LESS), (least, _TWO_LESS))
    for layout, left in wishes:
        if form.room - layout.start >= left:
            return layout
    return replace(least, vbucket=0)


def _without(layout: ListLayout, column: str) -> ListLayout:
    return replace(layout, time=0) if column == "time" else replace(layout, connection=0)


def _timed(layout: ListLayout, time: TimeFormat) -> ListLayout:
    return layout if time is RELATIVE else replace(layout, time=time.width)
