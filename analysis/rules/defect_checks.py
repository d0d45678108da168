"""Checks of single messages: a defect that the dissector found becomes a violation of its rule.

Has a sentence for each defect. A message's form needs no history: what was lost before does not matter. Not judged are
frames that were searched for, parts that were not captured, and what upr and dcp see differently while it is not
settled which of them is spoken.
"""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

from analysis.context.defects import DEFECT_COLUMNS, NUMBER, OTHER_DIALECT
from analysis.context.settled_dialects import NOT_SETTLED
from analysis.rules import dialect_differences, message_words
from analysis.rules.expressions import NEVER, Term, col
from analysis.rules.model import SEARCHED, Check, Severity, Unknown
from dissector.spec.defects import DEFECTS
from dissector.spec.model import Dialect
from dissector.spec.registry import MAX_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

OPCODES = message_words.MESSAGES
#: By defect, why it breaks its rule: what came, and what was expected.
SENTENCES: dict[str, str] = {
    "truncated-header": "fewer bytes than a header has",
    "truncated-frame": "the bytes end before the body of {body_length} does",
    "lengths-exceed-body": "framing extras {framing_length} + extras {extras_length} + key {key_length} are more than "
    "the total body of {body_length}",
    "body-too-large": "a total body of {body_length} bytes is more than any server sends",
    "framing-malformed": "the objects of the framing extras do not add up to their {framing_length} bytes",
    "stray-failover-log": "the header says no body, and a failover log follows",
    "stray-rollback-seqno": "the header says no body, and 8 bytes follow that are no header",
    "stray-snapshot-end": "the header says 40 bytes of extras, and 8 more follow that are no header",
    "stray-bytes": "bytes follow that are no header",
    "framing-length-omitted": "framing length {framing_length} in {form} that has a stream id in front of its extras, "
    "which has 3 bytes: a known defect of 7.0 servers, read with the stream id",
    "unknown-magic": "magic {magic} is none",
    "unknown-opcode": "opcode {opcode} is none that the dialect has",
    "unknown-subtype": "opcode {opcode} of the draft has no subtype {subtype}",
    "wrong-direction": "{form} with magic {magic}, with which it does not come",
    "extras-length-unknown": "{form} with {extras_length} bytes of extras; it has {expected}",
    "extras-missing": "{form} without extras; it has {expected} bytes of them",
    "extras-unexpected": "{form} with {extras_length} bytes of extras; it has none",
    OTHER_DIALECT: "{form} with {extras_length} bytes of extras, as {shape_of} has it; in {settled} it has {expected}",
    "frame-info-length": "an object in the {framing_length} bytes of framing extras has a length that it cannot have",
    "frame-info-repeated": "an object comes twice in the {framing_length} bytes of framing extras; each comes once",
    "key-missing": "{form} without a key; it must have one",
    "key-unexpected": "{form} with a key of {key_length} bytes; it has none",
    "value-missing": "{form} without a value; it must have one",
    "value-unexpected": "{form} with a value of {value_length} bytes; it has none",
    "value-length": "{form} with a value of {value_length} bytes; its fields make up {expected}",
    "datatype-invalid": "{form} with datatype {datatype}, of which bits mean nothing; datatypes are at most 0x07",
    "datatype-not-allowed": "{form} with datatype {datatype}; it may have {expected}",
    "cas-not-zero": "{form} with a CAS; it has 0",
    "cas-zero": "{form} with CAS 0; it must have one",
    "reserved-not-zero": "{form} with {has_reserved}; it must be 0",
    "unknown-flag-bits": "{form} with {odd_flags_field}",
    "frame-info-unknown": "the {framing_length} bytes of framing extras have an object of no known kind",
    "collection-id-invalid": "a key of {key_length} bytes that does not start with a collection id: unsigned LEB128, "
    "canonical, at most 5 bytes",
    "key-empty": "a key of {key_length} bytes that is a collection id alone; at least one byte must follow it",
    "key-too-long": f"a key of {{key_length}} bytes; keys have at most {MAX_KEY - 1}, {MAX_KEY} with a collection id",
    "snappy-invalid": "datatype {datatype} says snappy, and the {value_length} bytes of value are not",
    "snappy-too-large": "the {value_length} bytes of value say that they expand beyond the limit",
    "xattr-invalid": "datatype {datatype} says xattrs, and they do not add up in the {value_length} bytes of value",
    "json-invalid": "the {value_length} bytes of value of {form} (datatype {datatype}) are not the JSON that they "
    "should be",
    "event-table-invalid": "the {value_length} bytes of value of system event {event} are not the FlatBuffers table "
    "that version {event_version} must have",
    "event-table-compressed": "the {value_length} bytes of value of system event {event} are compressed; version "
    "{event_version} must have its FlatBuffers table as it is",
    "marker-version-unknown": "marker version {marker_version}; there are 0 and 2",
    "marker-version-withdrawn": "marker version {marker_version}, which was withdrawn; there are 0 and 2",
    "nmeta-exceeds-value": "nmeta {nmeta} is more than the {value_length} bytes behind the key",
    "nmeta-invalid": "extended metadata of {nmeta} bytes that does not add up",
    "enum-out-of-range": "{form} with {odd_number_field}",
    "status-unknown": "status {status:#06x} in {form} has no name",
    "event-version-unknown": "system event {event} of version {event_version}, which it does not have",
    "json-number-too-large": "{form} whose JSON value has a number that is too large; a stream id (sid) must be at "
    "most 65535, of a larger one servers keep 16 bits",
    "records-malformed": "{form} whose {value_length} bytes of value do not divide into whole {expected}",
}
_BY_NUMBER = {NUMBER[name]: sentence for name, sentence in SENTENCES.items()}
#: Columns that sentences name and nobody else wants.
_SPOKEN = frozenset(("form", "expected", "has_reserved"))
#: What the words of a fact name.
_VALUE_OF = {
    "odd_number_field": "odd_number_value",
    "odd_flags_field": "odd_flags_value",
    "has_reserved": "reserved",
}
#: What numbers are called in all sentences.
_WORDS: dict[str, Mapping[int, str]] = {
    "form": message_words.FORMS,
    "opcode": message_words.OPCODES,
    "magic": message_words.MAGICS,
    "datatype": message_words.DATATYPES,
    "odd_number_field": message_words.NUMBER_FIELD_WORDS,
    "odd_flags_field": message_words.FLAG_FIELD_WORDS,
    "has_reserved": {0: "something in a reserved field", 1: "{reserved:#x} in its reserved field"},
}
#: By rule, what sentences say that a message should have.
_EXPECTED = {
    "FRM-03": message_words.EXTRAS,
    "FRM-05": message_words.VALUES,
    "FRM-06": message_words.ALLOWED_DATATYPES,
    "FRM-14": message_words.ENTRIES,
}
#: Defects that a header shows; for the others the body must have been captured.
_OF_HEADERS = frozenset(
    (
        *("lengths-exceed-body", "body-too-large", "unknown-magic", "unknown-opcode", "unknown-subtype"),
        *("wrong-direction", "extras-length-unknown", "extras-missing", "extras-unexpected", "key-missing"),
        *("key-unexpected", "value-missing", "value-unexpected", "value-length", "datatype-invalid"),
        *("datatype-not-allowed", "cas-not-zero", "cas-zero", "status-unknown", "key-too-long"),
    )
)
#: What a frame has only because bytes of it are missing.
_OF_CUT_FRAMES = ("truncated-header", "truncated-frame")


def flag(defect: str) -> int:
    """Return the number that stands for a defect in columns of defects."""
    return NUMBER[defect]


def _facts(texts: list[str]) -> dict[str, None]:
    return dict.fromkeys(name for text in texts for _, name, _, _ in Formatter().parse(text) if name)


def by_defects(
    rule: str,
    severity: Severity | None = None,
    *,
    column: str = "",
    when: Term | None = None,
    unknown: tuple[Unknown, ...] = (),
    name: str = "",
) -> Check:
    """Return a check that no message has one of the defects of a rule: those that are errors, or the milder ones.

    ``severity`` is that of the findings where it differs from the rule's; warnings take the milder defects.
    """
    mild = severity is Severity.WARNING
    column = column or f"{'warning' if mild else 'error'}_{rule.lower().replace('-', '_')}"
    defect: Term = getattr(col, column)
    bad = defect > 0
    kind = "oddity" if mild else "flaw"
    defects = [spec.id for spec in DEFECTS if DEFECT_COLUMNS[column][NUMBER[spec.id]]]
    facts = _facts([SENTENCES[name] for name in defects])
    facts |= {value: None for field, value in _VALUE_OF.items() if field in facts}
    if mild:
        when = bad if when is None else when & bad
    words = {name: _WORDS[name] for name in facts if name in _WORDS} | {column: _BY_NUMBER}
    if "expected" in facts:
        words["expected"] = _EXPECTED[column.split("_", 1)[1].upper().replace("_", "-")]
    return Check(
        "messages",
        ~bad,
        f"{{{column}}}",
        when=when,
        unknown=(*_undecided(column, bad, defects), *unknown),
        facts=(column, *(name for name in facts if name not in _SPOKEN)),
        spoken=tuple(name for name in facts if name in _SPOKEN),
        root=f"{column}_root",
        name=name or kind,
        severity=severity,
        words=words,
        exported_as={column: column.replace("error_", "flaw_").replace("warning_", "oddity_")},
    )


def _undecided(column: str, bad: Term, defects: list[str]) -> tuple[Unknown, ...]:
    """Return why a message may be undecided: what was not captured, and what depends on a dialect that is not known."""
    found = [Unknown(SEARCHED.reason, bad & SEARCHED.when)]
    cut = [NUMBER[name] for name in defects if name in _OF_CUT_FRAMES]
    if cut:
        found.append(Unknown("gap", getattr(col, column).one_of(cut)))
    if not _OF_HEADERS.issuperset(defects):
        found.append(Unknown("gap", (col.missing > 0) & ~bad))
    judged_by = column.split("_", 1)[1].upper().replace("_", "-")
    found += dialect_unknown(judged_by, bad)
    return tuple(found)


def dialect_unknown(rule: str, bad: Term) -> tuple[Unknown, ...]:
    """Return the reason that the dialect of a bad message is not known, which upr and dcp judge differently, if any."""
    found = []
    for dialect, read_in_it in ((Dialect.UPR, col.is_upr), (Dialect.DCP, ~col.is_upr)):
        differing = dialect_differences.differing_opcodes(rule, dialect)
        if differing:
            found.append(Unknown("dialect", bad & col.dialect_unknown & read_in_it & col.opcode.one_of(differing)))
    return tuple(found)


def by_dialect_forms() -> Check:
    """Return a check that messages have the form of the dialect that is spoken."""
    dialects = {1: "upr", 2: "dcp"}
    return Check(
        "dialect_forms",
        col.shape_of.equals(col.settled),
        SENTENCES[OTHER_DIALECT],
        unknown=(Unknown("dialect", col.settled.equals(NOT_SETTLED)),),
        facts=("opcode", "extras_length", "shape_of", "settled"),
        spoken=("form", "expected"),
        root="root",
        name="dialect",
        words={
            "opcode": message_words.OPCODES,
            "form": message_words.FORMS,
            "expected": message_words.EXTRAS,
            "shape_of": dialects,
            "settled": dialects,
        },
    )


def unframed_bytes(when: Term, because: str, evidence: str) -> Check:
    """Return a check that there are no bytes between frames."""
    return Check(
        "unframed_bytes",
        NEVER,
        because,
        when=when,
        unknown=(Unknown("gap", col.lost),),
        facts=("skipped",),
        evidence=(evidence,),
        between=evidence,
        name="strays",
    )
