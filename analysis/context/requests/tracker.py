"""The request tracker: pairs requests and answers of all connections, one message at a time.

Set-up messages, requests, answers and stream ends are few; they are read in capture order. What they change (roles,
agreements, starts and ends of streams) is handed to the modules that process millions of rows at once.

Across directions, order is what TCP's acknowledgements prove. A missing response is reported at the end of the capture,
and only if its sender kept sending.
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
    from dissector.array_types import Longs


PATIENCE_NS = 60 * 10**9  #: the longest that an answer may take
LINGER_NS = 10 * 10**9  #: the longest that a stream end may take which has nothing to wait for
#: What an answer may be late for: an add stream waits for the producer, a stream request for the disk.
PATIENT = frozenset((kinds.ADD_STREAM, kinds.STREAM_REQUEST))


def _records(name: str) -> Records:
    """Return the rows of a declared table, which come one at a time."""
    return Records(TABLES[name])


class RequestTracker:
    """Requests, answers and streams of all connections."""

    def __init__(self, instances: Instances, directions: DirectionProgress) -> None:
        self.states: dict[int, ConnectionState] = {}
        self.instances = instances
        self._directions = directions
        #: Ordinals of stream ends with another stream's opaque.
        self._ignored_ends: OrderedDict[int, None] = OrderedDict()
        self.answers = _records("answers")
        self.requests = _records("requests")
        self.stream_starts = _records("stream_starts")
        self.stream_closes = _records("stream_closes")
        self.add_streams = _records("add_streams")
        self.completed_streams = _records("completed_streams")

    def state(self, connection: int) -> ConnectionState:
        """Return what is remembered of a connection."""
        found = self.states.get(connection)
        if found is None:
            found = self.states[connection] = ConnectionState(connection)
        return found

    def ignore_stream_end(self, ordinal: int) -> None:
        """Take note of a stream end that ends nothing."""
        self._ignored_ends[ordinal] = None
        if len(self._ignored_ends) > MAX_WAITING:
            self._ignored_ends.popitem(last=False)

    def ignored_ends(self, ordinals: Longs) -> NDArray[np.bool_]:
        """Tell which of some rows are stream ends that end nothing."""
        if not self._ignored_ends:
            return np.zeros(len(ordinals), bool)
        return np.isin(ordinals, [*self._ignored_ends])

    def read(self, frames: ContextBatch, gaps: Longs) -> BatchChanges:
        """Take a batch's set-up messages. ``gaps`` are the last gaps of each row's direction."""
        done = BatchChanges()
        kind = frames.kind
        wanted = (kind == kinds.SETUP) | (kind == kinds.END) | (kind == kinds.STATE)
        markers = kind == kinds.MARKER
        if markers.any():
            wanted |= markers & (np.maximum(frames.numbers("snapshot_type"), 0) & ACK_WANTED > 0)
        wanted |= (kind == kinds.ACK) & frames.early
        which = np.flatnonzero(wanted)
        if len(which):
            reader = SetupReader(self, frames, gaps, self._directions, done)
            for index, row in zip(which.tolist(), frames.rows(which, COLUMNS), strict=True):
                reader.take(index, row)
        return done

    def finish(self) -> None:
        """Report, at the end of the frames, everything that never came."""
        for state in self.states.values():
            for request in state.pending:
                if request.opcode in OWED:  # the draft's requests, and HELLO, are not
                    self._report_unanswered(state, request)
            for unmatched in state.unmatched.by_key():
                self.report_unmatched(state, unmatched, self._unknown_request(state, unmatched))
            for closing in state.closing.values():
                unknown = (
                    self._unknown_silence(state, closing.ref, closing.ref.side)
                    if closing.announced
                    else UnknownReason.KNOWN
                )
                self.report_close(state, closing, None, 0, unknown)
            for key, ref in state.reached.items():
                self._report_not_ended(state, key, ref)

    # ------------------------------------------------------------------------------------------------ what never came

    def _lost(self, state: ConnectionState, side: int) -> int:
        """Return the last row of a direction before which something was lost."""
        return max(self._directions.gap(state.number * 2 + side), state.last_gap[side])

    def _unknown_silence(self, state: ConnectionState, ref: Ref, side: int, patience_ns: int = LINGER_NS) -> int:
        """Return why it is not certain that a side said nothing more about something."""
        if not state.opened:
            return UnknownReason.START
        if max(self._lost(state, 0), self._lost(state, 1)) > 0:
            return UnknownReason.GAP
        if self._directions.time_ns(state.number * 2 + side) < ref.time_ns + patience_ns:
            return UnknownReason.END
        return UnknownReason.KNOWN if self._directions.free(state.number, state.window) else UnknownReason.END

    def _report_unanswered(self, state: ConnectionState, request: PendingRequest) -> None:
        """Report a request without an answer."""
        other = state.number * 2 + 1 - request.ref.side
        unknown = UnknownReason.START if not state.opened else UnknownReason.KNOWN
        if not unknown and max(self._lost(state, 0), self._lost(state, 1)) > 0:
            unknown = UnknownReason.GAP
        if not unknown and self._directions.time_ns(other) == 0:
            unknown = UnknownReason.ONE_SIDED
        if not unknown and (
            self._directions.time_ns(other) <= request.ref.time_ns + PATIENCE_NS
            or self._directions.acked(other) < request.end_offset
        ):
            unknown = UnknownReason.END
        waited = max(self._directions.time_ns(other) - request.ref.time_ns, 0)
        self._report_request(state, request, None, waited, unknown)

    def report_answered(self, state: ConnectionState, request: PendingRequest, answer: Ref) -> None:
        """Report a request that was answered."""
        latency = answer.time_ns - request.ref.time_ns
        unknown = state.lost(request.ref.ordinal) if latency > PATIENCE_NS else UnknownReason.KNOWN
        self._report_request(state, request, answer, latency, unknown)

    def _report_request(
        self, state: ConnectionState, request: PendingRequest, answer: Ref | None, latency: int, unknown: int
    ) -> None:
        self.requests.add(
            state.number,
            request.vbucket,
            request.stream_id,
            request.ref,
            {"answer": answer},
            opcode=request.opcode,
            answered=int(answer is not None),
            latency_ns=latency,
            seconds=latency // 10**9,
            unknown=unknown,
            patient=int(request.opcode in PATIENT),
            opaque=request.opaque,
        )

    def report_close(
        self, state: ConnectionState, closing: PendingClose, ending: Ref | None, reason: int, unknown: int
    ) -> None:
        """Report how the closing of a stream went on."""
        self.stream_closes.add(
            state.number,
            closing.vbucket,
            closing.stream_id,
            ending or closing.ref,
            {"request": closing.request, "answer": closing.ref, "ending": ending},
            announced=int(closing.announced),
            ended=int(ending is not None),
            reason=reason,
            unknown=unknown,
        )

    def note_end_reached(self, connection: int, key: int, ref: Ref) -> None:
        """Take note that a stream has delivered all that was asked for."""
        state = self.state(connection)
        instance = state.live.get(key, -1)
        if instance < 0 or key in state.over or len(state.reached) >= MAX_WAITING:
            return
        if state.ended.get(key, 0) > ref.ordinal:
            return
        # A stream that has begun since is another one: this one is over.
        if int(self.instances.refs["answer"]["ordinal"][instance]) < ref.ordinal:
            state.reached.setdefault(key, ref)

    def _report_not_ended(self, state: ConnectionState, key: int, ref: Ref) -> None:
        instance = state.live.get(key, -1)
        request = Ref.of(self.instances.refs["request"][instance]) if instance >= 0 else None
        self.completed_streams.add(
            state.number,
            keys.vbucket_of(key),
            keys.stream_id_of(key),
            ref,
            {"request": request},
            unknown=self._unknown_silence(state, ref, keys.side_of(key)),
            end_seqno=int(self.instances["end"][instance]) if instance >= 0 else 0,
            seconds=max(self._directions.time_ns(state.number * 2 + keys.side_of(key)) - ref.time_ns, 0) // 10**9,
        )

    # -------------------------------------------------------------------------------- answers that found no request

    def _unknown_request(self, state: ConnectionState, unmatched: UnmatchedResponse) -> int:
        """Return why it is not certain that an answer had no request."""
        other = 1 - unmatched.side
        if not state.opened:
            return UnknownReason.START
        if self._lost(state, other) > 0:
            return UnknownReason.GAP
        if self._directions.heard(state.number * 2 + other) < unmatched.acked:
            return UnknownReason.ONE_SIDED
        return state.lost()

    def report_unmatched(self, state: ConnectionState, unmatched: UnmatchedResponse, unknown: int) -> None:
        """Report an answer without a request."""
        key = unmatched.key
        pairing = Pairing.NONE if unmatched.first is None else Pairing.REPEATED
        if unmatched.harmless:
            pairing = Pairing.TO_DATA
        self.answers.add(
            state.number,
            -1 if key is None else keys.vbucket_of(key),
            0 if key is None else keys.stream_id_of(key),
            unmatched.ref,
            {"request": None if unmatched.harmless else unmatched.first},
            opcode=unmatched.opcode,
            status=unmatched.status,
            pairing=pairing,
            unknown=unknown,
            opaque=unmatched.opaque,
            repeated=int(unmatched.first is not None),
        )
