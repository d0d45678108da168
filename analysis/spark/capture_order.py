"""The captures that paths stand for, in the order of their first packets: the order in which they are read together.

Knows the beginnings of files. A file that is no capture is skipped and reported, or ends the reading, depending on
the mode.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.spark.read_options import Mode
from analysis.spark.storage import find_files
from dissector.capture import split
from dissector.capture.split import FileProbe
from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.spark.storage import Location

#: Threads that read the beginnings of files: they wait for the network, not for the processor.
_READ_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is left out, and why."""

    name: str
    reason: str


def captures_in_order(names: Sequence[str], mode: Mode) -> tuple[list[tuple[Location, FileProbe]], list[SkippedFile]]:
    """Find captures and sort them by the time of their first packet; raises InputError for another file if FAILFAST."""
    addresses = find_files(names)
    skipped: list[SkippedFile] = []
    found: list[tuple[Location, FileProbe]] = []
    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        for address, result in zip(addresses, pool.map(_read_beginning, addresses), strict=True):
            if isinstance(result, FileProbe):
                found.append((address, result))
            elif mode is Mode.FAILFAST:
                raise result
            else:
                skipped.append(SkippedFile(address.name, str(result)))
    # Files without packets go last, files with the same time keep their order.
    found.sort(key=lambda each: (each[1].first_time_ns is None, each[1].first_time_ns or 0))
    return found, skipped


def _read_beginning(address: Location) -> FileProbe | InputError:
    try:
        with address.open() as file:
            return split.probe_file(file, address.name)
    except InputError as error:
        return error
