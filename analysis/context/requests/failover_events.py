"""What a batch's set-up messages say about failover logs and rollbacks, one message each, with what was known then.

The set-up reader notes them down; :mod:`analysis.context.requests.failover_logs` takes them when the batch's items are
known as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.context import kinds
from analysis.context.codes import UnknownReason
from analysis.context.requests.rollback_point import StreamRange
from dissector.spec import enums

if TYPE_CHECKING:
    from analysis.context.frame_refs import Ref
    from analysis.context.requests.rollback_point import Log
    from analysis.context.requests.state import ConnectionState, PendingRequest

_ENTRY_SIZE = 16
_HARMLESS = tuple(map(enums.END_REASONS.number, ("ok", "closed")))  #: ends that leave the vbucket as it was


class StreamAsked(NamedTuple):
    """A stream request."""

    row: int  #: of the batch
    connection: int
    request: PendingRequest
    acked: int  #: what its sender had received
    lost_row: int  #: the last row before which something was lost in either direction; 0: none
    peer_lost: bool  #: its sender had received something that was not captured


class HistoryTold(NamedTuple):
    """An answer to a stream request or to a get failover log."""

    row: int
    connection: int
    ref: Ref
    end_offset: int
    opcode: int
    status: int
    value_length: int
    rollback_seqno: int  #: -1: none
    log: Log | None  #: None: there is none, or not all of it was captured
    request: PendingRequest | None  #: that it surely answers
    lost_row: int
    unknown: int  #: why it is not certain what it answers


class HistoryShaken(NamedTuple):
    """A stream end that does not leave the vbucket as it was."""

    row: int
    connection: int
    side: int
    vbucket: int


FailoverEvent = StreamAsked | HistoryTold | HistoryShaken


def asked(request: PendingRequest) -> StreamRange:
    """Return what a stream request asks for."""
    numbers = request.numbers
    return StreamRange(numbers["start"], numbers["uuid"], numbers["ask_snap_start"], numbers["ask_snap_end"])


def whole(request: PendingRequest, *, is_upr: bool) -> bool:
    """Tell whether the range of a stream request was captured; its snapshot comes last."""
    numbers = request.numbers
    return numbers["start"] >= 0 and numbers["ask_snap_end"] >= 0 and (request.ranged or is_upr)


def noted(index: int, state: ConnectionState, request: PendingRequest, acked: int, *, peer_lost: bool) -> StreamAsked:
    """Return what a stream request tells, and what may have been lost before it."""
    return StreamAsked(index, state.number, request, acked, lost_row(state), peer_lost)


def told(
    index: int, state: ConnectionState, row: dict[str, Any], ref: Ref, request: PendingRequest | None
) -> HistoryTold | None:
    """Return what an answer tells, if it is one to a stream request or to a get failover log."""
    opcode = row["opcode"]
    if opcode not in (kinds.STREAM_REQUEST, kinds.GET_FAILOVER_LOG):
        return None
    unknown = UnknownReason.KNOWN
    if request is not None and (request.unreadable or (1 - ref.side, opcode, row["opaque"]) in state.ambiguous):
        request, unknown = None, UnknownReason.GAP
    length = -1 if row["value_length"] is None else row["value_length"]
    entries = row["failover_log"]
    readable = entries is not None and row["status"] == enums.SUCCESS and len(entries) * _ENTRY_SIZE == length
    rollback = row["rollback_seqno"]
    return HistoryTold(
        index,
        state.number,
        ref,
        row["end_offset"],
        opcode,
        -1 if row["status"] is None else row["status"],
        length,
        -1 if rollback is None else rollback,
        tuple((each["vbucket_uuid"], each["seqno"]) for each in entries) if readable else None,
        request,
        lost_row(state),
        unknown,
    )


def shaken(index: int, state: ConnectionState, row: dict[str, Any], ref: Ref) -> HistoryShaken | None:
    """Return what a stream end tells, if its reason is that the vbucket is not what it was."""
    if row["end_reason"] in _HARMLESS or row["vbucket"] is None:
        return None
    return HistoryShaken(index, state.number, ref.side, row["vbucket"])


def lost_row(state: ConnectionState) -> int:
    """Return the last row before which something was lost in either direction; 0: nothing was."""
    return max(state.hidden[0].row, state.hidden[1].row)
