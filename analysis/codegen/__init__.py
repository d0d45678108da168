"""Files that derive from the rules, their tables and the findings: ``python -m analysis.codegen`` writes them."""

from __future__ import annotations

#: Every generated file below the repository's root, and the module that renders it.
FILES: dict[str, str] = {
    "analysis/check/examples.json": "analysis.codegen.examples",
    "docs/rules.md": "analysis.codegen.rules_page",
    "docs/bugs.md": "analysis.codegen.bugs_page",
    "docs/context.md": "analysis.codegen.context_page",
    "docs/findings.md": "analysis.codegen.findings_page",
    "lua/upr.lua": "analysis.codegen.lua_rules",
}
