"""Decode one split from its checkpoints; the frames equal those a single process gives.

Knows the records of a split. A conversation without a record begins and ends in the split.
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
    """The checkpoint rows of one split."""

    number: int
    """Number of the split in the run."""
    checkpoints: dict[bytes, Checkpoint] = field(default_factory=dict)
    continuing: set[bytes] = field(default_factory=set)
    """Conversations that later splits have too."""
    fallback: set[bytes] = field(default_factory=set)
    """Conversations whose segments are shuffled, and decoded elsewhere."""
    fragments: bool = False
    """Whether the split has fragments of IP datagrams."""
    whole_run: bool = False
    """The run has no other split."""

    def add(self, kind: RecordKind, conversation: bytes, body: bytes) -> None:
        """Add a row."""
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
    """Take checkpoint rows sorted by split, all there are; yield the records of one split after the other."""
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
    """Decode the conversations of a split, without those that fall back."""
    for batches in groups_of_split(split, records, captures, options):
        yield from batches


def groups_of_split(
    split: Split, records: SplitRecords, captures: Sequence[str], options: ReadOptions
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Decode a split in groups of batches: every frame of a group comes after all frames of earlier groups."""
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
    """Yield the segments of a split that belong to conversations which fall back, and its fragments."""
    if records.fallback or records.fragments:
        yield from rows_of_part(split.address, split.part, split.capture, partitions, conversations=records.fallback)
