"""Findings that ``uprscope check --annotate`` wrote into a capture are the plugin's expert items: all, and each once.

What the plugin finds itself it does not say twice, and comments that are not ours are comments and nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from analysis.annotate.comment import PacketComment
from analysis.check.inspection import check
from analysis.codegen.lua_rules import CHECKED
from dissector.capture import open_capture
from dissector.capture.pcapng_writer import PcapngWriter
from tests.support.plugin import ROOT, can_be_merged, merge, tshark
from uprscope.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("wireshark")

LIBRARY = ROOT / "captures"
SYNTHETIC = sorted([*(LIBRARY / "clean").glob("*.pcapng"), *(LIBRARY / "broken").glob("*.pcapng")])
RECORDED = sorted((*LIBRARY.glob("*.pcap"), *LIBRARY.glob("*.pcapng")))
#: FRM-10 looks into every document, which the plugin does only if asked.
ALL_CHECKS = ("-2", "-o", "upr.inspect:TRUE", "-o", "tcp.reassemble_out_of_order:TRUE")
Rules = dict[int, Counter[str]]  #: by packet


def annotated(capture: Path, target: Path) -> Path:
    """Check a capture, and return the copy with comments."""
    assert main(["check", str(capture), "--annotate", str(target), "-o", f"{target}.txt", "--severity", "info"]) in (
        0,
        1,
    )
    return target


def shown(capture: Path, *names: str, arguments: Sequence[str] = ALL_CHECKS) -> dict[int, list[list[str]]]:
    """Return the values of fields by packet."""
    columns = [part for name in ("frame.number", *names) for part in ("-e", name)]
    text = tshark(capture, "-Y", "upr || frame.comment", "-T", "fields", *columns, *arguments)
    lines = (line.split("\t") for line in text.splitlines())
    found = {int(number): [part.split(",") if part else [] for part in parts] for number, *parts in lines}
    return {number: parts for number, parts in found.items() if any(parts)}


def unlike(capture: Path, target: Path) -> list[str]:
    """Return a line for everything that the findings and the plugin's items of the annotated capture do not share."""
    expected: Rules = {}
    totals: Counter[str] = Counter()
    proofs: dict[int, Counter[str]] = {}
    for finding in check(str(capture)).findings:
        expected.setdefault(finding.guilty.packet_last, Counter())[finding.rule] += 1
        totals[finding.rule] += 1 + (finding.echoes if finding.rule in CHECKED else 0)
        for frame in finding.frames:
            proofs.setdefault(frame.packet_last, Counter())[finding.id] += 1
    found = shown(annotated(capture, target), "upr.rule", "upr.finding", "upr.severity")
    rules: Rules = {number: Counter(parts[0]) for number, parts in found.items() if parts[0]}
    lines = [
        f"packet {number}: {dict(wanted - rules.get(number, Counter()))} is in the findings only"
        for number, wanted in expected.items()
        if wanted - rules.get(number, Counter())
    ]
    items: Counter[str] = sum(rules.values(), Counter())
    if items != totals:
        lines.append(f"more in the plugin {dict(items - totals)}, more in the check {dict(totals - items)}")
    notes = {number: Counter(parts[1]) for number, parts in found.items() if parts[1]}
    lines += [
        f"packet {number}: plugin {notes.get(number)}, check {proofs.get(number)}"
        for number in {*notes, *proofs}
        if notes.get(number) != proofs.get(number)
    ]
    assert all(len(parts[0]) == len(parts[2]) for parts in found.values())
    return lines


def test_items_of_the_library_are_its_findings(tmp_path: Path) -> None:
    merge(SYNTHETIC, tmp_path / "library.pcap")
    assert unlike(tmp_path / "library.pcap", tmp_path / "annotated.pcapng") == []


def test_items_of_recordings_are_their_findings(tmp_path: Path) -> None:
    merge([path for path in RECORDED if can_be_merged(path)], tmp_path / "recorded.pcap")
    assert unlike(tmp_path / "recorded.pcap", tmp_path / "annotated.pcapng") == []


def test_an_item_hangs_on_the_field_that_is_wrong_and_links_to_the_proof(tmp_path: Path) -> None:
    capture = annotated(LIBRARY / "broken" / "SEQ-10-ahead.pcapng", tmp_path / "a.pcapng")
    (guilty, *_), (proof, *_) = (
        [number for number, (each, *_) in shown(capture, "upr.rule", "upr.finding").items() if bool(each) == is_guilty]
        for is_guilty in (True, False)
    )
    lines = tshark(capture, "-V", "-Y", f"frame.number == {guilty}").splitlines()
    at = next(index for index, line in enumerate(lines) if "Expert Info (Error/Sequence): SEQ-10" in line)
    assert lines[at - 1].strip() == "Prepared seqno: 13"
    assert shown(capture, "upr.evidence")[guilty] == [[str(proof)]]
    assert [str(guilty)] in [values[:1] for values in shown(capture, "upr.evidence")[proof]]
    severity = tshark(capture, "-Y", 'upr.severity == "error"', "-T", "fields", "-e", "frame.number")
    assert severity.split() == [str(guilty)]
    assert "Proves SEQ-10 (last)" in tshark(capture, "-V", "-Y", "upr.expert.evidence")


def test_own_items_hang_on_the_field_that_is_wrong() -> None:
    """Without any comment, too."""
    places = {
        "SEQ-01-repeated": ("SEQ-01", "By seqno: "),
        "SNP-03": ("SNP-03", "Snap start seqno: "),
        "OPQ-04-item": ("OPQ-04", "Opaque: "),
        "FLC-07": ("FLC-07", "Buffer bytes: "),
        "FRM-08-open": ("FRM-08", "Open flags: "),
        "FRM-13-end": ("FRM-13", "End reason: "),
    }
    for name, (rule, place) in places.items():
        lines = tshark(LIBRARY / "broken" / f"{name}.pcapng", "-V", "-Y", "upr.rule").splitlines()
        at = next(index for index, line in enumerate(lines) if "Expert Info" in line and rule in line)
        indent = len(lines[at]) - len(lines[at].lstrip())
        owner = next(line for line in reversed(lines[:at]) if len(line) - len(line.lstrip()) < indent)
        assert owner.strip().lower().startswith(place.lower()), (name, owner)


def with_comments(capture: Path, target: Path, comments: dict[int, list[str]]) -> Path:
    """Copy a capture, with comments on packets: several are joined, as only one can be written here."""
    with target.open("wb") as stream, open_capture(capture) as reader:
        writer = PcapngWriter(stream)
        for block in reader:
            for at in range(len(block)):
                writer.write(block, at, "".join(comments.get(block.first_number + at, [])))
    return target


#: What a comment of ours on packet 20 of basic.pcapng would be.
GENUINE = PacketComment(
    "SEQ-10",
    "error",
    "guilty",
    "mutation vb 0 seqno 9",
    "a sentence.",
    "SEQ-10-0a1b2c3d",
    (("guilty", 20), ("last", 19)),
)


def changed(**parts: object) -> str:
    known = {name: getattr(GENUINE, name) for name in GENUINE.__slots__}
    return str(PacketComment(**(known | parts)))  # type: ignore[arg-type]


FORGED = {
    "foreign": "SEQ-10 looks wrong here, see ticket 12",
    "edited": str(GENUINE).replace("a sentence", "A sentence"),
    "cut": str(GENUINE)[:-3],
    "more": str(GENUINE) + " and more",
    "another packet's": changed(packets=(("guilty", 21), ("last", 19))),
    "another role's": changed(packets=(("last", 20), ("guilty", 19))),
    "no such rule": changed(rule="ABC-99", finding="ABC-99-0a1b2c3d"),
    "another rule's finding": changed(finding="SEQ-11-0a1b2c3d"),
    "packet 0": changed(packets=(("guilty", 20), ("last", 0))),
    "no packet's number": changed(packets=(("guilty", 20), ("last", 10**15))),
    "very many packets": changed(packets=(("guilty", 20), *(("last", number) for number in range(21, 90)))),
    "no severity": changed(severity="fatal"),
    "patterns": "%d%s [uprscope %; %b(); 00000000]",
    "nothing but brackets": "[" * 1500 + "]" * 400,
    "invisible": "SEQ-10 error guilty, mutation\u202e vb 0: \u200b [uprscope SEQ-10-0a1b2c3d; guilty 20; 00000000]",
}


def test_a_genuine_comment_becomes_an_item(tmp_path: Path) -> None:
    capture = with_comments(LIBRARY / "clean" / "basic.pcapng", tmp_path / "a.pcapng", {20: [str(GENUINE)]})
    assert shown(capture, "upr.rule", "upr.finding", "upr.evidence", arguments=()) == {
        20: [["SEQ-10"], ["SEQ-10-0a1b2c3d"], ["19"]]
    }


@pytest.mark.parametrize("forgery", FORGED)
def test_other_comments_become_nothing(forgery: str, tmp_path: Path) -> None:
    capture = with_comments(LIBRARY / "clean" / "basic.pcapng", tmp_path / "a.pcapng", {20: [FORGED[forgery]]})
    assert shown(capture, "upr.rule", "upr.finding", "upr.evidence") == {}
    assert "SEQ-10" not in tshark(capture, "-q", "-z", "expert,error")
