"""Stitching: notes of the prescan to checkpoints, the exact state of every conversation at the start of every split.

Knows the order of notes and records. A conversation is followed from split to split: ``resume`` brings its state from
the start of a split to the end, from the notes alone. If that leaves a doubt the conversation can't be stitched, and
all of its splits are told to shuffle its segments. A conversation with segments in IP fragments falls back too: a
fragment may be in another split than the rest of its datagram.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from analysis.spark.partitioning import conversation_key, partition_of
from analysis.spark.split.prescan import BATCH_BYTES, BATCH_ROWS, FRAGMENT_HEAD
from analysis.spark.split.records import CHECKPOINTS, END_COUNT, FRAME_COUNT, Checkpoint, RecordKind, pack, unpack_notes
from analysis.spark.split.resume import (
    Resumption,
    UnstitchableError,
    end_connection,
    end_for_reuse,
    open_connection,
    waits_for_dialect,
)
from dissector.link.reference import ReferenceDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from analysis.spark.split.records import ConversationNotes
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection

    Row = tuple[int, RecordKind, bytes, bytes]


class Stitcher:
    """Stitches the notes that one task gets: any number of partitions, one after the other."""

    def __init__(self, partitions: int, options: ReadOptions) -> None:
        self._partitions = partitions
        self._options = options
        self._partition = -1
        self._fragments = ReferenceDecoder()
        self._fragmented: set[bytes] = set()  #: conversations of this partition with segments in fragments
        self._fragments_in = (-1, -1)  #: partition and split of the last one
        self._conversation: _StitchedConversation | None = None
        self._rows: list[Row] = []
        self._size = 0
        self._counts: Counter[int] = Counter()  #: frames by split

    def stitch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take sorted notes, all there are; yield checkpoints."""
        for batch in batches:
            columns = [
                batch.column(name).to_pylist() for name in ("partition", "conversation", "split", "kind", "body")
            ]
            for partition, conversation, split, kind, body in zip(*columns, strict=True):
                self._add_row(partition, conversation, split, RecordKind(kind), body)
                if len(self._rows) >= BATCH_ROWS or self._size > BATCH_BYTES:
                    yield self._batch()
        self._end_conversation()
        self._put(
            (split, RecordKind.FRAME_COUNT, b"", FRAME_COUNT.pack(count))
            for split, count in sorted(self._counts.items())
        )
        yield self._batch()

    def _add_row(self, partition: int, conversation: bytes, split: int, kind: RecordKind, body: bytes) -> None:
        if partition != self._partition:
            self._end_conversation()
            self._partition, self._fragments, self._fragmented = partition, ReferenceDecoder(), set()
        if kind is RecordKind.SPLIT:
            self._rows.append((split, RecordKind.SPLIT, b"", b""))
            return
        if kind is RecordKind.FRAGMENT:
            self._add_fragment(body)
            if self._fragments_in != (partition, split):
                self._fragments_in = (partition, split)
                self._rows.append((split, RecordKind.FRAGMENT, b"", b""))
            return
        if self._conversation is None or self._conversation.name != conversation:
            self._end_conversation()
            self._conversation = _StitchedConversation(conversation, self._options)
        if kind is RecordKind.LOST or conversation in self._fragmented:
            self._put(self._conversation.fall_back(split))
        else:
            self._put(self._conversation.add_split(split, unpack_notes(body)))

    def _put(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._rows.append(row)
            self._size += len(row[3])

    def _end_conversation(self) -> None:
        if self._conversation is not None:
            self._put(self._conversation.end())
            self._counts.update(self._conversation.counts)
        self._conversation = None

    def _add_fragment(self, body: bytes) -> None:
        """Reassemble fragments, all of the run in order; remember the conversations of this partition in them."""
        time_ns, linktype, original = FRAGMENT_HEAD.unpack_from(body)
        segment = self._fragments.segment(body[FRAGMENT_HEAD.size :], linktype, original, time_ns)
        if segment is not None:
            conversation, _ = conversation_key(segment.key)
            if partition_of(conversation, self._partitions) == self._partition:
                self._fragmented.add(conversation)

    def _batch(self) -> pa.RecordBatch:
        rows, self._rows, self._size = self._rows, [], 0
        columns = [[each[0] for each in rows], [int(each[1]) for each in rows], [each[2] for each in rows]]
        columns.append([each[3] for each in rows])
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, CHECKPOINTS, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=CHECKPOINTS)


class _StitchedConversation:
    """One conversation, followed from split to split."""

    def __init__(self, name: bytes, options: ReadOptions) -> None:
        self.name = name
        self._options = options
        self._state: Connection | None = None
        self._began = 0
        self._frames = 0
        self._splits: list[int] = []
        self._pending: tuple[int, bytes] | None = None  #: checkpoint of the latest split, which may be the last one
        self._failed = False
        self.counts: Counter[int] = Counter()
        """Frames by the split that releases them, without those that the end of the run releases."""

    def add_split(self, split: int, notes: ConversationNotes) -> Iterator[Row]:
        """Take the notes on the next split; yield the rows that are certain now."""
        if self._failed:
            yield split, RecordKind.FALLBACK, self.name, b""
            return
        yield from self._release_checkpoint(RecordKind.CHECKPOINT)
        self._splits.append(split)
        state = self._state
        self._pending = (split, b"" if state is None else pack(Checkpoint(state, self._began, self._frames)))
        before = self._frames
        try:
            self._advance(notes)
        except UnstitchableError:
            yield from self.fall_back()
        else:
            self.counts[split] = self._frames - before

    def fall_back(self, *splits: int) -> Iterator[Row]:
        """Leave the conversation to the shuffle: in these splits and all before, replacing earlier rows."""
        self._failed, self._pending, self._state = True, None, None
        self.counts.clear()
        for split in (*self._splits, *splits):
            yield split, RecordKind.FALLBACK, self.name, b""
        self._splits = []

    def end(self) -> Iterator[Row]:
        """End the conversation; yield the rest of its rows."""
        yield from self._release_checkpoint(RecordKind.LAST_CHECKPOINT)
        rest = 0 if self._state is None else end_connection(self._state, self._options)
        if rest:
            yield self._splits[-1], RecordKind.END_COUNT, self.name, END_COUNT.pack(self._began, rest)

    def _release_checkpoint(self, kind: RecordKind) -> Iterator[Row]:
        if self._pending is None:
            return
        split, body = self._pending
        self._pending = None
        # A conversation within one split needs no checkpoint.
        if body or kind is not RecordKind.LAST_CHECKPOINT:
            yield split, kind, self.name, body

    def _advance(self, notes: ConversationNotes) -> None:
        """Bring the state to the end of a split."""
        if notes.earlier_notes is not None and notes.earlier_state is not None:
            if self._state is None:
                first = notes.earlier_notes.first
                self._state, self._began = open_connection(first, self._options), first.packet
            resumption = Resumption(self._state, notes.earlier_notes, notes.earlier_state, self._options)
            self._frames += resumption.resume()
        if notes.opening is not None and self._state is not None:
            self._frames += end_for_reuse(self._state, notes.opening, self._options)
        if notes.state is not None:
            self._state, self._began = notes.state, notes.began
        self._frames += notes.frames
        if self._state is not None and waits_for_dialect(self._state):
            raise UnstitchableError("frames that wait for their dialect")
