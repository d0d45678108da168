"""Streams from start to end: how they begin, are closed and end, and which add stream asked for them.

Takes granted requests, answers and stream ends from the set-up reader; data messages play no part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analysis.context.codes import UnknownReason
from analysis.context.frame_refs import Ref
from analysis.context.requests.state import AddStreamLink, PendingClose, bit
from dissector.frames import stream_key as keys
from dissector.spec import enums

if TYPE_CHECKING:
    from analysis.context.requests.state import ConnectionState, PendingRequest
    from analysis.context.requests.tracker import RequestTracker

_MOST_LINKS = 16  #: stream requests that are remembered of one add stream
_TAKEOVER = enums.STREAM_FLAGS.bit("takeover")


@dataclass(slots=True, eq=False)
class BatchChanges:
    """What a batch's set-up messages change for the rows around them."""

    begins: dict[int, tuple[int, int]] = field(default_factory=dict)  #: row to stream key and instance
    closes: dict[int, int] = field(default_factory=dict)  #: row to stream key
    before: dict[int, int] = field(default_factory=dict)  #: stream key to its instance before the batch
    unexplained: list[int] = field(default_factory=list)  #: rows that show that something was lost
    changes: dict[str, dict[int, int]] = field(default_factory=dict)  #: fact to row and its new value
    over: list[int] = field(default_factory=list)  #: instances to release after the batch
    confirmations: list[tuple[int, PendingRequest, ConnectionState]] = field(
        default_factory=list
    )  #: rows that confirm a marker

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

    def __init__(self, tracker: RequestTracker, done: BatchChanges) -> None:
        self._tracker = tracker
        self._instances = tracker.instances
        self._done = done

    def begin(
        self, state: ConnectionState, index: int, request: PendingRequest, ref: Ref, *, draft: bool = False
    ) -> None:
        """Begin a stream: its request was granted."""
        key = keys.stream_key(state.number, request.vbucket, request.stream_id, ref.side)
        instances, done = self._instances, self._done
        previous = state.live.get(key, -1)
        alive = self._alive(state, key)
        owner = state.opaques.get(request.opaque)
        shared = owner is not None and owner != key and self._alive(state, owner)
        other = state.live[owner] if owner is not None and shared else -1
        reused = previous >= 0 and int(instances["opaque"][previous]) == request.opaque
        flags = request.numbers["flags"] | (int(instances["flags"][other]) if shared else 0)
        since = min((self._begun(each) for each in (previous, other) if each >= 0), default=0)
        fresh = instances.add(granted=1, opaque=request.opaque, **request.numbers)
        instances.refs["request"][fresh] = tuple(request.ref)
        instances.refs["answer"][fresh] = tuple(ref)
        self._tracker.stream_starts.add(
            state.number,
            request.vbucket,
            request.stream_id,
            ref,
            {
                "request": request.ref,
                "previous": self._ref("answer", previous),
                "sharer": self._ref("request", other),
            },
            live=int(alive),
            shared=int(shared),
            other_vbucket=-1 if owner is None else keys.vbucket_of(owner),
            handed_over=int(bool(flags & _TAKEOVER)),
            reused=int(reused),
            draft=int(draft),
            opaque=request.opaque,
            previous_opaque=int(instances["opaque"][previous]) if previous >= 0 else -1,
            unknown=state.lost(since),
        )
        closing = state.closing.pop(key, None)
        if closing is not None:
            # The vbucket has a new stream, and the old one never got a stream end.
            self._tracker.report_close(state, closing, None, 0, state.lost())
        state.reached.pop(key, None)
        done.before.setdefault(key, previous)
        if previous >= 0:
            done.over.append(previous)
        done.begins[index] = (key, fresh)
        state.live[key] = fresh
        state.over.discard(key)
        state.ended.pop(key, None)
        state.remember(state.opaques, request.opaque, key)

    def _alive(self, state: ConnectionState, key: int) -> bool:
        """Tell whether a stream was granted and has neither ended nor been closed."""
        instance = state.live.get(key, -1)
        return instance >= 0 and key not in state.over and bool(self._instances["granted"][instance])

    def _begun(self, instance: int) -> int:
        return int(self._instances.refs["answer"]["ordinal"][instance])

    def _ref(self, name: str, instance: int) -> Ref | None:
        if instance < 0:
            return None
        record = self._instances.refs[name][instance]
        return Ref.of(record) if record["ordinal"] else None

    def close(self, state: ConnectionState, index: int, request: PendingRequest, ref: Ref) -> None:
        """Close a stream: the consumer asked for it and the producer agreed, or on a relay's leg the reverse."""
        for side in (0, 1):
            key = keys.stream_key(state.number, request.vbucket, request.stream_id, side)
            if not self._alive(state, key):
                continue
            state.reached.pop(key, None)
            if side == ref.side:  # the producer itself says so: what it sends afterwards is on purpose
                announced = bool(state.agreed & bit("send_stream_end_on_client_close_stream"))
                self._done.closes[index] = key
                state.closing[key] = PendingClose(key, ref, request.ref, request.vbucket, request.stream_id, announced)
            state.over.add(key)

    def end(self, state: ConnectionState, row: dict[str, Any], ref: Ref) -> None:
        """Take a stream end."""
        key = keys.stream_key(state.number, or_else(row["vbucket"], 0), or_else(row["stream_id"], 0), ref.side)
        closing = state.closing.pop(key, None)
        if closing is not None:
            self._tracker.report_close(state, closing, ref, or_else(row["end_reason"]), state.lost())
        state.reached.pop(key, None)
        if self._alive(state, key):
            state.ended[key] = ref.ordinal
            # An end with another stream's opaque is refused, and the stream goes on (OPQ-04).
            if int(self._instances["opaque"][state.live[key]]) == row["opaque"]:
                state.over.add(key)
            else:
                self._tracker.ignore_stream_end(ref.ordinal)

    # --------------------------------------------------------------------------------------------------- add stream

    def note_add_stream(self, state: ConnectionState, request: PendingRequest) -> None:
        """Take an add stream, which the consumer is to carry out by a stream request."""
        link = state.unlinked.get(request.vbucket)
        if link is not None and link.ref.side != request.ref.side and link.acked >= request.end_offset:
            request.links.append(
                link
            )  # the consumer had received the add stream: only the capture has them the wrong way round
        state.remember(state.added, request.vbucket, request)

    def note_stream_request(self, state: ConnectionState, request: PendingRequest, acked: int) -> None:
        """Take a stream request, which may carry out an add stream."""
        link = AddStreamLink(request.opaque, request.numbers["flags"], request.ref, acked)
        added = state.added.get(request.vbucket)
        if added is None or added.ref.side == request.ref.side:
            state.remember(state.unlinked, request.vbucket, link)
        elif acked >= added.end_offset:
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
        unknown = (
            UnknownReason.START
            if not state.opened
            else UnknownReason.GAP
            if max(state.last_gap) > 0 or reply_opaque < 0
            else UnknownReason.KNOWN
        )
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
            asked_flags=request.numbers.get("flags", 0),
            sent_flags=0 if link is None else link.flags,
            found=int(link is not None),
            stream_opaque=stream_opaque,
            matches=int(stream_opaque in (reply_opaque, swapped)),
            changed=int(byte_order_change is not None),
            unknown=unknown or state.lost(),
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
