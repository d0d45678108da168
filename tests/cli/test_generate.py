"""``uprscope generate``: files that are whole or not there, a truth that is true, and mistakes that are one line."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dissector.generate import catalogue, recipe
from dissector.generate.conversation import Conversation
from dissector.generate.faults import FAULTS
from dissector.generate.recipe import Break
from dissector.generate.scenario import Size
from dissector.generate.scenarios import SCENARIOS, scenario
from dissector.terminal.style import Terminal
from tests.support.tcp_by_hand import READERS, Row, read_run
from uprscope import cli

Truth = dict[str, Any]


def generate(*words: str) -> int:
    return cli.main(["generate", *words])


def with_truth(tmp_path: Path, *words: str, name: str = "out.pcapng") -> tuple[Path, Truth]:
    """Make a capture and its truth."""
    output, truth = tmp_path / name, tmp_path / "truth.json"
    assert generate(*words, "-o", str(output), "--truth", str(truth)) == 0
    return output, json.loads(truth.read_text())


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def side_of(row: Row, truth: Truth) -> tuple[int, str]:
    """Return the connection of the truth that a row belongs to, and the side that sent it."""
    ends = f"{row['src']}:{row['sport']}", f"{row['dst']}:{row['dport']}"
    for connection in truth["connections"]:
        for side, wanted in (("client", ends), ("server", ends[::-1])):
            if (connection["client"], connection["server"]) == wanted:
                return connection["connection"], side
    raise AssertionError(ends)


#: Something else is spoken on one of its connections, of which readers make no rows.
FOREIGN = {"other-protocols"}


@pytest.mark.parametrize(("skipped", "known"), [(0, {0, 1}), (1, {0, 1}), (2, set()), (7, set())], ids=str)
def test_a_recorder_that_starts_late_does_not_see_the_first_byte(skipped: int, known: set[int], tmp_path: Path) -> None:
    """Without the SYN its answer still shows where both directions begin; without both nothing does."""
    output = tmp_path / "late.pcapng"
    assert generate("basic", "--skip-packets", str(skipped), "-o", str(output)) == 0
    for reader in READERS:
        rows, _ = read_run(output, reader)
        connection = rows[0]["connection"]
        found = {row["direction"] for row in rows if row["connection"] == connection and row["from_start"]}
        assert found == known


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS if each.name not in FOREIGN])
def test_the_truth_is_what_a_reader_finds(name: str, tmp_path: Path) -> None:
    output, truth = with_truth(tmp_path, name)
    rows, report = read_run(output, READERS[1])
    assert report.losses() == []
    found = sorted(
        (
            *side_of(row, truth),
            row["start_offset"],
            row["end_offset"] - row["start_offset"],
            row["acked_offset"],
            row["opcode"],
            f"{row['opaque']:08x}",
            row["vbucket"] if row["status"] is None else row["status"],
            (row["packet_first"], row["packet_last"]),
        )
        for row in rows
    )
    told = sorted(
        (
            *(each["connection"], each["side"], each["offset"], each["size"], each["acked"], each["opcode"]),
            *(each["opaque"], each["vbucket"] if "status" not in each else each["status"]),
            (each["packets"][0], each["packets"][-1]),
        )
        for each in truth["messages"]
    )
    assert found == told
    assert [each["message"] for each in truth["messages"]] == list(range(1, len(rows) + 1))
    seqnos = {(row["start_offset"], row["by_seqno"]) for row in rows if row["by_seqno"] is not None}
    assert seqnos == {(each["offset"], each["seqno"]) for each in truth["messages"] if "seqno" in each}
    assert truth["broken"] == []
    assert truth["files"] == [{"name": "out.pcapng", "packets": report.link.packets}]


def test_the_truth_of_a_rough_capture(tmp_path: Path) -> None:
    words = shlex.split("basic --seed 5 --mss 90 --loss 0.1 --duplicate 0.2 --snaplen 120 --rotate 40 --ip 6")
    _, truth = with_truth(tmp_path, *words)
    assert truth["command"] == (
        "uprscope generate basic -o out.pcapng --seed 5 "
        "--mss 90 --duplicate 0.2 --loss 0.1 --ip 6 --snaplen 120 --rotate 40"
    )
    assert truth["seed"] == 5
    assert truth["troubles"] == {"mss": [90, 90], "duplicate": 0.2, "loss": 0.1}
    names = [f"out-{number:05d}.pcapng" for number in range(1, len(truth["files"]) + 1)]
    assert [file["name"] for file in truth["files"]] == names
    assert files(tmp_path) == sorted([*names, "truth.json"])
    missing = [each for each in truth["messages"] if each.get("missing")]
    assert any(not each["packets"] for each in missing)
    rows, report = read_run([tmp_path / name for name in names], READERS[1])
    assert sum(file["packets"] for file in truth["files"]) == report.link.packets
    by_place = {(each["side"], each["offset"]): each for each in truth["messages"]}
    for row in rows:
        told = by_place.get(("client" if row["dport"] == 11_210 else "server", row["start_offset"]))
        if told is None:
            assert row["defects"]  # other bytes taken for a header, behind a gap
        else:
            assert (row["missing"] > 0) == (told.get("missing", 0) > 0)


def test_the_truth_says_where_a_late_capture_begins(tmp_path: Path) -> None:
    _, truth = with_truth(tmp_path, *shlex.split("basic --skip-messages 9"))
    late = {side: [each for each in truth["messages"][9:] if each["side"] == side] for side in ("client", "server")}
    assert truth["connections"][0]["captured_from"] == {side: each[0]["offset"] for side, each in late.items()}
    assert all(not each["packets"] and each["missing"] == each["size"] for each in truth["messages"][:9])


@pytest.mark.parametrize("rule", ["SEQ-01", "SNP-02", "FLC-01", "OPQ-06", "FRM-06"])
def test_a_broken_rule_and_its_proof(rule: str, tmp_path: Path) -> None:
    output, truth = with_truth(tmp_path, "--break", rule)
    (broken,) = truth["broken"]
    home = recipe.fault_of(Break(rule)).scenario
    assert broken["rule"] == rule
    assert truth["scenario"] == home
    assert broken["because"]
    guilty = [truth["messages"][number - 1] for number in broken["messages"]]
    assert {each["connection"] for each in guilty} == {broken["connection"]}
    assert broken["packets"] == sorted({packet for each in guilty for packet in each["packets"]})
    clean = tmp_path / "clean.pcapng"
    assert generate(home, "-o", str(clean)) == 0
    assert clean.read_bytes() != output.read_bytes()


def test_every_fault_can_be_made() -> None:
    for fault in FAULTS:
        made = recipe.make(scenario(fault.scenario), 3, Size(), [Break(fault.rule, fault.variant or None)])
        ((_, broken),) = made.broken
        assert broken.rule == fault.rule
        said = {id(emission) for talk in made.conversations for emission in talk}
        assert {id(emission) for emission in broken.emissions} <= said, fault


def test_several_faults_and_a_place(tmp_path: Path) -> None:
    _, truth = with_truth(tmp_path, "basic", "--break", "SEQ-01/backwards@frame=30", "--break", "SNP-02")
    assert [each["rule"] for each in truth["broken"]] == ["SEQ-01", "SNP-02"]
    assert min(truth["broken"][0]["messages"]) >= 29
    _, early = with_truth(tmp_path, "basic", "--break", "SEQ-01/backwards")
    assert min(early["broken"][0]["messages"]) < 29


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS])
def test_every_scenario_by_another_seed(name: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.pcap" for number in range(3)]
    for path, seed in zip(paths, ("2", "2", "3"), strict=True):
        assert generate(name, "--seed", seed, "-o", str(path)) == 0
    first, again, other = (path.read_bytes() for path in paths)
    assert first == again
    assert first != other
    assert read_run(paths[2], READERS[1])[0]


def test_sizes_reach_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    chosen = scenario("basic")

    def conversations(_: object, seed: int, size: Size | None = None) -> list[Conversation]:
        asked.append((seed, size))
        return []

    monkeypatch.setattr(type(chosen), "conversations", conversations)
    words = shlex.split("basic --seed 8 --frames 5 --connections 6 --vbuckets 7")
    assert generate(*words, "-o", str(tmp_path / "x.pcap")) == 0
    assert asked == [(8, Size(5, 6, 7))]


def test_the_rate(tmp_path: Path) -> None:
    spans = []
    for rate in ("100", "2.5"):
        output, truth = with_truth(tmp_path, "basic", "--rate", rate)
        rows, _ = read_run(output, READERS[1])
        spans.append((rows[-1]["time_ns"] - rows[0]["time_ns"]) * float(rate) / 1e9 / len(truth["messages"]))
    assert spans == pytest.approx([1, 1], rel=0.1)


def test_bulk_is_a_scenario_like_others(tmp_path: Path) -> None:
    words = shlex.split("bulk --frames 3000 --connections 2 --vbuckets 6 --reorder 0.01 --link sll2")
    output, truth = with_truth(tmp_path, *words, name="big.pcap")
    rows, report = read_run(output, READERS[1])
    assert len(rows) == 3000
    assert truth["files"] == [{"name": "big.pcap", "packets": report.link.packets}]
    assert sum(sum(each["messages"].values()) for each in truth["connections"]) == 3000


# ----------------------------------------------------------------------------------------------------------- the files


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "uprscope", "generate", *words]
    return subprocess.run(command, capture_output=True, cwd=cwd, check=False, timeout=60)


def test_standard_output(tmp_path: Path) -> None:
    assert generate("basic", "-o", str(tmp_path / "file.pcapng")) == 0
    done = run("basic", "-o", "-", "--truth", "truth.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        0,
        b"uprscope: wrote truth.json: what was sent, and what is wrong with it\n",
    )
    assert done.stdout == (tmp_path / "file.pcapng").read_bytes()
    assert files(tmp_path) == ["file.pcapng", "truth.json"]


def test_nothing_is_left_of_what_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The capture is complete before the truth turns out not to be possible."""
    words = ["basic", "-o", str(tmp_path / "x.pcap"), "--truth", str(tmp_path / "no" / "truth.json")]
    assert generate(*words) == 2
    assert generate("basic", "--break", "FRM-14", "-o", str(tmp_path / "x.pcap"), "--rotate", "3") == 2
    assert generate("bulk", "--frames", "20", "-o", str(tmp_path / "x.pcap")) == 2
    assert files(tmp_path) == []
    assert len(capfd.readouterr().err.splitlines()) == 3


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "x.pcapng"
    output.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dissector.generate.capture_files.Files.write", fail)
    assert generate("basic", "-o", str(output)) == 2
    assert output.read_bytes() == b"old"
    assert files(tmp_path) == ["x.pcapng"]
    assert "No space left" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-o x.pcap", "no scenario given (try uprscope generate --list)"),
        ("basic", "no output given: name a file with -o, or - for standard output"),
        ("baisc -o x.pcap", "no scenario baisc: did you mean basic?"),
        ("basic -o x.txt", "x.txt: the name tells the form of the capture: let it end in .pcap or .pcapng"),
        ("basic -o x.pcap --interfaces 2", "two interfaces need pcapng: let the name of the output end in .pcapng"),
        ("basic -o x.pcap --mss 0", "segments have 1 to 65,495 bytes, not 0 to 0"),
        ("basic -o x.pcap --mss 70000", "segments have 1 to 65,495 bytes, not 70,000 to 70,000"),
        ("basic -o x.pcap --lose 3,0", "--lose 0: packets have numbers from 1 on"),
        ("basic -o x.pcap --lose x", "--lose x: packets have numbers from 1 on"),
        ("basic -o - --rotate 5", "several files cannot go to standard output: leave --rotate out, or name a file"),
        ("basic -o ./x.pcap --truth x.pcap", "the capture and its truth cannot go to the same place"),
        ("basic -o x.pcap --break SEQ", "--break SEQ: expected RULE, RULE/VARIANT or either with @frame=N, N from 1"),
        (
            "basic -o x.pcap --break SEQ-01@frame=0",
            "--break SEQ-01@frame=0: expected RULE, RULE/VARIANT or either with @frame=N, N from 1",
        ),
        (
            "basic -o x.pcap --break FRM-14",
            "--break FRM-14: nothing to break in basic; cache-transfer has what it needs",
        ),
        (
            "basic -o x.pcap --break SEQ-01@frame=99999",
            "--break SEQ-01: nothing to break from message 99999 on in basic",
        ),
        (
            "bulk -o x.pcap --break SEQ-01",
            "bulk breaks no rule: choose another scenario (try uprscope generate --list)",
        ),
        ("bulk -o x.pcap --skip-messages 5", "bulk cannot begin behind a message: use --skip-packets"),
    ],
)
def test_mistakes(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert generate(*shlex.split(words)) == 2
    out, err = capfd.readouterr()
    assert (out, err) == ("", f"uprscope: {message}\n")
    assert files(tmp_path) == []


@pytest.mark.parametrize("option", ["--loss=2", "--loss=x", "--seed=-1", "--rate=0", "--rate=nan", "--frames=0"])
def test_numbers_that_make_no_sense(option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert generate("basic", "-o", str(tmp_path / "x.pcap"), option) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1
    assert files(tmp_path) == []


def test_an_unknown_rule(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert generate("--break", "ABC-77", "-o", str(tmp_path / "x.pcap")) == 2
    assert capfd.readouterr().err.startswith("uprscope: no fault for rule ABC-77: ")


def test_a_capture_is_not_for_terminals(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert generate("basic", "-o", "-") == 2
    assert capfd.readouterr().err == "uprscope: a capture is not for terminals: give a file with -o, or a pipe\n"


# ------------------------------------------------------------------------------------------------------------ the list


def test_the_list_has_everything(capfd: pytest.CaptureFixture[str]) -> None:
    assert generate("--list") == 0
    out, err = capfd.readouterr()
    assert err == ""
    words = out.split()
    assert {each.name for each in SCENARIOS} | {"bulk"} <= set(words)
    assert {f"{each.rule}/{each.variant}" if each.variant else each.rule for each in FAULTS} <= set(words)
    assert {"25_stream_id_v705.pcap", "clean/basic.pcapng", "rough/lossy.pcapng"} <= set(words)


def test_the_list_fits_the_terminal() -> None:
    lines = catalogue.render(Terminal(width=80)).splitlines()
    assert max(map(len, lines)) <= 80
