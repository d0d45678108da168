"""The scapy layers, ``generate/scapy_layers.py``: a class for every header, body, record and frame info of the spec.

What does not depend on the protocol's numbers is in ``scapy_layers.template``, where ``@@name@@`` stands for what is
made here. This module knows the names of scapy's fields, but does not need scapy; no message has code of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.codegen.python_source import call, camel, docstring, hexadecimal, lines, remark, snake, tuple_of
from dissector.codegen.scapy_bodies import (
    PREFIX,
    WIDTHS,
    Layer,
    body_layer,
    constant,
    description,
    event_values,
    forms,
    number_field,
    record_layer,
)
from dissector.spec import dialects, enums, events, headers, registry, value_kinds
from dissector.spec.model import (
    Dialect,
    Enumeration,
    Field,
    Flags,
    FrameInfo,
    MessageType,
    SpecError,
    TableSpec,
    UInt,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_TEMPLATE = Path(__file__).with_suffix(".template")
#: Numbers of a header that its body implies.
_IMPLIED = frozenset(
    ("magic", "opcode", "subtype", "status", "framing_length", "key_length", "extras_length", "body_length")
)


def render() -> str:
    """Return the file."""
    infos = [_frame_info(info) for info in enums.FRAME_INFOS]
    made = [body_layer(*form) for form in forms()]
    records = [record_layer(spec) for spec in value_kinds.BODIES.values() if spec.record]
    named = [*(entry.name for entry in (*infos, *made, *records)), *PREFIX.values(), "UPRBody", "UPRMore"]
    if len(set(named)) != len(named):
        raise SpecError(f"two scapy layers of one name: {sorted(name for name in named if named.count(name) > 1)}")
    pushed = {known.opcode: known for known in registry.MESSAGES if known.server_push}
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, made_here in {
        "headers": remark("; ".join(f":class:`{PREFIX[known]}` is that of {known}" for known in _dialects()), ""),
        "header_size": str(registry.HEADER_SIZE),
        "max_body": str(registry.MAX_BODY),
        "ports": repr(registry.PORTS),
        "magics": lines(_magics(), 1),
        "enumerations": "\n\n".join(_enumeration(names) for names in _all_names()),
        "opcodes": lines(_opcodes(), 1),
        "push_opcodes": lines((f'{hexadecimal(known.opcode)}: "{known.name}"', "") for known in pushed.values()),
        "search": lines((f'"{dialect}": {tuple_of(_search(dialect))}', "") for dialect in _dialects()),
        "siblings": lines((f'"{one}": "{other}"', "") for one, other in _siblings()),
        "event_fields": lines((f"{event}: {_sizes(fields)}", "") for event, fields in event_values().items()),
        "tables": lines(_tables()),
        "event_tables": lines(_event_tables()),
        "draft_form": next(f'"{form.name}"' for form in headers.HEADERS if form.draft),
        "header_forms": lines(
            (f'{hexadecimal(magic)}: "{form.name}"', "")
            for form in headers.HEADERS
            if not form.draft
            for magic in form.magics
        ),
        "frame_infos": _classes(infos),
        "dcp_doc": _doc(Dialect.DCP),
        "header_fields": _header_fields(Dialect.DCP),
        "header_classes": _classes([_header(dialect) for dialect in _dialects() if dialect is not Dialect.DCP]),
        "records": _classes(records),
        "bodies": _classes(made),
        "frame_info_list": lines((entry.name, "") for entry in infos),
        "frame_info_ids": lines(
            (f"({info.direction is MessageType.RESPONSE}, {info.id}): {entry.name}", "")
            for info, entry in zip(enums.FRAME_INFOS, infos, strict=True)
        ),
        "header_list": lines((PREFIX[dialect], "") for dialect in _dialects()),
        "body_list": lines((entry.name, "") for entry in made),
        "push_table": repr(str(next(iter(pushed.values())).dialect)).replace("'", '"'),
        "stream_id_tag": f'b"\\x{headers.STREAM_ID_TAG:02x}"',
        "stream_id_size": str(headers.STREAM_ID_SIZE),
    }.items():
        text = text.replace(f"@@{name}@@", made_here)
    return _with_imports(text)


def _dialects() -> list[Dialect]:
    return sorted(Dialect, key=lambda dialect: dialects.DIALECT_ORDER[dialect])


# What the spec holds ------------------------------------------------------------------------------------------------


def _all_names() -> list[Enumeration | Flags]:
    """List the enumerations and flags that some field of the file has."""
    fields: list[Field] = [field for form in headers.HEADERS for field in form.fields]
    fields += [field for *_, layout in forms() for field in (*layout.extras, *layout.value)]
    fields += [field for info in enums.FRAME_INFOS for field in info.fields]
    fields += [field for spec in value_kinds.BODIES.values() for field in spec.record]
    found = {constant(field.names): field.names for field in fields if field.names is not None}
    return [found[name] for name in sorted(found)]


def _search(dialect: Dialect) -> list[Dialect]:
    """List where an opcode is looked up: in the dialect itself, and where the registry finds other opcodes."""
    found = {known.dialect for opcode in range(256) if (known := registry.message(dialect, opcode)) is not None}
    return [dialect, *(other for other in _dialects() if other in found and other is not dialect)]


def _siblings() -> Iterable[tuple[Dialect, Dialect]]:
    """Yield the dialects that read each other's layouts, as :func:`registry.sibling_layouts` does."""
    requests = {(known.dialect, known.opcode): known.request for known in registry.MESSAGES if not known.server_push}
    for one in _dialects():
        crossed = {
            known.opcode: layouts
            for known in registry.MESSAGES
            if known.dialect is one and (layouts := registry.sibling_layouts(known, None))
        }
        for other in _dialects():
            twins = {opcode: requests.get((other, opcode)) for opcode in crossed}
            if (
                crossed
                and other is not one
                and crossed == {opcode: twin.layouts for opcode, twin in twins.items() if twin is not None}
            ):
                yield one, other


def _opcode_names(dialect: Dialect) -> dict[int, str]:
    """Name a dialect's opcodes; one that has several messages (draft) goes by the name of them all."""
    found: dict[int, str] = {}
    for known in registry.MESSAGES:
        if known.dialect is dialect and not known.server_push:
            found[known.opcode] = snake(known.constant) if known.subtypes else known.name
    return dict(sorted(found.items()))


# Text ---------------------------------------------------------------------------------------------------------------


def _classes(made: list[Layer]) -> str:
    return "\n\n\n".join(entry.text for entry in made)


def _with_imports(text: str) -> str:
    """Import the fields that the text uses, and no others."""
    block = re.search(r"    from scapy\.fields import \((.*?)\n    \)\n", text, re.DOTALL)
    if block is None:
        raise ValueError("the template imports no fields")
    rest = text[: block.start()] + text[block.end() :]
    used = set(re.findall(r"\b(?:[A-Z]\w*Field|Field)\b", rest)) - {"AnyField"}
    lines = "".join(f"        {name},\n" for name in sorted(used))
    return f"{text[: block.start()]}    from scapy.fields import (\n{lines}    )\n{text[block.end() :]}"


# Tables -------------------------------------------------------------------------------------------------------------


def _magics() -> Iterable[tuple[str, str]]:
    for magic in enums.MAGICS:
        response = magic.direction is MessageType.RESPONSE
        facts = f'Magic("{magic.name}", {response}, {magic.flexible}, {magic.server_push})'
        yield f"{hexadecimal(magic.value)}: {facts}", magic.doc


def _enumeration(names: Enumeration | Flags) -> str:
    rows = lines((f'{hexadecimal(member.value)}: "{member.name}"', member.doc) for member in names.members)
    return f"{remark(names.doc, '#: ')}\n{constant(names)}: dict[int, str] = {{\n{rows}\n}}"


def _tables() -> Iterable[tuple[str, str]]:
    yield '"": {}', "what other values have"
    for known in events.TABLES.values():
        sizes = [(slot, slot.size if isinstance(slot, Field) else 0) for slot in known.slots]
        rows = lines((f'"{slot.name}": {size}', slot.doc) for slot, size in sizes)
        yield f'"{known.name}": {{\n{rows}\n}}', ""


def _event_tables() -> Iterable[tuple[str, str]]:
    for event in registry.EVENT_BY_ID.values():
        for version, form in event.versions:
            if isinstance(form, TableSpec):
                yield f'({event.id}, {version}): "{form.name}"', event.name


def _sizes(fields: tuple[Field, ...]) -> str:
    entries = ", ".join(f'"{field.name}": {field.size}' for field in fields)
    return f"{{{entries}}}"


def _opcodes() -> Iterable[tuple[str, str]]:
    for dialect in _dialects():
        rows = lines((f'{hexadecimal(opcode)}: "{name}"', "") for opcode, name in _opcode_names(dialect).items())
        yield f'"{dialect}": {{\n{rows}\n}}', ""


# Headers ------------------------------------------------------------------------------------------------------------


def _header_fields(dialect: Dialect) -> str:
    """Write the fields of a dialect's header: all its forms in one list, with conditions where they differ."""
    variants = [form for form in headers.HEADERS if not form.draft or dialect is Dialect.DRAFT]
    places: dict[str, tuple[int, Field]] = {}
    for form in variants:
        for offset, field in form.places:
            known = places.get(field.name)
            places[field.name] = (max(offset, known[0]), known[1]) if known is not None else (offset, field)
    rows = []
    for name, (_, field) in sorted(places.items(), key=lambda place: place[1][0]):
        having = [form for form in variants if any(other.name == name for other in form.fields)]
        kinds = {other.kind for form in having for other in form.fields if other.name == name}
        text = _header_field(dialect, field, kinds)
        if len(having) < len(variants):
            condition = call("_only_in", *(f'"{form.name}"' for form in having), depth=3)
            text = call("ConditionalField", text, condition)
        rows.append((text, field.doc))
    rows.append(('PacketListField("framing", [], next_cls_cb=_info_class, length_from=_framing_length)', "frame infos"))
    return lines(rows, 2)


def _header_field(dialect: Dialect, field: Field, kinds: set[UInt]) -> str:
    if field.name not in _IMPLIED:
        return number_field(field)
    formats = [WIDTHS[kind][1] for kind in sorted(kinds, reverse=True)]
    names = {
        "magic": "{value: magic.name for value, magic in MAGICS.items()}",
        "opcode": f'_names("{dialect}")',
    }.get(field.name) or (constant(field.names) if field.names is not None else None)
    arguments = [f'"{field.name}"', f'"{formats[0]}"', *([names] if names else [])]
    if len(formats) > 1:
        arguments.append(f'flexible="{formats[1]}"')
    return call("_Opcode" if field.name == "opcode" else "_Computed", *arguments)


def _doc(dialect: Dialect) -> str:
    spec = next(spec for spec in dialects.DIALECTS if spec.dialect is dialect)
    return docstring(f"The header of a message on a connection of the dialect {dialect}: {spec.period}.", spec.doc)


def _header(dialect: Dialect) -> Layer:
    name = PREFIX[dialect]
    fields = _header_fields(dialect)
    own = f"    fields_desc: ClassVar[list[AnyField]] = [\n{fields}\n    ]\n"
    return Layer(
        name,
        f'class {name}(UPR):\n    """{_doc(dialect)}"""\n\n    dialect: ClassVar[str] = "{dialect}"\n{own}\n'
        "    @classmethod\n"
        '    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_fields: Any) -> type[Packet]:\n'
        '        """Leave what is no whole message to Raw; scapy asks the class itself, never its parents."""\n'
        "        return cls if not _pkt or _whole(_pkt) else Raw",
    )


def _frame_info(info: FrameInfo) -> Layer:
    name = f"UPR{camel(info.name)}Info"
    rows = [(f'_InfoId("id", {info.id})', ""), ('_InfoSize("size")', "bytes of data")]
    at = 0
    for field in info.fields:
        at += field.size
        if info.sizes is not None and at > min(info.sizes):
            condition = f'_if_given("{field.name}", {at})'
            rows.append((call("ConditionalField", number_field(field, None), condition), field.doc))
        else:
            rows.append((number_field(field), field.doc))
    rows.append(('StrField("data", b"")', "what is left"))
    doc = docstring(f"Frame info {info.id} of a {info.direction.value}: {info.doc}")
    sizes = "" if info.sizes is None else f"    sizes: ClassVar[tuple[int, ...] | None] = {tuple_of(info.sizes)}\n"
    return Layer(name, f'class {name}(UPRFrameInfo):\n    """{doc}"""\n\n{sizes}{description(rows)}')
