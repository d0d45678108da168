"""Rules across connections, incrementally: only what new, changed and removed rings can have changed is compared again.

Knows which tables hold the results of earlier comparisons. The result is that of comparing everything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from analysis.archive import rule_summary, seqno_spans, spark_tables, xcn_01
from analysis.archive.document_versions import versions
from analysis.archive.part_files import PartFiles, publish
from analysis.archive.schema import ACROSS, COMPARED, CONNECTIONS, FINDINGS, FRAMES, SPANS, SUMMARY
from analysis.check.checker import MAX_FINDINGS
from analysis.check.export import row_of
from analysis.check.findings import Finding, Tally
from dissector.summary.schema import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RingDelta:
    """How the rings of an archive differ from those at the last comparison."""

    added: frozenset[str]  #: new and changed rings
    removed: frozenset[str]  #: changed and vanished rings
    unchanged: frozenset[str]

    @classmethod
    def between(cls, before: dict[str, str], now: dict[str, str]) -> RingDelta:
        """Compare the hashes of rings, by ring."""
        unchanged = frozenset(name for name, state in now.items() if before.get(name) == state)
        return cls(frozenset(now) - unchanged, frozenset(before) - unchanged, unchanged)


def compare(spark: SparkSession, archive: Path, folder: Path, delta: RingDelta) -> None:
    """Compare the intervals that have to be, and write the tables below a folder; spans only of added rings.

    If no ring is unchanged everything is compared, and no earlier results are read.
    """
    frames, connections = (spark_tables.read(spark, archive, table) for table in (FRAMES, CONNECTIONS))
    numbers = count()

    @cache
    def cached_versions(rings: frozenset[str]) -> DataFrame:
        scratch = spark_tables.uri(folder / f"_versions{next(numbers)}")
        return versions(
            seqno_spans.rows_of_rings(frames, rings), seqno_spans.rows_of_rings(connections, rings), scratch
        )

    def versions_of(rings: Collection[str]) -> DataFrame:
        return cached_versions(frozenset(rings))

    spark_tables.write(seqno_spans.ring_spans(versions_of(delta.added)), folder, SPANS)
    now = spark_tables.read(spark, folder, SPANS)
    if delta.unchanged:
        known, earlier = (spark_tables.read(spark, archive, table) for table in (SPANS, COMPARED))
        compared, now = compare_changed(versions_of, now, known, earlier, delta, spark_tables.uri(folder / "_due"))
    else:
        compared = xcn_01.compare_intervals(seqno_spans.with_interval(versions_of(delta.added), None))
    target = folder / COMPARED.name / f"ring={ACROSS}"
    compared.select(*COMPARED.schema.names).write.parquet(spark_tables.uri(target), compression="zstd")
    roots = xcn_01.roots(spark_tables.read(spark, folder, COMPARED))
    tally, found = _tally(roots), list[Finding]()
    if tally.violated:
        broken = roots.where("violated > 0").orderBy("bucket", "vbucket", "branch").limit(MAX_FINDINGS).cache()
        rings = seqno_spans.rings_showing(now, seqno_spans.violation_points(broken))
        found = xcn_01.findings(versions_of(rings), broken)
        tally.unlisted = tally.violated - broken.selectExpr("sum(violated)").collect()[0][0]
        broken.unpersist()
    parts = PartFiles(folder, ACROSS, folder.name)
    parts.write(FINDINGS, table_of([row_of(finding) for finding in found], FINDINGS.columns))
    parts.write(SUMMARY, table_of([rule_summary.summary_row(tally, len(found))], SUMMARY.columns))
    for name in parts.close():
        publish(folder, name)


def compare_changed(
    versions_of: Callable[[Collection[str]], DataFrame],
    added: DataFrame,
    known: DataFrame,
    earlier: DataFrame,
    delta: RingDelta,
    scratch: str,
) -> tuple[DataFrame, DataFrame]:
    """Return the comparisons, brought up to date, and the spans of all rings.

    ``versions_of`` gives the versions that rings show; ``added`` are the spans of added rings, ``known`` the spans at
    the last comparison, ``earlier`` its results. The intervals to compare are written to ``scratch``.
    """
    standing = seqno_spans.rows_of_rings(known, delta.unchanged)
    seqno_spans.intervals_to_compare(
        added.unionByName(seqno_spans.rows_of_rings(known, delta.removed)), standing, earlier
    ).write.parquet(scratch)
    due = added.sparkSession.read.parquet(scratch)
    now = added.unionByName(standing)
    fresh = xcn_01.compare_intervals(seqno_spans.with_interval(versions_of(seqno_spans.rings_showing(now, due)), due))
    valid = seqno_spans.results_outside(earlier, due).select(*COMPARED.schema.names)
    return fresh.select(*COMPARED.schema.names).unionByName(valid), now


def _tally(roots: DataFrame) -> Tally:
    """Sum branches up to the tally of the rule."""
    names = ("checked", "undecided", "violated")
    checked, undecided, violated = roots.selectExpr(*(f"coalesce(sum({name}), 0L)" for name in names)).collect()[0]
    unknown = Counter({"setup": undecided} if undecided else {})
    return Tally(xcn_01.RULE.id, checked + undecided, violated, unknown)
