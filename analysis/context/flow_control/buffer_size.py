"""The flow-control windows of one connection: what was requested, what was granted, from which byte on.

Control requests and responses are paired by their order in their own directions, which is exact whichever of them the
capture shows first. Knows controls; must not know sums.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs


BUFFER_SIZE_KEY = b"connection_buffer_size"
NO_WINDOW = -1
NEVER = 1 << 62
SHORTEST_MESSAGE = 24  #: bytes of a header: a shorter gap can't hide a message
_LARGEST_SIZE = 1 << 60
_MOST_PENDING = 1024  #: requests without a response, or responses without a request, that are remembered


class SizeChange(NamedTuple):
    """A window that was granted. It holds for all that the producer sends after its response."""

    offset: int  #: of the end of the response, in the producer's direction
    size: int  #: 0: flow control is off
    time_ns: int


class _ControlRequest(NamedTuple):
    """A control that the consumer sent."""

    end: int
    size: int  #: NO_WINDOW: about something else


class _ControlResponse(NamedTuple):
    """The producer's response to a control."""

    end: int
    acked: int  #: offset up to which the producer had received the consumer's bytes
    granted: bool
    opaque: int
    time_ns: int


def requested_size(text: str) -> int:
    """Return the window that a control requests; text that is no number counts as 0, which breaks no rule."""
    return min(int(text[:18]), _LARGEST_SIZE) if text.isascii() and text.isdigit() else 0


@dataclass(slots=True, eq=False)
class BufferSizes:
    """The windows of one connection, in order."""

    changes: list[SizeChange] = field(default_factory=list)  #: those that not both sides have passed yet
    passed: int = 0  #: changes before those
    overflowed: bool = False  #: too many controls are unpaired: pairs are not known any more
    _requests: dict[int, deque[_ControlRequest]] = field(default_factory=dict)
    _responses: deque[_ControlResponse] = field(default_factory=deque)
    _requested_at: list[int] = field(default_factory=list)  #: ends of window requests up to the first grant
    _refused_at: list[int] = field(default_factory=list)  #: ends of their refusals
    _granted: bool = False
    _pending: int = 0  #: requests without a response

    def note_request(self, end: int, opaque: int, size: int) -> None:
        """The consumer has sent a control."""
        if self._pending >= _MOST_PENDING:
            self.overflowed = True
            return
        self._pending += 1
        self._requests.setdefault(opaque, deque()).append(_ControlRequest(end, size))
        if size != NO_WINDOW and not self._granted:
            self._requested_at.append(end)

    def note_response(self, end: int, acked: int, opaque: int, time_ns: int, *, granted: bool) -> None:
        """The producer has answered a control."""
        if len(self._responses) >= _MOST_PENDING:
            self.overflowed = True
            return
        self._responses.append(_ControlResponse(end, acked, granted, opaque, time_ns))

    def pair_controls(self, consumer_end: int, *, final: bool = False) -> None:
        """Pair requests and responses; the consumer's messages are known up to ``consumer_end``."""
        while self._responses:
            response = self._responses[0]
            waiting = self._requests.get(response.opaque)
            if waiting:
                request = waiting.popleft()
                self._pending -= 1
                if not waiting:
                    del self._requests[response.opaque]
                self._apply(request, response)
            elif not final and response.acked >= consumer_end + SHORTEST_MESSAGE:
                return  # the request may still come
            self._responses.popleft()

    def _apply(self, request: _ControlRequest, response: _ControlResponse) -> None:
        if request.size == NO_WINDOW:
            return
        if response.granted:
            self.changes.append(SizeChange(response.end, request.size, response.time_ns))
            self._granted = True
        elif not self._granted:
            self._refused_at.append(response.end)
            self.overflowed |= len(self._refused_at) > _MOST_PENDING

    def next_change(self, number: int) -> tuple[SizeChange | None, int]:
        """Return the change of this number, or None if it is not known yet, and the offset at which it is needed."""
        at = number - self.passed
        if at < len(self.changes):
            return self.changes[at], self.changes[at].offset
        return None, self._responses[0].end if self._responses else NEVER

    def drop_passed(self, number: int) -> None:
        """Drop the changes before this number: both sides have passed them."""
        del self.changes[: number - self.passed]
        self.passed = number

    def was_requested(self, ends: Longs, acked: Longs) -> NDArray[np.bool_]:
        """Tell which of the consumer's messages come after a window request whose refusal it had not received."""
        if not self._refused_at and self._requested_at and self._requested_at[0] < ends[0]:
            return np.ones(len(ends), bool)
        requested = np.searchsorted(self._requested_at, ends)
        refused = np.searchsorted(self._refused_at, acked, side="right")
        found: NDArray[np.bool_] = requested > refused
        return found
