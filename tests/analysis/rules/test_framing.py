"""The rules FRM: every fault is found where it is, and traffic that behaves is left alone, whatever happens to it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from analysis.rules import RULES, Severity
from analysis.rules.defect_checks import SENTENCES
from dissector.capture import expand
from dissector.frames.reader import FrameReader
from dissector.generate.faults import FAULTS, fault
from dissector.generate.scenario import Fault
from dissector.generate.segments import placed
from dissector.options import ReadOptions
from dissector.spec.defects import DEFECTS
from dissector.spec.model import Severity as Gravity
from tests.support import checking

MINE = [rule for rule in RULES if rule.group == "FRM"]
BY_ID = {rule.id: rule for rule in RULES}
DOCUMENTS = {"snappy", "xattr", "xattr-pair", "json"}  #: of FRM-10: found only where documents are looked into
FOUND = [each for each in FAULTS if each.rule.startswith("FRM") and each.variant not in DOCUMENTS]
#: What a scenario is about, and cannot be without: a server's own defect, and numbers of vbuckets.
INHERENT = {("framed-deletions", "FRM-01", Severity.WARNING), ("test-cluster", "FRM-15", Severity.INFO)}
#: A bracket that is neither a start nor an end breaks no turn; SNP-11 says otherwise, which is that rule's affair.
ALSO = {("FRM-13", "oso"): {"SNP-11"}}
INSPECTED = {
    "snappy": "snappy-invalid",
    "xattr": "xattr-invalid",
    "xattr-pair": "xattr-invalid",
    "json": "json-invalid",
}


def named(one: Fault) -> str:
    return f"{one.rule}-{one.variant}".rstrip("-")


def test_there_are_fifteen() -> None:
    assert [rule.id for rule in MINE] == [f"FRM-{number:02}" for number in range(1, 16)]


def test_every_defect_of_a_rule_has_a_sentence() -> None:
    assert {spec.id for spec in DEFECTS if spec.rule} == set(SENTENCES)


def test_mild_defects_never_become_errors() -> None:
    """A warning of the dissector is at most a warning here, and what it only notes is nothing."""
    mild = {spec.id for spec in DEFECTS if spec.severity is not Gravity.ERROR}
    for rule in MINE:
        for check in rule.checks:
            if (check.severity or rule.severity) is Severity.ERROR:
                told = {text for words in check.words.values() for text in words.values()}
                column = check.facts[0]
                assert not column.startswith("oddity"), (rule.id, told & {SENTENCES.get(name, "") for name in mild})


@pytest.mark.parametrize("one", FOUND, ids=named)
def test_finds_the_fault(one: Fault) -> None:
    talks, done = checking.broken(one)
    result = checking.findings_of(talks)
    found = result.of(one.rule)
    guilty = done.emissions[0]
    if (one.rule, one.variant) == ("FRM-02", "magic"):
        # Bytes without a magic are no frame: the one behind them tells.
        sent = next(each for each in placed(done.conversation, 0) if each.emission is guilty)
        assert [result.frames[each.guilty.frame][-1] for each in found] == [sent.end]
    else:
        assert [each.guilty.frame for each in found] == [checking.frame_of(result, talks, guilty)]
    assert all(each.sentence and "{" not in each.sentence for each in found)
    rank = BY_ID[one.rule].severity.rank
    others = {each.rule for each in result.findings if each.severity.rank <= rank} - {one.rule}
    assert others <= {*one.implies, *ALSO.get((one.rule, one.variant), set())}


@pytest.mark.parametrize("variant", INSPECTED)
def test_finds_values_that_are_not_what_they_say(variant: str) -> None:
    """Values are looked into where frames are read; here the defect is put into the row by hand."""
    talks, done = checking.broken(fault("FRM-10", variant))
    batches = checking.batches_of(checking.captured(talks))
    frame = checking.frame_of(checking.check(batches, MINE), talks, done.emissions[0])
    marked = [_marked(batch, frame, INSPECTED[variant]) for batch in batches]
    found = checking.check(marked, MINE).findings
    assert [(each.rule, each.severity, each.guilty.frame) for each in found] == [("FRM-10", Severity.WARNING, frame)]


def _marked(batch: pa.RecordBatch, frame: int, defect: str) -> pa.RecordBatch:
    numbers, defects = batch.column("frame").to_pylist(), batch.column("defects").to_pylist()
    told = [[defect] if number == frame else old for number, old in zip(numbers, defects, strict=True)]
    at = batch.schema.get_field_index("defects")
    return batch.set_column(at, batch.schema.field(at), pa.array(told, batch.schema.field(at).type))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("01_basic.pcap", set()),
        ("07d_capture_loss.pcap", set()),
        ("07e_reorder_dup.pcap", set()),
        ("10_upr_early_dialect.pcap", set()),
        ("23_sync_writes_v705.pcap", set()),
        ("26_collections_v705.pcap", set()),
        ("27_replication_takeover_v705.pcap", set()),
        ("02b_flow_control_broken.pcap", {("FRM-03", "a buffer ack without extras")}),
        (
            "09_feed_real_consumer.pcap",
            {
                ("FRM-03", "a mutation with 22 bytes of extras; it has 31 or 32"),
                ("FRM-04", "a mutation without a key"),
                (
                    "FRM-05",
                    "an answer to a stream request whose 15 bytes of value do not divide into whole entries of 16",
                ),
                ("FRM-13", "a set vbucket state with vbucket state 9; states are 1 (active), 2 (replica), 3 ("),
            },
        ),
    ],
)
def test_recordings(shared_dir: Path, file: str, expected: set[tuple[str, str]]) -> None:
    """No errors but those that the recordings were made with."""
    found = checking.check(checking.batches_of(shared_dir / "captures" / file), MINE).findings
    errors = [each for each in found if each.severity is Severity.ERROR]
    assert {each.rule for each in errors} == {rule for rule, _ in expected}
    for rule, text in expected:
        assert any(each.rule == rule and each.sentence.startswith(text) for each in errors), (rule, text)


@pytest.mark.shared
def test_finds_an_ack_with_its_count_as_value(shared_dir: Path) -> None:
    """The form is of early UPR alone; servers refuse it. One violation, of the rule about layouts."""
    path = shared_dir / "captures" / "defects" / "frm03_ack_as_value.pcap"
    found = checking.check(checking.batches_of(path), MINE).findings
    assert [(each.rule, each.severity, each.guilty.frame) for each in found] == [("FRM-03", Severity.ERROR, 67)]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["41_basic_v810m", "44_stream_id_v810m"])
def test_keys_alone_and_long_stream_ids(shared_dir: Path, name: str) -> None:
    """Streams of keys alone have items with CAS 0, and of a stream id servers keep 16 bits."""
    found = checking.check(checking.batches_of(shared_dir / "captures" / f"{name}.pcap")).findings
    assert not {each.rule for each in found} & {"FRM-07", "SEQ-04", "SEQ-05", "SEQ-06", "OPQ-04"}
    wide = [each.guilty.frame for each in found if each.rule == "FRM-13"]
    assert wide == ([1049] if name == "44_stream_id_v810m" else [])  # {"sid": 70000}, and nothing else


#: What the recordings of 2026 have: by rule, how many findings of a severity, and why.
RECENT: dict[str, dict[tuple[str, Severity], int]] = {
    "41_basic_v810m": {},
    # The request with the value "{bad", which the server refuses.
    "43_collections_flatbuffers_v810m": {("FRM-10", Severity.WARNING): 1},
    # The server's own defect, once for each kind of message of a stream, and the stream id of more than 16 bits.
    "44_stream_id_v810m": {("FRM-01", Severity.WARNING): 13, ("FRM-13", Severity.WARNING): 1},
    "47_cache_transfer_v810m": {},
}


@pytest.mark.shared
@pytest.mark.parametrize("name", RECENT)
def test_recent_recordings_have_what_their_client_did_and_nothing_else(shared_dir: Path, name: str) -> None:
    options = ReadOptions(inspect=True)
    batches = list(FrameReader(expand([str(shared_dir / "captures" / f"{name}.pcap")]), options))
    found = checking.check(batches).findings
    assert Counter((each.rule, each.severity) for each in found) == RECENT[name]
