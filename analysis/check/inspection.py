"""Captures to findings in one call, for programs: ``check``, ``check_frames``, and what they return.

The command line is a thin layer over this.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from analysis.check.checker import MAX_FINDINGS, Checker
from analysis.check.selected_frames import SelectedFrames
from analysis.check.selection import EVERYTHING, Selection
from analysis.context import COLUMNS
from analysis.rules import RULES
from dissector.capture import expand
from dissector.capture.chunk_sizes import RULE_CHUNK_BYTES
from dissector.errors import UsageError
from dissector.frames.sources import are_rows, open_frames
from dissector.options import ReadOptions, ReadReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from analysis.check.findings import Finding, Tally
    from analysis.rules import Rule
    from dissector.capture import Input
    from dissector.frames.sources import BatchReader

NOT_INSPECTED = "was written without a look into documents: uprscope dissect --inspect writes rows that can be checked"


class CheckVerdict(StrEnum):
    """What a check came to, in a word or two."""

    VIOLATED = "violated"
    NOT_VIOLATED = "nothing violated"
    NOTHING_TO_CHECK = "nothing to check"  #: no message is what a selected rule is about
    NO_MESSAGES = "no messages"  #: of UPR or DCP

    @property
    def empty(self) -> bool:
        """Tell whether nothing was judged at all."""
        return self in (CheckVerdict.NOTHING_TO_CHECK, CheckVerdict.NO_MESSAGES)


@dataclass(slots=True)
class Inspection:
    """The result of a check."""

    findings: list[Finding]  #: worst first
    tallies: list[Tally]  #: one per rule, in the order of the rules
    frames: int
    connections: int
    left_out: int = 0  #: violations beyond the limit of their rule
    hidden: Counter[str] = field(
        default_factory=Counter
    )  #: violations that were not asked for, by the option that left them out
    report: ReadReport = field(default_factory=ReadReport)  #: what could not be read
    chosen_frames: int | None = None  #: of the connection that was asked for; None: none was
    has_upr: bool = True  #: there was a message of UPR or DCP

    @property
    def verdict(self) -> CheckVerdict:
        """Return what the check came to. Nothing is called sound where there was nothing to judge."""
        if not self.clean:
            return CheckVerdict.VIOLATED
        if not self.has_upr and not any(tally.violated for tally in self.tallies):
            return CheckVerdict.NO_MESSAGES
        if not any(tally.checked for tally in self.tallies):
            return CheckVerdict.NOTHING_TO_CHECK
        return CheckVerdict.NOT_VIOLATED

    @property
    def seen_instead(self) -> str:
        """Say what there was, where there was no message of UPR or DCP."""
        return self.report.seen_instead(self.frames)

    @property
    def clean(self) -> bool:
        """Tell whether nothing that was asked for was violated."""
        return not self.findings and not self.left_out


def check(
    captures: str | Path | Iterable[str | Path],
    *,
    rules: Sequence[Rule] = RULES,
    options: ReadOptions | None = None,
    limit: int = MAX_FINDINGS,
    selection: Selection = EVERYTHING,
) -> Inspection:
    """Check captures (paths, patterns, directories, or ``-``) against rules.

    >>> inspection = check("captures/09_feed_real_consumer.pcap")
    >>> for finding in inspection.findings:
    ...     print(finding.rule, finding.sentence, finding.display_filter())
    """
    named = [captures] if isinstance(captures, str) or not hasattr(captures, "__iter__") else list(captures)
    return inspect(
        expand([str(name) for name in named], rows=True),
        rules,
        options or ReadOptions(),
        limit=limit,
        selection=selection,
    )


def check_frames(
    batches: Iterable[pa.RecordBatch],
    *,
    rules: Sequence[Rule] = RULES,
    limit: int = MAX_FINDINGS,
    selection: Selection = EVERYTHING,
) -> Inspection:
    """Check frames that were read before, such as those of a Parquet file, in the order of their ``frame`` column."""
    checker = Checker(rules, limit=limit, selection=selection)
    frames = 0
    for batch in batches:
        frames += batch.num_rows
        checker.fold(batch)
    checker.finish()
    return inspection_of(checker, frames, ReadReport())


def inspect(
    inputs: Sequence[Input],
    rules: Sequence[Rule],
    options: ReadOptions,
    *,
    limit: int = MAX_FINDINGS,
    selection: Selection = EVERYTHING,
    watch: Callable[[BatchReader], Callable[[], None]] | None = None,
) -> Inspection:
    """Check captures; ``watch`` is told of the progress."""
    rules = checkable(inputs, rules)
    reader = reader_of(inputs, options)
    advance = watch(reader) if watch is not None else _nothing
    checker, chosen = Checker(rules, limit=limit, selection=selection), SelectedFrames(selection)
    for batch in reader:
        advance()
        checker.fold(batch)
        chosen.see(batch, checker.connection_ids)
    checker.finish()
    chosen.confirm()
    return inspection_of(checker, reader.report.frames, reader.report, chosen.count)


def checkable(inputs: Sequence[Input], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that the inputs can be checked against: rows may have been made without a look into documents.

    Raises UsageError if none is left.
    """
    if not are_rows(inputs) or not any(rule.inspects for rule in rules):
        return tuple(rules)
    from dissector.frames.stored_rows import StoredRows  # noqa: PLC0415 - rows only

    if StoredRows(inputs, ReadOptions(columns=frozenset())).inspected:
        return tuple(rules)
    left = tuple(rule for rule in rules if not rule.inspects)
    if not left:
        raise UsageError(f"{inputs[0].name}: {NOT_INSPECTED}")
    return left


def reader_of(inputs: Sequence[Input], options: ReadOptions) -> BatchReader:
    """Return a reader of frames with the columns that rules need."""
    chosen = dataclasses.replace(for_rules(options), columns=COLUMNS, document_keys=False)
    return open_frames(inputs, chosen, whole=True)


def for_rules(options: ReadOptions) -> ReadOptions:
    """Return the options for a reading that rules are checked in."""
    return dataclasses.replace(options, inspect=True, chunk_bytes=options.chunk_bytes or RULE_CHUNK_BYTES)


def _nothing() -> None:
    pass


def inspection_of(checker: Checker, frames: int, report: ReadReport, chosen: int | None = None) -> Inspection:
    """Return what a checker has found in so many frames, of which ``chosen`` are of the connection asked for."""
    return Inspection(
        findings=checker.findings,
        tallies=list(checker.tallies.values()),
        frames=frames,
        connections=checker.connections,
        left_out=checker.left_out,
        hidden=checker.hidden,
        report=report,
        chosen_frames=chosen,
        has_upr=checker.has_upr,
    )
