"""One piece of a run, looked at in advance: how its talks end, and what must be known to make sure of that.

Knows how a piece goes through the ordinary engine without rows being made. Must not know other pieces, nor what is
noted (``logbook``) and what for (``stitching``).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analysis.spark.partitioning import conversation_key, partition_of
from analysis.spark.split.segment_rows import blocks_of_part, only
from analysis.spark.split.conversations import steps
from analysis.spark.split.prescan_connections import PrescanConnections
from analysis.spark.split.records import NOTES, RecordKind, pack
from analysis.spark.split.resume import frames_of
from dissector.link.segment_block import SYN
from dissector.tcp.frame_table import join
from dissector.tcp.lanes import SequentialPath, run_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.spark.split.plan import Split
    from analysis.spark.split.segment_rows import LooseSegments
    from dissector.link.segment_block import SegmentBlock
    from dissector.options import ReadOptions

    Row = tuple[int, bytes, int, int, RecordKind, bytes]

#: Rows are handed on in batches of so many, or of so many bytes: a state may have a large document in it.
ROWS, ROWS_BYTES = 1000, 4 << 20
FRAGMENT = struct.Struct("<qqq")


def prescan(number: int, piece: Split, options: ReadOptions, shares: int) -> Iterator[pa.RecordBatch]:
    """Look at a piece, by its number in the run; yield notes on its talks, and its fragments."""
    slow = SequentialPath()
    connections = PrescanConnections(slow, options, first=number == 0)
    yield _rows([(number % shares, b"", 0, number, RecordKind.PIECE, b"")])
    for block, loose in blocks_of_part(piece.address, piece.part, piece.capture):
        for step in steps(block, connections):
            tables = [run_block(connections, slow, part) for part in _apart(step, connections)]
            connections.watch(tables[0] if len(tables) == 1 else join(*tables))
        for share in range(shares if loose else 0):
            yield _rows([(share, b"", each.packet, number, RecordKind.FRAGMENT, _fragment(each)) for each in loose])
        if connections.lost:
            lost = [(partition_of(talk, shares), talk, 0, number, RecordKind.LOST, b"") for talk in connections.lost]
            connections.lost.clear()
            yield _rows(lost)
    yield from _notes(number, connections, shares)


def _notes(number: int, connections: PrescanConnections, shares: int) -> Iterator[pa.RecordBatch]:
    rows: list[Row] = []
    size = 0
    for talk, notes in connections.notes.items():
        if notes.state is not None:
            notes.frames += frames_of(notes.state)
        body = pack(notes)
        rows.append((partition_of(talk, shares), talk, notes.packet, number, RecordKind.NOTES, body))
        size += len(body)
        if len(rows) == ROWS or size > ROWS_BYTES:
            yield _rows(rows)
            rows, size = [], 0
    if rows:
        yield _rows(rows)


def _apart(block: SegmentBlock, connections: PrescanConnections) -> Iterator[SegmentBlock]:
    """Take directions without an anchor first: a few segments of theirs would keep the others out of the fast lane.

    The directions of a connection that is adrift know nothing of each other, once each has acknowledged something.
    """
    opening = {conversation_key(block.keys[number])[0] for number in block.flow[block.flags & SYN != 0].tolist()}
    alone = np.zeros(len(block.keys), bool)
    for number, key in enumerate(block.keys):
        entry = connections.live.get(key)
        life = None if entry is None else connections.lives.get(entry[0].index)
        if entry is not None and life is not None and conversation_key(key)[0] not in opening:
            alone[number] = life.anchors[entry[1]] is None and entry[0].directions[entry[1]].ack is not None
    first = alone[block.flow]
    if not first.any() or first.all():
        yield block
        return
    yield only(block, np.flatnonzero(first))
    yield only(block, np.flatnonzero(~first))


def _fragment(loose: LooseSegments) -> bytes:
    return FRAGMENT.pack(loose.time_ns, loose.linktype, loose.original) + loose.data


def _rows(rows: list[Row]) -> pa.RecordBatch:
    columns = [
        pa.array([int(each) if isinstance(each, RecordKind) else each for each in column], kind.type)
        for column, kind in zip(zip(*rows, strict=True), NOTES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTES)
