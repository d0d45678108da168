"""The lives of streams: how they begin, are closed and end, and which add stream asked for them.

Knows granted requests, answers and stream ends as the desk reads them; must not look at data.
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
    """What a batch's set-up messages settle for the rows around them."""

    begins: dict[int, tuple[int, int]] = field(default_factory=dict)  #: row to stream key and instance
    closes: dict[int, int] = field(default_factory=dict)  #: row to stream key
    before: dict[int, int] = field(default_factory=dict)  #: stream key to its instance before the batch
    unexplained: list[int] = field(default_factory=list)  #: rows that show that something was lost
    changes: dict[str, dict[int, int]] = field(default_factory=dict)  #: fact to row and its new value
    over: list[int] = field(default_factory=list)  #: instances to let go of behind the batch
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
    """Keeps the desk's books about streams, for one batch."""

    def __init__(self, desk: RequestTracker, done: BatchChanges) -> None:
        self._desk = desk
        self._instances = desk.instances
        self._done = done

    def begin(self, talk: ConnectionState, index: int, asked: PendingRequest, ref: Ref, *, draft: bool = False) -> None:
        """A stream request was granted."""
        key = keys.stream_key(talk.number, asked.vbucket, asked.stream_id, ref.side)
        instances, done = self._instances, self._done
        previous = talk.live.get(key, -1)
        alive = self._alive(talk, key)
        sharer = talk.opaques.get(asked.opaque)
        shared = sharer is not None and sharer != key and self._alive(talk, sharer)
        other = talk.live[sharer] if sharer is not None and shared else -1
        reused = previous >= 0 and int(instances["opaque"][previous]) == asked.opaque
        flags = asked.numbers["flags"] | (int(instances["flags"][other]) if shared else 0)
        since = min((self._begun(each) for each in (previous, other) if each >= 0), default=0)
        fresh = instances.add(granted=1, opaque=asked.opaque, **asked.numbers)
        instances.refs["request"][fresh] = tuple(asked.ref)
        instances.refs["answer"][fresh] = tuple(ref)
        self._desk.stream_starts.add(
            talk.number,
            asked.vbucket,
            asked.stream_id,
            ref,
            {
                "request": asked.ref,
                "previous": self._ref("answer", previous),
                "sharer": self._ref("request", other),
            },
            live=int(alive),
            shared=int(shared),
            other_vbucket=-1 if sharer is None else keys.vbucket_of(sharer),
            handed_over=int(bool(flags & _TAKEOVER)),
            reused=int(reused),
            draft=int(draft),
            opaque=asked.opaque,
            previous_opaque=int(instances["opaque"][previous]) if previous >= 0 else -1,
            unknown=talk.lost(since),
        )
        closing = talk.closing.pop(key, None)
        if closing is not None:
            # The vbucket has a new stream, and nothing said so of the old one's end.
            self._desk.closing_ended(talk, closing, None, 0, talk.lost())
        talk.reached.pop(key, None)
        done.before.setdefault(key, previous)
        if previous >= 0:
            done.over.append(previous)
        done.begins[index] = (key, fresh)
        talk.live[key] = fresh
        talk.over.discard(key)
        talk.ended.pop(key, None)
        talk.remember(talk.opaques, asked.opaque, key)

    def _alive(self, talk: ConnectionState, key: int) -> bool:
        """Tell whether a stream was granted and has neither ended nor been closed."""
        instance = talk.live.get(key, -1)
        return instance >= 0 and key not in talk.over and bool(self._instances["granted"][instance])

    def _begun(self, instance: int) -> int:
        return int(self._instances.refs["answer"]["ordinal"][instance])

    def _ref(self, name: str, instance: int) -> Ref | None:
        if instance < 0:
            return None
        record = self._instances.refs[name][instance]
        return Ref.of(record) if record["ordinal"] else None

    def close(self, talk: ConnectionState, index: int, asked: PendingRequest, ref: Ref) -> None:
        """A stream was closed: by the consumer, whose wish the producer grants, or on a relay's leg by the producer."""
        for side in (0, 1):
            key = keys.stream_key(talk.number, asked.vbucket, asked.stream_id, side)
            if not self._alive(talk, key):
                continue
            talk.reached.pop(key, None)
            if side == ref.side:  # the producer itself says so: what it sends afterwards is on purpose
                announced = bool(talk.agreed & bit("send_stream_end_on_client_close_stream"))
                self._done.closes[index] = key
                talk.closing[key] = PendingClose(key, ref, asked.ref, asked.vbucket, asked.stream_id, announced)
            talk.over.add(key)

    def end(self, talk: ConnectionState, row: dict[str, Any], ref: Ref) -> None:
        """A stream end came."""
        key = keys.stream_key(talk.number, or_else(row["vbucket"], 0), or_else(row["stream_id"], 0), ref.side)
        closing = talk.closing.pop(key, None)
        if closing is not None:
            self._desk.closing_ended(talk, closing, ref, or_else(row["end_reason"]), talk.lost())
        talk.reached.pop(key, None)
        if self._alive(talk, key):
            talk.ended[key] = ref.ordinal
            # An end with another stream's opaque is refused, and the stream goes on (OPQ-04).
            if int(self._instances["opaque"][talk.live[key]]) == row["opaque"]:
                talk.over.add(key)
            else:
                self._desk.refuse(ref.ordinal)

    # --------------------------------------------------------------------------------------------------- add stream

    def add(self, talk: ConnectionState, asked: PendingRequest) -> None:
        """A consumer was asked to add a stream."""
        link = talk.unlinked.get(asked.vbucket)
        if link is not None and link.ref.side != asked.ref.side and link.acked >= asked.end_offset:
            asked.links.append(link)  # it had heard of it: only the capture has them the wrong way round
        talk.remember(talk.added, asked.vbucket, asked)

    def requested(self, talk: ConnectionState, asked: PendingRequest, acked: int) -> None:
        """A stream request may carry out an add stream."""
        link = AddStreamLink(asked.opaque, asked.numbers["flags"], asked.ref, acked)
        added = talk.added.get(asked.vbucket)
        if added is None or added.ref.side == asked.ref.side:
            talk.remember(talk.unlinked, asked.vbucket, link)
        elif acked >= added.end_offset:
            added.links.append(link)
            del added.links[:-_MOST_LINKS]

    def added(self, talk: ConnectionState, asked: PendingRequest, row: dict[str, Any], ref: Ref, status: int) -> None:
        """An add stream was answered."""
        if talk.added.get(asked.vbucket) is asked:
            del talk.added[asked.vbucket]
        if status != enums.SUCCESS:
            return
        told = or_else(row["stream_opaque"])
        swapped = int.from_bytes(max(told, 0).to_bytes(4, "big"), "little")
        link = asked.links[-1] if asked.links else None
        opaque = -1 if link is None else link.opaque
        odd, other = self._byte_order(talk, ref, opaque, told, swapped)
        unknown = (
            UnknownReason.START
            if not talk.opened
            else UnknownReason.GAP
            if max(talk.doubt) > 0 or told < 0
            else UnknownReason.KNOWN
        )
        self._desk.add_streams.add(
            talk.number,
            asked.vbucket,
            0,
            ref,
            {"request": asked.ref, "stream_request": link and link.ref, "other": other, "byte_order_change": odd},
            asked=asked.opaque,
            reply_opaque=told,
            reply_opaque_swapped=swapped,
            asked_flags=asked.numbers.get("flags", 0),
            sent_flags=0 if link is None else link.flags,
            found=int(link is not None),
            stream_opaque=opaque,
            matches=int(opaque in (told, swapped)),
            changed=int(odd is not None),
            unknown=unknown or talk.lost(),
        )

    def _byte_order(
        self, talk: ConnectionState, ref: Ref, opaque: int, told: int, swapped: int
    ) -> tuple[Ref | None, Ref | None]:
        """Return the answer that has its opaque in the other byte order than those before it, and one of those.

        All servers that were seen reverse the bytes, so where two orders meet, the one that does not is odd.
        """
        if told == swapped or opaque not in (told, swapped):
            return None, None
        variant = 1 if opaque == told else 2
        if talk.variant in (0, variant):
            talk.variant, talk.variant_ref = variant, ref
            return None, None
        if variant == 1:
            return ref, talk.variant_ref
        former, talk.variant, talk.variant_ref = talk.variant_ref, variant, ref
        return former, ref
