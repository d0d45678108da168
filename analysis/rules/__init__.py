"""The rules that captures are checked against, one group per module."""

from __future__ import annotations

from analysis.rules import (
    agreements,
    connection,
    cross,
    failover,
    flow_control,
    framing,
    framing_content,
    liveness,
    opaque,
    opaque_streams,
    seqno,
    snapshot,
    takeover,
)
from analysis.rules.model import Check, Rule, Severity

__all__ = ["GLOBAL_RULES", "RULES", "RULE_BY_ID", "Check", "Rule", "Severity"]

_CONNECTION = sorted((*connection.RULES, *agreements.RULES), key=lambda rule: rule.id)
RULES: tuple[Rule, ...] = (
    *framing.RULES,
    *framing_content.RULES,
    *_CONNECTION,
    *opaque.RULES,
    *opaque_streams.RULES,
    *snapshot.RULES,
    *seqno.RULES,
    *flow_control.RULES,
    *failover.RULES,
    *takeover.RULES,
    *liveness.RULES,
)
RULE_BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}
#: Rules that look from one connection at another: only ``uprscope archive`` checks them.
GLOBAL_RULES: tuple[Rule, ...] = cross.RULES
