"""Statistics in one pass over the frames: traffic, connections, streams, and what the context knows of waiting.

Knows batches and the folds over them; must not know formats nor terminals.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analysis.check.selection import Selection
from analysis.context import COLUMNS as CONTEXT_COLUMNS
from analysis.context import Context
from analysis.stats import traffic
from analysis.stats.statistics import ConnectionStatistics, LossStatistics, Server, Statistics
from analysis.stats.streams import stream_statistics
from analysis.stats.traffic import Traffic
from analysis.stats.waits import MOST_CONNECTIONS, Waits
from dissector.capture.chunk_sizes import RULE_CHUNK_BYTES
from dissector.display.table import address
from dissector.frames.batch import FrameBatch
from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.frames.sources import are_rows, open_frames
from dissector.summary.connection_ends import ConnectionEnds
from dissector.summary.connections import ConnectionSummaries
from dissector.summary.rows import ConnectionRows, stream_rows
from dissector.summary.schema import SIDES
from dissector.summary.stored_connections import StoredConnections
from dissector.summary.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dissector.capture import Input
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions, ReadReport
    from dissector.tcp.connections import Connection

    Row = dict[str, Any]

#: Columns that the summaries of connections and streams read, besides those of the context.
_SUMMARY_COLUMNS = frozenset(("src", "sport", "dst", "dport", "key"))
COLUMNS = CONTEXT_COLUMNS | traffic.COLUMNS | _SUMMARY_COLUMNS


class Collector:
    """Gathers statistics from batches of frames."""

    def __init__(self, *, packets: bool = True, connection: str | None = None) -> None:
        """Prepare; ``packets``: the frames come from captures, so connections end.

        ``connection``: only this one, by number or id.
        """
        self._numbering = ConnectionNumbers()
        self._selection = Selection(connection=connection)
        self._traffic, self._waits, self._context, self._streams = Traffic(), Waits(), Context(), Streams()
        self._rows = ConnectionRows()
        self._summaries = ConnectionSummaries(self._rows.add)
        self._ends = ConnectionEnds()
        self._stored = None if packets else StoredConnections()

    def ended(self, connection: Connection) -> None:
        """Take note that a connection has ended."""
        self._summaries.end(connection)
        self._ends.end(connection)

    def fold(self, batch: pa.RecordBatch) -> None:
        """Add a batch of frames."""
        frames = FrameBatch(batch)
        if frames.size:
            self._ends.see(int(frames.numbers("time_ns").max()))
        frames = self._chosen(frames)
        if frames.size:
            self._traffic.fold(frames, self._numbering.indexes(frames.ids)[frames.code])
            self._waits.take(self._context.fold(frames.batch))
            summaries = self._summaries.fold(frames) if self._stored is None else self._stored.fold(frames)
            self._streams.fold(frames, summaries)
        if self._stored is None:
            self._summaries.release_ended()

    def _chosen(self, frames: FrameBatch) -> FrameBatch:
        self._numbering.take(frames.ids, frames.code, frames.batch)
        place = self._numbering.indexes(frames.ids)
        if self._selection.connection is None:
            return frames
        wanted = place[frames.code] == self._selection.place(self._numbering.names)
        return frames if wanted.all() else FrameBatch(frames.batch.filter(pa.array(wanted)))

    def finish(self, captures: Iterable[str], report: ReadReport) -> Statistics:
        """Return the statistics of all frames; raise UsageError if there was no such connection."""
        self._selection.confirm(self._numbering.names)
        self._waits.take(self._context.finish())
        self._prolong_stalls()
        rows = self._rows.sorted() if self._stored is None else self._stored.rows()
        connections = tuple(self._connection(row) for row in rows)
        return Statistics(
            captures=tuple(captures),
            time=self._traffic.time,
            messages=int(self._traffic.messages.sum()),
            bytes=int(self._traffic.bytes.sum()),
            busiest=self._traffic.busiest(),
            servers=_servers(connections),
            opcodes=self._traffic.opcodes(),
            connections=connections,
            requests=self._waits.requests(),
            acks=self._waits.acks(),
            stalls=self._waits.stalls(),
            streams=stream_statistics(stream_rows(self._streams), self._numbering.numbers),
            losses=LossStatistics(
                sum(each.bytes_lost for each in connections),
                sum(each.bytes_skipped for each in connections),
                sum(_of_both(row, "bytes_repeated") for row in rows),
                tuple(report.losses()),
            ),
            seen_instead=None if self._context.has_upr else report.seen_instead(int(self._traffic.messages.sum())),
            notes=tuple(self._notes(len(rows))),
        )

    def connection_rows(self) -> list[Row]:
        """Return all connections as listings have them, once they have ended."""
        return self._rows.sorted() if self._stored is None else self._stored.rows()

    def stream_rows(self) -> list[Row]:
        """Return all streams as listings have them."""
        return list(stream_rows(self._streams))

    def _prolong_stalls(self) -> None:
        """Let stalls that nothing ended last until their connection ended, not only until its last frame."""
        if not self._waits.unended:
            return
        ids = {number - 1: name for name, number in self._context.connections.numbers.items()}
        for place in self._waits.unended:
            name = ids[place]
            latest_ns = int(self._traffic.latest_ns[self._numbering.numbers[name] - 1])
            self._waits.prolong(place, max(self._ends.end_ns(name) - latest_ns, 0))

    def _connection(self, row: Row) -> ConnectionStatistics:
        name = row["connection"]
        place = self._numbering.numbers[name] - 1
        waiting = self._context.connections.numbers[name] - 1
        return ConnectionStatistics(
            number=place + 1,
            id=name,
            client=address("client")(row),
            server=address("server")(row),
            name=row["name"],
            producer=row["producer"],
            dialect=row["dialect"],
            era=row["era"],
            ended=row.get("ended"),
            messages=int(self._traffic.messages[place]),
            bytes=int(self._traffic.bytes[place]),
            bytes_lost=_of_both(row, "bytes_lost"),
            bytes_skipped=_of_both(row, "bytes_skipped"),
            acks=self._waits.acks(waiting),
            stalls=self._waits.stalls(waiting),
            liveness=self._waits.liveness(waiting, int(self._traffic.longest_silence_ns[place])),
        )

    def _notes(self, listed: int) -> Iterable[str]:
        left_out = self._rows.left_out if self._stored is None else self._stored.left_out
        if left_out:
            yield f"limit reached: {listed:,} connections are listed, {left_out:,} are not"
        if self._streams.limit_reached:
            yield f"limit reached: {self._streams.limit:,} streams are counted, later ones are not"
        if self._waits.connections_with_acks >= MOST_CONNECTIONS:
            yield f"limit reached: acks of {MOST_CONNECTIONS:,} connections are listed, those of others only in all"


def _servers(connections: Sequence[ConnectionStatistics]) -> tuple[Server, ...]:
    """Return the servers, those with the most connections first."""
    of_server: dict[str, list[ConnectionStatistics]] = {}
    for each in connections:
        of_server.setdefault(each.server, []).append(each)
    servers = [
        Server(
            place,
            len(those),
            tuple(sorted({each.era for each in those if each.era is not None})),
            tuple(sorted({each.dialect for each in those})),
        )
        for place, those in of_server.items()
    ]
    return tuple(sorted(servers, key=lambda server: -server.connections))


def _of_both(row: Row, name: str) -> int:
    return sum(row.get(f"{side}_{name}") or 0 for side in SIDES)


def collect(
    inputs: Sequence[Input],
    options: ReadOptions,
    *,
    connection: str | None = None,
    watch: Callable[[BatchReader], Callable[[], None]] | None = None,
) -> tuple[Statistics, ReadReport]:
    """Read captures, or rows of frames; return what was found, and what could not be read.

    ``connection``: this one only, by number or id. ``watch`` is told of the progress.
    """
    stored = are_rows(inputs)
    collector = Collector(packets=not stored, connection=connection)
    columns = COLUMNS | {"connection_number"} if stored else COLUMNS  # rows may be some of a run
    chosen = dataclasses.replace(
        options, columns=columns, document_keys=False, chunk_bytes=options.chunk_bytes or RULE_CHUNK_BYTES
    )
    reader = open_frames(inputs, chosen, ended=collector.ended)
    advance = watch(reader) if watch is not None else None
    for batch in reader:
        if advance is not None:
            advance()
        collector.fold(batch)
    return collector.finish([each.name for each in inputs], reader.report), reader.report
