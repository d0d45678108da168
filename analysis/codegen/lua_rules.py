"""The rules in the Wireshark plugin: their titles and severities come from the catalogue, as everywhere else.

The plugin checks the cheap ones itself, frame by frame; the findings of all others reach it through packet comments,
which ``uprscope check --annotate`` writes. This module knows which rules the plugin's runtime has code for.
"""

from __future__ import annotations

from typing import NamedTuple

from analysis.rules import RULES
from analysis.rules.dialect_differences import differing_opcodes
from dissector.codegen import lua_plugin
from dissector.spec.model import Dialect

#: In the order that the plugin lists them.
CHECKED: tuple[str, ...] = (
    *(f"FRM-{number:02d}" for number in range(1, 16)),
    *("OPQ-01", "OPQ-03", "OPQ-04", "OPQ-06", "OPQ-07"),
    *("SNP-01", "SNP-02", "SNP-03", "SNP-04", "SNP-05", "SNP-08"),
    *("SEQ-01", "SEQ-02", "SEQ-07"),
    *("FLC-01", "FLC-02", "FLC-06", "FLC-07"),
)
#: Checked only if a preference of the plugin asks for it.
ON_DEMAND: dict[str, str] = {"FRM-10": "upr.inspect"}


class ListedRule(NamedTuple):
    """A rule of the catalogue, and how its findings come into Wireshark."""

    rule: str
    severity: str
    where: str  #: plugin: it checks the rule itself; annotate: as comments that uprscope check --annotate writes
    preference: str | None  #: of the plugin, that must be on
    title: str


def listing() -> list[ListedRule]:
    """Return all rules of the catalogue: its groups in their order, each by number."""
    groups = list(dict.fromkeys(rule.group for rule in RULES))
    return [
        ListedRule(
            rule.id,
            rule.severity.value,
            "plugin" if rule.id in CHECKED else "annotate",
            ON_DEMAND.get(rule.id),
            rule.title,
        )
        for rule in sorted(RULES, key=lambda rule: (groups.index(rule.group), rule.id))
    ]


#: Where the expert item of a rule hangs: the first of these fields that the message has, else the message's own line. A
#: rule that is not listed has those of its group.
FIELDS: dict[str, tuple[str, ...]] = {
    "FRM": ("opcode",),
    "FRM-01": ("body_length",),
    "FRM-03": ("extras_length",),
    "FRM-04": ("key_length",),
    "FRM-05": ("value_length",),
    "FRM-06": ("datatype",),
    "FRM-07": ("cas",),
    "FRM-09": ("collection_id", "key", "key_bytes"),
    "FRM-10": ("document", "value"),
    "FRM-11": ("marker_version",),
    "FRM-12": ("nmeta",),
    "FRM-14": ("value_length",),
    "FRM-15": ("vbucket",),
    "OPQ": ("opaque",),
    "OPQ-06": ("vbucket",),
    "OPQ-07": ("vbucket",),
    "SNP": ("snap_start_seqno", "by_seqno", "vbucket"),
    "SNP-05": ("key", "key_bytes", "by_seqno"),
    "SNP-08": ("snapshot_type", "vbucket"),
    "SEQ": ("by_seqno", "prepared_seqno", "start_seqno", "vbucket"),
    "FLC": ("buffer_bytes", "outstanding"),
    "FOL": ("start_seqno", "rollback_seqno", "by_seqno", "value_length"),
}


def fields_of(rule: str) -> tuple[str, ...]:
    """Return where a rule's expert item hangs."""
    return FIELDS.get(rule) or FIELDS.get(rule[:3], ())


def render() -> str:
    """Return the plugin with the rules of the catalogue."""
    return lua_plugin.render(
        lua_plugin.RuleRow(
            rule.id,
            rule.severity.value,
            rule.title,
            rule.source,
            rule.id in CHECKED,
            fields_of(rule.id),
            _differing(rule.id),
        )
        for rule in RULES
    )


def _differing(rule: str) -> dict[str, tuple[int, ...]] | None:
    found = {dialect.value: differing_opcodes(rule, dialect) for dialect in (Dialect.UPR, Dialect.DCP)}
    return {dialect: opcodes for dialect, opcodes in found.items() if opcodes} or None
