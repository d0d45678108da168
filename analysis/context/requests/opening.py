"""How a connection is set up: its opens, what else belongs before them, and controls that a consumer waits for.

Takes requests and answers from the set-up reader, one at a time; reports what rules of connections look at.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analysis.context import kinds
from analysis.context.codes import UnknownReason
from dissector.spec import enums
from dissector.spec.controls import CONTROL_KEYS

if TYPE_CHECKING:
    from analysis.context.frame_refs import Ref
    from analysis.context.requests.state import ConnectionState, PendingRequest
    from analysis.context.tables import Records

_MOST_CONTROLS = 256
_MOST_OPENS = 64  #: of a connection, those that are told about
#: Statuses of an open that came before its sender had logged in and chosen a bucket.
_NOT_PREPARED = frozenset(enums.STATUSES.number(name) for name in ("no_bucket", "auth_error", "no_access"))
#: Requests that nothing but a connection that was opened can be granted.
NEEDS_OPEN = frozenset(
    (kinds.CONTROL, kinds.STREAM_REQUEST, kinds.CLOSE_STREAM, kinds.GET_FAILOVER_LOG, kinds.ADD_STREAM)
)
#: The release that a control parameter came with, as a number that compares.
_CONTROL_SINCE = {
    key.name.encode(): 100 * key.since.major + key.since.minor for key in CONTROL_KEYS if key.since is not None
}


@dataclass(slots=True, eq=False)
class OpenState:
    """The opens of one connection."""

    first: PendingRequest | None = None  #: the first open that was not refused
    granted: Ref | None = None  #: the answer that granted it
    unsure: bool = False  #: whether it was granted is not known
    count: int = 0
    #: By side: its controls, but for answered ones at the front.
    controls: tuple[deque[PendingRequest], deque[PendingRequest]] = field(default_factory=lambda: (deque(), deque()))
    #: By side: the newest release of which it has asked for a control.
    since: list[int] = field(default_factory=lambda: [0, 0])


class OpenReader:
    """Reads what belongs to the opening of connections."""

    def __init__(self, opens: Records, setups: Records, consumer_requests: Records) -> None:
        self._opens, self._setups, self._consumer_requests = opens, setups, consumer_requests

    # ------------------------------------------------------------------------------------------------------- requests

    def open(self, state: ConnectionState, request: PendingRequest) -> bool:
        """Take an open; tell whether it is the one that sets the roles."""
        opening = state.opening
        opening.count += 1
        if opening.first is not None:
            return False
        opening.first = request
        return True

    def note_setup(self, state: ConnectionState, row: dict[str, Any], ref: Ref) -> None:
        """Take a HELLO, a log-in or the choice of a bucket."""
        first = state.opening.first
        mine = first is not None and first.ref.side == ref.side
        self._setups.add(
            state.number,
            -1,
            0,
            ref,
            {"open": first.ref if first is not None and mine else None},
            opcode=row["opcode"],
            late=int(mine),
            opaque=row["opaque"],
        )

    def control(self, state: ConnectionState, request: PendingRequest) -> None:
        """Take a control: who asks for it knows it."""
        since = state.opening.since
        side = request.ref.side
        since[side] = max(since[side], _CONTROL_SINCE.get(request.key, 0))
        if len(state.opening.controls[side]) < _MOST_CONTROLS:
            state.opening.controls[side].append(request)

    def stream_request(self, state: ConnectionState, request: PendingRequest) -> None:
        """Take a stream request: a consumer that was opened as one has its controls answered before."""
        opening, side = state.opening, request.ref.side
        first = opening.first
        if first is None or first.ref.side == side:
            return  # the consumer is a client, or not known
        controls = opening.controls[side]
        while controls and controls[0].answered:
            controls.popleft()
        waiting = [each for each in controls if not each.answered]
        unsure = any(each.maybe_answered for each in waiting)
        self._consumer_requests.add(
            state.number,
            request.vbucket,
            request.stream_id,
            request.ref,
            {"control": waiting[0].ref if waiting else None},
            waiting=len(waiting),
            consumer_since=opening.since[side],
            opaque=request.opaque,
            unknown=UnknownReason.GAP if unsure else UnknownReason.KNOWN,
        )

    # -------------------------------------------------------------------------------------------------------- answers

    def answer(self, state: ConnectionState, request: PendingRequest, ref: Ref, status: int) -> None:
        """Take the answer to an open."""
        opening = state.opening
        self._report(state, request, ref, status)
        if opening.first is request:
            if status == enums.SUCCESS:
                opening.granted, opening.unsure = ref, request.unreadable
            else:
                opening.first = None  # the next one is the first
        elif status == enums.SUCCESS and opening.granted is None:
            opening.first, opening.granted = request, ref

    def lost_answer(self, state: ConnectionState, request: PendingRequest) -> None:
        """Take note that the answer to an open may have been lost."""
        state.opening.unsure |= state.opening.first is request

    def finish(self, state: ConnectionState) -> None:
        """Report the opens that were never answered."""
        for request in state.pending:
            if request.opcode == kinds.OPEN:
                self._report(state, request, None, -1)

    def not_open(self, state: ConnectionState, request: PendingRequest) -> tuple[bool, UnknownReason]:
        """Tell whether a request is answered on a connection that was not opened, and why that is not certain."""
        opening = state.opening
        if request.opcode not in NEEDS_OPEN or opening.granted is not None or request.draft:
            return False, UnknownReason.KNOWN
        if not all(state.begun):
            return True, UnknownReason.START
        lost = opening.unsure or any(hidden.row for hidden in state.hidden)
        return True, UnknownReason.GAP if lost else UnknownReason.KNOWN

    def _report(self, state: ConnectionState, request: PendingRequest, answer: Ref | None, status: int) -> None:
        opening, first = state.opening, state.opening.first
        again = first is not None and first.ref.start_offset < request.ref.start_offset
        if opening.count > _MOST_OPENS and again:
            return
        unknown = UnknownReason.KNOWN
        if again and opening.granted is None:
            unknown = UnknownReason.GAP if opening.unsure else UnknownReason.END
        self._opens.add(
            state.number,
            -1,
            0,
            request.ref,
            {"first": first.ref if first is not None and again else None, "answer": answer},
            again=int(again),
            status=status,
            unprepared=int(status in _NOT_PREPARED),
            opaque=request.opaque,
            unknown=unknown,
        )
