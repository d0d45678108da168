"""The captures of the repository: all are in the index, and the synthetic ones are what their commands give."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from dissector.generate import library
from dissector.generate.bugs import BUGS
from dissector.generate.faults import FAULTS
from dissector.generate.library import LibraryEntry
from dissector.generate.scenarios import SCENARIOS
from tests.support.tcp_by_hand import READERS, read_run
from uprscope import make_captures

ENTRIES = library.read()
SYNTHETIC = [entry for entry in ENTRIES if entry.synthetic]
HOME = library.ROOT / library.FOLDER
LARGEST, ALTOGETHER = 100_000, 8_000_000


def test_the_index_lists_every_capture_once() -> None:
    names = [entry.file for entry in ENTRIES]
    assert len(set(names)) == len(names)
    there = {str(path.relative_to(HOME)) for path in HOME.rglob("*.pcap*")}
    assert set(names) == there


def test_every_entry_says_what_it_is() -> None:
    for entry in ENTRIES:
        assert entry.title
        assert entry.holds
        assert bool(entry.server) != bool(entry.command), entry.file


def test_there_is_one_of_each_scenario_and_fault() -> None:
    """``make captures`` makes those that are missing."""
    plans = list(library.planned())
    assert [entry.file for entry in SYNTHETIC] == [plan.file for plan in plans]
    assert [entry.command for entry in SYNTHETIC] == [plan.command for plan in plans]
    assert len([plan for plan in plans if plan.file.startswith("clean/")]) == len(SCENARIOS)
    assert len([plan for plan in plans if plan.file.startswith("broken/")]) == len(FAULTS)
    assert len([plan for plan in plans if plan.file.startswith("bugs/")]) == len(
        [each for each in BUGS if each.capture]
    )


@pytest.mark.parametrize("sort", ["clean", "broken", "bugs", "rough"])
def test_commands_give_these_bytes(sort: str, tmp_path: Path) -> None:
    chosen = [entry for entry in SYNTHETIC if entry.file.startswith(f"{sort}/")]
    assert chosen
    different = []
    for entry in chosen:
        again = make_captures.make(entry, tmp_path)
        if again != entry or (tmp_path / entry.file).read_bytes() != (HOME / entry.file).read_bytes():
            different.append(entry.file)
    assert different == [], "run make captures"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".pcap", ".pcapng")]


def test_they_are_small() -> None:
    sizes = {entry.file: (HOME / entry.file).stat().st_size for entry in ENTRIES}
    assert [name for name in sizes if sizes[name] > LARGEST and "/" in name] == []
    assert sum(sizes.values()) < ALTOGETHER


def test_the_clean_ones_are_whole() -> None:
    """Every message that the truth lists is a row; only traffic of other protocols is not."""
    for entry in SYNTHETIC:
        if entry.file.startswith("clean/"):
            rows, report = read_run(HOME / entry.file, READERS[1])
            assert rows, entry.file
            assert report.damage == []
            assert not any(row["missing"] or row["gap"] for row in rows), entry.file


def test_every_broken_one_has_its_proof() -> None:
    for entry in SYNTHETIC:
        if entry.file.startswith("broken/"):
            assert entry.wrong, entry.file
            assert Path(entry.file).name.startswith(entry.rules[0])
            assert entry.packets, entry.file


def test_real_servers_cover_what_matters() -> None:
    held = " ".join(entry.holds + entry.title for entry in ENTRIES if entry.server)
    for word in ("takeover", "rollback", "flow control", "early dialect", "collections"):
        assert word in held


@pytest.mark.tool("tshark")
@pytest.mark.parametrize(
    "name", [entry.file for entry in SYNTHETIC if not entry.file.startswith(("broken/", "bugs/"))][::3]
)
def test_tshark_opens_them(name: str) -> None:
    command = ["tshark", "-r", str(HOME / name), "-T", "fields", "-e", "tcp.stream", "-e", "tcp.checksum.status"]
    command += ["-o", "tcp.check_checksum:TRUE"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines
    assert all(stream for stream, _ in lines)
    assert {status for _, status in lines} <= {"1", "3", ""}  # good, or cut


def test_making_it_anew_changes_what_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [plan for plan in library.planned() if plan.file in ("clean/draft.pcapng", "broken/SEQ-02.pcapng")]
    monkeypatch.setattr(make_captures, "planned", lambda: iter(plans))
    home = tmp_path / "captures"
    (home / "broken").mkdir(parents=True)
    (home / "broken" / "OLD-01.pcapng").touch()
    by_hand = '[[capture]]\nfile = "real.pcap"\ntitle = "by hand"\nholds = "things"\nserver = "1"\n\n'
    (home / "index.toml").write_text(by_hand)
    assert make_captures.refresh(tmp_path) == [
        "clean/draft.pcapng",
        "broken/SEQ-02.pcapng",
        "broken/OLD-01.pcapng",
        "index.toml",
    ]
    assert make_captures.refresh(tmp_path) == []
    first, *others = library.read(tmp_path)
    assert first == LibraryEntry("real.pcap", "by hand", "things", server="1")
    assert [entry.file for entry in others] == [plan.file for plan in plans]
    assert (home / "index.toml").read_text().startswith(by_hand)


def test_without_a_repository_there_is_no_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert library.read(tmp_path) == []
    with pytest.raises(SystemExit):
        make_captures.main(["--root", str(tmp_path)])
    assert "not a checkout" in capsys.readouterr().err


def test_commands_are_fit_for_a_shell() -> None:
    for entry in SYNTHETIC:
        assert shlex.split(entry.command)[:2] == ["uprscope", "generate"]
        assert entry.command.endswith(f"-o captures/{entry.file}")
        assert json.dumps(entry.command, ensure_ascii=True).isprintable()
