"""Measuring: seed a violation, check the capture, and tell whether it was found at the right message.

Outcomes: ``found``; ``elsewhere``, where other findings came that the recording does not have; ``unknown``, where a
rule that should speak has more undecided cases than before; ``missed``; ``crash``.
"""

from __future__ import annotations

import functools
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from analysis.check.inspection import Inspection, check
from tests.support.power import mutations
from tests.support.power.damage import DAMAGES
from tests.support.power.kinds import KINDS, Kind
from tests.support.power.messages import Message
from tests.support.power.packing import Packet, capture_of, packets_of
from tests.support.power.recordings import RELEASES, talks
from tests.support.power.talks import Talk

WHOLE = "whole"
FOUND, ELSEWHERE, UNKNOWN, MISSED, CRASH = OUTCOMES = ("found", "elsewhere", "unknown", "missed", "crash")
CONDITIONS = (WHOLE, *DAMAGES)
assert mutations.ALL  # importing them enters the kinds
#: Where in the list of possible places the sites lie, in this order: late ones first serve recordings that begin late.
SPREAD = (0.6, 0.92, 0.3, 0.75, 0.1, 0.45, 0.99, 0.2, 0.85, 0.5, 0.02, 0.67)
TRIES = 8  #: places of a conversation that are looked at for one site


@dataclass(frozen=True, slots=True)
class Trial:
    """One seeded violation under one condition, and what came of it."""

    kind: str
    release: str
    talk: str
    site: int  #: uid of the message that was edited
    condition: str
    outcome: str
    note: str = ""
    shown: bool = True  #: whether all that the violation shows by lies in the capture

    @property
    def group(self) -> str:
        return self.kind[:3]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What the checker said: its findings by rule and message, undecided cases by rule, or what it died of."""

    findings: frozenset[tuple[str, int]] = frozenset()
    undecided: tuple[tuple[str, int], ...] = ()
    crash: str = ""

    def has_of(self, rules: Iterable[str]) -> bool:
        return any(rule in rules for rule, _ in self.findings)


def _checked(packets: list[Packet]) -> _Verdict:
    with tempfile.NamedTemporaryFile(suffix=".pcap", dir=_memory()) as file:
        file.write(capture_of(packets))
        file.flush()
        try:
            result: Inspection = check(file.name)
        except Exception as problem:  # noqa: BLE001 - a crash is one of the outcomes
            return _Verdict(crash=f"{type(problem).__name__}: {problem}"[:120])
    found = set()
    for each in result.findings:
        for packet in {each.guilty.packet_first, each.guilty.packet_last}:
            found.add((each.rule, packets[packet - 1].message))
    undecided = tuple((each.rule, each.undecided) for each in result.tallies if each.undecided)
    return _Verdict(frozenset(found), undecided)


@functools.cache
def _memory() -> str | None:
    """Where temporary files cost nothing, if there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


@functools.cache
def _before(release: str, number: int) -> _Verdict:
    """The verdict on a conversation as it was recorded."""
    return _checked(packets_of(talks(release)[number].copied()))


def sites(kind: Kind, release: str, most: int) -> Iterator[tuple[int, Talk, Message, list[Message], Talk]]:
    """Seeded conversations: their number, the recording, the site, the guilty messages and the edited copy.

    Conversations take turns, so that few sites do not come from one of them alone.
    """
    found = 0
    seen: set[tuple[int, int]] = set()
    recorded = talks(release)
    choices = [list(kind.where(talk)) for talk in recorded]
    turns = [at for at, each in enumerate(choices) if each and not _before(release, at).has_of(kind.rules)]
    # The longer conversations first: in short ones nothing lies far from the guilty message.
    turns.sort(key=lambda at: (len(recorded[at].messages) < 100, zlib.crc32(f"{kind.title}{at}".encode())))
    for share in (*SPREAD, *SPREAD):
        for at in turns:
            for step in range(TRIES):
                places = choices[at]
                site = places[(int(share * len(places)) + step) % len(places)]
                if (at, site.uid) in seen:
                    continue
                seen.add((at, site.uid))
                edited = recorded[at].copied()
                guilty = kind.seed(edited, edited.by_uid(site.uid))
                if guilty:
                    yield at, recorded[at], site, guilty, edited
                    found += 1
                    break
            if found >= most:
                return


def trials(
    kind: Kind, release: str, most: int, conditions: Iterable[str] = CONDITIONS, keep: Path | None = None, seed: int = 1
) -> Iterator[Trial]:
    """Try a kind of violation on a server generation. Damaged captures are tried where the whole one shows it."""
    for number, recorded, site, guilty, edited in sites(kind, release, most):
        packets = packets_of(edited)
        blamed = {each.uid for each in guilty}
        before = dict(_before(release, number).undecided)
        for condition in (WHOLE, *(each for each in conditions if each != WHOLE)):
            chance = zlib.crc32(f"{kind.title}{recorded.name}{site.uid}{condition}{seed}".encode())
            shown = packets if condition == WHOLE else DAMAGES[condition](packets, blamed, edited.evidence, chance)
            if shown is None:
                continue
            verdict = _checked(shown)
            outcome, note = _outcome(kind, verdict, blamed, _before(release, number), before)
            there = edited.evidence <= {each.message for each in shown}
            yield Trial(kind.title, release, recorded.name, site.uid, condition, outcome, note, there)
            if keep is not None and outcome != FOUND:
                plain = f"{kind.title}-{release}-{recorded.name}-{site.uid}-{condition}".replace("/", "-")
                (keep / f"{plain.replace(':', '')}.pcap").write_bytes(capture_of(shown))
            if condition == WHOLE and outcome != FOUND:
                break


def _outcome(
    kind: Kind, verdict: _Verdict, blamed: set[int], recorded: _Verdict, before: dict[str, int]
) -> tuple[str, str]:
    if verdict.crash:
        return CRASH, verdict.crash
    if any(rule in kind.rules and message in blamed for rule, message in verdict.findings):
        return FOUND, ""
    new = sorted({rule for rule, message in verdict.findings - recorded.findings})
    undecided = {rule: count for rule, count in verdict.undecided if rule in kind.rules}
    if any(rule in kind.rules for rule in new):
        return ELSEWHERE, " ".join(new)
    if any(count > before.get(rule, 0) for rule, count in undecided.items()):
        return UNKNOWN, " ".join(new)
    return (ELSEWHERE if new else MISSED), " ".join(new)


def measure(
    kinds: Iterable[str],
    releases: Iterable[str] = tuple(RELEASES),
    *,
    most: int = 1,
    conditions: Iterable[str] = CONDITIONS,
    keep: Path | None = None,
    processes: int = 2,
    seed: int = 1,
) -> list[Trial]:
    """Try kinds on server generations, in several processes."""
    jobs = [(title, release, most, tuple(conditions), keep, seed) for release in releases for title in kinds]
    if processes < 2:
        return [each for job in jobs for each in _run(job)]
    with ProcessPoolExecutor(processes) as pool:
        return [each for made in pool.map(_run, jobs, chunksize=6) for each in made]


def _run(job: tuple[str, str, int, tuple[str, ...], Path | None, int]) -> list[Trial]:
    title, release, most, conditions, keep, seed = job
    return list(trials(KINDS[title], release, most, conditions, keep, seed))
