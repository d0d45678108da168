"""What upr and dcp judge differently: by rule, the opcodes whose messages one of them forbids and the other allows.

Where the dialect is not settled, a message is judged only if both would say the same of it. Whether its extras have the
form of the other dialect is told elsewhere: these tables are about messages in a form that both have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.spec import enums, registry
from dissector.spec.model import CasRule, Dialect, Enumeration, Flags, Presence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dissector.spec.model import Field, Shape

_THERE = {Presence.MUST: (True,), Presence.MUST_NOT: (False,), Presence.MAY: (True, False)}
_CAS = {CasRule.ZERO: (True,), CasRule.NOT_ZERO: (False,), CasRule.ANY: (True, False)}
_OTHER = {Dialect.UPR: Dialect.DCP, Dialect.DCP: Dialect.UPR}


def _values(shape: Shape) -> set[object]:
    """Return which values go with which extras."""
    if any(layout.value for layout in shape.layouts):
        return {(layout.extras_size, layout.value_size) for layout in shape.layouts}
    return {(layout.extras_size, there) for layout in shape.layouts for there in _THERE[shape.value]}


def _fields(shape: Shape) -> Iterator[tuple[int, int, Field]]:
    """Yield fields, each with the size of its extras and its place."""
    for layout in shape.layouts:
        place = 0
        for field in (*layout.extras, *layout.value):
            yield layout.extras_size, place, field
            place += field.size


def _flags(shape: Shape) -> set[object]:
    """Return the flags that have a name, and the places of what is not reserved."""
    found: set[object] = set()
    for size, place, field in _fields(shape):
        if isinstance(field.names, Flags) and not field.names.lenient:
            found |= {(field.name, bit.value) for bit in field.names.members}
        elif not field.reserved:
            found.add((size, place))
    return found


def _numbers(shape: Shape) -> set[object]:
    found: set[object] = set()
    for _, _, field in _fields(shape):
        if isinstance(field.names, Enumeration):
            found |= {(field.name, member.value) for member in field.names.members}
    return found


#: By rule, what a message may be like.
_ALLOWED: dict[str, Callable[[Shape], set[object]]] = {
    "FRM-04": lambda shape: {*_THERE[shape.key]},
    "FRM-05": _values,
    "FRM-06": lambda shape: {*(range(8) if shape.datatypes is None else shape.datatypes)},
    "FRM-07": lambda shape: {*_CAS[shape.cas]},
    "FRM-08": _flags,
    "FRM-13": _numbers,
}


def differing_opcodes(rule: str, dialect: Dialect) -> tuple[int, ...]:
    """Return the opcodes of messages that the other dialect may allow although this one does not."""
    found = list[int]()
    for opcode in range(256) if rule in _ALLOWED else ():
        own, other = (registry.message(each, opcode) for each in (dialect, _OTHER[dialect]))
        if own is other or own is None or other is None:
            continue
        pairs = ((own.request, other.request), (own.response(enums.SUCCESS), other.response(enums.SUCCESS)))
        if any(one is not None and another is not None and _allows_more(rule, one, another) for one, another in pairs):
            found.append(opcode)
    return tuple(found)


def _allows_more(rule: str, own: Shape, other: Shape) -> bool:
    more = _ALLOWED[rule](other) - _ALLOWED[rule](own)
    if rule == "FRM-05":
        sizes = {layout.extras_size for layout in own.layouts}
        more = {each for each in more if isinstance(each, tuple) and each[0] in sizes}
    if rule == "FRM-08":
        reserved = {(size, place) for size, place, field in _fields(own) if field.reserved}
        flagged = any(isinstance(field.names, Flags) and not field.names.lenient for _, _, field in _fields(own))
        more = {each for each in more if each in reserved or (flagged and _is_flag(each))}
    return bool(more)


def _is_flag(allowed: object) -> bool:
    return isinstance(allowed, tuple) and isinstance(allowed[0], str)
