"""The batch job: brings an archive up to date with captures, reading only what is new or has changed.

Knows the order of the steps: find, read, check, commit, compare across connections, commit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.archive import check_by_ring, cross_check, manifest, progress, spark_tables, transaction
from analysis.archive.check_by_connection import findings_of, outcomes, tallies_of
from analysis.archive.ingest import RESULT, ingest_task
from analysis.archive.manifest import Manifest, ManifestEntry
from analysis.archive.part_files import publish
from analysis.archive.rings import Capture, find_captures, group_into_rings
from analysis.archive.rule_summary import summary_table
from analysis.archive.schema import FINDINGS, QUARANTINE, SPANS, SUMMARY
from analysis.rules import GLOBAL_RULES, RULES
from analysis.spark.map_in_arrow import map_in_arrow, spark_schema
from dissector import __version__
from dissector.errors import InputError
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from analysis.archive.rings import Ring

#: Small rings share a task until it has this many bytes to read.
_TASK_BYTES = 64 << 20


@dataclass(slots=True)
class Outcome:
    """What a run did, and the contents of the archive after it."""

    archive: Path
    manifest: Manifest
    read: list[str] = field(default_factory=list)  #: ids of the rings that were new or changed
    kept: int = 0  #: rings that were in the archive and did not change
    gone: int = 0  #: captures of the archive whose files are gone
    recovered: bool = False  #: an earlier run had been interrupted

    @property
    def frames(self) -> int:
        """Return how many frames the archive holds."""
        return sum(entry.frames for entry in self.manifest.rings.values())


def run(
    spark: SparkSession,
    archive: Path,
    names: Sequence[str],
    options: ReadOptions | None = None,
    *,
    separate: bool = False,
) -> Outcome:
    """Bring an archive up to date with captures: files, directories, patterns, URIs."""
    chosen = options or ReadOptions()
    archive = archive.absolute()
    captures = find_captures(names, without=archive)
    fresh = not archive.exists()
    with transaction.locked(archive):
        recovered = transaction.recover(archive)
        before = manifest.read(archive)
        made_by = _made_by(chosen, separate=separate)
        known = [each for entry in before.rings.values() for each in entry.captures]
        found = group_into_rings(
            _with_known_captures(captures, known, redo=made_by != before.made_by), separate=separate
        )
        changed = [ring for ring in found if made_by != before.made_by or not _is_current(before, ring)]
        outcome = Outcome(archive, before, [ring.id for ring in changed], recovered=recovered)
        if changed:
            try:
                outcome.manifest = _add(spark, archive, changed, before, made_by, chosen)
            except InputError:
                shutil.rmtree(archive if fresh else archive / "_staging", ignore_errors=True)
                raise
        outcome.gone = len({each.path for each in known} - _paths(outcome.manifest))
        outcome.kept = len(outcome.manifest.rings) - len(changed)
        if outcome.manifest.across_of != _ring_states(outcome.manifest):
            outcome.manifest = _compare(spark, archive, outcome.manifest)
    return outcome


def _with_known_captures(given: Sequence[Capture], known: Sequence[Capture], *, redo: bool) -> list[Capture]:
    """Add captures of the archive whose files still exist: those of the given rings, or all with ``redo``."""
    found = {each.path: each for each in given}
    touched = {each.directory for each in given}
    beside = {_system_of(each.path): each for each in given}
    for each in known:
        if each.path not in found and (redo or each.directory in touched):
            # The manifest has no credentials: use those of a given capture on the same file system.
            now = Capture.of(each.path, beside=beside.get(_system_of(each.path)))
            if now is not None:
                found[each.path] = now
    return list(found.values())


def _system_of(path: str) -> str:
    """Return scheme and host of a URI; empty for a local path."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}" if separator else ""


def _is_current(before: Manifest, ring: Ring) -> bool:
    entry = before.rings.get(ring.id)
    return entry is not None and entry.holds(ring)


def _add(
    spark: SparkSession, archive: Path, changed: list[Ring], before: Manifest, made_by: str, options: ReadOptions
) -> Manifest:
    """Read and check rings, and replace what the archive has of them."""
    folder = transaction.begin(archive, uuid.uuid4().hex[:12])
    size = sum(ring.size for ring in changed)
    count = f"{len(changed)} ring{'s' if len(changed) > 1 else ''} of captures ({size:,} bytes)"
    with progress.step(spark.sparkContext, f"reading {count}"):
        entries = _ingest(spark, folder, changed, options)
    read = {name for name, entry in entries.items() if entry.left_out < len(entry.captures)}
    if not read and not before.rings:
        raise InputError(_nothing_readable(spark, folder, sum(entry.left_out for entry in entries.values())))
    with progress.step(spark.sparkContext, "checking connections"):
        _check(spark, folder)
    for name in transaction.staged(folder):
        entries[_ring_of(name)].files.append(name)
    stale = before.made_by != made_by
    replaced = [*(before.rings if stale else (name for name in entries if name in before.rings))]
    after = dataclasses.replace(before, made_by=made_by, rings={**({} if stale else before.rings), **entries})
    remove = [name for ring in replaced for name in before.rings[ring].files]
    transaction.commit(archive, folder, remove, after)
    return after


def _ingest(spark: SparkSession, folder: Path, changed: list[Ring], options: ReadOptions) -> dict[str, ManifestEntry]:
    size = sum(ring.size for ring in changed)
    tasks = min(len(changed), max(2 * spark.sparkContext.defaultParallelism, size // _TASK_BYTES))
    # Rings are sorted by size and a task gets neighbours, so interleave large and small ones.
    shared = spark.sparkContext.broadcast([ring for task in range(tasks) for ring in changed[task::tasks]])
    numbers = spark.range(0, len(changed), 1, tasks)
    results = map_in_arrow(numbers, ingest_task(folder, lambda: shared.value, options), spark_schema(RESULT)).collect()
    by_id = {ring.id: ring for ring in changed}
    entries: dict[str, ManifestEntry] = {}
    for row in results:
        ring = by_id[row["ring"]]
        counts = {name: row[name] for name in ("frames", "connections", "left_out", "damaged")}
        entries[ring.id] = ManifestEntry(ring.place, ring.captures, [], **counts)
        for name in row["files"]:
            publish(folder, name)
    shared.destroy()
    return entries


def _check(spark: SparkSession, folder: Path) -> None:
    rings = check_by_ring.rings_below(folder)
    whole, partitions = check_by_ring.whole_or_partitioned(rings, spark.sparkContext.defaultParallelism)
    check_by_ring.check_rings(spark, folder, rings, whole)
    if not partitions:
        return
    path = spark_tables.uri(folder / "_outcomes")
    large = {name: rings[name] for name in partitions}
    # Written once: findings and tallies come from the same tasks.
    outcomes(spark, large, partitions).write.parquet(path)
    found = spark.read.parquet(path)
    kept = findings_of(found)
    spark_tables.write(kept, folder, FINDINGS)
    spark_tables.write(summary_table(tallies_of(found), kept), folder, SUMMARY)


def _compare(spark: SparkSession, archive: Path, before: Manifest) -> Manifest:
    """Check the rules across connections, where changed rings may have changed their results."""
    folder = transaction.begin(archive, uuid.uuid4().hex[:12])
    states = _ring_states(before)
    delta = cross_check.RingDelta.between(before.across_of, states)
    with progress.step(spark.sparkContext, "comparing connections"):
        cross_check.compare(spark, archive, folder, delta)
    kept = [name for name in before.across if name.startswith(f"{SPANS.name}/") and _ring_of(name) in delta.unchanged]
    after = dataclasses.replace(before, across=[*kept, *transaction.staged(folder)], across_of=states)
    transaction.commit(archive, folder, sorted({*before.across} - {*kept}), after)
    return after


def _nothing_readable(spark: SparkSession, folder: Path, count: int) -> str:
    first = spark_tables.read(spark, folder, QUARANTINE).orderBy("capture").first()
    example = f": {first['capture']}: {first['reason']}" if first is not None else ""
    return f"none of {count} files can be read{example}" if count > 1 else example.removeprefix(": ")


def _ring_of(name: str) -> str:
    return next(part for part in name.split("/") if part.startswith("ring=")).removeprefix("ring=")


def _paths(contents: Manifest) -> set[str]:
    return {each.path for entry in contents.rings.values() for each in entry.captures}


def _made_by(options: ReadOptions, *, separate: bool) -> str:
    """Return a hash of what decides the rows besides the captures: release, columns, options, rules."""
    rules = [rule.id for rule in (*RULES, *GLOBAL_RULES)]
    given = options.limits, sorted(options.ports.rules.items()), options.dialect, separate
    text = repr((__version__, SCHEMA.names, given, rules))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _ring_states(contents: Manifest) -> dict[str, str]:
    """Return a hash of each ring's captures: it changes when the ring does."""
    states = {}
    for name, entry in sorted(contents.rings.items()):
        captures = [(each.path, each.size, each.mtime_ns) for each in entry.captures]
        text = repr((contents.made_by, captures))
        states[name] = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return states
