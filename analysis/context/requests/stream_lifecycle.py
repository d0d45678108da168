"""Streams from start to end: how they begin, are closed and end, and which add stream asked for them.

Takes granted requests, answers and stream ends from the set-up reader; data messages play no part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.context.causality import had_received
from analysis.context.codes import UnknownReason
from analysis.context.requests.state import AddStreamLink, PendingClose, bit
from analysis.context.streams.instances import UNKNOWN
from dissector.frames import stream_key as keys
from dissector.spec import enums

if TYPE_CHECKING:
    from analysis.context.frame_refs import Ref
    from analysis.context.requests.failover_events import FailoverEvent
    from analysis.context.requests.handovers import HandoverFacts
    from analysis.context.requests.state import ConnectionState, PendingRequest, ReplyToData
    from analysis.context.requests.tracker import RequestTracker

_MOST_LINKS = 16  #: stream requests that are remembered of one add stream


class StreamStart(NamedTuple):
    """A stream request that was granted, and what was known of the vbucket's stream before it."""

    row: int  #: of the answer
    key: int
    instance: int
    state: ConnectionState
    request: PendingRequest
    ref: Ref
    over: bool  #: the stream before it had ended or been closed
    lost_row: int  #: the last row before which an end of that stream may have been lost; 0: none
    closed_row: int  #: the last row in which a stream was closed of which it is not known which; 0: none
    stalled: bool  #: the producer may have had no room to send its end
    unsure: int  #: why it is not known whether there was one
    owner: int | None  #: key of the stream that had its opaque
    other: int  #: the instance of that, if it is live; else -1
    draft: bool


@dataclass(slots=True, eq=False)
class BatchChanges:
    """What a batch's set-up messages change for the rows around them."""

    begins: dict[int, tuple[int, int]] = field(default_factory=dict)  #: row to stream key and instance
    closes: dict[int, int] = field(default_factory=dict)  #: row to stream key
    before: dict[int, int] = field(default_factory=dict)  #: stream key to its instance before the batch
    doubts: dict[int, list[int]] = field(default_factory=dict)  #: stream key to rows from which on it may be another's
    doubted_directions: dict[int, list[int]] = field(default_factory=dict)  #: the same for all streams of a direction
    changes: dict[str, dict[int, int]] = field(default_factory=dict)  #: fact to row and its new value
    over: list[int] = field(default_factory=list)  #: instances to release after the batch
    confirmations: list[tuple[int, PendingRequest, ConnectionState]] = field(
        default_factory=list
    )  #: rows that confirm a marker
    starts: list[StreamStart] = field(default_factory=list)
    replies: list[ReplyToData] = field(default_factory=list)
    failover: list[FailoverEvent] = field(default_factory=list)
    handovers: dict[int, HandoverFacts] = field(default_factory=dict)  #: of vbucket states and stream ends, by row

    def change(self, fact: str, row: int, value: int) -> None:
        """Let a fact about the row's connection change there."""
        self.changes.setdefault(fact, {})[row] = value


def or_else(number: int | None, otherwise: int = -1) -> int:
    """Return a number that may be null."""
    return otherwise if number is None else number


def filters(text: str | None) -> bool:
    """Tell whether a stream request's value asks for some collections only."""
    return bool(text) and ('"collections"' in str(text) or '"scope"' in str(text))


class StreamLifecycle:
    """Follows the streams of all connections through one batch."""

    def __init__(self, tracker: RequestTracker, done: BatchChanges, base: int) -> None:
        self._tracker = tracker
        self._base = base  #: ordinal of the batch's first row
        self._instances = tracker.instances
        self._done = done

    def begin(
        self, state: ConnectionState, index: int, request: PendingRequest, ref: Ref, *, draft: bool = False
    ) -> None:
        """Begin a stream: its request was granted."""
        key = keys.stream_key(state.number, request.vbucket, request.stream_id, ref.side)
        owner = state.opaques.get(request.opaque)
        shared = owner is not None and owner != key and self._alive(state, owner)
        fresh = self._instances.add(granted=1, opaque=request.opaque, **request.numbers)
        self._instances.refs["request"][fresh] = tuple(request.ref)
        self._instances.refs["answer"][fresh] = tuple(ref)
        unseen = state.unseen_streams[ref.side]
        self._done.starts.append(
            StreamStart(
                index,
                key,
                fresh,
                state,
                request,
                ref,
                key in state.over,
                state.hidden[ref.side].row,
                state.unseen_close[ref.side],
                state.window_unsure,
                UnknownReason.START if not state.opened else UnknownReason.GAP if unseen else UnknownReason.KNOWN,
                owner,
                state.live[owner] if owner is not None and shared else -1,
                draft,
            )
        )
        closing = state.closing.pop(key, None)
        if closing is not None:
            # The vbucket has a new stream, and the old one never got a stream end.
            self._tracker.report_close(state, closing, None, 0, self._lost_since(state, closing))
        lone = not any(self._alive(state, each) for each in state.live)
        self._tracker.noops.begin_stream(state, ref, lone=lone)
        self._leave(state, key)
        self._done.begins[index] = (key, fresh)
        state.live[key] = fresh
        state.remember(state.opaques, request.opaque, key)

    def begin_unseen(self, state: ConnectionState, index: int, side: int) -> None:
        """Begin a stream of which it is not known whose it is: its request was not captured.

        Streams that are surely live are not meant: a second request for one is refused.
        """
        if state.hidden[side].row or state.unseen_close[side]:
            self.doubt_all(state, index, side)
            return
        state.unseen_streams[side] = state.unseen_streams[side] or self._ordinal(index)
        closing = {vbucket for vbucket, count in state.leaving.items() if count > 0}
        doubtful = {keys.stream_key(state.number, max(vbucket, 0), 0, side) for vbucket in closing}
        doubtful |= {key for key in state.live if keys.vbucket_of(key) in closing} | state.over
        for key in doubtful:
            if keys.side_of(key) == side:
                self._forget(state, index, key)

    def doubt(self, state: ConnectionState, index: int, vbucket: int, stream_id: int, side: int) -> None:
        """From a row on, the messages of a vbucket may belong to a stream whose beginning was lost."""
        state.unseen_streams[side] = state.unseen_streams[side] or self._ordinal(index)
        self._forget(state, index, keys.stream_key(state.number, max(vbucket, 0), stream_id, side))

    def doubt_all(self, state: ConnectionState, index: int, side: int) -> None:
        """From a row on, that may be so for every vbucket."""
        state.unseen_streams[side] = state.unseen_streams[side] or self._ordinal(index)
        self._done.doubted_directions.setdefault(state.number * 2 + side, []).append(index)
        for key in {each for each in (*state.live, *state.over) if keys.side_of(each) == side}:
            self._forget(state, index, key)

    def _forget(self, state: ConnectionState, index: int, key: int) -> None:
        self._done.doubts.setdefault(key, []).append(index)
        closing = state.closing.pop(key, None)
        if closing is not None and closing.announced:
            self._tracker.report_close(state, closing, None, 0, UnknownReason.GAP)
        self._leave(state, key)
        state.live.pop(key, None)

    def _leave(self, state: ConnectionState, key: int) -> None:
        """Let go of what is known of a vbucket's stream."""
        previous = state.live.get(key, -1)
        self._done.before.setdefault(key, previous)
        if previous >= 0:
            self._done.over.append(previous)
        state.reached.pop(key, None)
        state.handovers.pop(key, None)
        state.over.discard(key)
        state.ended.pop(key, None)

    def _ordinal(self, index: int) -> int:
        return self._base + index

    def _alive(self, state: ConnectionState, key: int) -> bool:
        """Tell whether a stream was granted and has neither ended nor been closed."""
        instance = state.live.get(key, -1)
        return instance >= 0 and key not in state.over and bool(self._instances["granted"][instance])

    @staticmethod
    def _lost_since(state: ConnectionState, closing: PendingClose) -> int:
        """Return why it is not certain that nothing came after a close."""
        if closing.unsure:
            return UnknownReason.START if not state.opened else UnknownReason.GAP
        return UnknownReason.GAP if state.hidden[closing.ref.side].row > closing.ref.ordinal else UnknownReason.KNOWN

    def close(self, state: ConnectionState, index: int, request: PendingRequest, ref: Ref) -> None:
        """Close a stream: the consumer asked for it and the producer agreed, or on a relay's leg the reverse."""
        both = [keys.stream_key(state.number, request.vbucket, request.stream_id, side) for side in (0, 1)]
        known = any(self._alive(state, key) for key in both)
        for side, key in enumerate(both):
            if (known and not self._alive(state, key)) or key in state.over:
                continue
            state.reached.pop(key, None)
            # Of a stream that nobody saw begin, the open tells whose it is.
            if side == ref.side and (
                known or state.producer == side
            ):  # the producer itself says so: what it sends afterwards is on purpose
                told = bit("send_stream_end_on_client_close_stream")
                self._done.closes[index] = key
                state.closing[key] = PendingClose(
                    key,
                    ref,
                    request.ref,
                    request.vbucket,
                    request.stream_id,
                    bool(state.agreed & told),
                    bool(state.unsure & told),
                )
            state.over.add(key)

    def end(self, state: ConnectionState, row: dict[str, Any], ref: Ref) -> None:
        """Take a stream end."""
        key = keys.stream_key(state.number, or_else(row["vbucket"], 0), or_else(row["stream_id"], 0), ref.side)
        closing = state.closing.pop(key, None)
        if closing is not None:
            unknown = UnknownReason.KNOWN
            if closing.unsure:
                unknown = UnknownReason.START if not state.opened else UnknownReason.GAP
            self._tracker.report_close(state, closing, ref, or_else(row["end_reason"]), unknown)
        state.reached.pop(key, None)
        if key in state.over:
            return
        opaque = int(self._instances["opaque"][state.live[key]]) if self._alive(state, key) else UNKNOWN
        state.ended[key] = ref.ordinal
        # An end with another stream's opaque is refused, and the stream goes on (OPQ-04).
        if opaque in (UNKNOWN, row["opaque"]):
            state.over.add(key)
        else:
            self._tracker.ignore_stream_end(ref.ordinal)

    # --------------------------------------------------------------------------------------------------- add stream

    def note_stream_request(self, state: ConnectionState, request: PendingRequest, acked: int) -> None:
        """Take a stream request, which may carry out an add stream."""
        link = AddStreamLink(request.opaque, request.numbers["flags"], request.ref, acked)
        added = state.added.get(request.vbucket)
        if added is not None and added.ref.side != request.ref.side and had_received(acked, added.end_offset):
            added.links.append(link)
            del added.links[:-_MOST_LINKS]

    def answer_add_stream(
        self, state: ConnectionState, request: PendingRequest, row: dict[str, Any], ref: Ref, status: int
    ) -> None:
        """Take the answer to an add stream: does it name its stream request?"""
        if state.added.get(request.vbucket) is request:
            del state.added[request.vbucket]
        if status != enums.SUCCESS:
            return
        reply_opaque = or_else(row["stream_opaque"])
        swapped = int.from_bytes(max(reply_opaque, 0).to_bytes(4, "big"), "little")
        link = request.links[-1] if request.links else None
        stream_opaque = -1 if link is None else link.opaque
        byte_order_change, other = self._byte_order(state, ref, stream_opaque, reply_opaque, swapped)
        # The stream request is in the consumer's direction, after the consumer had received the add stream.
        lost = state.hidden[ref.side].may_hold_answer(request.end_offset) or request.maybe_answered
        unknown = UnknownReason.GAP if lost or reply_opaque < 0 else UnknownReason.KNOWN
        self._tracker.add_streams.add(
            state.number,
            request.vbucket,
            0,
            ref,
            {
                "request": request.ref,
                "stream_request": link and link.ref,
                "other": other,
                "byte_order_change": byte_order_change,
            },
            opaque=request.opaque,
            reply_opaque=reply_opaque,
            reply_opaque_swapped=swapped,
            asked_flags=request.numbers.get("flags", -1),
            sent_flags=-1 if link is None else link.flags,
            found=int(link is not None),
            stream_opaque=stream_opaque,
            matches=int(stream_opaque in (reply_opaque, swapped)),
            changed=int(byte_order_change is not None),
            unknown=unknown,
        )

    def _byte_order(
        self, state: ConnectionState, ref: Ref, opaque: int, reply_opaque: int, swapped: int
    ) -> tuple[Ref | None, Ref | None]:
        """Return the answer that has its opaque in the other byte order than those before it, and one of those.

        All servers that were seen reverse the bytes, so where two orders meet, the answer that does not is the odd one.
        """
        if reply_opaque == swapped or opaque not in (reply_opaque, swapped):
            return None, None
        byte_order = 1 if opaque == reply_opaque else 2
        if state.byte_order in (0, byte_order):
            state.byte_order, state.byte_order_ref = byte_order, ref
            return None, None
        if byte_order == 1:
            return ref, state.byte_order_ref
        former, state.byte_order, state.byte_order_ref = state.byte_order_ref, byte_order, ref
        return former, ref
