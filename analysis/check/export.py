"""Findings for programs: rows of one schema, JSON documents, JUnit reports."""

from __future__ import annotations

import json
from html import escape
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from dissector.frames.schema import Column
from dissector.frames.writers import open_writer
from dissector.frames.written_numbers import hex_of
from dissector.summary.schema import schema_of, table_of
from dissector.terminal.style import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.check.findings import Finding, FrameRef
    from analysis.check.inspection import Inspection
    from analysis.rules import Rule

FORMATS = ("text", "json", "ndjson", "csv", "parquet", "junit")

_FRAME_TYPE = pa.struct(
    [
        ("role", pa.string()),
        ("frame", pa.int64()),
        ("capture", pa.string()),
        ("packet_first", pa.int64()),
        ("packet_last", pa.int64()),
        ("time_ns", pa.int64()),
    ]
)
_FACT_TYPE = pa.struct([("name", pa.string()), ("value", pa.int64())])

COLUMNS: tuple[Column, ...] = (
    Column("id", pa.string(), "name of the finding: the same in every run over the same traffic"),
    Column("rule", pa.string(), "id of the rule that is broken (uprscope explain rules)"),
    Column("severity", pa.string(), "error, warning or info"),
    Column("verdict", pa.string(), "violated"),
    Column("title", pa.string(), "what must hold"),
    Column("sentence", pa.string(), "why it does not, with the numbers"),
    Column(
        "fault",
        pa.string(),
        "who is at fault: producer, consumer, proxy (it plays the producer to a consumer) or capture; where the roles "
        "are not known, sender or receiver of the guilty frame",
    ),
    Column("next_step", pa.string(), "what to look at next"),
    Column("connection", pa.string(), "stable id of the connection, as in frames"),
    Column("vbucket", pa.int32(), "vbucket; null: the finding is about the connection"),
    Column("stream_id", pa.int32(), "stream id, where streams have one"),
    Column("capture", pa.string(), "capture file of the guilty frame"),
    Column("frame", pa.int64(), "number of the guilty frame in the run"),
    Column("packet_first", pa.int64(), "number of the packet in which the guilty frame begins"),
    Column("packet_last", pa.int64(), "number of the packet that completes it"),
    Column("time_ns", pa.int64(), "time of that packet, nanoseconds since the epoch"),
    Column("frames", pa.list_(_FRAME_TYPE), "all frames that prove it, the guilty one first"),
    Column("facts", pa.list_(_FACT_TYPE), "the numbers of the sentence, by name"),
    Column("echoes", pa.int64(), "further violations that go back to the same root"),
    Column("filter", pa.string(), "Wireshark display filter that shows the packets"),
)
SCHEMA = schema_of(COLUMNS)


def row_of(finding: Finding) -> dict[str, Any]:
    """Lay a finding out as a row."""
    guilty = finding.guilty
    return {
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "verdict": "violated",
        "title": finding.title,
        "sentence": finding.sentence,
        "fault": finding.fault or None,
        "next_step": finding.next_step or None,
        "connection": finding.connection,
        "vbucket": finding.vbucket,
        "stream_id": finding.stream_id,
        "capture": guilty.capture,
        "frame": guilty.frame,
        "packet_first": guilty.packet_first,
        "packet_last": guilty.packet_last,
        "time_ns": guilty.time_ns,
        "frames": [_frame(frame) for frame in finding.frames],
        "facts": [{"name": name, "value": value} for name, value in finding.facts.items()],
        "echoes": finding.echoes,
        "filter": finding.display_filter(),
    }


def _frame(frame: FrameRef) -> dict[str, Any]:
    return {name: getattr(frame, name) for name in _FRAME_TYPE.names}


def write(kind: str, stream: IO[bytes], inspection: Inspection, rules: Sequence[Rule]) -> None:
    """Write findings in one of the formats for programs."""
    rows = [row_of(finding) for finding in inspection.findings]
    if kind == "json":
        document = {
            "verdict": inspection.verdict.value,
            "frames": inspection.frames,
            "connections": inspection.connections,
            "lost": inspection.report.losses(),
            "hidden": dict(sorted(inspection.hidden.items())),
            "left_out": inspection.left_out,
            "rules": [_tally(tally, rule) for tally, rule in zip(inspection.tallies, rules, strict=True)],
            "findings": [plain(row) for row in rows],
        }
        stream.write((json.dumps(document, indent=2) + "\n").encode())
    elif kind == "ndjson":
        stream.write(b"".join(map(ndjson, inspection.findings)))
    elif kind == "junit":
        stream.write(junit(inspection, rules).encode())
    else:
        table = table_of(rows, COLUMNS)
        if kind == "csv":
            table = _flat(table)
        writer = open_writer(kind, stream, table.schema)
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()


def ndjson(finding: Finding) -> bytes:
    """Write a finding as a line of NDJSON."""
    return (json.dumps(plain(row_of(finding)), separators=(",", ":")) + "\n").encode()


def fact_of(name: str, value: int) -> int | str:
    """Return a fact as JSON and CSV have it: CAS and uuids are identifiers."""
    return hex_of(value) if name.rpartition("_")[2] in {"cas", "uuid"} else value


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Make a row fit for JSON: facts by name, identifiers as text, and no nulls."""
    facts = {fact["name"]: fact_of(fact["name"], fact["value"]) for fact in row["facts"]}
    return {name: value for name, value in {**row, "facts": facts}.items() if value is not None}


def _tally(tally: Any, rule: Rule) -> dict[str, Any]:
    return {
        "rule": tally.rule,
        "severity": rule.severity.value,
        "title": rule.title,
        "verdict": tally.verdict,
        "checked": tally.checked,
        "held": tally.held,
        "violated": tally.violated,
        "unknown": dict(sorted(tally.unknown.items())),
    }


def _flat(table: pa.Table) -> pa.Table:
    """Write lists as text: CSV has none."""
    frames = [" ".join(f"{each['role']}={each['frame']}" for each in row) for row in table.column("frames").to_pylist()]
    facts = [
        " ".join(f"{each['name']}={fact_of(each['name'], each['value'])}" for each in row)
        for row in table.column("facts").to_pylist()
    ]
    for name, texts in (("frames", frames), ("facts", facts)):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, pa.field(name, pa.string()), pa.array(texts, pa.string()))
    return table


def junit(inspection: Inspection, rules: Sequence[Rule]) -> str:
    """Return a JUnit report: a test case per rule, failed where it is violated, skipped where nothing was decided."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in inspection.findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    cases: list[str] = []
    skipped = 0
    for tally, rule in zip(inspection.tallies, rules, strict=True):
        found = by_rule.get(rule.id, [])
        cases.append(f"  <testcase classname={_attribute(rule.group)} name={_xml(f'{rule.id}: {rule.title}')}>")
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            text = "\n".join(escape(one_line(_told(each))) for each in found)
            kind = _attribute(found[0].severity.value)
            cases.append(f"    <failure type={kind} message={_xml(found[0].sentence + more)}>{text}</failure>")
        elif tally.checked == tally.undecided:
            skipped += 1
            why = "could not be decided" if tally.checked else "nothing to check"
            cases.append(f"    <skipped message={_attribute(why)}/>")
        cases.append("  </testcase>")
    counts = f'tests="{len(rules)}" failures="{len(by_rule)}" errors="0" skipped="{skipped}"'
    head = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuite name="uprscope" {counts}>']
    return "\n".join([*head, *cases, "</testsuite>", ""])


def _told(finding: Finding) -> str:
    """Return a finding in a line: what happened, whose fault it is, where it is, what to look at next."""
    parts = [finding.sentence, f"at fault: {finding.fault}" if finding.fault else "", _where(finding)]
    parts.append(f"next: {finding.next_step}" if finding.next_step else "")
    return f"{finding.id}: {'; '.join(part for part in parts if part)}"


def _where(finding: Finding) -> str:
    return f"connection {finding.connection}, {guilty_place(finding)}, {finding.display_filter()}"


def _attribute(text: str) -> str:
    """Return text as an attribute's value; xml.sax.saxutils would import urllib and http as well."""
    return f'"{escape(text)}"'


def _xml(text: str) -> str:
    return _attribute(one_line(text))


def guilty_place(finding: Finding) -> str:
    """Return where a finding's guilty frame is, for people."""
    guilty = finding.guilty
    first, last = guilty.packet_first, guilty.packet_last
    packets = f"packet {first}" if first == last else f"packets {first} to {last}"
    return f"frame {guilty.frame}, {packets} of {guilty.capture}"
