"""Talks put together from the notes of scouts: the exact state of every talk where each piece begins.

Knows what the ordinary engine is told of a segment, and when two connections go on alike. Must not know how pieces are
read, nor Spark. A talk is followed from piece to piece: the head of a piece is played with the engine itself, from the
state that the pieces before left behind; where that comes to the scout's anchor in step, the scout's end of the piece
is the end, but for its offsets. Where anything is in doubt the talk can't be stitched, and its segments are shuffled.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from analysis.spark.partitioning import conversation_key, partition_of
from analysis.spark.split.prescan import FRAGMENT, ROWS, ROWS_BYTES
from analysis.spark.split.records import CHECKPOINTS, COUNT, END, Checkpoint, RecordKind, notes_of, pack
from analysis.spark.split.resume import Resumption, UnstitchableError, end_of, opened, rest_of
from dissector.link.reference import ReferenceDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from analysis.spark.split.records import ConversationNotes
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection

    Row = tuple[int, RecordKind, bytes, bytes]


class Stitcher:
    """Takes the notes that one task gets: any number of shares, one after the other."""

    def __init__(self, shares: int, options: ReadOptions) -> None:
        self._shares = shares
        self._options = options
        self._share = -1
        self._fragments = ReferenceDecoder()
        self._fragmented: set[bytes] = set()  #: talks of this share that have segments in fragments
        self._fragments_in = (-1, -1)  #: share and piece of the last one
        self._talk: _StitchedConversation | None = None
        self._rows: list[Row] = []
        self._size = 0
        self._counts: Counter[int] = Counter()  #: frames by piece

    def stitch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take sorted notes, all there are; yield checkpoints."""
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("share", "talk", "piece", "kind", "body")]
            for share, talk, piece, kind, body in zip(*columns, strict=True):
                self._take(share, talk, piece, RecordKind(kind), body)
                if len(self._rows) >= ROWS or self._size > ROWS_BYTES:
                    yield self._batch()
        self._end_talk()
        self._put((piece, RecordKind.FRAMES, b"", COUNT.pack(count)) for piece, count in sorted(self._counts.items()))
        yield self._batch()

    def _take(self, share: int, talk: bytes, piece: int, kind: RecordKind, body: bytes) -> None:
        if share != self._share:
            self._end_talk()
            self._share, self._fragments, self._fragmented = share, ReferenceDecoder(), set()
        if kind is RecordKind.PIECE:
            self._rows.append((piece, RecordKind.PIECE, b"", b""))
            return
        if kind is RecordKind.FRAGMENT:
            self._play(body)
            if self._fragments_in != (share, piece):
                self._fragments_in = (share, piece)
                self._rows.append((piece, RecordKind.FRAGMENT, b"", b""))
            return
        if self._talk is None or self._talk.name != talk:
            self._end_talk()
            self._talk = _StitchedConversation(talk, self._options)
        if kind is RecordKind.LOST or talk in self._fragmented:
            self._put(self._talk.fall_back(piece))
        else:
            self._put(self._talk.go_on(piece, notes_of(body)))

    def _put(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._rows.append(row)
            self._size += len(row[3])

    def _end_talk(self) -> None:
        if self._talk is not None:
            self._put(self._talk.end())
            self._counts.update(self._talk.counts)
        self._talk = None

    def _play(self, body: bytes) -> None:
        """Put fragments together, all of the run in order, and remember which talks of this share are in them."""
        time_ns, linktype, original = FRAGMENT.unpack_from(body)
        segment = self._fragments.segment(body[FRAGMENT.size :], linktype, original, time_ns)
        if segment is not None:
            talk, _ = conversation_key(segment.key)
            if partition_of(talk, self._shares) == self._share:
                self._fragmented.add(talk)

    def _batch(self) -> pa.RecordBatch:
        rows, self._rows, self._size = self._rows, [], 0
        columns = [[each[0] for each in rows], [int(each[1]) for each in rows], [each[2] for each in rows]]
        columns.append([each[3] for each in rows])
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, CHECKPOINTS, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=CHECKPOINTS)


class _StitchedConversation:
    """One talk, followed from piece to piece."""

    def __init__(self, name: bytes, options: ReadOptions) -> None:
        self.name = name
        self._options = options
        self._state: Connection | None = None
        self._began = 0
        self._frames = 0
        self._pieces: list[int] = []
        self._ready: tuple[int, bytes] | None = None  #: checkpoint of the last piece, which may be the talk's last
        self._fallen = False
        self.counts: Counter[int] = Counter()
        """Frames of the talk, by the piece that releases them; without those that the end of the run does."""

    def go_on(self, piece: int, notes: ConversationNotes) -> Iterator[Row]:
        """Take the notes on the next piece; yield what can be said now."""
        if self._fallen:
            yield piece, RecordKind.FALLBACK, self.name, b""
            return
        yield from self._hand_out(RecordKind.CHECKPOINT)
        self._pieces.append(piece)
        state = self._state
        self._ready = (piece, b"" if state is None else pack(Checkpoint(state, self._began, self._frames)))
        before = self._frames
        try:
            self._play(notes)
        except UnstitchableError:
            yield from self.fall_back()
        else:
            self.counts[piece] = self._frames - before

    def fall_back(self, *pieces: int) -> Iterator[Row]:
        """Leave this talk to the shuffle, whatever was said of it before."""
        self._fallen, self._ready, self._state = True, None, None
        self.counts.clear()
        for piece in (*self._pieces, *pieces):
            yield piece, RecordKind.FALLBACK, self.name, b""
        self._pieces = []

    def end(self) -> Iterator[Row]:
        """Nothing more comes."""
        yield from self._hand_out(RecordKind.LAST)
        rest = 0 if self._state is None else rest_of(self._state, self._options)
        if rest:
            yield self._pieces[-1], RecordKind.END, self.name, END.pack(self._began, rest)

    def _hand_out(self, kind: RecordKind) -> Iterator[Row]:
        if self._ready is None:
            return
        piece, body = self._ready
        self._ready = None
        # Nothing need be said of a talk that begins and ends in one piece.
        if body or kind is not RecordKind.LAST:
            yield piece, kind, self.name, body

    def _play(self, notes: ConversationNotes) -> None:
        """Move on to the end of a piece."""
        if notes.life is not None and notes.unknown is not None:
            if self._state is None:
                self._state, self._began = opened(notes.life.first, self._options), notes.life.first.packet
            seam = Resumption(self._state, notes.life, notes.unknown, self._options)
            self._frames += seam.sew()
        if notes.opening is not None and self._state is not None:
            self._frames += end_of(self._state, notes.opening, self._options)
        if notes.state is not None:
            self._state, self._began = notes.state, notes.began
        self._frames += notes.frames
