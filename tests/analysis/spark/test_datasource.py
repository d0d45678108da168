"""The data source: large captures read by several tasks, and the rows of the single-process reader all the same."""

from __future__ import annotations

import gzip
import re
from hashlib import shake_128
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from analysis.spark.datasource import MAX_PARTITIONS, UprReader
from analysis.spark.read_options import SourceOptions
from dissector.frames.schema import ALWAYS
from tests.support.split_archives import decoded_at_once, fragmented, packed, pcap_file, write
from tests.support.tcp_by_hand import SERVER, Conversation, Ends, mutation

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def large(folder: Path, connections: int = 12) -> Path:
    """Write a capture of many connections, some packets in fragments."""
    conversations = []
    for index in range(connections):
        conversation = Conversation(Ends(ports=(41_000 + index, 11_210), isns=(1_000, 5_000 + index))).open()
        for seqno in range(1, 9):
            value = shake_128(b"%d %d" % (index, seqno)).digest(400)
            conversation.send(SERVER, mutation(index, 5, seqno, b"key%d" % seqno, value), mss=300)
        conversations.append(conversation.packets)
    packets = []
    for number, packet in enumerate(packed([wire for group in zip(*conversations, strict=True) for wire in group])):
        packets += fragmented(packet, 136, number) if number % 31 == 17 else [packet]
    path = folder / "large.pcap"
    path.write_bytes(pcap_file(packets))
    return path


def test_java_takes_batches_without_checking_every_bound(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    assert jvm.java.lang.System.getProperty("arrow.enable_unsafe_memory_access") == "true"
    # The user's own options are there too, and so is the log's.
    asked = spark.sparkContext.getConf()
    assert "-XX:+UseSerialGC" in asked.get("spark.driver.extraJavaOptions", "")
    assert "log4j2" in asked.get("spark.driver.defaultJavaOptions", "")


def in_order(frames: DataFrame) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = (
        frames.toArrow().sort_by([("capture", "ascending"), ("frame", "ascending")]).to_pylist()
    )
    return rows


def test_a_large_file_is_read_by_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    plain = large(tmp_path)
    packed_file = tmp_path / "large.pcap.gz"
    packed_file.write_bytes(gzip.compress(plain.read_bytes()))
    small = tmp_path / "small.pcap"
    small.write_bytes(pcap_file(packed(Conversation().open().send(SERVER, mutation(1, 5, 1, b"k")).packets)))
    paths = [str(plain), str(packed_file), str(small)]
    bytes_each = packed_file.stat().st_size // 3 + 1
    frames = spark.read.format("upr").option("values", "true").option("splitBytes", str(bytes_each)).load(paths)
    by_file = [len(UprReader({"path": path, "splitbytes": str(bytes_each)}).partitions()) for path in paths]
    assert by_file[0] > by_file[1] == 3
    assert by_file[2] == 1
    assert frames.rdd.getNumPartitions() == sum(by_file)
    alone = [row for path in paths for row in decoded_at_once([path], SourceOptions(values=True)).to_pylist()]
    assert len(alone) > 190
    assert in_order(frames) == alone


def test_a_joined_run_is_partitioned_too(spark: SparkSession, tmp_path: Path) -> None:
    data = large(tmp_path).read_bytes()
    at, records = 24, []
    while at < len(data):
        size = 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        records.append(data[at : at + size])
        at += size
    half = len(records) // 2
    paths = write([data[:24] + b"".join(records[:half]), data[:24] + b"".join(records[half:])], tmp_path)
    expected = decoded_at_once(paths, SourceOptions())
    # Together they are as large as four times this, and each of them is not.
    frames = spark.read.format("upr").option("joined", "true").option("splitBytes", str(len(data) // 4)).load(paths)
    assert frames.rdd.getNumPartitions() == 5
    assert frames.toArrow().sort_by("frame").to_pylist() == expected.to_pylist()


def test_how_many_tasks_there_are(tmp_path: Path) -> None:
    (tmp_path / "sparse.pcap").touch()
    with (tmp_path / "sparse.pcap").open("r+b") as file:
        file.truncate(3 << 30)
    options = {"path": str(tmp_path / "sparse.pcap")}
    assert len(UprReader(options).partitions()) == 3  # of 1 GB
    assert len(UprReader(options | {"splitbytes": str(3 << 30)}).partitions()) == 1
    assert len(UprReader(options | {"splitbytes": "1024"}).partitions()) == MAX_PARTITIONS


def test_a_split_that_is_too_small_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="at least 1024"):
        spark.read.format("upr").option("splitBytes", "5").load(str(large(tmp_path))).count()


@pytest.mark.parametrize("split_bytes", ["1073741824", "20000"])
def test_only_the_columns_that_were_asked_for(spark: SparkSession, tmp_path: Path, split_bytes: str) -> None:
    path = str(large(tmp_path))
    options = {"columns": "by_seqno, name,frame", "splitBytes": split_bytes}
    frames = spark.read.format("upr").options(**options).load(path)
    assert frames.columns == ["frame", "name", "by_seqno"]  # as in the schema
    expected = decoded_at_once([path], SourceOptions()).select(frames.columns)
    assert frames.toArrow().sort_by("frame").to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "by_seq"}, "option columns: no column 'by_seq' (did you mean by_seqno?)"),
        ({"columns": "name,name"}, "option columns: name is there twice"),
        ({"colour": "red"}, "there are values, ports, dialect, splitBytes, mode, joined, columns"),
    ],
)
def test_options_that_make_no_sense(spark: SparkSession, tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(AnalysisException, match=re.escape(words)):
        spark.read.format("upr").options(**options).load(str(large(tmp_path))).count()


def test_columns_that_are_always_there_are_known_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    fields = {field.name: field.nullable for field in spark.read.format("upr").load(str(large(tmp_path))).schema}
    assert {name for name, nullable in fields.items() if not nullable} == ALWAYS
