"""Transcripts: the frames around findings, however the frames come in batches, and how they are laid out."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.check.findings import Finding, FrameRef
from analysis.check.inspection import check
from analysis.check.text_report import findings, lines_of
from analysis.check.transcript import NEIGHBOURS, Transcript, read
from analysis.rules.expressions import col
from analysis.rules.model import Check, Rule, Severity
from dissector.capture import expand
from dissector.frames.reader import FrameReader
from dissector.options import ReadOptions
from dissector.terminal.style import Terminal

FEED = "captures/09_feed_real_consumer.pcap"
TERMINAL = Terminal(width=100)


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


def rows() -> list[dict[str, object]]:
    return [row for batch in FrameReader(expand([FEED]), ReadOptions()) for row in batch.to_pylist()]


def made_up(connection: str, guilty: int, *evidence: tuple[str, int]) -> Finding:
    """A finding about frames of these numbers."""
    frames = tuple(FrameRef(role, number, FEED, 1, 1, 0) for role, number in (("guilty", guilty), *evidence))
    return Finding("TST-01-00000000", "TST-01", Severity.ERROR, "title", connection, 2, None, frames, {}, "because")


def shown(transcript: Transcript, finding: Finding) -> list[int]:
    return [row["frame"] for row in transcript.of(finding)]


@pytest.mark.parametrize("chunk", [300, 1000, 1 << 20])
def test_neighbours_are_those_of_the_connection(chunk: int) -> None:
    """For every frame: the two before it and the two after it on its connection, however batches are cut."""
    by_connection: dict[str, list[int]] = {}
    every = []
    for row in rows():
        by_connection.setdefault(str(row["connection"]), []).append(int(str(row["frame"])))
        every.append(made_up(str(row["connection"]), int(str(row["frame"]))))
    transcript = read(expand([FEED]), ReadOptions(chunk_bytes=chunk), every)
    for finding in every:
        numbers = by_connection[finding.connection]
        at = numbers.index(finding.guilty.frame)
        refused = transcript.refusal(finding)
        wanted = {*numbers[max(at - NEIGHBOURS, 0) : at + 1 + NEIGHBOURS], *([refused["frame"]] if refused else [])}
        assert shown(transcript, finding) == sorted(wanted)
        assert transcript.place[finding.guilty.frame] == at


def test_evidence_far_away_and_what_is_left_out() -> None:
    connection = next(str(row["connection"]) for row in rows() if row["frame"] == 91)
    finding = made_up(connection, 91, ("last", 82), ("previous_marker", 67))
    transcript = read(expand([FEED]), ReadOptions(), [finding])
    assert shown(transcript, finding) == [67, 82, 89, 90, 91, 92, 93]
    lines = list(lines_of(finding, transcript, TERMINAL, 15))
    marks = [re.split(r"  +", line.strip())[0] for line in lines[1:]]
    assert marks[0] == "previous marker •"
    assert marks[1:5] == ["⋮", "last •", "⋮", "89"]
    # Frames 68 to 81 and 83 to 88 are of the same connection: 14 and 6.
    assert [line.split("⋮")[1].strip() for line in lines if "⋮" in line] == ["14 frames in 4.8 s", "6 frames in 1.8 s"]
    assert [line for line in lines if "▶" in line] == [line for line in lines if re.search(r"\b91  ", line)]
    plain = list(lines_of(finding, transcript, Terminal(width=100, unicode=False), 15))
    assert all(line.isascii() for line in plain)


def test_silence_is_shown() -> None:
    listed = rows()
    for before, after in pairwise(listed):
        pause = int(str(after["time_ns"])) - int(str(before["time_ns"]))
        if before["connection"] == after["connection"] and pause > 5_000_000_000:
            finding = made_up(str(after["connection"]), int(str(after["frame"])))
            transcript = read(expand([FEED]), ReadOptions(), [finding])
            text = "\n".join(lines_of(finding, transcript, TERMINAL, 0))
            assert f"{pause / 1e9:,.1f} s of silence" in text
            return
    pytest.skip("nobody is silent in this capture")


def test_nothing_is_read_for_nothing() -> None:
    assert read(expand([FEED]), ReadOptions(), []).rows == {}


def test_echoes_are_told() -> None:
    checked = Check("items", col.by_seqno < 0, "no", root="vbucket")
    inspection = check(FEED, rules=(Rule("TST-01", Severity.WARNING, "title", "doc", (checked,)),))
    finding = max(inspection.findings, key=lambda each: each.echoes)
    transcript = read(expand([FEED]), ReadOptions(), [finding])
    text = " ".join(" ".join(findings([finding], transcript, TERMINAL)).split())
    assert finding.last_echo is not None
    last = finding.last_echo.frame
    assert f"{finding.echoes} more like it go back to the same cause, the last in frame {last}." in text
