"""The flow-control windows of one connection: what was requested, what was granted, from which byte on.

Control requests and responses are paired by their order in their own directions, which is exact whichever of them the
capture shows first. Where a request or a response may have been lost, the window is unknown until the next control of
which both were seen. Knows controls; must not know sums.
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
UNKNOWN_WINDOW = -2  #: a control may have been lost
NEVER = 1 << 62
SHORTEST_MESSAGE = 24  #: bytes of a header: a shorter gap can't hide a message
SHORTEST_REQUEST = SHORTEST_MESSAGE + len(BUFFER_SIZE_KEY) + 1  #: bytes of a control that asks for a window
_LARGEST_SIZE = 1 << 60
_MOST_PENDING = 1024  #: requests without a response, or responses without a request, that are remembered


class SizeChange(NamedTuple):
    """A window that was granted. It holds for all that the producer sends after its response."""

    offset: int  #: of the end of the response, in the producer's direction
    size: int  #: 0: flow control is off
    time_ns: int
    place: int = 0  #: of the response's packet in the captures


class _ControlRequest(NamedTuple):
    """A control that the consumer sent."""

    end: int
    size: int  #: NO_WINDOW: about something else


class _ControlResponse(NamedTuple):
    """The producer's response to a control, or lost bytes in which there may have been responses."""

    end: int  #: of a loss: where the first response in it can end
    acked: int  #: offset up to which the producer had received the consumer's bytes
    granted: bool
    opaque: int  #: _LOST: unknown
    time_ns: int
    place: int


_LOST = -1


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
    _answered: dict[int, deque[_ControlRequest]] = field(default_factory=dict)  #: whose response may be lost
    _responses: deque[_ControlResponse] = field(default_factory=deque)
    _requested_at: list[int] = field(default_factory=list)  #: ends of window requests up to the first grant
    _refused_at: list[int] = field(default_factory=list)  #: ends of their refusals
    _lost_requests: list[tuple[int, int]] = field(default_factory=list)  #: begin and end: not answered yet, if any
    _request_lost_at: int = NEVER  #: the first offset at which a request may have been lost
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

    def note_response(self, end: int, acked: int, opaque: int, time_ns: int, place: int = 0, *, granted: bool) -> None:
        """The producer has answered a control."""
        if len(self._responses) >= _MOST_PENDING:
            self.overflowed = True
            return
        self._responses.append(_ControlResponse(end, acked, granted, opaque, time_ns, place))

    def note_lost_requests(self, begin: int, end: int) -> None:
        """Bytes of the consumer were lost."""
        if end - begin >= SHORTEST_REQUEST:
            self._request_lost_at = min(self._request_lost_at, begin)
            self._lost_requests.append((begin, end))
            if len(self._lost_requests) > _MOST_PENDING:
                self._lost_requests[:2] = [(self._lost_requests[0][0], self._lost_requests[1][1])]

    def note_lost_responses(self, begin: int, acked: int, time_ns: int, place: int) -> None:
        """Bytes of the producer were lost, before a frame that had received ``acked`` of the consumer's bytes."""
        if len(self._responses) >= _MOST_PENDING:
            self.overflowed = True
            return
        earliest = begin + SHORTEST_MESSAGE
        self._responses.append(_ControlResponse(earliest, acked, False, _LOST, time_ns, place))

    def pair_controls(self, consumer_end: int, *, final: bool = False) -> None:
        """Pair requests and responses; the consumer's messages are known up to ``consumer_end``."""
        while self._responses:
            response = self._responses[0]
            certain = response.opaque != _LOST and response.opaque not in self._answered
            waiting = self._requests.get(response.opaque) if certain else None
            if not waiting and not final and response.acked >= consumer_end + SHORTEST_MESSAGE:
                return  # the request may still come
            self._responses.popleft()
            if waiting:
                self._apply(self._take(response.opaque), response)
            elif response.opaque == _LOST:
                self._responses_lost(response)
            elif not certain:
                self._apply_one_of_several(response)
            elif response.granted and self._may_answer_lost(response.acked):
                self._become_unknown(response)

    def _take(self, opaque: int) -> _ControlRequest:
        """Take the first request that waits for a response."""
        waiting = self._requests[opaque]
        self._pending -= 1
        request = waiting.popleft()
        if not waiting:
            del self._requests[opaque]
        return request

    def _apply(self, request: _ControlRequest, response: _ControlResponse) -> None:
        # Responses come in the order of their requests: of what was lost before this one, all was answered.
        self._lost_requests = [each for each in self._lost_requests if each[1] > request.end]
        if request.size == NO_WINDOW:
            return
        if response.granted:
            self.changes.append(SizeChange(response.end, request.size, response.time_ns, response.place))
            self._granted = True
        elif not self._granted:
            self._refused_at.append(response.end)
            self.overflowed |= len(self._refused_at) > _MOST_PENDING

    def _may_answer_lost(self, acked: int) -> bool:
        """Tell whether a request may have been lost that the producer had received by then."""
        return any(acked < 0 or begin + SHORTEST_REQUEST <= acked for begin, _ in self._lost_requests)

    def _responses_lost(self, loss: _ControlResponse) -> None:
        """All requests that the producer had received by then may have been answered in lost bytes."""
        hidden = self._may_answer_lost(loss.acked)
        for opaque in [*self._requests]:
            while opaque in self._requests and (loss.acked < 0 or self._requests[opaque][0].end <= loss.acked):
                request = self._take(opaque)
                hidden |= request.size != NO_WINDOW
                self._answered.setdefault(opaque, deque(maxlen=_MOST_PENDING)).append(request)
        if hidden:
            self._become_unknown(loss)

    def _apply_one_of_several(self, response: _ControlResponse) -> None:
        """Apply a response whose request may be one of those that were answered in lost bytes."""
        opaque, candidates = response.opaque, self._answered[response.opaque]
        while opaque in self._requests and (response.acked < 0 or self._requests[opaque][0].end <= response.acked):
            candidates.append(self._take(opaque))
        if len(candidates) == 1:
            self._apply(candidates[0], response)
        elif response.granted and any(each.size != NO_WINDOW for each in candidates):
            self._become_unknown(response)
        candidates.popleft()  # responses come in the order of their requests
        if not candidates:
            del self._answered[opaque]

    def _become_unknown(self, response: _ControlResponse) -> None:
        self.changes.append(SizeChange(response.end, UNKNOWN_WINDOW, response.time_ns, response.place))

    def request_may_be_lost(self, ends: Longs) -> NDArray[np.bool_]:
        """Tell before which of the consumer's messages a window request may have been lost."""
        found: NDArray[np.bool_] = ends > self._request_lost_at
        return found

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
