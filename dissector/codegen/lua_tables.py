"""The spec as Lua tables: what the runtime of the Wireshark plugin reads. No code, and nothing that is not in the spec.

Messages refer to shapes, shapes to layouts, layouts to parts (declared fields), each by its number, so that what
several messages share is written once. The order is that of the spec, so the file changes only where the spec does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dissector.codegen import lua_source
from dissector.codegen.lua_fields import FieldList
from dissector.spec import enums, events, fields, fingerprints, headers, registry, value_kinds
from dissector.spec.model import (
    Body,
    CasRule,
    Dialect,
    Enumeration,
    Field,
    Flags,
    KeyRole,
    Layout,
    Message,
    MessageType,
    Shape,
    TableSpec,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

#: Errata that change how a frame is read.
_READING = {"E-41": "unannounced"}


class Numbered:
    """Numbers of things, from 1, in the order they come up."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._known: dict[Hashable, int] = {}

    def number(self, key: Hashable, row: Any) -> int:
        """Return a thing's number; ``row`` is what is written for it the first time."""
        if key not in self._known:
            self.rows.append(row)
            self._known[key] = len(self.rows)
        return self._known[key]


class Tables:
    """Everything that is numbered, while it is collected."""

    def __init__(self) -> None:
        self.parts, self.layouts, self.shapes = Numbered(), Numbered(), Numbered()
        self.names: dict[str, dict[int, str]] = {}
        self.flags: dict[str, dict[str | int, Any]] = {}

    def part(self, field: Field) -> int:
        """Return the number of a declared field."""
        row: dict[str, Any] = {"name": field.name, "size": field.size}
        if isinstance(field.names, Enumeration):
            row["names"] = self.enumeration(field.names)
        elif isinstance(field.names, Flags):
            row["flags"] = self.flag_set(field.names)
        row["reserved"] = field.reserved or None
        return self.parts.number((field.name, field.size, row.get("names"), row.get("flags"), field.reserved), row)

    def enumeration(self, names: Enumeration) -> str:
        """Take an enumeration, and return its name."""
        self.names[names.name] = {member.value: member.name for member in names.members}
        return names.name

    def flag_set(self, flags: Flags) -> str:
        """Take a set of flags, and return its name."""
        members = sorted(flags.members, key=lambda member: member.value)
        self.flags[flags.name] = {
            "lenient": flags.lenient or None,
            "all": sum(member.value for member in members),
            "bits": [[member.value, member.name] for member in members],
        }
        return flags.name

    def layout(self, layout: Layout) -> int:
        """Return the number of a layout."""
        row: dict[str, Any] = {
            "name": layout.name,
            "size": layout.extras_size,
            "value_size": layout.value_size,
            "extras": [self.part(field) for field in layout.extras],
            "value": [self.part(field) for field in layout.value],
            "version": layout.version,
            "note": layout.note,
        }
        key = (layout.name, tuple(row["extras"]), tuple(row["value"]), layout.version, layout.note)
        return self.layouts.number(key, row)

    def shape(self, shape: Shape | None) -> int | None:
        """Return the number of a shape."""
        if shape is None:
            return None
        row = {
            "layouts": [self.layout(layout) for layout in shape.layouts],
            "extras": shape.extras.value,
            "key": shape.key.value,
            "value": shape.value.value,
            "body": None if shape.body is Body.BYTES else shape.body.value,
            "document": shape.key_role is KeyRole.DOCUMENT or None,
            "parameter": shape.key_role is KeyRole.PARAMETER or None,
            "datatypes": None if shape.datatypes is None else dict.fromkeys(shape.datatypes, True),
            "cas": None if shape.cas is CasRule.ANY else shape.cas.value,
            "most": {key.name: key.most for key in shape.json_keys if key.most is not None} or None,
        }
        return self.shapes.number(repr(row), row)

    def message(self, message: Message) -> dict[str, Any]:
        """Write a message."""
        secret = message.request is not None and message.request.body is Body.SECRET
        row: dict[str, Any] = {
            "dialect": message.dialect.value,
            "opcode": message.opcode,
            "name": message.name,
            "sender": message.sender.value,
            "request": self.shape(message.request),
            "push": self.shape(message.push),
            "responses": {status: self.shape(shape) for status, shape in message.responses} or None,
            "subtypes": list(message.subtypes) or None,
            "flow": None if message.flow is None else message.flow.surplus,
            "seqno": message.seqno,
            "secret": secret or None,
            "server_push": message.server_push or None,
            "log_answer": (message is registry.DRAFT_FAILOVER_LOG) or None,
        }
        row |= {name: True for erratum, name in _READING.items() if erratum in message.errata}
        return row


def render() -> str:
    """Return the tables as Lua."""
    made = Tables()
    messages = [made.message(message) for message in registry.MESSAGES]
    features = fields.FEATURE_ENTRY[0].names
    if isinstance(features, Enumeration):
        made.enumeration(features)
    made.enumeration(enums.STATUSES)
    made.flag_set(enums.DATATYPES)
    infos = [
        {
            "response": info.direction is MessageType.RESPONSE or None,
            "id": info.id,
            "name": info.name,
            "sizes": None if info.sizes is None else dict.fromkeys(info.sizes, True),
            "fields": [made.part(field) for field in info.fields],
        }
        for info in enums.FRAME_INFOS
    ]
    happened = {
        event.id: {
            "name": event.name,
            "key": event.key.value,
            "versions": {version: _event_form(made, form) for version, form in event.versions},
        }
        for event in registry.EVENT_BY_ID.values()
    }
    tables = _tables(made)
    records = {
        spec.body.value: {"size": size_of(spec.record), "fields": [made.part(field) for field in spec.record]}
        for spec in value_kinds.BODIES.values()
        if spec.record
    }
    metadata = [made.part(field) for field in fields.METADATA_ENTRY]
    listed = FieldList(made)
    sections = [
        "local SPEC = {} -- what is read once, when the plugin starts\n",
        lua_source.keyed("LIMITS", _limits(), "numbers of the protocol"),
        lua_source.keyed("MAGICS", _magics(), "first bytes"),
        lua_source.keyed("NAMES", made.names, "numbers with names"),
        lua_source.keyed("FLAGS", made.flags, "bits with names"),
        lua_source.keyed("SPEC.STREAM_FLAG", _bits(enums.STREAM_FLAGS), "bits of stream requests by name"),
        lua_source.keyed("SPEC.MARKER_FLAG", _bits(enums.MARKER_FLAGS), "bits of snapshot markers by name"),
        lua_source.rows(
            "SPEC.STATUS_RANGES",
            ([family.low, family.high, family.name] for family in enums.STATUS_RANGES),
            "families of statuses",
        ),
        lua_source.rows("SPEC.PARTS", made.parts.rows, "declared fields"),
        lua_source.rows("SPEC.LAYOUTS", made.layouts.rows, "forms of bodies: parts by number"),
        lua_source.rows(
            "SPEC.SHAPES", made.shapes.rows, "what a request, answer or push is made of: layouts by number"
        ),
        lua_source.rows("MESSAGES", messages, "messages of all dialects: shapes by number"),
        lua_source.keyed("OPCODES", _opcodes(), "by dialect, opcodes to messages by number"),
        lua_source.rows("SPEC.FRAME_INFOS", infos, "objects of the framing extras"),
        lua_source.keyed("EVENTS", happened, "system events"),
        lua_source.keyed("SPEC.TABLES", tables, "FlatBuffers tables of system events: slots by number"),
        lua_source.keyed("RECORDS", records, "values that are lists"),
        f"SPEC.METADATA_ENTRY = {lua_source.literal(metadata)}\n",
        lua_source.keyed("CONTROLS", _controls(), "control parameters: values or a pattern of Lua's"),
        lua_source.rows("SPEC.FORMS", _forms(), "what requests prove about dialect and era"),
        lua_source.keyed("DEFECTS", _defects(), "what can be wrong with one frame"),
        lua_source.rows(
            "SPEC.FIELDS", listed.rows(), "the fields of Wireshark: name, type, title, base, names, mask, words"
        ),
    ]
    return "\n".join(sections)


def _event_form(made: Tables, form: tuple[Field, ...] | TableSpec | None) -> Any:
    """Write the value of a version of a system event: its parts, what its table is called, or false."""
    if form is None:
        return False
    return form.name if isinstance(form, TableSpec) else [made.part(field) for field in form]


def _tables(made: Tables) -> dict[str, Any]:
    """Write the slots of FlatBuffers tables: each is a declared field, or a text."""
    found = {}
    for table in events.TABLES.values():
        depends = dict(table.depends)
        found[table.name] = [
            {
                "part": made.part(slot) if isinstance(slot, Field) else None,
                "text": None if isinstance(slot, Field) else slot.name,
                "depends": depends.get(slot.name),
            }
            for slot in table.slots
        ]
    return found


def _bits(flags: Flags) -> dict[str, int]:
    return {bit.name: bit.value for bit in flags.members}


def _limits() -> dict[str, int]:
    return {
        "header": registry.HEADER_SIZE,
        "body": registry.MAX_BODY,
        "vbuckets": registry.DEFAULT_VBUCKETS,
        "key": registry.MAX_KEY,
        "answer_extras": fingerprints.MAX_ANSWER_EXTRAS,
        "confirm": fingerprints.CONFIRM_HEADERS,
        "rollback": enums.ROLLBACK,
        "collections": enums.COLLECTIONS_FEATURE,
        "stream_id_tag": headers.STREAM_ID_TAG,
        "stream_id_size": headers.STREAM_ID_SIZE,
        "set_extras": fingerprints.SET_EXTRAS,
        "draft_response": fingerprints.DRAFT_RESPONSE,
        "draft_stream_message": fingerprints.DRAFT_STREAM_MESSAGE,
        "metadata_version": fields.METADATA_VERSION,
        "cache_key": fields.CACHE_KEY_MIN,
        "flexible_since": release(fingerprints.FLEXIBLE_SINCE),
        "delete_times_since": release(fingerprints.DELETE_TIMES_SINCE),
        "delete_times": enums.OPEN_FLAGS.bit("include_delete_times"),
        "produces": enums.OPEN_FLAGS.bit("producer") | enums.OPEN_FLAGS.bit("notifier"),
        "open_extras": registry.OPEN_EXTRAS,
        "open_flags_at": registry.OPEN_FLAGS_AT,
    }


def release(since: tuple[int, int, int] | None) -> int:
    """Return a release as one number that compares: 6.5 is 605."""
    return 0 if since is None else since[0] * 100 + since[1]


def _magics() -> dict[int, Any]:
    return {
        magic.value: {
            "name": magic.name,
            "response": magic.direction is MessageType.RESPONSE,
            "flexible": magic.flexible,
            "push": magic.server_push,
        }
        for magic in enums.MAGICS
    }


def _opcodes() -> dict[str, Any]:
    numbers = {id(message): number for number, message in enumerate(registry.MESSAGES, 1)}
    found: dict[str, dict[int, int]] = {}
    for dialect in Dialect:
        looked_up = ((opcode, registry.message(dialect, opcode)) for opcode in range(256))
        found[dialect.value] = {opcode: numbers[id(known)] for opcode, known in looked_up if known is not None}
    return found


def _forms() -> list[Any]:
    return [
        {
            "opcode": form.opcode,
            "extras": form.extras,
            "dialect": form.dialect.value,
            "version": form.version,
            "since": release(form.since) or None,
        }
        for form in fingerprints.FORMS
    ] + [{"opcode": opcode, "decisive": True} for opcode in sorted(fingerprints.DECISIVE_OPCODES)]


def _controls() -> dict[str, Any]:
    return {
        key.name: {**_pattern(key.pattern), "since": release(key.since) or None}
        for key in registry.CONTROL_BY_NAME.values()
    }


def _pattern(expression: str) -> dict[str, Any]:
    """Return a regular expression of the control table as a set of words or as a pattern of Lua's."""
    patterns: dict[str, dict[str, Any]] = {
        r"\d{1,10}": {"pattern": "^%d+$", "most": 10},
        r"\d+(\.\d+)?": {"pattern": "^%d+%.?%d*$", "last": "%d$"},
        r".+": {"pattern": "^[^\n]+$"},
        r"(?s).*": {"pattern": "^"},
        r"2\.2": {"words": {"2.2": True}},
    }
    if expression in patterns:
        return patterns[expression]
    words = expression.split("|")
    if not all(word.replace("_", "").replace("-", "").isalnum() for word in words):
        raise ValueError(f"no Lua pattern is known for {expression}")
    return {"words": dict.fromkeys(words, True)}


def _defects() -> dict[str, Any]:
    return {
        defect.id: {
            "severity": defect.severity.value,
            "title": defect.title,
            "rule": defect.rule,
            "erratum": defect.erratum,
        }
        for defect in registry.DEFECT_BY_ID.values()
    }
