"""Compressed captures: the same packets as the plain file, and every decodable byte of a damaged one."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dissector.capture import CaptureReader, open_capture
from dissector.errors import InputError
from tests.dissector.capture.test_build import (
    BASE_NS,
    Packet,
    noise,
    packets_of,
    pcap_file,
    pcapng_file,
    read_all,
    reasons,
)
from tests.support.paths import ROOT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SQUEEZE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor(level=3, write_checksum=True).compress,
    "lz4": lambda data: bytes(lz4.frame.compress(data, content_checksum=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB)),
    "xz": lambda data: lzma.compress(data, check=lzma.CHECK_CRC32),
    "bzip2": bz2.compress,
}
UNSQUEEZE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "zstd": zstandard.ZstdDecompressor().decompress,
    "lz4": lz4.frame.decompress,
    "xz": lzma.decompress,
    "bzip2": bz2.decompress,
}
FORMATS = sorted(SQUEEZE)
PACKETS = [Packet(BASE_NS + i * 1000, noise(i, 600) + bytes(900), 1500) for i in range(400)]
SAMPLE = pcap_file(PACKETS)
SMALL_PACKETS = PACKETS[:60]
SMALL = pcap_file(SMALL_PACKETS)
SMALL_SQUEEZED = {kind: squeeze(SMALL) for kind, squeeze in SQUEEZE.items()}
every_format = pytest.mark.parametrize("kind", FORMATS)


@every_format
@pytest.mark.parametrize("size", [64, 4096, 1 << 23])
def test_compressed_is_plain(kind: str, size: int) -> None:
    for data, packets in ((SAMPLE, PACKETS), (pcapng_file(packets_of(40)), packets_of(40))):
        outcome = read_all(SQUEEZE[kind](data), size)
        assert outcome.packets == packets
        assert outcome.damage == []


@every_format
def test_several_members_are_one_file(kind: str) -> None:
    parts = [SAMPLE[:1000], SAMPLE[1000:1001], b"", SAMPLE[1001:70_000], SAMPLE[70_000:]]
    outcome = read_all(b"".join(SQUEEZE[kind](part) for part in parts))
    assert outcome.packets == PACKETS
    assert outcome.damage == []


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_skippable_frames_say_nothing(kind: str) -> None:
    def skippable(number: int, size: int) -> bytes:
        return struct.pack("<II", 0x184D2A50 + number, size) + noise(number, size)

    squeeze = SQUEEZE[kind]
    data = b"".join(
        [
            skippable(0, 4),
            skippable(15, 300_000),
            squeeze(SAMPLE[:5000]),
            skippable(3, 0),
            skippable(4, 10),
            squeeze(SAMPLE[5000:]),
            skippable(5, 70_000),
        ]
    )
    outcome = read_all(data)
    assert outcome.packets == PACKETS
    assert outcome.damage == []
    cut = read_all(data[:-1])
    assert cut.packets == PACKETS
    assert reasons(cut) == ["truncated-compression"]


@every_format
def test_what_follows_the_compressed_data_is_reported(kind: str) -> None:
    outcome = read_all(SQUEEZE[kind](SAMPLE) + b"and then some text")
    assert outcome.packets == PACKETS
    assert reasons(outcome) == ["trailing-data"]
    assert outcome.damage[0].offset == len(SAMPLE)
    assert "'and then'" in outcome.damage[0].detail


@pytest.mark.parametrize("kind", ["gzip", "xz"])
def test_padding_with_zeros_is_no_damage(kind: str) -> None:
    outcome = read_all(SQUEEZE[kind](SAMPLE) + bytes(1024))
    assert outcome.packets == PACKETS
    assert outcome.damage == []


@every_format
@given(st.data())
def test_a_cut_leaves_every_packet_that_the_library_can_decode(kind: str, data: st.DataObject) -> None:
    whole = SMALL_SQUEEZED[kind]
    cut = data.draw(st.integers(16, len(whole) - 1))
    decodable = _decodable(kind, whole[:cut])
    assert SMALL.startswith(decodable)
    size = data.draw(st.sampled_from((64, 5000, 1 << 23)))
    if len(decodable) < 4:
        with pytest.raises(InputError, match=f"the {kind} data ends early"):
            read_all(whole[:cut], size)
        return
    outcome = read_all(whole[:cut], size)
    assert outcome.packets == SMALL_PACKETS[: max(0, (len(decodable) - 24) // 1516)]
    assert [d.offset for d in outcome.damage if d.reason == "truncated-compression"] == [len(decodable)]


@pytest.mark.parametrize("cut", [1, 4, 5, 8, 9, 13])
@every_format
def test_a_cut_loses_nothing_that_was_decoded_but_not_yet_fetched(kind: str, cut: int) -> None:
    """Much more than one piece comes out of the last few bytes."""
    packets = [Packet(BASE_NS + i * 1000, bytes(50_000), 50_000) for i in range(40)]
    if kind == "lz4":
        whole = bytes(lz4.frame.compress(pcap_file(packets), block_size=lz4.frame.BLOCKSIZE_MAX4MB))
    else:
        whole = SQUEEZE[kind](pcap_file(packets))
    decodable = _decodable(kind, whole[:-cut])
    if decodable:
        outcome = read_all(whole[:-cut])
        assert [d.offset for d in outcome.damage if d.reason == "truncated-compression"] == [len(decodable)]
        assert outcome.packets == packets[: (len(decodable) - 24) // 50_016]
    else:
        with pytest.raises(InputError, match="ends early"):
            read_all(whole[:-cut])


def test_gzip_holds_nothing_back_at_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library can have taken all input and still owe output when a piece is full."""
    monkeypatch.setattr("dissector.capture.compression._OUTPUT_BYTES", 512)
    packets = [Packet(BASE_NS + i * 1000, noise(i, 3) * 300, 900) for i in range(100)]
    whole = SQUEEZE["gzip"](pcap_file(packets))
    for cut in range(len(whole) // 4, len(whole), 5):
        outcome = read_all(whole[:cut])
        offsets = [d.offset for d in outcome.damage if d.reason == "truncated-compression"]
        assert offsets == [len(_decodable("gzip", whole[:cut]))]


def _decodable(kind: str, data: bytes) -> bytes:
    """Ask the library itself, with all the input: nothing fails in a cut file, so nothing is lost."""
    decoder = {
        "gzip": lambda: zlib.decompressobj(31),
        "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
        "lz4": lz4.frame.LZ4FrameDecompressor,
        "xz": lzma.LZMADecompressor,
        "bzip2": bz2.BZ2Decompressor,
    }[kind]()
    if kind == "lz4":  # without a limit it guesses one, and stops there
        return bytes(decoder.decompress(data, 1 << 24))
    return bytes(decoder.decompress(data))


@every_format
@given(st.randoms(use_true_random=False), st.sampled_from((64, 5000, 1 << 23)))
def test_corruption_never_raises_and_is_never_silent(kind: str, rng: random.Random, size: int) -> None:
    whole = bytearray(SMALL_SQUEEZED[kind])
    whole[rng.randrange(20, len(whole))] ^= 1 << rng.randrange(8)
    try:
        outcome = read_all(bytes(whole), size)
    except InputError as error:
        # The very first bytes inside are hit.
        assert re.search("nothing can be read|not a capture", str(error))  # noqa: PT017
        return
    assert outcome == read_all(bytes(whole), 1 << 20)
    try:
        harmless = UNSQUEEZE[kind](bytes(whole)) == SMALL
    except Exception:  # noqa: BLE001 - each library has errors of its own
        harmless = False
    assert harmless or outcome.damage


def test_a_wrong_gzip_checksum_costs_no_byte() -> None:
    whole = bytearray(SQUEEZE["gzip"](SAMPLE))
    whole[-6] ^= 1
    outcome = read_all(bytes(whole))
    assert outcome.packets == PACKETS
    assert reasons(outcome) == ["corrupt-compression"]
    assert outcome.damage[0].offset == len(SAMPLE)


def test_gzip_data_that_breaks_off_into_nonsense_keeps_every_byte_before() -> None:
    # A stored block of 60000 bytes, then a block of the reserved type 3: the error's place is known exactly.
    stored = b"\x00" + struct.pack("<HH", 60_000, 60_000 ^ 0xFFFF) + SAMPLE[:60_000]
    outcome = read_all(b"\x1f\x8b\x08" + bytes(7) + stored + b"\x07" + bytes(100))
    assert outcome.packets == PACKETS[: (60_000 - 24) // 1516]
    assert [(d.reason, d.offset) for d in outcome.damage if d.reason != "truncated"] == [
        ("corrupt-compression", 60_000)
    ]


@every_format
def test_compression_inside_compression_is_not_followed(kind: str) -> None:
    with pytest.raises(InputError, match="not a capture"):
        read_all(SQUEEZE[kind](SQUEEZE["gzip"](SAMPLE)))


@every_format
def test_a_bomb_is_read_in_bounded_memory(kind: str) -> None:
    packets = pcap_file([Packet(BASE_NS, bytes(50_000), 50_000)])[24:] * 1200  # 60 MB that compress to almost nothing
    data = SQUEEZE[kind](SAMPLE[:24] + packets)
    assert len(data) < 1 << 20
    del packets
    count = 0
    tracemalloc.start()
    try:
        reader = CaptureReader(_Raw(data), chunk_bytes=1 << 20)
        for each in reader:
            count += len(each)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 1200
    assert reader.damage == []
    assert peak < 40 << 20


class _Raw:
    """A pipe's manners: short reads, no seeking, nothing but readinto."""

    name = "pipe"

    def __init__(self, data: bytes, step: int = 777) -> None:
        self.data, self.at, self.step = data, 0, step

    def readinto(self, target: memoryview, /) -> int:
        piece = self.data[self.at : self.at + min(self.step, len(target))]
        target[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)


@every_format
def test_short_reads_make_no_difference(kind: str) -> None:
    reader = CaptureReader(_Raw(SQUEEZE[kind](SAMPLE)))
    assert [each.packet(i) for each in reader for i in range(len(each))] == [p.data for p in PACKETS]
    assert reader.damage == []


class _Failing(_Raw):
    def readinto(self, target: memoryview, /) -> int:
        count = super().readinto(target)
        if not count:
            raise OSError(5, "Input/output error")
        return count


@pytest.mark.parametrize("kind", ["plain", *FORMATS])
def test_a_failing_disk_is_damage(kind: str) -> None:
    data = SQUEEZE[kind](SAMPLE)[:-1] if kind in SQUEEZE else SAMPLE
    reader = CaptureReader(_Failing(data))
    count = sum(len(each) for each in reader)
    assert count in (len(PACKETS), len(PACKETS) - 1)
    errors = [d for d in reader.damage if d.reason == "read-error"]
    assert len(errors) == 1
    assert "Input/output error" in errors[0].detail


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("gzip", ["-c"]),
        ("zstd", ["-c", "--long=27"]),
        ("lz4", ["-c", "-B4", "-BD"]),
        ("xz", ["-c", "-T2", "--block-size=50000"]),
        ("bzip2", ["-c", "-1"]),
    ],
)
def test_what_the_programs_write(program: str, arguments: list[str], tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")  # a second opinion: the libraries are tested above
    target = tmp_path / "misnamed.txt"
    target.write_bytes(subprocess.run([program, *arguments], input=SAMPLE, capture_output=True, check=True).stdout)
    with open_capture(target) as reader:
        assert sum(len(each) for each in reader) == len(PACKETS)
    assert reader.damage == []


def test_libraries_are_imported_only_when_their_format_turns_up() -> None:
    program = (
        "import sys, numpy; before = set(sys.modules); import dissector.capture\n"
        "print(sorted({'zstandard', 'lz4', 'gzip', 'bz2', 'lzma'} & (set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"
