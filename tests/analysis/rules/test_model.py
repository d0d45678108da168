"""The rules as declarations: complete, unambiguous, and about things that exist."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import cache

import pytest

from analysis.context import COLUMNS, Context, Table
from analysis.context.codes import Pairing, UnknownReason
from analysis.context.schema import ARCHIVE_TABLES, TABLES, Vocabulary
from analysis.rules import GLOBAL_RULES, RULE_BY_ID, RULES, message_words
from analysis.rules.conditions import stream_flags
from analysis.rules.expressions import ALWAYS, Term, col, either
from analysis.rules.model import PLACE, REASONS, Check, Rule, Severity, Unknown
from analysis.rules.row_sets import PARTS, table_of
from dissector.capture import expand
from dissector.frames.reader import FrameReader
from dissector.generate.scenarios import SCENARIOS
from dissector.options import ReadOptions
from tests.support.paths import ROOT

#: Traffic of every kind, so that every table has rows.
CAPTURES = (
    "basic",
    "sync-writes",
    "takeover",
    "relay",
    "oso",
    "flow-control",
    "draft",
    "close-resume",
    "rollback",
    "purged-history",
    "noop-idle",
    "server-consumer",
)
CHECKS = [pytest.param(rule, check, id=f"{rule.id}/{check.name}") for rule in RULES for check in rule.checks]
GLOBAL_CHECKS = [pytest.param(rule, check, id=rule.id) for rule in GLOBAL_RULES for check in rule.checks]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
each_check = pytest.mark.parametrize(("rule", "check"), CHECKS)


@cache
def tables() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """The columns and references that the context's tables have."""
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    names = [f"captures/clean/{name}.pcapng" for name in CAPTURES]
    names += [f"captures/broken/{name}.pcapng" for name in ("FRM-01-stray", "OPQ-10", "CON-03-ack", "CON-05-noop")]
    for name in [*names, "captures/09_feed_real_consumer.pcap", "captures/02b_flow_control_broken.pcap"]:
        context = Context()
        for batch in FrameReader(expand([str(ROOT / name)]), ReadOptions(columns=COLUMNS)):
            found |= {name: _names(table) for name, table in context.fold(batch)}
        found |= {name: _names(table) for name, table in context.finish()}
    return found


def _names(table: Table) -> tuple[frozenset[str], frozenset[str]]:
    for name in table._sources:
        assert table[name] is not None  # columns are made when they are asked for: of frames' columns that are read
    return frozenset(table._sources), frozenset(table.ref_names)


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def columns_of(check: Check) -> Iterator[str]:
    yield from check.facts
    yield from check.spoken
    yield from check.holds.columns
    if check.when is not None:
        yield from check.when.columns
    for unknown in check.unknown:
        yield from unknown.when.columns
    if check.root is not None:
        yield check.root


def test_ids_are_unique() -> None:
    assert len(RULE_BY_ID) == len(RULES)
    assert all(re.fullmatch(r"[A-Z]{3}-\d\d", rule.id) for rule in RULES)


@each_rule
def test_a_rule_is_told_in_full(rule: Rule) -> None:
    assert isinstance(rule.severity, Severity)
    assert rule.title
    assert not rule.title.endswith(".")
    assert len(rule.title) <= 80
    assert rule.doc.endswith(".")
    assert rule.source
    assert not rule.source.endswith(".")
    assert rule.checks
    assert set(rule.dialects) <= {"draft", "upr-proto", "upr", "dcp"}
    assert all(re.fullmatch(r"MB-\d+", bug) for bug in rule.bugs)
    names = [check.name for check in rule.checks]
    assert len(names) == len(set(names)), "the checks of a rule need names of their own"


@each_rule
def test_excuses_can_be_made(rule: Rule) -> None:
    known = {scenario.name for scenario in SCENARIOS}
    for excuse in rule.excuses:
        assert excuse.title
        assert not excuse.scenario or excuse.scenario in known


@each_check
def test_a_check_is_well_formed(rule: Rule, check: Check) -> None:
    assert isinstance(check.holds, Term)
    assert check.when is None or isinstance(check.when, Term)
    assert isinstance(check.unknown, tuple)
    assert all(isinstance(each, Unknown) and each.reason in REASONS for each in check.unknown)
    assert check.because or str(check.holds) == str(ALWAYS), "a check that can fail says why"
    assert not check.because.endswith(".")
    told = {*check.facts, *check.spoken}
    assert fields(check.because) | set(check.words) <= told, f"{rule.id} speaks of what are no facts"
    assert not check.between or check.between in check.evidence
    assert check.severity is None or isinstance(check.severity, Severity)


@pytest.mark.parametrize(("rule", "check"), [*CHECKS, *GLOBAL_CHECKS])
def test_a_next_step_can_be_filled_in(rule: Rule, check: Check) -> None:
    step = check.next_step or rule.next_step
    assert step or not check.because, f"{rule.id} does not say what to look at next"
    assert not step.endswith(".")
    assert step.count("`") % 2 == 0
    assert fields(step) <= {*check.facts, *PLACE}, f"the next step of {rule.id} speaks of what are no facts"
    assert not {*check.facts} & {*PLACE}, "a fact must not hide the place"


@pytest.mark.parametrize(("rule", "check"), [*CHECKS, *GLOBAL_CHECKS])
def test_sentences_say_what_came_and_what_was_expected(rule: Rule, check: Check) -> None:
    assert not check.because[:1].isupper(), rule.id
    assert not {*re.findall(r"\{(\w+):", check.because)} & {*check.words}, "words can't be written as numbers"
    if rule.group in ("OPQ", "SNP", "SEQ", "FOL", "XCN") and check.because:
        assert "; " in check.because, f"{rule.id} does not say what was expected"


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        pytest.param(*each.values, id=each.id)
        for each in CHECKS
        if each.id in ("SEQ-03/early", "SEQ-10/ahead", "SNP-10/early") or str(each.id).startswith("SNP-06")
    ],
)
def test_a_seqno_that_there_is_none_of_is_no_number(rule: Rule, check: Check) -> None:
    told = check.sentence({**dict.fromkeys((*check.facts, *check.spoken), 7), "previous_seqno": -1})
    assert re.search(r"\(last seqno[a-z ]*: none\)", told), rule.id
    assert "-1" not in told


def test_flags_and_reasons_have_names() -> None:
    assert message_words.MARKER_FLAGS[0x25] == "0x25 (memory, checkpoint, may_contain_duplicates)"
    assert message_words.STREAM_FLAGS[0] == "0x00"
    assert message_words.STREAM_FLAGS[0x80000001] == "0x80000001 (takeover, unnamed bits)"
    assert message_words.STREAM_FLAGS[-1] == "that were not captured"
    assert len([*message_words.MARKER_FLAGS]) == len(message_words.MARKER_FLAGS)
    assert message_words.STATUSES[0x22] == "out_of_range (0x22)"
    assert message_words.END_REASONS[1] == "closed (1)"


def test_words_have_facts_in_them() -> None:
    words = {"kind": {1: "mutation of {size} bytes", 2: "a {other}"}, "other": {0: "zero", 1: "one of {size}"}}
    check = Check("items", ALWAYS, "{kind}, {size}", facts=("kind", "size", "other"), words=words)
    assert check.sentence({"kind": 1, "size": 9, "other": 0}) == "mutation of 9 bytes, 9"
    assert check.sentence({"kind": 2, "size": 9, "other": 0}) == "a zero, 9"
    assert check.sentence({"kind": 2, "size": 9, "other": 1}) == "a one of 9, 9"
    assert check.sentence({"kind": 3, "size": 9, "other": 0}) == "3, 9"
    # Names of files are put in as they are, braces and all.
    assert check.filled_in("{kind} in {capture}", {"kind": 1, "size": 9, "other": 0}, {"capture": "{size}.pcap"}) == (
        "mutation of 9 bytes in {size}.pcap"
    )


@pytest.mark.parametrize(("rule", "check"), [*CHECKS, *GLOBAL_CHECKS])
def test_what_a_check_is_about_is_declared(rule: Rule, check: Check) -> None:
    table = (TABLES | ARCHIVE_TABLES)[table_of(check.over)]
    assert set(columns_of(check)) <= set(table.column_names), f"{rule.id} speaks of columns that are not declared"
    assert {*check.evidence, check.guilty} <= set(table.ref_names)


@pytest.mark.parametrize("part", PARTS)
def test_what_a_part_is_cut_out_by_is_declared(part: str) -> None:
    table, term, _ = PARTS[part]
    assert term.columns
    assert term.columns <= set(TABLES[table].column_names)


@pytest.mark.parametrize("name", TABLES)
def test_what_is_declared_is_there(name: str) -> None:
    columns, refs = tables()[name]
    assert set(TABLES[name].column_names) <= columns
    assert set(TABLES[name].ref_names) <= refs


def test_no_table_is_undeclared() -> None:
    assert tables().keys() == TABLES.keys()


def test_a_column_is_called_the_same_everywhere() -> None:
    words: dict[str, Vocabulary] = {}
    for table in (*TABLES.values(), *ARCHIVE_TABLES.values()):
        names = [*table.column_names]
        assert len(names) == len(set(names))
        for column in table.columns:
            assert words.setdefault(column.name, column.words) == column.words, f"{table.name}.{column.name}"


def test_terms_know_their_columns() -> None:
    assert either(col.a > col.b, col.c.named("else"), ~col.d.has(1) & col.e.one_of((1, 2))).columns == set("abcde")


def test_numbers_are_printed_by_name() -> None:
    assert str(col.unknown.equals(UnknownReason.GAP)) == "unknown = gap"
    assert str(col.pairing.one_of((Pairing.TO_DATA, Pairing.ANSWERED))) == "pairing in {answered, to_data}"
    assert str(col.flags.has(stream_flags("takeover"))) == "flags has takeover"
    assert str(col.flags.has(stream_flags("takeover", "to_latest"))) == "flags has any of {takeover, to_latest}"
    assert str(col.flags.has(1 << 31)) == "flags has 0x80000000"
    assert str(col.waited_ns <= 60 * 10**9) == "waited_ns <= 60 s"
    assert str(col.since >= 605) == "since >= 6.5"
    assert str(col.status.equals(0x7777)) == "status = 30583"
    assert str(col.status > 0) == "status > 0"
