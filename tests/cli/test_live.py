"""Inputs that are still being written: each message is shown when its last packet has come, and Ctrl-C ends well."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dissector.capture import expand
from dissector.frames.reader import FrameReader
from tests.support.live_feed import PATIENCE_S, pieces_of, running
from uprscope import cli

FEED = Path("captures/09_feed_real_consumer.pcap")
PACKETS = 40  #: of the capture, for tests that need no more


@pytest.fixture(autouse=True)
def _surroundings(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def pieces(repo_root: Path) -> list[bytes]:
    """The header of a recording, and its packets."""
    return pieces_of(repo_root / FEED)[: PACKETS + 1]


@pytest.fixture(scope="module")
def short(pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file."""
    path = tmp_path_factory.mktemp("live") / "short.pcap"
    path.write_bytes(b"".join(pieces))
    return path


@pytest.fixture(scope="module")
def complete(short: Path) -> list[int]:
    """Return the packet that completes each message, in the order of the messages."""
    packets = [
        number for batch in FrameReader(expand([str(short)])) for number in batch.column("packet_last").to_pylist()
    ]
    assert packets == sorted(packets)  # nothing came in another order than it was sent
    return packets


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> list[str]:
    """Run a command on a file; return its lines."""
    cli.main([*map(str, words)])
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("form", "headings"), [("text", 1), ("ndjson", 0)])
def test_each_message_is_shown_before_the_next_packet(
    form: str,
    headings: int,
    pieces: list[bytes],
    short: Path,
    complete: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running("dissect", "-", "--format", form) as command:
        for packet, piece in enumerate(pieces):
            command.write(piece)
            messages = sum(last <= packet for last in complete)
            command.wait_for(messages + headings if messages else 0)
        command.input.close()
        status, said = command.end()
    assert (status, said) == (0, "")
    whole = printed(capsys, "dissect", short, "--format", form)
    assert [line.replace("standard input", str(short)) for line in command.lines] == whole


def test_a_signal_is_the_end_of_the_input(pieces: list[bytes], complete: list[int], tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    with running("dissect", "-", "-o", target) as rows, running("dissect", "-", "--format", "ndjson") as shown:
        messages = sum(last <= 20 for last in complete)
        for each in (rows, shown):
            each.write(b"".join(pieces[:21]) + pieces[21][:7])  # the last one is half written: that is no damage
        shown.wait_for(messages)
        wait_for_file(tmp_path, ".*.partial")  # it is open before anything is read
        for each, number in ((rows, signal.SIGTERM), (shown, signal.SIGINT)):
            each.process.send_signal(number)
            assert each.end() == (0, "")
    assert pq.read_metadata(target).num_rows == len(shown.lines) == messages


def test_a_signal_before_anything_came(tmp_path: Path) -> None:
    with running("dissect", "-", "-o", tmp_path / "rows.ndjson") as command:
        wait_for_file(tmp_path, ".*.partial")
        command.process.send_signal(signal.SIGINT)
        assert command.end() == (0, "uprscope: no frames: no packets\n")
    assert (tmp_path / "rows.ndjson").read_bytes() == b""


def wait_for_file(folder: Path, pattern: str) -> None:
    """Wait until there is a file of this name."""
    latest = time.monotonic() + PATIENCE_S
    while not list(folder.glob(pattern)):
        assert time.monotonic() < latest
        time.sleep(0.01)


def test_a_growing_file(pieces: list[bytes], complete: list[int], tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(b"")
    with path.open("ab", buffering=0) as out, running("dissect", path, "--growing", "--format", "ndjson") as command:
        for begin, end in ((0, 15), (15, 30)):
            out.write(b"".join(pieces[begin:end]) + pieces[end][:20])
            command.wait_for(sum(last < end for last in complete))
            assert len(command.lines) == sum(last < end for last in complete)
            out.write(pieces[end][20:])
            if end == 15:
                continue
            command.wait_for(sum(last <= end for last in complete))
        out.write(pieces[31][:3])
        command.process.send_signal(signal.SIGINT)
        assert command.end() == (0, "")
    assert [json.loads(line)["frame"] for line in command.lines] == [
        number + 1 for number in range(sum(last <= 30 for last in complete))
    ]


def test_a_growing_file_that_is_replaced_or_cut_off(pieces: list[bytes], complete: list[int], tmp_path: Path) -> None:
    messages = sum(last <= 20 for last in complete)
    for how, status, why in (
        ("replaced", 0, "another file has its name"),
        ("cut off", 3, "the file was cut off while it was read"),
    ):
        path = tmp_path / "growing.pcap"
        path.write_bytes(b"".join(pieces[:21]))
        with running("dissect", path, "--growing", "--format", "ndjson") as command:
            command.wait_for(messages)
            if how == "replaced":
                path.rename(tmp_path / "old.pcap")
            else:
                os.truncate(path, 100)
            ended, said = command.end()
        assert (ended, len(command.lines)) == (status, messages)
        assert why in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-", "--growing"], "--growing is for files: standard input (-) is read as it comes"),
        ([FEED, FEED, "--growing"], "--growing: give one capture, the one that is being written"),
        (["nowhere.pcap", "--growing"], "nowhere.pcap: no such file or directory"),
        (["captures", "--growing"], "captures: is a directory, not a capture"),
    ],
)
def test_mistakes(words: list[str | Path], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dissect", *map(str, words)]) == 2
    assert capsys.readouterr().err == f"uprscope: {complaint}\n"
