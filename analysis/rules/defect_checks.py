"""Checks of single messages: a defect that the dissector found becomes a violation of its rule.

Has a sentence for each defect. A message with missing bytes is not judged, nor is one after a loss, nor one on a
connection whose beginning was not captured: its dialect may be wrong then.
"""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

from analysis.context.defects import DEFECT_COLUMNS, NUMBER
from analysis.rules.expressions import NEVER, Term, col
from analysis.rules.model import Check, Severity, Unknown
from dissector.spec import registry
from dissector.spec.defects import DEFECTS
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Opcodes by name, for sentences; those of the draft mean other things, and stay numbers.
OPCODES: Mapping[int, str] = {
    each.opcode: f"{'an' if each.name[0] in 'aeio' else 'a'} {each.name.replace('_', ' ')}"
    for each in registry.MESSAGES
    if each.dialect is Dialect.DCP
}

#: By defect, why it breaks its rule: with the numbers that prove it.
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
    "framing-length-omitted": "framing length {framing_length} in {opcode} that has a stream id in front of its "
    "extras: a known defect of 7.0 servers, read with the stream id",
    "unknown-magic": "magic {magic} is none",
    "unknown-opcode": "the dialect has no opcode {opcode}",
    "unknown-subtype": "opcode {opcode} of the draft has no subtype {subtype}",
    "wrong-direction": "{opcode} with magic {magic}, with which it does not come",
    "extras-length-unknown": "{opcode} with {extras_length} bytes of extras, which no form of it has",
    "extras-missing": "{opcode} without extras",
    "extras-unexpected": "{opcode} with {extras_length} bytes of extras; it has none",
    "layout-of-other-dialect": "{opcode} with {extras_length} bytes of extras, as in another dialect",
    "frame-info-length": "an object in the {framing_length} bytes of framing extras has a length that it cannot have",
    "frame-info-repeated": "an object comes twice in the {framing_length} bytes of framing extras",
    "key-missing": "{opcode} without a key",
    "key-unexpected": "{opcode} with a key of {key_length} bytes; it has none",
    "value-missing": "{opcode} without a value",
    "value-unexpected": "{opcode} with a value of {value_length} bytes; it has none",
    "value-length": "{opcode} with a value of {value_length} bytes, which its fields do not add up to",
    "datatype-invalid": "datatype {datatype} has bits that mean nothing",
    "datatype-not-allowed": "datatype {datatype} on {opcode}, which cannot have it",
    "cas-not-zero": "{opcode} with a CAS; it has none",
    "cas-zero": "{opcode} with CAS 0",
    "reserved-not-zero": "{opcode} with something in a reserved field",
    "unknown-flag-bits": "{opcode} with flags that have no name (open {open_flags}, stream {stream_flags}, marker "
    "{snapshot_type}; -1: none)",
    "frame-info-unknown": "the {framing_length} bytes of framing extras have an object of no known kind",
    "collection-id-invalid": "a key of {key_length} bytes that does not start with a collection id: unsigned LEB128, "
    "canonical, at most 5 bytes",
    "key-empty": "a key of {key_length} bytes that is a collection id alone",
    "key-too-long": "a key of {key_length} bytes",
    "snappy-invalid": "datatype {datatype} says snappy, the {value_length} bytes of value do not",
    "snappy-too-large": "the {value_length} bytes of value say that they expand beyond the limit",
    "xattr-invalid": "datatype {datatype} says xattrs, and they do not add up in the {value_length} bytes of value",
    "json-invalid": "the {value_length} bytes of value of {opcode} (datatype {datatype}) are not the JSON that they "
    "should be",
    "marker-version-unknown": "marker version {marker_version}; there are 0 and 2",
    "marker-version-withdrawn": "marker version {marker_version}, which was withdrawn",
    "nmeta-exceeds-value": "nmeta {nmeta} is more than the {value_length} bytes behind the key",
    "nmeta-invalid": "extended metadata of {nmeta} bytes that does not add up",
    "enum-out-of-range": "{opcode} with a number that has no meaning (end reason {end_reason}, state {vbucket_state}, "
    "OSO flags {oso_flags}, event {event}, durability {durability_level}; -1: none)",
    "status-unknown": "status {status} in the response to {opcode} has no name",
    "event-version-unknown": "system event {event} of version {event_version}, which it does not have",
    "records-malformed": "{opcode} whose {value_length} bytes of value do not divide into whole entries",
}
_BY_NUMBER = {NUMBER[name]: sentence for name, sentence in SENTENCES.items()}


def flag(defect: str) -> int:
    """Return the number that stands for a defect in columns of defects."""
    return NUMBER[defect]


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
    sentences = [
        SENTENCES[spec.id] for spec in DEFECTS if spec.id in SENTENCES and DEFECT_COLUMNS[column][NUMBER[spec.id]]
    ]
    facts = dict.fromkeys(name for text in sentences for _, name, _, _ in Formatter().parse(text) if name)
    if mild:
        when = bad if when is None else when & bad
    return Check(
        "messages",
        ~bad,
        f"{{{column}}}",
        when=when,
        unknown=(
            Unknown("gap", (col.missing > 0) | (bad & col.lost)),
            # A connection is taken for one of the draft only where its messages prove it.
            Unknown("start", bad & ~col.opened.true() & ~col.draft),
            *unknown,
        ),
        facts=(column, *facts),
        root=f"{column}_root",
        name=name or kind,
        severity=severity,
        words={column: _BY_NUMBER, "opcode": OPCODES} if "opcode" in facts else {column: _BY_NUMBER},
        exported_as={column: column.replace("error_", "flaw_").replace("warning_", "oddity_")},
    )


def unframed_bytes(when: Term, because: str, *evidence: str) -> Check:
    """Return a check that there are no bytes between frames."""
    return Check(
        "unframed_bytes",
        NEVER,
        because,
        when=when,
        unknown=(Unknown("gap", col.lost),),
        facts=("skipped",),
        evidence=evidence,
        name="strays",
    )
