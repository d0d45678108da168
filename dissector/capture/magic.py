"""Magic numbers: the first bytes that tell a capture or a compressed file from anything else.

Judges bytes that others have read. File names never count: captures are renamed and rotated (``trace.pcap.gz.3``) and
their suffixes lie.
"""

from __future__ import annotations

from enum import StrEnum


class Container(StrEnum):
    """A capture file format."""

    PCAP = "pcap"
    PCAPNG = "pcapng"


class Compression(StrEnum):
    """A compressed file format that can be decoded as a stream."""

    GZIP = "gzip"
    ZSTD = "zstd"
    LZ4 = "lz4"
    XZ = "xz"
    BZIP2 = "bzip2"


class RowFormat(StrEnum):
    """A format of rows, as ``uprscope dissect`` writes frames: no capture, but what was read from one."""

    PARQUET = "Parquet"
    ARROW_STREAM = "Arrow stream"
    ARROW_FILE = "Arrow file"


HEAD_BYTES = 12
"""Enough of a file to decide: a pcapng section header shows its byte order in bytes 8 to 11."""

PCAP_MICROSECONDS = 0xA1B2C3D4
PCAP_NANOSECONDS = 0xA1B23C4D
PCAP_PATCHED = 0xA1B2CD34  # Alexey Kuznetzov's libpcap patch: longer record headers
PCAP_MAGICS = frozenset({PCAP_MICROSECONDS, PCAP_NANOSECONDS, PCAP_PATCHED})

SECTION_HEADER = b"\x0a\x0d\x0d\x0a"
BYTE_ORDER_LITTLE = b"\x4d\x3c\x2b\x1a"
BYTE_ORDER_BIG = b"\x1a\x2b\x3c\x4d"

_COMPRESSIONS = (
    (b"\x1f\x8b\x08", Compression.GZIP),
    (b"\x28\xb5\x2f\xfd", Compression.ZSTD),
    (b"\x04\x22\x4d\x18", Compression.LZ4),
    (b"\xfd7zXZ\x00", Compression.XZ),
    (b"BZh", Compression.BZIP2),
)

_ROWS = (
    (b"PAR1", RowFormat.PARQUET),
    (b"ARROW1\0\0", RowFormat.ARROW_FILE),
)
_ARROW_MESSAGE = b"\xff\xff\xff\xff"  #: begins each message of an Arrow stream, before the size of its metadata


def container(head: bytes) -> Container | None:
    """Recognise a capture by its first HEAD_BYTES (or fewer, of a file that is cut short)."""
    if len(head) < 4:
        return None
    if int.from_bytes(head[:4], "little") in PCAP_MAGICS or int.from_bytes(head[:4], "big") in PCAP_MAGICS:
        return Container.PCAP
    if head[:4] == SECTION_HEADER and (len(head) < HEAD_BYTES or head[8:12] in (BYTE_ORDER_LITTLE, BYTE_ORDER_BIG)):
        return Container.PCAPNG
    return None


def compression(head: bytes) -> Compression | None:
    """Recognise a compressed file by its first bytes; a skippable frame says nothing yet (see ``skippable``)."""
    for magic, kind in _COMPRESSIONS:
        if head.startswith(magic):
            # "BZh" alone is text too: the block size and the start of a block or of the end mark must follow.
            if kind is Compression.BZIP2 and not (b"1" <= head[3:4] <= b"9" and head[4:5] in (b"\x31", b"\x17", b"")):
                return None
            return kind
    return None


def skippable(head: bytes) -> bool:
    """Whether a skippable frame starts here; zstd and lz4 share its sixteen magic numbers."""
    return len(head) >= 4 and head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50


def row_format(head: bytes) -> RowFormat | None:
    """Recognise a file of rows by its first HEAD_BYTES."""
    for magic, kind in _ROWS:
        if head.startswith(magic):
            return kind
    # The size of the schema follows; then a table of flatbuffers, whose first number is an offset within it.
    sizes = head[4:8], head[8:12]
    size, root = (int.from_bytes(each, "little") for each in sizes)
    is_stream = head.startswith(_ARROW_MESSAGE) and len(head) == HEAD_BYTES and 0 < root < size < 1 << 24
    return RowFormat.ARROW_STREAM if is_stream else None


def describe(head: bytes) -> str:
    """Say what a file that is no capture starts with, readable for text and exact for bytes."""
    shown = head[:8]
    printable = shown.decode("ascii", "replace") if shown.isascii() else ""
    if printable.isprintable() and printable:
        return f"starts with {printable!r}"
    return f"starts with the bytes {shown.hex(' ')}"
