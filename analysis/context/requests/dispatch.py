"""Feed one batch's set-up messages to the request tracker, in capture order.

Pairs answers with requests and notes what both sides agree upon. What an answer means for a stream is in
:mod:`analysis.context.requests.stream_lifecycle`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.causality import had_received
from analysis.context.codes import Pairing, UnknownReason
from analysis.context.requests import failover_events, handovers
from analysis.context.requests.hidden import queue_of
from analysis.context.requests.noops import INTERVAL
from analysis.context.requests.state import (
    CONTROL_AGREEMENTS,
    FEATURE_BITS,
    OPEN_AGREEMENTS,
    PendingRequest,
    ReplyToData,
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
from dissector.frames.schema import NO_END
from dissector.spec import enums
from dissector.summary.stream_summary import requested_stream_id

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from analysis.context.frame_refs import Ref
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.failover_events import FailoverEvent
    from analysis.context.requests.state import ConnectionState
    from analysis.context.requests.tracker import RequestTracker

COLUMNS = (
    *("direction", "response", "opcode", "status", "vbucket", "stream_id", "opaque", "end_offset", "acked_offset"),
    *(
        "key_bytes",
        "text",
        "features",
        "open_flags",
        "stream_flags",
        "start_seqno",
        "end_seqno",
        "vbucket_uuid",
        "name",
    ),
    *("snap_start_seqno", "snap_end_seqno", "high_seqno", "end_reason", "stream_opaque", "snapshot_type"),
    *("missing", "value_length", "framing_length", "from_start", "failover_log", "rollback_seqno"),
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
BUFFER_SIZE = "connection_buffer_size"
ACK_WANTED = enums.MARKER_FLAGS.bit("acknowledge")


class SetupReader:
    """Reads one batch's set-up messages into the request tracker."""

    def __init__(
        self, tracker: RequestTracker, frames: ContextBatch, directions: DirectionProgress, done: BatchChanges
    ) -> None:
        self._tracker = tracker
        self._lifecycle = StreamLifecycle(tracker, done, frames.base)
        self._frames = frames
        self._directions = directions
        self._done = done
        self._opening = tracker.opening

    def take(self, index: int, row: dict[str, Any]) -> None:
        """Take one message."""
        frames = self._frames
        state = self._tracker.state(int(frames.connection[index]))
        side = row["direction"]
        ref = frames.ref(index)
        known = self._directions.acked(int(frames.direction_id[index]) ^ 1)
        state.received[1 - side] = max(state.received[1 - side], known)
        state.begun[side] = row["from_start"]
        if frames.peer_lost[index]:
            # Its sender had received bytes that were not captured: perhaps answers.
            self._answers_lost(state, index, side, NO_END)
        if frames.draft[index]:
            self._draft(state, index, row, ref)
        elif row["opcode"] in kinds.BEFORE_OPEN:
            if not row["response"]:
                self._opening.note_setup(state, row, ref)
        elif row["response"]:
            self._response(state, index, row, ref)
        elif row["opcode"] == kinds.STREAM_END:
            self._note_handover(state, index, row)
            self._lifecycle.end(state, row, ref)
            self._note(failover_events.shaken(index, state, row, ref))
        else:
            if row["opcode"] == kinds.SET_VBUCKET_STATE:
                self._note_handover(state, index, row)
            self._request(state, index, row, ref)
        state.received[side] = max(state.received[side], or_else(row["acked_offset"]))

    # -------------------------------------------------------------------------------------------------------- losses

    def lose(self, index: int, begin: int, end: int) -> None:
        """Take note of bytes that were lost right before a row."""
        frames = self._frames
        state, side = self._tracker.state(int(frames.connection[index])), int(frames.side[index])
        acked = int(frames.numbers("acked_offset")[index])
        self._tracker.report_overdue(state, side, *self._last_before(index))
        state.hidden[side].add(begin, end, int(frames.ordinal[index]), acked)
        state.received[side] = max(state.received[side], acked)
        self._answers_lost(state, index, 1 - side, acked if acked >= 0 else NO_END)
        # A request that was lost may have been granted in bytes that were lost as well.
        if frames.peer_lost[index] or state.unasked(1 - side, kinds.STREAM_REQUEST, 0, acked):
            self._lifecycle.doubt_all(state, index, side)
            self._doubt_controls(state, index)

    def _answers_lost(self, state: ConnectionState, index: int, side: int, received: int) -> None:
        """Take note that answers to a side may have been lost, as far as its requests had been received."""
        fresh = state.fresh[side]
        while fresh and (fresh[0].answered or had_received(received, fresh[0].end_offset)):
            request = fresh.popleft()
            if not request.answered:
                request.maybe_answered = True
                self._maybe_answered(state, index, request)

    def _last_before(self, index: int) -> tuple[int, int]:
        """Return the time of the frame before a row in its direction, and what its sender had received by then."""
        frames, direction = self._frames, int(self._frames.direction_id[index])
        before = np.flatnonzero(frames.direction_id[:index] == direction)
        if len(before):
            row = int(before[-1])
            return int(frames.numbers("time_ns")[row]), int(frames.numbers("acked_offset")[row])
        return self._directions.time_ns(direction), self._directions.acked(direction)

    def _maybe_answered(self, state: ConnectionState, index: int, request: PendingRequest) -> None:
        """Take note that the answer to a request may have been lost before a row."""
        if request.opcode == kinds.STREAM_REQUEST or request.draft:
            side = 1 - request.ref.side
            if request.unreadable:
                self._lifecycle.doubt_all(state, index, side)
            else:
                self._lifecycle.doubt(state, index, request.vbucket, request.stream_id, side)
        elif request.opcode == kinds.CLOSE_STREAM:
            state.unseen_close = [int(self._frames.ordinal[index])] * 2
        elif request.opcode == kinds.OPEN:
            self._opening.lost_answer(state, request)
            self._agree(state, index, request, ())  # a connection that goes on was opened
        elif request.opcode == kinds.CONTROL:
            name = request.key.decode("ascii", "replace")
            if request.unreadable:
                self._doubt_controls(state, index)
            else:
                self._doubt_agreements(state, index, control_bit(name))
            state.window_unsure |= name == BUFFER_SIZE
            state.noops.unsure |= name == INTERVAL
        elif request.opcode == kinds.HELLO:
            self._doubt_agreements(state, index, sum(FEATURE_BITS.values()))

    def _doubt_controls(self, state: ConnectionState, index: int) -> None:
        """Take note that a control may have been granted of which nothing is known, and before the open a HELLO."""
        state.window_unsure = state.noops.unsure = True
        self._doubt_agreements(state, index, CONTROL_AGREEMENTS | (0 if state.opened else sum(FEATURE_BITS.values())))

    def _doubt_agreements(self, state: ConnectionState, index: int, bits: int) -> None:
        before = state.unsure
        state.doubted |= bits
        if state.unsure != before:
            self._done.change("unsure", index, state.unsure)

    # ------------------------------------------------------------------------------------------------------ requests

    def _request(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque = row["opcode"], row["direction"], row["opaque"]
        vbucket = or_else(row["vbucket"])
        request = PendingRequest(opcode, ref, row["end_offset"], vbucket, or_else(row["stream_id"], 0), opaque)
        cut = or_else(row["missing"], 0) > 0
        if opcode == kinds.OPEN:
            self._open(state, index, row, ref, request)
        elif opcode in (kinds.CONTROL, kinds.HELLO):
            request.key, request.text = row["key_bytes"] or b"", row["text"] or ""
            request.unreadable = cut
            if opcode == kinds.CONTROL:
                self._opening.control(state, request)
            else:
                self._opening.note_setup(state, row, ref)
        elif opcode == kinds.STREAM_REQUEST:
            self._stream_request(row, request)
            # A stream id is in the value; so is what is filtered.
            request.unreadable = cut and or_else(row["value_length"], 0) > 0 and row["text"] is None
            acked = or_else(row["acked_offset"])
            self._lifecycle.note_stream_request(state, request, acked)
            self._opening.stream_request(state, request)
            self._note(
                failover_events.noted(index, state, request, acked, peer_lost=bool(self._frames.peer_lost[index]))
            )
        elif opcode == kinds.CLOSE_STREAM:
            request.unreadable = cut and row["stream_id"] is None and or_else(row["framing_length"], 0) > 0
        elif opcode == kinds.SNAPSHOT_MARKER:
            request.marker_end = or_else(row["snap_end_seqno"])
        elif opcode == kinds.ADD_STREAM:
            request.numbers["flags"] = or_else(row["stream_flags"])
            state.remember(state.added, request.vbucket, request)
        if opcode not in OWED and opcode != kinds.HELLO:
            return
        first = state.pending.first((side, opcode, opaque))
        waits = state.wait((side, opcode, opaque), request)
        if opcode in handovers.ASKING:
            handovers.note_request(state, _stream_of(state, row), request, first)
        elif opcode == kinds.NOOP and state.producer in (-1, side):
            self._tracker.noops.ask(state, request, or_else(row["acked_offset"]))
        if waits:
            if opcode in _LEAVING:
                state.leaving[vbucket] += 1
            if request.maybe_answered:
                self._maybe_answered(state, index, request)

    def _note_handover(self, state: ConnectionState, index: int, row: dict[str, Any]) -> None:
        """Take note of what the sender of a vbucket state, or of a stream end, had been answered."""
        known = handovers.facts(state, _stream_of(state, row), row["direction"], or_else(row["acked_offset"]))
        self._done.handovers[index] = known

    def _open(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref, request: PendingRequest) -> None:
        flags = or_else(row["open_flags"], 0)
        side = row["direction"]
        request.numbers["flags"] = flags
        if row["open_flags"] is None:
            state.doubted |= OPEN_AGREEMENTS  # they were cut off
        if not row["from_start"]:
            if state.opened == 0 and self._streamed_before(index):
                return  # no beginning: what was agreed upon before the capture began is not known
            # A HELLO may have come before the capture began.
            state.doubted |= sum(FEATURE_BITS.values()) & ~state.hello_seen
        if state.opened == 0:
            state.opened = ref.ordinal
            self._done.change("opened", index, ref.ordinal)
            self._done.change("unsure", index, state.unsure)
        sets_roles = self._opening.open(state, request)
        if row["open_flags"] is not None and sets_roles:
            state.producer = 1 - side if flags & _PRODUCES else side
            self._done.change("producer", index, state.producer)

    def _streamed_before(self, index: int) -> bool:
        """Tell whether something was streamed on a row's connection before it."""
        frames, number = self._frames, int(self._frames.connection[index])
        counted = frames.numbers("flow_bytes")[:index] > 0
        return self._directions.streamed(number) or bool((counted & (frames.connection[:index] == number)).any())

    @staticmethod
    def _stream_request(row: dict[str, Any], request: PendingRequest) -> None:
        request.stream_id = requested_stream_id(row["text"]) or 0
        request.ranged = row["snap_end_seqno"] is not None
        high = row["high_seqno"]
        request.numbers = {
            "start": or_else(row["start_seqno"]),
            "end": or_else(row["end_seqno"]),
            "flags": or_else(row["stream_flags"]),
            "ask_snap_start": or_else(row["snap_start_seqno"], or_else(high)),
            "ask_snap_end": or_else(row["snap_end_seqno"], or_else(high)),
            "uuid": or_else(row["vbucket_uuid"], 0),
            "filtered": int(filters(row["text"])),
        }

    # ------------------------------------------------------------------------------------------------------- answers

    def _response(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque, status = row["opcode"], row["direction"], row["opaque"], or_else(row["status"])
        request = state.answer((1 - side, opcode, opaque))
        if request is not None:
            request.answer_end = row["end_offset"]
            if opcode in _LEAVING:
                state.leaving[request.vbucket] -= 1
            if self._frames.peer_lost[index] or state.unasked(1 - side, opcode, opaque, or_else(row["acked_offset"])):
                # It may answer one that was lost and has the same opaque.
                state.remember(state.ambiguous, (1 - side, opcode, opaque), None)
                request.unreadable |= request.maybe_answered
            state.hidden[1 - side].settle(opcode, opaque, request.ref.start_offset)
            self._note_overtaken(state, request)
            self._note_refusal(state, index, request, ref, status)
            if opcode == kinds.NOOP:
                self._tracker.noops.answer(state, request, ref)
            self._report_pair(state, request, ref, status)
            self._apply_answer(state, index, request, row, ref, status)
        elif opcode == kinds.SNAPSHOT_MARKER or (opcode not in OWED and opcode != kinds.HELLO):
            self._reply_to_data(state, index, row, ref)
        else:
            self._report_unasked(state, index, row, ref)
            if status == enums.SUCCESS:
                self._apply_unasked(state, index, row)
            elif opcode == kinds.CONTROL:
                self._doubt_controls(state, index)  # what was refused is not known
        self._note(failover_events.told(index, state, row, ref, request))

    def _note_refusal(self, state: ConnectionState, index: int, request: PendingRequest, ref: Ref, status: int) -> None:
        """Take note whether a control was refused."""
        if request.opcode != kinds.CONTROL:
            return
        agreement, before = control_bit(request.key.decode("ascii", "replace")), state.refused
        if status == enums.SUCCESS:
            state.refused &= ~agreement
        else:
            state.refused |= agreement
            state.refusals[agreement] = ref
        if state.refused != before:
            self._done.change("refused", index, state.refused)

    def _note(self, event: FailoverEvent | None) -> None:
        if event is not None:
            self._done.failover.append(event)

    @staticmethod
    def _note_overtaken(state: ConnectionState, request: PendingRequest) -> None:
        """Take note of the requests that should have been answered before one that is."""
        queue = queue_of(request.opcode, request.opaque)
        fresh = state.fresh[request.ref.side]
        while fresh and fresh[0].answered:
            fresh.popleft()
        for each in fresh:
            if each.ref.start_offset >= request.ref.start_offset:
                return
            each.overtaken |= not each.answered and queue_of(each.opcode, each.opaque) == queue

    def _report_unasked(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        """Report an answer without a request."""
        side, opaque, opcode = 1 - ref.side, row["opaque"], row["opcode"]
        if self._frames.draft[index]:
            opcode = or_else(row["vbucket"], 0)
        first = state.answered.get((side, opcode, opaque))
        unknown = state.unasked(side, row["opcode"], opaque, or_else(row["acked_offset"]))
        if not unknown and self._frames.peer_lost[index]:
            unknown = UnknownReason.ONE_SIDED
        if row["opcode"] == kinds.NOOP and first is None and not self._frames.draft[index]:
            self._tracker.noops.answer_wrongly(state, opaque, ref, or_else(row["acked_offset"]), unknown)
        self._tracker.report_unasked(state, row, ref, first, unknown)

    def _apply_unasked(self, state: ConnectionState, index: int, row: dict[str, Any]) -> None:
        """Apply what a successful answer changes whose request is not known."""
        opcode, side = row["opcode"], row["direction"]
        if opcode == kinds.STREAM_REQUEST:
            self._lifecycle.begin_unseen(state, index, side)
        elif opcode == kinds.CLOSE_STREAM:
            state.unseen_close[side] = int(self._frames.ordinal[index])
        elif opcode == kinds.CONTROL:
            self._doubt_controls(state, index)
        elif opcode == kinds.HELLO:
            # Rows are read without what it grants: the reader pairs it with its request, too.
            self._doubt_agreements(state, index, sum(FEATURE_BITS.values()))

    def _report_pair(self, state: ConnectionState, request: PendingRequest, ref: Ref, status: int) -> None:
        """Report an answer and its request."""
        state.remember(state.answered, (request.ref.side, request.opcode, request.opaque), request.ref)
        not_open, unknown = self._opening.not_open(state, request)
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
            not_open=int(not_open),
            unknown=unknown,
        )
        if request.opcode in OWED:
            self._tracker.report_answered(state, request, ref)

    def _apply_answer(
        self, state: ConnectionState, index: int, request: PendingRequest, row: dict[str, Any], ref: Ref, status: int
    ) -> None:
        """Apply what an answer changes: agreements, and starts and ends of streams."""
        opcode = request.opcode
        if opcode == kinds.OPEN:
            self._opening.answer(state, request, ref, status)
        if opcode == kinds.ADD_STREAM:
            self._lifecycle.answer_add_stream(state, request, row, ref, status)
        elif opcode == kinds.SNAPSHOT_MARKER:
            self._done.confirmations.append((index, request, state))
        elif status != enums.SUCCESS:
            return
        elif opcode == kinds.STREAM_REQUEST:
            if request.vbucket >= 0 and not request.unreadable:
                self._lifecycle.begin(state, index, request, ref)
            else:
                self._lifecycle.begin_unseen(state, index, ref.side)
        elif opcode == kinds.CLOSE_STREAM:
            if request.vbucket >= 0 and not request.unreadable:
                self._lifecycle.close(state, index, request, ref)
            else:
                state.unseen_close[ref.side] = ref.ordinal
        else:
            self._agree(state, index, request, row["features"] or ())

    def _agree(self, state: ConnectionState, index: int, request: PendingRequest, features: tuple[int, ...]) -> None:
        before = state.agreed, state.unsure
        if request.opcode == kinds.HELLO:
            for feature in features:
                state.agreed |= FEATURE_BITS.get(feature, 0)
            state.hello_seen = sum(FEATURE_BITS.values())
            state.doubted &= ~state.hello_seen
        elif request.opcode == kinds.OPEN:
            for flag in enums.OPEN_FLAGS.members:
                if request.numbers["flags"] & flag.value:
                    state.agreed |= bit(f"open_{flag.name}")
        elif request.opcode == kinds.CONTROL:
            name = request.key.decode("ascii", "replace")
            if not request.unreadable:
                self._tracker.noops.agree(state, name, request.text, self._frames.ref(index))
            if request.unreadable:
                state.doubted |= CONTROL_AGREEMENTS
                state.window_unsure = state.noops.unsure = True
            elif name == BUFFER_SIZE and not (request.text.isascii() and request.text.isdigit()):
                state.window_unsure = True  # 3.0.0 takes it for 0, and stalls
            elif name == BUFFER_SIZE:
                state.window, state.window_unsure = min(int(request.text[:18]), 1 << 62), False
                self._done.change("window", index, state.window)
            else:
                state.doubted &= ~control_bit(name)
                if request.text == "false":
                    state.agreed &= ~control_bit(name)
                else:
                    state.agreed |= control_bit(name)
        if state.agreed != before[0]:
            self._done.change("agreed", index, state.agreed)
        if state.unsure != before[1]:
            self._done.change("unsure", index, state.unsure)

    def _reply_to_data(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        """Take an answer to data: some message has its opaque, and stays open to further answers."""
        opcode, opaque, side = row["opcode"], row["opaque"], 1 - ref.side
        key = state.opaques.get(opaque)
        unknown = UnknownReason.KNOWN
        if opcode == kinds.SNAPSHOT_MARKER and or_else(row["status"]) == enums.SUCCESS:
            unknown = state.unasked(side, opcode, opaque, or_else(row["acked_offset"]))
            if not unknown and self._frames.peer_lost[index]:
                unknown = UnknownReason.ONE_SIDED
        if opcode == kinds.SNAPSHOT_MARKER and or_else(row["status"]) != enums.SUCCESS:
            state.remember(state.refused_markers, (ref.side, opaque), None)
        self._done.replies.append(
            ReplyToData(
                index,
                state.number,
                ref,
                opcode,
                opaque,
                or_else(row["status"]),
                or_else(row["acked_offset"]),
                key,
                is_upr=bool(self._frames.early[index]),
                repeated=(side, opcode, opaque) in state.answered,
                leaving=state.leaving_vbuckets(None if key is None else keys.vbucket_of(key)),
                lost_row=max(state.hidden[side].row, state.unseen_close[side]),
                lost_acked=state.hidden[ref.side].acked,
                refused_marker=(ref.side, opaque) in state.refused_markers,
                unopened=not state.opened,
                unknown=unknown,
            )
        )

    # ----------------------------------------------------------------------------------------------------- the draft

    def _draft(self, state: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        """Take a message of the draft, which has no opens: a request names its stream, and answers come as pushes."""
        name, side, opaque = row["name"], row["direction"], row["opaque"]
        vbucket = or_else(row["vbucket"], 0)
        if not row["response"]:
            state.opened = state.opened or ref.ordinal
            self._done.change("opened", index, state.opened)
            self._done.change("unsure", index, state.unsure)
            request = PendingRequest(row["opcode"], ref, row["end_offset"], vbucket, 0, opaque, draft=True)
            if name == "stream_request":
                self._stream_request(row, request)
                request.stream_id = 0
            if state.wait((side, vbucket, opaque), request) and request.maybe_answered:
                self._maybe_answered(state, index, request)
            return
        if name == "stream_end":
            self._lifecycle.end(state, row, ref)
            return
        if not name.startswith(_ANSWERED_PUSHES):
            return
        place = (1 - side, vbucket, opaque)
        found = state.answer(place)
        if found is None:
            self._report_unasked(state, index, row, ref)
            if name == "stream_ok":
                self._lifecycle.begin_unseen(state, index, side)
            return
        state.hidden[1 - side].settle(row["opcode"], opaque, found.ref.start_offset)
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


def _stream_of(state: ConnectionState, row: dict[str, Any]) -> int:
    """Return the key of the stream that a message of the producer belongs to."""
    return int(
        keys.stream_key(state.number, or_else(row["vbucket"], 0), or_else(row["stream_id"], 0), row["direction"])
    )
