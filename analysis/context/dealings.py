"""Reading the desk's mail: one message at a time, in order, into the books of :class:`analysis.context.desk.Desk`."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.refs import Ref
from analysis.context.talks import FEATURE_BITS, MAX_WAITING, Asked, Closing, Orphan, bit, control_bit
from dissector.spec import enums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.desk import Desk
    from analysis.context.sight import Directions, Sight
    from analysis.context.talks import Talk

    Longs = NDArray[np.int64]

KEY_BITS = 33
PATIENCE_NS = 60 * 10**9  #: the longest that an answer may take
COLUMNS = (
    *("direction", "response", "opcode", "status", "vbucket", "stream_id", "opaque", "end_offset", "acked_offset"),
    *("key", "text", "features", "open_flags", "stream_flags", "start_seqno", "end_seqno", "vbucket_uuid", "name"),
    *("snap_start_seqno", "snap_end_seqno", "high_seqno", "end_reason", "stream_opaque", "snapshot_type"),
    *("extras_length", "opaque_swapped", "vbucket_state", "defects", "dialect"),
)
_SID = re.compile(r'"sid"\s*:\s*(\d{1,5})\b')
_PRODUCES = enums.OPEN_FLAGS.bit("producer") | enums.OPEN_FLAGS.bit("notifier")
#: Requests whose answer is owed.
OWED = frozenset(
    (
        *(kinds.OPEN, kinds.ADD_STREAM, kinds.CLOSE_STREAM, kinds.STREAM_REQUEST, kinds.GET_FAILOVER_LOG),
        *(kinds.SET_VBUCKET_STATE, kinds.NOOP, kinds.CONTROL, kinds.SNAPSHOT_MARKER),
    )
)
#: What an answer may be late for: an add stream waits for the producer, a stream request for the disk.
PATIENT = frozenset((kinds.ADD_STREAM, kinds.STREAM_REQUEST))
ACK_WANTED = 0x08


@dataclass(slots=True, eq=False)
class Happenings:
    """What a batch's set-up messages settle for the rows around them."""

    begins: dict[int, tuple[int, int]] = field(default_factory=dict)  #: row to stream key and instance
    closes: dict[int, int] = field(default_factory=dict)  #: row to stream key
    before: dict[int, int] = field(default_factory=dict)  #: stream key to its instance before the batch
    unexplained: list[int] = field(default_factory=list)  #: rows that show that something was lost
    changes: dict[str, dict[int, int]] = field(default_factory=dict)  #: fact to row and its new value
    over: list[int] = field(default_factory=list)  #: instances to let go of behind the batch
    confirmations: list[tuple[int, Asked, Talk]] = field(default_factory=list)  #: rows that confirm a marker

    def change(self, fact: str, row: int, value: int) -> None:
        """Let a fact about the row's connection change there."""
        self.changes.setdefault(fact, {})[row] = value


def stream_key(connection: int, vbucket: int, stream_id: int, side: int) -> int:
    """Return one number for a vbucket's stream (and stream id) of one direction."""
    return connection << KEY_BITS | vbucket << 17 | stream_id << 1 | side


class Reader:
    """Reads one batch's messages into the desk's books."""

    def __init__(self, desk: Desk, sight: Sight, gaps: Longs, directions: Directions, done: Happenings) -> None:
        self._desk = desk
        self._instances = desk.instances
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
        opcode = row["opcode"]
        if sight.draft[index]:
            self._draft(talk, index, row, ref)
        elif row["response"]:
            self._response(talk, index, row, ref)
        elif opcode == kinds.STREAM_END:
            self._stream_end(talk, row, ref)
        elif not row["defects"] or opcode in OWED:
            self._request(talk, index, row, ref)

    # ------------------------------------------------------------ requests

    def _request(self, talk: Talk, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque = row["opcode"], row["direction"], row["opaque"]
        asked = Asked(opcode, ref, row["end_offset"], _or(row["vbucket"]), _or(row["stream_id"], 0), opaque)
        if opcode == kinds.OPEN:
            self._open(talk, index, row, ref, asked)
        elif opcode in (kinds.CONTROL, kinds.HELLO):
            asked.key, asked.text = row["key"] or b"", row["text"] or ""
        elif opcode == kinds.STREAM_REQUEST:
            self._stream_request(talk, row, asked)
        elif opcode == kinds.SNAPSHOT_MARKER:
            asked.marker_end = _or(row["snap_end_seqno"])
            asked.instance = talk.live.get(stream_key(talk.number, asked.vbucket, asked.stream_id, side), -1)
        elif opcode == kinds.ADD_STREAM:
            asked.numbers["flags"] = _or(row["stream_flags"], 0)
            talk.added[asked.vbucket] = asked
            while len(talk.added) > MAX_WAITING:
                del talk.added[next(iter(talk.added))]
        if opcode not in OWED and opcode != kinds.HELLO:
            return
        orphan = next(
            (each for each in talk.orphans if (each.opcode, each.opaque, 1 - each.side) == (opcode, opaque, side)), None
        )
        if orphan is not None and orphan.acked >= asked.end_offset and not orphan.repeated:
            # Its receiver had it when the answer was sent: only the capture has them the wrong way round.
            talk.orphans.remove(orphan)
            self._paired(talk, asked, row, orphan.ref, orphan.status, early=False)
            return
        waiting = talk.waiting.setdefault((side, opcode, opaque), deque())
        if len(talk.order) < MAX_WAITING:
            waiting.append(asked)
            talk.order[ref.ordinal] = asked

    def _open(self, talk: Talk, index: int, row: dict[str, Any], ref: Ref, asked: Asked) -> None:
        flags = _or(row["open_flags"], 0)
        side = row["direction"]
        if talk.opened == 0:
            talk.opened = ref.ordinal
            # What was missed before the first word of the connection matters to nobody.
            self._done.change("opened", index, ref.ordinal)
        talk.producer = 1 - side if flags & _PRODUCES else side
        self._done.change("producer", index, talk.producer)
        asked.numbers["flags"] = flags

    def _stream_request(self, talk: Talk, row: dict[str, Any], asked: Asked) -> None:
        asked.stream_id = stream_id_of(row["text"]) or 0
        high = row["high_seqno"]
        asked.numbers = {
            "start": _or(row["start_seqno"]),
            "end": _or(row["end_seqno"]),
            "flags": _or(row["stream_flags"], 0),
            "ask_snap_start": _or(row["snap_start_seqno"], _or(high)),
            "ask_snap_end": _or(row["snap_end_seqno"], _or(high)),
            "uuid": _or(row["vbucket_uuid"], 0),
            "filtered": int(filters(row["text"])),
        }
        added = talk.added.get(asked.vbucket)
        if added is not None and added.ref.side != asked.ref.side:
            added.links.append((asked.opaque, asked.numbers["flags"], asked.ref))
            del added.links[:-16]

    # ------------------------------------------------------------ answers

    def _response(self, talk: Talk, index: int, row: dict[str, Any], ref: Ref) -> None:
        opcode, side, opaque, status = row["opcode"], row["direction"], row["opaque"], _or(row["status"])
        early = bool(self._sight.early[index])
        waiting = talk.waiting.get((1 - side, opcode, opaque))
        if waiting:
            asked = waiting.popleft()
            if not waiting:
                del talk.waiting[1 - side, opcode, opaque]
            talk.order.pop(asked.ref.ordinal, None)
            self._paired(talk, asked, row, ref, status, early=early, index=index)
            return
        if opcode not in OWED or opcode == kinds.SNAPSHOT_MARKER:
            self._reply_to_data(talk, row, ref, status, early=early)
            return
        repeated = talk.answered.get((1 - side, opcode, opaque))
        acked = _or(row["acked_offset"])
        orphan = Orphan(opcode, opaque, side, status, acked, ref, repeated is not None, repeated)
        if self._heard(talk, 1 - side, index) >= acked:
            lost = talk.doubt[1 - side] > 0 or self._gap_of(talk, 1 - side, index) > 0
            self._desk.unanswerable(talk, orphan, unknown=int(lost or not talk.opened or acked < 0))
        elif len(talk.orphans) < MAX_WAITING:
            talk.orphans.append(orphan)
        if opcode == kinds.STREAM_REQUEST and status == enums.SUCCESS:
            # A stream begins, and nobody knows which: nothing of this direction is certain any more.
            self._done.unexplained.append(index)
            talk.doubt[side] = ref.ordinal

    def _paired(
        self,
        talk: Talk,
        asked: Asked,
        row: dict[str, Any],
        ref: Ref,
        status: int,
        *,
        early: bool,
        index: int | None = None,
    ) -> None:
        side, opcode = ref.side, asked.opcode
        talk.remember(talk.answered, (asked.ref.side, opcode, asked.opaque), asked.ref)
        latency = ref.time_ns - asked.ref.time_ns
        self._desk.answers.add(
            talk.number,
            asked.vbucket,
            asked.stream_id,
            ref,
            {"request": asked.ref},
            opcode=opcode,
            status=status,
            pairing=1,
            early=int(early),
            latency_ns=latency,
            opaque=asked.opaque,
        )
        if asked.overdue:
            pass
        elif latency > PATIENCE_NS:
            self._desk.overdue(talk, asked, unknown=int(self._desk.doubtful(talk, asked.ref.ordinal)))
        else:
            self._desk.exchanges.add(
                talk.number,
                asked.vbucket,
                asked.stream_id,
                asked.ref,
                {"answer": ref},
                opcode=opcode,
                answered=1,
                latency_ns=latency,
                patient=int(opcode in PATIENT),
                opaque=asked.opaque,
            )
        if index is None:
            if opcode == kinds.STREAM_REQUEST and status == enums.SUCCESS:
                talk.doubt[side] = max(talk.doubt[side], ref.ordinal)
            return
        if opcode == kinds.STREAM_REQUEST:
            if status == enums.SUCCESS:
                self._begin(talk, index, asked, ref)
        elif opcode == kinds.CLOSE_STREAM:
            if status == enums.SUCCESS:
                self._close(talk, index, asked, ref)
        elif opcode == kinds.ADD_STREAM:
            self._added(talk, asked, row, ref, status)
        elif opcode == kinds.SNAPSHOT_MARKER:
            self._done.confirmations.append((index, asked, talk))
        elif status == enums.SUCCESS:
            self._agree(talk, index, asked, row)

    def _agree(self, talk: Talk, index: int, asked: Asked, row: dict[str, Any]) -> None:
        before = talk.agreed
        if asked.opcode == kinds.HELLO:
            for feature in row["features"] or ():
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

    def _reply_to_data(self, talk: Talk, row: dict[str, Any], ref: Ref, status: int, *, early: bool) -> None:
        """Answers to data pair with some message of that opaque; nothing is used up by them."""
        opcode, side, opaque = row["opcode"], row["direction"], row["opaque"]
        key = talk.opaques.get(opaque)
        repeated = opcode == kinds.SNAPSHOT_MARKER and not early
        first = talk.answered.get((1 - side, opcode, opaque)) if repeated else None
        settling = key is None or key in talk.over or self._asking(talk, key)
        self._desk.answers.add(
            talk.number,
            -1 if key is None else key >> 17 & 0xFFFF,
            0 if key is None else key >> 1 & 0xFFFF,
            ref,
            {"request": first},
            opcode=opcode,
            status=status,
            pairing=3 if first is None else 2,
            early=int(early),
            data=1,
            settling=int(settling),
            unknown=int(not talk.opened or max(talk.doubt) > 0),
            to_stream=int(key is not None),
            opaque=opaque,
        )

    def _asking(self, talk: Talk, key: int) -> bool:
        """Tell whether a close of a stream, or a change of its vbucket's state, is on its way."""
        for asked in talk.order.values():
            if asked.opcode in (kinds.CLOSE_STREAM, kinds.SET_VBUCKET_STATE) and asked.vbucket == (key >> 17 & 0xFFFF):
                return True
        return False

    def _heard(self, talk: Talk, side: int, before: int) -> int:
        """Return how far a direction's frames had come before a row of this batch."""
        rows = self._side_rows(talk, side)
        at = int(np.searchsorted(rows, before)) - 1
        return int(self._end_offset[rows[at]]) if at >= 0 else self._directions.heard(talk.number * 2 + side)

    def _gap_of(self, talk: Talk, side: int, before: int) -> int:
        rows = self._side_rows(talk, side)
        at = int(np.searchsorted(rows, before)) - 1
        return int(self._gaps[rows[at]]) if at >= 0 else self._directions.gap(talk.number * 2 + side)

    def _side_rows(self, talk: Talk, side: int) -> Longs:
        direction = talk.number * 2 + side
        rows = self._rows_of.get(direction)
        if rows is None:
            rows = self._rows_of[direction] = np.flatnonzero(self._sight.stream_of_bytes == direction)
        return rows

    # ------------------------------------------------------------------------------------ the lives of streams

    def _begin(self, talk: Talk, index: int, asked: Asked, ref: Ref) -> None:
        """A stream request was granted."""
        key = stream_key(talk.number, asked.vbucket, asked.stream_id, ref.side)
        instances, done = self._instances, self._done
        previous = talk.live.get(key, -1)
        alive = previous >= 0 and key not in talk.over
        sharer = next((other for other in (talk.opaques.get(asked.opaque),) if other is not None), None)
        shared = sharer is not None and sharer != key and sharer in talk.live and sharer not in talk.over
        reused = previous >= 0 and int(instances["opaque"][previous]) == asked.opaque
        fresh = instances.add(granted=1, opaque=asked.opaque, **asked.numbers)
        instances["last_seqno"][fresh] = -1
        instances.refs["request"][fresh] = tuple(asked.ref)
        instances.refs["answer"][fresh] = tuple(ref)
        self._desk.begins.add(
            talk.number,
            asked.vbucket,
            asked.stream_id,
            ref,
            {
                "request": asked.ref,
                "previous": self._ref("answer", previous),
                "sharer": self._ref("answer", talk.live.get(sharer, -1) if sharer is not None else -1),
            },
            live=int(alive),
            shared=int(shared),
            other_vbucket=-1 if sharer is None else sharer >> 17 & 0xFFFF,
            reused=int(reused),
            opaque=asked.opaque,
            unknown=int(not talk.opened or max(talk.doubt) > (0 if previous < 0 else self._begun(previous))),
        )
        if key in talk.closing:
            closing = talk.closing.pop(key)
            self._desk.closing_ended(talk, closing, None, 0, unknown=int(not closing.announced))
        talk.reached.pop(key, None)
        done.before.setdefault(key, previous)
        if previous >= 0:
            done.over.append(previous)
        done.begins[index] = (key, fresh)
        talk.live[key] = fresh
        talk.over.discard(key)
        talk.opaques[asked.opaque] = key
        talk.opaques.move_to_end(asked.opaque)
        if len(talk.opaques) > MAX_WAITING:
            talk.opaques.popitem(last=False)

    def _begun(self, instance: int) -> int:
        return int(self._instances.refs["answer"]["ordinal"][instance])

    def _ref(self, name: str, instance: int) -> Ref | None:
        if instance < 0:
            return None
        record = self._instances.refs[name][instance]
        return Ref.of(record) if record["ordinal"] else None

    def _close(self, talk: Talk, index: int, asked: Asked, ref: Ref) -> None:
        """A stream was closed: by the consumer, whose wish the producer grants, or on a relay's leg by the producer."""
        for side in (0, 1):
            key = stream_key(talk.number, asked.vbucket, asked.stream_id, side)
            if key not in talk.live or key in talk.over:
                continue
            talk.reached.pop(key, None)
            if side == ref.side:  # the producer itself says so: what it sends afterwards is on purpose
                announced = bool(talk.agreed & bit("send_stream_end_on_client_close_stream"))
                self._done.closes[index] = key
                talk.closing[key] = Closing(key, ref, asked.ref, asked.vbucket, asked.stream_id, announced)
            talk.over.add(key)

    def _stream_end(self, talk: Talk, row: dict[str, Any], ref: Ref) -> None:
        key = stream_key(talk.number, _or(row["vbucket"], 0), _or(row["stream_id"], 0), ref.side)
        closing = talk.closing.pop(key, None)
        if closing is not None:
            self._desk.closing_ended(talk, closing, ref, _or(row["end_reason"]), unknown=0)
        self._desk.ended_in_time(talk, key, ref)
        talk.over.add(key)

    def _added(self, talk: Talk, asked: Asked, row: dict[str, Any], ref: Ref, status: int) -> None:
        """An add stream was answered."""
        if talk.added.get(asked.vbucket) is asked:
            del talk.added[asked.vbucket]
        if status != enums.SUCCESS:
            return
        told = _or(row["stream_opaque"])
        swapped = int.from_bytes(max(told, 0).to_bytes(4, "big"), "little")
        opaque, flags, request = asked.links[-1] if asked.links else (-1, 0, None)
        variant = (
            0 if opaque in (swapped, -1) and opaque == told else 1 if opaque == told else 2 if opaque == swapped else 0
        )
        holder = talk.opaques.get(opaque) if opaque >= 0 else None
        self._desk.additions.add(
            talk.number,
            asked.vbucket,
            0,
            ref,
            {"request": asked.ref, "stream_request": request},
            asked=asked.opaque,
            told=told,
            told_reversed=swapped,
            asked_flags=asked.numbers.get("flags", 0),
            sent_flags=flags,
            found=int(request is not None),
            stream_opaque=opaque,
            matches=int(opaque in (told, swapped)),
            changed=int(bool(variant and talk.variant and variant != talk.variant)),
            taken=int(holder is not None and holder >> 17 & 0xFFFF != asked.vbucket and holder not in talk.over),
            unknown=int(not talk.opened or max(talk.doubt) > 0),
        )
        talk.variant = talk.variant or variant

    # ------------------------------------------------------------------------------------------------- the draft

    def _draft(self, talk: Talk, index: int, row: dict[str, Any], ref: Ref) -> None:
        """The draft has no opens: a request names its stream, and its answers come as pushes."""
        name, side, opaque = row["name"], row["direction"], row["opaque"]
        vbucket = _or(row["vbucket"], 0)
        if not row["response"]:
            talk.opened = talk.opened or ref.ordinal
            self._done.change("opened", index, talk.opened)
            asked = Asked(row["opcode"], ref, row["end_offset"], vbucket, 0, opaque)
            if name == "stream_request":
                self._stream_request(talk, row, asked)
                asked.stream_id = 0
            if len(talk.order) < MAX_WAITING:
                talk.waiting.setdefault((side, vbucket, opaque), deque()).append(asked)
                talk.order[ref.ordinal] = asked
            return
        if name == "stream_end":
            self._stream_end(talk, row, ref)
            return
        if not name.startswith(("stream_ok", "stream_not", "stream_rollback", "failover")):
            return
        waiting = talk.waiting.get((1 - side, vbucket, opaque))
        if waiting:
            asked = waiting.popleft()
            if not waiting:
                del talk.waiting[1 - side, vbucket, opaque]
            talk.order.pop(asked.ref.ordinal, None)
            talk.remember(talk.answered, (1 - side, vbucket, opaque), asked.ref)
            self._desk.answers.add(
                talk.number,
                vbucket,
                0,
                ref,
                {"request": asked.ref},
                opcode=row["opcode"],
                pairing=1,
                draft=1,
                opaque=opaque,
                latency_ns=ref.time_ns - asked.ref.time_ns,
            )
            if name == "stream_ok":
                self._begin(talk, index, asked, ref)
            return
        repeated = talk.answered.get((1 - side, vbucket, opaque))
        self._desk.answers.add(
            talk.number,
            vbucket,
            0,
            ref,
            {"request": repeated},
            opcode=row["opcode"],
            draft=1,
            pairing=2 if repeated is not None else 0,
            opaque=opaque,
            unknown=int(
                not talk.opened or max(talk.doubt) > 0 or self._heard(talk, 1 - side, index) < _or(row["acked_offset"])
            ),
        )
        if name == "stream_ok":
            self._done.unexplained.append(index)
            talk.doubt[side] = ref.ordinal


def _or(number: int | None, otherwise: int = -1) -> int:
    return otherwise if number is None else number


def stream_id_of(text: str | None) -> int | None:
    """Return the stream id that a stream request's value asks for."""
    if not text or '"sid"' not in text:
        return None
    try:
        value = json.loads(text)
        found = value.get("sid") if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        match = _SID.search(text)  # rows keep the first few thousand bytes only
        found = int(match[1]) if match else None
    usable = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= 0xFFFF
    return found if usable else None


def filters(text: str | None) -> bool:
    """Tell whether a stream request's value asks for some collections only."""
    return bool(text) and ('"collections"' in str(text) or '"scope"' in str(text))
