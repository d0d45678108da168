"""What a table of the context is declared as: its columns, what each means and from whose point of view.

A declaration also says what a column's numbers are called, so that pages print ``unknown = gap`` and not a number.
The tables themselves are declared in the modules beside this one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from enum import IntEnum

    from dissector.spec.model import Enumeration, Flags


class View(StrEnum):
    """From whose point of view a column tells something."""

    CAPTURE = "capture"  #: as the capture has it, in its order
    PRODUCER = "producer"  #: as the producer knew it when it sent the message
    CONSUMER = "consumer"  #: as the consumer knew it when it sent the message
    EITHER = "either"  #: as the message or the agreement says, which is the same for both sides


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the numbers of a column are called."""

    values: Mapping[int, str] = field(default_factory=dict)
    flags: Mapping[int, str] = field(default_factory=dict)
    unit: Callable[[int], str] | None = None  #: how a quantity is written

    def value(self, number: int) -> str | None:
        """Return the name of a number, if it has one."""
        return self.values.get(number) or self.measure(number)

    def measure(self, number: int) -> str | None:
        """Return a quantity in its unit; 0 and null need none."""
        return self.unit(number) if self.unit is not None and number > 0 else None

    def bits(self, number: int) -> tuple[str, ...]:
        """Return the names of the bits of a number, lowest first; none if one of them has no name."""
        names = tuple(name for bit, name in sorted(self.flags.items()) if number & bit)
        return names if sum(bit for bit in self.flags if number & bit) == number else ()


PLAIN = Vocabulary()


def members(enumeration: type[IntEnum]) -> Vocabulary:
    """Return the names of an enumeration of the context."""
    return Vocabulary(values={int(member): member.name.lower() for member in enumeration})


def named(enumeration: Enumeration) -> Vocabulary:
    """Return the names of an enumeration of the protocol."""
    return Vocabulary(values={member.value: member.name for member in enumeration.members})


def flags(bits: Flags) -> Vocabulary:
    """Return the names of the protocol's bits."""
    return Vocabulary(flags={member.value: member.name for member in bits.members})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers, one for each row."""

    name: str
    doc: str
    view: View = View.CAPTURE
    words: Vocabulary = PLAIN
    truth: bool = False  #: yes or no

    @property
    def type(self) -> str:
        """Return what its numbers are, for people."""
        if self.truth:
            return "yes or no"
        if self.words.values and self.words.unit is None:
            return "name"
        return "flags" if self.words.flags else "number"


@dataclass(frozen=True, slots=True)
class Reference:
    """A frame that a row refers to: evidence of findings."""

    name: str
    doc: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table: what a row of it is, and what is known of each."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    refs: tuple[Reference, ...] = ()
    base: TableSchema | None = None  #: the table that it is cut out of, whose columns it has

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the names of its columns."""
        return tuple(column.name for column in self.columns)

    @property
    def ref_names(self) -> tuple[str, ...]:
        """Return the names of its references."""
        return tuple(ref.name for ref in self.refs)


#: Where a row stands: every table has these.
PLACE = (
    Column("connection", "number of the connection, in the order they came up"),
    Column("vbucket", "vbucket; -1: none", View.EITHER),
    Column("stream_id", "stream id; 0: none", View.EITHER),
)
GUILTY = Reference("guilty", "the frame that a finding in this row is about")


def table(name: str, doc: str, columns: Sequence[Column], refs: Sequence[Reference] = ()) -> TableSchema:
    """Return a table with the columns and the reference that all tables have."""
    return TableSchema(name, doc, (*PLACE, *columns), (GUILTY, *refs))


def truth(name: str, doc: str, view: View = View.CAPTURE) -> Column:
    """Return a column that says yes or no."""
    return Column(name, doc, view, truth=True)
