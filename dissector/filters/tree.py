"""A filter as a tree, and the one way to write each tree down.

The tree is typed already: names of constants are numbers, strings are text or bytes as their field is. ``str`` of a
tree parses back to the same tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

SECOND_NS = 1_000_000_000
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\", '"': r"\""}


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A column, or a name for several."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number:
    """An unsigned number."""

    value: int
    name: str | None = None  #: what the protocol calls it, where the filter did

    def __str__(self) -> str:
        return self.name if self.name is not None else str(self.value)


@dataclass(frozen=True, slots=True)
class Text:
    """Text; addresses as the rows write them."""

    value: str

    def __str__(self) -> str:
        return quoted(self.value)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes."""

    value: bytes

    def __str__(self) -> str:
        try:
            return quoted(self.value.decode())
        except UnicodeDecodeError:
            return f"hex:{self.value.hex()}"


@dataclass(frozen=True, slots=True)
class Time:
    """A point in time."""

    ns: int  #: nanoseconds since the epoch

    def __str__(self) -> str:
        seconds, fraction = divmod(self.ns, SECOND_NS)
        day = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f'"{day}{f".{fraction:09d}".rstrip("0") if fraction else ""}Z"'


@dataclass(frozen=True, slots=True)
class Seconds:
    """A number of seconds."""

    ns: int  #: the same in nanoseconds

    def __str__(self) -> str:
        seconds, fraction = divmod(self.ns, SECOND_NS)
        return f"{seconds}{f'.{fraction:09d}'.rstrip('0') if fraction else ''}"


@dataclass(frozen=True, slots=True)
class Boolean:
    """Yes or no."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


Literal: TypeAlias = Number | Text | Bytes | Time | Seconds | Boolean
Operand: TypeAlias = FieldRef | Literal


@dataclass(frozen=True, slots=True)
class Range:
    """From low to high, both included."""

    low: Literal
    high: Literal

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class Compare:
    """Two operands and an operator between them; or three and two, as in ``1 <= vbucket < 10``."""

    operands: tuple[Operand, ...]
    operators: tuple[str, ...]

    def __str__(self) -> str:
        rest = zip(self.operators, self.operands[1:], strict=True)
        return str(self.operands[0]) + "".join(f" {operator} {operand}" for operator, operand in rest)


@dataclass(frozen=True, slots=True)
class InList:
    """Is the field one of these?"""

    field: FieldRef
    items: tuple[Literal | Range, ...]

    def __str__(self) -> str:
        return f"{self.field} in {{{', '.join(map(str, self.items))}}}"


@dataclass(frozen=True, slots=True)
class PartOf:
    """Does the field contain, start or end with this? Of a list: is this one of its entries?"""

    field: FieldRef
    operator: str
    literal: Literal

    def __str__(self) -> str:
        return f"{self.field} {self.operator} {self.literal}"


@dataclass(frozen=True, slots=True)
class Matches:
    """Does a regular expression match anywhere in the field?"""

    field: FieldRef
    pattern: str  #: as written between the quotes: a quoted quote keeps its backslash, which means nothing to RE2

    def __str__(self) -> str:
        quote = "'" if _bare(self.pattern, '"') else '"'
        return f"{self.field} matches {quote}{self.pattern}{quote}"


@dataclass(frozen=True, slots=True)
class Bits:
    """``has``: are all of these bits set? ``&``: is any of them?"""

    field: FieldRef
    operator: str
    bits: tuple[Number, ...]

    @property
    def mask(self) -> int:
        """Return all bits in one number."""
        mask = 0
        for bit in self.bits:
            mask |= bit.value
        return mask

    def __str__(self) -> str:
        return f"{self.field} {self.operator} {'|'.join(map(str, self.bits))}"


@dataclass(frozen=True, slots=True)
class Present:
    """Does the frame have this field at all? Of a list: is there anything in it?"""

    field: FieldRef

    def __str__(self) -> str:
        return f"exists {self.field}"


@dataclass(frozen=True, slots=True)
class Truth:
    """Is the boolean field true?"""

    field: FieldRef

    def __str__(self) -> str:
        return str(self.field)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    part: Expression

    def __str__(self) -> str:
        return f"not ({self.part})" if isinstance(self.part, And | Or) else f"not {self.part}"


@dataclass(frozen=True, slots=True)
class And:
    """All of them; none of them is an And itself."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Any of them; none of them is an Or itself."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


Test: TypeAlias = Compare | InList | PartOf | Matches | Bits | Present | Truth
Expression: TypeAlias = Test | Not | And | Or


def fields_of(expression: Expression) -> tuple[FieldRef, ...]:
    """Return the fields that an expression asks about, each once, in order."""
    match expression:
        case And() | Or():
            found = [field for part in expression.parts for field in fields_of(part)]
        case Not():
            found = list(fields_of(expression.part))
        case Compare():
            found = [operand for operand in expression.operands if isinstance(operand, FieldRef)]
        case _:
            found = [expression.field]
    return tuple(dict.fromkeys(found))


def quoted(text: str) -> str:
    """Write text as a string of the language."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    if 0x80 <= ord(char) <= 0xFFFF:
        return f"\\u{ord(char):04x}"
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def _bare(pattern: str, quote: str) -> bool:
    """Tell whether a quote stands in a pattern without a backslash."""
    position = 0
    while position < len(pattern):
        if pattern[position] == quote:
            return True
        position += 2 if pattern[position] == "\\" else 1
    return False
