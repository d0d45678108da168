"""The progress bar: on a terminal's stderr, for long reads, and never in the way of what is written."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CAPTURE = "captures/25_stream_id_v705.pcap"
SIZE_KB = (ROOT / CAPTURE).stat().st_size / 1000  #: as rich counts
#: The command, with another idea of what is long.
COMMAND = """
import sys
from dissector.terminal import progress
from uprscope.cli import main
if sys.argv[1] != "unchanged":
    progress.SMALLEST = int(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""
#: The bar alone, around a reader that is only said to read.
ALONE = """
import sys
from types import SimpleNamespace
from dissector.terminal.progress import SMALLEST, progress
total = {"long": SMALLEST, "short": SMALLEST - 1, "endless": None}[sys.argv[1]]
reader = SimpleNamespace(bytes_read=0, bytes_total=total)
with progress(reader, wanted=sys.argv[2] == "wanted") as advance:
    for _ in range(4):
        reader.bytes_read += SMALLEST // 4
        advance()
        print("row")
"""


def _drain(descriptor: int, pieces: list[bytes]) -> None:
    try:
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
    except OSError:  # how Linux says that a terminal has no other end any more
        pass


def run(*args: str, terminals: tuple[bool, bool], program: str = COMMAND) -> tuple[int, str, str]:
    """Run a program with a terminal or a pipe as stdout and stderr; return its status and what went to each."""
    ends = [pty.openpty() if terminal else os.pipe() for terminal in terminals]
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *args],
        stdin=subprocess.DEVNULL,
        stdout=ends[0][1],
        stderr=ends[1][1],
        cwd=ROOT,
        # A pager that shows one line: rows for programs must not go through it.
        env={**env, "TERM": "xterm", "COLUMNS": "100", "PAGER": "head -n 1", "PYTHONUTF8": "1"},
    )
    found: list[list[bytes]] = [[], []]
    threads = []
    for (reading, writing), pieces in zip(ends, found, strict=True):
        os.close(writing)
        threads.append(threading.Thread(target=_drain, args=(reading, pieces)))
        threads[-1].start()
    status = process.wait(60)
    for thread, (reading, _) in zip(threads, ends, strict=True):
        thread.join(60)
        os.close(reading)
    out, err = (b"".join(pieces).decode().replace("\r\n", "\n") for pieces in found)
    return status, out, err


@pytest.fixture(scope="module")
def expected() -> str:
    """What the command writes where nobody is watching."""
    status, out, err = run("unchanged", "dissect", CAPTURE, "--format", "ndjson", terminals=(False, False))
    assert (status, err) == (0, "")
    assert out.count("\n") > 500
    return out


def test_a_long_read_shows_a_bar_and_leaves_the_output_alone(expected: str) -> None:
    status, out, err = run("1", "dissect", CAPTURE, "--format", "ndjson", terminals=(False, True))
    assert (status, out) == (0, expected)
    assert "━" in err
    assert f"/{SIZE_KB:.1f} kB" in err
    assert f"{SIZE_KB:.1f}/{SIZE_KB:.1f} kB" in err  # it comes to its end
    assert err.rstrip("\n").endswith("\x1b[2K")  # and wipes itself off


def test_what_is_shown_on_the_terminal_itself_needs_no_bar(expected: str) -> None:
    assert run("1", "dissect", CAPTURE, "--format", "ndjson", terminals=(True, True)) == (0, expected, "")


def test_what_was_lost_is_said_behind_the_bar(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((ROOT / CAPTURE).read_bytes()[:20_000])
    status, _, err = run("1", "dissect", str(cut), "--format", "ndjson", terminals=(False, True))
    assert status == 3
    assert err.index("━") < err.index("the file ends")


def test_a_long_writing_shows_a_bar(tmp_path: Path) -> None:
    words = ("generate", "bulk", "--frames", "3000", "-o", str(tmp_path / "big.pcap"))
    status, out, err = run("1", *words, terminals=(False, True))
    assert (status, out) == (0, "")
    assert "━" in err
    wrote = f"uprscope: wrote {tmp_path / 'big.pcap'}: 1,602 packets\n"
    assert run("unchanged", *words, terminals=(False, True)) == (0, "", wrote)


# ------------------------------------------------------------------------------------------------------- the bar alone

ROWS = "row\n" * 4


@pytest.mark.parametrize("length", ["long", "endless"])  # the size of a pipe is not known
def test_a_bar_is_shown_beside_the_output(length: str) -> None:
    status, out, err = run(length, "wanted", terminals=(False, True), program=ALONE)
    assert (status, out) == (0, ROWS)
    assert "━" in err


@pytest.mark.parametrize(
    ("length", "wanted", "terminal"), [("short", "wanted", True), ("long", "unwanted", True), ("long", "wanted", False)]
)
def test_no_bar(length: str, wanted: str, terminal: bool) -> None:
    assert run(length, wanted, terminals=(False, terminal), program=ALONE) == (0, ROWS, "")
