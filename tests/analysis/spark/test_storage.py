"""Captures kept elsewhere: what pyarrow's file systems open, found by address or pattern and read as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from analysis.spark import storage
from analysis.spark.read_options import SourceOptions
from analysis.spark.split.plan import make_plan
from analysis.spark.storage import find_files
from dissector.capture import CaptureReader
from dissector.errors import InputError
from tests.support.s3_server import Served, s3_server
from tests.support.split_archives import decoded_at_once, decoded_in_parts, packed, pcap_file, pcapng_file
from tests.support.tcp_by_hand import SERVER, Conversation, mutation


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """Two files of one ring, three levels deep, beside something else."""
    made = Conversation().open()
    for seqno in range(1, 41):
        made.send(SERVER, mutation(1, 5, seqno, b"key%d" % seqno, b"v" * 900), mss=700)
    packets = packed(made.packets)
    folder = tmp_path / "store" / "traces" / "day 1"
    folder.mkdir(parents=True)
    (folder / "b.pcap").write_bytes(pcap_file(packets[:30]))
    (folder / "a.pcapng").write_bytes(pcapng_file(packets[30:]))
    (tmp_path / "store" / "traces" / "notes.txt").write_text("nothing")
    return tmp_path / "store"


@pytest.fixture
def s3(bucket: Path) -> Iterator[Served]:
    with s3_server(bucket) as server:
        yield server


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_ring_on_s3_is_read_in_parts(scheme: str, s3: Served, bucket: Path) -> None:
    address = f"{scheme}://traces/day 1/*.pcap*{s3.query}"
    reading = SourceOptions(split_bytes=8000, values=True)
    found, plan = decoded_in_parts([address], reading)
    names = [f"{scheme}://traces/day 1/b.pcap", f"{scheme}://traces/day 1/a.pcapng"]
    assert list(plan.captures) == names
    assert len(plan.splits) > 4
    local = [bucket / "traces" / "day 1" / name for name in ("b.pcap", "a.pcapng")]
    expected = decoded_at_once([str(path) for path in local], reading).to_pylist()
    shown = dict(zip(map(str, local), names, strict=True))
    for row in expected:
        row["capture"], row["capture_first"] = shown[row["capture"]], shown[row["capture_first"]]
    assert found.to_pylist() == expected


@pytest.mark.timeout(60)
def test_folders_files_and_nothing_on_s3(s3: Served) -> None:
    one = find_files([f"s3://traces/day 1/b.pcap{s3.query}"])
    assert [each.name for each in one] == ["s3://traces/day 1/b.pcap"]
    assert len(find_files([f"s3://traces/day 1{s3.query}"])) == 2
    assert len(find_files([f"s3://traces/**{s3.query}"])) == 3
    assert len(find_files([f"s3://traces/*{s3.query}"])) == 1
    for missing in ("s3://traces/none.pcap", "s3://traces/*.gz"):
        with pytest.raises(InputError, match="no such file, or no file matches"):
            find_files([missing + s3.query])


@pytest.mark.timeout(60)
def test_a_large_object_is_never_fetched_whole(bucket: Path) -> None:
    packets = packed(Conversation().open().send(SERVER, mutation(1, 5, 1, b"k", bytes(20 << 20)), mss=60_000).packets)
    (bucket / "traces" / "large.pcap").write_bytes(pcap_file(packets))
    with s3_server(bucket) as s3:
        (address,) = find_files([f"s3://traces/large.pcap{s3.query}"])
        assert address.size() > 20 << 20
        with address.open() as file, CaptureReader(file, chunk_bytes=1 << 20) as reader:
            assert sum(len(block) for block in reader) == len(packets)
        assert 0 < s3.largest <= 2 << 20


@pytest.mark.timeout(60)
def test_secrets_are_never_shown(s3: Served) -> None:
    (found,) = find_files([f"s3://someone:anything@traces/day 1/b.pcap{s3.query}"])
    assert found.name == "s3://traces/day 1/b.pcap"
    for address in (f"s3://someone:anything@traces/none{s3.query}", "gopher://someone:anything@traces/none"):
        with pytest.raises(InputError) as raised:
            find_files([address])
        assert "anything" not in str(raised.value)


def test_local_files_by_address(bucket: Path) -> None:
    path = bucket / "traces" / "day 1"
    by_address = find_files([f"file://{path}/b.pcap"])
    assert by_address == find_files([str(path / "b.pcap")])
    assert make_plan([str(path)], SourceOptions()).captures == (str(path / "b.pcap"), str(path / "a.pcapng"))


def test_an_address_that_nothing_opens() -> None:
    with pytest.raises(InputError, match="no file system opens this"):
        find_files(["gopher://host/a.pcap"])


def test_what_a_file_system_says_is_cut_to_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise OSError("no library for someone:anything@host\nnot here\nnor there")

    monkeypatch.setattr(storage, "fs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=refuse)))
    with pytest.raises(InputError) as raised:
        find_files(["hdfs://someone:anything@host/a.pcap"])
    assert str(raised.value) == "hdfs://host: no file system opens this: no library for host"


def test_names_that_may_be_shown() -> None:
    assert storage.display_name("s3://someone:anything@traces/a/b.pcap?region=x") == "s3://traces/a/b.pcap"
    assert storage.display_name("/a/b.pcap") == "/a/b.pcap"
    assert storage.local_path("file:///a/b%20c?.pcap") == "/a/b c?.pcap"
    assert storage.local_path("s3://a/b") is None
