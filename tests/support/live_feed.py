"""A capture that is written packet by packet to a running command, and what the command has printed by then."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from typing import IO, TYPE_CHECKING, cast

import pytest

from dissector.capture import CaptureReader, Input

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 30  #: a machine may be busy; nothing here takes a second of it


def pieces_of(capture: Path) -> list[bytes]:
    """Cut a pcap file: its header, then its packets, each with the header of its record."""
    data = capture.read_bytes()
    with CaptureReader(Input.of(capture), chunk_bytes=len(data) + 1) as reader:
        ends = [0, 24]
        for block in reader:  # the first chunk of a file is a small one
            before = block.end_position - int(block.offset[-1] + block.captured[-1])
            ends += (before + block.offset + block.captured).tolist()
    return [data[begin:end] for begin, end in pairwise(ends)]


class Running:
    """A command that was started, its input, and the lines that it has printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def input(self) -> IO[bytes]:
        """Return the pipe that the command reads."""
        return cast("IO[bytes]", self.process.stdin)

    def write(self, data: bytes) -> None:
        """Let the command have some bytes."""
        self.input.write(data)
        self.input.flush()

    def wait_for(self, count: int) -> list[str]:
        """Wait until so many lines were printed, and return all that were."""
        while len(self.lines) < count:
            try:
                line = self._queue.get(timeout=PATIENCE_S)
            except queue.Empty:
                pytest.fail(f"{count} lines were expected by now, and there are {len(self.lines)}: {self.lines}")
            assert line, f"the command has ended after {self.lines}"
            self.lines.append(line.decode().rstrip("\n"))
        return self.lines

    def wait_until(self, text: str) -> list[str]:
        """Wait until a line with some text was printed."""
        while not any(text in line for line in self.lines):
            self.wait_for(len(self.lines) + 1)
        return self.lines

    def end(self) -> tuple[int, str]:
        """Wait for the command's end; return its status and what it said on stderr."""
        status = self.process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        while not self._queue.empty():
            line = self._queue.get()
            if line:
                self.lines.append(line.decode().rstrip("\n"))
        return status, cast("IO[bytes]", self.process.stderr).read().decode()

    def _listen(self) -> None:
        for line in cast("IO[bytes]", self.process.stdout):
            self._queue.put(line)
        self._queue.put(b"")


def heeds_interrupts() -> None:
    """Undo what a shell does to a job that it starts in the background: the tests may be part of one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def running(*words: str | Path) -> Iterator[Running]:
    """Run a command of uprscope, and be sure that it is gone after the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "uprscope", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "100"},
        preexec_fn=heeds_interrupts,  # noqa: PLW1509 - the child has one thread
    )
    with process:
        try:
            yield Running(process)
        finally:
            process.kill()
