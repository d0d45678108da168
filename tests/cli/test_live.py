"""Inputs that are still being written: each message is shown when its last packet has come, and Ctrl-C ends well."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from analysis.check.export import row_of
from analysis.check.inspection import check
from analysis.check.selection import Selection
from analysis.rules import Severity
from dissector.capture import expand
from dissector.capture.live import GrowingFile
from dissector.frames.reader import FrameReader
from tests.support.live_feed import PATIENCE_S, pieces_of, running
from uprscope import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

FEED = Path("captures/09_feed_real_consumer.pcap")
PACKETS = 60  #: of the capture: enough for a few findings


@pytest.fixture(autouse=True)
def _surroundings(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(repo_root)
    monkeypatch.setenv("COLUMNS", "100")
    # What runs in the background has Ctrl-C ignored, and so has what it starts; Spark takes it for itself.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def test_each_message_is_shown_before_the_next_packet(
    pieces: list[bytes], short: Path, complete: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    with running("dissect", "-") as text, running("dissect", "-", "--format", "ndjson") as ndjson:
        for packet, piece in enumerate(pieces):
            messages = sum(last <= packet for last in complete)
            for command, headings in ((text, 1), (ndjson, 0)):
                command.write(piece)
                command.wait_for(messages + headings if messages else 0)
        for command, form in ((text, "text"), (ndjson, "ndjson")):
            command.input.close()
            assert command.end() == (0, "")
            whole = printed(capsys, "dissect", short, "--format", form)
            assert [line.replace("standard input", str(short)) for line in command.lines] == whole


def test_each_finding_is_shown_once_it_is_proven(pieces: list[bytes], complete: list[int]) -> None:
    found = check(FEED, selection=Selection(severity=Severity.WARNING)).findings
    proven = {each.id: max(frame.packet_last for frame in each.frames) for each in found}
    proven = {name: packet for name, packet in proven.items() if packet < PACKETS - 5}
    assert len(proven) >= 2
    with running("check", "-", "--live") as text, running("check", "-", "--live", "--format", "ndjson") as ndjson:
        for packet, piece in enumerate(pieces):
            for command in (text, ndjson):
                command.write(piece)
                for name in (name for name, last in proven.items() if last == packet - 5):
                    command.wait_until(name)  # flow control: the message after the one that has no room shows it
        text.process.send_signal(signal.SIGINT)
        ndjson.input.close()
        assert (text.end()[0], ndjson.end()[0]) == (1, 1)
    rows = [json.loads(line) for line in ndjson.lines]
    assert len({row["id"] for row in rows}) == len(rows)
    assert rows[0].keys() == {*row_of(found[0])} - {"stream_id"}
    assert proven.keys() <= {row["id"] for row in rows}
    assert sum(line.startswith("warning SNP-05 ") for line in text.lines) == 2  # each with its rule
    assert sum("No key comes twice in one snapshot" in line for line in text.lines) == 1  # explained once
    messages = len(complete)
    summary = next(index for index, line in enumerate(text.lines) if line.startswith(f"{messages} frames on 1 conn"))
    assert all(any(name in line for line in text.lines[:summary]) for name in proven)
    assert text.lines[-1].startswith(f"{len(rows)} findings of ")  # and of more violations: some have echoes


def test_a_signal_is_the_end_of_the_input(pieces: list[bytes], complete: list[int], tmp_path: Path) -> None:
    target, nothing = tmp_path / "rows.parquet", tmp_path / "nothing.ndjson"
    with (
        running("dissect", "-", "-o", target) as rows,
        running("dissect", "-", "--format", "ndjson") as shown,
        running("dissect", "-", "-o", nothing) as early,
    ):
        messages = sum(last <= 20 for last in complete)
        for each in (rows, shown):
            each.write(b"".join(pieces[:21]) + pieces[21][:7])  # the last one is half written: that is no damage
        shown.wait_for(messages)
        for name in (target.name, nothing.name):
            wait_for_file(tmp_path, f".{name}.*.partial")  # it is open before anything is read
        for each, number in ((rows, signal.SIGTERM), (shown, signal.SIGINT), (early, signal.SIGINT)):
            each.process.send_signal(number)
        assert rows.end() == (0, f"uprscope: wrote {target}: {messages} frames\n")
        assert shown.end() == (0, "")
        assert early.end() == (0, f"uprscope: wrote {nothing}: 0 frames\nuprscope: no frames: no packets\n")
    assert pq.read_metadata(target).num_rows == len(shown.lines) == messages
    assert nothing.read_bytes() == b""


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


@pytest.mark.parametrize(
    ("how", "status", "why"),
    [
        ("replaced", 0, "growing.pcap: another file has its name, or it is gone: nothing more can come"),
        ("cut off", 3, "reading fails here: the file was cut off while it was read"),
    ],
)
def test_a_growing_file_that_can_not_grow(
    how: str,
    status: int,
    why: str,
    pieces: list[bytes],
    complete: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(b"".join(pieces[:21]))
    waits: list[str] = []

    def wait(_: GrowingFile) -> None:
        waits.append(how)
        if how == "replaced":
            path.rename(tmp_path / "old.pcap")
            path.write_bytes(pieces[0])
        else:
            os.truncate(path, 100)

    monkeypatch.setattr(GrowingFile, "_pause", wait)
    assert cli.main(["dissect", str(path), "--growing", "--format", "ndjson"]) == status
    out, err = capsys.readouterr()
    assert out.count("\n") == sum(last <= 20 for last in complete)
    assert waits == [how]
    assert why in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-", "--growing"], "--growing is for files: standard input (-) is read as it comes"),
        ([FEED, FEED, "--growing"], "--growing: give one capture, the one that is being written"),
        (["nowhere.pcap", "--growing"], "nowhere.pcap: no such file or directory"),
        (["captures", "--growing"], "captures: is a directory, not a capture"),
    ],
)
def test_mistakes_in_what_to_read(words: list[str | Path], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dissect", *map(str, words)]) == 2
    assert capsys.readouterr().err == f"uprscope: {complaint}\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--format", "json"], "--live shows findings one by one: as text or ndjson, not as json"),
        (["-o", "findings.parquet"], "--live shows findings one by one: as text or ndjson, not as parquet"),
        (["--annotate", "x.pcapng"], "--live can't go back to write a copy of the capture: leave out --annotate"),
    ],
)
def test_mistakes_in_what_to_show(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(FEED), "--live", *words]) == 2
    assert capsys.readouterr().err == f"uprscope: {complaint}\n"


def test_a_live_check_of_a_file_finds_what_a_check_does(capsys: pytest.CaptureFixture[str]) -> None:
    once = printed(capsys, "check", FEED, "--format", "ndjson")
    shown = printed(capsys, "check", FEED, "--format", "ndjson", "--live")
    assert sorted(shown) == sorted(once)
    frames = [json.loads(line)["frame"] for line in shown]
    assert frames == sorted(frames)  # in the order in which they happened; a check sorts them by severity


def test_a_baseline_hides_what_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.json"
    printed(capsys, "check", FEED, "-o", known)
    assert cli.main(["check", str(FEED), "--live", "--baseline", str(known)]) == 0
    assert "findings that the baseline has" in capsys.readouterr().out


def test_a_check_of_a_growing_file_ends_with_its_summary(
    pieces: list[bytes],
    complete: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(b"".join(pieces[:34]))
    more = iter([b"".join(pieces[34:]), b""])
    shown: list[str] = []

    def wait(_: GrowingFile) -> None:
        """Let the file grow; when there is nothing more, press Ctrl-C."""
        shown.append(capsys.readouterr().out)
        data = next(more)
        with path.open("ab") as out:
            out.write(data)
        if not data:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(GrowingFile, "_pause", wait)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark, or a shell, may have set another one
    try:
        assert cli.main(["check", str(path), "--growing", "--rules", "SNP-05"]) == 1
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert [text.count("  SNP-05-") for text in shown] == [1, 1]  # packets 32 and 45 show one each
    assert capsys.readouterr().out.startswith(f"\n{len(complete)} frames on 1 connection, 1 rule: 1 violated.\n")


def test_a_limit_of_findings_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "check", FEED, "--live", "--rules", "SEQ-01", "--limit", "1")
    assert sum(line.startswith("error SEQ-01") for line in lines) == 1
    assert lines.count("SEQ-01: --limit 1 is reached, more are only counted") == 1
