"""The progress bar: on a terminal's stderr, for long reads, and never in the way of what is written."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = "captures/25_stream_id_v705.pcap"
SIZE_KB = (ROOT / CAPTURE).stat().st_size / 1000  #: as rich counts
#: The command, with another idea of what is long.
COMMAND = """
import sys
from dissector import progress
from dissector.cli import main
if sys.argv[1] != "unchanged":
    progress.SMALLEST = int(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


def _drain(descriptor: int, pieces: list[bytes]) -> None:
    try:
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
    except OSError:  # how Linux says that a terminal has no other end any more
        pass


def run(
    smallest: int | str, *args: str, terminals: tuple[bool, bool], stdin: Path | None = None
) -> tuple[int, str, str]:
    """Run the command with a terminal or a pipe as stdout and stderr; return its status and what went to each."""
    ends = [pty.openpty() if terminal else os.pipe() for terminal in terminals]
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    with (stdin or Path(os.devnull)).open("rb") as source:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(smallest), *args],
            stdin=source,
            stdout=ends[0][1],
            stderr=ends[1][1],
            cwd=ROOT,
            env={**env, "TERM": "xterm", "COLUMNS": "100", "PAGER": "cat", "PYTHONUTF8": "1"},
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
    status, out, err = run(1, "dissect", CAPTURE, "--format", "ndjson", terminals=(False, True))
    assert (status, out) == (0, expected)
    assert "━" in err
    assert f"/{SIZE_KB:.1f} kB" in err
    assert f"{SIZE_KB:.1f}/{SIZE_KB:.1f} kB" in err  # it comes to its end
    assert err.rstrip("\n").endswith("\x1b[2K")  # and wipes itself off


def test_a_short_read_shows_nothing(expected: str) -> None:
    assert run("unchanged", "dissect", CAPTURE, "--format", "ndjson", terminals=(False, True)) == (0, expected, "")


def test_nobody_is_watching_a_pipe(expected: str) -> None:
    assert run(1, "dissect", CAPTURE, "--format", "ndjson", terminals=(False, False)) == (0, expected, "")


def test_what_is_shown_on_the_terminal_itself_needs_no_bar(expected: str) -> None:
    assert run(1, "dissect", CAPTURE, "--format", "ndjson", terminals=(True, True)) == (0, expected, "")


def test_standard_input_has_no_end_to_show_but_a_bar(expected: str) -> None:
    args = ("dissect", "-", "--format", "ndjson", "--fields", "frame")
    status, out, err = run("unchanged", *args, terminals=(False, True), stdin=ROOT / CAPTURE)
    assert status == 0
    assert out.count("\n") == expected.count("\n")
    assert "━" in err


def test_what_was_lost_is_said_behind_the_bar(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((ROOT / CAPTURE).read_bytes()[:20_000])
    status, _, err = run(1, "dissect", str(cut), "--format", "ndjson", terminals=(False, True))
    assert status == 3
    assert err.index("━") < err.index("the file ends")
