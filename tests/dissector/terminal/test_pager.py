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

from tests.support.paths import ROOT

SMALL = "captures/04_rollback_errors.pcap"
#: More lines than a pipe holds, so that writing goes on when the pager has left.
LARGE = "captures/10_upr_early_dialect.pcap"
MARK = "[paged]"
#: The pager alone, without a capture to read: whether it is wanted, and how many lines there are.
ALONE = """
import sys
from dissector.terminal.pager import paged
with paged(wanted=sys.argv[1] == "wanted") as stream:
    for number in range(int(sys.argv[2])):
        stream.write(b"line %d\\n" % number)
"""


@dataclass(frozen=True)
class Run:
    status: int
    stdout: str
    stderr: str


def alone(wanted: str = "wanted", lines: int = 3, *, terminal: bool = True, **env: str) -> Run:
    """Write some lines by way of the pager."""
    return run(wanted, str(lines), terminal=terminal, program=("-c", ALONE), **env)


def run(*args: str, terminal: bool = True, program: tuple[str, str] = ("-m", "uprscope"), **env: str) -> Run:
    """Run a program, the command mostly, with a terminal or a pipe as its standard output."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    inherited = {name: value for name, value in os.environ.items() if name not in ("PAGER", "LESS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *program, *args],
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


def test_json_is_for_people_too(pager: str) -> None:
    done = run("dissect", SMALL, "--format", "json", "--limit", "1", "--fields", "frame", PAGER=pager)
    assert done.stdout == f'{MARK} with words\n[\n{{\n  "frame": 1\n}}\n]\n'


def test_no_pager(pager: str, tmp_path: Path) -> None:
    """Neither if it was said so, nor for a file."""
    done = run("dissect", SMALL, "--limit", "3", "--no-pager", PAGER=pager)
    assert len(done.stdout.splitlines()) == 4
    target = tmp_path / "out"
    in_file = ("--limit", "3", "--width", "80", "-o", str(target))
    assert run("dissect", SMALL, *in_file, PAGER=pager) == Run(0, "", f"uprscope: wrote {target}: 3 frames\n")
    assert target.read_text() == done.stdout


def test_leaving_the_pager_early_is_quiet() -> None:
    done = run("dissect", LARGE, PAGER="head -n 2")
    assert len(done.stdout.splitlines()) == 2
    assert (done.status, done.stderr) == (0, "")


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


# ----------------------------------------------------------------------------------------------------- the pager alone

LINES = "line 0\nline 1\nline 2\n"


def test_only_on_a_terminal_and_only_if_wanted(pager: str) -> None:
    assert alone(PAGER=pager) == Run(0, f"{MARK} with words\n{LINES}", "")
    assert alone(PAGER=pager, terminal=False) == Run(0, LINES, "")
    assert alone("unwanted", PAGER=pager) == Run(0, LINES, "")


@pytest.mark.parametrize("chosen", ["", "   ", "cat", "cat -v", "a-program-nobody-has", "'unbalanced"])
def test_pagers_that_are_none(chosen: str) -> None:
    assert alone(PAGER=chosen) == Run(0, LINES, "")


def test_leaving_before_anything_is_written_is_quiet() -> None:
    assert alone(lines=100_000, PAGER="true") == Run(0, "", "")
    assert alone(lines=0, PAGER="true") == Run(0, "", "")


def test_less_leaves_at_once_where_everything_fits_and_the_user_s_wishes_come_first() -> None:
    shown = "sh -c 'cat >/dev/null; echo LESS=$LESS'"
    assert alone(PAGER=shown).stdout == "LESS=FRX\n"
    assert alone(PAGER=shown, LESS="S").stdout == "LESS=S\n"


# -------------------------------------------------------------------------------------------- lines wider than a screen


@pytest.fixture
def less(tmp_path: Path) -> dict[str, str]:
    """A pager that is called less, and says how it was called."""
    script = tmp_path / "bin" / "less"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho '{MARK}' $@\ncat\n")
    script.chmod(0o755)
    return {"PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}", "PAGER": "less -i", "COLUMNS": "60"}


def test_a_pager_that_scrolls_sideways_gets_whole_lines_and_chops_them(less: dict[str, str]) -> None:
    mark, heading, *lines = run("dissect", SMALL, "--limit", "40", **less).stdout.splitlines()
    assert mark == f"{MARK} -S -i"
    assert heading.split() == ["frame", "conn", "message", "vb", "what", "it", "says"]  # columns fit the terminal
    assert len(lines) == 40
    assert max(map(len, lines)) > 60
    assert not any("…" in line for line in lines)
    check = run("check", SMALL, "--limit", "1", "--rules", "OPQ,SNP", **less).stdout.splitlines()
    assert check[0] == f"{MARK} -S -i"


@pytest.mark.parametrize("option", ["--wrap", "-V"])
def test_what_is_wrapped_is_not_chopped(less: dict[str, str], option: str) -> None:
    lines = run("dissect", SMALL, "--limit", "40", option, **less).stdout.splitlines()
    assert lines[0] == f"{MARK} -i"
    assert option == "-V" or max(map(len, lines)) <= 60


def test_other_pagers_and_terminals_get_chopped_lines(pager: str) -> None:
    for extra in ({"PAGER": pager}, {"PAGER": ""}):
        shown = run("dissect", SMALL, "--limit", "40", COLUMNS="60", **extra).stdout
        lines = [line for line in shown.splitlines() if MARK not in line]
        assert len(lines) == 41
        assert max(map(len, lines)) == 60
        assert sum(line.endswith("…") for line in lines) > 5


def test_a_pipe_gets_whole_lines_whatever_the_terminal_has() -> None:
    lines = run("dissect", SMALL, "--limit", "40", terminal=False, COLUMNS="60").stdout.splitlines()
    assert max(map(len, lines)) > 150
