"""The batch job: what is new or changed among captures goes into an archive, and nothing else is touched.

Knows the order of things: find, read, check, commit, compare across, commit. Must not know bytes, rules or files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.archive import identity, manifest, staging, store, watching
from analysis.archive.checking import findings_of, outcomes
from analysis.archive.ingest import RESULT, ingests
from analysis.archive.manifest import Entry, Manifest
from analysis.archive.parts import uncover
from analysis.archive.rings import Capture, find, rings
from analysis.archive.summing import summary
from analysis.archive.tables import ACROSS, CONNECTIONS, FINDINGS, FRAMES, QUARANTINE, SUMMARY
from analysis.arrow_map import map_in_arrow, spark_schema
from analysis.checker import MAX_FINDINGS
from analysis.rules import GLOBAL_RULES, RULES
from dissector import __version__
from dissector.errors import InputError
from dissector.run import Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from analysis.archive.rings import Ring

_TALLIES = (
    "ring string, rule string, checked bigint, violated bigint, unlisted bigint, "
    "unknown array<struct<reason: string, count: bigint>>"
)

#: Small rings share a task until it has so much to read.
_TASK_BYTES = 64 << 20


@dataclass(slots=True)
class Outcome:
    """What a run did, and what the archive holds behind it."""

    archive: Path
    manifest: Manifest
    read: list[str] = field(default_factory=list)  #: ids of the rings that were new or changed
    kept: int = 0  #: rings that were there already
    gone: int = 0  #: captures that were in the archive and are not there any more
    recovered: bool = False  #: an earlier run had been interrupted

    @property
    def frames(self) -> int:
        """Return how many frames the archive holds."""
        return sum(entry.frames for entry in self.manifest.rings.values())


def run(
    spark: SparkSession, archive: Path, names: Sequence[str], options: Options | None = None, *, separate: bool = False
) -> Outcome:
    """Bring an archive up to date with captures: files, directories, patterns."""
    chosen = options or Options()
    archive = archive.absolute()
    captures = find(names, without=archive)
    fresh = not archive.exists()
    with staging.locked(archive):
        recovered = staging.recover(archive)
        before = manifest.read(archive)
        made_by = _made_by(chosen, separate=separate)
        known = [each for entry in before.rings.values() for each in entry.captures]
        there = rings(_still(captures, known, redo=made_by != before.made_by), separate=separate)
        changed = [ring for ring in there if made_by != before.made_by or not _held(before, ring)]
        outcome = Outcome(archive, before, [ring.id for ring in changed], recovered=recovered)
        if changed:
            try:
                outcome.manifest = _add(spark, archive, changed, before, made_by, chosen)
            except InputError:
                shutil.rmtree(archive if fresh else archive / "_staging", ignore_errors=True)
                raise
        outcome.gone = len({each.path for each in known} - _paths(outcome.manifest))
        outcome.kept = len(outcome.manifest.rings) - len(changed)
        if outcome.manifest.across_of != _state(outcome.manifest):
            outcome.manifest = _compare(spark, archive, outcome.manifest)
    return outcome


def _still(given: Sequence[Capture], known: Sequence[Capture], *, redo: bool) -> list[Capture]:
    """Add to the given captures those of their rings, or of all, that were read before and are still there."""
    found = {each.path: each for each in given}
    touched = {str(Path(path).parent) for path in found}
    for each in known:
        if each.path not in found and (redo or str(Path(each.path).parent) in touched):
            now = Capture.of(each.path)
            if now is not None:
                found[each.path] = now
    return list(found.values())


def _held(before: Manifest, ring: Ring) -> bool:
    entry = before.rings.get(ring.id)
    return entry is not None and entry.holds(ring)


def _add(
    spark: SparkSession, archive: Path, changed: list[Ring], before: Manifest, made_by: str, options: Options
) -> Manifest:
    """Read and check rings, and put them into the archive in place of what it has of them."""
    folder = staging.begin(archive, uuid.uuid4().hex[:12])
    size = sum(ring.size for ring in changed)
    count = f"{len(changed)} ring{'s' if len(changed) > 1 else ''} of captures ({size:,} bytes)"
    with watching.step(spark.sparkContext, f"reading {count}"):
        entries = _ingest(spark, folder, changed, options)
    read = {name for name, entry in entries.items() if entry.left_out < len(entry.captures)}
    if not read and not before.rings:
        raise InputError(_nothing(spark, folder, sum(entry.left_out for entry in entries.values())))
    with watching.step(spark.sparkContext, "checking connections"):
        _check(spark, folder)
    for name in staging.staged(folder):
        entries[_ring_of(name)].files.append(name)
    stale = before.made_by != made_by
    replaced = [*(before.rings if stale else (name for name in entries if name in before.rings))]
    after = dataclasses.replace(before, made_by=made_by, rings={**({} if stale else before.rings), **entries})
    remove = [name for ring in replaced for name in before.rings[ring].files]
    staging.commit(archive, folder, remove, after)
    return after


def _ingest(spark: SparkSession, folder: Path, changed: list[Ring], options: Options) -> dict[str, Entry]:
    size = sum(ring.size for ring in changed)
    tasks = min(len(changed), max(2 * spark.sparkContext.defaultParallelism, size // _TASK_BYTES))
    # They come largest first, and a task gets neighbours: deal them out like cards.
    shared = spark.sparkContext.broadcast([ring for task in range(tasks) for ring in changed[task::tasks]])
    numbers = spark.range(0, len(changed), 1, tasks)
    results = map_in_arrow(numbers, ingests(folder, lambda: shared.value, options), spark_schema(RESULT)).collect()
    places = {ring.id: ring for ring in changed}
    entries: dict[str, Entry] = {}
    for row in results:
        ring = places[row["ring"]]
        counts = {name: row[name] for name in ("frames", "connections", "left_out", "damaged")}
        entries[ring.id] = Entry(ring.place, ring.captures, [], **counts)
        for name in row["files"]:
            uncover(folder, name)
    shared.destroy()
    return entries


def _check(spark: SparkSession, folder: Path) -> None:
    frames = store.read(spark, folder, FRAMES)
    told = (folder / "_outcomes").as_uri()
    outcomes(frames).write.parquet(told)  # once: findings and tallies come of the same tasks
    found = spark.read.parquet(told)
    store.write(findings_of(found), folder, FINDINGS)
    tallies = found.where("tally is not null").select("ring", "tally.*")
    store.write(summary(tallies, store.read(spark, folder, FINDINGS)), folder, SUMMARY)


def _compare(spark: SparkSession, archive: Path, before: Manifest) -> Manifest:
    """Check the rules that look at everything there is."""
    folder = staging.begin(archive, uuid.uuid4().hex[:12])
    frames, connections = (store.read(spark, archive, table) for table in (FRAMES, CONNECTIONS))
    told = (folder / "_roots").as_uri()
    with watching.step(spark.sparkContext, "comparing connections"):
        identity.roots(frames, connections).write.parquet(told)
        roots = spark.read.parquet(told)
        broken = roots.where("violated > 0").orderBy("bucket", "vbucket", "branch").limit(MAX_FINDINGS)
        if broken.head(1):
            store.write_findings(identity.findings(frames, connections, broken), folder, ACROSS)
        store.write(summary(_tally(roots, broken), store.read(spark, folder, FINDINGS)), folder, SUMMARY)
    after = dataclasses.replace(before, across=staging.staged(folder), across_of=_state(before))
    staging.commit(archive, folder, before.across, after)
    return after


def _tally(roots: DataFrame, broken: DataFrame) -> DataFrame:
    """Sum branches up to the tally of their rule."""
    spark = roots.sparkSession
    names = ("checked", "undecided", "violated")
    checked, undecided, violated = roots.selectExpr(*(f"coalesce(sum({name}), 0L)" for name in names)).collect()[0]
    listed = broken.selectExpr("coalesce(sum(violated), 0L)").collect()[0][0]
    unknown = [("setup", undecided)] if undecided else []
    return spark.createDataFrame(
        [(ACROSS, identity.RULE.id, checked + undecided, violated, violated - listed, unknown)], _TALLIES
    )


def _nothing(spark: SparkSession, folder: Path, count: int) -> str:
    first = store.read(spark, folder, QUARANTINE).orderBy("capture").first()
    example = f": {first['capture']}: {first['reason']}" if first is not None else ""
    return f"none of {count} files can be read{example}" if count > 1 else example.removeprefix(": ")


def _ring_of(name: str) -> str:
    return next(part for part in name.split("/") if part.startswith("ring=")).removeprefix("ring=")


def _paths(contents: Manifest) -> set[str]:
    return {each.path for entry in contents.rings.values() for each in entry.captures}


def _made_by(options: Options, *, separate: bool) -> str:
    """Return what decides about rows beside the captures."""
    rules = [rule.id for rule in (*RULES, *GLOBAL_RULES)]
    text = repr((__version__, options.limits, sorted(options.ports.rules.items()), options.dialect, separate, rules))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _state(contents: Manifest) -> str:
    """Return what tells whether the rings are still the same."""
    text = repr((contents.made_by, sorted((name, entry.captures) for name, entry in contents.rings.items())))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
