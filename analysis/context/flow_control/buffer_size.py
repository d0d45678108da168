"""The flow-control windows of one connection: what was asked for, what was granted, from which byte on.

Questions and answers are paired by their order in their own directions, which is exact whichever of them the capture
shows first. Must not know sums.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

KEY = b"connection_buffer_size"
NO_WINDOW = -1
NEVER = 1 << 62
SHORTEST = 24  #: no message is shorter: fewer bytes than that cannot hide one
_LARGEST = 1 << 60
_MOST = 1024  #: questions without an answer, or answers without a question, that are remembered


class SizeChange(NamedTuple):
    """A window that was granted. It holds for all that the producer sends behind its answer."""

    offset: int  #: behind the answer, in the producer's direction
    size: int  #: 0: flow control is off
    time_ns: int


class _Question(NamedTuple):
    end: int
    size: int  #: NO_WINDOW: about something else


class _Answer(NamedTuple):
    end: int
    acked: int
    granted: bool
    opaque: int
    time_ns: int


def size_of(text: str) -> int:
    """Return the window that a control asks for; what is no number is taken for 0, which accuses nobody."""
    return min(int(text[:18]), _LARGEST) if text.isascii() and text.isdigit() else 0


@dataclass(slots=True, eq=False)
class BufferSizes:
    """All of one connection."""

    changes: list[SizeChange] = field(default_factory=list)  #: that were not passed by both sides yet
    passed: int = 0  #: changes before those
    overflowed: bool = False
    _questions: dict[int, deque[_Question]] = field(default_factory=dict)
    _answers: deque[_Answer] = field(default_factory=deque)
    _asked: list[int] = field(default_factory=list)  #: ends of the questions for a window, up to the first grant
    _refused: list[int] = field(default_factory=list)  #: ends of their refusals
    _granted: bool = False
    _count: int = 0

    def ask(self, end: int, opaque: int, size: int) -> None:
        """The consumer has sent a control."""
        if self._count >= _MOST:
            self.overflowed = True
            return
        self._count += 1
        self._questions.setdefault(opaque, deque()).append(_Question(end, size))
        if size != NO_WINDOW and not self._granted:
            self._asked.append(end)

    def answer(self, end: int, acked: int, opaque: int, time_ns: int, *, granted: bool) -> None:
        """The producer has answered a control."""
        if len(self._answers) >= _MOST:
            self.overflowed = True
            return
        self._answers.append(_Answer(end, acked, granted, opaque, time_ns))

    def resolve(self, heard: int, *, final: bool = False) -> None:
        """Pair what can be paired. ``heard`` is how far the consumer's messages are known."""
        while self._answers:
            answer = self._answers[0]
            waiting = self._questions.get(answer.opaque)
            if waiting:
                question = waiting.popleft()
                self._count -= 1
                if not waiting:
                    del self._questions[answer.opaque]
                self._settle(question, answer)
            elif not final and answer.acked >= heard + SHORTEST:
                return  # the question may still come
            self._answers.popleft()

    def _settle(self, question: _Question, answer: _Answer) -> None:
        if question.size == NO_WINDOW:
            return
        if answer.granted:
            self.changes.append(SizeChange(answer.end, question.size, answer.time_ns))
            self._granted = True
        elif not self._granted:
            self._refused.append(answer.end)
            self.overflowed |= len(self._refused) > _MOST

    def following(self, number: int) -> tuple[SizeChange | None, int]:
        """Return the change of this number, if it is known yet, and the offset that cannot be passed before it is."""
        at = number - self.passed
        if at < len(self.changes):
            return self.changes[at], self.changes[at].offset
        return None, self._answers[0].end if self._answers else NEVER

    def forget(self, number: int) -> None:
        """Both sides are past the changes before this one."""
        del self.changes[: number - self.passed]
        self.passed = number

    def wanted(self, ends: Longs, acked: Longs) -> NDArray[np.bool_]:
        """Tell which of the consumer's messages come behind a question for a window that it had not seen refused."""
        if not self._refused and self._asked and self._asked[0] < ends[0]:
            return np.ones(len(ends), bool)
        asked = np.searchsorted(self._asked, ends)
        refused = np.searchsorted(self._refused, acked, side="right")
        found: NDArray[np.bool_] = asked > refused
        return found
