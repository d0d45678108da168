"""One piece of a run, decoded by itself: checkpoints in, the very frames out that the whole run has there.

Knows what a piece is told of the talks in it. Must not know who found that out, nor Spark. Talks of which nothing is
said begin here and end here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.spark.partitioning import conversation_key
from analysis.spark.split.segment_rows import blocks_of_part, of_conversations, rows_of_part
from analysis.spark.split.conversations import ConversationFrames
from analysis.spark.split.records import Checkpoint, RecordKind, checkpoint_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from analysis.spark.split.plan import Split
    from dissector.options import ReadOptions


@dataclass(slots=True)
class SplitRecords:
    """What is known of the talks in a piece."""

    number: int
    """Of the piece in the run."""
    checkpoints: dict[bytes, Checkpoint] = field(default_factory=dict)
    go_on: set[bytes] = field(default_factory=set)
    """Talks that are in later pieces too."""
    fallback: set[bytes] = field(default_factory=set)
    """Talks that are decoded elsewhere, from their segments."""
    fragments: bool = False
    """Whether there are fragments of IP datagrams."""
    alone: bool = False
    """The piece is the whole run."""

    def add(self, kind: RecordKind, talk: bytes, body: bytes) -> None:
        """Take a row."""
        if kind is RecordKind.FALLBACK:
            self.fallback.add(talk)
        elif kind is RecordKind.FRAGMENT:
            self.fragments = True
        elif kind in (RecordKind.CHECKPOINT, RecordKind.LAST):
            if body:
                self.checkpoints[talk] = checkpoint_of(body)
            if kind is RecordKind.CHECKPOINT:
                self.go_on.add(talk)


def split_records(batches: Iterable[pa.RecordBatch]) -> Iterator[SplitRecords]:
    """Take checkpoint rows sorted by piece, all there are; yield what is known of one piece after the other."""
    known: SplitRecords | None = None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("piece", "kind", "talk", "body")]
        for piece, kind, talk, body in zip(*columns, strict=True):
            if known is None or known.number != piece:
                if known is not None:
                    yield known
                known = SplitRecords(piece)
            known.add(RecordKind(kind), talk, body)
    if known is not None:
        yield known


def frames_of_split(
    piece: Split, known: SplitRecords, captures: Sequence[str], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Decode the talks of a piece that can be decoded here."""
    for batches in groups_of_split(piece, known, captures, options):
        yield from batches


def groups_of_split(
    piece: Split, known: SplitRecords, captures: Sequence[str], options: ReadOptions
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Decode a piece in groups of batches: no frame of a group belongs before one of an earlier group."""
    talks = ConversationFrames(captures, options)
    for talk, checkpoint in known.checkpoints.items():
        if talk not in known.fallback:
            talks.connections.restore(checkpoint.state, checkpoint.began)
            talks.counts[talk] = checkpoint.frames
    known.checkpoints.clear()
    for block, _ in blocks_of_part(piece.address, piece.part, piece.capture, alone=known.alone):
        yield talks.run(of_conversations(block, known.fallback, others=True) if known.fallback else block)
    live = [conversation_key(each.key)[0] for each in talks.connections.connections()]
    yield talks.end([talk for talk in live if talk not in known.go_on])


def fallback_rows(piece: Split, known: SplitRecords, shares: int) -> Iterator[pa.RecordBatch]:
    """Yield the segments of a piece that belong to talks which can't be stitched."""
    if known.fallback or known.fragments:
        yield from rows_of_part(piece.address, piece.part, piece.capture, shares, talks=known.fallback)
