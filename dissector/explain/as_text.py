"""Answers as text for a terminal: one function per sort of thing, and the overview of what can be asked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dissector.explain import as_data
from dissector.explain.byte_diagram import draw
from dissector.explain.catalogue import (
    WORDS,
    Category,
    FieldUse,
    JsonUse,
    Source,
    TableMember,
    Thing,
    number_label,
    things,
)
from dissector.explain.dialect_diff import listed, sizes
from dissector.explain.message_text import (
    by_dialect,
    json_meaning,
    span,
    table_rows,
    write_field_table,
    write_message,
    write_names,
    write_pointer,
)
from dissector.spec import enums, registry
from dissector.spec.dialects import DialectSpec
from dissector.spec.enums import StatusRange
from dissector.spec.headers import FRAME_INFO_PACKING, HeaderForm, header_form
from dissector.spec.model import (
    ControlKey,
    DefectSpec,
    Enumeration,
    Erratum,
    Flags,
    FrameInfo,
    Magic,
    Message,
    Presence,
    SystemEvent,
    TableSpec,
)
from dissector.spec.topics import Topic
from dissector.terminal.style import safe_text
from dissector.terminal.text_page import Page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dissector.explain.lookup import Answer, Result
    from dissector.terminal.style import Terminal

_EXAMPLES: dict[Category, str] = {
    Category.OPCODE: "0x57, mutation, DCP_MUTATION, 0x04/3",
    Category.MAGIC: "magic 0x80",
    Category.STATUS: "status 0x23, rollback, ENOMEM",
    Category.CONTROL: "connection_buffer_size",
    Category.FLAG: "takeover, include_xattrs",
    Category.REASON: "too_slow, reason 2",
    Category.STATE: "pending, state 3",
    Category.DATATYPE: "snappy, datatype 4",
    Category.FEATURE: "collections, feature 0x12",
    Category.FRAME_INFO: "stream_id, frame-info 2",
    Category.EVENT: "collection_begin, event 0",
    Category.VALUE: "majority",
    Category.SUBTYPE: "subtype 3, failover_log_request",
    Category.JSON_KEY: "sid, uid, json-key collections",
    Category.ERRATUM: "E-22",
    Category.DEFECT: "rollback-in-extras",
    Category.HEADER: "header, flexible header",
    Category.DIALECT: "upr",
    Category.TOPIC: "flow control, no-op timing",
    Category.SOURCE: "kv_engine",
    Category.FIELD: "by_seqno, nmeta",
}


def overview(terminal: Terminal) -> str:
    """List what can be asked."""
    page = Page(terminal)
    page.title("uprscope explain THING ...")
    page.paragraph(
        "Ask for anything in the protocol by name or by number. Case, dashes and underscores do not matter; numbers "
        "are decimal or, with 0x, hexadecimal. A word for the sort of thing may come first, and alone it lists them "
        "all: uprscope explain status 0x23, uprscope explain errata."
    )
    page.gap()
    count = Counter(thing.category for thing in things())
    rows = [(str(count[category]), WORDS[category][0], _EXAMPLES[category]) for category in Category]
    page.table(rows, ("", "sort", "examples"), right=(0,), styled=1)
    page.gap()
    page.paragraph(
        "And the rules of uprscope check: uprscope explain SEQ-01, a group such as SNP, or rules for all; and "
        "historical bugs by number: uprscope explain MB-16042, or bugs for all."
    )
    return page.text()


def render(results: Iterable[Result], terminal: Terminal) -> str:
    """Write every answer to every question."""
    page = Page(terminal)
    for result in results:
        for answer in result.answers:
            if page.lines:
                page.gap()
                page.drawing([""])
            _write(page, answer)
        if result.also:
            page.section(f"{safe_text(result.query.strip())} is also")
            groups: dict[tuple[object, ...], list[Thing]] = {}
            for thing in result.also:
                groups.setdefault(thing.group, []).append(thing)
            rows = [(group[0].label, group[0].name, _also(group)) for group in groups.values()]
            page.table(rows, right=(0,), styled=1, shorten=True)
            word = WORDS[result.also[0].category][0]
            page.paragraph(f"More about these: uprscope explain {word} {result.also[0].label}, and so on.", "  ")
    return page.text()


def _also(group: list[Thing]) -> str:
    """Say in one line what else a number means; the docs of a table's members start with the table's name."""
    first = group[0]
    if len(group) > 1:
        return ", ".join(thing.subject.table.name for thing in group if isinstance(thing.subject, TableMember))
    if isinstance(first.subject, TableMember) and first.doc.startswith(first.subject.table.name):
        return first.doc
    return f"{first.category}: {first.doc}" if first.doc else str(first.category)


def _write(page: Page, answer: Answer) -> None:
    first = answer.things[0]
    if answer.listing:
        _write_listing(page, answer)
        return
    match first.subject:
        case Message() as message:
            others = [thing.subject for thing in answer.things[1:] if isinstance(thing.subject, Message)]
            write_message(page, message, others)
            if not others:
                write_pointer(page, message)
        case TableMember():
            _write_member(
                page, first, [thing.subject for thing in answer.things if isinstance(thing.subject, TableMember)]
            )
        case StatusRange(low, high, name, doc):
            page.title(f"status {name}", f"0x{low:02x} to 0x{high:02x}")
            page.paragraph(f"{doc[0].upper()}{doc[1:]}. Not told apart here; none of them belongs to UPR.")
        case Magic() as magic:
            _write_magic(page, magic)
        case FrameInfo() as info:
            page.title(f"frame info {info.id} {info.name}", f"in {info.direction.value}s")
            page.paragraph(info.doc)
            page.gap()
            page.facts([("size", "any" if info.sizes is None else sizes(info.sizes))])
            page.gap()
            write_field_table(page, info.fields)
            for field in info.fields:
                if field.names is not None:
                    write_names(page, field.names, f"{field.name}: {field.names.name}")
            page.section("Encoding")
            page.paragraph(FRAME_INFO_PACKING, "  ")
        case ControlKey() as key:
            page.title(f"control key {key.name}")
            page.paragraph(key.doc)
            page.gap()
            page.facts([("values", key.values), ("pattern", key.pattern), ("releases", span(key.since, key.until))])
            page.gap()
            page.paragraph("Sent with control (0x5e): the name is the key, the value is text.")
        case SystemEvent() as event:
            _write_event(page, event)
        case Erratum() as erratum:
            _write_erratum(page, erratum)
        case DefectSpec() as defect:
            _write_defect(page, defect)
        case HeaderForm() as form:
            page.title(form.name, f"magic {listed([f'0x{magic:02x}' for magic in form.magics])}")
            page.paragraph(form.doc)
            page.gap()
            page.drawing(draw(form.fields, page.terminal.width))
            write_field_table(page, form.fields)
        case DialectSpec() as dialect:
            page.title(f"dialect {dialect.dialect}", dialect.period)
            page.paragraph(dialect.doc)
            if dialect.changes:
                page.section("Changes")
                page.bullets(dialect.changes, "  ")
            page.section("Messages")
            known = [thing for thing in things() if isinstance(thing.subject, Message)]
            mine = [thing for thing in known if getattr(thing.subject, "dialect", None) is dialect.dialect]
            page.table([(thing.label, thing.name, thing.doc) for thing in mine], styled=1, shorten=True)
        case Topic() as topic:
            _write_topic(page, topic)
        case JsonUse() as json_use:
            _write_json_key(page, json_use)
        case Source(key, title):
            page.title(f"source {key}")
            page.paragraph(title)
            page.gap()
            page.facts([("cited by", by_dialect([known for known in registry.MESSAGES if known.source == key]))])
        case FieldUse() as use:
            _write_field(page, use)


def _write_listing(page: Page, answer: Answer) -> None:
    page.title(answer.listing, f"{len(answer.things)} in all")
    known = answer.things
    if answer.category is Category.OPCODE:
        opcodes = [(thing.label, str(getattr(thing.subject, "dialect", "")), thing.name, thing.doc) for thing in known]
        page.table(opcodes, styled=2, shorten=True)
    elif any(thing.numbers for thing in known):
        right = () if answer.category is None else (0,)
        page.table([(thing.label, thing.name, thing.doc) for thing in known], right=right, styled=1)
    else:
        page.table([(thing.name, thing.doc) for thing in known])


def _write_member(page: Page, thing: Thing, members: list[TableMember]) -> None:
    first = members[0]
    aliases = ", ".join(first.name.aliases)
    page.title(f"{thing.category} {number_label(thing.category, first.name.value)} {thing.name}", aliases)
    for member in members:
        name = member.name
        if member is not first:
            page.gap()
        if name.doc:
            page.paragraph(f"{name.doc[0].upper()}{name.doc[1:]}.")
        users: dict[str, list[Message]] = {}
        for message, field in as_data.users_of(member.table):
            users.setdefault(field, []).append(message)
        page.facts(
            [
                ("one of", "" if member.table is enums.STATUSES else _titled(member.table)),
                ("releases", span(name.since, name.until)),
                ("in", "; ".join(f"{field} of {by_dialect(known)}" for field, known in users.items())),
            ]
        )
    if thing.category is Category.STATUS:
        page.facts([("answers", by_dialect(as_data.answers_with(first.name.value)))])
        for known in as_data.answers_with(first.name.value):
            shape = known.response(first.name.value)
            if shape is not None and shape.layouts and any(layout.value for layout in shape.layouts):
                page.gap()
                page.paragraph(f"Its body has a layout of its own: uprscope explain {known.name}")
                break


def _titled(table: Enumeration | Flags) -> str:
    return f"{table.name}. {table.doc}" if table.doc else table.name


def _write_magic(page: Page, magic: Magic) -> None:
    page.title(f"magic 0x{magic.value:02x} {magic.name}")
    page.paragraph(magic.doc)
    form = header_form(magic.value)
    page.gap()
    page.facts(
        [
            ("kind", magic.direction.value),
            ("header", f"{form.name}: uprscope explain {form.name}" if form is not None else ""),
            ("releases", span(magic.since, None)),
        ]
    )


def _write_event(page: Page, event: SystemEvent) -> None:
    page.title(f"system event {event.id} {event.name}")
    page.paragraph(event.doc)
    page.gap()
    page.facts(
        [
            ("key", "none" if event.key is Presence.MUST_NOT else f"{event.key} be there: the scope or collection"),
            ("releases", span(event.since, event.until)),
            ("message", "system_event (0x5f), whose extras hold the event's number and version"),
        ]
    )
    for version, form in event.versions:
        if form is None:
            page.section(f"Value of version {version}: not described, shown as bytes")
        elif isinstance(form, TableSpec):
            page.section(f"Value of version {version}: the FlatBuffers table {form.name}")
            page.table(table_rows(form), ("slot", "size", "field", "meaning"), right=(0, 1), styled=2)
        else:
            page.section(f"Value of version {version}: {sizes([sum(field.size for field in form)])}")
            write_field_table(page, form)


def _write_topic(page: Page, topic: Topic) -> None:
    page.title(topic.name, topic.doc)
    page.table([(f"{number}.", step) for number, step in enumerate(topic.steps, start=1)], right=(0,))
    for number, paragraph in enumerate(topic.paragraphs):
        if number or topic.steps:
            page.gap()
        page.paragraph(paragraph)
    if topic.errata:
        page.gap()
        page.facts([("errata", ", ".join(topic.errata))])


def _write_json_key(page: Page, use: JsonUse) -> None:
    key = use.key
    place = f"{use.inside}.{key.name}" if use.inside else key.name
    page.title(f"JSON key {place}", f"in the value of {use.message.name}, dialect {use.message.dialect}")
    page.paragraph(key.doc)
    page.gap()
    page.facts([("type", str(key.type)), ("written", key.format), ("releases", span(key.since, None))])
    if key.members:
        page.section("Members")
        page.table([(one.name, str(one.type), json_meaning(one)) for one in key.members])


def _write_erratum(page: Page, erratum: Erratum) -> None:
    page.title(f"erratum {erratum.id}", erratum.where)
    page.paragraph(erratum.contradiction)
    page.gap()
    defects = [defect.id for defect in registry.DEFECT_BY_ID.values() if defect.erratum == erratum.id]
    page.facts(
        [
            ("done here", erratum.action),
            ("messages", by_dialect(as_data.messages_with(erratum.id))),
            ("reported as", ", ".join(defects)),
        ]
    )


def _write_defect(page: Page, defect: DefectSpec) -> None:
    page.title(f"defect {defect.id}", defect.severity)
    page.paragraph(f"{defect.title[0].upper()}{defect.title[1:]}. {defect.doc}")
    erratum = registry.ERRATUM_BY_ID[defect.erratum] if defect.erratum is not None else None
    layouts = [
        known
        for known in registry.MESSAGES
        for shape in known.shapes()
        for layout in shape.layouts
        if layout.note == defect.id
    ]
    page.gap()
    page.facts(
        [
            ("rule", defect.rule or ""),
            ("erratum", f"{erratum.id}: {erratum.contradiction}" if erratum is not None else ""),
            ("met in", by_dialect(list(dict.fromkeys(layouts)))),
        ]
    )


def _write_field(page: Page, use: FieldUse) -> None:
    page.title(f"field {use.name}")
    start = len(page.lines)
    meanings: dict[tuple[str, int, object], list[Message]] = {}
    for known, field in use.uses:
        meanings.setdefault((field.doc, field.size, id(field.names)), []).append(known)
    for (doc, size, _), where in meanings.items():
        if len(page.lines) > start:
            page.gap()
        page.paragraph(f"{doc[0].upper()}{doc[1:]}.")
        page.facts([("size", sizes([size])), ("in", by_dialect(where))])
