"""``uprscope slice``: a small capture that shows the finding by itself."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.check.inspection import check, inspect
from analysis.check.selection import rules_of
from analysis.rules.expressions import ALWAYS, NEVER, Term, col
from analysis.rules.model import Check, Rule, Severity, Unknown
from analysis.slice.packets_needed import packets_needed
from analysis.slice.slicer import write_slice
from dissector.capture import CaptureReader, Input, expand
from dissector.options import ReadOptions
from uprscope import cli

FEED = "captures/09_feed_real_consumer.pcap"
RULES = "SEQ-01"


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


def found(*captures: str | Path, rules: str = RULES) -> list[str]:
    return [finding.id for finding in check(list(captures), rules=rules_of(rules)).findings]


def sliced(finding: str, target: Path, *captures: str | Path) -> int:
    return cli.main(["slice", *map(str, captures), "--finding", finding, "-o", str(target)])


def rows(capture: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert cli.main(["dissect", str(capture), "--format", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_slice_shows_its_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = len(rows(Path(FEED), capsys))
    for finding in found(FEED):
        target = tmp_path / f"{finding}.pcapng"
        assert sliced(finding, target, FEED) == 0
        assert finding in capsys.readouterr().err
        assert finding in found(target)
        assert len(rows(target, capsys)) < whole / 3


def test_only_what_it_takes_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Frame 69 comes right after its evidence."""
    assert sliced(found(FEED)[0], tmp_path / "near.pcapng", FEED) == 0
    assert "the frames that prove it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unknown", "what"),
    [
        (NEVER, "only the frames"),
        (col.lost_since_previous.true(), "(the frames that prove it, those around|everything .* from frame )"),
        (col.lost_since_answer | ~col.granted.true(), "everything on the connection up to the guilty frame"),
        (ALWAYS, "the whole connection"),
    ],
)
def test_more_is_kept_where_it_is_needed(unknown: Term, what: str, tmp_path: Path) -> None:
    """A rule that is undecided where bytes are missing since some point is shown by packets from there on only."""
    check = Check("items", NEVER, "no", facts=("previous_seqno",), evidence=("last",))
    sure = Rule("TST-01", Severity.ERROR, "nothing has a seqno", "It has not.", (check,))
    inputs, options = expand(["captures/clean/modern.pcapng"]), ReadOptions()
    # The one whose evidence is furthest away: nothing that is kept around the guilty frame reaches it.
    findings = [each for each in inspect(inputs, (sure,), options).findings if len(each.frames) > 1]
    finding = max(findings, key=lambda each: each.frames[0].frame - each.frames[1].frame)
    assert finding.frames[0].frame - finding.frames[1].frame > 16
    # With another item in between the evidence would be another.
    other = col.previous_seqno.differs(finding.facts["previous_seqno"])
    doubts = () if unknown is NEVER else (Unknown("gap", unknown | other),)
    rule = replace(sure, checks=(replace(check, unknown=doubts),))
    with (tmp_path / "small.pcapng").open("wb") as stream:
        made = write_slice(inputs, options, finding, rule, packets_needed(inputs, options, finding), stream)
    assert re.match(what, made.what)
    assert made.shown == (unknown is not ALWAYS)
    assert made.packets == sum(len(block) for block in CaptureReader(Input("x", tmp_path / "small.pcapng")))


def test_one_connection_with_handshake_and_set_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "small.pcapng"
    assert sliced(found(FEED)[0], target, FEED) == 0
    kept = rows(target, capsys)
    assert len({row["connection"] for row in kept}) == 1
    names = [row["name"] for row in kept]
    assert names[:2] == ["open", "open"]
    assert "stream_request" in names


def test_a_connection_over_several_files(tmp_path: Path) -> None:
    """The evidence is in an earlier file than the guilty frame; names are in another order than times."""
    made = tmp_path / "ring.pcapng"
    assert cli.main(["generate", "--break", "SEQ-01/backwards", "--rotate", "10", "--mss", "100", "-o", str(made)]) == 0
    parts = sorted(tmp_path.glob("ring*.pcapng"))
    assert len(parts) > 3
    moved = [part.rename(tmp_path / f"{99 - number}.pcapng") for number, part in enumerate(parts)]
    (finding,) = found(*moved)
    target = tmp_path / "small.pcapng"
    assert sliced(finding, target, *moved) == 0
    assert found(target) == [finding]


@pytest.mark.parametrize("options", [["--skip-messages", "14"], ["--mss", "1-200"], ["--ip", "6", "--link", "vlan"]])
def test_rough_captures(options: list[str], tmp_path: Path) -> None:
    made = tmp_path / "made.pcap"
    wish = "SEQ-01/backwards@frame=40"
    assert cli.main(["generate", "--break", wish, *options, "-o", str(made)]) == 0
    findings = found(made)
    assert findings
    target = tmp_path / "small.pcapng"
    assert sliced(findings[0], target, made) == 0
    assert findings[0] in found(target)


@pytest.mark.tool("tshark")
def test_wireshark_reads_it(tmp_path: Path) -> None:
    target = tmp_path / "small.pcapng"
    finding = found(FEED)[0]
    assert sliced(finding, target, FEED) == 0
    command = ["tshark", "-r", str(target), "-d", "tcp.port==12001,couchbase", "-T", "fields", "-E", "separator=|"]
    done = subprocess.run(
        [*command, "-e", "frame.number", "-e", "_ws.malformed", "-e", "frame.comment"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert [int(number) for number, _, _ in lines] == list(range(1, len(lines) + 1))
    assert all(not malformed for _, malformed, _ in lines)
    comments = [comment for _, _, comment in lines]
    assert comments[0] == "handshake"
    assert any(comment.startswith(f"{finding}: last") for comment in comments)
    (guilty,) = [comment for comment in comments if comment.endswith("(frame 69)")]
    assert guilty.startswith(f"{finding}: ")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SEQ-01-00000000", "not found (of SEQ-01 there is SEQ-01-"),
        ("SEQ-01", "no name of a finding, such as SEQ-01-06a74178"),
        ("ZZZ-01-00000000", "no rule ZZZ-01"),
        ("\x1b[2J", "\\x1b[2J: no name of a finding"),
    ],
)
def test_findings_that_are_not_there(name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sliced(name, tmp_path / "small.pcapng", FEED) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_clean_capture_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sliced("SEQ-01-00000000", tmp_path / "small.pcapng", "captures/clean/basic.pcapng") == 2
    assert "nothing breaks SEQ-01 here" in capsys.readouterr().err


def test_the_case_of_a_name_does_not_matter(tmp_path: Path) -> None:
    assert sliced(found(FEED)[0].lower(), tmp_path / "small.pcapng", FEED) == 0


def test_a_damaged_capture_is_cut_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(FEED).read_bytes()[:-10])
    finding = found(cut)[0]
    assert sliced(finding, tmp_path / "small.pcapng", cut) == 3
    assert "cut.pcap: byte" in capsys.readouterr().err
    assert finding in found(tmp_path / "small.pcapng")
