"""What sentences call messages, fields and numbers of the protocol, and what they say that messages should be like.

All of it comes from the spec. Words are by the numbers that columns hold: see :mod:`analysis.context.defects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from analysis.context.defects import form_number
from analysis.context.odd_fields import FLAG_FIELDS, NUMBER_FIELDS
from dissector.spec import enums, registry, value_kinds
from dissector.spec.model import Body, Dialect, Enumeration, Flags, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from analysis.context.odd_fields import NamedField
    from dissector.spec.model import Shape

_CODES = range(256)
_FEW = 5  #: so many names are all listed
_EVENT_SIZES = sorted(
    {size_of(form) for event in registry.EVENT_BY_ID.values() for _, form in event.versions if isinstance(form, tuple)}
)
_FIELD_WORDS = {
    "end_reason": ("end reason", "reasons"),
    "vbucket_state": ("vbucket state", "states"),
    "oso_flags": ("bracket", "brackets"),
    "event": ("system event", "events"),
    "durability_level": ("durability level", "levels"),
    "deleted": ("deleted", "values"),
    "open_flags": ("open flags", ""),
    "stream_flags": ("stream flags", ""),
    "snapshot_type": ("marker flags", ""),
}


def with_article(words: str) -> str:
    """Return words with their indefinite article."""
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"


def one_of(words: Iterable[object], last: str = "or") -> str:
    """Return a list as people say it: 1, 2 or 20."""
    *first, end = map(str, words)
    return f"{', '.join(first)} {last} {end}" if first else end


def _by_form(words: Callable[[Shape], str]) -> dict[int, str]:
    """Return words by form, for requests and answers of all messages; of the draft's, opcodes alone tell too little."""
    found = {}
    for dialect in (Dialect.UPR, Dialect.DCP):
        for opcode in _CODES:
            spec = registry.message(dialect, opcode)
            if spec is None:
                continue
            for response, shape in ((False, spec.request), (True, spec.response(enums.SUCCESS))):
                if shape is not None:
                    found[form_number(dialect, opcode, response=response)] = words(shape)
    return found


def _names() -> dict[int, str]:
    found = {}
    for dialect in (Dialect.DRAFT, Dialect.UPR, Dialect.DCP):
        for opcode in _CODES:
            spec = registry.message(dialect, opcode) if dialect is not Dialect.DRAFT else None
            name = (
                with_article(spec.name.replace("_", " ")) if spec is not None else f"a message of opcode {opcode:#04x}"
            )
            found[form_number(dialect, opcode, response=False)] = name
            found[form_number(dialect, opcode, response=True)] = f"an answer to {name}"
    return found


def _extras(shape: Shape) -> str:
    return (
        one_of(sorted({layout.extras_size for layout in shape.layouts if layout.note is None})) if shape.layouts else ""
    )


def _values(shape: Shape) -> str:
    if shape.body is Body.SYSTEM_EVENT:
        return f"{one_of(_EVENT_SIZES)}, by event and version"
    sizes = sorted({layout.value_size for layout in shape.layouts if layout.value_size})
    return one_of(sizes) if sizes else "none"


def _entries(shape: Shape) -> str:
    record = value_kinds.RECORDS.get(shape.body)
    return f"entries of {size_of(record)} bytes" if record else "records"


def _datatypes(shape: Shape) -> str:
    allowed = shape.datatypes
    return one_of(DATATYPES[value] for value in allowed) if allowed is not None else "those up to 0x07"


def _datatype(value: int) -> str:
    names = enums.DATATYPES.names(value)
    return f"{value:#04x} ({', '.join(names)})" if names and not enums.DATATYPES.unknown(value) else f"{value:#04x}"


def _bits(flags: Flags, value: int) -> str:
    names = ", ".join((*flags.names(value), *(("unnamed bits",) if flags.unknown(value) else ())))
    return f"{value:#04x} ({names})" if names else f"{value:#04x}"


class FlagWords(Mapping[int, str]):
    """What flags are called, by number: the number, and the names of its bits."""

    def __init__(self, flags: Flags) -> None:
        self._flags = flags

    def __getitem__(self, value: int) -> str:
        return _bits(self._flags, value) if value >= 0 else "that were not captured"

    def __iter__(self) -> Iterator[int]:
        return iter(_CODES)

    def __len__(self) -> int:
        return len(_CODES)


#: Of a seqno that there is none of.
NO_SEQNO: Mapping[int, str] = {-1: "none"}
#: Statuses, end reasons, and flags of markers and stream requests by number.
STATUSES: Mapping[int, str] = {each.value: f"{each.name} ({each.value:#04x})" for each in enums.STATUSES.members}
END_REASONS: Mapping[int, str] = {
    -1: "(not captured)",
    **{each.value: f"{each.name} ({each.value})" for each in enums.END_REASONS.members},
}
#: Vbucket states: senders up to 4.1.0 and all 3.x swap replica and pending.
VBUCKET_STATES: Mapping[int, str] = {
    -1: "none",
    **{each.value: f"{each.name} ({each.value})" for each in enums.VBUCKET_STATES.members},
    **{
        early.value: f"{early.value} ({early.name} up to 4.1.0, {late.name} since 4.1.1)"
        for early, late in zip(enums.UPR_VBUCKET_STATES.members, enums.VBUCKET_STATES.members, strict=True)
        if early.name != late.name
    },
}
MARKER_FLAGS: Mapping[int, str] = FlagWords(enums.MARKER_FLAGS)
STREAM_FLAGS: Mapping[int, str] = FlagWords(enums.STREAM_FLAGS)
#: Datatypes, magics and opcodes by number.
DATATYPES: Mapping[int, str] = {value: _datatype(value) for value in _CODES}
MAGICS: Mapping[int, str] = {value: f"{value:#04x}" for value in _CODES}
OPCODES: Mapping[int, str] = MAGICS
#: By opcode, what messages of dcp are called.
MESSAGES: Mapping[int, str] = {
    **{opcode: f"a message of opcode {opcode:#04x}" for opcode in _CODES},
    **{
        each.opcode: with_article(each.name.replace("_", " "))
        for each in registry.MESSAGES
        if each.dialect is Dialect.DCP
    },
}
#: By form, what a message is called: those of the draft, and those without a name, by their opcode.
FORMS: Mapping[int, str] = _names()
#: By form, which lengths of extras and of value it has, what its value divides into, and which datatypes it has.
EXTRAS: Mapping[int, str] = _by_form(_extras)
VALUES: Mapping[int, str] = _by_form(_values)
ENTRIES: Mapping[int, str] = _by_form(_entries)
ALLOWED_DATATYPES: Mapping[int, str] = _by_form(_datatypes)


def named_bits(flags: Enumeration | Flags) -> str:
    """Return all flags by bit and name."""
    listed = [f"{bit.value:#x} ({bit.name})" for bit in sorted(flags.members, key=lambda bit: bit.value)]
    return f"{'named bits are' if len(listed) > 1 else 'the only named bit is'} {one_of(listed, 'and')}"


def _numbers(names: Enumeration | Flags) -> str:
    values = sorted(member.value for member in names.members)
    if len(values) > _FEW and values == [*range(values[0], values[-1] + 1)]:
        return f"{values[0]} to {values[-1]}"
    known = {member.value: member.name for member in names.members}
    return one_of((f"{value} ({known[value]})" for value in values), "and")


def _number_field(field: NamedField) -> str:
    name, plural = _FIELD_WORDS[field.column]
    return f"{name} {{odd_number_value}}; {plural} are {_numbers(field.names)}"


def _flag_field(field: NamedField) -> str:
    return f"{_FIELD_WORDS[field.column][0]} {{odd_flags_value:#x}}; {named_bits(field.names)}"


#: The field that holds what it cannot, with what it holds and what it can.
NUMBER_FIELD_WORDS: Mapping[int, str] = {
    0: "a number that has no meaning",
    **{number: _number_field(field) for number, field in enumerate(NUMBER_FIELDS, 1)},
}
FLAG_FIELD_WORDS: Mapping[int, str] = {
    0: "flags that have no name",
    **{number: _flag_field(field) for number, field in enumerate(FLAG_FIELDS, 1)},
}
