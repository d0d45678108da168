"""Captures on each of which the checker was once wrong: single connections of recordings, edited or damaged.

Each stands with everything that there is to find in it at error or warning: rule, and the frame to blame.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.check.inspection import check
from analysis.rules import Severity
from dissector.options import ReadOptions
from tests.support.paths import DATA
from tests.support.soundness import captures, transformations
from tests.support.soundness.verdicts import judge, known_messages

FOLDER = DATA / "defects"

#: What is right.
RIGHT: dict[str, set[tuple[str, int]]] = {
    # A status without a name is told as such, and ends nothing.
    "crash_unknown_status": {("FRM-13", 10)},
    # One packet with an answer is missing; the close that explains what follows was captured.
    "opq07_one_lost_packet": set(),
    # After the rollback it is another stream that acknowledges.
    "seq10_one_lost_packet": set(),
    # One direction is stamped a millisecond late: which came first is not known.
    "snp10_skew_1ms": set(),
    # Fields that the snap length cut off are not there.
    "snp07_snaplen128": set(),
    # Six deletions with a stream id have framing length 0 in their headers, which the server really wrote.
    "opq04_snaplen128": {("FRM-01", frame) for frame in (60, 98, 113, 131, 178, 194)},
    # The capture begins inside a snapshot of the early dialect, which its marker ends.
    # Its client asks for more than it was sent back to.
    "snp05_early_midstart": {("FOL-07", 311)},
    # The early dialect's form of an ack, on a connection that has agreed upon another one.
    "frm03_ack_as_value": {("FRM-03", 67)},
    # One request of 40 bytes does not make a connection with ranges in its markers an early one.
    "frm03_streamreq40": {("FRM-03", 3)},
    # Deletions that keep the CAS of what they delete do not make the other keys foreign.
    "seq04_foreign": {("SEQ-04", 283)},
    # A message that nobody knows may have been counted.
    "flc01_unknown_opcode": {("FRM-02", 40)},
}


def told(*names: str, separate: bool = False) -> list[tuple[str, int]]:
    """Everything at error or warning that is found, by rule and frame."""
    inspection = check([FOLDER / f"{name}.pcap" for name in names], options=ReadOptions(separate=separate))
    return [(each.rule, each.guilty.frame) for each in inspection.findings if each.severity is not Severity.INFO]


@pytest.mark.parametrize("name", RIGHT)
def test_finds_what_is_there_and_nothing_else(name: str) -> None:
    assert sorted(told(name)) == sorted(RIGHT[name])


def test_an_early_stream_without_its_end_is_found() -> None:
    """The stream of vbucket 0 delivers everything up to its end seqno, and no stream end; FOL-04 is its client's."""
    found = [each for each in check(FOLDER / "opq10_early.pcap").findings if each.severity is Severity.ERROR]
    assert [(each.rule, each.vbucket) for each in found] == [("FOL-04", 0), ("OPQ-10", 0)]


def test_files_that_stand_alone_do_not_know_each_other() -> None:
    """Of two equal files each has the same findings, as many frames later."""
    alone = told("separate_a")
    frames = check(FOLDER / "separate_a.pcap").frames
    both = told("separate_a", "separate_b", separate=True)
    assert sorted(both) == sorted([*alone, *((rule, frame + frames) for rule, frame in alone)])


def test_a_step_of_the_clock_is_no_silence() -> None:
    packets = captures.read(FOLDER / "separate_a.pcap")
    known = known_messages(packets)
    whole = {(each.rule, each.place) for each in judge(packets, known).violations}
    stepped = {
        (each.rule, each.place)
        for number in range(40)
        for each in judge(transformations.apply("clock-step", packets, number), known).findings
    }
    assert stepped <= whole


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("44_stream_id_v810m", {"OPQ-04"}),  # the server takes the stream id modulo 65,536
        ("41_basic_v810m", {"FRM-07", "SEQ-06"}),  # key-only streams have CAS 0 and revision 1 throughout
    ],
)
def test_habits_of_newer_servers_are_no_mistakes(name: str, rules: set[str], shared_dir: Path) -> None:
    found = {each.rule for each in check(shared_dir / "captures" / f"{name}.pcap").findings}
    assert not found & rules
