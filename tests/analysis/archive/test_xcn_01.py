"""XCN-01 over archives that break it and archives that must stay silent, all of them in one Spark job.

A case is a bucket of its own, so that the cases of the job do not meet. The generator's documents are the same on every
connection of a bucket; a case shows them on two taps, and changes what the second one sees.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analysis.archive import xcn_01
from analysis.archive.document_versions import VERSION, versions
from analysis.archive.seqno_spans import with_interval
from analysis.check.findings import Finding
from dissector.generate.conversation import Conversation
from dissector.generate.frame import Frame
from tests.support.archive_cases import read, with_ring, write_capture, write_table
from tests.support.checking import clean

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Conversations = list[Conversation]


def frames_of(conversations: Conversations, name: str) -> list[Frame]:
    return [
        emission.frame for conversation in conversations for emission in conversation if emission.frame.name == name
    ]


def first(conversations: Conversations, name: str = "mutation") -> Frame:
    return next(
        frame for frame in frames_of(conversations, name) if not frame.response and (frame.value or name != "mutation")
    )


def change(**values: object) -> Callable[[Conversations], None]:
    """Change the first mutation: its own attributes, or fields."""

    def act(conversations: Conversations) -> None:
        frame = first(conversations)
        for name, value in values.items():
            if hasattr(frame, name):
                setattr(frame, name, value)
            else:
                assert isinstance(value, int)
                frame.fields[name] = frame.fields.get(name, 0) + value

    return act


def to_deletion(conversations: Conversations) -> None:
    frame = first(conversations)
    frame.name, frame.value = "deletion", b""
    frame.fields = {name: frame.fields[name] for name in ("by_seqno", "rev_seqno")}
    frame.datatype = 0


def to_expiration(conversations: Conversations) -> None:
    frame = first(conversations, "deletion")
    frame.name = "expiration"


def other_values(conversations: Conversations) -> None:
    for frame in frames_of(conversations, "mutation"):
        frame.value = frame.value.swapcase()


def other_log(conversations: Conversations) -> None:
    """The second tap is on a bucket of another history: same seqnos, other uuids, other documents."""
    other_values(conversations)
    for frame in frames_of(conversations, "stream_request"):
        if frame.response and frame.value:
            frame.value = bytes([frame.value[0] ^ 1]) + frame.value[1:]


def untold(conversations: Conversations) -> None:
    """The second tap began to capture after the set-up."""
    other_values(conversations)
    for conversation in conversations:
        conversation.emissions = [
            each for each in conversation.emissions if each.frame.name in ("mutation", "snapshot_marker")
        ]


@dataclass(frozen=True)
class Case:
    name: str
    act: Callable[[Conversations], None] = lambda _: None
    scenario: str = "multiplex"
    says: str = ""  #: how the sentence goes on; nothing: silent
    echoes: int = 0
    found: list[Finding] = field(default_factory=list)


CASES = (
    Case("two taps"),
    Case("branches", scenario="rollback"),
    Case("legs", scenario="relay"),
    Case("sync writes", scenario="sync-writes"),
    Case("collections", scenario="collections"),
    Case("resumed", scenario="close-resume"),
    Case("shared opaque", other_values, scenario="shared-opaque"),
    Case("no value", change(value=b"")),
    Case("compressed", change(value=b"\x01\x00x", datatype=2)),
    Case("xattrs", change(value=b"\x00\x00\x00\x00{}", datatype=5)),
    Case("nru", change(nru=1)),
    Case("expired", to_expiration),
    Case("another history", other_log),
    Case("no set-up", untold),
    Case("key", change(key=b"other"), says="another key"),
    Case("revision", change(rev_seqno=7), says="revision 8 and not 1"),
    Case("cas", change(cas=12345), says="another CAS"),
    Case("value", change(value=b"{}"), says="another value"),
    Case("flags", change(item_flags=2), says="item flags 0x2 and not 0x0"),
    Case("expiry", change(expiration=60), says="expiry 60 and not 0"),
    Case("deleted", to_deletion, says="deleted on one of them only"),
)


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Finding]]:
    """What is found in each case; one job for all of them."""
    folder = tmp_path_factory.mktemp("identity")
    batches, connections = [], []
    for number, case in enumerate(CASES):
        for tap in range(2):
            conversations = copy.deepcopy(clean(case.scenario))
            if tap:
                case.act(conversations)
            path = write_capture(folder / f"{number}" / f"tap{tap}.pcap", conversations, port=500 * tap)
            ring = f"{number}-{tap}"
            for batch in read(path):
                batches.append(with_ring(batch, ring))
                connections += [(ring, name, case.name) for name in set(batch.column("connection").to_pylist())]
    frames = spark.read.parquet(str(write_table(folder / "frames.parquet", batches)))
    named = spark.createDataFrame(sorted(set(connections)), "ring string, connection string, bucket string")
    path = str(folder / "roots")
    shown = versions(frames, named)
    xcn_01.roots(xcn_01.compare_intervals(with_interval(shown, None))).write.parquet(path)
    roots = spark.read.parquet(path)
    sums = {row["bucket"]: row for row in roots.groupBy("bucket").sum("checked", "undecided").collect()}
    assert sums["two taps"]["sum(checked)"] > 40
    assert sums["two taps"]["sum(undecided)"] == 0
    assert sums["another history"]["sum(checked)"] == 0
    assert sums["no set-up"]["sum(undecided)"] > 40
    assert sums["shared opaque"]["sum(undecided)"] > 10
    made: dict[str, list[Finding]] = {case.name: [] for case in CASES}
    for finding in xcn_01.findings(shown, roots.where("violated > 0")):
        number = Path(finding.guilty.capture).parent.name
        made[CASES[int(number)].name].append(finding)
    assert not shown.where("branch is not null").select(*VERSION).where("by_seqno is null").head(1)
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(found: dict[str, list[Finding]], case: Case) -> None:
    if not case.says:
        assert [finding.sentence for finding in found[case.name]] == []
        return
    (finding,) = found[case.name]
    assert finding.rule == "XCN-01"
    assert f": {case.says};" in finding.sentence
    captures = [Path(frame.capture).name for frame in finding.frames]
    assert sorted(captures) == ["tap0.pcap", "tap1.pcap"]
    assert [frame.role for frame in finding.frames] == ["guilty", "other"]
    assert finding.facts["by_seqno"] > 0
    assert finding.echoes == case.echoes
