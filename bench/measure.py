"""What a command costs: CPU time of user and system, wall time, peak memory.

Linux counts the peak memory of whoever starts a process as that process's own, so whoever measures must stay small:
no numpy or pyarrow in the process that imports this.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took, or the best of several rounds."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float

    def best(self, other: Cost) -> Cost:
        """Return the least time and the largest memory of two rounds."""
        return Cost(
            min(self.cpu_s, other.cpu_s), min(self.wall_s, other.wall_s), max(self.peak_rss_mb, other.peak_rss_mb)
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended."""

    cost: Cost
    status: int
    output: bytes  #: of its standard output, if it was kept
    complaint: str  #: last line of its standard error


def run(command: list[str], *, keep_output: bool) -> Run:
    """Run a command, and let the kernel say what it and its children took."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output if keep_output else subprocess.DEVNULL, stderr=errors)
        _, wait_status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(wait_status)  # or Popen would wait for it again
        output.seek(0)
        errors.seek(0)
        complaints = errors.read().decode(errors="replace").strip().splitlines()
        return Run(
            Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1024 / 1e6),
            process.returncode,
            output.read(),
            complaints[-1] if complaints else "",
        )
