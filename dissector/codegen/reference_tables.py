"""The tables at the back of the protocol reference: values, names, controls, detection, errata, defects, sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codegen.markdown import code, escape, slug, table
from dissector.explain.byte_diagram import draw, offsets
from dissector.explain.catalogue import Category, number_label, table_category, tables
from dissector.explain.dialect_diff import sizes
from dissector.explain.message_text import span, table_rows
from dissector.spec import enums, events, fingerprints, registry
from dissector.spec.headers import FRAME_INFO_PACKING
from dissector.spec.model import Body, Dialect, Enumeration, TableSpec, size_of
from dissector.spec.sources import SOURCES
from dissector.spec.value_kinds import BODIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.codegen.markdown import MarkdownPage
    from dissector.spec.model import Field, Flags

_WIDTH = 80
_EVENTS_TITLE = "System events"


def write(page: MarkdownPage) -> None:
    """Add every table."""
    _write_values(page)
    _write_frame_infos(page)
    _write_names(page)
    _write_controls(page)
    _write_events(page)
    _write_detection(page)
    _write_resynchronisation(page)
    _write_errata(page)
    _write_defects(page)
    page.heading(2, "Sources")
    page.add(table(("key", "where the facts come from"), [(code(key), escape(text)) for key, text in SOURCES.items()]))


def anchor(names: Enumeration | Flags) -> str:
    """Return the anchor of a table of names; system events have a section of their own."""
    return slug(_EVENTS_TITLE) if names is events.EVENT_NAMES else slug(_title(names))


def _title(names: Enumeration | Flags) -> str:
    return f"Names: {names.name}"


def _field_table(fields: Sequence[Field]) -> str:
    rows = [(str(offset), str(field.size), code(field.name), escape(field.doc)) for offset, field in offsets(fields)]
    return table(("offset", "size", "field", "meaning"), rows)


def _write_values(page: MarkdownPage) -> None:
    page.heading(2, "Values")
    page.add(
        "What is behind the key. Where the tables above say *bytes* or nothing, a value is not looked into; fixed "
        "values are drawn with their messages."
    )
    for body, note in BODIES.items():
        if body is Body.BYTES:
            continue
        page.heading(3, f"Value: {body}")
        page.add(escape(note.doc))
        if note.record:
            behind = (
                f", each followed by what {' and '.join(code(name) for name in note.tail)} say" if note.tail else ""
            )
            page.add(f"Any number of records of {size_of(note.record)} bytes{behind}:")
            page.add("\n".join(("```text", *draw(note.record, _WIDTH), "```")), _field_table(note.record))


def _write_frame_infos(page: MarkdownPage) -> None:
    page.heading(2, "Frame infos")
    page.add(escape(FRAME_INFO_PACKING))
    rows = [
        (
            str(info.id),
            code(info.name),
            info.direction.value,
            "any" if info.sizes is None else sizes(info.sizes),
            ", ".join(f"{code(field.name)} ({field.size})" for field in info.fields),
            escape(info.doc),
        )
        for info in enums.FRAME_INFOS
    ]
    page.add(table(("id", "name", "in", "size", "fields (bytes)", "meaning"), rows))


def _write_names(page: MarkdownPage) -> None:
    page.heading(2, "Numbers and flags")
    page.add("Every number that has a name. Flags are single bits and add up; the others exclude each other.")
    for names in tables():
        page.heading(3, _title(names))
        page.add(escape(names.doc))
        category = table_category(names)
        rows = [
            (
                code(number_label(category, member.value)),
                code(member.name),
                span(member.since, member.until),
                escape(member.doc)
                + (f"; in the source {', '.join(code(alias) for alias in member.aliases)}" if member.aliases else ""),
            )
            for member in names.members
        ]
        if category is Category.STATUS:
            rows += [
                (
                    code(f"0x{family.low:02x}-0x{family.high:02x}"),
                    code(family.name),
                    "",
                    f"{escape(family.doc)}; not told apart here",
                )
                for family in enums.STATUS_RANGES
            ]
        page.add(table(("value", "name", "releases", "meaning"), rows))


def _write_controls(page: MarkdownPage) -> None:
    page.heading(2, "Control keys")
    page.add("Parameters that `control` (0x5e) sets: the key names one, the value is text.")
    rows = [
        (code(key.name), escape(key.values), code(key.pattern), span(key.since, key.until), escape(key.doc))
        for key in registry.CONTROL_BY_NAME.values()
    ]
    page.add(table(("key", "values", "as a pattern", "releases", "meaning"), rows))


def _write_events(page: MarkdownPage) -> None:
    page.heading(2, _EVENTS_TITLE)
    page.add("What `system_event` (0x5f) tells. The key is the name of the scope or collection.")
    for event in registry.EVENT_BY_ID.values():
        since = f" Releases: {span(event.since, event.until)}." if event.since is not None else ""
        page.heading(3, f"Event {event.id}: {event.name}")
        page.add(f"{escape(event.doc)} The key {event.key} be there.{since}")
        for version, form in event.versions:
            if form is None:
                page.add(f"Version {version}: not described, shown as bytes.")
            elif isinstance(form, TableSpec):
                page.add(f"Version {version}: the FlatBuffers table {code(form.name)}.")
            else:
                page.add(f"Version {version}, {sizes([size_of(form)])}:", _field_table(form))
    page.heading(3, "FlatBuffers tables of system events")
    page.add(
        "Numbers are little-endian. The value starts with the place of the table (4 bytes); the table starts with the "
        "distance back to its vtable (4 bytes, signed), which has its own size, the table's size and the place of each "
        "slot in the table (2 bytes each). A slot that is not there is 0, or an empty text. A text is as far from its "
        "slot as the slot says: its length (4 bytes), the text, a zero byte. Later releases add slots at the end."
    )
    for known in events.TABLES.values():
        rows = [(number, size, code(name), escape(meaning)) for number, size, name, meaning in table_rows(known)]
        page.heading(4, f"Table {known.name}")
        page.add(table(("slot", "size", "field", "meaning"), rows))


def _write_detection(page: MarkdownPage) -> None:
    page.heading(2, "Telling dialect and release")
    decisive = ", ".join(code(f"0x{opcode:02x}") for opcode in sorted(fingerprints.DECISIVE_OPCODES))
    page.add(
        "Nothing is inferred from ports, and roles never from who connected. A well-formed request with one of the "
        f"opcodes {decisive} makes a connection UPR; of any other opcode of the protocol two are needed. The dialect "
        "is the one with more of these forms, and dcp in a tie; a producer's messages count each, requests for "
        "streams of one form once, and servers that know HELLO speak dcp. Each form of the dialect narrows the "
        "releases that can have sent it. The draft shares "
        "its opcodes with SET to INCREMENT and is believed only when an answer fits a request or a stream message has "
        "a key."
    )
    rows = []
    for form in fingerprints.FORMS:
        known = registry.message(Dialect.DCP, form.opcode)
        version = f", version byte {form.version}" if form.version is not None else ""
        rows.append(
            (
                code(f"0x{form.opcode:02x}"),
                code(known.name) if known is not None else "",
                f"{form.extras}{version}",
                code(form.dialect),
                span(form.since, form.until),
            )
        )
    page.add(table(("opcode", "request", "extras", "dialect", "releases"), rows))
    page.add("Hints about the program at the other end:")
    hints = [f"- the opaque of an open starts with {code(fingerprints.GOMEMCACHED_OPEN.hex())}: couchbase/gomemcached"]
    hints += [
        f"- the opaque of a no-op, read little-endian, lies above {low:,} and up to {high:,}: {escape(says)}"
        for low, high, says in fingerprints.NOOP_COUNTERS
    ]
    order = ", ".join(code(key.decode()) for key in fingerprints.KV_ENGINE_CONTROLS)
    hints.append(f"- controls in the order {order}: a kv_engine consumer")
    page.add("\n".join(hints))


def _write_resynchronisation(page: MarkdownPage) -> None:
    page.heading(2, "Finding frames again")
    page.add(
        "After bytes were lost, or when a capture starts in the middle of a connection, a header is believed only "
        f"when all of this holds, and for the headers behind it too, {fingerprints.CONFIRM_HEADERS} in a row: "
        "values may hold frames themselves."
    )
    page.add(
        "- the magic is one of those above, and the dialect has the opcode\n"
        "- framing extras, extras and key together are no longer than the body\n"
        f"- the body has at most {fingerprints.MAX_BODY // 2**20} MiB\n"
        "- a request's extras length is that of a layout of the message, a response's at most "
        f"{fingerprints.MAX_ANSWER_EXTRAS}\n"
        f"- the datatype has no bits but {code(f'0x{sum(bit.value for bit in enums.DATATYPES.members):02x}')}\n"
        f"- a request's vbucket is below {fingerprints.DEFAULT_VBUCKETS}, a response's status has a name"
    )


def _write_errata(page: MarkdownPage) -> None:
    page.heading(2, "Errata")
    page.add("Where the protocol's documents contradict themselves, each other or the servers.")
    rows = [
        (erratum.id, escape(erratum.where), escape(erratum.contradiction), escape(erratum.action))
        for erratum in registry.ERRATUM_BY_ID.values()
    ]
    page.add(table(("id", "where", "contradiction", "what is done here"), rows))


def _write_defects(page: MarkdownPage) -> None:
    page.heading(2, "Defects")
    page.add("What can be wrong with a single frame. Outputs name these ids, and they do not change.")
    rows = [
        (
            code(defect.id),
            str(defect.severity),
            f"{escape(defect.title)}. {escape(defect.doc)}",
            ", ".join(part for part in (defect.rule, defect.erratum) if part),
        )
        for defect in registry.DEFECT_BY_ID.values()
    ]
    page.add(table(("id", "severity", "meaning", "rule, erratum"), rows))
