"""What a tree of processes costs: CPU time of all of it, and the largest memory of a Python process below its root.

Knows Linux's /proc; must not know what the processes do. Spark's Python workers end unwaited for, so no parent has
their times: somebody has to look while they live. What a process did behind the last look at it is lost: at most the
time between two looks, for each process that has ended.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES, _START = 1, slice(11, 13), 19  #: behind the name; times are user and system
_SECONDS = 0.2  #: between two looks
_PAGE = os.sysconf("SC_PAGE_SIZE")
_RESIDENT = 21


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as it is now."""

    pid: int
    name: str
    parent: int
    start: int  #: tells it from a later one of the same number
    cpu_s: float
    rss_bytes: int


class Meter:
    """Looks at a process and everything below it, again and again."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._cpu_s: dict[tuple[int, int], float] = {}
        self._lock = threading.Lock()
        self._peak = 0
        self._own_s = 0.0  #: what looking has cost, which is in the times of the process that looks

    @contextlib.contextmanager
    def running(self) -> Iterator[Meter]:
        """Look while the block runs."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            over.set()
            watcher.join()

    def cpu_s(self) -> float:
        """Return the CPU time of everything so far."""
        self._look()
        with self._lock:
            return sum(self._cpu_s.values()) - self._own_s

    def peak_mb(self) -> float:
        """Return the largest memory of one Python process below the root since the last such question."""
        self._look()
        with self._lock:
            peak, self._peak = self._peak, 0
        return peak / 1e6

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_SECONDS):
            self._look()

    def _look(self) -> None:
        begin = time.thread_time()
        found = tree(self._root)
        with self._lock:
            self._own_s += time.thread_time() - begin
            for each in found:
                self._cpu_s[each.pid, each.start] = each.cpu_s
                if each.pid != self._root and each.name.startswith("python"):
                    self._peak = max(self._peak, each.rss_bytes)


def tree(root: int) -> list[Process]:
    """Return a process and everything below it."""
    children: dict[int, list[Process]] = {}
    found = []
    for each in _all():
        children.setdefault(each.parent, []).append(each)
        if each.pid == root:
            found.append(each)
    for each in found:  # it grows while it is walked over
        found += children.get(each.pid, ())
    return found


def _all() -> Iterator[Process]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it may end at any time
                before, _, behind = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")
                words = behind.split()
                cpu_s = sum(map(int, words[_TIMES])) / _TICKS
                name = before.partition("(")[2]
                yield Process(
                    int(entry.name),
                    name,
                    int(words[_PARENT]),
                    int(words[_START]),
                    cpu_s,
                    int(words[_RESIDENT]) * _PAGE,
                )
