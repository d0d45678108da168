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
from analysis.context.codes import Pairing, UnknownReason
from analysis.context.frame_refs import Ref
from analysis.context.requests.dispatch import ACK_WANTED, COLUMNS, OWED, SetupReader
from analysis.context.requests.state import MAX_WAITING, ConnectionState
from analysis.context.requests.stream_lifecycle import BatchChanges
from analysis.context.schema import TABLES
from analysis.context.tables import Records
from dissector.frames import stream_key as keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.state import PendingClose, PendingRequest, UnmatchedResponse
    from analysis.context.streams.instances import Instances

    Longs = NDArray[np.int64]

PATIENCE_NS = 60 * 10**9  #: the longest that an answer may take
LINGER_NS = 10 * 10**9  #: the longest that a stream end may take which has nothing to wait for
#: What an answer may be late for: an add stream waits for the producer, a stream request for the disk.
PATIENT = frozenset((kinds.ADD_STREAM, kinds.STREAM_REQUEST))


def _records(name: str) -> Records:
    """Return the rows of a declared table, which come one at a time."""
    return Records(TABLES[name])


class RequestTracker:
    """All connections' dealings."""

    def __init__(self, instances: Instances, directions: DirectionProgress) -> None:
        self.talks: dict[int, ConnectionState] = {}
        self.instances = instances
        self._directions = directions
        self._refused: OrderedDict[int, None] = OrderedDict()  #: ordinals of stream ends with another stream's opaque
        self.answers = _records("answers")
        self.requests = _records("requests")
        self.stream_starts = _records("stream_starts")
        self.stream_closes = _records("stream_closes")
        self.add_streams = _records("add_streams")
        self.completed_streams = _records("completed_streams")

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

    def read(self, sight: ContextBatch, gaps: Longs) -> BatchChanges:
        """Take a batch's set-up messages. ``gaps`` are the last gaps of each row's direction."""
        done = BatchChanges()
        kind = sight.kind
        wanted = (kind == kinds.SETUP) | (kind == kinds.END) | (kind == kinds.STATE)
        markers = kind == kinds.MARKER
        if markers.any():
            wanted |= markers & (np.maximum(sight.numbers("snapshot_type"), 0) & ACK_WANTED > 0)
        wanted |= (kind == kinds.ACK) & sight.early
        which = np.flatnonzero(wanted)
        if len(which):
            reader = SetupReader(self, sight, gaps, self._directions, done)
            for index, row in zip(which.tolist(), sight.view.rows(which, COLUMNS), strict=True):
                reader.take(index, row)
        return done

    def finish(self) -> None:
        """The frames are over: miss what never came."""
        for talk in self.talks.values():
            for asked in talk.order.values():
                if asked.opcode in OWED:  # the draft's requests, and HELLO, are not
                    self._unanswered(talk, asked)
            for orphans in talk.orphans.values():
                for orphan in orphans:
                    self.unasked(talk, orphan, self._unknown_question(talk, orphan))
            for closing in talk.closing.values():
                unknown = (
                    self._unknown_silence(talk, closing.ref, closing.ref.side)
                    if closing.announced
                    else UnknownReason.KNOWN
                )
                self.closing_ended(talk, closing, None, 0, unknown)
            for key, ref in talk.reached.items():
                self._unended(talk, key, ref)

    # ------------------------------------------------------------------------------------------------ what never came

    def _lost(self, talk: ConnectionState, side: int) -> int:
        """Return the last row of a direction before which something was lost."""
        return max(self._directions.gap(talk.number * 2 + side), talk.doubt[side])

    def _unknown_silence(self, talk: ConnectionState, ref: Ref, side: int, patience_ns: int = LINGER_NS) -> int:
        """Return why it is not certain that a side said nothing more about something."""
        if not talk.opened:
            return UnknownReason.START
        if max(self._lost(talk, 0), self._lost(talk, 1)) > 0:
            return UnknownReason.GAP
        if self._directions.time_ns(talk.number * 2 + side) < ref.time_ns + patience_ns:
            return UnknownReason.END
        return UnknownReason.KNOWN if self._directions.free(talk.number, talk.window) else UnknownReason.END

    def _unanswered(self, talk: ConnectionState, asked: PendingRequest) -> None:
        """Report a request that nobody has answered."""
        other = talk.number * 2 + 1 - asked.ref.side
        unknown = UnknownReason.START if not talk.opened else UnknownReason.KNOWN
        if not unknown and max(self._lost(talk, 0), self._lost(talk, 1)) > 0:
            unknown = UnknownReason.GAP
        if not unknown and self._directions.time_ns(other) == 0:
            unknown = UnknownReason.ONE_SIDED
        if not unknown and (
            self._directions.time_ns(other) <= asked.ref.time_ns + PATIENCE_NS
            or self._directions.acked(other) < asked.end_offset
        ):
            unknown = UnknownReason.END
        waited = max(self._directions.time_ns(other) - asked.ref.time_ns, 0)
        self._exchange(talk, asked, None, waited, unknown)

    def exchanged(self, talk: ConnectionState, asked: PendingRequest, answer: Ref) -> None:
        """Report a request that was answered."""
        latency = answer.time_ns - asked.ref.time_ns
        unknown = talk.lost(asked.ref.ordinal) if latency > PATIENCE_NS else UnknownReason.KNOWN
        self._exchange(talk, asked, answer, latency, unknown)

    def _exchange(
        self, talk: ConnectionState, asked: PendingRequest, answer: Ref | None, latency: int, unknown: int
    ) -> None:
        self.requests.add(
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
        self.stream_closes.add(
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
        self.completed_streams.add(
            talk.number,
            keys.vbucket_of(key),
            keys.stream_id_of(key),
            ref,
            {"request": request},
            unknown=self._unknown_silence(talk, ref, keys.side_of(key)),
            end_seqno=int(self.instances["end"][instance]) if instance >= 0 else 0,
            seconds=max(self._directions.time_ns(talk.number * 2 + keys.side_of(key)) - ref.time_ns, 0) // 10**9,
        )

    # -------------------------------------------------------------------------------- answers that found no request

    def _unknown_question(self, talk: ConnectionState, orphan: UnmatchedResponse) -> int:
        """Return why it is not certain that an answer had no request."""
        other = 1 - orphan.side
        if not talk.opened:
            return UnknownReason.START
        if self._lost(talk, other) > 0:
            return UnknownReason.GAP
        if self._directions.heard(talk.number * 2 + other) < orphan.acked:
            return UnknownReason.ONE_SIDED
        return talk.lost()

    def unasked(self, talk: ConnectionState, orphan: UnmatchedResponse, unknown: int) -> None:
        """Report an answer to nothing."""
        key = orphan.key
        pairing = Pairing.NONE if orphan.first is None else Pairing.REPEATED
        if orphan.harmless:
            pairing = Pairing.TO_DATA
        self.answers.add(
            talk.number,
            -1 if key is None else keys.vbucket_of(key),
            0 if key is None else keys.stream_id_of(key),
            orphan.ref,
            {"request": None if orphan.harmless else orphan.first},
            opcode=orphan.opcode,
            status=orphan.status,
            pairing=pairing,
            unknown=unknown,
            opaque=orphan.opaque,
            repeated=int(orphan.first is not None),
        )
