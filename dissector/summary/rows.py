"""Connections that have ended, and streams, as rows of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dissector.link.flow_key import reverse_key
from dissector.spec import enums, registry
from dissector.spec.model import Severity
from dissector.summary.schema import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.spec.model import Dialect
    from dissector.summary.byte_hash import Digests
    from dissector.summary.connections import ConnectionSummary
    from dissector.summary.streams import Streams
    from dissector.tcp.connections import Connection

    Row = dict[str, Any]

MAX_CONNECTIONS = 200_000
_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)  #: the worst first
OPEN, REUSED = "open", "reused"


class ConnectionRows:
    """The rows of connections, as they end."""

    def __init__(self, *, everything: bool = False) -> None:
        self.rows: list[Row] = []
        self.without_frames = 0
        self.left_out = 0  #: because there were too many
        self.gaps_left_out = 0
        self._everything = everything
        self.digests: dict[Connection, Digests] | None = None  #: where to find hashes, if they are wanted
        self._open: dict[bytes, Row] = {}  #: connections that did not end, by their key

    def add(self, connection: Connection, summary: ConnectionSummary | None) -> None:
        """Add a connection that has ended."""
        digests = self.digests.pop(connection) if self.digests is not None else None
        key = min(connection.key, reverse_key(connection.key))
        before = self._open.pop(key, None)
        if before is not None and _handshake(connection):
            before["ended"] = REUSED
        if summary is None:
            self.without_frames += 1
            if not self._everything:
                return
        if len(self.rows) >= MAX_CONNECTIONS:
            self.left_out += 1
            return
        row = connection_row(connection, summary)
        if digests is not None:
            row.update(_hashes(digests))
            self.gaps_left_out += sum(digest.gaps_left_out for digest in digests)
        if row["ended"] == OPEN:
            self._open[key] = row
        self.rows.append(row)

    def sorted(self) -> list[Row]:
        """Return the rows in the order in which dissect numbers connections, then those without frames by time."""
        return sorted(self.rows, key=lambda row: ("number" not in row, row.get("number", 0), row["start_ns"]))


def connection_row(connection: Connection, summary: ConnectionSummary | None) -> Row:
    """Lay a connection out as a row; without frames there is no summary."""
    flow = connection.flow(0)
    detector = connection.detector
    row: Row = {
        "connection": connection.id,
        "client": flow.source,
        "client_port": flow.source_port,
        "server": flow.destination,
        "server_port": flow.destination_port,
        "handshake": _handshake(connection),
        "start": iso_time(connection.start_ns),
        "start_ns": connection.start_ns,
        "duration_ns": connection.last_ns - connection.start_ns,
        "ended": _ended(connection),
    }
    for side, direction, framer in zip(SIDES, connection.directions, connection.framers, strict=True):
        row[f"{side}_frames"] = framer.frames
        row[f"{side}_bytes"] = direction.bytes_delivered
        row[f"{side}_gaps"] = direction.gaps
        row[f"{side}_bytes_lost"] = direction.bytes_lost
        row[f"{side}_bytes_repeated"] = direction.bytes_repeated
        row[f"{side}_bytes_conflicting"] = direction.bytes_conflicting
        row[f"{side}_bytes_skipped"] = None if connection.ignored else framer.bytes_skipped
    if summary is None:
        return row
    return {
        **row,
        **told_by_frames(summary, detector.dialect, detector.spoken),
        "collections": detector.collections,
    }


def told_by_frames(summary: ConnectionSummary, dialect: Dialect, spoken: Dialect | None) -> Row:
    """Return the columns that frames alone tell: those of a dialect, which they have ``spoken``, or show otherwise."""
    producer = summary.producer
    severities = {registry.DEFECT_BY_ID[name].severity for name in summary.defect_ids}
    return {
        "number": summary.number,
        "name": summary.name,
        "producer": None if producer is None else SIDES[producer],
        "consumer": None if producer is None else SIDES[1 - producer],
        "dialect": dialect.value,
        "era": summary.era.text(dialect, spoken),
        "contradictions": summary.era.against(spoken),
        "bucket": summary.bucket,
        "agent": summary.agent,
        "defective_frames": summary.defects,
        "worst_defect": next((severity.value for severity in _SEVERITIES if severity in severities), None),
        "defect_ids": sorted(summary.defect_ids),
    }


def stream_rows(streams: Streams) -> Iterator[Row]:
    """Lay streams out as rows, connection by connection, in the order of their requests."""
    totals = streams.totals
    order = sorted(range(len(streams.streams)), key=lambda number: (streams.streams[number].connection.number, number))
    for number in order:
        stream = streams.streams[number]
        ended, reason = totals.ended(number)
        last_ns = max(stream.answer_ns or stream.start_ns, stream.start_ns)
        if totals.messages[number]:
            last_ns = max(last_ns, int(totals.last_ns[number]))
        yield {
            "number": stream.connection.number,
            "connection": stream.connection.id,
            "name": stream.connection.name,
            "vbucket": stream.vbucket,
            "stream_id": stream.stream_id,
            "opaque": stream.opaque,
            "producer": SIDES[stream.producer],
            "request_captured": stream.request_frame is not None,
            "request_frame": stream.request_frame,
            "status": stream.status,
            "status_code": stream.status_code,
            "rollback_seqno": stream.rollback_seqno,
            **stream.requested,
            "first_seqno": _seqno(totals.first_seqno[number]),
            "last_seqno": _seqno(totals.last_seqno[number]),
            "snapshots": int(totals.snapshots[number]),
            "items": int(totals.items[number]),
            "bytes": int(totals.bytes[number]),
            "ended": _end_of(streams, number, ended=ended, reason=reason),
            "end_reason": reason,
            "start": iso_time(stream.start_ns),
            "start_ns": stream.start_ns,
            "duration_ns": last_ns - stream.start_ns,
        }


def _end_of(streams: Streams, number: int, *, ended: bool, reason: int | None) -> str:
    stream = streams.streams[number]
    if ended:
        names = enums.DRAFT_END_REASONS if stream.draft else enums.END_REASONS
        known = names.member(reason) if reason is not None else None
        return known.name if known is not None else "unknown reason" if reason is None else f"reason {reason}"
    messages = bool(streams.totals.messages[number])
    if stream.request_frame is not None and stream.status is None and not messages:
        return "unanswered"
    if stream.status is not None and not stream.started:
        return "refused"
    if stream.closed:
        return "close_stream"
    return "replaced" if stream.replaced else OPEN


def _seqno(number: np.int64) -> int | None:
    return int(number) if number >= 0 else None


def iso_time(time_ns: int) -> str:
    """Write a time as ISO 8601 in UTC, with all of its nanoseconds."""
    return f"{np.datetime64(time_ns, 'ns')}Z"


def _handshake(connection: Connection) -> bool:
    return any(direction.isn is not None for direction in connection.directions)


def _ended(connection: Connection) -> str:
    finished = [direction.finished for direction in connection.directions]
    if all(finished):
        return "closed"
    if connection.reset:
        return "reset"
    return "half-closed" if any(finished) else OPEN


def _hashes(digests: Digests) -> Row:
    row: Row = {}
    for side, digest in zip(SIDES, digests, strict=True):
        row[f"{side}_sha256"] = digest.sha256.hexdigest()
        row[f"{side}_hashed_bytes"] = digest.length
        row[f"{side}_gap_list"] = [{"offset": gap.offset, "length": gap.length} for gap in digest.gaps]
    return row
