"""The prescan: one split goes through the TCP engine without rows, to find how its conversations stand at its end.

Knows how blocks are fed to the engine and how notes become rows; ``prescan_connections`` decides what is noted,
``stitch`` uses it. Each split is prescanned alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analysis.spark.partitioning import conversation_key, partition_of
from analysis.spark.split.conversations import new_connections_first
from analysis.spark.split.prescan_connections import PrescanConnections
from analysis.spark.split.records import NOTES, RecordKind, pack
from analysis.spark.split.resume import frame_count
from analysis.spark.split.segment_rows import blocks_of_part, select_segments
from dissector.link.segment_block import SYN
from dissector.tcp.fast_path import SequentialPath, run_block
from dissector.tcp.frame_table import join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.spark.split.plan import Split
    from analysis.spark.split.segment_rows import FragmentPacket
    from dissector.link.segment_block import SegmentBlock
    from dissector.options import ReadOptions

    Row = tuple[int, bytes, int, int, RecordKind, bytes]

#: Rows and bytes of a batch of records: a state may hold a large document.
BATCH_ROWS, BATCH_BYTES = 1000, 4 << 20
FRAGMENT_HEAD = struct.Struct("<qqq")


def prescan(number: int, split: Split, options: ReadOptions, partitions: int) -> Iterator[pa.RecordBatch]:
    """Prescan a split, by its number in the run; yield notes on its conversations, and its fragments."""
    slow = SequentialPath()
    connections = PrescanConnections(slow, options, first=number == 0)
    yield _rows([(number % partitions, b"", 0, number, RecordKind.SPLIT, b"")])
    for block, fragments in blocks_of_part(split.address, split.part, split.capture):
        for step in new_connections_first(block, connections):
            tables = [run_block(connections, slow, part) for part in _unsynced_first(step, connections)]
            connections.feed_detectors(tables[0] if len(tables) == 1 else join(*tables))
        for partition in range(partitions if fragments else 0):
            yield _rows(
                [(partition, b"", each.packet, number, RecordKind.FRAGMENT, _pack_fragment(each)) for each in fragments]
            )
        if connections.lost:
            lost = [
                (partition_of(conversation, partitions), conversation, 0, number, RecordKind.LOST, b"")
                for conversation in connections.lost
            ]
            connections.lost.clear()
            yield _rows(lost)
    yield from _note_rows(number, connections, partitions)


def _note_rows(number: int, connections: PrescanConnections, partitions: int) -> Iterator[pa.RecordBatch]:
    rows: list[Row] = []
    size = 0
    for conversation, notes in connections.notes.items():
        if notes.state is not None:
            notes.frames += frame_count(notes.state)
        body = pack(notes)
        rows.append(
            (partition_of(conversation, partitions), conversation, notes.packet, number, RecordKind.NOTES, body)
        )
        size += len(body)
        if len(rows) == BATCH_ROWS or size > BATCH_BYTES:
            yield _rows(rows)
            rows, size = [], 0
    if rows:
        yield _rows(rows)


def _unsynced_first(block: SegmentBlock, connections: PrescanConnections) -> Iterator[SegmentBlock]:
    """Take directions without a sync point first: a few of their segments would keep others off the fast path.

    The order within a direction is kept. The two directions of an unsynced connection don't depend on each other once
    each has acknowledged something.
    """
    opening = {conversation_key(block.keys[number])[0] for number in block.flow[block.flags & SYN != 0].tolist()}
    unsynced = np.zeros(len(block.keys), bool)
    for number, key in enumerate(block.keys):
        entry = connections.live.get(key)
        notes = None if entry is None else connections.unsynced.get(entry[0].index)
        if entry is not None and notes is not None and conversation_key(key)[0] not in opening:
            unsynced[number] = notes.sync_points[entry[1]] is None and entry[0].directions[entry[1]].ack is not None
    first = unsynced[block.flow]
    if not first.any() or first.all():
        yield block
        return
    yield select_segments(block, np.flatnonzero(first))
    yield select_segments(block, np.flatnonzero(~first))


def _pack_fragment(fragments: FragmentPacket) -> bytes:
    return FRAGMENT_HEAD.pack(fragments.time_ns, fragments.linktype, fragments.original) + fragments.data


def _rows(rows: list[Row]) -> pa.RecordBatch:
    columns = [
        pa.array([int(each) if isinstance(each, RecordKind) else each for each in column], kind.type)
        for column, kind in zip(zip(*rows, strict=True), NOTES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTES)
