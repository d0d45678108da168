"""``uprscope check``: what people read, what programs read, and how it ends."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.check.inspection import Inspection, check
from analysis.check.selection import Selection, rules_of
from analysis.check.text_report import CheckSummary
from analysis.rules.expressions import NEVER
from analysis.rules.model import Check, Rule, Severity
from dissector.terminal.style import Terminal
from tests.support import hostile
from uprscope import cli

FEED = "captures/09_feed_real_consumer.pcap"  #: a client that plays a bad producer, among others on vbucket 2
CLEAN = "captures/clean/basic.pcapng"
LOSSY = "captures/rough/lossy.pcapng"
ONLY = ("--rules", "SEQ-01")
_ID = re.compile(r"\b[A-Z]{3}-\d\d-[0-9a-f]{8}\b")
Run = tuple[int, str, str]


@pytest.fixture(autouse=True)
def _surroundings(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("CLICOLOR_FORCE", "NO_COLOR", "PAGER"):
        monkeypatch.delenv(name, raising=False)


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Run:
    status = cli.main(["check", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def process(*words: str | Path, data: bytes = b"", **environment: str) -> tuple[int, bytes, str]:
    done = subprocess.run(
        [sys.executable, "-m", "uprscope", "check", *map(str, words)],
        input=data,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture(scope="module")
def feed(repo_root: Path) -> Inspection:
    """What the library finds: the command must say the same."""
    return check(repo_root / FEED, rules=rules_of("SEQ-01"))


def ids(text: str) -> list[str]:
    return list(dict.fromkeys(_ID.findall(text)))


def rows(text: str) -> dict[str, list[str]]:
    """The summary's table, by rule."""
    found = (line.split() for line in text.split("\n\n")[1].splitlines()[1:])
    return {words[0]: words[1:] for words in found if re.fullmatch(r"[A-Z]{3}-\d\d", words[0])}


# ------------------------------------------------------------------------------------------------------ what is printed


def test_a_summary_then_the_findings_then_how_many(feed: Inspection, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, FEED, *ONLY)
    assert status == 1
    assert err == ""
    blocks = out.split("\n\n")
    assert blocks[0].startswith("149 frames on 5 connections, 1 rule: 1 violated")
    # The client sends seqno 2 twice, then 1, 0 and 0: at least four that do not increase.
    count = len(feed.findings)
    assert count >= 4
    assert rows(out)["SEQ-01"][:4] == ["error", str(feed.tallies[0].checked), str(count), str(count)]
    assert next(block for block in blocks if block.startswith("error")).startswith("error SEQ-01 ")
    assert ids(out) == [finding.id for finding in feed.findings]
    assert blocks[-1].startswith(f"{count} findings: {count} errors")


def test_a_finding_says_what_where_and_shows_the_frames(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, FEED, *ONLY)[1]
    first = next(block for block in out.split("\n\n") if block.startswith("  SEQ-01-")).splitlines()
    assert re.fullmatch(r"  SEQ-01-[0-9a-f]{8}  .*\b2\b.*\b2\b.*\.", first[0])
    assert "vbucket 2, frame 69" in " ".join(first)
    guilty = [line for line in first if "▶" in line]
    proof = [line for line in first if "•" in line]
    assert [line.split("▶")[1].split()[0] for line in guilty] == ["69"]
    assert [line.split("•")[1].split()[0] for line in proof] == ["68", "70"]
    step = first.index("    Next:")
    assert first[step - 1] == "    Wireshark: frame.number in {100, 102}"
    assert re.fullmatch(r" +`uprscope plot \S+ seqno --connection e27da4dc7e5cb631 -o seqno.png`", first[step + 1])
    assert first[-1].endswith(".")


def test_a_rule_is_explained_once(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, FEED, *ONLY)[1]
    assert out.count("uprscope explain SEQ-01") == 1
    assert out.count("what it says") == 1


def test_no_more_than_the_limit_is_shown(feed: Inspection, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, FEED, *ONLY, "--limit", "2")
    assert status == 1
    assert len(ids(out)) == 2
    count = len(feed.findings)
    assert f"… and {count - 2} more of SEQ-01 (--limit 0 shows all)" in out
    assert f"\n{count} findings: {count} errors" in out


def test_a_clean_capture_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, CLEAN, *ONLY)
    assert (status, err) == (0, "")
    assert out.endswith("\n\nNothing is violated.\n")
    assert len(out.splitlines()) == 3
    everything = run(capsys, CLEAN, *ONLY, "--all")[1]
    assert "SEQ-01  error     holds" in everything


def test_what_could_not_be_decided_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, LOSSY, *ONLY)
    assert status == 0
    assert re.search(r"gap: bytes are missing from the capture", out)
    undecided = int(re.search(r"Nothing is violated; (\d+) cases could not be decided\.\n$", out)[1])
    assert rows(out)["SEQ-01"][2] == str(undecided)
    assert "bytes of TCP streams are not in the capture" in err
    strict = run(capsys, LOSSY, *ONLY, "--strict")
    assert strict[0] == 1
    assert "count as violations (--strict)" in strict[1] or "counts as violations (--strict)" in strict[1]


def test_prose_keeps_to_the_width(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = run(capsys, FEED, *ONLY)[1]
    whole = re.compile(r" (→|←|message  ) |^ *`uprscope [^`]*`")  # frames, and commands that can be copied
    assert all(len(line) <= 60 for line in out.splitlines() if not whole.search(line))


def test_colour_only_where_it_is_wanted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run(capsys, FEED, *ONLY)[1]
    styled = run(capsys, FEED, *ONLY, "--color", "always")[1]
    assert "\x1b[31m" in styled
    plain = re.sub(r"\x1b\[[0-9;]*m", "", styled)
    assert plain == run(capsys, FEED, *ONLY)[1]
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(capsys, FEED, *ONLY)[1]


def test_a_terminal_without_unicode() -> None:
    status, out, _ = process(FEED, *ONLY, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert status == 1
    text = out.decode("ascii")
    assert "\\u" not in text
    assert re.search(r"last \* +68 .*\n +> +69 ", text)


# --------------------------------------------------------------------------------------------------- what is not listed


@pytest.mark.parametrize(
    ("words", "told", "closing"),
    [
        (["--connection", "1"], " violations on other connections (--connection 1)", "Nothing else is violated"),
        (["--vbucket", "3"], " violations of other vbuckets, or of none (--vbucket 3)", "Nothing to check"),
    ],
)
def test_what_was_not_asked_for_is_counted(
    words: list[str], told: str, closing: str, feed: Inspection, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, FEED, *ONLY, *words)
    assert status == 0
    assert f"Not listed: {len(feed.findings)}{told}" in out.replace("\n  ", " ")
    assert ids(out) == []
    assert f"\n{closing}" in out


def test_a_connection_by_its_number_is_the_one_of_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    everything = run(capsys, FEED, *ONLY)[1]
    number, name = re.search(r"Connection (\d+) \(([0-9a-f]{16})\)", everything).groups()
    assert ids(run(capsys, FEED, *ONLY, "--connection", number)[1]) == ids(everything)
    assert ids(run(capsys, FEED, *ONLY, "--connection", name)[1]) == ids(everything)
    cli.main(["dissect", FEED, "--follow", number, "--filter", "frame == 69"])
    assert " 69 " in capsys.readouterr().out


def _remark(severity: Severity) -> Rule:
    checked = Check("items", NEVER, "seqno {by_seqno}", facts=("by_seqno",))
    return Rule("TST-01", severity, "nothing has a seqno", "It has not.", (checked,))


def test_what_is_not_bad_enough_is_counted() -> None:
    rules = (_remark(Severity.INFO),)
    selection = Selection(Severity.WARNING)
    inspection = check(FEED, rules=rules, selection=selection)
    assert inspection.clean
    assert inspection.hidden["severity"] == inspection.tallies[0].violated > 0
    summary = CheckSummary(inspection, rules, selection)
    text = "\n".join(summary.lines(Terminal(width=100)))
    assert "TST-01" not in text
    assert f"{inspection.tallies[0].violated} violations less severe than warning (--severity info lists all)" in text
    assert summary.closing() == "Nothing else is violated."


def test_the_limit_counts_what_was_asked_for_only() -> None:
    """Findings elsewhere must not use up the limit; what is beyond it is counted."""
    rules = (_remark(Severity.ERROR),)
    everything = check(FEED, rules=rules)
    last = everything.findings[-1]
    of_last = [each for each in everything.findings if each.connection == last.connection]
    some = check(FEED, rules=rules, selection=Selection(connection=last.connection), limit=len(of_last))
    assert [each.id for each in some.findings] == [each.id for each in of_last]
    assert some.left_out == 0
    few = check(FEED, rules=rules, limit=3)
    assert (len(few.findings), few.left_out) == (3, len(everything.findings) - 3)
    assert few.tallies[0].unlisted == few.left_out


def test_findings_with_one_cause_are_one() -> None:
    checked = Check("items", NEVER, "seqno {by_seqno}", facts=("by_seqno",), root="vbucket")
    rule = Rule("TST-02", Severity.ERROR, "nothing has a seqno", "It has not.", (checked,))
    inspection = check(FEED, rules=(rule,))
    places = {(each.connection, each.vbucket, each.stream_id) for each in inspection.findings}
    assert len(places) == len(inspection.findings)
    assert len(inspection.findings) + sum(each.echoes for each in inspection.findings) == inspection.tallies[0].violated
    assert all((each.last_echo is not None) == bool(each.echoes) for each in inspection.findings)


# -------------------------------------------------------------------------------------------------------------- inputs


def test_the_same_ids_however_the_capture_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = ids(run(capsys, FEED, *ONLY)[1])
    assert ids(run(capsys, FEED, *ONLY)[1]) == expected
    data = Path(FEED).read_bytes()
    packed = tmp_path / "feed.pcap.gz"
    packed.write_bytes(gzip.compress(data))
    assert ids(run(capsys, packed, *ONLY)[1]) == expected
    assert ids(run(capsys, tmp_path, *ONLY)[1]) == expected
    status, out, err = process("-", *ONLY, data=data)
    assert (status, ids(out.decode()), err) == (1, expected, "")
    status, out, err = process("-", *ONLY, "--format", "ndjson", data=data)
    assert (status, [json.loads(line)["id"] for line in out.splitlines()], err) == (1, expected, "")


def test_several_captures(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, FEED, CLEAN, *ONLY)
    assert status == 1
    assert sorted(ids(out)) == sorted(ids(run(capsys, FEED, *ONLY)[1]))


def test_damage_and_violations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(FEED).read_bytes()[:-10])
    status, out, err = run(capsys, cut, *ONLY)
    assert status == 1
    assert "cut.pcap: byte" in err
    assert ids(out)
    cut.write_bytes(Path(FEED).read_bytes()[:2000])
    status, _, err = run(capsys, cut, *ONLY)
    assert status == 3
    assert "cut.pcap: byte" in err


def test_no_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(Path(FEED).read_bytes()[:24])
    status, out, err = run(capsys, empty)
    assert (status, out) == (2, "")
    assert err == f"uprscope: {empty}: no message of UPR or DCP to check; seen instead: nothing\n"


@pytest.mark.parametrize("level", sorted(hostile.LEVELS))
def test_hostile_captures(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(6):
        paths = []
        for number, data in enumerate(hostile.case_of(level, seed).captures):
            paths.append(tmp_path / f"{level}-{seed}-{number}")
            paths[-1].write_bytes(data)
        for form in ("text", "json"):
            status, _, err = run(capsys, *paths, "--severity", "info", "--format", form)
            assert status in (0, 1, 2, 3), err
            assert "internal error" not in err


def test_nothing_reaches_the_terminal_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = tmp_path / "a\x1b[2Jb\u202e\n.pcap"
    odd.write_bytes(Path(FEED).read_bytes().replace(b"dup2", b"\x1b[2J"))
    for form in ("text", "json", "ndjson", "junit"):
        status, out, err = run(capsys, odd, *ONLY, "--format", form)
        assert status == 1
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out), form
        assert "\x1b" not in err
    text = run(capsys, odd, *ONLY)[1]
    assert "key=hex:1b5b324a" in text


# ----------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rules", "SEQ-0l"], "--rules: no rule 'SEQ-0L' (did you mean SEQ-"),
        (["--rules", ","], "--rules: give at least one rule or group"),
        (["--connection", "99"], "no connection 99 (connections are 1 to 5)"),
        (["--connection", "0"], "no connection 0 (connections are 1 to 5)"),
        (["--connection", "zz"], "no connection is called 'zz' (known: 1 feed-good, 2 "),
        (["--follow", "feed-broke"], "'feed-broke' is in the names of 2 connections: choose one (2 feed-broken, 3 "),
        (["--vbucket", "9999"], "no vbucket 9999 (vbuckets are 0 to 6 and 500)"),
        (["--connection", "5", "--vbucket", "1"], "no vbucket 1 on connection 5 (vbuckets are "),
        (["-o", "x.html"], "-o x.html: unknown ending .html (known: .txt, .json, "),
        (["--annotate", "x.pcap"], "--annotate x.pcap: unknown ending .pcap (known: .pcapng)"),
        (["--vbucket", "70000"], "--vbucket 70000: vbuckets are 0 to 65535"),
        (["--vbucket", "x"], "'x' is no number from 0 on"),
        (["--limit", "-1"], "no number from 0 on"),
        (["--format", "xml"], "invalid choice"),
        (["-o", "/nowhere/at/all"], "cannot be written"),
        (["--baseline", "README.md"], "--baseline README.md: not written by uprscope check"),
        (["--baseline", "nothing.json"], "--baseline nothing.json: No such file"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, FEED, *(() if "--rules" in words else ONLY), *words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_a_file_appears_when_it_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "found.json"
    status, out, _ = run(capsys, FEED, *ONLY, "--format", "json", "-o", target)
    assert (status, out) == (1, "")
    assert json.loads(target.read_text())["findings"]
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
    run(capsys, FEED, *ONLY, "--connection", "99", "--format", "json", "-o", tmp_path / "other.json")
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
    status, out, _ = run(capsys, FEED, *ONLY, "-o", tmp_path / "found.txt")
    assert (status, out) == (1, "")
    assert (tmp_path / "found.txt").read_text().endswith(".\n")
