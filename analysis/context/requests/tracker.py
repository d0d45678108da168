"""The desk: everything that is asked and answered, one message at a time.

Set-up messages, requests, answers and the ends of streams are few; they are read in their order, and what they settle
(roles, agreements, the beginnings and ends of streams) is handed on to those who look at millions of rows at once.

Across directions, order is what TCP's acknowledgements prove. What never came is missed only when the frames are over,
and only from those who went on: until then nobody knows.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.frame_refs import Ref
from analysis.context.progress import DirectionProgress
from analysis.context.requests.dispatch import ACK_WANTED, COLUMNS, OWED, BatchChanges, SetupReader
from analysis.context.requests.state import END, GAP, KNOWN, MAX_WAITING, ONE_SIDED, START, ConnectionState
from analysis.context.requests.stream_lifecycle import KEY_BITS
from analysis.context.tables import Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch, DirectionGaps
    from analysis.context.requests.state import PendingClose, PendingRequest, UnmatchedResponse
    from analysis.context.streams.instances import Instances

    Longs = NDArray[np.int64]

PATIENCE_NS = 60 * 10**9  #: the longest that an answer may take
LINGER_NS = 10 * 10**9  #: the longest that a stream end may take which has nothing to wait for
#: What an answer may be late for: an add stream waits for the producer, a stream request for the disk.
PATIENT = frozenset((kinds.ADD_STREAM, kinds.STREAM_REQUEST))


class RequestTracker:
    """All connections' dealings."""

    def __init__(self, instances: Instances) -> None:
        self.talks: dict[int, ConnectionState] = {}
        self.instances = instances
        self.latest = DirectionProgress()
        self._directions: DirectionGaps | None = None
        self._refused: OrderedDict[int, None] = OrderedDict()  #: ordinals of stream ends with another stream's opaque
        self.answers = Records(
            (
                *("opcode", "status", "pairing", "early", "draft", "data", "unknown", "settling"),
                *("latency_ns", "to_stream", "opaque", "again"),
            ),
            ("request",),
        )
        self.exchanges = Records(
            ("opcode", "answered", "latency_ns", "seconds", "unknown", "patient", "opaque"), ("answer",)
        )
        self.begins = Records(
            (
                *("live", "shared", "reused", "opaque", "unknown", "other_vbucket", "handed_over"),
                *("previous_opaque", "draft"),
            ),
            ("request", "previous", "sharer"),
        )
        self.closings = Records(("announced", "ended", "reason", "unknown"), ("request", "answer", "ending"))
        self.additions = Records(
            (
                *("asked", "told", "told_reversed", "asked_flags", "sent_flags", "found", "unknown"),
                *("stream_opaque", "matches", "changed"),
            ),
            ("request", "stream_request", "other", "odd"),
        )
        self.endings = Records(("unknown", "end_seqno", "seconds"), ("request",))

    def talk(self, connection: int) -> ConnectionState:
        """Return what is remembered of a connection."""
        found = self.talks.get(connection)
        if found is None:
            found = self.talks[connection] = ConnectionState(connection)
        return found

    def refuse(self, ordinal: int) -> None:
        """Take note of a stream end that ends nothing."""
        self._refused[ordinal] = None
        if len(self._refused) > MAX_WAITING:
            self._refused.popitem(last=False)

    def refused(self, ordinals: Longs) -> NDArray[np.bool_]:
        """Tell which of some rows are such ends."""
        if not self._refused:
            return np.zeros(len(ordinals), bool)
        return np.isin(ordinals, [*self._refused])

    def read(self, sight: ContextBatch, gaps: Longs, directions: DirectionGaps) -> BatchChanges:
        """Take a batch's set-up messages. ``gaps`` are the last gaps of each row's direction."""
        done = BatchChanges()
        self._directions = directions
        kind = sight.kind
        wanted = (kind == kinds.DESK) | (kind == kinds.END) | (kind == kinds.STATE)
        markers = kind == kinds.MARKER
        if markers.any():
            wanted |= markers & (np.maximum(sight.numbers("snapshot_type"), 0) & ACK_WANTED > 0)
        wanted |= (kind == kinds.ACK) & sight.early
        which = np.flatnonzero(wanted)
        if len(which):
            reader = SetupReader(self, sight, gaps, directions, done)
            for index, row in zip(which.tolist(), sight.rows(which, COLUMNS), strict=True):
                reader.take(index, row)
        self.latest.fold(sight)
        return done

    def finish(self) -> None:
        """The frames are over: miss what never came."""
        for talk in self.talks.values():
            for asked in talk.pending:
                if asked.opcode in OWED:  # the draft's requests, and HELLO, are not
                    self._unanswered(talk, asked)
            for orphan in talk.unmatched.by_key():
                self.unasked(talk, orphan, self._unknown_question(talk, orphan))
            for closing in talk.closing.values():
                unknown = self._unknown_silence(talk, closing.ref, closing.ref.side) if closing.announced else KNOWN
                self.closing_ended(talk, closing, None, 0, unknown)
            for key, ref in talk.reached.items():
                self._unended(talk, key, ref)

    # ------------------------------------------------------------------------------------------------ what never came

    def _lost(self, talk: ConnectionState, side: int) -> int:
        """Return the last row of a direction before which something was lost."""
        assert self._directions is not None  # noqa: S101 - there are talks, so there were batches
        return max(self._directions.gap(talk.number * 2 + side), talk.doubt[side])

    def _unknown_silence(self, talk: ConnectionState, ref: Ref, side: int, patience_ns: int = LINGER_NS) -> int:
        """Return why it is not certain that a side said nothing more about something."""
        if not talk.opened:
            return START
        if max(self._lost(talk, 0), self._lost(talk, 1)) > 0:
            return GAP
        if self.latest.time_ns(talk.number * 2 + side) < ref.time_ns + patience_ns:
            return END
        return KNOWN if self.latest.free(talk.number, talk.window) else END

    def _unanswered(self, talk: ConnectionState, asked: PendingRequest) -> None:
        """Report a request that nobody has answered."""
        other = talk.number * 2 + 1 - asked.ref.side
        unknown = START if not talk.opened else KNOWN
        if not unknown and max(self._lost(talk, 0), self._lost(talk, 1)) > 0:
            unknown = GAP
        if not unknown and self.latest.time_ns(other) == 0:
            unknown = ONE_SIDED
        if not unknown and (
            self.latest.time_ns(other) <= asked.ref.time_ns + PATIENCE_NS or self.latest.acked(other) < asked.end_offset
        ):
            unknown = END
        waited = max(self.latest.time_ns(other) - asked.ref.time_ns, 0)
        self._exchange(talk, asked, None, waited, unknown)

    def exchanged(self, talk: ConnectionState, asked: PendingRequest, answer: Ref) -> None:
        """Report a request that was answered."""
        latency = answer.time_ns - asked.ref.time_ns
        unknown = talk.lost(asked.ref.ordinal) if latency > PATIENCE_NS else KNOWN
        self._exchange(talk, asked, answer, latency, unknown)

    def _exchange(
        self, talk: ConnectionState, asked: PendingRequest, answer: Ref | None, latency: int, unknown: int
    ) -> None:
        self.exchanges.add(
            talk.number,
            asked.vbucket,
            asked.stream_id,
            asked.ref,
            {"answer": answer},
            opcode=asked.opcode,
            answered=int(answer is not None),
            latency_ns=latency,
            seconds=latency // 10**9,
            unknown=unknown,
            patient=int(asked.opcode in PATIENT),
            opaque=asked.opaque,
        )

    def closing_ended(
        self, talk: ConnectionState, closing: PendingClose, ending: Ref | None, reason: int, unknown: int
    ) -> None:
        """Report how the closing of a stream went on."""
        self.closings.add(
            talk.number,
            closing.vbucket,
            closing.stream_id,
            ending or closing.ref,
            {"request": closing.request, "answer": closing.ref, "ending": ending},
            announced=int(closing.announced),
            ended=int(ending is not None),
            reason=reason,
            unknown=unknown,
        )

    def reach(self, connection: int, key: int, ref: Ref) -> None:
        """Take note that a stream has delivered all that was asked for."""
        talk = self.talk(connection)
        instance = talk.live.get(key, -1)
        if instance < 0 or key in talk.over or len(talk.reached) >= MAX_WAITING:
            return
        if talk.ended.get(key, 0) > ref.ordinal:
            return
        # A stream that has begun since is another one: this one is over.
        if int(self.instances.refs["answer"]["ordinal"][instance]) < ref.ordinal:
            talk.reached.setdefault(key, ref)

    def _unended(self, talk: ConnectionState, key: int, ref: Ref) -> None:
        instance = talk.live.get(key, -1)
        request = Ref.of(self.instances.refs["request"][instance]) if instance >= 0 else None
        self.endings.add(
            talk.number,
            key >> 17 & 0xFFFF,
            key >> 1 & 0xFFFF,
            ref,
            {"request": request},
            unknown=self._unknown_silence(talk, ref, key & 1),
            end_seqno=int(self.instances["end"][instance]) if instance >= 0 else 0,
            seconds=max(self.latest.time_ns(key >> KEY_BITS << 1 | key & 1) - ref.time_ns, 0) // 10**9,
        )

    # -------------------------------------------------------------------------------- answers that found no request

    def _unknown_question(self, talk: ConnectionState, orphan: UnmatchedResponse) -> int:
        """Return why it is not certain that an answer had no request."""
        assert self._directions is not None  # noqa: S101
        other = 1 - orphan.side
        if not talk.opened:
            return START
        if self._lost(talk, other) > 0:
            return GAP
        if self._directions.heard(talk.number * 2 + other) < orphan.acked:
            return ONE_SIDED
        return talk.lost()

    def unasked(self, talk: ConnectionState, orphan: UnmatchedResponse, unknown: int) -> None:
        """Report an answer to nothing."""
        key = orphan.key
        pairing = 3 if orphan.harmless else 0 if orphan.first is None else 2
        self.answers.add(
            talk.number,
            -1 if key is None else key >> 17 & 0xFFFF,
            0 if key is None else key >> 1 & 0xFFFF,
            orphan.ref,
            {"request": None if orphan.harmless else orphan.first},
            opcode=orphan.opcode,
            status=orphan.status,
            pairing=pairing,
            unknown=unknown,
            opaque=orphan.opaque,
            again=int(orphan.first is not None),
        )
