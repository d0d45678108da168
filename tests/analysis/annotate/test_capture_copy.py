"""``uprscope check --annotate``: the copy has every packet as it was, and the comments that the findings ask for."""

from __future__ import annotations

import functools
import io
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis.annotate import packet_comments
from analysis.annotate.capture_copy import CopyResult, copy
from analysis.annotate.comment import read_comment
from analysis.annotate.packet_comments import comments_for
from analysis.check.findings import Finding
from analysis.check.inspection import inspect
from analysis.rules import RULES
from dissector.capture import Input
from dissector.errors import InputError
from dissector.frames.reader import FrameReader
from dissector.options import ReadOptions
from tests.dissector.capture.test_build import Packet
from tests.support import hostile
from tests.support.paths import CAPTURES
from tests.support.pcapng_copies import comments_of, packets_in

HOME = CAPTURES
CAPTURES = sorted(path for path in HOME.rglob("*.pcap*"))
FEED = HOME / "09_feed_real_consumer.pcap"
SEEDS = range(100)
CUT = ("frame", 89)  #: a case with findings about frames that lost bytes, and ended in a later packet


def inputs_of(*paths: Path) -> list[Input]:
    return [Input(str(path), path) for path in paths]


def packets_of(each: Input) -> list[Packet]:
    assert each.path is not None
    return packets_in(each.path)


def saved(folder: Path, data: bytes) -> list[Input]:
    path = folder / "copy.pcapng"
    path.write_bytes(data)
    return inputs_of(path)


def annotated(inputs: Sequence[Input], options: ReadOptions | None = None) -> tuple[list[Finding], bytes, CopyResult]:
    """Check captures with all rules and every severity; return the findings and the copy."""
    options = options or ReadOptions()
    findings = inspect(inputs, RULES, options).findings
    stream = io.BytesIO()
    done = copy(inputs, comments_for(inputs, options, findings), stream)
    return findings, stream.getvalue(), done


@functools.cache
def of_library(path: Path) -> tuple[list[Finding], bytes, CopyResult]:
    return annotated(inputs_of(path))


def expected(
    findings: Iterable[Finding], inputs: Sequence[Input], options: ReadOptions | None = None
) -> dict[int, list[str]]:
    """Work out every comment from the rows of the frames, in the words of the specification."""
    rows = {row["frame"]: row for batch in FrameReader(inputs, options or ReadOptions()) for row in batch.to_pylist()}
    before: dict[str, int] = {}
    total = 0
    for each in inputs:
        before[each.name] = total
        total += len(packets_of(each))
    found: dict[int, list[str]] = defaultdict(list)
    for finding in findings:
        listed = ", ".join(f"{frame.role} {_packet(rows[frame.frame], before)}" for frame in finding.frames)
        for frame in finding.frames:
            row = rows[frame.frame]
            text = f"{finding.rule} {finding.severity.value} {frame.role}, {_message(row)}: {finding.sentence}."
            if frame.role == "guilty":
                text += f" At fault: {finding.fault}."
                step = finding.next_step.replace(shlex.quote(finding.guilty.capture), "CAPTURE")
                text += f" Next: {step.rstrip('.')}." if step else ""
            text += f" [uprscope {finding.id}; {listed}"
            value = 5381
            for byte in text.encode():
                value = (value * 33 + byte) % 2**32
            found[_packet(row, before)].append(f"{text}; {value:08x}]")
    return dict(found)


def _packet(row: dict[str, Any], before: dict[str, int]) -> int:
    cut = row["missing"] > 0
    packet: int = row["packet_first" if cut else "packet_last"]
    return before[row["capture_first" if cut else "capture"]] + packet


def _message(row: dict[str, Any]) -> str:
    response = " response" if row["response"] else ""
    vbucket = "" if row["vbucket"] is None else f" vb {row['vbucket']}"
    seqno = "" if row["by_seqno"] is None else f" seqno {row['by_seqno']}"
    return f"{row['name']}{response}{vbucket}{seqno}"


# ------------------------------------------------------------------------------------------------------- the library


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_every_packet_is_as_it_was_and_findings_are_found_again(path: Path, tmp_path: Path) -> None:
    findings, data, done = of_library(path)
    before = packets_in(path)
    assert packets_in(data, sound=True) == before
    assert done.packets == len(before)
    again, same, twice = annotated(saved(tmp_path, data))
    assert [(finding.id, finding.sentence) for finding in again] == [(each.id, each.sentence) for each in findings]
    assert same == data  # annotating it again changes nothing
    assert twice.removed == sum(len(texts) for texts in comments_of(data).values())


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_comments_are_those_of_the_findings(path: Path) -> None:
    findings, data, done = of_library(path)
    wanted = expected(findings, inputs_of(path))
    assert comments_of(data) == wanted
    assert done.commented == len(wanted)
    assert done.left_out == done.removed == done.passed_over == 0
    for number, texts in wanted.items():
        for text in texts:
            read = read_comment(text)
            assert read is not None
            assert (read.role, number) in read.packets
            assert read.packets[0][0] == "guilty"


def test_all_rules_with_a_broken_capture_are_there() -> None:
    """Every rule that the library breaks is in a comment of some copy."""
    broken = {path.name[:6] for path in CAPTURES if path.parent.name == "broken"}
    said = {text[:6] for path in CAPTURES for texts in comments_of(of_library(path)[1]).values() for text in texts}
    assert broken <= said
    assert len(broken) > 40


def test_a_capture_without_findings_is_copied_byte_for_byte() -> None:
    plain = [path for path in CAPTURES if path.suffix == ".pcapng" and not of_library(path)[0]]
    assert len(plain) > 10
    for path in plain:
        assert of_library(path)[1] == path.read_bytes(), path.name


def test_a_packet_with_too_many_comments_keeps_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = comments_of(of_library(FEED)[1])
    monkeypatch.setattr(packet_comments, "_MOST_BYTES", 200)
    _, data, done = annotated(inputs_of(FEED))
    few = comments_of(data)
    assert done.left_out == sum(map(len, whole.values())) - sum(map(len, few.values())) > 0
    assert all(texts == whole[number][: len(texts)] for number, texts in few.items())


def test_a_capture_that_changes_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "ring.pcap"
    path.write_bytes(FEED.read_bytes())
    findings = inspect(inputs_of(path), RULES, ReadOptions()).findings
    path.write_bytes(FEED.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"ring.pcap: changed while it was being checked"):
        comments_for(inputs_of(path), ReadOptions(), findings)


# ------------------------------------------------------------------------------------------------------ several files


def ring(tmp_path: Path, source: Path, pieces: int) -> list[Path]:
    """Cut a recording into files, alternately pcap and pcapng."""
    linktype, packets = hostile.packets_of(source)
    size = -(-len(packets) // pieces)
    paths = []
    for at in range(pieces):
        write, ending = ((hostile.write_pcap, "pcap"), (hostile.write_pcapng, "pcapng"))[at % 2]
        paths.append(tmp_path / f"{at}.{ending}")
        paths[-1].write_bytes(write(linktype, packets[at * size : (at + 1) * size]))
    return paths


@pytest.mark.parametrize("separate", [False, True])
def test_packets_of_several_files_are_counted_through(tmp_path: Path, separate: bool) -> None:
    inputs = inputs_of(*ring(tmp_path, FEED, 5))
    options = ReadOptions(separate=separate)
    findings, data, done = annotated(inputs, options)
    captures = {frame.capture for finding in findings for frame in finding.frames}
    assert len(captures) > 2
    assert comments_of(data) == expected(findings, inputs, options)
    assert packets_in(data, sound=True) == packets_in(FEED)
    assert done.packets == len(packets_in(FEED))
    assert data.count(b"\x0a\x0d\x0d\x0a") == 5


# ------------------------------------------------------------------------------------------------- damaged and hostile


def files_of(case: hostile.Case, folder: Path) -> list[Input]:
    found = []
    for number, data in enumerate(case.captures):
        path = folder / f"{case.name}.{number}"
        path.write_bytes(data)
        found.append(Input(path.name, path))
    return found


@pytest.mark.parametrize("level", hostile.LEVELS)
def test_damaged_captures_are_copied_as_far_as_they_are_read(level: str, tmp_path: Path) -> None:
    commented = 0
    for seed in SEEDS:
        case = hostile.case_of(level, seed)
        inputs = files_of(case, tmp_path)
        findings, data, done = annotated(inputs, case.options)
        packets = [packet for each in inputs for packet in packets_of(each)]
        assert packets_in(data, sound=True) == packets, case.name
        assert comments_of(data) == expected(findings, inputs, case.options), case.name
        commented += done.commented
    assert commented > 0


def test_frames_that_lost_bytes_are_where_they_were_cut(tmp_path: Path) -> None:
    case = hostile.case_of(*CUT)
    inputs = files_of(case, tmp_path)
    findings, data, _ = annotated(inputs, case.options)
    rows = {row["frame"]: row for batch in FrameReader(inputs, case.options) for row in batch.to_pylist()}
    cut = 0
    for finding in findings:
        row = rows[finding.guilty.frame]
        if row["missing"] and row["packet_first"] != row["packet_last"]:
            cut += 1
            texts = comments_of(data)[row["packet_first"]]
            assert any(" guilty, " in text and f"{finding.id}; guilty {row['packet_first']}" in text for text in texts)
    assert cut


# ------------------------------------------------------------------------------------------------------------- tshark


def _tshark(path: Path, *fields: str) -> Iterator[list[str]]:
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "aggregator=\x1f"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return (line.split("\t") for line in done.stdout.splitlines())


@pytest.mark.tool("tshark")
@pytest.mark.parametrize("name", ["09_feed_real_consumer.pcap", "broken/SEQ-10-ahead.pcapng", "12_any_cooked.pcap"])
def test_wireshark_shows_the_comments(name: str, tmp_path: Path) -> None:
    _, data, _ = of_library(HOME / name)
    path = tmp_path / "copy.pcapng"
    path.write_bytes(data)
    shown = {int(number): text.split("\x1f") for number, text in _tshark(path, "frame.number", "frame.comment") if text}
    assert shown == comments_of(data)
    fields = ("frame.number", "frame.time_epoch", "frame.cap_len", "frame.len", "frame.protocols")
    assert [*_tshark(path, *fields)] == [*_tshark(HOME / name, *fields)]


@pytest.mark.tool("capinfos")
def test_capinfos_is_content(tmp_path: Path) -> None:
    paths = []
    for number, source in enumerate((FEED, HOME / "broken" / "SEQ-10-ahead.pcapng")):
        paths.append(tmp_path / f"{number}.pcapng")
        paths[-1].write_bytes(of_library(source)[1])
    merged = tmp_path / "merged.pcapng"
    merged.write_bytes(annotated(inputs_of(*ring(tmp_path, FEED, 4)))[1])
    for path in (*paths, merged):
        done = subprocess.run(
            ["capinfos", "-c", "-M", str(path)], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert f"Number of packets:   {len(packets_in(path))}\n" in done.stdout


def test_the_example_of_the_documents_is_real(repo_root: Path) -> None:
    page = (repo_root / "docs" / "findings.md").read_text()
    (example,) = [line for line in page.splitlines() if "[uprscope " in line]
    assert example in comments_of(of_library(FEED)[1])[102]
