"""The vbucket streams of a run: a record per stream request, and sums over the messages that belong to it.

A stream is what a successful answer to a stream request starts, for one vbucket and stream id of one connection. The
producer's messages belong to the latest stream whose answer precedes them in the producer's own direction, where the
order is exact. Messages that no captured answer precedes belong to a stream whose request was not captured.

Requests and answers are read one by one; messages are only ever added up, a batch at a time.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dissector.frames.batch import DRAFT, NOTHING, FrameBatch, distinct
from dissector.frames.message_kinds import (
    DATA,
    END,
    FIRST_OF_LIFECYCLE,
    FIRST_OF_STREAM,
    KIND_OF,
    LAST_OF_STREAM,
    MARKER,
)
from dissector.spec import enums, registry
from dissector.spec.model import Dialect
from dissector.summary.stream_totals import Tallies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.frames.batch import Longs
    from dissector.summary.connections import ConnectionSummary

MAX_STREAMS = 200_000
#: Answers without a request, and closes without an answer, are remembered up to here, per connection.
_MAX_PENDING = 4096

_LEFT_OUT = -2  #: in place of a record: the limit was reached

_EVENT_COLUMNS = (
    *("frame", "time_ns", "direction", "response", "name", "dialect", "vbucket", "status", "opaque", "stream_id"),
    *(
        "end_offset",
        "acked_offset",
        "text",
        "start_seqno",
        "end_seqno",
        "stream_flags",
        "vbucket_uuid",
        "rollback_seqno",
    ),
)
_REQUESTED = ("start_seqno", "end_seqno", "stream_flags", "vbucket_uuid")
_SID = re.compile(r'"sid"\s*:\s*(\d{1,5})\b')
#: What starts a stream in the draft, where answers have no status.
_DRAFT_OK = "stream_ok"


@dataclass(slots=True, eq=False)
class StreamSummary:
    """A stream request, or a stream whose request was not captured."""

    member: ConnectionSummary
    producer: int  #: direction of its messages
    vbucket: int | None
    stream_id: int | None
    opaque: int
    start_ns: int
    draft: bool = False
    request_frame: int | None = None
    requested: dict[str, int | None] = field(default_factory=dict)
    status: str | None = None
    status_code: int | None = None
    rollback_seqno: int | None = None
    started: bool = False
    closed: bool = False
    replaced: bool = False
    answer_ns: int | None = None
    answer_acked: int = NOTHING  #: bytes of the consumer's direction that had arrived when the answer was sent


@dataclass(slots=True)
class _ConnectionStreams:
    """What is remembered of a live connection."""

    current: dict[int, int] = field(default_factory=dict)  #: key to number of the latest stream
    #: (direction of the requests, opaque) to the streams that wait for an answer, oldest first
    pending: defaultdict[tuple[int, int], deque[int]] = field(default_factory=lambda: defaultdict(deque))
    orphans: dict[tuple[int, int], int] = field(default_factory=dict)  #: (direction, opaque) to streams without vbucket
    unasked: dict[tuple[int, int], int] = field(default_factory=dict)  #: the same to all that were answered, not asked
    closing: dict[tuple[int, int], int] = field(default_factory=dict)  #: (direction, opaque) to key


class _Start(NamedTuple):
    """A stream that begins at a row: messages of its key behind that row are its own."""

    code: int
    row: float
    key: int
    stream: int


class _Close(NamedTuple):
    """A close stream that was answered with success."""

    code: int
    row: float
    key: int  #: without direction


def _key(vbucket: int, stream_id: int | None, direction: int) -> int:
    return vbucket << 17 | (stream_id or 0) << 1 | direction


_KEY_BITS = 33


class Streams:
    """All streams of a run."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self.limit = limit
        self.streams: list[StreamSummary] = []
        self.tallies = Tallies()
        self.limit_reached = False

    def fold(self, view: FrameBatch, members: list[ConnectionSummary]) -> None:
        """Take a batch and its connections."""
        draft = view.numbering == DRAFT
        subtype = np.maximum(view.numbers("subtype"), 0) if draft.any() else np.zeros(view.size, np.int64)
        kind = KIND_OF[view.numbering, view.response.astype(np.int64), view.opcode, subtype]
        changes = self._events(view, members, np.flatnonzero(kind >= FIRST_OF_LIFECYCLE))
        self._messages(view, members, kind, changes)

    def _events(self, view: FrameBatch, members: list[ConnectionSummary], which: Longs) -> list[_Start | _Close]:
        """Read requests, answers and closes; return the streams that begin or are closed."""
        changes: list[_Start | _Close] = []
        codes = view.code[which].tolist()
        for index, code, row in zip(which.tolist(), codes, view.rows(which, _EVENT_COLUMNS), strict=True):
            memory = _memory(members[code])
            if row["name"] == "close_stream":
                closed = _closed(memory, row)
                if closed is not None:
                    changes.append(_Close(code, index, closed))
            elif not row["response"]:
                self._request(members[code], memory, row)
            else:
                begun = self._answer(members[code], memory, row)
                if begun is not None:
                    changes.append(_Start(code, index, *begun))
        return changes

    def _add(self, stream: StreamSummary) -> int:
        if len(self.streams) >= self.limit:
            self.limit_reached = True
            return _LEFT_OUT
        self.streams.append(stream)
        return len(self.streams) - 1

    def _request(self, member: ConnectionSummary, memory: _ConnectionStreams, row: dict[str, Any]) -> None:
        direction, opaque = row["direction"], row["opaque"]
        unasked = memory.unasked.get((1 - direction, opaque))
        if unasked is not None and self.streams[unasked].answer_acked >= row["end_offset"]:
            # Its receiver had it when the answer was sent: it is the capture that has them the wrong way round.
            stream = self.streams[unasked]
            stream.start_ns = min(stream.start_ns, row["time_ns"])
            del memory.unasked[1 - direction, opaque]
        else:
            stream = StreamSummary(member, 1 - direction, None, None, opaque, row["time_ns"])
            number = self._add(stream)
            if number == _LEFT_OUT:
                number -= 1 + _key(row["vbucket"], stream_id_of(row["text"]), 1 - direction)
            if number >= 0 or len(memory.pending) < _MAX_PENDING:
                memory.pending[direction, opaque].append(number)
        stream.vbucket, stream.stream_id = row["vbucket"], stream_id_of(row["text"])
        stream.request_frame = row["frame"]
        stream.draft = row["dialect"] == Dialect.DRAFT.value
        stream.requested = {name: row[name] for name in _REQUESTED}

    def _answer(
        self, member: ConnectionSummary, memory: _ConnectionStreams, row: dict[str, Any]
    ) -> tuple[int, int] | None:
        """Take an answer; return key and number of the stream, if it begins one of a known vbucket."""
        direction, opaque = row["direction"], row["opaque"]
        draft = row["dialect"] == Dialect.DRAFT.value
        success = row["name"] == _DRAFT_OK if draft else row["status"] == enums.SUCCESS
        waiting = memory.pending.get((1 - direction, opaque))
        if waiting:
            number = waiting.popleft()
            if not waiting:
                del memory.pending[1 - direction, opaque]
            if number < 0:
                return (_LEFT_OUT - 1 - number, _LEFT_OUT) if success else None
        else:
            number = self._add(
                StreamSummary(member, direction, row["vbucket"] if draft else None, None, opaque, row["time_ns"])
            )
            if number < 0:
                return None
            if len(memory.unasked) < _MAX_PENDING:
                memory.unasked[direction, opaque] = number
                if success and not draft:
                    memory.orphans[direction, opaque] = number
        stream = self.streams[number]
        stream.draft, stream.started, stream.answer_ns = draft, success, row["time_ns"]
        stream.answer_acked = NOTHING if row["acked_offset"] is None else row["acked_offset"]
        stream.status_code = None if draft else row["status"]
        stream.status = row["name"] if draft else status_name(row["status"])
        stream.rollback_seqno = row["rollback_seqno"]
        if not success or stream.vbucket is None:
            return None
        return _key(stream.vbucket, stream.stream_id, direction), number

    def _messages(
        self, view: FrameBatch, members: list[ConnectionSummary], kind: NDArray[np.int8], changes: list[_Start | _Close]
    ) -> None:
        """Find each message's stream, and add the messages up."""
        rows = np.flatnonzero((kind >= FIRST_OF_STREAM) & (kind <= LAST_OF_STREAM))
        vbucket, direction = view.numbers("vbucket")[rows], view.direction[rows]
        known = vbucket >= 0
        if not known.all():
            rows, vbucket, direction = rows[known], vbucket[known], direction[known]
        stream_id = np.maximum(view.numbers("stream_id")[rows], 0)
        key = view.code[rows] << _KEY_BITS | vbucket << 17 | stream_id << 1 | direction
        starts = [change for change in changes if isinstance(change, _Start)]
        starts += self._adopted(view, members, rows, key)
        streams = self._streams_of(view, members, rows, key, starts)
        closes = [change for change in changes if isinstance(change, _Close)]
        self._change(members, sorted([*starts, *closes], key=_row))
        self.tallies.grow(len(self.streams))
        there = streams >= 0
        if not there.all():
            rows, streams = rows[there], streams[there]
        self._tally(view, kind[rows], rows, streams)

    def _adopted(self, view: FrameBatch, members: list[ConnectionSummary], rows: Longs, key: Longs) -> list[_Start]:
        """Find the first messages of streams whose answer has come and whose request has not: opaques tell."""
        starts: list[_Start] = []
        orphaned = [code for code, member in enumerate(members) if member.memory is not None and member.memory.orphans]
        if not orphaned:
            return starts
        wanted = [
            code << _KEY_BITS | direction << 32 | opaque
            for code in orphaned
            for direction, opaque in _memory(members[code]).orphans
        ]
        offered = view.code[rows] << _KEY_BITS | view.direction[rows] << 32 | view.numbers("opaque")[rows]
        places = np.flatnonzero(np.isin(offered, wanted))
        _, first = np.unique(offered[places], return_index=True)
        for place in places[first].tolist():
            code, packed = int(view.code[rows[place]]), int(key[place]) & ((1 << _KEY_BITS) - 1)
            offer = int(offered[place])
            number = _memory(members[code]).orphans.pop((offer >> 32 & 1, offer & 0xFFFFFFFF))
            stream = self.streams[number]
            if stream.vbucket is None:
                stream.vbucket, stream.stream_id = packed >> 17, (packed >> 1 & 0xFFFF) or None
            starts.append(_Start(code, int(rows[place]) - 0.5, packed, number))
        return starts

    def _streams_of(
        self, view: FrameBatch, members: list[ConnectionSummary], rows: Longs, key: Longs, starts: list[_Start]
    ) -> Longs:
        """Return each message's stream."""
        keys, place = distinct(key)
        before = np.array([_current(members, packed) for packed in keys], np.int64)
        streams = before[place] if len(keys) else np.empty(0, np.int64)
        if starts:
            streams = _behind(rows, key, streams, starts)
        missing = np.flatnonzero(streams == NOTHING)
        if len(missing):
            opaque, time_ns = view.numbers("opaque"), view.numbers("time_ns")
            draft = view.numbering == DRAFT
            lost, which = distinct(key[missing])
            first = np.full(len(lost), len(missing))
            np.minimum.at(first, which, np.arange(len(missing)))
            made = []
            for packed, at in zip(lost, rows[missing[first]].tolist(), strict=True):
                member, short = members[packed >> _KEY_BITS], packed & ((1 << _KEY_BITS) - 1)
                sid = (short >> 1 & 0xFFFF) or None
                stream = StreamSummary(
                    member, short & 1, short >> 17, sid, int(opaque[at]), int(time_ns[at]), bool(draft[at])
                )
                made.append(self._add(stream))
                if made[-1] >= 0:
                    starts.append(_Start(packed >> _KEY_BITS, at - 0.5, short, made[-1]))
            streams[missing] = np.array(made, np.int64)[which]
        return streams

    def _change(self, members: list[ConnectionSummary], changes: list[_Start | _Close]) -> None:
        """Make streams the latest of their keys, and close some."""
        for change in changes:
            current = _memory(members[change.code]).current
            if isinstance(change, _Close):
                for number in (current.get(change.key, NOTHING), current.get(change.key | 1, NOTHING)):
                    if number >= 0:
                        self.streams[number].closed = True
                continue
            old = current.get(change.key, NOTHING)
            if old >= 0:
                self.streams[old].replaced = True
            if change.stream >= 0 or old != NOTHING:  # what is left out must only keep its messages from the old one
                current[change.key] = change.stream

    def _tally(self, view: FrameBatch, kind: NDArray[np.int8], rows: Longs, streams: Longs) -> None:
        tallies, time_ns = self.tallies, view.numbers("time_ns")[rows]
        size = (view.numbers("end_offset") - view.numbers("start_offset"))[rows]
        tallies.add(streams, size, time_ns)
        markers = kind == MARKER
        np.add.at(tallies.snapshots, streams[markers], 1)
        items = kind == DATA
        tallies.add_items(streams[items], view.numbers("by_seqno")[rows[items]])
        ends = np.flatnonzero(kind == END)
        if len(ends):
            draft = view.numbering[rows[ends]] == DRAFT
            reason = np.where(draft, view.numbers("subtype")[rows[ends]], view.numbers("end_reason")[rows[ends]])
            tallies.end(streams[ends], reason)


def _row(change: _Start | _Close) -> float:
    return change.row


def _memory(member: ConnectionSummary) -> _ConnectionStreams:
    memory: _ConnectionStreams | None = member.memory
    if memory is None:
        memory = member.memory = _ConnectionStreams()
    return memory


def _closed(memory: _ConnectionStreams, row: dict[str, Any]) -> int | None:
    """Take a close stream, which goes to either side, or the answer to one; return the key of what is closed."""
    direction, opaque = row["direction"], row["opaque"]
    if not row["response"]:
        if len(memory.closing) < _MAX_PENDING:
            memory.closing[direction, opaque] = _key(row["vbucket"], row["stream_id"], 0)
        return None
    key = memory.closing.pop((1 - direction, opaque), None)
    return key if row["status"] == enums.SUCCESS else None


def _current(members: list[ConnectionSummary], packed: int) -> int:
    memory: _ConnectionStreams | None = members[packed >> _KEY_BITS].memory
    return NOTHING if memory is None else memory.current.get(packed & ((1 << _KEY_BITS) - 1), NOTHING)


def _behind(rows: Longs, key: Longs, streams: Longs, starts: list[_Start]) -> Longs:
    """Let the streams that begin in this batch take over the messages behind their beginnings."""
    count = len(rows)
    all_keys = np.r_[key, np.array([start.code << _KEY_BITS | start.key for start in starts], np.int64)]
    all_rows = np.r_[rows.astype(np.float64), np.array([start.row for start in starts])]
    numbers = np.array([start.stream for start in starts], np.int64)
    order = np.lexsort((all_rows, all_keys))
    # Sorted by key and row: the last beginning at or before each entry, if it is of the same key, is its stream's.
    last = np.maximum.accumulate(np.where(order >= count, np.arange(len(order)), -1))
    sorted_keys = all_keys[order]
    same = (last >= 0) & (sorted_keys[last] == sorted_keys) & (order < count)
    result = streams.copy()
    result[order[same]] = numbers[order[last[same]] - count]
    return result


def stream_id_of(text: str | None) -> int | None:
    """Return the stream id that a request asks for: a member of its JSON value."""
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


def status_name(status: int | None) -> str | None:
    """Return a status's name, or its number."""
    return None if status is None else registry.status_name(status) or f"0x{status:04x}"
