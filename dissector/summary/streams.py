"""The vbucket streams of a run: a record per stream request, and sums over the messages that belong to it.

A stream is what a successful answer to a stream request starts, for one vbucket and stream id of one connection. The
producer's messages belong to the latest stream whose answer precedes them in the producer's own direction, where the
order is exact. Messages that no captured answer precedes belong to a stream whose request was not captured.

Requests and answers are read one by one; messages are only ever added up, a batch at a time.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dissector.frames.batch import DRAFT, NOTHING, FrameBatch, distinct
from dissector.frames.message_kinds import (
    DATA,
    END,
    FIRST_OF_STREAM,
    IS_LIFECYCLE,
    KIND_OF,
    LAST_OF_STREAM,
    MARKER,
)
from dissector.frames.schema import NO_END
from dissector.frames.stream_key import (
    connection_of,
    side_of,
    stream_id_of,
    stream_key,
    vbucket_of,
    within_connection,
)
from dissector.spec import enums
from dissector.spec.model import Dialect
from dissector.summary.stream_summary import (
    MAX_PENDING,
    ConnectionStreams,
    PendingStream,
    StreamSummary,
    requested_stream_id,
    status_name,
)
from dissector.summary.stream_totals import StreamTotals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs
    from dissector.frames.stream_key import Numbers
    from dissector.summary.connections import ConnectionSummary

MAX_STREAMS = 200_000
_LEFT_OUT = -2  #: in place of a stream's number: the limit was reached
_OPAQUE_BITS = 32

_REQUESTED = ("start_seqno", "end_seqno", "stream_flags", "vbucket_uuid")
_EVENT_COLUMNS = (
    *("frame", "time_ns", "direction", "response", "name", "dialect", "vbucket", "status", "opaque", "stream_id"),
    *("end_offset", "acked_offset", "text", *_REQUESTED, "rollback_seqno"),
)
#: What starts a stream in the draft, where answers have no status.
_DRAFT_OK = "stream_ok"


class _Start(NamedTuple):
    """A stream that begins at a row: messages of its key after that row are its own."""

    code: int
    row: float
    key: int
    stream: int


class _Close(NamedTuple):
    """A close stream that was answered with success."""

    code: int
    row: float
    key: int  #: without direction


class Streams:
    """All streams of a run."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self.limit = limit
        self.streams: list[StreamSummary] = []
        self.totals = StreamTotals()
        self.limit_reached = False

    def fold(self, frames: FrameBatch, connections: list[ConnectionSummary]) -> None:
        """Take a batch and its connections."""
        draft = frames.numbering == DRAFT
        subtype = np.maximum(frames.numbers("subtype"), 0) if draft.any() else np.zeros(frames.size, np.int64)
        place = frames.numbering, frames.response.astype(np.int64), frames.opcode, subtype
        kind = KIND_OF[place]
        changes = self._events(frames, connections, np.flatnonzero(IS_LIFECYCLE[place]))
        self._messages(frames, connections, kind, changes)

    def _events(self, frames: FrameBatch, connections: list[ConnectionSummary], which: Longs) -> list[_Start | _Close]:
        """Read requests, answers and closes; return the streams that begin or are closed."""
        changes: list[_Start | _Close] = []
        codes = frames.code[which].tolist()
        for index, code, row in zip(which.tolist(), codes, frames.rows(which, _EVENT_COLUMNS), strict=True):
            known = _streams_of(connections[code])
            if row["name"] == "close_stream":
                closed = _closed(known, row)
                if closed is not None:
                    changes.append(_Close(code, index, closed))
            elif not row["response"]:
                self._request(connections[code], known, row)
            else:
                begun = self._answer(connections[code], known, row)
                if begun is not None:
                    changes.append(_Start(code, index, *begun))
        return changes

    def _add(self, stream: StreamSummary) -> int:
        """Add a stream; return its number, or that it is left out."""
        if len(self.streams) >= self.limit:
            self.limit_reached = True
            return _LEFT_OUT
        self.streams.append(stream)
        return len(self.streams) - 1

    def _request(self, connection: ConnectionSummary, known: ConnectionStreams, row: dict[str, Any]) -> None:
        """Take a stream request."""
        direction, opaque = row["direction"], row["opaque"]
        vbucket, stream_id = row["vbucket"], requested_stream_id(row["text"])
        answered = known.unrequested.get((1 - direction, opaque))
        if answered is not None and self.streams[answered].answer_acked >= row["end_offset"]:
            # The answer's sender had received the request: only the capture has the two the wrong way round.
            stream = self.streams[answered]
            stream.start_ns = min(stream.start_ns, row["time_ns"])
            del known.unrequested[1 - direction, opaque]
        else:
            stream = StreamSummary(connection, 1 - direction, None, None, opaque, row["time_ns"])
            number = self._add(stream)
            if number >= 0 or len(known.pending) < MAX_PENDING:
                known.pending.add((direction, opaque), PendingStream(number, vbucket, stream_id))
        stream.vbucket, stream.stream_id = vbucket, stream_id
        stream.request_frame = row["frame"]
        stream.draft = row["dialect"] == Dialect.DRAFT.value
        stream.requested = {name: row[name] for name in _REQUESTED}
        if row["end_seqno"] is not None:
            stream.requested["open_ended"] = row["end_seqno"] == NO_END

    def _answer(
        self, connection: ConnectionSummary, known: ConnectionStreams, row: dict[str, Any]
    ) -> tuple[int, int] | None:
        """Take an answer; return key and number of the stream, if it begins one of a known vbucket."""
        direction, opaque = row["direction"], row["opaque"]
        draft = row["dialect"] == Dialect.DRAFT.value
        success = row["name"] == _DRAFT_OK if draft else row["status"] == enums.SUCCESS
        request = known.pending.take((1 - direction, opaque))
        if request is not None:
            number = request.number
            if number == _LEFT_OUT:
                key = stream_key(0, request.vbucket, request.stream_id or 0, direction)
                return (key, _LEFT_OUT) if success else None
        else:
            number = self._add(
                StreamSummary(connection, direction, row["vbucket"] if draft else None, None, opaque, row["time_ns"])
            )
            if number == _LEFT_OUT:
                return None
            if len(known.unrequested) < MAX_PENDING:
                known.unrequested[direction, opaque] = number
                if success and not draft:
                    known.without_vbucket[direction, opaque] = number
        stream = self.streams[number]
        stream.draft, stream.started, stream.answer_ns = draft, success, row["time_ns"]
        stream.answer_acked = NOTHING if row["acked_offset"] is None else row["acked_offset"]
        stream.status_code = None if draft else row["status"]
        stream.status = row["name"] if draft else status_name(row["status"])
        stream.rollback_seqno = row["rollback_seqno"]
        if not success or stream.vbucket is None:
            return None
        return stream_key(0, stream.vbucket, stream.stream_id or 0, direction), number

    def _messages(
        self,
        frames: FrameBatch,
        connections: list[ConnectionSummary],
        kind: NDArray[np.int8],
        changes: list[_Start | _Close],
    ) -> None:
        """Find each message's stream, and add the messages up."""
        rows = np.flatnonzero((kind >= FIRST_OF_STREAM) & (kind <= LAST_OF_STREAM))
        vbucket, direction = frames.numbers("vbucket")[rows], frames.direction[rows]
        known = vbucket >= 0
        if not known.all():
            rows, vbucket, direction = rows[known], vbucket[known], direction[known]
        stream_id = np.maximum(frames.numbers("stream_id")[rows], 0)
        key = stream_key(frames.code[rows], vbucket, stream_id, direction)
        starts = [change for change in changes if isinstance(change, _Start)]
        starts += self._found_by_opaque(frames, connections, rows, key)
        streams = self._assigned(frames, connections, rows, key, starts)
        closes = [change for change in changes if isinstance(change, _Close)]
        self._change(connections, sorted([*starts, *closes], key=attrgetter("row")))
        self.totals.grow(len(self.streams))
        there = streams >= 0
        if not there.all():
            rows, streams = rows[there], streams[there]
        self._add_totals(frames, kind[rows], rows, streams)

    def _found_by_opaque(
        self, frames: FrameBatch, connections: list[ConnectionSummary], rows: Longs, key: Longs
    ) -> list[_Start]:
        """Find the first messages of streams that were answered and not requested: they have the answer's opaque."""
        starts: list[_Start] = []
        wanted = [
            _opaque_key(code, direction, opaque)
            for code, connection in enumerate(connections)
            if connection.streams is not None
            for direction, opaque in connection.streams.without_vbucket
        ]
        if not wanted:
            return starts
        opaques = frames.numbers("opaque")
        candidates = _opaque_key(frames.code[rows], frames.direction[rows], opaques[rows])
        places = np.flatnonzero(np.isin(candidates, wanted))
        _, first = np.unique(candidates[places], return_index=True)
        for place in places[first].tolist():
            row = int(rows[place])
            code, short = int(frames.code[row]), within_connection(int(key[place]))
            number = _streams_of(connections[code]).without_vbucket.pop((side_of(short), int(opaques[row])))
            stream = self.streams[number]
            if stream.vbucket is None:
                stream.vbucket, stream.stream_id = vbucket_of(short), stream_id_of(short) or None
            starts.append(_Start(code, row - 0.5, short, number))
        return starts

    def _assigned(
        self, frames: FrameBatch, connections: list[ConnectionSummary], rows: Longs, key: Longs, starts: list[_Start]
    ) -> Longs:
        """Return each message's stream; a stream without a request is added where no other fits, and to ``starts``."""
        keys, place = distinct(key)
        before = np.array([_current(connections, each) for each in keys], np.int64)
        streams = before[place] if len(keys) else np.empty(0, np.int64)
        if starts:
            streams = _after_starts(rows, key, streams, starts)
        missing = np.flatnonzero(streams == NOTHING)
        if len(missing):
            opaque, time_ns = frames.numbers("opaque"), frames.numbers("time_ns")
            draft = frames.numbering == DRAFT
            lost, which = distinct(key[missing])
            first = np.full(len(lost), len(missing))
            np.minimum.at(first, which, np.arange(len(missing)))
            added = []
            for each, at in zip(lost, rows[missing[first]].tolist(), strict=True):
                connection, short = connections[connection_of(each)], within_connection(each)
                vbucket, stream_id = vbucket_of(short), stream_id_of(short) or None
                stream = StreamSummary(
                    connection, side_of(short), vbucket, stream_id, int(opaque[at]), int(time_ns[at]), bool(draft[at])
                )
                added.append(self._add(stream))
                if added[-1] >= 0:
                    starts.append(_Start(connection_of(each), at - 0.5, short, added[-1]))
            streams[missing] = np.array(added, np.int64)[which]
        return streams

    def _change(self, connections: list[ConnectionSummary], changes: list[_Start | _Close]) -> None:
        """Make streams the latest of their keys, and close some."""
        for change in changes:
            current = _streams_of(connections[change.code]).current
            if isinstance(change, _Close):
                for number in (current.get(change.key, NOTHING), current.get(change.key | 1, NOTHING)):
                    if number >= 0:
                        self.streams[number].closed = True
                continue
            old = current.get(change.key, NOTHING)
            if old >= 0:
                self.streams[old].replaced = True
            # A stream that is left out only has to keep its messages from being the old one's.
            if change.stream >= 0 or old != NOTHING:
                current[change.key] = change.stream

    def _add_totals(self, frames: FrameBatch, kind: NDArray[np.int8], rows: Longs, streams: Longs) -> None:
        totals, time_ns = self.totals, frames.numbers("time_ns")[rows]
        size = (frames.numbers("end_offset") - frames.numbers("start_offset"))[rows]
        totals.add(streams, size, time_ns)
        markers = kind == MARKER
        np.add.at(totals.snapshots, streams[markers], 1)
        items = kind == DATA
        totals.add_items(streams[items], frames.numbers("by_seqno")[rows[items]])
        ends = np.flatnonzero(kind == END)
        if len(ends):
            draft = frames.numbering[rows[ends]] == DRAFT
            reason = np.where(draft, frames.numbers("subtype")[rows[ends]], frames.numbers("end_reason")[rows[ends]])
            totals.end(streams[ends], reason)


def _streams_of(connection: ConnectionSummary) -> ConnectionStreams:
    """Return what is remembered of a connection's streams."""
    if connection.streams is None:
        connection.streams = ConnectionStreams()
    return connection.streams


def _closed(known: ConnectionStreams, row: dict[str, Any]) -> int | None:
    """Take a close stream, which goes to either side, or the answer to one; return the key of what is closed."""
    direction, opaque = row["direction"], row["opaque"]
    if not row["response"]:
        known.closing.replace((direction, opaque), stream_key(0, row["vbucket"], row["stream_id"] or 0, 0))
        return None
    key = known.closing.take((1 - direction, opaque))
    return key if row["status"] == enums.SUCCESS else None


def _opaque_key(code: Numbers, direction: Numbers, opaque: Numbers) -> Numbers:
    """Return one number for an opaque in one direction of a connection."""
    return code << _OPAQUE_BITS + 1 | direction << _OPAQUE_BITS | opaque


def _current(connections: list[ConnectionSummary], key: int) -> int:
    """Return the latest stream of a key before the batch."""
    known = connections[connection_of(key)].streams
    return NOTHING if known is None else known.current.get(within_connection(key), NOTHING)


def _after_starts(rows: Longs, key: Longs, streams: Longs, starts: list[_Start]) -> Longs:
    """Assign the messages after the starts of this batch to the streams that start there."""
    count = len(rows)
    all_keys = np.r_[key, np.array([stream_key(start.code, 0, 0, 0) | start.key for start in starts], np.int64)]
    all_rows = np.r_[rows.astype(np.float64), np.array([start.row for start in starts])]
    numbers = np.array([start.stream for start in starts], np.int64)
    order = np.lexsort((all_rows, all_keys))
    # Sorted by key and row: the last start at or before each entry, if it has the same key, is that of its stream.
    last = np.maximum.accumulate(np.where(order >= count, np.arange(len(order)), -1))
    sorted_keys = all_keys[order]
    same = (last >= 0) & (sorted_keys[last] == sorted_keys) & (order < count)
    result = streams.copy()
    result[order[same]] = numbers[order[last[same]] - count]
    return result
