"""Rows of the table ``summary``: what came of each rule in each ring.

Knows how tallies add up: one checker's, and those of many tasks, in Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.rules import GLOBAL_RULES, RULES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analysis.check.findings import Tally

_RULES = {rule.id: rule for rule in (*RULES, *GLOBAL_RULES)}

_SUMMARY = """
with numbers as (
  select ring, rule, sum(checked) as checked, sum(violated) as violated, sum(unlisted) as unlisted
  from {tallies} group by ring, rule
), reasons as (
  select ring, rule, sort_array(collect_list(struct(reason, count))) as unknown, sum(count) as undecided
  from (
    select ring, rule, each.reason as reason, sum(each.count) as count
    from (select ring, rule, explode(unknown) as each from {tallies}) group by ring, rule, each.reason
  ) group by ring, rule
), found as (
  select ring, rule, count(*) as findings from {findings} group by ring, rule
)
select known.rule, known.severity, known.title,
  case when violated > 0 then 'violated' when coalesce(undecided, 0) > 0 then 'unknown'
       when checked > 0 then 'holds' else 'unchecked' end as verdict,
  checked, checked - violated - coalesce(undecided, 0L) as held, violated,
  coalesce(undecided, 0L) as undecided,
  coalesce(unknown, cast(array() as array<struct<reason: string, count: bigint>>)) as unknown,
  coalesce(findings, 0L) as findings, unlisted, ring
from numbers join {known} as known using (rule)
  left join reasons using (ring, rule) left join found using (ring, rule)
"""


def summary_row(tally: Tally, findings: int) -> dict[str, Any]:
    """Return a row of the summary; ``findings`` is the number of findings that are kept of the rule."""
    rule = _RULES[tally.rule]
    return {
        "rule": rule.id,
        "severity": rule.severity.value,
        "title": rule.title,
        "verdict": tally.verdict,
        "checked": tally.checked,
        "held": tally.held,
        "violated": tally.violated,
        "undecided": tally.undecided,
        "unknown": [{"reason": reason, "count": count} for reason, count in sorted(tally.unknown.items())],
        "findings": findings,
        "unlisted": tally.unlisted,
    }


def summary_table(tallies: DataFrame, findings: DataFrame) -> DataFrame:
    """Return the summary of many tallies; they have a ring, a rule, numbers and reasons."""
    spark = tallies.sparkSession
    rows = [(rule.id, rule.severity.value, rule.title) for rule in _RULES.values()]
    known = spark.createDataFrame(rows, "rule string, severity string, title string")
    return spark.sql(_SUMMARY, tallies=tallies, findings=findings, known=known)
