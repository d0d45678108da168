"""Small captures: packets that show a finding, and packets of chosen frames or connections.

For a finding, packets are copied and checked again until they show it by themselves. Packets are as they were captured,
but for log-ins, which are blanked, and what is redacted: a connection keeps its id, frames keep their offsets, and the
finding its name. Knows captures and packets; :mod:`analysis.slice.packets_needed` and
:mod:`analysis.slice.chosen_frames` say which of them are needed.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from analysis.check.inspection import inspect
from analysis.check.selection import EVERYTHING, Selection
from analysis.slice.packet_copy import CopyCounts, copy_packets
from analysis.slice.packet_owners import PacketOwners
from dissector.capture import Input
from dissector.capture.pcap_writer import PcapWriter
from dissector.capture.pcapng_writer import PcapngWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.check.findings import Finding
    from analysis.rules import Rule
    from analysis.slice.packet_choice import PacketChoice
    from analysis.slice.packets_needed import PacketsNeeded
    from dissector.frames.reader import FrameReader
    from dissector.options import ReadOptions, ReadReport

    Watch = Callable[[FrameReader], Callable[[], None]]


@dataclass(frozen=True, slots=True)
class SliceResult:
    """What a slice has in it."""

    packets: int
    what: str  #: which packets these are
    shown: bool = True  #: whether a check of them finds the finding again
    counts: CopyCounts = field(default_factory=CopyCounts)


def write_packets(
    inputs: Sequence[Input],
    options: ReadOptions,
    choice: PacketChoice,
    stream: IO[bytes],
    *,
    form: str = "pcapng",
    watch: Watch | None = None,
) -> tuple[SliceResult, ReadReport]:
    """Write the packets of a choice as ``form``, pcap or pcapng; return the report of the reading, too.

    ``inputs`` come in the order in which they are read.
    """
    with PacketOwners(options) as owners:
        report = owners.read(inputs, watch)
        return _write(inputs, owners, choice, stream, form, f"Kept: {choice.what}."), report


def write_slice(
    inputs: Sequence[Input],
    options: ReadOptions,
    finding: Finding,
    rule: Rule,
    needs: PacketsNeeded,
    stream: IO[bytes],
    *,
    form: str = "pcapng",
    beside: PacketChoice | None = None,
) -> SliceResult:
    """Write the smallest set of packets in which the rule shows the finding; if none does, the largest.

    Those of ``beside`` are written in any case.
    """
    with tempfile.TemporaryDirectory(prefix="uprscope-") as folder, PacketOwners(options) as owners:
        owners.read(inputs)
        trial = Path(folder, f"slice.{form}")
        tried: set[tuple[object, ...]] = set()
        result = SliceResult(0, "", shown=False)
        for each in needs.choices():
            if each.ranges in tried:
                continue
            tried.add(each.ranges)
            choice = needs.choice(each) if beside is None else needs.choice(each).beside(beside)
            comment = f"{finding.id}: {finding.title}, but {finding.sentence}. Kept: {choice.what}."
            with trial.open("wb") as output:
                made = _write(inputs, owners, choice, output, form, comment)
            result = SliceResult(made.packets, made.what, _shows(trial, options, finding, rule), made.counts)
            if result.shown:
                break
        with trial.open("rb") as source:
            shutil.copyfileobj(source, stream)
    return result


def _write(
    inputs: Sequence[Input], owners: PacketOwners, choice: PacketChoice, stream: IO[bytes], form: str, comment: str
) -> SliceResult:
    writer = PcapWriter(stream) if form == "pcap" else PcapngWriter(stream, comment)
    counts = copy_packets(inputs, owners, choice, writer)
    writer.finish()
    return SliceResult(writer.packets, choice.what, counts=counts)


def _shows(path: Path, options: ReadOptions, finding: Finding, rule: Rule) -> bool:
    renamed = options.pseudonyms is not None and options.pseudonyms.addresses  # then findings have other ids
    selection = EVERYTHING if renamed else Selection(only=frozenset((finding.id,)))
    again = replace(options, pseudonyms=None)
    return bool(inspect([Input(path.name, path)], (rule,), again, selection=selection).findings)
