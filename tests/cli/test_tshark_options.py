"""What is typed for tshark: captures by -r, filters by -Y, and output by -T, -e and -w."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import ROOT
from uprscope import cli

if TYPE_CHECKING:
    from pathlib import Path

SMALL = "captures/04_rollback_errors.pcap"


@pytest.fixture(autouse=True)
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def out(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert cli.main(list(words)) == status
    shown = capsys.readouterr()
    return shown.out if not status else shown.err


@pytest.mark.parametrize("command", ["check", "connections", "dissect"])
def test_captures_by_r(capsys: pytest.CaptureFixture[str], command: str) -> None:
    noop = "captures/03_noop.pcap"
    spelled = [(SMALL, noop), ("-n", "-r", SMALL, "-r", noop), ("-r", SMALL, noop), (SMALL, "-r", noop)]
    statuses = [cli.main([command, *words]) for words in spelled]
    shown = [capsys.readouterr().out]
    assert len({*statuses}) == 1
    for words in spelled:
        cli.main([command, *words])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] * len(spelled)
    assert len({*shown[1:]}) == 1


@pytest.mark.parametrize("command", ["check", "connections", "dissect"])
def test_no_capture_is_one_clear_mistake(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert "arguments are required: CAPTURE" in out(capsys, command, status=2)


def test_an_argument_behind_the_captures_is_still_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """KIND of plot: -r takes the captures' place, not its own."""
    assert out(capsys, "plot", "-r", SMALL, "nonsense", "-o", str(tmp_path / "a.png"), status=2).startswith(
        "uprscope: argument KIND: invalid choice: 'nonsense'"
    )


def test_filter_limit_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    ours = out(capsys, "dissect", SMALL, "--filter", "opcode == 0x53 and response", "--limit", "3", "-t", "utc-date")
    theirs = out(capsys, "dissect", "-r", SMALL, "-Y", "upr.opcode==0x53&&upr.response==1", "-c", "3", "-t", "ud")
    assert theirs == ours
    assert [line.split()[1] for line in ours.splitlines()] == ["UTC", *["2026-11-15"] * 3]


def test_fields_have_no_names_above_them_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ("-c", "2", "-T", "fields", "-e", "frame.number", "-e", "upr.opcode", "-e", "name", "-e", "tcp.srcport")
    rows = out(capsys, "dissect", "-r", SMALL, *wanted).splitlines()
    assert [row.split("\t")[1:3] for row in rows] == [["80", "open"]] * 2
    assert rows[1].endswith("\t12001")
    headed = out(capsys, "dissect", "-r", SMALL, *wanted, "-E", "header=y").splitlines()
    assert headed == ["packet_last\topcode\tname\tsport", *rows]
    assert (
        out(capsys, "dissect", SMALL, "-c", "2", "--fields", "frame.number,upr.opcode,name,sport").splitlines()
        == headed
    )


def test_json_and_ek(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ("dissect", "-r", SMALL, "-c", "2", "-e", "upr.name", "-T")
    rows = [{"name": "open"}, {"name": "open"}]
    assert json.loads(out(capsys, *wanted, "json")) == rows
    assert [json.loads(line) for line in out(capsys, *wanted, "ek").splitlines()] == rows


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("-T fields", "-T fields takes names of columns with -e"),
        ("-e key", "-e needs -T fields, json or ek"),
        ("-E header=y", "-E needs -T fields"),
        ("-T json -E header=y", "-E goes with -T fields"),
        ("-T text -e key", "-e does not go with -T text"),
        ("-T json --format csv", "-T json does not go with --format"),
        ("-T fields -e key --fields key", "-T fields does not go with --fields"),
        ("-T fields -e ip.addr", "-e: ip.addr is no column of its own: take src and dst"),
        ("-T fields -e upr.open_flags.producer", "is no column of its own: take open_flags"),
        ("-T fields -e upr.window", "-e: no column 'upr.window' (only the plugin keeps it)"),
        ("-T fields -e key -e upr.key", "-e: key is there twice"),
        ("--fields key -t ad", "-t is about the list of frames as text"),
        ("--json --wrap", "--wrap is about the list of frames as text"),
        ("--json --width 80", "--width is about the list of frames as text"),
        ("--width 39", "'39' is not a number of columns from 40 on"),
        ("-t nonsense", "invalid choice: 'nonsense'"),
        ("-w a.pcap -V", "-w writes packets and shows none: it does not go with -V"),
        ("-w a.pcap --json", "it does not go with --format"),
        ("-w a.txt", "let it end in .pcap or .pcapng"),
    ],
)
def test_what_does_not_go_together(capsys: pytest.CaptureFixture[str], words: str, reason: str) -> None:
    told = out(capsys, "dissect", SMALL, *words.split(), status=2)
    assert reason in told
    assert told.count("\n") == 1


def test_w_writes_the_packets_of_what_was_chosen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The refusals of one connection: they are in the capture that is written, and it is a small one."""
    target = tmp_path / "refused.pcapng"
    chosen = ("-Y", "upr.status == out_of_range", "-T", "fields", "-e", "opaque", "-e", "text")
    rows = out(capsys, "dissect", "-r", SMALL, *chosen)
    assert rows.count("Outside range") == 3
    assert cli.main(["dissect", "-r", SMALL, "-Y", "upr.status == out_of_range", "-w", str(target)]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "the frames that were asked for, and the set-up" in shown.err
    assert out(capsys, "dissect", "-r", str(target), *chosen) == rows
    assert target.stat().st_size < (ROOT / SMALL).stat().st_size / 2


def test_w_of_nothing_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "none.pcap"
    told = out(capsys, "dissect", "-r", SMALL, "-Y", "upr.vbucket == 4711", "-w", str(target), status=2)
    assert told == "uprscope: -w: no frame is chosen: there is nothing to write\n"
    assert not target.exists()
    same = out(capsys, "dissect", "-r", SMALL, "-w", SMALL, status=2)
    assert "is one of the captures to read: give another file" in same
