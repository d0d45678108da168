"""The request tracker: pairs requests and answers of all connections, one message at a time.

Set-up messages, requests, answers and stream ends are few; they are read in capture order. What they change (roles,
agreements, starts and ends of streams) is handed to the modules that process millions of rows at once.

Across directions, order is what TCP's acknowledgements prove. A missing response is reported at the end of the capture,
and only if its sender kept sending.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.causality import had_received
from analysis.context.clock import SKEW_NS
from analysis.context.codes import Pairing, UnknownReason
from analysis.context.frame_refs import Ref
from analysis.context.losses import losses_of
from analysis.context.requests.dispatch import ACK_WANTED, COLUMNS, OWED, SetupReader
from analysis.context.requests.failover_logs import FailoverLogs
from analysis.context.requests.noops import NoopTables
from analysis.context.requests.opening import OpenReader
from analysis.context.requests.state import MAX_WAITING, ConnectionState
from analysis.context.requests.stream_lifecycle import BatchChanges, or_else
from analysis.context.schema import TABLES
from analysis.context.tables import Records
from dissector.frames import stream_key as keys
from dissector.spec import enums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.clock import CaptureClock
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.state import PendingClose, PendingRequest, ReplyToData
    from analysis.context.streams.instances import Instances
    from analysis.context.streams.stream_tables import StreamTables
    from dissector.array_types import Longs


PATIENCE_NS = 60 * 10**9  #: the longest that an answer may take
LINGER_NS = 10 * 10**9  #: the longest that a stream end may take which has nothing to wait for
#: What an answer may be late for: an add stream waits for the producer, a stream request for the disk.
PATIENT = frozenset((kinds.ADD_STREAM, kinds.STREAM_REQUEST))
_TAKEOVER = enums.STREAM_FLAGS.bit("takeover")


def _records(name: str) -> Records:
    """Return the rows of a declared table, which come one at a time."""
    return Records(TABLES[name])


class RequestTracker:
    """Requests, answers and streams of all connections."""

    def __init__(self, instances: Instances, directions: DirectionProgress, clock: CaptureClock) -> None:
        self.states: dict[int, ConnectionState] = {}
        self.instances = instances
        self._directions, self._clock = directions, clock
        #: Ordinals of stream ends with another stream's opaque.
        self._ignored_ends: OrderedDict[int, None] = OrderedDict()
        self.noops = NoopTables(directions, clock)
        self.answers = _records("answers")
        self.requests = _records("requests")
        self.stream_starts = _records("stream_starts")
        self.stream_closes = _records("stream_closes")
        self.add_streams = _records("add_streams")
        self.completed_streams = _records("completed_streams")
        self.opens, self.setups = _records("opens"), _records("setups")
        self.consumer_requests = _records("consumer_requests")
        self.opening = OpenReader(self.opens, self.setups, self.consumer_requests)
        self.failover_logs = FailoverLogs()

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

    def read(self, frames: ContextBatch) -> BatchChanges:
        """Take a batch's set-up messages, and what was lost between its rows."""
        done = BatchChanges()
        kind = frames.kind
        wanted = (kind == kinds.SETUP) | (kind == kinds.END) | (kind == kinds.STATE)
        markers = kind == kinds.MARKER
        if markers.any():
            wanted |= markers & (np.maximum(frames.numbers("snapshot_type"), 0) & ACK_WANTED > 0)
        wanted |= (kind == kinds.ACK) & frames.early
        which = np.flatnonzero(wanted)
        losses = losses_of(frames)
        if not len(which) and not len(losses.rows):
            return done
        reader = SetupReader(self, frames, self._directions, done)
        lost = deque(zip(*(each.tolist() for each in losses), strict=True))
        for index, row in zip(which.tolist(), frames.rows(which, COLUMNS), strict=True):
            while lost and lost[0][0] <= index:
                reader.lose(*lost.popleft())
            reader.take(index, row)
        for loss in lost:
            reader.lose(*loss)
        return done

    def finish(self) -> None:
        """Report, at the end of the frames, everything that never came."""
        for state in self.states.values():
            self.opening.finish(state)
            live = any(self.instances["granted"][each] and key not in state.over for key, each in state.live.items())
            self.noops.finish(state, live=live)
            for request in state.pending:
                # HELLO, and what the draft asks, is owed no answer.
                if request.opcode in OWED and not request.draft and not request.reported:
                    self._report_unanswered(state, request)
            for closing in state.closing.values():
                unknown: int = UnknownReason.KNOWN
                if closing.unsure:
                    unknown = UnknownReason.GAP if state.opened else UnknownReason.START
                elif closing.announced:
                    side = closing.ref.side
                    time_ns = self._directions.time_ns(state.number * 2 + side)
                    unknown = self._unknown_silence(state, closing.ref, side, time_ns)
                self.report_close(state, closing, None, 0, unknown)
            for key, ref in state.reached.items():
                side = keys.side_of(key)
                self._report_not_ended(state, key, ref, self._directions.time_ns(state.number * 2 + side))
        self.failover_logs.finish()

    # ------------------------------------------------------------------------------------------------ what never came

    def report_overdue(self, state: ConnectionState, side: int, time_ns: int, acked: int) -> None:
        """Report what a side owes for too long, before something of it is lost that may hold it.

        Its last frame before the loss came at ``time_ns``, and it had received so much of the other side by then.
        """
        self.noops.report_overdue(state, side, time_ns)
        for request in state.fresh[1 - side]:
            late = request.overtaken or request.opcode not in (*PATIENT, kinds.SNAPSHOT_MARKER, kinds.SET_VBUCKET_STATE)
            if request.answered or request.reported or not late or not had_received(acked, request.end_offset):
                continue
            if request.opcode in OWED and not self._too_short(request.ref.time_ns, time_ns, PATIENCE_NS, SKEW_NS):
                request.reported = True
                waited = time_ns - request.ref.time_ns
                self._report_request(state, request, None, waited, UnknownReason.KNOWN, overtaken=request.overtaken)
        for key, closing in list(state.closing.items()):
            owed = keys.side_of(key) == side and closing.announced and not closing.unsure
            if owed and not self._unknown_silence(state, closing.ref, side, time_ns):
                del state.closing[key]
                self.report_close(state, closing, None, 0, UnknownReason.KNOWN)
        for key, ref in list(state.reached.items()):
            if keys.side_of(key) == side and not self._unknown_silence(state, ref, side, time_ns):
                del state.reached[key]
                self._report_not_ended(state, key, ref, time_ns)

    def _unknown_silence(self, state: ConnectionState, ref: Ref, side: int, time_ns: int) -> int:
        """Return why it is not certain that a side, whose last frame came at that time, said nothing more."""
        if state.hidden[side].row > ref.ordinal:
            return UnknownReason.GAP
        reason = self._too_short(ref.time_ns, time_ns, LINGER_NS)
        if reason:
            return reason
        return UnknownReason.KNOWN if self._had_room(state) else UnknownReason.END

    def _too_short(self, begin_ns: int, end_ns: int, patience_ns: int, skew_ns: int = 0) -> UnknownReason:
        """Return why it is not certain that more than a time passed; clocks may be apart by ``skew_ns``."""
        if end_ns - begin_ns <= patience_ns:
            return UnknownReason.END
        surely = self._clock.elapsed(begin_ns, end_ns) > patience_ns + skew_ns
        return UnknownReason.KNOWN if surely else UnknownReason.CLOCK

    def _had_room(self, state: ConnectionState) -> bool:
        """Tell whether the producer was surely free to send."""
        if not state.opened or state.window_unsure:
            return False
        if state.window > 0 and (state.hidden[0].row or state.hidden[1].row):
            return False
        return self._directions.free(state.number, state.window)

    def _report_unanswered(self, state: ConnectionState, request: PendingRequest) -> None:
        """Report a request without an answer."""
        side = request.ref.side
        other = state.number * 2 + 1 - side
        unknown = UnknownReason.KNOWN
        lost = request.maybe_answered or state.hidden[1 - side].may_hold_answer(request.end_offset)
        if lost and not request.overtaken:
            unknown = UnknownReason.GAP
        elif self._directions.time_ns(other) == 0:
            unknown = UnknownReason.ONE_SIDED
        elif not had_received(self._directions.acked(other), request.end_offset):
            unknown = UnknownReason.END
        else:
            unknown = self._too_short(request.ref.time_ns, self._directions.time_ns(other), PATIENCE_NS, SKEW_NS)
        waited = max(self._directions.time_ns(other) - request.ref.time_ns, 0)
        self._report_request(state, request, None, waited, unknown, overtaken=request.overtaken)

    def report_answered(self, state: ConnectionState, request: PendingRequest, answer: Ref) -> None:
        """Report a request that was answered."""
        latency = answer.time_ns - request.ref.time_ns
        lost = request.maybe_answered or state.hidden[request.ref.side].row > request.ref.ordinal
        unknown = UnknownReason.GAP if lost and latency > PATIENCE_NS else UnknownReason.KNOWN
        if not unknown and latency > PATIENCE_NS:
            unknown = self._too_short(request.ref.time_ns, answer.time_ns, PATIENCE_NS, SKEW_NS)
            asked, answered = request.ref, answer
            if (answered.capture, answered.packet_last) < (asked.capture, asked.packet_first):
                unknown = UnknownReason.CLOCK  # the directions were stamped by clocks of their own
        self._report_request(state, request, answer, latency, unknown)

    def _report_request(
        self,
        state: ConnectionState,
        request: PendingRequest,
        answer: Ref | None,
        latency: int,
        unknown: int,
        *,
        overtaken: bool = False,
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
            overtaken=int(overtaken),
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

    def _report_not_ended(self, state: ConnectionState, key: int, ref: Ref, time_ns: int) -> None:
        instance = state.live.get(key, -1)
        request = Ref.of(self.instances.refs["request"][instance]) if instance >= 0 else None
        self.completed_streams.add(
            state.number,
            keys.vbucket_of(key),
            keys.stream_id_of(key),
            ref,
            {"request": request},
            unknown=self._unknown_silence(state, ref, keys.side_of(key), time_ns),
            end_seqno=int(self.instances["end"][instance]) if instance >= 0 else 0,
            seconds=max(time_ns - ref.time_ns, 0) // 10**9,
        )

    # ------------------------------------------------------------------------------------- starts, once rows are known

    def report_starts(self, changes: BatchChanges, rows: StreamTables) -> None:
        """Report the streams that a batch began, each with the vbucket's stream before it."""
        for start in changes.starts:
            state, request = start.state, start.request
            previous, seen = rows.before_begin(start.row)
            live = previous >= 0 and not start.over
            unknown = UnknownReason.KNOWN
            if live:
                begun = int(self.instances.refs["answer"]["ordinal"][previous])
                unsure = start.lost_row > seen or start.closed_row > begun
                unknown = UnknownReason.GAP if unsure else UnknownReason.KNOWN
                if not unsure and start.stalled:
                    unknown = UnknownReason.END
            elif not start.over:
                unknown = UnknownReason(start.unsure)
            other, owner = start.other, start.owner
            if other >= 0 and start.lost_row > rows.last_message(other, start.row):
                unknown = unknown or UnknownReason.GAP
            flags = request.numbers["flags"] | (int(self.instances["flags"][other]) if other >= 0 else 0)
            opaque = rows.opaque_of(previous)
            if live and opaque < 0:
                unknown = unknown or UnknownReason.GAP
            self.stream_starts.add(
                state.number,
                request.vbucket,
                request.stream_id,
                start.ref,
                {
                    "request": request.ref,
                    "previous": self._ref("answer", previous),
                    "sharer": self._ref("request", other),
                },
                live=int(live),
                shared=int(other >= 0),
                other_vbucket=-1 if owner is None or other < 0 else keys.vbucket_of(owner),
                handed_over=int(flags >= 0 and bool(flags & _TAKEOVER)),
                reused=int(opaque == request.opaque),
                draft=int(start.draft),
                opaque=request.opaque,
                previous_opaque=opaque,
                unknown=unknown,
            )

    def _ref(self, name: str, instance: int) -> Ref | None:
        if instance < 0:
            return None
        record = self.instances.refs[name][instance]
        return Ref.of(record) if record["ordinal"] else None

    def report_replies(self, changes: BatchChanges, rows: StreamTables, since: Longs) -> None:
        """Report the answers to data that a batch has: which stream they are about shows in its messages."""
        for reply in changes.replies:
            key = reply.key if reply.key is not None else rows.stream_with(reply)
            unknown = reply.unknown
            if reply.status != enums.SUCCESS:
                unknown = self._unknown_refusal(reply, key, rows)
            self.answers.add(
                reply.connection,
                -1 if key is None else keys.vbucket_of(key),
                0 if key is None else keys.stream_id_of(key),
                reply.ref,
                {},
                opcode=reply.opcode,
                status=reply.status,
                pairing=Pairing.TO_DATA,
                is_upr=int(reply.is_upr),
                data=1,
                closing_or_takeover=int(key is None or keys.vbucket_of(key) in reply.leaving),
                unknown=unknown,
                to_stream=int(key is not None),
                dialect_shown=int(reply.is_upr or since[reply.index] > 0),
                opaque=reply.opaque,
                repeated=int(reply.repeated),
            )

    @staticmethod
    def _unknown_refusal(reply: ReplyToData, key: int | None, rows: StreamTables) -> int:
        """Return why it is not certain that nobody was closing the stream whose message was refused.

        A marker that the consumer accepted settles it: then the stream was open, and a close would come after it.
        """
        reason = UnknownReason.START if reply.unopened else UnknownReason.GAP
        if rows.frames.peer_lost[reply.index]:
            return UnknownReason.GAP
        if not reply.unopened and not reply.lost_row and reply.lost_acked < 0:
            return UnknownReason.KNOWN
        if key is None or reply.refused_marker:
            return reason
        ordinal, end = rows.marker_before(key, reply.index)
        settled = ordinal > 0 and ordinal >= reply.lost_row and reply.acked >= end > reply.lost_acked
        return UnknownReason.KNOWN if settled else reason

    # -------------------------------------------------------------------------------- answers that found no request

    def report_unasked(
        self, state: ConnectionState, row: dict[str, Any], ref: Ref, first: Ref | None, unknown: int
    ) -> None:
        """Report an answer without a request; ``first`` is a request like it that was answered before."""
        self.answers.add(
            state.number,
            -1,
            0,
            ref,
            {"request": first},
            opcode=row["opcode"],
            status=or_else(row["status"]),
            pairing=Pairing.NONE if first is None else Pairing.REPEATED,
            unknown=unknown,
            opaque=row["opaque"],
            repeated=int(first is not None),
        )
