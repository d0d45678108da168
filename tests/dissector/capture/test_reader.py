"""The reader as a whole: pipes, standard input, real captures, and what its blocks promise."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import dpkt
import numpy as np
import pytest

from dissector.capture import SLACK_BYTES, CaptureReader, Input, open_capture
from dissector.capture.window import Window
from dissector.errors import InputError
from tests.dissector.capture.test_build import (
    BASE_NS,
    Packet,
    noise,
    packets_of,
    pcap_file,
    pcapng_file,
    read_all,
    scapy_pcapng,
)
from tests.dissector.capture.test_compression import SQUEEZE
from tests.support.paths import ROOT as REPO

if TYPE_CHECKING:
    import numpy.typing as npt


@pytest.mark.parametrize("kind", ["plain", *sorted(SQUEEZE)])
def test_a_pipe(kind: str) -> None:
    packets = [Packet(BASE_NS + i * 1000, noise(i, 1400), 1400) for i in range(300)]
    data = pcap_file(packets)
    data = SQUEEZE[kind](data) if kind in SQUEEZE else data
    readable, writable = os.pipe()

    def write() -> None:
        with os.fdopen(writable, "wb") as out:
            out.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(readable, "rb", buffering=0) as raw:
        reader = CaptureReader(raw, chunk_bytes=100_000, name="pipe")
        got = [each.packet(i) for each in reader for i in range(len(each))]
    thread.join()
    assert got == [p.data for p in packets]
    assert reader.name == "pipe"
    assert reader.damage == []


def test_standard_input() -> None:
    program = (
        "from dissector.capture import open_capture\n"
        "reader = open_capture('-')\n"
        "print(sum(map(len, reader)), reader.packets, reader.name, reader.damage)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], input=pcapng_file(packets_of(33)), capture_output=True, check=True, cwd=REPO
    )
    assert run.stdout.decode().strip() == "33 33 standard input []"


def test_a_non_blocking_pipe_is_waited_for() -> None:
    data = pcap_file(packets_of(10))
    readable, writable = os.pipe()
    os.set_blocking(readable, False)

    def write() -> None:
        with os.fdopen(writable, "wb") as out:
            out.write(data)

    timer = threading.Timer(0.1, write)
    timer.start()
    with os.fdopen(readable, "rb", buffering=0) as raw:
        assert sum(len(each) for each in CaptureReader(raw)) == 10
    timer.join()


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "nothing.bin: is empty"), (b"abc", "not a capture"), (b"GIF89a" * 5, "starts with 'GIF89aGI'")],
)
def test_what_is_no_capture(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CaptureReader(io.BytesIO(data), name="nothing.bin")


def test_opening_what_can_not_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gone: no such file"):
        open_capture(tmp_path / "gone")
    with pytest.raises(InputError, match="is a directory"):
        open_capture(tmp_path)


def test_a_chunk_must_hold_something() -> None:
    with pytest.raises(ValueError, match="at least 64"):
        CaptureReader(io.BytesIO(pcap_file([])), chunk_bytes=63)


def test_the_file_is_closed_at_the_end_and_on_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[io.FileIO] = []
    original = Input.open

    def remember(self: Input) -> io.FileIO:
        opened.append(original(self))
        return opened[-1]

    monkeypatch.setattr(Input, "open", remember)
    (tmp_path / "a.pcap").write_bytes(pcap_file(packets_of(3)))
    (tmp_path / "b.pcap").write_bytes(b"no capture")
    assert sum(map(len, open_capture(tmp_path / "a.pcap"))) == 3
    with pytest.raises(InputError):
        open_capture(tmp_path / "b.pcap")
    with open_capture(tmp_path / "a.pcap") as reader:
        next(iter(reader))
    assert [each.closed for each in opened] == [True] * 3


def test_blocks_number_their_packets_and_tell_how_far_they_are() -> None:
    data = pcap_file(packets_of(100))
    reader = CaptureReader(io.BytesIO(data), 7, 1000)
    blocks = list(reader)
    assert len(blocks) > 3
    assert [b.first_number for b in blocks] == np.cumsum([1, *(len(b) for b in blocks[:-1])]).tolist()
    assert [b.end_position for b in blocks] == [
        24 + 16 * int(count) + int(size)
        for count, size in zip(
            np.cumsum([len(b) for b in blocks]), np.cumsum([int(b.captured.sum()) for b in blocks]), strict=True
        )
    ]
    assert blocks[-1].end_position == len(data)
    assert {b.capture for b in blocks} == {7}


def test_buffers_are_never_shared_and_end_in_slack() -> None:
    blocks = list(CaptureReader(io.BytesIO(pcap_file(packets_of(100))), chunk_bytes=1000))
    assert not any(np.shares_memory(a.buffer, b.buffer) for a, b in pairwise(blocks))
    for each in blocks:
        ends = each.offset + each.captured
        assert len(each.buffer) - int(ends.max()) >= SLACK_BYTES
    last = blocks[-1]
    assert not last.buffer[int((last.offset + last.captured).max()) :].any()


def test_slack_after_the_end_is_zero_whatever_the_memory_held(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = Window._allocate

    def dirty(size: int, carried: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        buffer = clean(size, carried)
        buffer[len(carried) :] = 0xAA
        return buffer

    monkeypatch.setattr(Window, "_allocate", staticmethod(dirty))
    (each,) = CaptureReader(io.BytesIO(pcap_file([Packet(BASE_NS, b"x", 1)])))
    assert each.packet(0) == b"x"
    assert not each.buffer[int(each.offset[0]) + 1 :].any()


@pytest.mark.shared
def test_real_pcap_files_as_dpkt_reads_them(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "captures").glob("*.pcap"))
    assert paths
    for path in paths:
        data = path.read_bytes()
        oracle = dpkt.pcap.Reader(io.BytesIO(data))
        expected = [(round(time * 10**6), bytes(packet)) for time, packet in oracle]
        outcome = read_all(data, 100_000)
        assert [(round(p.time_ns / 1000), p.data) for p in outcome.packets] == expected, path.name
        assert {p.linktype for p in outcome.packets} == {oracle.datalink()}, path.name
        assert outcome.damage == [], path.name


@pytest.mark.shared
def test_real_pcapng_files_as_scapy_reads_them(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "captures").glob("*.pcapng"))
    assert paths
    for path in paths:
        expected = scapy_pcapng(path.read_bytes())
        outcome = read_all(path.read_bytes(), 100_000)
        assert [(p.time_ns, p.linktype, p.original, p.data) for p in outcome.packets] == expected, path.name
        assert outcome.damage == [], path.name


@pytest.mark.tool("tshark")
def test_tshark_sees_the_same_packets(tmp_path: Path) -> None:
    packets = packets_of(40, step_ns=1_234_567_000)
    for data in (pcap_file(packets), pcapng_file(packets, ">")):
        path = tmp_path / "made"
        path.write_bytes(data)
        fields = ["frame.number", "frame.time_epoch", "frame.cap_len", "frame.len"]
        command = ["tshark", "-r", str(path), "-T", "fields", *(x for name in fields for x in ("-e", name))]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        rows = [row.split("\t") for row in run.stdout.splitlines()]
        got = read_all(data).packets
        assert [(int(number), int(captured), int(length)) for number, _, captured, length in rows] == [
            (i, len(p.data), p.original) for i, p in enumerate(got, 1)
        ]
        assert [_nanoseconds(row[1]) for row in rows] == [p.time_ns for p in got]


def _nanoseconds(text: str) -> int:
    """Read tshark's time, which older versions write in seconds and newer ones as an ISO date."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) if "T" in whole else int(whole)
    return seconds * 10**9 + int(fraction.ljust(9, "0"))
