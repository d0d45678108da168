"""Pipes and files that grow: what is there is read without waiting for more, and a stop ends them undamaged."""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard

from dissector.capture import CaptureReader, Input, window
from dissector.capture.live import GrowingFile, LiveFile, Stop
from tests.dissector.capture.test_build import packets_of, pcap_file, pcapng_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from _typeshed import WriteableBuffer

COUNT = 12


class Checked(LiveFile):
    """A pipe that may only be read where something is there."""

    def readinto(self, target: WriteableBuffer, /) -> int | None:
        assert self.ready(), "it would wait"
        return super().readinto(target)


@pytest.fixture
def pipe() -> Iterator[tuple[Checked, int]]:
    """Return the end to read from, and the one to write to."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    source = Checked(readable)
    yield source, writable
    source.close()
    os.close(readable)
    os.close(writable)


def gzipped() -> Callable[[bytes], bytes]:
    squeeze = zlib.compressobj(wbits=31)
    return lambda data: squeeze.compress(data) + squeeze.flush(zlib.Z_SYNC_FLUSH)


def zstandard_blocks() -> Callable[[bytes], bytes]:
    squeeze = zstandard.ZstdCompressor().compressobj()
    return lambda data: squeeze.compress(data) + squeeze.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


@pytest.mark.parametrize("squeeze", [lambda: bytes, gzipped, zstandard_blocks], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("make", [pcap_file, pcapng_file])
def test_a_packet_is_there_as_soon_as_its_bytes_are(
    squeeze: Callable[[], Callable[[bytes], bytes]], make: Callable[..., bytes], pipe: tuple[Checked, int]
) -> None:
    source, writable = pipe
    packets = packets_of(COUNT)
    ends = [len(make(packets[: count + 1])) for count in range(COUNT)]
    data, pack = make(packets), squeeze()
    os.write(writable, pack(data[: ends[0]]))
    reader = CaptureReader(source)
    blocks = iter(reader)
    seen = 0
    for begin, end in zip(ends, [*ends[1:], None], strict=True):
        block = next(blocks)
        seen += len(block)
        assert block.packet(len(block) - 1) == packets[seen - 1].data
        if end is None:
            break
        half = (begin + end) // 2
        os.write(writable, pack(data[begin:half]) + pack(data[half:end]))
    assert seen == COUNT


def test_much_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_LONGEST_S", 1000.0)
    path = tmp_path / "much.pcap"
    path.write_bytes(pcap_file(packets_of(3000)))
    with LiveFile(path) as live, path.open("rb", buffering=0) as plain:
        sizes = [[len(block) for block in CaptureReader(raw, chunk_bytes=50_000)] for raw in (live, plain)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("squeeze", [lambda: bytes, gzipped], ids=["plain", "gzip"])
def test_what_a_stop_cuts_off_is_not_damaged(squeeze: Callable[[], Callable[[bytes], bytes]], tmp_path: Path) -> None:
    data = squeeze()(pcap_file(packets_of(5))[:-3])
    path = tmp_path / "cut.pcap"
    path.write_bytes(data)
    whole = CaptureReader(Input.of(path))
    assert sum(map(len, whole)) == 4
    assert whole.damage
    stop = Stop()
    stop.ask()
    with GrowingFile(path, stop) as source:
        left = CaptureReader(source)
        assert sum(map(len, left)) == 4
        assert left.damage == []
    stop.close()


def test_a_stop_before_anything_came() -> None:
    readable, writable = os.pipe()
    stop = Stop()
    stop.ask()
    stop.ask()  # once is enough
    with LiveFile(readable, stop) as source:
        os.write(writable, b"\xd4\xc3")  # the first bytes of a pcap file
        assert list(CaptureReader(source, name="pipe")) == []
    for each in (readable, writable):
        os.close(each)
    stop.close()


def test_a_growing_file_ends_where_nothing_can_come(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(pcap_file(packets_of(4)))
    with GrowingFile(path) as source:
        path.unlink()
        reader = CaptureReader(source)
        assert sum(map(len, reader)) == 4
        assert reader.damage == []


def test_what_is_live(tmp_path: Path) -> None:
    path = tmp_path / "plain.pcap"
    path.write_bytes(b"")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert [Input.of(each).live for each in (path, fifo)] == [False, True]
    assert Input(str(path), path, growing=True).live
