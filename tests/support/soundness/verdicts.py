"""What the checker says of packets, brought back to bytes of the original capture; and what damage has made of it.

A place is a connection, a side and the offset of a message's first byte in the original stream. The reader under test
counts offsets in its own way where a capture begins late; which way is found by laying its frames over the messages
that are known to be there.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis.check.checker import Checker
from analysis.check.inspection import reader_of
from analysis.rules import RULES
from dissector.capture import Input
from dissector.options import ReadOptions
from tests.support.soundness import captures
from tests.support.soundness.messages import Message, messages
from tests.support.soundness.packets import Packet, by_connection

Place = tuple[int, int, int]
NOWHERE: Place = (-1, -1, -1)
_VOTES = 400  #: frames of a direction that are laid over messages


class Verdict(NamedTuple):
    """One clause of a rule about one message."""

    rule: str
    check: str
    severity: str
    place: Place


@dataclass(slots=True)
class Judgement:
    """What came of a check."""

    findings: dict[Verdict, str] = field(default_factory=dict)  #: with the sentence
    violations: set[Verdict] = field(default_factory=set)  #: with those that share a finding with others
    cleared: set[Verdict] = field(default_factory=set)  #: what was asked for and holds now
    error: str = ""  #: of the checker itself
    frames: int = 0


class _Recording(Checker):
    """A checker that remembers every violation, not only those that are findings of their own."""

    def __init__(self, watched: frozenset[str]) -> None:
        super().__init__(RULES)
        self.rows: list[tuple[str, str, str, Any]] = []
        self.held: list[tuple[str, str, str, Any]] = []
        self._watched = watched

    def _check(self, rule: Any, check: Any, table: Any, rows: Any) -> None:
        if rule.id in self._watched:
            self._note_held(rule, check, table, rows)
        super()._check(rule, check, table, rows)

    def _note_held(self, rule: Any, check: Any, table: Any, rows: Any) -> None:
        chosen = np.ones(table.size, bool) if rows is None else rows.copy()
        if check.when is not None:
            chosen &= check.when(table).astype(bool)
        # The terms are meant for these rows only.
        table = table.take(np.flatnonzero(chosen))
        if table.size:
            held = check.holds(table).astype(bool, copy=True)
            for unknown in check.unknown:
                held &= ~unknown.when(table).astype(bool)
            if held.any():
                refs = table.take(np.flatnonzero(held)).refs(check.guilty)
                self.held.append((rule.id, check.name, (check.severity or rule.severity).value, refs))

    def _report(self, rule: Any, check: Any, table: Any) -> None:
        self.rows.append((rule.id, check.name, (check.severity or rule.severity).value, table.refs(check.guilty)))
        super()._report(rule, check, table)


def judge(
    packets: Sequence[Packet], known: dict[int, list[Message]], watched: frozenset[str] = frozenset()
) -> Judgement:
    """Check packets; ``known`` has the messages of each connection of the original capture.

    ``watched`` are rules of which it is wanted, too, where they hold.
    """
    files: dict[int, list[Packet]] = {}
    for packet in packets:
        files.setdefault(packet.file, []).append(packet)
    result = Judgement()
    checker = _Recording(watched)
    placing = _Placing(known, {_name(index): each for index, each in files.items()})
    with tempfile.TemporaryDirectory(prefix="soundness", dir=_memory()) as folder:
        inputs = []
        for index, each in sorted(files.items()):
            path = Path(folder, _name(index))
            path.write_bytes(captures.write(each))
            inputs.append(Input(path.name, path))
        try:
            for batch in reader_of(inputs, ReadOptions()):
                placing.see(batch)
                checker.fold(batch)
                result.frames += batch.num_rows
            checker.finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a defect
            result.error = f"{type(error).__name__}: {error}"
            return result
    for finding in checker.findings:
        verdict = Verdict(finding.rule, finding.check, finding.severity.value, placing.of(finding.guilty.frame))
        result.findings[verdict] = f"{finding.sentence} [frame {finding.guilty.frame}, vb {finding.vbucket}]"
    for name, rows in (("violations", checker.rows), ("cleared", checker.held)):
        found = getattr(result, name)
        for rule, check, severity, refs in rows:
            found |= {Verdict(rule, check, severity, placing.of(frame)) for frame in refs["frame"].tolist()}
    return result


def _name(index: int) -> str:
    return f"{index:03}.pcap"


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - files of a moment


class _Placing:
    """Frames of a run, and where they lie in the original streams."""

    def __init__(self, known: dict[int, list[Message]], files: dict[str, list[Packet]]) -> None:
        self._starts = {
            (number, side): [each.start for each in sorted(found) if each.side == side]
            for number, found in known.items()
            for side in (0, 1)
        }
        self._files = files
        self._frames: dict[int, tuple[str, int, int, int, Packet]] = {}
        self._shifts: dict[tuple[str, int], int] = {}
        self._by_flow: dict[tuple[str, int], list[int]] = {}

    def see(self, batch: Any) -> None:
        """Remember a batch of frames."""
        names = ("frame", "connection", "direction", "start_offset", "end_offset", "capture", "packet_last")
        for frame, connection, side, start, end, capture, last in zip(
            *(batch.column(name).to_pylist() for name in names), strict=True
        ):
            self._frames[frame] = (connection, side, start, end, self._files[capture][last - 1])
            self._by_flow.setdefault((connection, side), []).append(frame)

    def of(self, frame: int) -> Place:
        """Return a frame's place."""
        if frame not in self._frames:
            return NOWHERE
        connection, side, start, _, packet = self._frames[frame]
        shift = self._shifts.get((connection, side))
        if shift is None:
            shift = self._shifts[connection, side] = self._shift(connection, side)
        return packet.connection.number, packet.side, start + shift

    def _shift(self, connection: str, side: int) -> int:
        """Return what lies between the reader's offsets and the original ones: what most frames agree upon."""
        votes: Counter[int] = Counter()
        frames = self._by_flow[connection, side]
        for frame in frames[:: max(len(frames) // _VOTES, 1)]:
            _, _, start, end, packet = self._frames[frame]
            starts = self._starts[packet.connection.number, packet.side]
            # The packet that completed the frame holds bytes of it.
            low, high = packet.offset - (end - start) + 1, packet.end
            found = starts[bisect_left(starts, low) : bisect_left(starts, high)]
            votes.update(each - start for each in found)
        return votes.most_common(1)[0][0] if votes else 0


def known_messages(packets: Sequence[Packet]) -> dict[int, list[Message]]:
    """Return the messages of every connection."""
    return {number: messages(each) for number, each in by_connection(packets).items()}


@dataclass(frozen=True, slots=True)
class Difference:
    """What damage has changed that it must not."""

    new: tuple[tuple[Verdict, str], ...]  #: findings at error or warning that the whole does not have
    cleared: tuple[Verdict, ...]  #: violations of the whole that hold now
    kept: int  #: findings of the whole that are still there
    error: str


#: Rules about a connection as a whole: the last message that came is blamed.
_OF_CONNECTIONS = frozenset(("FLC-04", "FLC-05"))


def _claim(verdict: Verdict) -> Verdict:
    """What a finding claims: whichever clause of its rule shows it."""
    place = (*verdict.place[:1], -1, -1) if verdict.rule in _OF_CONNECTIONS else verdict.place
    return verdict._replace(check="", place=place)


def compare(whole: Judgement, damaged: Judgement) -> Difference:
    """Hold a damaged capture's judgement against that of the whole one."""
    known = {_claim(each) for each in whole.violations}
    known |= {each._replace(severity="warning") for each in known}  # what proves that it is an error may be lost
    new = tuple(
        (verdict, sentence)
        for verdict, sentence in damaged.findings.items()
        if verdict.severity != "info" and _claim(verdict) not in known
    )
    still = damaged.violations
    cleared = tuple(sorted(each for each in damaged.cleared & whole.violations if each not in still))
    kept = sum(each in still for each in whole.findings)
    return Difference(new, cleared, kept, damaged.error)
