"""Answers as data: what ``uprscope explain --json`` writes. Plain dicts, lists, strings, numbers and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dissector.explain import dialect_diff
from dissector.explain.byte_diagram import offsets
from dissector.explain.catalogue import (
    WORDS,
    Category,
    FieldUse,
    JsonUse,
    Source,
    TableMember,
    Thing,
    fields_of,
    number_label,
    opcode_label,
    table_category,
    things,
)
from dissector.spec import enums, registry
from dissector.spec.dialects import DialectSpec
from dissector.spec.enums import StatusRange
from dissector.spec.headers import FRAME_INFO_PACKING, HeaderForm
from dissector.spec.model import (
    Body,
    ControlKey,
    DefectSpec,
    Enumeration,
    Erratum,
    Field,
    Flags,
    FrameInfo,
    JsonKey,
    Layout,
    Magic,
    Message,
    Name,
    Release,
    Shape,
    SystemEvent,
    TableSpec,
    TableText,
)
from dissector.spec.sources import SOURCES
from dissector.spec.topics import Topic
from dissector.spec.value_kinds import BODIES

if TYPE_CHECKING:
    from dissector.explain.lookup import Answer, Result

Facts = dict[str, Any]  # the shape of JSON, which has no narrower type


def result_facts(result: Result) -> Facts:
    """Say everything that was found for one question."""
    return {
        "query": result.query,
        "answers": [answer_facts(answer) for answer in result.answers],
        "also": [_brief(thing) for thing in result.also],
    }


def answer_facts(answer: Answer) -> Facts:
    """Say one answer."""
    if answer.listing:
        return {"kind": "list", "title": answer.listing, "things": [_brief(thing) for thing in answer.things]}
    first = answer.things[0]
    facts = {"kind": str(first.category), "name": first.name, **_subject(first)}
    if isinstance(first.subject, Message):
        others = [thing.subject for thing in answer.things[1:] if isinstance(thing.subject, Message)]
        facts["other_dialects"] = [
            {**message_facts(other), "differences": dialect_diff.differences(first.subject, other)} for other in others
        ]
    elif isinstance(first.subject, TableMember):
        members = [thing.subject for thing in answer.things if isinstance(thing.subject, TableMember)]
        facts["meanings"] = [
            {
                **_name(member.name),
                "table": member.table.name,
                "table_doc": member.table.doc,
                "fields": [
                    {"dialect": str(known.dialect), "message": known.name, "field": field}
                    for known, field in users_of(member.table)
                ],
            }
            for member in members
        ]
    return facts


def _brief(thing: Thing) -> Facts:
    facts: Facts = {"kind": str(thing.category), "name": thing.name, "doc": thing.doc}
    if thing.numbers:
        facts["number"] = thing.numbers[0]
    if isinstance(thing.subject, Message):
        facts["dialect"] = str(thing.subject.dialect)
        facts["label"] = opcode_label(thing.subject)
    return facts


def _subject(thing: Thing) -> Facts:
    match thing.subject:
        case Message() as message:
            return message_facts(message)
        case TableMember(table, name):
            kind = table_category(table)
            facts: Facts = {"number": name.value, "label": number_label(kind, name.value)}
            if kind is Category.STATUS:
                facts["constant"] = (*name.aliases, name.name.upper())[0]
                facts["answers_to"] = [
                    {"dialect": str(known.dialect), "name": known.name} for known in answers_with(name.value)
                ]
            return facts
        case StatusRange(low, high, _, doc):
            return {"low": low, "high": high, "doc": doc}
        case Magic() as magic:
            return {
                "number": magic.value,
                "direction": magic.direction.value,
                "flexible": magic.flexible,
                "server_push": magic.server_push,
                "doc": magic.doc,
                **_span(magic.since, None),
            }
        case FrameInfo() as info:
            return {
                "number": info.id,
                "direction": info.direction.value,
                "sizes": None if info.sizes is None else list(info.sizes),
                "fields": fields_facts(info.fields),
                "doc": info.doc,
                "packing": FRAME_INFO_PACKING,
            }
        case ControlKey() as key:
            return {
                "values": key.values,
                "pattern": key.pattern,
                "doc": key.doc,
                **_span(key.since, key.until),
            }
        case SystemEvent() as event:
            return {
                "number": event.id,
                "doc": event.doc,
                "key": str(event.key),
                "versions": [{"version": version, **_event_form(form)} for version, form in event.versions],
                **_span(event.since, event.until),
            }
        case Erratum() as erratum:
            return {
                "where": erratum.where,
                "contradiction": erratum.contradiction,
                "action": erratum.action,
                "messages": [
                    {"dialect": str(known.dialect), "name": known.name} for known in messages_with(erratum.id)
                ],
                "defects": [defect.id for defect in registry.DEFECT_BY_ID.values() if defect.erratum == erratum.id],
            }
        case DefectSpec() as defect:
            return {
                "severity": str(defect.severity),
                "title": defect.title,
                "doc": defect.doc,
                "erratum": defect.erratum,
                "rule": defect.rule,
            }
        case HeaderForm() as form:
            return {"doc": form.doc, "magics": list(form.magics), "fields": fields_facts(form.fields)}
        case DialectSpec() as dialect:
            return {
                "period": dialect.period,
                "doc": dialect.doc,
                "changes": list(dialect.changes),
                "messages": [
                    {"label": opcode_label(known), "name": known.name, "doc": known.doc}
                    for known in registry.MESSAGES
                    if known.dialect is dialect.dialect
                ],
            }
        case Topic() as topic:
            return {
                "doc": topic.doc,
                "paragraphs": list(topic.paragraphs),
                "steps": list(topic.steps),
                "errata": list(topic.errata),
            }
        case JsonUse(message, json_key, inside):
            where = {"dialect": str(message.dialect), "message": message.name, "inside": inside or None}
            return {**where, **_json_key(json_key)}
        case Source(key, title):
            return {
                "title": title,
                "messages": [
                    {"dialect": str(known.dialect), "name": known.name}
                    for known in registry.MESSAGES
                    if known.source == key
                ],
            }
        case FieldUse(_, uses):
            return {
                "uses": [
                    {"dialect": str(known.dialect), "message": known.name, "size": field.size, "doc": field.doc}
                    for known, field in uses
                ]
            }


def message_facts(message: Message) -> Facts:
    """Say everything about a message of one dialect."""
    return {
        "dialect": str(message.dialect),
        "opcode": message.opcode,
        "label": opcode_label(message),
        "subtypes": list(message.subtypes),
        "subtype_names": [_name(member) for member in subtypes_of(message)],
        "message": message.name,
        "constant": message.constant,
        "doc": message.doc,
        "sender": str(message.sender),
        "receiver": str(message.receiver),
        "reply": str(message.reply),
        "reply_doc": message.reply_doc or None,
        **_span(message.since, message.until),
        "seqno": message.seqno,
        "flow_control": None if message.flow is None else {"surplus": message.flow.surplus, "doc": message.flow.doc},
        "server_push": message.server_push,
        "request": None if message.request is None else shape_facts(message.request),
        "push": None if message.push is None else shape_facts(message.push),
        "responses": [
            {"status": status, "status_name": registry.status_name(status), **shape_facts(shape)}
            for status, shape in message.responses
        ],
        "errors": [
            {"status": refusal.status, "name": registry.status_name(refusal.status), "doc": refusal.doc}
            for refusal in message.refusals
            if refusal.status is not None
        ],
        "disconnects": list(message.disconnects),
        "errata": [
            {"id": known, "contradiction": registry.ERRATUM_BY_ID[known].contradiction} for known in message.errata
        ],
        "source": {"key": message.source, "title": SOURCES[message.source]},
    }


def shape_facts(shape: Shape) -> Facts:
    """Say what a request, response or push is made of."""
    return {
        "extras": str(shape.extras),
        "key": str(shape.key),
        "key_role": str(shape.key_role),
        "value": str(shape.value),
        "body": str(shape.body),
        "body_doc": BODIES[shape.body].doc if shape.body is not Body.BYTES else None,
        "record": fields_facts(BODIES[shape.body].record),
        "json_keys": [_json_key(key) for key in shape.json_keys],
        "datatypes": None if shape.datatypes is None else list(shape.datatypes),
        "cas": str(shape.cas),
        "layouts": [_layout(layout) for layout in shape.layouts],
    }


def _json_key(key: JsonKey) -> Facts:
    return {
        "key": key.name,
        "type": str(key.type),
        "format": key.format,
        "doc": key.doc,
        **_span(key.since, None),
        "members": [_json_key(member) for member in key.members],
    }


def subtypes_of(message: Message) -> list[Name]:
    """Return what the subtypes of a draft message mean."""
    names = message.subtype_names.members if message.subtype_names is not None else ()
    return [member for member in names if member.value in message.subtypes]


def _layout(layout: Layout) -> Facts:
    return {
        "name": layout.name,
        "doc": layout.doc,
        "version": layout.version,
        "defect": layout.note,
        **_span(layout.since, layout.until),
        "extras_size": layout.extras_size,
        "extras": fields_facts(layout.extras),
        "value_size": layout.value_size,
        "value": fields_facts(layout.value),
    }


def fields_facts(fields: tuple[Field, ...]) -> list[Facts]:
    """Say fields with their offsets from the start of the first."""
    return [
        {
            "offset": offset,
            "size": field.size,
            "name": field.name,
            "doc": field.doc,
            "role": str(field.role),
            "reserved": field.reserved,
            "raw": field.raw,
            "names": None if field.names is None else _table(field.names),
        }
        for offset, field in offsets(fields)
    ]


def _event_form(form: tuple[Field, ...] | TableSpec | None) -> Facts:
    """Say the value of one version of a system event: fields at fixed places, or slots of a table."""
    if form is None:
        return {"value": None}
    if not isinstance(form, TableSpec):
        return {"value": fields_facts(form)}
    return {
        "table": form.name,
        "value": [
            {
                "slot": number,
                "size": slot.size if isinstance(slot, Field) else None,
                "name": slot.name,
                "doc": slot.doc,
                "text": isinstance(slot, TableText),
                "only_if": dict(form.depends).get(slot.name),
            }
            for number, slot in enumerate(form.slots)
        ],
    }


def _table(table: Enumeration | Flags) -> Facts:
    return {
        "table": table.name,
        "flags": isinstance(table, Flags),
        "members": [_name(member) for member in table.members],
    }


def _name(member: Name) -> Facts:
    return {
        "value": member.value,
        "name": member.name,
        "aliases": list(member.aliases),
        "doc": member.doc,
        **_span(member.since, member.until),
    }


def _span(since: Release | None, until: Release | None) -> Facts:
    return {"since": None if since is None else str(since), "until": None if until is None else str(until)}


def answers_with(status: int) -> list[Message]:
    """Return the messages that a status is known to answer, success apart."""
    return [
        known
        for known in registry.MESSAGES
        if status != enums.SUCCESS and (status in known.errors or known.response(status) is not None)
    ]


def messages_with(erratum: str) -> list[Message]:
    """Return the messages that an erratum is about."""
    return [known for known in registry.MESSAGES if erratum in known.errata]


def users_of(table: Enumeration | Flags) -> list[tuple[Message, str]]:
    """Return the messages that have a field with this table, each with the field's name; subtypes are fields too."""
    uses = [
        (known, name)
        for known in registry.MESSAGES
        for name, names in (
            *((field.name, field.names) for field in fields_of(known)),
            ("subtype", known.subtype_names),
        )
        if names is table
    ]
    return list(dict.fromkeys(uses))


def overview_facts() -> list[Facts]:
    """Say what can be asked, and how much there is of it."""
    count = Counter(thing.category for thing in things())
    return [{"kind": str(category), "word": WORDS[category][0], "count": count[category]} for category in Category]
