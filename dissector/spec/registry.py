"""The protocol as a whole: every table, checked against each other, and the look-ups that decoders need."""

from __future__ import annotations

import itertools

from dissector.spec import dcp, draft, enums, fingerprints, headers, memcached, upr
from dissector.spec.controls import CONTROL_KEYS
from dissector.spec.defects import DEFECTS
from dissector.spec.dialects import DIALECT_ORDER
from dissector.spec.errata import ERRATA
from dissector.spec.events import SYSTEM_EVENTS
from dissector.spec.model import (
    Body,
    ControlKey,
    DefectSpec,
    Dialect,
    Erratum,
    FrameInfo,
    Layout,
    Magic,
    Message,
    MessageType,
    Shape,
    SpecError,
    SystemEvent,
    size_of,
)
from dissector.spec.sources import SOURCES
from dissector.spec.topics import TOPICS
from dissector.spec.value_kinds import BODIES

HEADER_SIZE = headers.HEADER_SIZE
MAX_BODY = fingerprints.MAX_BODY
DEFAULT_VBUCKETS = fingerprints.DEFAULT_VBUCKETS
#: A key's size in bytes, with its collection id.
MAX_KEY = 251
#: A collection id's size in bytes: unsigned LEB128, in its shortest form.
MAX_COLLECTION_ID = 5
#: 11210 is the data port, 11209 its internal sibling of old. 11207 is TLS and cannot be read.
PORTS = (11210, 11209)

MESSAGES: tuple[Message, ...] = (
    *draft.MESSAGES,
    draft.FAILOVER_LOG,
    *draft.PROTO_MESSAGES,
    *upr.MESSAGES,
    *dcp.MESSAGES,
    *memcached.MESSAGES,
)

#: Where to look an opcode up, in order: every connection may carry the host protocol's commands too.
_SEARCH: dict[Dialect, tuple[Dialect, ...]] = {
    Dialect.DRAFT: (Dialect.DRAFT, Dialect.MEMCACHED),
    Dialect.PROTO: (Dialect.PROTO, Dialect.MEMCACHED),
    Dialect.UPR: (Dialect.UPR, Dialect.DCP, Dialect.MEMCACHED),
    Dialect.DCP: (Dialect.DCP, Dialect.MEMCACHED),
    Dialect.MEMCACHED: (Dialect.MEMCACHED, Dialect.DCP),
}

MAGICS: dict[int, Magic] = {magic.value: magic for magic in enums.MAGICS}
DEFECT_BY_ID: dict[str, DefectSpec] = {defect.id: defect for defect in DEFECTS}
ERRATUM_BY_ID: dict[str, Erratum] = {erratum.id: erratum for erratum in ERRATA}
CONTROL_BY_NAME: dict[str, ControlKey] = {key.name: key for key in CONTROL_KEYS}
EVENT_BY_ID: dict[int, SystemEvent] = {event.id: event for event in SYSTEM_EVENTS}
FRAME_INFO_BY_ID: dict[tuple[MessageType, int], FrameInfo] = {
    (info.direction, info.id): info for info in enums.FRAME_INFOS
}

_plain: dict[tuple[Dialect, int], Message] = {}
_pushed: dict[int, Message] = {}
_drafted: dict[tuple[int, int], Message] = {}
for _message in MESSAGES:
    if _message.server_push:
        _pushed[_message.opcode] = _message
    elif _message.dialect is Dialect.DRAFT:
        if _message is not draft.FAILOVER_LOG:
            _drafted.update({(_message.opcode, subtype): _message for subtype in _message.subtypes})
    else:
        _plain[_message.dialect, _message.opcode] = _message

DRAFT_OPCODES = frozenset(opcode for opcode, _ in _drafted)
DRAFT_FAILOVER_LOG = draft.FAILOVER_LOG


def _open_flags() -> tuple[int, int]:
    """Return the size of the shipped open's extras, and where its flags are in them."""
    request = next(known.request for known in dcp.MESSAGES if known.name == "open")
    extras = request.layouts[0].extras if request is not None else ()
    before = tuple(itertools.takewhile(lambda field: field.name != "open_flags", extras))
    return size_of(extras), size_of(before)


OPEN_EXTRAS, OPEN_FLAGS_AT = _open_flags()


def message(dialect: Dialect, opcode: int, *, server_push: bool = False) -> Message | None:
    """Look an opcode up as a connection of this dialect means it; for the draft's own opcodes use :func:`drafted`."""
    if server_push:
        return _pushed.get(opcode)
    for table in _SEARCH[dialect]:
        found = _plain.get((table, opcode))
        if found is not None:
            return found
    return None


def drafted(opcode: int, subtype: int) -> Message | None:
    """Look a message of the draft up by opcode and subtype."""
    return _drafted.get((opcode, subtype))


def named(dialect: Dialect, name: str) -> Message:
    """Return the message of this name, as a connection of this dialect means it."""
    for table in _SEARCH[dialect]:
        for candidate in MESSAGES:
            if candidate.dialect is table and candidate.name == name:
                return candidate
    raise KeyError(f"{dialect} has no message {name!r}")


def drafted_log_request() -> Message:
    """Return the draft's failover log request, whose answer shares its number with another (E-13)."""
    return named(Dialect.DRAFT, "get_failover_log")


def sibling_layouts(known: Message, status: int | None) -> tuple[Layout, ...]:
    """Return the layouts that the *other* one of upr and dcp gives the same request, or answer of this status."""
    other = {Dialect.UPR: Dialect.DCP, Dialect.DCP: Dialect.UPR}.get(known.dialect)
    twin = _plain.get((other, known.opcode)) if other is not None else None
    if twin is None:
        return ()
    shape = twin.request if status is None else twin.response(status)
    return shape.layouts if shape is not None else ()


def status_name(status: int) -> str | None:
    """Return a status's name, or that of the family it belongs to."""
    known = enums.STATUSES.member(status)
    if known is not None:
        return known.name
    return next((family.name for family in enums.STATUS_RANGES if family.low <= status <= family.high), None)


def _validate() -> None:
    """Hold the tables against each other: what one names, another has."""
    names: set[tuple[Dialect, str]] = set()
    for known in MESSAGES:
        if (known.dialect, known.name) in names:
            raise SpecError(f"{known.dialect}: two messages {known.name}")
        names.add((known.dialect, known.name))
        if known.source not in SOURCES:
            raise SpecError(f"{known.dialect}/{known.name}: unknown source {known.source}")
        for erratum in known.errata:
            if erratum not in ERRATUM_BY_ID:
                raise SpecError(f"{known.dialect}/{known.name}: unknown erratum {erratum}")
        for status in known.errors:
            if status_name(status) is None:
                raise SpecError(f"{known.dialect}/{known.name}: unknown status {status:#x}")
        for shape in known.shapes():
            _validate_shape(known, shape)
    for defect in DEFECTS:
        if defect.erratum is not None and defect.erratum not in ERRATUM_BY_ID:
            raise SpecError(f"defect {defect.id}: unknown erratum {defect.erratum}")
    for topic in TOPICS:
        for erratum in topic.errata:
            if erratum not in ERRATUM_BY_ID:
                raise SpecError(f"{topic.name}: unknown erratum {erratum}")
    if set(BODIES) != set(Body) or set(DIALECT_ORDER) != set(Dialect):
        raise SpecError("a kind of value or a dialect is not described")
    for magic in MAGICS:
        if headers.header_form(magic) is None:
            raise SpecError(f"magic {magic:#x} has no header")
    for table in (DEFECTS, ERRATA, CONTROL_KEYS, SYSTEM_EVENTS, TOPICS, enums.MAGICS, enums.FRAME_INFOS):
        _validate_unique(table)


def _validate_shape(known: Message, shape: Shape) -> None:
    for layout in shape.layouts:
        if layout.note is not None and layout.note not in DEFECT_BY_ID:
            raise SpecError(f"{known.dialect}/{known.name}: unknown defect {layout.note}")
    if any(layout.value for layout in shape.layouts) and shape.value != "may":
        raise SpecError(f"{known.dialect}/{known.name}: layouts with a fixed value leave its presence to the layout")


def _validate_unique(table: tuple[object, ...]) -> None:
    keys = [getattr(row, "id", getattr(row, "name", None)) for row in table]
    directions = [getattr(row, "direction", None) for row in table]
    if len({*zip(keys, directions, strict=True)}) != len(table):
        raise SpecError(f"declared twice: {keys}")


_validate()
