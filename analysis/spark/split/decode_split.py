"""One piece of a run, decoded by itself: checkpoints in, the very frames out that the whole run has there.

Knows what a piece is told of the talks in it. Must not know who found that out, nor Spark. Talks of which nothing is
said begin here and end here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.spark.partitioning import conversation_key
from analysis.spark.split.conversations import ConversationFrames
from analysis.spark.split.records import Checkpoint, RecordKind, unpack_checkpoint
from analysis.spark.split.segment_rows import blocks_of_part, rows_of_part, select_conversations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from analysis.spark.split.plan import Split
    from dissector.options import ReadOptions


@dataclass(slots=True)
class SplitRecords:
    """What is records of the talks in a piece."""

    number: int
    """Of the piece in the run."""
    checkpoints: dict[bytes, Checkpoint] = field(default_factory=dict)
    continuing: set[bytes] = field(default_factory=set)
    """Talks that are in later pieces too."""
    fallback: set[bytes] = field(default_factory=set)
    """Talks that are decoded elsewhere, from their segments."""
    fragments: bool = False
    """Whether there are fragments of IP datagrams."""
    whole_run: bool = False
    """The piece is the whole run."""

    def add(self, kind: RecordKind, conversation: bytes, body: bytes) -> None:
        """Take a row."""
        if kind is RecordKind.FALLBACK:
            self.fallback.add(conversation)
        elif kind is RecordKind.FRAGMENT:
            self.fragments = True
        elif kind in (RecordKind.CHECKPOINT, RecordKind.LAST_CHECKPOINT):
            if body:
                self.checkpoints[conversation] = unpack_checkpoint(body)
            if kind is RecordKind.CHECKPOINT:
                self.continuing.add(conversation)


def split_records(batches: Iterable[pa.RecordBatch]) -> Iterator[SplitRecords]:
    """Take checkpoint rows sorted by piece, all there are; yield what is records of one piece after the other."""
    records: SplitRecords | None = None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("split", "kind", "conversation", "body")]
        for split, kind, conversation, body in zip(*columns, strict=True):
            if records is None or records.number != split:
                if records is not None:
                    yield records
                records = SplitRecords(split)
            records.add(RecordKind(kind), conversation, body)
    if records is not None:
        yield records


def frames_of_split(
    split: Split, records: SplitRecords, captures: Sequence[str], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Decode the talks of a piece that can be decoded here."""
    for batches in groups_of_split(split, records, captures, options):
        yield from batches


def groups_of_split(
    split: Split, records: SplitRecords, captures: Sequence[str], options: ReadOptions
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Decode a piece in groups of batches: no frame of a group belongs before one of an earlier group."""
    conversations = ConversationFrames(captures, options)
    for conversation, checkpoint in records.checkpoints.items():
        if conversation not in records.fallback:
            conversations.connections.restore(checkpoint.state, checkpoint.began)
            conversations.counts[conversation] = checkpoint.frames
    records.checkpoints.clear()
    for block, _ in blocks_of_part(split.address, split.part, split.capture, whole_run=records.whole_run):
        yield conversations.run(
            select_conversations(block, records.fallback, others=True) if records.fallback else block
        )
    live = [conversation_key(each.key)[0] for each in conversations.connections.connections()]
    yield conversations.end([conversation for conversation in live if conversation not in records.continuing])


def fallback_rows(split: Split, records: SplitRecords, partitions: int) -> Iterator[pa.RecordBatch]:
    """Yield the segments of a piece that belong to talks which can't be stitched."""
    if records.fallback or records.fragments:
        yield from rows_of_part(split.address, split.part, split.capture, partitions, conversations=records.fallback)
