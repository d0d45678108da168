"""What a stream that is handed over asked its consumer to confirm: markers and vbucket states, and what came of it.

A producer goes on with a takeover only when everything before is confirmed. Whether it had been, from its own point of
view, shows in what the message that goes on acknowledges: the answer must have arrived, not only been sent.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from analysis.context import kinds
from analysis.context.causality import had_received
from analysis.context.codes import UnknownReason

if TYPE_CHECKING:
    from analysis.context.frame_refs import Ref
    from analysis.context.requests.state import ConnectionState, PendingRequest

_MOST_MARKERS = 256  #: markers that wait, of one stream
ASKING = frozenset((kinds.SNAPSHOT_MARKER, kinds.SET_VBUCKET_STATE))


@dataclass(slots=True, eq=False)
class Handover:
    """One stream: its last state, and the markers that no answer is known of."""

    state: PendingRequest | None = None
    markers: deque[PendingRequest] = field(default_factory=lambda: deque(maxlen=_MOST_MARKERS))
    unsure: UnknownReason = UnknownReason.KNOWN  #: why an answer may be meant for another stream's request

    def owns(self, request: PendingRequest) -> bool:
        """Tell whether a request is one of this stream's."""
        return request is self.state or any(request is each for each in self.markers)


class HandoverFacts(NamedTuple):
    """What a producer had been answered when it sent a state, or the end of a stream."""

    state: Ref | None = None  #: the state before
    state_ordinal: int = 0
    state_answered: bool = False
    answer_unknown: UnknownReason = UnknownReason.LIMIT  #: why that is not certain
    marker: Ref | None = None  #: the first marker that waits
    markers_waiting: int = 0
    marker_unknown: UnknownReason = UnknownReason.KNOWN


def note_request(state: ConnectionState, key: int, request: PendingRequest, first: PendingRequest | None) -> None:
    """Take a marker or state that asks for an answer; ``first`` is the oldest that waits under the same opaque."""
    handover = state.handovers.get(key)
    if handover is None:
        handover = Handover()
    state.remember(state.handovers, key, handover)
    markers, heard = handover.markers, state.received[request.ref.side]
    while markers and _was_answered(markers[0], heard):
        markers.popleft()
    if state.overflowed:
        handover.unsure = UnknownReason.LIMIT
    elif first is not None and not handover.owns(first):
        # Answers name no vbucket: another stream has the opaque, or one before it was left without an answer.
        handover.unsure = UnknownReason.GAP
    if request.opcode == kinds.SET_VBUCKET_STATE:
        handover.state = request
    else:
        if len(markers) == _MOST_MARKERS:
            handover.unsure = UnknownReason.LIMIT
        markers.append(request)


def facts(state: ConnectionState, key: int, side: int, acked: int) -> HandoverFacts:
    """Return what the producer, of this side, knew when it had received so much of the consumer's bytes."""
    handover = state.handovers.get(key)
    if handover is None:
        return HandoverFacts()
    waiting = [each for each in handover.markers if not _was_answered(each, acked)]
    before = handover.state
    answered = before is not None and _was_answered(before, acked)
    unsure = UnknownReason.LIMIT
    if before is not None:
        unsure = _doubt(state, handover, side, acked, [] if answered else [before])
    return HandoverFacts(
        state=None if before is None else before.ref,
        state_ordinal=0 if before is None else before.ref.ordinal,
        state_answered=answered,
        answer_unknown=unsure,
        marker=waiting[0].ref if waiting else None,
        markers_waiting=len(waiting),
        marker_unknown=_doubt(state, handover, side, acked, waiting),
    )


def _was_answered(request: PendingRequest, acked: int) -> bool:
    return request.answered and had_received(acked, request.answer_end)


def _doubt(
    state: ConnectionState, handover: Handover, side: int, acked: int, waiting: list[PendingRequest]
) -> UnknownReason:
    """Return why it is not certain that the producer had no answer to what waits."""
    if not waiting:
        return UnknownReason.KNOWN
    if acked < 0:
        return UnknownReason.ONE_SIDED
    hidden = state.hidden[1 - side]
    if any(each.maybe_answered or hidden.may_hold_answer(each.end_offset) for each in waiting):
        return UnknownReason.GAP
    return handover.unsure
