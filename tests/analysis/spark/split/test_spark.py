"""Connections that cross splits, through Spark: what is shuffled, and that the rows are those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from analysis.spark.partitioning import conversation_key
from analysis.spark.read_options import SourceOptions
from analysis.spark.split.read_frames import checkpoints_of, frames_of, plan_archive
from analysis.spark.split.records import RecordKind
from tests.support.split_archives import (
    assert_same,
    decoded_at_once,
    fragmented,
    in_order,
    packed,
    pcap_file,
    pcapng_file,
    write,
)
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, Ends, Wire, counted, marker, mutation

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
ENDS = [Ends(ports=(40_000 + index, 11_210), isns=(2**32 - 900 * index, 77_000_000)) for index in range(3)]


def wires() -> list[Wire]:
    """Three streams at once, one of which ends within a frame."""
    conversations = []
    for ends in ENDS:
        conversation = Conversation(ends).open()
        for seqno in range(1, 151):
            conversation.send(
                SERVER, marker(1, 5, seqno, seqno), mutation(1, 5, seqno, b"key%d" % seqno, b"v" * 700), mss=600
            )
            if seqno % 5 == 0:
                conversation.send(CLIENT, counted(0x5D, bytes(4), opaque=9))
        conversations.append(conversation.packets)
    return [wire for packets in zip(*conversations, strict=True) for wire in packets][:-4]


def conversations_of_kind(checkpoints: DataFrame, kind: RecordKind) -> set[bytes]:
    """Return the conversations that have rows of a kind."""
    return {bytes(row["conversation"]) for row in checkpoints.where(checkpoints["kind"] == int(kind)).collect()}


def test_what_can_be_stitched_is_not_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    packets = packed(wires())
    third = len(packets) // 3
    paths = write([pcap_file(packets[:third]), pcapng_file(packets[third:])], tmp_path)
    reading = SourceOptions(values=True, split_bytes=60_000)
    plan = plan_archive(spark, paths, reading)
    assert len(plan.splits) > 5
    checkpoints = checkpoints_of(spark, plan, reading, 3)
    assert conversations_of_kind(checkpoints, RecordKind.FALLBACK) == set()
    assert conversations_of_kind(checkpoints, RecordKind.LAST_CHECKPOINT) == {
        conversation_key(ends.key(CLIENT))[0] for ends in ENDS
    }
    frames = frames_of(spark, plan, reading, numbered=True)
    assert frames.rdd.getNumPartitions() == len(plan.splits)  # only the splits are decoded
    found, expected = frames.toArrow().sort_by("frame"), decoded_at_once(paths, reading)
    assert_same(found, expected)
    assert_same(in_order(frames_of(spark, plan, reading).toArrow()), expected)
    assert [row["missing"] > 0 for row in found.to_pylist()][-1]  # what the end of the run releases comes last


def test_a_conversation_that_can_not_be_stitched_is_shuffled_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    made = wires()
    late = next(index for index in range(len(made) // 2, 0, -1) if made[index].ends == ENDS[1] and made[index].data)
    packets = packed([*made[:late], *made[late + 1 : late + 200], made[late], *made[late + 200 :]])
    paths = write([pcap_file(packets[: late + 1]), pcap_file(packets[late + 1 :])], tmp_path)
    reading = SourceOptions()
    plan = plan_archive(spark, paths, reading)
    checkpoints = checkpoints_of(spark, plan, reading, 2)
    assert conversations_of_kind(checkpoints, RecordKind.FALLBACK) == {conversation_key(ENDS[1].key(CLIENT))[0]}
    found = frames_of(spark, plan, reading, partitions=2, numbered=True).toArrow().sort_by("frame")
    assert_same(found, decoded_at_once(paths, reading))


def test_a_run_of_one_split_needs_no_scouts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = packed(wires())
    packets[100:101] = fragmented(packets[100], 136, 9)
    paths = write([pcap_file(packets)], tmp_path)
    plan = plan_archive(spark, paths, SourceOptions())
    monkeypatch.setattr("analysis.spark.split.read_frames.checkpoints_of", None)
    found = frames_of(spark, plan, SourceOptions(), numbered=True).toArrow().sort_by("frame")
    assert_same(found, decoded_at_once(paths, SourceOptions()))
