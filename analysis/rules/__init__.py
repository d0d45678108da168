"""The rules that captures are checked against, one group per module."""

from __future__ import annotations

from analysis.rules import cross, flow_control, framing, framing_content, opaque, opaque_streams, seqno, snapshot
from analysis.rules.model import Check, Rule, Severity

__all__ = ["GLOBAL_RULES", "RULES", "RULE_BY_ID", "Check", "Rule", "Severity"]

RULES: tuple[Rule, ...] = (
    *framing.RULES,
    *framing_content.RULES,
    *opaque.RULES,
    *opaque_streams.RULES,
    *snapshot.RULES,
    *seqno.RULES,
    *flow_control.RULES,
)
RULE_BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}
#: Rules that look from one connection at another: only ``uprscope archive`` checks them.
GLOBAL_RULES: tuple[Rule, ...] = cross.RULES
