"""A connection by its number, its id or its name: the same in every command, from files and from pipes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from uprscope.cli import main

#: Connections of recordings, by number, id and name, as `uprscope connections` lists them.
SID = ("2", "7c0bf3660e847c4a", "sid")
STREAMS = str(ROOT / "captures" / "25_stream_id_v705.pcap")
FEED = str(ROOT / "captures" / "09_feed_real_consumer.pcap")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    return status, *capsys.readouterr()


def piped(*words: str) -> subprocess.CompletedProcess[str]:
    with Path(words[1]).open("rb") as capture:
        command = [sys.executable, "-m", "uprscope", words[0], "-", *words[2:]]
        return subprocess.run(command, stdin=capture, capture_output=True, text=True, check=False, timeout=60)


def test_dissect_takes_all_three(capsys: pytest.CaptureFixture[str]) -> None:
    every = run(capsys, "dissect", STREAMS, "--fields", "frame,connection")[1].splitlines()[1:]
    wanted = [line for line in every if line.endswith(SID[1])]
    for name in (*SID, SID[1].upper()):
        for option in ("--follow", "--connection"):
            status, out, err = run(capsys, "dissect", STREAMS, option, name, "--fields", "frame,connection")
            assert (status, err, out.splitlines()[1:]) == (0, "", wanted)


def test_a_part_of_a_name_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "dissect", STREAMS, "--follow", "SYNC-then", "--fields", "connection", "--limit", "1")
    assert (status, out.split()) == (0, ["connection", "39204fd849b6867e"])


def test_a_part_of_several_names(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "dissect", STREAMS, "--follow", "json", "--fields", "frame")
    assert status == 2
    assert err == (
        "uprscope: 'json' is in the names of 2 connections: choose one (4 json-no-control, 5 json-no-hello)\n"
    )
    assert out == ""


def test_from_a_pipe_it_is_followed_from_its_open_on() -> None:
    """The rows in front of the open may be gone by then; those behind it are all there."""
    done = piped("dissect", STREAMS, "--follow", "sid", "--format", "ndjson")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert {row["connection"] for row in rows} == {SID[1]}
    by_id = piped("dissect", STREAMS, "--follow", SID[1], "--format", "ndjson").stdout.splitlines()
    opened = next(at for at, line in enumerate(by_id) if json.loads(line)["name"] == "open")
    assert done.stdout.splitlines()[-len(by_id) + opened :] == by_id[opened:]


def test_from_a_pipe_where_several_have_it_or_none() -> None:
    done = piped("dissect", STREAMS, "--follow", "json", "--format", "ndjson")
    assert {json.loads(line)["connection"] for line in done.stdout.splitlines()} == {"31e2e76aa881f260"}
    said = "uprscope: 'json' is in the names of 1 more connection: only the first one was followed\n"
    assert (done.returncode, done.stderr) == (0, said)
    done = piped("dissect", STREAMS, "--follow", "nobody", "--format", "ndjson")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("uprscope: no connection is called 'nobody' (known: 2 sid, ")


def test_a_live_check_follows_a_name_from_its_open_on() -> None:
    done = piped("check", FEED, "--live", "--connection", "feed-broken", "--format", "ndjson")
    by_id = piped("check", FEED, "--live", "--connection", "e27da4dc7e5cb631", "--format", "ndjson")
    assert done.stdout.splitlines()
    assert (done.returncode, done.stdout, done.stderr) == (by_id.returncode, by_id.stdout, by_id.stderr)
    done = piped("check", FEED, "--live", "--connection", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("uprscope: no connection is called 'nobody' (known: ")


@pytest.mark.parametrize("name", ["2", "e27da4dc7e5cb631", "feed-broken"])
def test_check_counts_the_connection_alone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of everything is the sum of the tables of the connections."""
    status, out, _ = run(capsys, "check", FEED, "--follow", name, "--format", "json")
    assert status == 1
    mine = json.loads(out)
    assert {finding["connection"] for finding in mine["findings"]} == {"e27da4dc7e5cb631"}
    text = run(capsys, "check", FEED, "--connection", name, "--no-pager")[1]
    # 46 of the 149 rows are of this connection.
    shown = "e27da4dc7e5cb631" if name == "feed-broken" else name
    assert text.replace("\n", " ").startswith(
        f"46 frames of connection {shown} (149 frames on 5 connections in all), 92 rules: "
    )


def test_the_parts_are_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    def counts(*words: str) -> dict[str, tuple[int, int]]:
        rules = json.loads(run(capsys, "check", FEED, *words, "--severity", "info", "--format", "json")[1])["rules"]
        return {rule["rule"]: (rule["checked"], rule["violated"]) for rule in rules}

    parts = [counts("--connection", str(number)) for number in range(1, 6)]
    for rule, whole in counts().items():
        assert tuple(map(sum, zip(*(part[rule] for part in parts), strict=True))) == whole, rule


def test_plot_takes_a_name_from_a_pipe(tmp_path: Path) -> None:
    done = piped("plot", STREAMS, "rates", "--connection", "sid", "-o", str(tmp_path / "a.png"))
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"uprscope: wrote .*/a\.png: rates of standard input\n", done.stderr)
    assert main(["plot", STREAMS, "rates", "--connection", SID[1], "-o", str(tmp_path / "b.png")]) == 0
