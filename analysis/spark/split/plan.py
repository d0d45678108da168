"""Which captures to read, in which order and in which splits: worked out before any packet is decoded.

Knows captures by their beginnings and sizes. The order is that of the single-process reader: by the time of the first
packet. A large file that is not compressed and has whole records is cut into splits; its byte ranges are walked over
to find the record boundaries, here or by the tasks of a cluster (``walk``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from analysis.spark.capture_order import SkippedFile, captures_in_order
from dissector.capture import split
from dissector.capture.split import WHOLE, FilePart, RangeScan

if TYPE_CHECKING:
    from analysis.spark.read_options import SourceOptions
    from analysis.spark.storage import Location


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of a file to be walked over."""

    address: Location
    context: bytes
    start: int
    stop: int
    known: int | None = None
    """A record to begin at; None: search for one."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a capture, to be read by one task."""

    address: Location
    part: FilePart
    capture: int
    """Index of the capture in the run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The captures and splits of a run."""

    captures: tuple[str, ...]
    """Names, in the order of the run."""
    splits: tuple[Split, ...]
    skipped: tuple[SkippedFile, ...] = ()


Walk: TypeAlias = Callable[[Sequence[ByteRange]], Sequence[RangeScan]]


def walk_range(byte_range: ByteRange) -> RangeScan:
    """Walk over one range of a file."""
    with byte_range.address.open() as file:
        return split.scan_range(
            file, byte_range.address.name, byte_range.context, byte_range.start, byte_range.stop, known=byte_range.known
        )


def walk_in_process(byte_ranges: Sequence[ByteRange]) -> list[RangeScan]:
    """Walk over ranges one after the other, in this process."""
    return [walk_range(byte_range) for byte_range in byte_ranges]


def make_plan(names: Sequence[str], reading: SourceOptions, walk: Walk = walk_in_process) -> Plan:
    """Plan the reading of paths, directories, patterns and addresses."""
    found, skipped = captures_in_order(names, reading.mode)
    byte_ranges: dict[int, list[ByteRange]] = {}
    for capture, (address, beginning) in enumerate(found):
        if beginning.splittable and (size := address.size()) > reading.split_bytes:
            cut = split.ranges(size, reading.split_bytes)
            byte_ranges[capture] = [ByteRange(address, beginning.context, *each) for each in cut]
    walked = iter(walk([each for some in byte_ranges.values() for each in some]))
    splits: list[Split] = []
    for capture, (address, _) in enumerate(found):
        parts = [WHOLE]
        if capture in byte_ranges:
            parts = _parts(byte_ranges[capture], [next(walked) for _ in byte_ranges[capture]])
        splits += [Split(address, part, capture) for part in parts]
    return Plan(tuple(address.name for address, _ in found), tuple(splits), tuple(skipped))


def _parts(byte_ranges: Sequence[ByteRange], walked: Sequence[RangeScan]) -> list[FilePart]:
    def again(index: int, known: int) -> RangeScan:
        byte_range = byte_ranges[index]
        return walk_range(ByteRange(byte_range.address, byte_range.context, byte_range.start, byte_range.stop, known))

    cut = [(byte_range.start, byte_range.stop) for byte_range in byte_ranges]
    return split.parts_of(byte_ranges[0].context, cut, walked, again)
