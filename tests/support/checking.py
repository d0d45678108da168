"""Running the checker in tests: conversations or captures in, findings and tallies out.

Knows how traffic becomes batches of frames; knows no rule.
"""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from analysis.check.checker import Checker
from analysis.check.findings import Finding, Tally
from analysis.context import COLUMNS
from analysis.rules import RULES, Rule
from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.generate.capture_files import Medium
from dissector.generate.conversation import Conversation, Emission
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Broken, Fault, FaultPlace, Script, size_all_buffer_acks
from dissector.generate.scenarios import scenario
from dissector.generate.segments import placed
from dissector.generate.to_capture import write
from dissector.options import ReadOptions

_PLACE = ("src", "sport", "dst", "dport", "start_offset")


@dataclass
class Result:
    """What the checker made of some traffic."""

    findings: list[Finding]
    tallies: dict[str, Tally]
    frames: dict[int, tuple[object, ...]] = field(default_factory=dict)  # number to sender, receiver and offset

    def of(self, *prefixes: str) -> list[Finding]:
        """The findings of a rule, or of a group of them."""
        return [each for each in self.findings if each.rule.startswith(prefixes)]

    @property
    def summary(self) -> tuple[object, ...]:
        """Everything that must not depend on how the frames came."""
        found = sorted(
            (each.id, each.sentence, each.fault, each.next_step, each.guilty.frame, each.echoes)
            for each in self.findings
        )
        return found, {rule: (each.checked, each.violated, dict(each.unknown)) for rule, each in self.tallies.items()}


class _Kept(io.BytesIO):
    """A file whose bytes are wanted when it was closed."""

    def close(self) -> None:
        pass


def captured(conversations: Sequence[Conversation], troubles: Impairments | None = None, seed: int = 1) -> bytes:
    """Return settled conversations as a capture."""
    stream = _Kept()
    write(conversations, lambda _: stream, seed=seed, medium=Medium(form="pcap"), impairments=troubles)
    return stream.getvalue()


def batches_of(source: bytes | Path, chunk: int | None = None) -> list[pa.RecordBatch]:
    """Read a capture."""
    options = ReadOptions(columns=COLUMNS.union(_PLACE), chunk_bytes=chunk)
    if isinstance(source, Path):
        return list(FrameReader([Input(source.name, source)], options))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made.pcap")
        path.write_bytes(source)
        return list(FrameReader([Input(path.name, path)], options))


def single_rows(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Cut batches as small as can be."""
    return [batch.slice(row, 1) for batch in batches for row in range(batch.num_rows)]


def check(batches: Iterable[pa.RecordBatch], rules: Sequence[Rule] = RULES) -> Result:
    """Check batches of frames."""
    checker = Checker(rules)
    frames: dict[int, tuple[object, ...]] = {}
    for batch in batches:
        checker.fold(batch)
        columns = (batch.column(name).to_pylist() for name in ("frame", *_PLACE))
        frames |= {number: tuple(place) for number, *place in zip(*columns, strict=True)}
    checker.finish()
    return Result(checker.findings, checker.tallies, frames)


def findings_of(
    conversations: Sequence[Conversation],
    troubles: Impairments | None = None,
    chunk: int | None = None,
    *,
    seed: int = 1,
    rules: Sequence[Rule] = RULES,
) -> Result:
    """Check settled conversations, after what networks and recorders do to them."""
    return check(batches_of(captured(conversations, troubles, seed), chunk), rules)


def clean(name: str, seed: int = 1) -> list[Conversation]:
    """Return a scenario's conversations, settled."""
    talks = scenario(name).conversations(seed)
    size_all_buffer_acks(talks)
    return talks


def broken(fault: Fault, seed: int = 1, frame: int = 1) -> tuple[list[Conversation], Broken]:
    """Apply a fault at home; return the conversations and what was done."""
    talks = scenario(fault.scenario).conversations(seed)
    result = fault.apply(Script(talks, random.Random(seed), FaultPlace(frame)))  # noqa: S311 - no secret
    size_all_buffer_acks(talks)
    return talks, result


def frame_of(result: Result, talks: Sequence[Conversation], emission: Emission) -> int:
    """Return the number of the frame that a message became, in a capture without losses."""
    for index, talk in enumerate(talks):
        for sent in placed(talk, index):
            if sent.emission is emission:
                ends = (talk.client, talk.client_port), (talk.server, talk.server_port)
                place = (*ends[emission.side], *ends[1 - emission.side], sent.offset)
                return next(number for number, found in result.frames.items() if found == place)
    raise LookupError("no such message")
