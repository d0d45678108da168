"""Runs cases: a capture, a chain of transformations and a seed. Two processes share them."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tests.support.soundness import captures
from tests.support.soundness.packets import Packet
from tests.support.soundness.sources import Source
from tests.support.soundness.transformations import apply
from tests.support.soundness.verdicts import Difference, Verdict, compare, judge


class Case(NamedTuple):
    """What is tried."""

    capture: str
    chain: str
    seed: int

    @property
    def command(self) -> str:
        """Return how to try it again."""
        return (
            f"python -m tests.support.soundness --capture '{self.capture}' --transformation {self.chain} "
            f"--seed {self.seed} --count 1 -v"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    case: Case
    difference: Difference

    @property
    def failed(self) -> bool:
        """Tell whether the property does not hold."""
        return bool(self.difference.new or self.difference.error)


@lru_cache(maxsize=8)
def source(name: str) -> Source:
    """Return a capture; its packets and its judgement are kept while it is in use."""
    return Source(name)


def transformed(case: Case) -> list[Packet]:
    """Return the packets of a case."""
    return apply(case.chain, source(case.capture).packets, case.seed, case.capture)


def run(case: Case) -> Outcome:
    """Try a case."""
    whole = source(case.capture)
    damaged = judge(transformed(case), whole.messages, whole.watched)
    return Outcome(case, compare(whole.whole, damaged))


def run_all(cases: Iterable[Case], processes: int = 2) -> Iterator[Outcome]:
    """Try cases, those of one capture in one process after another."""
    ordered = list(cases)
    if processes < 2:
        yield from map(run, ordered)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(run, ordered, chunksize=16)


def keep(case: Case, folder: Path) -> list[Path]:
    """Write the files of a case."""
    folder.mkdir(parents=True, exist_ok=True)
    packets = transformed(case)
    name = f"{case.capture}.{case.chain}.{case.seed}".replace("/", "_").replace("#", "-").replace("+", "_")
    written = []
    for file in sorted({packet.file for packet in packets}):
        path = folder / (f"{name}.pcap" if all(each.file == file for each in packets) else f"{name}.{file:02}.pcap")
        path.write_bytes(captures.write([each for each in packets if each.file == file]))
        written.append(path)
    return written


@dataclass
class Totals:
    """What came of all cases with one chain of transformations."""

    captures: int = 0
    failed: int = 0
    new: Counter[tuple[str, str]] = field(default_factory=Counter)  #: by rule and severity
    cleared: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        difference = outcome.difference
        self.captures += 1
        self.failed += outcome.failed
        self.new.update((verdict.rule, verdict.severity) for verdict, _ in difference.new)
        self.cleared.update(verdict.rule for verdict in difference.cleared)
        self.kept += difference.kept
        if difference.error:
            self.errors[difference.error] += 1

    def line(self) -> str:
        """Return it in a line."""
        words = [f"{rule} {severity} {count}" for (rule, severity), count in sorted(self.new.items())]
        words += [f"INTERNAL {error} {count}" for error, count in self.errors.items()]
        words += [f"(cleared {rule} {count})" for rule, count in sorted(self.cleared.items())]
        return f"{self.captures:6} captures, {self.failed:4} fail: {', '.join(words) or 'nothing new'}"


def signature(verdict: Verdict, sentence: str) -> str:
    """Return what kind of finding it is: the sentence without its numbers."""
    words = "".join("#" if letter.isdigit() else letter for letter in sentence.split(" [frame", maxsplit=1)[0])
    while "##" in words:
        words = words.replace("##", "#")
    return f"{verdict.rule} {verdict.severity}: {words}"
