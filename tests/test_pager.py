"""The pager: there for people at a terminal who want it, out of the way of everything else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SMALL = "captures/04_rollback_errors.pcap"
#: More lines than a pipe holds, so that writing goes on when the pager has left.
LARGE = "captures/10_upr_early_dialect.pcap"
MARK = "[paged]"


@dataclass(frozen=True)
class Run:
    status: int
    stdout: str
    stderr: str


def run(*args: str, terminal: bool = True, **env: str) -> Run:
    """Run the command with a terminal, or a pipe, as its standard output."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    inherited = {name: value for name, value in os.environ.items() if name not in ("PAGER", "LESS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "dissector", *args],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**inherited, "TERM": "dumb", "PYTHONUTF8": "1", **env},
    )
    os.close(writing)
    pieces: list[bytes] = []

    def drain() -> None:
        while piece := _read(reading):
            pieces.append(piece)

    reader = threading.Thread(target=drain)
    reader.start()
    _, errors = process.communicate(timeout=60)
    reader.join(60)
    os.close(reading)
    return Run(process.returncode, b"".join(pieces).decode().replace("\r\n", "\n"), errors.decode())


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # how Linux says that a terminal has no other end any more
        return b""


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that says so, and ends with a status of its own."""
    script = tmp_path / "a pager"
    script.write_text(f"#!/bin/sh\necho '{MARK}' $1\ncat\nexit 9\n")
    script.chmod(0o755)
    return f"'{script}' 'with words'"


def test_text_on_a_terminal_is_paged(pager: str) -> None:
    done = run("dissect", SMALL, PAGER=pager)
    mark, heading, first, *rest = done.stdout.splitlines()
    assert mark == f"{MARK} with words"
    assert heading.split()[:3] == ["frame", "seconds", "conn"]
    assert first.split()[4] == "open"
    assert len(rest) > 100
    assert (done.status, done.stderr) == (0, "")


def test_json_is_for_people_too_and_ndjson_is_not(pager: str) -> None:
    limit = ("--limit", "1", "--fields", "frame")
    assert run("dissect", SMALL, "--format", "json", *limit, PAGER=pager).stdout.startswith(MARK)
    assert run("dissect", SMALL, "--format", "ndjson", *limit, PAGER=pager).stdout == '{"frame":1}\n'


@pytest.mark.parametrize("chosen", ["", "cat", "a-program-nobody-has", "'unbalanced"])
def test_pagers_that_are_none(chosen: str) -> None:
    without = run("dissect", SMALL, "--limit", "3", PAGER=chosen)
    assert len(without.stdout.splitlines()) == 4
    assert (without.status, without.stderr) == (0, "")


def test_no_pager(pager: str) -> None:
    assert MARK not in run("dissect", SMALL, "--limit", "3", "--no-pager", PAGER=pager).stdout


def test_a_pipe_is_not_paged(pager: str) -> None:
    done = run("dissect", SMALL, "--limit", "3", terminal=False, PAGER=pager)
    assert len(done.stdout.splitlines()) == 4


def test_a_file_is_not_paged(pager: str, tmp_path: Path) -> None:
    done = run("dissect", SMALL, "--limit", "3", "-o", str(tmp_path / "out"), PAGER=pager)
    assert done == Run(0, "", "")
    assert len((tmp_path / "out").read_text().splitlines()) == 4


def test_leaving_the_pager_early_is_quiet() -> None:
    done = run("dissect", LARGE, PAGER="head -n 2")
    assert len(done.stdout.splitlines()) == 2
    assert (done.status, done.stderr) == (0, "")


def test_leaving_before_anything_is_written_is_quiet() -> None:
    assert run("dissect", LARGE, PAGER="true") == Run(0, "", "")


def test_the_status_is_the_command_s_not_the_pager_s(pager: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((ROOT / SMALL).read_bytes()[:20_000])
    done = run("dissect", str(cut), PAGER=pager)
    assert done.status == 3
    assert "the file ends" in done.stderr
    assert done.stdout.startswith(MARK)


def test_a_mistake_needs_no_pager(pager: str) -> None:
    done = run("dissect", "captures/nothing.pcap", PAGER=pager)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_less_leaves_at_once_where_everything_fits_and_the_user_s_wishes_come_first() -> None:
    shown = "sh -c 'cat >/dev/null; echo LESS=$LESS'"
    assert run("dissect", SMALL, "--limit", "1", PAGER=shown).stdout == "LESS=FRX\n"
    assert run("dissect", SMALL, "--limit", "1", PAGER=shown, LESS="S").stdout == "LESS=S\n"
