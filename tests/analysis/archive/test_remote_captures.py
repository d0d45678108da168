"""Archives of captures that are kept on S3: what is found, what a rerun reads, and what is never written down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analysis.archive import job, manifest
from analysis.archive.ingest import ingest
from analysis.archive.manifest import Manifest, ManifestEntry
from analysis.archive.rings import Capture, find_captures, group_into_rings
from dissector.errors import InputError
from dissector.options import ReadOptions
from tests.support.archive_cases import rotated, write_capture
from tests.support.checking import captured, clean
from tests.support.s3_server import Served, s3_server
from uprscope import cli

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(120)]

SECRET = "anything"  # noqa: S105 - the server believes everybody
WHO = f"someone:{SECRET}@"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two rings, of which one is in two files whose names do not tell their order, beside what is no capture."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "store" / "traces"
    first, second = rotated(captured(clean("multiplex")), 3)[:2]
    (root / "one").mkdir(parents=True)
    (root / "one" / "z.pcap").write_bytes(first)
    (root / "one" / "a.pcap").write_bytes(second)
    (root / "one" / "notes.txt").write_text("nothing")
    write_capture(root / "two" / "b.pcap", clean("basic"), port=700)
    return tmp_path / "store"


@pytest.fixture
def s3(bucket: Path) -> Iterator[Served]:
    with s3_server(bucket) as server:
        yield server


def test_directories_of_a_bucket_are_rings(s3: Served, bucket: Path) -> None:
    found = find_captures([f"s3a://{WHO}traces/{s3.query}"])
    assert {each.path for each in found} == {
        f"s3://traces/{name}" for name in ("one/a.pcap", "one/z.pcap", "two/b.pcap")
    }
    assert [ring.place for ring in group_into_rings(found)] == ["s3://traces/one", "s3://traces/two"]
    assert len(group_into_rings(found, separate=True)) == 3
    by_pattern = find_captures([f"s3://{WHO}traces/*/{s3.query}", f"s3://{WHO}traces/one/*.txt{s3.query}"])
    assert [each.path for each in by_pattern if not each.path.endswith(".txt")] == [each.path for each in found]
    assert len(by_pattern) == 4  # what is named or matched is taken up, whatever it is called
    # A list tells times to the millisecond and an answer about one object to the second: it is the same file.
    (alone,) = find_captures([f"s3://{WHO}traces/two/b.pcap{s3.query}"])
    assert alone in found
    assert alone == Capture.of(alone.path, beside=found[0])
    assert Capture.of("s3://traces/two/none.pcap", beside=found[0]) is None
    (bucket / "traces" / "two" / "b.pcap").touch()
    os.utime(bucket / "traces" / "two" / "b.pcap", (1, 1))
    (later,) = find_captures([f"s3://{WHO}traces/two/b.pcap{s3.query}"])
    assert later != alone


@pytest.mark.parametrize("name", ["none/", "one/*.gz", "one/none.pcap"])
def test_addresses_that_stand_for_nothing(s3: Served, name: str) -> None:
    with pytest.raises(InputError) as raised:
        find_captures([f"s3://{WHO}traces/{name}{s3.query}"])
    assert SECRET not in str(raised.value)


def test_a_directory_without_captures(s3: Served, bucket: Path) -> None:
    (bucket / "traces" / "three").mkdir()
    (bucket / "traces" / "three" / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match=r"^s3://traces/three: no captures there$"):
        find_captures([f"s3://{WHO}traces/three{s3.query}"])


def test_one_name_on_two_systems(s3: Served, bucket: Path) -> None:
    with s3_server(bucket) as other, pytest.raises(InputError, match="on two file systems"):
        find_captures([f"s3://{WHO}traces/two/b.pcap{each.query}" for each in (s3, other)])


def test_local_files_by_address(bucket: Path) -> None:
    assert find_captures([f"file://{bucket}/traces"]) == find_captures([str(bucket / "traces")])
    assert find_captures([f"file://{bucket}/traces/t%77o/?.pcap"]) == find_captures([str(bucket / "traces" / "two")])


def test_what_it_takes_to_open_is_not_written_down(s3: Served) -> None:
    found = find_captures([f"s3://{WHO}traces{s3.query}"])
    contents = Manifest("me", {ring.id: ManifestEntry(ring.place, ring.captures) for ring in group_into_rings(found)})
    assert SECRET not in contents.dumps() + repr(contents)
    again = Manifest.loads(contents.dumps())
    assert again == contents
    assert all(each.address is None for entry in again.rings.values() for each in entry.captures)


def test_a_ring_elsewhere_is_read_as_a_local_one(s3: Served, bucket: Path, tmp_path: Path) -> None:
    remote = next(
        each for each in group_into_rings(find_captures([f"s3://{WHO}traces{s3.query}"])) if each.place.endswith("one")
    )
    local = next(
        each for each in group_into_rings(find_captures([str(bucket / "traces")])) if each.place.endswith("one")
    )
    tables = []
    for number, ring in enumerate((remote, local)):
        result = ingest(tmp_path / str(number), ring, ReadOptions())
        assert (result["left_out"], result["damaged"]) == (0, 0)
        (path,) = [tmp_path / str(number) / name for name in result["files"] if name.startswith("frames/")]
        tables.append(pq.read_table(path, partitioning=None))
    shown = {f"s3://traces/one/{name}": str(bucket / "traces" / "one" / name) for name in ("a.pcap", "z.pcap")}
    rows = tables[0].to_pylist()
    assert {row["capture"] for row in rows} == set(shown)
    for row in rows:
        row["capture"], row["capture_first"] = shown[row["capture"]], shown[row["capture_first"]]
    assert rows == tables[1].to_pylist()


def test_what_can_not_be_reached_is_not_taken_for_a_bad_file(s3: Served, bucket: Path, tmp_path: Path) -> None:
    """Otherwise it would be in quarantine, and no later run would read it."""
    (bucket / "traces" / "two" / "junk.pcap").write_text("no capture at all")
    (ring,) = group_into_rings(find_captures([f"s3://{WHO}traces/two{s3.query}"]))
    assert ingest(tmp_path / "out", ring, ReadOptions())["left_out"] == 1
    s3.refuses = "two/b.pcap"
    with pytest.raises(InputError, match=r"^s3://traces/two/b\.pcap: "):
        ingest(tmp_path / "out", ring, ReadOptions())


def test_an_archive_of_a_bucket_that_grows(
    spark: SparkSession, s3: Served, bucket: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks run in processes that know no credentials: they come along with the address."""
    archive = tmp_path / "archive"
    place = f"s3a://{WHO}traces"
    first = job.run(spark, archive, [f"{place}/one{s3.query}", f"{place}/two{s3.query}"])
    assert (len(first.read), first.kept) == (2, 0)
    assert job.run(spark, archive, [f"{place}/one{s3.query}"]).read == []
    # One new file is named, and its ring has three; the other ring is left alone.
    (bucket / "traces" / "one" / "m.pcap").write_bytes(rotated(captured(clean("multiplex")), 3)[2])
    grown = job.run(spark, archive, [f"{place}/one/m.pcap{s3.query}"])
    assert (len(grown.read), grown.kept, grown.gone) == (1, 1, 0)
    entry = next(each for each in manifest.read(archive).rings.values() if each.place == "s3://traces/one")
    assert [Path(each.path).name for each in entry.captures] == ["a.pcap", "m.pcap", "z.pcap"]
    whole = write_capture(tmp_path / "whole.pcap", clean("multiplex"))
    assert (
        entry.frames
        == ingest(tmp_path / "whole", group_into_rings(find_captures([str(whole)]))[0], ReadOptions())["frames"]
    )
    for path in (each for each in archive.rglob("*") if each.is_file()):
        assert SECRET.encode() not in path.read_bytes()
    # A file that can't be reached any more ends the run, and the archive is as it was.
    before = (archive / manifest.NAME).read_bytes()
    (bucket / "traces" / "one" / "z.pcap").write_bytes(captured(clean("basic")))
    s3.refuses = "one/z.pcap"
    capsys.readouterr()
    assert cli.main(["archive", f"{place}/one{s3.query}", "-o", str(archive)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("uprscope: Spark failed: s3://traces/one/z.pcap: ")
    assert SECRET not in last
    assert (archive / manifest.NAME).read_bytes() == before


def test_tables_do_not_go_elsewhere(bucket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captures = str(bucket / "traces")
    assert cli.main(["archive", captures, "-o", f"s3://{WHO}traces/archive?region=x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("uprscope: s3://traces/archive: the tables go to a folder")
