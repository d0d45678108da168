"""Findings say whose fault something is, and what to look at next: by role, by end, and in every format."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from analysis.check.checker import Checker
from analysis.check.export import junit, row_of, write
from analysis.check.findings import Finding, party_at_fault
from analysis.check.inspection import Inspection, check
from analysis.check.text_report import fault, findings
from analysis.check.transcript import Transcript, read
from analysis.context.roles import Roles
from analysis.rules import GLOBAL_RULES, RULES
from analysis.rules.expressions import NEVER
from analysis.rules.model import Check, Fault, Rule, Severity
from dissector.capture import expand
from dissector.filters import parse
from dissector.options import ReadOptions
from dissector.terminal.style import Terminal
from tests.support.checking import batches_of, single_rows
from tests.support.paths import ROOT
from uprscope import cli

BASIC = "captures/clean/basic.pcapng"
RELAY = "captures/clean/relay.pcapng"
TERMINAL = Terminal(width=100)
ITEMS = Check("items", NEVER, "seqno {by_seqno}", facts=("by_seqno",), root="connection")
#: Who is to blame, by group, rule or check; what is more special counts. Only some messages can come from either side.
PARTIES = {
    "FRM": "either",
    "CON": "either",
    "CON-06": "producer",
    "CON-09": "consumer",
    **dict.fromkeys(("OPQ-01", "OPQ-02", "OPQ-03", "OPQ-11"), "either"),
    **dict.fromkeys(("OPQ-04", "OPQ-06", "OPQ-07", "OPQ-09", "OPQ-10"), "producer"),
    **dict.fromkeys(("OPQ-05", "OPQ-08", "OPQ-12"), "consumer"),
    "SNP": "producer",
    "SNP-10": "consumer",
    "SEQ": "producer",
    "SEQ-10": "consumer",
    "FLC": "consumer",
    "FLC-02": "producer",
    "TKO": "producer",
    "NOP": "producer",
    **dict.fromkeys(("NOP-01", "NOP-02"), "consumer"),
    "FOL": "producer",
    **dict.fromkeys(("FOL-04/end", "FOL-04/snapshot", "FOL-07"), "consumer"),
    "XCN-01": "producer",
}
#: What is asked for and not given is the fault of the side that did not, though the guilty frame is the other's.
NOT_THE_SENDER = {
    "OPQ-02/": Fault.RECEIVER,
    "OPQ-11/": Fault.RECEIVER,
    "SNP-10/missing": Fault.CONSUMER,
    "SNP-10/overdue": Fault.CONSUMER,
}
ACKS = replace(ITEMS, over="acks", because="{bytes} bytes", facts=("bytes",))


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


def rule_of(*checks: Check, next_step: str = "") -> Rule:
    return Rule("TST-01", Severity.ERROR, "nothing is there", "Nothing.", checks, next_step=next_step)


def found(capture: str, rule: Rule) -> Inspection:
    return check(capture, rules=(rule,))


def shown(of: Sequence[Finding], capture: str) -> str:
    transcript = read(expand([capture]), ReadOptions(), of)
    return " ".join(" ".join(findings(of, transcript, TERMINAL)).split())


@pytest.mark.parametrize(
    ("named", "roles", "expected"),
    [
        (Fault.SENDER, Roles(1), ("producer", True)),
        (Fault.RECEIVER, Roles(1), ("consumer", False)),
        (Fault.PRODUCER, Roles(1), ("producer", True)),
        (Fault.CONSUMER, Roles(1), ("consumer", False)),
        (Fault.SENDER, Roles(0), ("consumer", True)),
        (Fault.PRODUCER, Roles(0), ("producer", False)),
        (Fault.SENDER, Roles(1, relayed=True), ("proxy", True)),
        (Fault.PRODUCER, Roles(0, relayed=True), ("proxy", False)),
        (Fault.CONSUMER, Roles(0, relayed=True), ("consumer", True)),
        (Fault.SENDER, Roles(), ("sender", True)),
        (Fault.RECEIVER, Roles(), ("receiver", False)),
        (Fault.PRODUCER, Roles(), ("producer", None)),
        (Fault.CAPTURE, Roles(1), ("capture", None)),
    ],
)
def test_who_is_at_fault_for_what_side_1_sent(named: Fault, roles: Roles, expected: tuple[str, bool | None]) -> None:
    assert party_at_fault(named, roles, 1) == expected


@pytest.mark.parametrize(
    ("capture", "rule", "expected"),
    [
        (BASIC, rule_of(ITEMS), {"producer"}),
        (BASIC, rule_of(replace(ITEMS, fault=Fault.RECEIVER)), {"consumer"}),
        (BASIC, rule_of(replace(ITEMS, fault=Fault.CAPTURE)), {"capture"}),
        (RELAY, rule_of(ITEMS), {"producer", "proxy"}),
        ("captures/clean/flow-control.pcapng", rule_of(ACKS), {"consumer"}),
        ("captures/07b_midconnection.pcap", rule_of(ITEMS), {"producer"}),
    ],
)
def test_roles_come_from_the_traffic(capture: str, rule: Rule, expected: set[str]) -> None:
    assert {each.fault for each in found(capture, rule).findings} == expected


def test_the_report_names_the_end_at_fault() -> None:
    sent = found(BASIC, rule_of(ITEMS)).findings[0]
    received = found(BASIC, rule_of(replace(ITEMS, fault=Fault.RECEIVER))).findings[0]
    neither = found(BASIC, rule_of(replace(ITEMS, fault=Fault.CAPTURE))).findings[0]
    assert "At fault: the producer, 10.0.0.2:11210. Connection 1" in shown([sent], BASIC)
    assert "At fault: the consumer, 10.0.0.1:40000. Connection 1" in shown([received], BASIC)
    assert "At fault: the capture. Connection 1" in shown([neither], BASIC)
    assert fault(sent, Transcript()) == "At fault: the producer."
    nobody = replace(sent, fault="sender")
    assert "At fault: the sender, whose role is not known, 10.0.0.2:11210." in shown([nobody], BASIC)
    proxies = [each for each in found(RELAY, rule_of(ITEMS)).findings if each.fault == "proxy"]
    assert "At fault: the proxy that plays the producer, " in shown(proxies, RELAY)


def test_a_next_step_has_facts_and_places_in_it() -> None:
    general = "look at {frame} in {capture}, {connection}, {finding}"
    special = replace(ITEMS, name="own", next_step="seqno {by_seqno} was it")
    made = found(BASIC, rule_of(ITEMS, special, next_step=general)).findings
    assert {each.check for each in made} == {"", "own"}
    for each in made:
        place = f"look at {each.guilty.frame} in {BASIC}, {each.connection}, {each.id}"
        assert each.next_step == (f"seqno {each.facts['by_seqno']} was it" if each.check else place)


def test_names_of_captures_are_quoted_and_shown_safely(tmp_path: Path) -> None:
    capture = tmp_path / "a {b}\x1b[31m.pcapng"
    capture.write_bytes(Path(BASIC).read_bytes())
    step = "uprscope dissect {capture}"
    finding = found(str(capture), rule_of(ITEMS, next_step=step)).findings[0]
    assert finding.next_step == f"uprscope dissect '{capture}'"
    text = shown([finding], str(capture))
    assert "Next: uprscope dissect '" in text
    assert "\x1b" not in text


def test_every_format_has_both() -> None:
    rule = rule_of(ITEMS, next_step="look at frame {frame}")
    inspection = found(BASIC, rule)
    finding = inspection.findings[0]
    step = f"look at frame {finding.guilty.frame}"
    row = row_of(finding)
    assert (row["fault"], row["next_step"]) == ("producer", step)
    assert f"at fault: producer; connection {finding.connection}" in junit(inspection, (rule,))
    assert f"; next: {step}" in junit(inspection, (rule,))
    stream = io.BytesIO()
    write("json", stream, inspection, (rule,))
    assert json.loads(stream.getvalue())["findings"][0]["next_step"] == step
    assert f"Next: look at frame {finding.guilty.frame}." in shown([finding], BASIC)


def test_the_page_has_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    cli.main(["report", "captures/broken/SEQ-01-repeated.pcapng", "-o", str(page)])
    capsys.readouterr()
    assert "<p>At fault: the producer, 10.0.0.2:11210.</p>" in page.read_text()


def test_who_is_at_fault_does_not_depend_on_how_frames_come() -> None:
    batches = batches_of(Path("captures/07b_midconnection.pcap"))
    told = []
    for cut in (batches, single_rows(batches)):
        checker = Checker((rule_of(ITEMS, replace(ACKS, name="acks")),))
        for batch in cut:
            checker.fold(batch)
        checker.finish()
        told.append([(each.id, each.fault) for each in checker.findings])
    assert told[0] == told[1]


@cache
def in_broken_captures() -> tuple[Finding, ...]:
    captures = sorted((ROOT / "captures/broken").glob("**/*.pcapng"))
    assert captures
    return tuple(each for capture in captures for each in check(str(capture)).findings)


def party_of(rule: str, of_check: str) -> str:
    return next(PARTIES[name] for name in (f"{rule}/{of_check}", rule, rule[:3]) if name in PARTIES)


def test_every_check_has_someone_to_blame_on_purpose() -> None:
    checks = {f"{rule.id}/{each.name}": (rule, each) for rule in (*RULES, *GLOBAL_RULES) for each in rule.checks}
    for rule, each in checks.values():
        party = party_of(rule.id, each.name)
        assert each.fault in (Fault.SENDER, Fault.RECEIVER) or each.fault.value == party, f"{rule.id}/{each.name}"
    for name, expected in NOT_THE_SENDER.items():
        assert checks[name][1].fault is expected
    receivers = {name for name, (_, each) in checks.items() if each.fault is Fault.RECEIVER}
    assert receivers <= NOT_THE_SENDER.keys()
    assert all(any(name.startswith(key) for name in checks) for key in PARTIES)


def test_findings_blame_who_is_to_blame() -> None:
    wrong = [
        f"{each.rule}/{each.check}: {each.fault}"
        for each in in_broken_captures()
        if party_of(each.rule, each.check) not in ("either", each.fault.replace("proxy", "producer"))
    ]
    assert not wrong
    assert {each.fault for each in in_broken_captures() if each.rule == "OPQ-11"} == {"producer"}
    requests = {
        (each.sentence.split(" with ")[0], each.fault) for each in in_broken_captures() if each.rule == "OPQ-02"
    }
    assert requests >= {("a control", "producer"), ("a set vbucket state", "consumer")}


def test_texts_have_no_absent_numbers_and_nothing_unfilled() -> None:
    for each in in_broken_captures():
        for text in (each.sentence, each.next_step):
            assert not re.search(r"(?<![\w^])-(\d|0x)", text), (each.id, text)
            assert not set("{}") & set(text), (each.id, text)
        assert each.sentence, each.id


def commands() -> Iterator[tuple[str, list[str]]]:
    place = {"frame": 9, "capture": BASIC, "connection": "1a9cfb727bb98fb2", "finding": "SEQ-01-06a74178"}
    for rule in (*RULES, *GLOBAL_RULES):
        for each in rule.checks:
            facts = dict.fromkeys((*each.facts, *each.spoken), 7)
            for command in re.findall("`([^`]*)`", each.next_step or rule.next_step if each.because else ""):
                assert not set(re.findall(r"\{(\w+)", command)) & set(each.words), f"{rule.id}: words in {command}"
                yield rule.id, shlex.split(command.format_map({**facts, **place}))


def test_commands_of_next_steps_exist() -> None:
    parser, _ = cli.whole_parser()
    used = set()
    for rule, (program, *words) in commands():
        assert program == "uprscope", rule
        args = parser.parse_args(words)
        used.add(words[0])
        if words[0] == "dissect" and args.filter is not None:
            parse(args.filter)
        if words[0] == "explain":
            assert cli.main(words) == 0
    templates = [
        step for rule in (*RULES, *GLOBAL_RULES) for step in (rule.next_step, *(c.next_step for c in rule.checks))
    ]
    assert all(re.search(r"\buprscope \w+ $", before) for each in templates for before in each.split("{capture}")[:-1])
    assert used >= {"dissect", "plot", "slice", "connections"}


def test_commands_can_be_copied_from_the_report() -> None:
    capture = "captures/broken/SEQ-01-backwards.pcapng"
    finding = check(capture).findings[0]
    (command,) = re.findall("`[^`]*`", finding.next_step)
    lines = list(findings([finding], read(expand([capture]), ReadOptions(), [finding]), Terminal(width=60)))
    assert any(command in line for line in lines)
