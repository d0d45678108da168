"""The rules that the Wireshark plugin checks: their words and weights come from the catalogue, as everywhere else.

Knows which rules the plugin's runtime has code for; must not know how a rule is checked, here or there.
"""

from __future__ import annotations

from analysis.rules import RULE_BY_ID
from dissector.codegen import lua_plugin

#: In the order that the plugin lists them.
CHECKED: tuple[str, ...] = (
    *(f"FRM-{number:02d}" for number in range(1, 16)),
    *("OPQ-01", "OPQ-03", "OPQ-04", "OPQ-06", "OPQ-07"),
    *("SNP-01", "SNP-02", "SNP-03", "SNP-04", "SNP-05", "SNP-08"),
    *("SEQ-01", "SEQ-02", "SEQ-07"),
    *("FLC-01", "FLC-02", "FLC-06", "FLC-07"),
)


def render() -> str:
    """Return the plugin with the rules of the catalogue."""
    found = (RULE_BY_ID[name] for name in CHECKED)
    return lua_plugin.render(
        lua_plugin.RuleRow(rule.id, rule.severity.value, rule.title, rule.source) for rule in found
    )
