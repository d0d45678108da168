"""Packets as files: pcap and pcapng, in micro- or nanoseconds, one file or several.

Knows the two containers and how files follow each other; must not know what is in a packet.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from operator import add
from pathlib import PurePath
from typing import IO, TYPE_CHECKING

import numpy as np

from dissector.capture.pcapng import PACKET
from dissector.capture.pcapng_writer import APPLICATION, INTERFACE_NAME, RESOLUTION, interface, section_header
from dissector.errors import UsageError
from dissector.generate.packets import IPV4, IPV6, LINKS, LINKTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from dissector.array_types import Longs
    from dissector.generate.packets import Packed


FORMS = ("pcap", "pcapng")
SNAPLEN = 262_144  #: what recorders ask for when they want everything
_MICROSECONDS, _NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
_PCAP_RECORD = np.dtype([("seconds", "<u4"), ("fraction", "<u4"), ("captured", "<u4"), ("length", "<u4")])
_PCAPNG_RECORD = np.dtype(
    [
        ("type", "<u4"),
        ("total", "<u4"),
        ("interface", "<u4"),
        ("time_high", "<u4"),
        ("time_low", "<u4"),
        ("captured", "<u4"),
        ("length", "<u4"),
    ]
)
_INTERFACE_NAMES = (b"eth0", b"eth1")
_PADDING = tuple(bytes(count) for count in range(4))


@dataclass(frozen=True, slots=True)
class Medium:
    """How a capture is recorded and kept."""

    form: str = "pcapng"
    link: str = "ethernet"
    ip: int | None = None  #: 4 or 6; None: as the addresses are
    nanoseconds: bool = False
    interfaces: int = 1  #: with two, each side's packets are recorded on one of its own
    snaplen: int | None = None
    rotate: int | None = None  #: packets per file

    def __post_init__(self) -> None:
        if self.form not in FORMS or self.link not in LINKS or self.ip not in (None, IPV4, IPV6):
            raise UsageError(f"no such capture: {self.form}, {self.link}, IP version {self.ip}")
        if self.interfaces not in (1, 2):
            raise UsageError(f"a capture has 1 or 2 interfaces, not {self.interfaces}")
        if self.interfaces > 1 and self.form != "pcapng":
            raise UsageError("two interfaces need pcapng: let the name of the output end in .pcapng")

    @property
    def links(self) -> tuple[str, ...]:
        """Return the link layer of each interface; a second one is of another kind."""
        other = "ethernet" if self.link == "sll2" else "sll2"
        return (self.link, other)[: self.interfaces]

    def facts(self) -> dict[str, object]:
        """Return everything, for the truth."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def form_of(name: str) -> str:
    """Tell the form of a file by its name."""
    form = PurePath(name).suffix.lower().removeprefix(".")
    if form not in FORMS:
        raise UsageError(f"{name}: the name tells the form of the capture: let it end in .pcap or .pcapng")
    return form


def rotated_name(name: str, number: int) -> str:
    """Name a file of several: out.pcapng becomes out-00001.pcapng and so on."""
    path = PurePath(name)
    return str(path.with_name(f"{path.stem}-{number:05d}{path.suffix}"))


def file_header(medium: Medium) -> bytes:
    """Return what a file begins with."""
    snaplen = medium.snaplen or SNAPLEN
    if medium.form == "pcap":
        magic = _NANOSECONDS if medium.nanoseconds else _MICROSECONDS
        return struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snaplen, LINKTYPES[medium.link])
    blocks = [section_header((APPLICATION, b"uprscope"))]
    for index, link in enumerate(medium.links):
        options = ((INTERFACE_NAME, _INTERFACE_NAMES[index]), (RESOLUTION, bytes([_digits(medium, index)])))
        blocks.append(interface(LINKTYPES[link], snaplen, *options))
    return b"".join(blocks)


def _digits(medium: Medium, interface: int) -> int:
    """Return how many decimal digits of a second an interface's clock has; a second one counts finer."""
    return 9 if medium.nanoseconds or interface else 6


def records(medium: Medium, packed: Packed, times_ns: Longs) -> list[bytes]:
    """Return what is written for each packet."""
    lengths = np.fromiter(map(len, packed.packets), np.int64, len(packed.packets))
    packets: Sequence[bytes] = packed.packets
    captured = lengths
    if medium.snaplen is not None:
        captured = np.minimum(lengths, medium.snaplen)
        packets = [packet[: medium.snaplen] for packet in packets]
    if not medium.nanoseconds:
        times_ns = times_ns // 1000 * 1000
    heads = np.zeros(len(packets), _PCAP_RECORD if medium.form == "pcap" else _PCAPNG_RECORD)
    heads["captured"], heads["length"] = captured, lengths
    if medium.form == "pcap":
        heads["seconds"] = times_ns // 1_000_000_000
        heads["fraction"] = times_ns % 1_000_000_000 // (1 if medium.nanoseconds else 1000)
        return list(map(add, _rows(heads), packets))
    units = np.array([10 ** (9 - _digits(medium, index)) for index in range(medium.interfaces)])
    ticks = times_ns // units[packed.interfaces]
    heads["type"], heads["interface"] = PACKET, packed.interfaces
    heads["time_high"], heads["time_low"] = ticks >> 32, ticks & 0xFFFFFFFF
    heads["total"] = captured + (-captured % 4) + _PCAPNG_RECORD.itemsize + 4
    ends = heads["total"].tobytes()
    return [
        head + packet + _PADDING[-len(packet) % 4] + ends[at : at + 4]
        for head, packet, at in zip(_rows(heads), packets, range(0, len(ends), 4), strict=True)
    ]


def _rows(heads: npt.NDArray[np.void]) -> Iterator[bytes]:
    raw, size = heads.tobytes(), heads.dtype.itemsize
    return (raw[start : start + size] for start in range(0, len(raw), size))


@dataclass(slots=True)
class Files:
    """The files of a capture while they are written: one, or a new one after every so many packets."""

    medium: Medium
    #: Opens the file of this number, from 1. What was written to it is complete when the next one is opened.
    opener: Callable[[int], IO[bytes]]
    counts: list[int] = field(default_factory=list)  #: packets in each
    bytes_written: int = 0
    _stream: IO[bytes] | None = None

    def write(self, packets: Sequence[bytes]) -> None:
        """Write packets, each as its record."""
        at = 0
        while at < len(packets):
            stream = self._open()
            room = len(packets) if self.medium.rotate is None else self.medium.rotate - self.counts[-1]
            data = b"".join(packets[at : at + room])
            stream.write(data)
            self.bytes_written += len(data)
            self.counts[-1] += min(room, len(packets) - at)
            at += room

    def finish(self) -> None:
        """Write at least a header: a capture without packets is one, too."""
        self._open()

    def _open(self) -> IO[bytes]:
        full = self.counts and self.medium.rotate is not None and self.counts[-1] >= self.medium.rotate
        if self._stream is None or full:
            self._stream = self.opener(len(self.counts) + 1)
            self.counts.append(0)
            self.bytes_written += self._stream.write(file_header(self.medium))
        return self._stream
