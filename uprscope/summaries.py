"""Captures summed up: the rows of connections or of vbucket streams, with what there is to say beside them.

One reading of the captures, for the command line and for the library. The states that are folded over the frames are
in :mod:`dissector.summary`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dissector.errors import UsageError
from dissector.frames.batch import FrameBatch
from dissector.frames.schema import SCHEMA
from dissector.frames.sources import are_rows, open_frames
from dissector.summary.byte_hash import HashingReader
from dissector.summary.connections import ConnectionSummaries, forget
from dissector.summary.rows import ConnectionRows, stream_rows
from dissector.summary.schema import CONNECTION_COLUMNS, HASH_COLUMNS, STREAM_COLUMNS
from dissector.summary.stored_connections import StoredConnections
from dissector.summary.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from dissector.capture import Input
    from dissector.frames.schema import Column
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions, ReadReport

    #: Shows how far a reader has come: a context whose value is called once per batch.
    Watch = Callable[[BatchReader], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows of a summary, their columns, what could not be read, and notes for people."""

    rows: list[dict[str, Any]]
    columns: tuple[Column, ...]
    report: ReadReport
    notes: list[str]


@contextlib.contextmanager
def unwatched(_: BatchReader) -> Iterator[Callable[[], None]]:
    """Show nothing."""
    yield lambda: None


def connection_columns(*, hashes: bool = False) -> tuple[Column, ...]:
    """Return the columns of connections."""
    return (*CONNECTION_COLUMNS, *HASH_COLUMNS) if hashes else CONNECTION_COLUMNS


def connection_summary(
    inputs: Sequence[Input],
    options: ReadOptions,
    *,
    everything: bool = False,
    hashes: bool = False,
    watch: Watch = unwatched,
    option: str = "--all",
) -> Summary:
    """Sum captures up, one row per connection; ``everything`` includes those without frames, as ``option`` asks for."""
    if are_rows(inputs):
        if hashes or everything:
            what = "hashes of bytes" if hashes else "connections without frames"
            raise UsageError(f"{inputs[0].name}: {what} are in the capture itself, not in rows of frames")
        return _stored_summary(inputs, options, watch)
    options = replace(options, count_ignored=everything)
    found = ConnectionRows(everything=everything)
    connections = ConnectionSummaries(found.add)
    if hashes:
        reader: BatchReader = (hashing := HashingReader(inputs, options, ended=connections.end))
        found.digests = hashing.digests
    else:
        reader = open_frames(inputs, options, ended=connections.end)
    with watch(reader) as advance:
        for batch in reader:
            advance()
            connections.fold(FrameBatch(batch), names_only=False)
            connections.release_ended()
    notes = []
    if found.left_out:
        notes.append(f"limit reached: {len(found.rows):,} connections are listed, {found.left_out:,} are not")
    if found.gaps_left_out:
        notes.append(f"limit reached: {found.gaps_left_out:,} gaps are counted, but not listed")
    if found.without_frames and found.rows and not everything:
        plural = "s have" if found.without_frames > 1 else " has"
        notes.append(
            f"{found.without_frames:,} other connection{plural} no frames that could be read ({option} lists them)"
        )
    return Summary(found.sorted(), connection_columns(hashes=hashes), reader.report, notes)


def _stored_summary(inputs: Sequence[Input], options: ReadOptions, watch: Watch) -> Summary:
    """Sum rows of frames up, one row per connection."""
    found = StoredConnections()
    reader = open_frames(inputs, _with_numbers(options))
    with watch(reader) as advance:
        for batch in reader:
            advance()
            found.fold(FrameBatch(batch))
    rows = found.rows()
    notes = ["from rows of frames: bytes are those of frames, times those of the first and the last one"]
    if found.left_out:
        notes.append(f"limit reached: {len(rows):,} connections are listed, {found.left_out:,} are not")
    return Summary(rows, CONNECTION_COLUMNS, reader.report, notes)


def _with_numbers(options: ReadOptions) -> ReadOptions:
    """Return options that also read the numbers that stored rows have: they may be some of a run."""
    return replace(options, columns=frozenset((*(options.columns or SCHEMA.names), "connection_number")))


def stream_summary(inputs: Sequence[Input], options: ReadOptions, *, watch: Watch = unwatched) -> Summary:
    """Sum captures up, one row per vbucket stream or refused stream request."""
    streams = Streams()
    connections = ConnectionSummaries(forget)
    reader = open_frames(inputs, _with_numbers(options) if are_rows(inputs) else options, ended=connections.end)
    with watch(reader) as advance:
        for batch in reader:
            advance()
            view = FrameBatch(batch)
            streams.fold(view, connections.fold(view, names_only=True))
            connections.release_ended()
    notes = [f"limit reached: {streams.limit:,} streams are listed, later ones are not"]
    return Summary(list(stream_rows(streams)), STREAM_COLUMNS, reader.report, notes if streams.limit_reached else [])
