"""Feed one batch's set-up messages to the request tracker, in capture order.

Pairs answers with requests and notes what both sides agree upon. What an answer means for a stream is in
:mod:`analysis.context.requests.stream_lifecycle`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.context import kinds
from analysis.context.codes import Pairing, UnknownReason
from analysis.context.progress import ProgressInBatch
from analysis.context.requests.state import (
    FEATURE_BITS,
    PendingRequest,
    UnmatchedResponse,
    bit,
    control_bit,
)
from analysis.context.requests.stream_lifecycle import (
    BatchChanges,
    StreamLifecycle,
    filters,
    or_else,
)
from dissector.frames import stream_key as keys
from dissector.spec import enums
from dissector.summary.stream_summary import requested_stream_id

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from analysis.context.frame_refs import Ref
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.state import ConnectionState
    from analysis.context.requests.tracker import RequestTracker
    from dissector.array_types import Longs


COLUMNS = (
    *("direction", "response", "opcode", "status", "vbucket", "stream_id", "opaque", "end_offset", "acked_offset"),
    *("key", "text", "features", "open_flags", "stream_flags", "start_seqno", "end_seqno", "vbucket_uuid", "name"),
    *("snap_start_seqno", "snap_end_seqno", "high_seqno", "end_reason", "stream_opaque", "snapshot_type"),
)
_PRODUCES = enums.OPEN_FLAGS.bit("producer") | enums.OPEN_FLAGS.bit("notifier")
#: Requests whose answer is owed.
OWED = frozenset(
    (
        *(kinds.OPEN, kinds.ADD_STREAM, kinds.CLOSE_STREAM, kinds.STREAM_REQUEST, kinds.GET_FAILOVER_LOG),
        *(kinds.SET_VBUCKET_STATE, kinds.NOOP, kinds.CONTROL, kinds.SNAPSHOT_MARKER),
    )
)
_LEAVING = frozenset((kinds.CLOSE_STREAM, kinds.SET_VBUCKET_STATE))
_ANSWERED_PUSHES = ("stream_ok", "stream_not", "stream_rollback", "failover")  #: of the draft
ACK_WANTED = enums.MARKER_FLAGS.bit("acknowledge")


class SetupReader:
    """Reads one batch's set-up messages into the request tracker."""

    def __init__(
        self,
        tracker: RequestTracker,
        frames: ContextBatch,
        gaps: Longs,
        directions: DirectionProgress,
        done: BatchChanges,
    ) -> None:
        self._tracker = tracker
        self._lifecycle = StreamLifecycle(tracker, done)
        self._frames = frames
        self._gaps = gaps
        self._progress = ProgressInBatch(frames, gaps, directions)
        self._done = done

    def take(self, index: int, row: dict[str, Any]) -> None:
        """Take one message."""
        frames = self._frames
        state = self._tracker.state(int(frames.connection[index]))
        side = row["direction"]
        if self._gaps[index] > state.last_gap[side]:
            state.last_gap[side] = int(self._gaps[index])
        ref = frames.ref(index)
        if frames.draft[index]:
            self._draft(state, index, row, ref)
        elif row["response"]:
            self._response(state, index, row, ref)
        elif row["opcode"] == kinds.STREAM_END:
            self._lifecycle.end(state, row, ref)
        else:
            self._request(state, index, row, ref)

    # ------------------------------------------------------------------------------------------------------ requests

    def _request(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque = row["opcode"], row["direction"], row["opaque"]
        vbucket = or_else(row["vbucket"])
        request = PendingRequest(opcode, ref, row["end_offset"], vbucket, or_else(row["stream_id"], 0), opaque)
        if opcode == kinds.OPEN:
            self._open(state, index, row, ref, request)
        elif opcode in (kinds.CONTROL, kinds.HELLO):
            request.key, request.text = row["key"] or b"", row["text"] or ""
        elif opcode == kinds.STREAM_REQUEST:
            self._stream_request(row, request)
            self._lifecycle.note_stream_request(state, request, or_else(row["acked_offset"]))
        elif opcode == kinds.SNAPSHOT_MARKER:
            request.marker_end = or_else(row["snap_end_seqno"])
        elif opcode == kinds.ADD_STREAM:
            request.numbers["flags"] = or_else(row["stream_flags"], 0)
            self._lifecycle.note_add_stream(state, request)
        if opcode not in OWED and opcode != kinds.HELLO:
            return
        unmatched = state.match_late_request((side, opcode, opaque), request.end_offset)
        if unmatched is not None:
            self._match_late(state, index, request, unmatched)
        elif state.wait((side, opcode, opaque), request) and opcode in _LEAVING:
            state.leaving[vbucket] += 1

    def _open(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref, request: PendingRequest) -> None:
        flags = or_else(row["open_flags"], 0)
        side = row["direction"]
        if state.opened == 0:
            state.opened = ref.ordinal
            self._done.change("opened", index, ref.ordinal)
        state.producer = 1 - side if flags & _PRODUCES else side
        self._done.change("producer", index, state.producer)
        request.numbers["flags"] = flags

    @staticmethod
    def _stream_request(row: dict[str, Any], request: PendingRequest) -> None:
        request.stream_id = requested_stream_id(row["text"]) or 0
        high = row["high_seqno"]
        request.numbers = {
            "start": or_else(row["start_seqno"]),
            "end": or_else(row["end_seqno"]),
            "flags": or_else(row["stream_flags"], 0),
            "ask_snap_start": or_else(row["snap_start_seqno"], or_else(high)),
            "ask_snap_end": or_else(row["snap_end_seqno"], or_else(high)),
            "uuid": or_else(row["vbucket_uuid"], 0),
            "filtered": int(filters(row["text"])),
        }

    # ------------------------------------------------------------------------------------------------------- answers

    def _response(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque, status = row["opcode"], row["direction"], row["opaque"], or_else(row["status"])
        is_upr = bool(self._frames.early[index])
        place = (1 - side, opcode, opaque)
        request = state.answer(place)
        if request is not None:
            if opcode in _LEAVING:
                state.leaving[request.vbucket] -= 1
            self._report_pair(state, request, ref, status)
            self._apply_answer(state, index, request, row, ref, status)
            return
        if opcode == kinds.SNAPSHOT_MARKER:
            if (
                is_upr
                or status != enums.SUCCESS
                or not self._keep_or_report(state, place, row, ref, index, harmless=True)
            ):
                self._reply_to_data(state, row, ref, index, is_upr=is_upr)
        elif opcode not in OWED:
            self._reply_to_data(state, row, ref, index, is_upr=is_upr)
        else:
            self._keep_or_report(state, place, row, ref, index)
            if opcode == kinds.STREAM_REQUEST and status == enums.SUCCESS:
                # Some stream begins, but not known which: from here on nothing of this direction is certain.
                self._unexplained(state, index, ref)

    def _keep_or_report(
        self,
        state: ConnectionState,
        place: tuple[int, int, int],
        row: dict[str, Any],
        ref: Ref,
        index: int,
        *,
        harmless: bool = False,
    ) -> bool:
        """Keep an answer whose request may still turn up, or report it; tell whether either was done."""
        side, _, opaque = place
        acked = or_else(row["acked_offset"])
        unmatched = UnmatchedResponse(
            row["opcode"], opaque, 1 - side, or_else(row["status"]), acked, ref, state.answered.get(place),
            tuple(row["features"] or ()), state.opaques.get(opaque) if harmless else None, harmless,
        )  # fmt: skip
        if self._progress.heard(state.number * 2 + side, index) >= acked:
            if harmless:
                return False
            lost = max(state.last_gap[side], self._progress.gap(state.number * 2 + side, index)) > 0
            unknown = UnknownReason.GAP if lost and state.opened else state.lost()
            self._tracker.report_unmatched(state, unmatched, unknown)
        elif not state.keep_unmatched(place, unmatched):
            self._tracker.report_unmatched(state, unmatched, UnknownReason.LIMIT)
        return True

    def _unexplained(self, state: ConnectionState, index: int, ref: Ref) -> None:
        self._done.unexplained.append(index)
        state.last_gap[ref.side] = ref.ordinal

    def _match_late(
        self, state: ConnectionState, index: int, request: PendingRequest, unmatched: UnmatchedResponse
    ) -> None:
        """Take a request that the capture has after its answer: what was agreed upon counts from here on."""
        self._report_pair(state, request, unmatched.ref, unmatched.status)
        if unmatched.status != enums.SUCCESS:
            return
        if request.opcode in (kinds.HELLO, kinds.OPEN, kinds.CONTROL):
            self._agree(state, index, request, unmatched.features)
        elif request.opcode in (kinds.STREAM_REQUEST, kinds.CLOSE_STREAM, kinds.ADD_STREAM):
            state.last_gap[unmatched.side] = max(state.last_gap[unmatched.side], unmatched.ref.ordinal)

    def _report_pair(self, state: ConnectionState, request: PendingRequest, ref: Ref, status: int) -> None:
        """Report an answer and its request."""
        state.remember(state.answered, (request.ref.side, request.opcode, request.opaque), request.ref)
        self._tracker.answers.add(
            state.number,
            request.vbucket,
            request.stream_id,
            ref,
            {"request": request.ref},
            opcode=request.opcode,
            status=status,
            pairing=Pairing.ANSWERED,
            latency_ns=ref.time_ns - request.ref.time_ns,
            opaque=request.opaque,
        )
        if request.opcode in OWED:
            self._tracker.report_answered(state, request, ref)

    def _apply_answer(
        self, state: ConnectionState, index: int, request: PendingRequest, row: dict[str, Any], ref: Ref, status: int
    ) -> None:
        """Apply what an answer changes: agreements, and starts and ends of streams."""
        opcode = request.opcode
        if opcode == kinds.ADD_STREAM:
            self._lifecycle.answer_add_stream(state, request, row, ref, status)
        elif opcode == kinds.SNAPSHOT_MARKER:
            self._done.confirmations.append((index, request, state))
        elif status != enums.SUCCESS:
            return
        elif opcode == kinds.STREAM_REQUEST:
            if request.vbucket >= 0:
                self._lifecycle.begin(state, index, request, ref)
        elif opcode == kinds.CLOSE_STREAM:
            if request.vbucket >= 0:
                self._lifecycle.close(state, index, request, ref)
        else:
            self._agree(state, index, request, row["features"] or ())

    def _agree(self, state: ConnectionState, index: int, request: PendingRequest, features: tuple[int, ...]) -> None:
        before = state.agreed
        if request.opcode == kinds.HELLO:
            for feature in features:
                state.agreed |= FEATURE_BITS.get(feature, 0)
        elif request.opcode == kinds.OPEN:
            for flag in enums.OPEN_FLAGS.members:
                if request.numbers["flags"] & flag.value:
                    state.agreed |= bit(f"open_{flag.name}")
        elif request.opcode == kinds.CONTROL:
            name = request.key.decode("ascii", "replace")
            if name == "connection_buffer_size" and request.text.isascii() and request.text.isdigit():
                state.window = min(int(request.text[:18]), 1 << 62)
                self._done.change("window", index, state.window)
            elif request.text == "false":
                state.agreed &= ~control_bit(name)
            else:
                state.agreed |= control_bit(name)
        if state.agreed != before:
            self._done.change("agreed", index, state.agreed)

    def _reply_to_data(
        self, state: ConnectionState, row: dict[str, Any], ref: Ref, index: int, *, is_upr: bool
    ) -> None:
        """Report an answer to data: some message has its opaque, and stays open to further answers."""
        opaque, other = row["opaque"], 1 - ref.side
        key = state.opaques.get(opaque)
        vbucket = -1 if key is None else keys.vbucket_of(key)
        closing_or_takeover = key is None or key in state.over or state.leaving[vbucket] > 0
        unknown = state.lost()
        if not unknown and self._progress.gap(state.number * 2 + other, index) > 0:
            unknown = UnknownReason.GAP
        if not unknown and self._progress.heard(state.number * 2 + other, index) < or_else(row["acked_offset"]):
            unknown = UnknownReason.ONE_SIDED  # a close may have been on its way
        self._tracker.answers.add(
            state.number,
            vbucket,
            0 if key is None else keys.stream_id_of(key),
            ref,
            {},
            opcode=row["opcode"],
            status=or_else(row["status"]),
            pairing=Pairing.TO_DATA,
            is_upr=int(is_upr),
            data=1,
            closing_or_takeover=int(closing_or_takeover),
            unknown=unknown,
            to_stream=int(key is not None),
            opaque=opaque,
            repeated=int((1 - ref.side, row["opcode"], opaque) in state.answered),
        )

    # ----------------------------------------------------------------------------------------------------- the draft

    def _draft(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        """Take a message of the draft, which has no opens: a request names its stream, and answers come as pushes."""
        name, side, opaque = row["name"], row["direction"], row["opaque"]
        vbucket = or_else(row["vbucket"], 0)
        if not row["response"]:
            state.opened = state.opened or ref.ordinal
            self._done.change("opened", index, state.opened)
            request = PendingRequest(row["opcode"], ref, row["end_offset"], vbucket, 0, opaque)
            if name == "stream_request":
                self._stream_request(row, request)
                request.stream_id = 0
            if state.match_late_request((side, vbucket, opaque), request.end_offset) is None:
                state.wait((side, vbucket, opaque), request)
            return
        if name == "stream_end":
            self._lifecycle.end(state, row, ref)
            return
        if not name.startswith(_ANSWERED_PUSHES):
            return
        place = (1 - side, vbucket, opaque)
        found = state.answer(place)
        if found is None:
            self._keep_or_report(state, place, row, ref, index)
            if name == "stream_ok":
                self._unexplained(state, index, ref)
            return
        state.remember(state.answered, place, found.ref)
        self._tracker.answers.add(
            state.number,
            vbucket,
            0,
            ref,
            {"request": found.ref},
            opcode=row["opcode"],
            pairing=Pairing.ANSWERED,
            draft=1,
            opaque=opaque,
            latency_ns=ref.time_ns - found.ref.time_ns,
        )
        if name == "stream_ok":
            self._lifecycle.begin(state, index, found, ref, draft=True)
