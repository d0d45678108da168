"""``uprscope check --annotate`` as people run it: inputs, targets, what is said, and how it ends."""

from __future__ import annotations

import gzip
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.analysis.annotate.test_capture_copy import ring
from tests.support.pcapng_copies import comments_of, packets_in
from uprscope import cli

FEED = "captures/09_feed_real_consumer.pcap"
BROKEN = "captures/broken/SEQ-10-ahead.pcapng"
CLEAN = "captures/clean/basic.pcapng"
Run = tuple[int, str, str]


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Run:
    capsys.readouterr()
    status = cli.main(["check", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def process(*words: str | Path, data: bytes = b"", **how: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "uprscope", "check", *map(str, words)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    return subprocess.run(command, input=data, check=False, timeout=60, **streams)  # type: ignore[call-overload,no-any-return]


def refused(result: Run, *parts: str) -> None:
    status, out, err = result
    assert (status, out) == (2, "")
    assert err.startswith("uprscope: --annotate ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


def test_the_report_and_the_exit_status_are_as_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for capture, wanted in ((FEED, 1), (BROKEN, 1), (CLEAN, 0)):
        for form in ("text", "ndjson", "junit"):
            plain = run(capsys, capture, "--format", form)
            status, out, err = run(capsys, capture, "--format", form, "--annotate", tmp_path / "out.pcapng")
            assert (status, out) == plain[:2] == (wanted, out)
            assert err.startswith(plain[2])
            said = err.removeprefix(plain[2])
            count = len(comments_of((tmp_path / "out.pcapng").read_bytes()))
            packets = len(packets_in(Path(capture)))
            assert f"out.pcapng: {count} of {packets} packets ha" in said
            assert ('frame.comment contains "uprscope"' in said) == (count > 0)
            assert said.count("\n") == 1


def test_only_what_is_chosen_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.pcapng"
    run(capsys, FEED, "--rules", "SEQ-01", "--annotate", target)
    few = comments_of(target.read_bytes())
    assert {text[:6] for texts in few.values() for text in texts} == {"SEQ-01"}
    run(capsys, FEED, "--severity", "info", "--limit", "1", "--annotate", target)
    assert sum(map(len, comments_of(target.read_bytes()).values())) > sum(map(len, few.values()))


def test_comments_of_an_earlier_check_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    run(capsys, FEED, "--annotate", first)
    there = sum(map(len, comments_of(first.read_bytes()).values()))
    _, _, err = run(capsys, first, "--annotate", second)
    assert f"second.pcapng: {there} comments of an earlier check left out\n" in err
    assert second.read_bytes() == first.read_bytes()


def test_any_container_and_standard_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.pcapng"
    run(capsys, FEED, "--annotate", target)
    wanted = target.read_bytes()
    packed = tmp_path / "feed.pcap.gz"
    packed.write_bytes(gzip.compress(Path(FEED).read_bytes()))
    run(capsys, packed, "--annotate", target)
    assert target.read_bytes() == wanted
    for form in ("text", "csv"):
        done = process("-", "--format", form, "--annotate", target, data=Path(FEED).read_bytes())
        assert done.returncode == 1
        assert target.read_bytes() == wanted
        target.unlink()


def test_files_of_a_ring_are_in_the_order_in_which_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], repo_root: Path
) -> None:
    files = ring(tmp_path, repo_root / FEED, 4)
    target = tmp_path / "out.pcapng"
    run(capsys, *reversed(files), "--annotate", target)
    assert packets_in(target) == packets_in(Path(FEED))
    in_order = target.read_bytes()
    target.unlink()
    run(capsys, tmp_path, "--annotate", target)
    assert target.read_bytes() == in_order
    run(capsys, *reversed(files), "--separate", "--annotate", target)
    assert packets_in(target)[0].time_ns == packets_in(files[-1])[0].time_ns
    refused(run(capsys, tmp_path, "--annotate", target), "is one of the captures")


def test_an_input_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = tmp_path / "capture.pcapng"
    data = Path(BROKEN).read_bytes()
    capture.write_bytes(data)
    (tmp_path / "hard").hardlink_to(capture)
    (tmp_path / "soft").symlink_to(capture)
    (tmp_path / "folder").mkdir()
    for name in ("capture.pcapng", "hard", "soft", "folder/../capture.pcapng"):
        for source in (capture, tmp_path / "soft", tmp_path / "capture.*"):
            refused(run(capsys, source, "--annotate", f"{tmp_path}/{name}"), "is one of the captures to check")
    with capture.open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "uprscope", "check", "-", "--annotate", str(capture)],
            stdin=stream,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    refused((done.returncode, done.stdout, done.stderr), "is one of the captures to check")
    assert capture.read_bytes() == data


def test_targets_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(run(capsys, BROKEN, "--annotate", tmp_path), "is a directory")
    refused(run(capsys, BROKEN, "--annotate", "-"), "-o")
    refused(run(capsys, BROKEN, "--annotate", "-", "-o", "-"), "-o")
    same = tmp_path / "same"
    refused(run(capsys, BROKEN, "-o", same, "--annotate", f"{tmp_path}/./same"), "-o")
    status, out, err = run(capsys, BROKEN, "--annotate", tmp_path / "no" / "such" / "folder")
    assert (status, out) == (2, "")
    assert "cannot be written" in err
    assert not list(tmp_path.iterdir())


def test_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To a pipe, and to a file that is appended to; a section's length would have to be changed in either."""
    stated = tmp_path / "stated.pcapng"
    data = Path(BROKEN).read_bytes()
    assert data[16:24] == b"\xff" * 8
    stated.write_bytes(data[:16] + (len(data) - data[4]).to_bytes(8, "little") + data[24:])
    target, report = tmp_path / "out.pcapng", tmp_path / "report.txt"
    status, out, _ = run(capsys, stated, "--annotate", target)
    wanted = target.read_bytes()
    assert wanted.startswith(data[:24])
    done = process(stated, "--annotate", "-", "-o", report)
    assert (done.returncode, done.stdout) == (status, wanted)
    assert b"standard output: " in done.stderr
    assert report.read_text().splitlines()[0] == out.splitlines()[0]
    appended = tmp_path / "appended"
    appended.write_bytes(b"before")
    with appended.open("ab") as stream:
        process(stated, "--annotate", "-", "-o", report, stdout=stream.fileno())
    assert appended.read_bytes() == b"before" + wanted
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        child = subprocess.Popen(
            [sys.executable, "-m", "uprscope", "check", str(stated), "--annotate", f"/dev/fd/{writing}"],
            pass_fds=[writing],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(writing)
        assert pipe.read() == wanted
        assert child.wait(60) == 1


def test_a_terminal_gets_no_capture(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = process(BROKEN, "--annotate", "-", "-o", tmp_path / "report", stdout=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    refused((done.returncode, "", done.stderr.decode()), "not for terminals")
    assert not list(tmp_path.iterdir())


def test_a_failed_run_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.pcapng"
    target.write_bytes(b"from before")
    status, _, _ = run(capsys, BROKEN, CLEAN, "--connection", "99", "--annotate", target)
    assert status == 2
    assert target.read_bytes() == b"from before"
    full = subprocess.run(
        [sys.executable, "-m", "uprscope", "check", FEED, "--annotate", "/dev/full"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert full.returncode == 2
    assert re.fullmatch(r"uprscope: .*No space left on device\n", full.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["out.pcapng"]


def test_a_reader_that_has_seen_enough_still_gets_the_copy(tmp_path: Path) -> None:
    target = tmp_path / "out.pcapng"
    command = f"{sys.executable} -m uprscope check {FEED} --limit 0 --annotate {target} | head -n 1"
    subprocess.run(command, shell=True, capture_output=True, check=True, timeout=60)  # noqa: S602 - our own words
    assert comments_of(target.read_bytes())


def test_damaged_input_is_said_and_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, target = tmp_path / "cut.pcapng", tmp_path / "out.pcapng"
    data = Path(CLEAN).read_bytes()
    capture.write_bytes(data[:-10])
    status, _, err = run(capsys, capture, "--annotate", target)
    assert status == 3
    assert "the file ends" in err
    assert packets_in(target, sound=True) == packets_in(capture)
    assert data.startswith(target.read_bytes())


def test_names_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a\x1b[31m\nb.pcapng"
    _, _, err = run(capsys, BROKEN, "--annotate", target)
    assert target.exists()
    assert "\x1b" not in err
    assert r"a\x1b[31m\nb.pcapng" in err
