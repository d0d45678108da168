"""Rules across connections, kept up to date: what rings that came, changed or went can have changed is compared anew.

Knows which tables say what was compared before; must not know manifests, nor how versions are compared. What comes out
is what a comparison of everything would give.
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
    """What has happened to an archive's rings since the last comparison."""

    came: frozenset[str]  #: new ones, and those that have changed
    went: frozenset[str]  #: those that have changed, and those that are gone
    stayed: frozenset[str]

    @classmethod
    def between(cls, before: dict[str, str], now: dict[str, str]) -> RingDelta:
        """Compare the states of rings, by ring."""
        stayed = frozenset(name for name, state in now.items() if before.get(name) == state)
        return cls(frozenset(now) - stayed, frozenset(before) - stayed, stayed)


def compare(spark: SparkSession, archive: Path, folder: Path, move: RingDelta) -> None:
    """Compare what is due, and write the tables about it below a folder; of spans, only those of rings that came.

    Where no ring has stayed everything is due, and nothing is read of what was there before.
    """
    frames, connections = (spark_tables.read(spark, archive, table) for table in (FRAMES, CONNECTIONS))
    numbers = count()

    @cache
    def shown_by(rings: frozenset[str]) -> DataFrame:
        place = spark_tables.uri(folder / f"_told{next(numbers)}")
        return versions(seqno_spans.of_rings(frames, rings), seqno_spans.of_rings(connections, rings), place)

    def shown(rings: Collection[str]) -> DataFrame:
        return shown_by(frozenset(rings))

    spark_tables.write(seqno_spans.spans(shown(move.came)), folder, SPANS)
    now = spark_tables.read(spark, folder, SPANS)
    if move.stayed:
        known, earlier = (spark_tables.read(spark, archive, table) for table in (SPANS, COMPARED))
        told, now = updated(shown, now, known, earlier, move, spark_tables.uri(folder / "_due"))
    else:
        told = xcn_01.compared(seqno_spans.placed(shown(move.came), None))
    place = folder / COMPARED.name / f"ring={ACROSS}"
    told.select(*COMPARED.schema.names).write.parquet(spark_tables.uri(place), compression="zstd")
    roots = xcn_01.roots(spark_tables.read(spark, folder, COMPARED))
    tally, found = _tally(roots), list[Finding]()
    if tally.violated:
        broken = roots.where("violated > 0").orderBy("bucket", "vbucket", "branch").limit(MAX_FINDINGS).cache()
        rings = seqno_spans.rings(now, seqno_spans.points(broken))
        found = xcn_01.findings(shown(rings), broken)
        tally.unlisted = tally.violated - broken.selectExpr("sum(violated)").collect()[0][0]
        broken.unpersist()
    parts = PartFiles(folder, ACROSS, folder.name)
    parts.write(FINDINGS, table_of([row_of(finding) for finding in found], FINDINGS.columns))
    parts.write(SUMMARY, table_of([rule_summary.row_of(tally, len(found))], SUMMARY.columns))
    for name in parts.close():
        publish(folder, name)


def updated(
    shown: Callable[[Collection[str]], DataFrame],
    came: DataFrame,
    known: DataFrame,
    earlier: DataFrame,
    move: RingDelta,
    place: str,
) -> tuple[DataFrame, DataFrame]:
    """Return what was compared, brought up to date, and the spans of all rings.

    ``shown`` gives the versions that rings show; ``came`` are the spans of those that came, ``known`` all of before;
    ``earlier`` is what was compared then. ``place`` is where it notes what is due.
    """
    standing = seqno_spans.of_rings(known, move.stayed)
    seqno_spans.due(came.unionByName(seqno_spans.of_rings(known, move.went)), standing, earlier).write.parquet(place)
    due = came.sparkSession.read.parquet(place)
    now = came.unionByName(standing)
    fresh = xcn_01.compared(seqno_spans.placed(shown(seqno_spans.rings(now, due)), due))
    held = seqno_spans.untouched(earlier, due).select(*COMPARED.schema.names)
    return fresh.select(*COMPARED.schema.names).unionByName(held), now


def _tally(roots: DataFrame) -> Tally:
    """Sum branches up to the tally of their rule."""
    names = ("checked", "undecided", "violated")
    checked, undecided, violated = roots.selectExpr(*(f"coalesce(sum({name}), 0L)" for name in names)).collect()[0]
    unknown = Counter({"setup": undecided} if undecided else {})
    return Tally(xcn_01.RULE.id, checked + undecided, violated, unknown)
