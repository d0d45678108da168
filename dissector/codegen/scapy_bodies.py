"""The classes of scapy's layers for bodies and records: a class for each message, answer, layout and kind of record.

It knows how a layout becomes a list of scapy's fields; headers, tables and the file as a whole are
:mod:`dissector.codegen.scapy_layers`'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dissector.codegen.python_source import call, camel, docstring, hexadecimal, lines, snake, tuple_of
from dissector.spec import dialects, enums, registry, value_kinds
from dissector.spec.model import (
    Body,
    Dialect,
    Enumeration,
    Field,
    Flags,
    Layout,
    Message,
    Presence,
    Role,
    Shape,
    SpecError,
    UInt,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What the classes of a dialect start with; its header is called just that.
PREFIX = {
    Dialect.DCP: "UPR",
    Dialect.UPR: "UPREarly",
    Dialect.DRAFT: "UPRDraft",
    Dialect.PROTO: "UPRProto",
    Dialect.MEMCACHED: "Memcached",
}
WIDTHS = {
    UInt.U8: ("Byte", "B"),
    UInt.U16: ("Short", "H"),
    UInt.U32: ("Int", "I"),
    UInt.U64: ("Long", "Q"),
}


class Layer(NamedTuple):
    """A class of the file: its name and its text."""

    name: str
    text: str


def forms() -> Iterable[tuple[Message, bool, int, Shape, Layout]]:
    """Yield every message, direction, status, shape and layout that has a class; the first layout comes first."""
    for message in sorted(registry.MESSAGES, key=lambda known: dialects.DIALECT_ORDER[known.dialect]):
        shapes = [(False, 0, message.request), (True, 0, message.push)]
        shapes += [(True, status, shape) for status, shape in message.responses]
        for response, status, shape in shapes:
            for layout in shape.layouts if shape is not None else ():
                yield message, response, status, shape or Shape(), layout


def constant(names: Enumeration | Flags) -> str:
    """Return what the file calls an enumeration."""
    return f"{snake(names.name).upper()}_NAMES"


def number_field(field: Field, default: int | None = 0) -> str:
    """Write a number as a field of scapy's."""
    width, _ = WIDTHS[field.kind]
    if isinstance(field.names, Flags):
        return f'FlagsField("{field.name}", {default}, {8 * field.size}, {constant(field.names)})'
    if isinstance(field.names, Enumeration):
        return f'{width}EnumField("{field.name}", {default}, {constant(field.names)})'
    pattern = field.raw or field.role in (Role.IDENTIFIER, Role.OPAQUE)
    return f'{"X" if pattern else ""}{width}Field("{field.name}", {default})'


def description(rows: Iterable[tuple[str, str]]) -> str:
    """Write the list of a class's fields."""
    return f"    fields_desc: ClassVar[list[AnyField]] = [\n{lines(rows, 2)}\n    ]"


def _record_name(body: Body) -> str:
    return f"UPR{camel(body.value)}Entry"


def record_layer(spec: value_kinds.BodySpec) -> Layer:
    """Write the class of a kind of record; the sizes of its tail are computed unless given."""
    name = _record_name(spec.body)
    rows = []
    for field in spec.record:
        if field.name in spec.tail:
            what = field.name.removesuffix("_length")
            text = f'FieldLenField("{field.name}", None, length_of="{what}", fmt="{WIDTHS[field.kind][1]}")'
            rows.append((text, field.doc))
        else:
            rows.append((number_field(field), field.doc))
    for length in spec.tail:
        what = length.removesuffix("_length")
        rows.append((f'StrLenField("{what}", b"", length_from=lambda packet: packet.{length})', ""))
    doc = docstring(f"An entry of a value of the kind {spec.body.value}.", spec.doc)
    return Layer(name, f'class {name}(_Record):\n    """{doc}"""\n\n{description(rows)}')


def _body_name(message: Message, response: bool, status: int) -> str:
    suffix = ""
    if response and message.push is None:
        outcome = registry.status_name(status) or f"{status:04x}"
        suffix = "Response" if status == enums.SUCCESS else camel(outcome)
    return f"{PREFIX[message.dialect]}{camel(message.name)}{suffix}"


def body_layer(message: Message, response: bool, status: int, shape: Shape, layout: Layout) -> Layer:
    """Write the class of a layout; it derives from that of its message's first one."""
    base = _body_name(message, response, status)
    first = layout is shape.layouts[0]
    name = base if first else f"{base}{camel(layout.name)}"
    kind = f"answer with status {hexadecimal(status)}" if response else "request"
    if message.push is not None:
        kind = "push"
    size = "1 byte" if layout.extras_size == 1 else f"{layout.extras_size} bytes"
    form = f"{layout.name}, {size} of extras" if layout.extras_size else layout.name
    since = f", since {layout.since}" if layout.since is not None else ""
    until = f", until {layout.until}" if layout.until is not None else ""
    title = f"{message.name} ({message.constant}), {kind}: {form}"
    about = f"{layout.doc[:1].upper()}{layout.doc[1:]}." if layout.doc else ""
    whole = first and (message.push is not None or not response)
    doc = docstring(f"{title}{since}{until}.", f"{message.doc} {about}".strip() if whole else about)
    return Layer(
        name,
        f'class {name}({"UPRBody" if first else base}):\n    """{doc}"""\n\n'
        f"    form: ClassVar[Form | None] = {_form(message, response, status, shape, layout)}\n"
        f"{description(_body_fields(shape, layout))}",
    )


def _form(message: Message, response: bool, status: int, shape: Shape, layout: Layout) -> str:
    facts = {
        "response": response,
        "status": hexadecimal(status) if status else 0,
        "subtypes": tuple_of(message.subtypes) if message.subtypes else 0,
        "extras_size": layout.extras_size,
        "version": layout.version if layout.version is not None else False,
        "value_size": layout.value_size,
        "exact": layout.note is not None and bool(layout.value) and layout.version is None,
        "server_push": message.server_push,
        "uncounted": "E-41" in message.errata and not response,
    }
    shown = [f"{name}={fact}" for name, fact in facts.items() if fact or (name == "version" and fact is not False)]
    if shape.value is Presence.MUST_NOT:
        shown.append("takes_value=False")
    text = call("Form", f'"{message.dialect}"', hexadecimal(message.opcode), *shown, depth=11)
    return text.replace("\n", "\n    ")


def _body_fields(shape: Shape, layout: Layout) -> Iterable[tuple[str, str]]:
    for field in layout.extras:
        fixed = layout.version if field is layout.extras[-1] and layout.version is not None else 0
        yield number_field(field, fixed), field.doc
    yield 'StrLenField("key", b"", length_from=_key_length)', _presence(shape.key_role.value, shape.key)
    for field in layout.value:
        yield number_field(field), field.doc
    spec = value_kinds.BODIES[shape.body]
    if spec.record:
        listed = f'"{snake(shape.body.value)}", {_record_name(shape.body)}'
        tail = f", {tuple_of(spec.tail)}" if spec.tail else ""
        yield f"_Records({listed}, {size_of(spec.record)}{tail})", spec.doc
    if shape.body is Body.SYSTEM_EVENT:
        yield from _event_fields()
    described = bool(layout.value or spec.record or shape.body is Body.SYSTEM_EVENT)
    presence = "what is left of the value" if described else _presence(shape.body.value, shape.value)
    yield 'StrField("value", b"")', presence


def _presence(what: str, presence: Presence) -> str:
    return f"{presence} be there" if presence is Presence.MUST_NOT else f"{what}, {presence} be there"


def event_values() -> dict[tuple[int, int], tuple[Field, ...]]:
    """Return the fields of the values of system events, by event and version."""
    return {
        (event.id, version): declared
        for event in registry.EVENT_BY_ID.values()
        for version, declared in event.versions
        if isinstance(declared, tuple)
    }


def _event_fields() -> Iterable[tuple[str, str]]:
    """Write the fields of all system events in one order that suits each."""
    known: dict[str, Field] = {}
    for event, declared in sorted(event_values().items(), key=lambda entry: -len(entry[1])):
        known.update({field.name: field for field in declared if field.name not in known})
        if [field for field in known.values() if field in declared] != list(declared):
            raise SpecError(f"system event {event}: its fields stand in another order than those of others")
    for field in known.values():
        yield f"_EventField({number_field(field)})", field.doc
    yield '_TableField("event_table")', "numbers and texts of version 2, by name"
