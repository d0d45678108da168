"""The rules that captures are checked against, one group per module."""

from __future__ import annotations

from analysis.rules import seqno
from analysis.rules.model import Check, Rule, Severity

__all__ = ["RULES", "RULE_BY_ID", "Check", "Rule", "Severity"]

RULES: tuple[Rule, ...] = (*seqno.RULES,)
RULE_BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}
