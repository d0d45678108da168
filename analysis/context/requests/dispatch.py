"""Feed one batch's set-up messages to the request tracker, in capture order.

Knows which answer belongs to which request and what is agreed upon by it; what that means for a stream is for
:mod:`analysis.context.requests.stream_lifecycle` to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.requests.state import (
    FEATURE_BITS,
    GAP,
    LIMIT,
    ONE_SIDED,
    START,
    PendingRequest,
    UnmatchedResponse,
    bit,
    control_bit,
)
from analysis.context.requests.stream_lifecycle import (
    KEY_BITS,
    BatchChanges,
    StreamLifecycle,
    filters,
    or_else,
    stream_key,
)
from dissector.spec import enums
from dissector.summary.stream_summary import requested_stream_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch, DirectionGaps
    from analysis.context.frame_refs import Ref
    from analysis.context.requests.state import ConnectionState
    from analysis.context.requests.tracker import RequestTracker

    Longs = NDArray[np.int64]

__all__ = ["KEY_BITS", "BatchChanges", "SetupReader", "stream_key"]

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
ACK_WANTED = 0x08


class SetupReader:
    """Reads one batch's messages into the desk's books."""

    def __init__(
        self, desk: RequestTracker, sight: ContextBatch, gaps: Longs, directions: DirectionGaps, done: BatchChanges
    ) -> None:
        self._desk = desk
        self._lives = StreamLifecycle(desk, done)
        self._sight = sight
        self._gaps = gaps
        self._directions = directions
        self._done = done
        self._rows_of: dict[int, Longs] = {}
        self._end_offset = sight.numbers("end_offset")

    def take(self, index: int, row: dict[str, Any]) -> None:
        """Take one message."""
        sight = self._sight
        talk = self._desk.talk(int(sight.connection[index]))
        side = row["direction"]
        if self._gaps[index] > talk.doubt[side]:
            talk.doubt[side] = int(self._gaps[index])
        ref = sight.ref(index)
        if sight.draft[index]:
            self._draft(talk, index, row, ref)
        elif row["response"]:
            self._response(talk, index, row, ref)
        elif row["opcode"] == kinds.STREAM_END:
            self._lives.end(talk, row, ref)
        else:
            self._request(talk, index, row, ref)

    # ------------------------------------------------------------------------------------------------------ requests

    def _request(self, talk: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque = row["opcode"], row["direction"], row["opaque"]
        vbucket = or_else(row["vbucket"])
        asked = PendingRequest(opcode, ref, row["end_offset"], vbucket, or_else(row["stream_id"], 0), opaque)
        if opcode == kinds.OPEN:
            self._open(talk, index, row, ref, asked)
        elif opcode in (kinds.CONTROL, kinds.HELLO):
            asked.key, asked.text = row["key"] or b"", row["text"] or ""
        elif opcode == kinds.STREAM_REQUEST:
            self._stream_request(row, asked)
            self._lives.requested(talk, asked, or_else(row["acked_offset"]))
        elif opcode == kinds.SNAPSHOT_MARKER:
            asked.marker_end = or_else(row["snap_end_seqno"])
            asked.instance = talk.live.get(stream_key(talk.number, max(vbucket, 0), asked.stream_id, side), -1)
        elif opcode == kinds.ADD_STREAM:
            asked.numbers["flags"] = or_else(row["stream_flags"], 0)
            self._lives.add(talk, asked)
        if opcode not in OWED and opcode != kinds.HELLO:
            return
        orphan = talk.adopt((side, opcode, opaque), asked.end_offset)
        if orphan is not None:
            self._late(talk, index, asked, orphan)
        elif talk.wait((side, opcode, opaque), asked) and opcode in _LEAVING:
            talk.leaving[vbucket] += 1

    def _open(self, talk: ConnectionState, index: int, row: dict[str, Any], ref: Ref, asked: PendingRequest) -> None:
        flags = or_else(row["open_flags"], 0)
        side = row["direction"]
        if talk.opened == 0:
            talk.opened = ref.ordinal
            self._done.change("opened", index, ref.ordinal)
        talk.producer = 1 - side if flags & _PRODUCES else side
        self._done.change("producer", index, talk.producer)
        asked.numbers["flags"] = flags

    @staticmethod
    def _stream_request(row: dict[str, Any], asked: PendingRequest) -> None:
        asked.stream_id = requested_stream_id(row["text"]) or 0
        high = row["high_seqno"]
        asked.numbers = {
            "start": or_else(row["start_seqno"]),
            "end": or_else(row["end_seqno"]),
            "flags": or_else(row["stream_flags"], 0),
            "ask_snap_start": or_else(row["snap_start_seqno"], or_else(high)),
            "ask_snap_end": or_else(row["snap_end_seqno"], or_else(high)),
            "uuid": or_else(row["vbucket_uuid"], 0),
            "filtered": int(filters(row["text"])),
        }

    # ------------------------------------------------------------------------------------------------------- answers

    def _response(self, talk: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque, status = row["opcode"], row["direction"], row["opaque"], or_else(row["status"])
        early = bool(self._sight.early[index])
        place = (1 - side, opcode, opaque)
        asked = talk.answer(place)
        if asked is not None:
            if opcode in _LEAVING:
                talk.leaving[asked.vbucket] -= 1
            self._paired(talk, asked, ref, status)
            self._settle(talk, index, asked, row, ref, status)
            return
        if opcode == kinds.SNAPSHOT_MARKER:
            if early or status != enums.SUCCESS or not self._awaited(talk, place, row, ref, index, harmless=True):
                self._reply_to_data(talk, row, ref, index, early=early)
        elif opcode not in OWED:
            self._reply_to_data(talk, row, ref, index, early=early)
        else:
            self._awaited(talk, place, row, ref, index)
            if opcode == kinds.STREAM_REQUEST and status == enums.SUCCESS:
                # A stream begins, and nobody knows which: nothing of this direction is certain any more.
                self._unexplained(talk, index, ref)

    def _awaited(
        self,
        talk: ConnectionState,
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
        orphan = UnmatchedResponse(
            row["opcode"], opaque, 1 - side, or_else(row["status"]), acked, ref, talk.answered.get(place),
            tuple(row["features"] or ()), talk.opaques.get(opaque) if harmless else None, harmless,
        )  # fmt: skip
        if self._heard(talk, side, index) >= acked:
            if harmless:
                return False
            lost = max(talk.doubt[side], self._gap_of(talk, side, index)) > 0
            self._desk.unasked(talk, orphan, START if not talk.opened else GAP if lost else talk.lost())
        elif not talk.leave_orphan(place, orphan):
            self._desk.unasked(talk, orphan, LIMIT)
        return True

    def _unexplained(self, talk: ConnectionState, index: int, ref: Ref) -> None:
        self._done.unexplained.append(index)
        talk.doubt[ref.side] = ref.ordinal

    def _late(self, talk: ConnectionState, index: int, asked: PendingRequest, orphan: UnmatchedResponse) -> None:
        """A request turns up behind its answer: what was agreed upon counts from here on."""
        self._paired(talk, asked, orphan.ref, orphan.status)
        if orphan.status != enums.SUCCESS:
            return
        if asked.opcode in (kinds.HELLO, kinds.OPEN, kinds.CONTROL):
            self._agree(talk, index, asked, orphan.features)
        elif asked.opcode in (kinds.STREAM_REQUEST, kinds.CLOSE_STREAM, kinds.ADD_STREAM):
            talk.doubt[orphan.side] = max(talk.doubt[orphan.side], orphan.ref.ordinal)

    def _paired(self, talk: ConnectionState, asked: PendingRequest, ref: Ref, status: int) -> None:
        """Report an answer and its request."""
        talk.remember(talk.answered, (asked.ref.side, asked.opcode, asked.opaque), asked.ref)
        self._desk.answers.add(
            talk.number,
            asked.vbucket,
            asked.stream_id,
            ref,
            {"request": asked.ref},
            opcode=asked.opcode,
            status=status,
            pairing=1,
            latency_ns=ref.time_ns - asked.ref.time_ns,
            opaque=asked.opaque,
        )
        if asked.opcode in OWED:
            self._desk.exchanged(talk, asked, ref)

    def _settle(
        self, talk: ConnectionState, index: int, asked: PendingRequest, row: dict[str, Any], ref: Ref, status: int
    ) -> None:
        """Draw the consequences of an answer."""
        opcode = asked.opcode
        if opcode == kinds.ADD_STREAM:
            self._lives.added(talk, asked, row, ref, status)
        elif opcode == kinds.SNAPSHOT_MARKER:
            self._done.confirmations.append((index, asked, talk))
        elif status != enums.SUCCESS:
            return
        elif opcode == kinds.STREAM_REQUEST:
            if asked.vbucket >= 0:
                self._lives.begin(talk, index, asked, ref)
        elif opcode == kinds.CLOSE_STREAM:
            if asked.vbucket >= 0:
                self._lives.close(talk, index, asked, ref)
        else:
            self._agree(talk, index, asked, row["features"] or ())

    def _agree(self, talk: ConnectionState, index: int, asked: PendingRequest, features: tuple[int, ...]) -> None:
        before = talk.agreed
        if asked.opcode == kinds.HELLO:
            for feature in features:
                talk.agreed |= FEATURE_BITS.get(feature, 0)
        elif asked.opcode == kinds.OPEN:
            for flag in enums.OPEN_FLAGS.members:
                if asked.numbers["flags"] & flag.value:
                    talk.agreed |= bit(f"open_{flag.name}")
        elif asked.opcode == kinds.CONTROL:
            name = asked.key.decode("ascii", "replace")
            if name == "connection_buffer_size" and asked.text.isascii() and asked.text.isdigit():
                talk.window = min(int(asked.text[:18]), 1 << 62)
                self._done.change("window", index, talk.window)
            elif asked.text == "false":
                talk.agreed &= ~control_bit(name)
            else:
                talk.agreed |= control_bit(name)
        if talk.agreed != before:
            self._done.change("agreed", index, talk.agreed)

    def _reply_to_data(self, talk: ConnectionState, row: dict[str, Any], ref: Ref, index: int, *, early: bool) -> None:
        """Answers to data pair with some message of that opaque; nothing is used up by them."""
        opaque, other = row["opaque"], 1 - ref.side
        key = talk.opaques.get(opaque)
        vbucket = -1 if key is None else key >> 17 & 0xFFFF
        settling = key is None or key in talk.over or talk.leaving[vbucket] > 0
        unknown = talk.lost()
        if not unknown and self._gap_of(talk, other, index) > 0:
            unknown = GAP
        if not unknown and self._heard(talk, other, index) < or_else(row["acked_offset"]):
            unknown = ONE_SIDED  # a close may have been on its way
        self._desk.answers.add(
            talk.number,
            vbucket,
            0 if key is None else key >> 1 & 0xFFFF,
            ref,
            {},
            opcode=row["opcode"],
            status=or_else(row["status"]),
            pairing=3,
            early=int(early),
            data=1,
            settling=int(settling),
            unknown=unknown,
            to_stream=int(key is not None),
            opaque=opaque,
            again=int((1 - ref.side, row["opcode"], opaque) in talk.answered),
        )

    def _heard(self, talk: ConnectionState, side: int, before: int) -> int:
        """Return how far a direction's frames had come before a row of this batch."""
        rows = self._side_rows(talk, side)
        at = int(np.searchsorted(rows, before)) - 1
        return int(self._end_offset[rows[at]]) if at >= 0 else self._directions.heard(talk.number * 2 + side)

    def _gap_of(self, talk: ConnectionState, side: int, before: int) -> int:
        rows = self._side_rows(talk, side)
        at = int(np.searchsorted(rows, before)) - 1
        return int(self._gaps[rows[at]]) if at >= 0 else self._directions.gap(talk.number * 2 + side)

    def _side_rows(self, talk: ConnectionState, side: int) -> Longs:
        direction = talk.number * 2 + side
        rows = self._rows_of.get(direction)
        if rows is None:
            rows = self._rows_of[direction] = np.flatnonzero(self._sight.stream_of_bytes == direction)
        return rows

    # ----------------------------------------------------------------------------------------------------- the draft

    def _draft(self, talk: ConnectionState, index: int, row: dict[str, Any], ref: Ref) -> None:
        """The draft has no opens: a request names its stream, and its answers come as pushes."""
        name, side, opaque = row["name"], row["direction"], row["opaque"]
        vbucket = or_else(row["vbucket"], 0)
        if not row["response"]:
            talk.opened = talk.opened or ref.ordinal
            self._done.change("opened", index, talk.opened)
            asked = PendingRequest(row["opcode"], ref, row["end_offset"], vbucket, 0, opaque)
            if name == "stream_request":
                self._stream_request(row, asked)
                asked.stream_id = 0
            if talk.adopt((side, vbucket, opaque), asked.end_offset) is None:
                talk.wait((side, vbucket, opaque), asked)
            return
        if name == "stream_end":
            self._lives.end(talk, row, ref)
            return
        if not name.startswith(_ANSWERED_PUSHES):
            return
        place = (1 - side, vbucket, opaque)
        found = talk.answer(place)
        if found is None:
            self._awaited(talk, place, row, ref, index)
            if name == "stream_ok":
                self._unexplained(talk, index, ref)
            return
        talk.remember(talk.answered, place, found.ref)
        self._desk.answers.add(
            talk.number,
            vbucket,
            0,
            ref,
            {"request": found.ref},
            opcode=row["opcode"],
            pairing=1,
            draft=1,
            opaque=opaque,
            latency_ns=ref.time_ns - found.ref.time_ns,
        )
        if name == "stream_ok":
            self._lives.begin(talk, index, found, ref, draft=True)
