"""Writing classic pcap: packets of one link type, with times in nanoseconds."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING

from dissector.capture.clock import NANOSECONDS
from dissector.capture.magic import PCAP_NANOSECONDS
from dissector.errors import UsageError

if TYPE_CHECKING:
    from dissector.capture import PacketBlock

_NO_LIMIT = 262_144  #: the snapshot length of a recorder that wants everything
_LATEST = (1 << 32) - 1  #: seconds since the epoch


class PcapWriter:
    """A pcap file. It has no room for comments; one of several link types can't be written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._linktype: int | None = None
        self.packets = 0

    def write(self, block: PacketBlock, at: int, comment: str = "", data: bytes | None = None) -> None:
        """Copy one packet, with ``data`` in place of its bytes if that is given; the comment is lost."""
        del comment
        self._begin(int(block.linktype[at]))
        data = block.packet(at) if data is None else data
        seconds, fraction = divmod(int(block.time_ns[at]), NANOSECONDS)
        if not 0 <= seconds <= _LATEST:
            raise UsageError("a packet's time does not fit into pcap: let the name of the output end in .pcapng")
        self._stream.write(struct.pack("<4I", seconds, fraction, len(data), int(block.original[at])) + data)
        self.packets += 1

    def finish(self) -> None:
        """Write at least the header: a capture without packets is one, too."""
        if self._linktype is None:
            self._begin(1)

    def _begin(self, linktype: int) -> None:
        if self._linktype is None:
            self._linktype = linktype
            self._stream.write(struct.pack("<IHHiIII", PCAP_NANOSECONDS, 2, 4, 0, 0, _NO_LIMIT, linktype))
        elif linktype != self._linktype:
            raise UsageError(
                f"link types {self._linktype} and {linktype} do not go into one pcap file: "
                "let the name of the output end in .pcapng"
            )
