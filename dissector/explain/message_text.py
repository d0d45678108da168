"""A message in words, tables and diagrams: who sends it, what it is made of, what may go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.explain import dialect_diff
from dissector.explain.as_data import subtypes_of
from dissector.explain.byte_diagram import draw, offsets
from dissector.explain.catalogue import number_label, opcode_label, table_category
from dissector.explain.dialect_diff import listed, sizes
from dissector.spec import registry
from dissector.spec.dialects import DIALECT_ORDER
from dissector.spec.model import Body, CasRule, Dialect, Enumeration, Field, Flags, KeyRole, Presence, size_of
from dissector.spec.sources import SOURCES
from dissector.spec.value_kinds import BODIES
from dissector.terminal.text_page import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dissector.spec.model import JsonKey, Layout, Message, Release, Shape, TableSpec
    from dissector.terminal.text_page import Page

_PRESENCE = {Presence.MUST: "must", Presence.MUST_NOT: "none", Presence.MAY: "may"}


def write_message(page: Page, message: Message, others: Sequence[Message] = ()) -> None:
    """Write a message in full, and what is different about it in the other dialects."""
    page.title(f"{opcode_label(message)} {message.name}", f"{message.constant}, dialect {message.dialect}")
    page.paragraph(message.doc)
    page.gap()
    page.facts(_facts(message, others))
    _write_parts(page, message)
    for label, shape in _shapes(message):
        _write_layouts(page, label, shape)
    _write_records(page, message)
    _write_json_keys(page, message)
    for table, fields in _tables(message):
        title = listed(fields, "and")
        write_names(page, table, title if title == table.name else f"{title}: {table.name}")
    _write_refusals(page, message)
    _write_differences(page, message, others)
    if message.errata:
        page.section("Errata", f"uprscope explain {message.errata[0]} tells more")
        rows = [(known, registry.ERRATUM_BY_ID[known].contradiction) for known in message.errata]
        page.table(rows, shorten=True)
    page.gap()
    page.table([("source", f"{message.source}: {SOURCES[message.source]}")], style=page.terminal.dim)


def span(since: Release | None, until: Release | None) -> str:
    """Write the releases that have something."""
    if since is None and until is None:
        return ""
    if until is None:
        return f"since {since}" if since is not None and since.major < 99 else str(since)
    return f"{since} to {until}" if since is not None else f"until {until}"


def _facts(message: Message, others: Sequence[Message]) -> list[tuple[str, str]]:
    also = [
        f"{other.dialect} {opcode_label(other)}" if opcode_label(other) != opcode_label(message) else str(other.dialect)
        for other in others
    ]
    magics = [
        f"0x{magic.value:02x}"
        for magic in registry.MAGICS.values()
        if magic.server_push is message.server_push
        and (magic.direction.value == "response") is (message.push is not None)
        and not (magic.flexible and message.dialect in {Dialect.DRAFT, Dialect.PROTO, Dialect.UPR})
    ]
    flow = "not counted" if message.flow is None else f"counted: {message.flow.doc}"
    reply = str(message.reply) + (": it is a push" if message.push is not None else "")
    subtypes = [f"{member.value}{TIE}{member.name}: {member.doc}" for member in subtypes_of(message)]
    return [
        ("sent by", f"{message.sender} → {message.receiver}"),
        ("answered", f"{reply}: {message.reply_doc}" if message.reply_doc else reply),
        ("subtype", "; ".join(subtypes)),
        ("magic", listed(magics)),
        ("releases", span(message.since, message.until)),
        ("also in", ", ".join(also)),
        ("seqno", f"{message.seqno} is its by_seqno" if message.seqno not in {None, "by_seqno"} else ""),
        ("flow control", flow if message.dialect in {Dialect.DCP, Dialect.UPR} else ""),
    ]


def _shapes(message: Message) -> Iterator[tuple[str, Shape]]:
    if message.request is not None:
        yield "request", message.request
    if message.push is not None:
        yield "push", message.push
    for status, shape in message.responses:
        yield f"0x{status:02x} {registry.status_name(status)}", shape


def described(message: Message) -> bool:
    """Tell whether anything is known of a message beyond its name."""
    return any(shape.layouts for shape in message.shapes())


def _write_parts(page: Page, message: Message) -> None:
    if not described(message):
        page.gap()
        page.paragraph("Known by name: its layout is not described, and nothing in it is checked.")
        return
    page.section("Parts")
    rows = []
    for label, shape in _shapes(message):
        cas = {CasRule.ANY: "any", CasRule.ZERO: "0", CasRule.NOT_ZERO: "not 0"}[shape.cas]
        datatypes = datatypes_cell(message, shape)
        rows.append((label, extras_cell(shape), key_cell(shape), value_cell(shape), cas, datatypes))
    page.table(rows, ("", "extras", "key", "value", "CAS", "datatype"))
    if message.responses:
        page.paragraph("An answer with any other status carries an error text or nothing.", "  ")
    if any(layout.extras for shape in message.shapes() for layout in shape.layouts):
        framing = ", or behind the framing extras" if message.dialect in {Dialect.DCP, Dialect.MEMCACHED} else ""
        page.paragraph(f"The extras start at byte {registry.HEADER_SIZE}{framing}.", "  ")


def datatypes_cell(message: Message, shape: Shape) -> str:
    """Say which datatypes a shape may have; the draft has its subtype there."""
    if message.dialect is Dialect.DRAFT:
        return "subtype"
    return "any" if shape.datatypes is None else listed(shape.datatypes)


def extras_cell(shape: Shape) -> str:
    """Say which extras a shape has."""
    if not shape.layouts:
        return "not described"
    found = [layout.extras_size for layout in shape.layouts]
    return sizes(found) if any(found) else "none"


def key_cell(shape: Shape) -> str:
    """Say which key a shape has."""
    word = _PRESENCE[shape.key]
    return word if shape.key is Presence.MUST_NOT or shape.key_role is KeyRole.NAME else f"{word}: {shape.key_role}"


def value_cell(shape: Shape) -> str:
    """Say which value a shape has."""
    fixed = [layout.value_size for layout in shape.layouts]
    if any(fixed):
        return sizes(fixed)
    word = _PRESENCE[shape.value]
    return word if shape.value is Presence.MUST_NOT or shape.body is Body.BYTES else f"{word}: {shape.body}"


def _write_layouts(page: Page, label: str, shape: Shape) -> None:
    several = len(shape.layouts) > 1
    drawn: list[tuple[str, str, Sequence[Field]]] = []
    for layout in shape.layouts:
        parts = [(part, fields) for part, fields in (("extras", layout.extras), ("value", layout.value)) if fields]
        if not parts:
            continue
        name = f', layout "{layout.name}"' if several and not layout.name.endswith(" bytes") else ""
        size = " and ".join(f"{sizes([size_of(fields)])} of {part}" for part, fields in parts)
        page.section(f"{label[0].upper()}{label[1:]}{name}: {size}", _about(layout))
        for part, fields in parts:
            # A lone version byte in front of a value needs no picture.
            if len(parts) == 1 or len(fields) > 1:
                if part == "value" and layout.extras:
                    page.gap()
                page.drawing(draw(fields, page.terminal.width))
            before = [(_shared(earlier, fields), name) for name, where, earlier in drawn if where == part]
            shared, known = max(before, key=lambda one: one[0], default=(0, ""))
            _write_fields(page, part, fields, known, shared)
            drawn.append((layout.name, part, fields))
        if layout.note is not None:
            page.paragraph(f"Accepted, not right: reported as {layout.note}.", "  ")


def _shared(one: Sequence[Field], other: Sequence[Field]) -> int:
    """Return how many fields two runs start with alike."""
    alike = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        alike += 1
    return alike


def _about(layout: Layout) -> str:
    version = f"version {layout.version}" if layout.version is not None else ""
    return ", ".join(part for part in (version, span(layout.since, layout.until), layout.doc) if part)


def _write_fields(page: Page, part: str, fields: tuple[Field, ...], known: str, shared: int) -> None:
    """Write fields with their offsets; a run that an earlier layout starts with too is not repeated."""
    rows = []
    if shared > 1:
        rows.append((f"0-{size_of(fields[:shared]) - 1}", "", "", f"as in layout {known}"))
    else:
        shared = 0
    rows += _field_rows(fields)[shared:]
    page.table(rows, (part, "size", "field", "meaning"), right=(0, 1), styled=2)


def _field_rows(fields: Sequence[Field]) -> list[tuple[str, str, str, str]]:
    return [
        (str(offset), str(field.size), field.name, field.doc + ("; raw bytes" if field.raw else ""))
        for offset, field in offsets(fields)
    ]


def write_field_table(page: Page, fields: Sequence[Field]) -> None:
    """Write fields with their offsets."""
    page.table(_field_rows(fields), ("offset", "size", "field", "meaning"), right=(0, 1), styled=2)


def table_rows(table: TableSpec) -> list[tuple[str, str, str, str]]:
    """Return the slots of a FlatBuffers table: number, size, name, meaning."""
    rows = []
    for number, slot in enumerate(table.slots):
        size = str(slot.size) if isinstance(slot, Field) else "text"
        flag = dict(table.depends).get(slot.name)
        rows.append((str(number), size, slot.name, f"{slot.doc}; only with {flag}" if flag else slot.doc))
    return rows


def _write_records(page: Page, message: Message) -> None:
    for body in dict.fromkeys(shape.body for shape in message.shapes()):
        note = BODIES[body]
        if note.record:
            page.section(f"Value, {body}: any number of records of {size_of(note.record)} bytes")
            page.paragraph(note.doc, "  ")
            page.drawing(draw(note.record, page.terminal.width))
            write_field_table(page, note.record)
        elif body is not Body.BYTES:
            page.section(f"Value, {body}")
            page.paragraph(note.doc, "  ")


def _write_json_keys(page: Page, message: Message) -> None:
    rows = []
    for shape in message.shapes():
        for key in shape.json_keys:
            rows.append((key.name, str(key.type), json_meaning(key)))
            rows += [(f"{key.name}.{one.name}", str(one.type), json_meaning(one)) for one in key.members]
    if rows:
        page.section("JSON keys", "all optional; servers ignore keys that they do not know")
        page.table(rows, ("key", "type", "meaning"))


def json_meaning(key: JsonKey) -> str:
    """Say what a JSON member means, how it is written and since when."""
    aside = ", ".join(part for part in (key.format, span(key.since, None)) if part)
    return f"{key.doc} ({aside})"


def _write_refusals(page: Page, message: Message) -> None:
    """Write how the receiver says no."""
    if not message.refusals:
        return
    page.section("Refusals")
    rows = [
        ("", "disconnect", refusal.doc)
        if refusal.status is None
        else (f"0x{refusal.status:02x}", str(registry.status_name(refusal.status)), refusal.doc)
        for refusal in message.refusals
    ]
    page.table(rows, right=(0,), styled=1)


def _tables(message: Message) -> list[tuple[Enumeration | Flags, list[str]]]:
    """Return the tables of names that a message's fields have, each with these fields."""
    found: dict[int, tuple[Enumeration | Flags, list[str]]] = {}
    for shape in message.shapes():
        every = [field for layout in shape.layouts for field in (*layout.extras, *layout.value)]
        for field in (*every, *BODIES[shape.body].record):
            if field.names is not None and field.names.members:
                fields = found.setdefault(id(field.names), (field.names, []))[1]
                if field.name not in fields:
                    fields.append(field.name)
    return list(found.values())


def write_names(page: Page, table: Enumeration | Flags, title: str) -> None:
    """Write the members of a table."""
    page.section(title)
    if table.doc:
        page.paragraph(table.doc, "  ")
    category = table_category(table)
    rows = []
    for member in table.members:
        releases = span(member.since, member.until)
        about = f"{member.doc} ({releases})" if member.doc and releases else member.doc or releases
        rows.append((number_label(category, member.value), member.name, about))
    page.table(rows, right=(0,), styled=1)


def _write_differences(page: Page, message: Message, others: Sequence[Message]) -> None:
    if not others:
        return
    page.section("Dialect differences", f"against {message.dialect} as above")
    for other in others:
        found = dialect_diff.differences(message, other)
        head = f"{other.dialect}: {opcode_label(other)} {other.constant}"
        page.drawing([f"  {page.terminal.name(head)}"])
        page.bullets(found or ["the same"], "    ")


def by_dialect(messages: Sequence[Message]) -> str:
    """Write a list of messages, each dialect named once."""
    found: dict[Dialect, list[str]] = {}
    for message in sorted(messages, key=lambda known: DIALECT_ORDER[known.dialect]):
        found.setdefault(message.dialect, []).append(message.name)
    return "; ".join(f"{dialect}{TIE}{', '.join(names)}" for dialect, names in found.items())


def write_pointer(page: Page, message: Message) -> None:
    """Say where the same message stands in likelier dialects, when only its number was asked for."""
    others = [known for known in registry.MESSAGES if known.name == message.name and known is not message]
    if others:
        places = listed([f"{other.dialect} {opcode_label(other)}" for other in others], "and")
        page.gap()
        page.paragraph(f"The same message is {places}: uprscope explain {message.name}", "  ")
