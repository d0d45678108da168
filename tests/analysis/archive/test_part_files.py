"""What an archive is made of, without Spark: rings, manifests, staged changes, parts, quarantine, the zip."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.archive import ingest as ingesting
from analysis.archive import manifest, transaction
from analysis.archive.ingest import ingest
from analysis.archive.manifest import Manifest, ManifestEntry
from analysis.archive.part_files import publish
from analysis.archive.rings import Capture, find_captures, group_into_rings, ring_id
from dissector.capture import Input
from dissector.errors import InputError, UsageError
from dissector.options import ReadOptions
from tests.support.archive_cases import write_capture
from tests.support.checking import clean
from uprscope import cli


def touch(path: Path, size: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return path


def test_a_directory_is_a_ring(tmp_path: Path) -> None:
    for name in ("a/1.pcap", "a/2.pcap.zst", "b/x.pcapng", "b/ring.pcap7", "b/notes.txt", "b/x.truth.json.gz"):
        touch(tmp_path / name, 3 if "x" in name else 1)
    found = find_captures([str(tmp_path)])
    assert {Path(each.path).name for each in found} == {"1.pcap", "2.pcap.zst", "x.pcapng", "ring.pcap7"}
    together = group_into_rings(found)
    assert [(Path(each.place).name, each.size) for each in together] == [("b", 4), ("a", 2)]
    assert len(group_into_rings(found, separate=True)) == 4
    assert all(each.id == ring_id(each.place) and each.id[0] == "r" for each in together)
    assert {each.path for each in find_captures([str(tmp_path / "b" / "notes.txt")])} == {
        str(tmp_path / "b" / "notes.txt")
    }
    assert {Path(each.path).parent.name for each in find_captures([str(tmp_path)], without=tmp_path / "b")} == {"a"}


@pytest.mark.parametrize("name", ["", "nothing.pcap", "none*.pcap", "empty"])
def test_names_that_stand_for_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        find_captures([name])


def contents(*names: str) -> Manifest:
    entry = ManifestEntry("/somewhere", (Capture("/somewhere/a.pcap", 5, 7),), [*names], 10, 2, 1, 1)
    return Manifest("me", {"r1": entry}, ["findings/ring=across/x.parquet"], {"r1": "state"})


def test_a_manifest_comes_back_as_it_went(tmp_path: Path) -> None:
    made = contents("frames/x.parquet")
    (tmp_path / manifest.NAME).write_text(made.dumps())
    assert manifest.read(tmp_path) == made
    assert manifest.read(tmp_path / "nowhere") == Manifest()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"form": 99}', '{"form": 1, "rings": 3}', '{"form": 2, "rings": 3}'])
def test_what_is_no_manifest(tmp_path: Path, text: str) -> None:
    (tmp_path / manifest.NAME).write_text(text)
    with pytest.raises(UsageError):
        manifest.read(tmp_path)


@pytest.mark.parametrize("dies_at", ["nothing", "journal", "manifest"])
def test_a_change_is_made_in_full_or_not_at_all(tmp_path: Path, dies_at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = touch(tmp_path / "frames" / "day=1" / "ring=r1" / "old.parquet")
    before = contents("frames/day=1/ring=r1/old.parquet")
    manifest.write_text(tmp_path / manifest.NAME, before.dumps())
    folder = transaction.begin(tmp_path, "run")
    name = "frames/day=2/ring=r1/new.parquet"
    touch(folder / name)
    touch(folder / "frames" / "day=2" / "ring=r1" / "_late.parquet")
    after = contents(name)
    whole = manifest.write_text

    def write(path: Path, text: str) -> None:
        if dies_at in path.name:
            raise OSError("gone")
        whole(path, text)

    monkeypatch.setattr(manifest, "write_text", write)
    if dies_at == "nothing":
        transaction.commit(tmp_path, folder, before.rings["r1"].files, after)
    else:
        with pytest.raises(OSError, match="gone"):
            transaction.commit(tmp_path, folder, before.rings["r1"].files, after)
    monkeypatch.undo()
    finished = transaction.recover(tmp_path)
    assert finished is (dies_at == "manifest")
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")}
    if dies_at == "journal":
        assert (there, manifest.read(tmp_path)) == ({old.relative_to(tmp_path).as_posix()}, before)
    else:
        assert (there, manifest.read(tmp_path)) == ({name}, after)
    assert not (tmp_path / "_staging").exists() or not list((tmp_path / "_staging").iterdir())


def test_hidden_files_get_their_names_once(tmp_path: Path) -> None:
    touch(tmp_path / "frames" / "_a.parquet")
    assert publish(tmp_path, "frames/_a.parquet") == "frames/a.parquet"
    assert publish(tmp_path, "frames/_a.parquet") == "frames/a.parquet"
    assert [path.name for path in (tmp_path / "frames").iterdir()] == ["a.parquet"]


def test_a_file_that_breaks_the_reader_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = write_capture(tmp_path / "in" / "good.pcap", clean("basic"))
    bad = write_capture(tmp_path / "in" / "bad.pcap", clean("multiplex"), port=300)
    (ring,) = group_into_rings(find_captures([str(tmp_path / "in")]))

    class Breaks(ingesting.FrameReader):
        def __init__(self, inputs: list[Input], *args: object, **more: object) -> None:
            super().__init__(inputs, *args, **more)  # type: ignore[arg-type]
            if any(each.path == bad for each in inputs):
                raise ZeroDivisionError("a bug")

    monkeypatch.setattr(ingesting, "FrameReader", Breaks)
    result = ingest(tmp_path / "out", ring, ReadOptions())
    files = [tmp_path / "out" / name for name in result["files"]]
    assert (result["left_out"], result["damaged"], all(path.exists() for path in files)) == (1, 0, True)
    assert sorted(path for path in (tmp_path / "out").rglob("*.parquet")) == sorted(files)
    frames = pq.read_table(next(path for path in files if "frames" in path.parts), partitioning=None)
    assert set(frames.column("capture").to_pylist()) == {str(good)}
    assert frames.num_rows == result["frames"]
    quarantine = pq.read_table(next(path for path in files if "quarantine" in path.parts), partitioning=None)
    assert quarantine.to_pylist() == [{"capture": str(bad), "outcome": "left out", "reason": "a bug"}]


def test_the_zip_runs_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(tmp_path / "uprscope.zip")
    assert cli.main(["archive", "--make-zip", name]) == 0
    assert capsys.readouterr().out == (
        f"spark-submit --py-files {name} {tmp_path / 'uprscope_archive.py'} CAPTURES -o FOLDER\n"
    )
    modules = {"analysis/archive/job.py", "dissector/frames/reader.py", "uprscope/cli/archive.py"}
    assert modules <= set(zipfile.ZipFile(name).namelist())
    words = [sys.executable, str(tmp_path / "uprscope_archive.py"), "--help"]  # its folder comes first on the path
    environment = {**os.environ, "PYTHONPATH": name}
    helped = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert helped.stdout.startswith("usage: uprscope archive")
    code = f"import sys; sys.path.insert(0, {name!r}); import analysis.archive.job as j; print(j.__file__)"
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(name)
    first = Path(name).read_bytes()
    assert cli.main(["archive", "--make-zip", name]) == 0
    assert Path(name).read_bytes() == first
    assert cli.main(["archive", "--make-zip", str(tmp_path / "uprscope.tar")]) == 2


@pytest.mark.parametrize(
    "words", [["x.pcap"], ["-o", "x"], ["-", "-o", "x"], ["x.pcap", "-o", "x", "--conf", "no"], ["nothing", "-o", "x"]]
)
def test_mistakes_are_told_before_spark_starts(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path / "x.pcap")
    assert cli.main(["archive", *words]) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"x.pcap"}
