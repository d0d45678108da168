"""What to read, in which order and in which parts: worked out before any packet is decoded.

Knows captures by their beginnings and their sizes; must not know Spark. The order is that of the single-process reader:
by the time of the first packet. Files that are large, plain and sound are cut into parts; how their ranges are walked
over (one after the other here, or by the tasks of a cluster) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from analysis.spark.read_options import Mode, SourceOptions
from analysis.spark.storage import find
from dissector.capture import split
from dissector.capture.split import WHOLE, FilePart, FileProbe, RangeScan
from dissector.errors import InputError

if TYPE_CHECKING:
    from analysis.spark.storage import Location

#: Looks at the beginnings of files wait for the network, not for the processor.
_LOOKS_AT_ONCE = 16


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
    """A part of a capture to be read by one task."""

    address: Location
    part: FilePart
    capture: int
    """Index of the capture in the run."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is left out, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A reading, laid out."""

    captures: tuple[str, ...]
    """Names, in the order of the run."""
    pieces: tuple[Split, ...]
    problems: tuple[Problem, ...] = ()


Walk: TypeAlias = Callable[[Sequence[ByteRange]], Sequence[RangeScan]]


def walk_range(stretch: ByteRange) -> RangeScan:
    """Walk over one range of a file."""
    with stretch.address.open() as file:
        return split.scan_range(
            file, stretch.address.name, stretch.context, stretch.start, stretch.stop, known=stretch.known
        )


def walk_here(stretches: Sequence[ByteRange]) -> list[RangeScan]:
    """Walk over ranges one after the other, in this process."""
    return [walk_range(stretch) for stretch in stretches]


def make_plan(names: Sequence[str], reading: SourceOptions, walk: Walk = walk_here) -> Plan:
    """Lay out the reading of paths, directories, patterns and addresses."""
    found, problems = begin(names, reading.mode)
    stretches: dict[int, list[ByteRange]] = {}
    for capture, (address, beginning) in enumerate(found):
        if beginning.splittable and (size := address.size()) > reading.split_bytes:
            cut = split.ranges(size, reading.split_bytes)
            stretches[capture] = [ByteRange(address, beginning.context, *each) for each in cut]
    walked = iter(walk([each for some in stretches.values() for each in some]))
    pieces: list[Split] = []
    for capture, (address, _) in enumerate(found):
        parts = [WHOLE]
        if capture in stretches:
            parts = _parts(stretches[capture], [next(walked) for _ in stretches[capture]])
        pieces += [Split(address, part, capture) for part in parts]
    return Plan(tuple(address.name for address, _ in found), tuple(pieces), tuple(problems))


def begin(names: Sequence[str], mode: Mode) -> tuple[list[tuple[Location, FileProbe]], list[Problem]]:
    """Find captures and put them into the order of their first packets; what is none is a problem, or an error."""
    addresses = find(names)
    problems: list[Problem] = []
    found: list[tuple[Location, FileProbe]] = []
    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
        for address, looked in zip(addresses, pool.map(_look, addresses), strict=True):
            if isinstance(looked, FileProbe):
                found.append((address, looked))
            elif mode is Mode.FAILFAST:
                raise looked
            else:
                problems.append(Problem(address.name, str(looked)))
    # Files without packets go last, files with the same time keep their order.
    found.sort(key=lambda each: (each[1].first_time_ns is None, each[1].first_time_ns or 0))
    return found, problems


def _look(address: Location) -> FileProbe | InputError:
    try:
        with address.open() as file:
            return split.probe_file(file, address.name)
    except InputError as error:
        return error


def _parts(stretches: Sequence[ByteRange], walked: Sequence[RangeScan]) -> list[FilePart]:
    def again(index: int, known: int) -> RangeScan:
        stretch = stretches[index]
        return walk_range(ByteRange(stretch.address, stretch.context, stretch.start, stretch.stop, known))

    cut = [(stretch.start, stretch.stop) for stretch in stretches]
    return split.parts_of(stretches[0].context, cut, walked, again)
