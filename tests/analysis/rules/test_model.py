"""The rules as declarations: complete, unambiguous, and about things that exist."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import cache

import pytest

from analysis.context import COLUMNS, Context, Table
from analysis.rules import RULE_BY_ID, RULES
from analysis.rules.expressions import ALWAYS, Term
from analysis.rules.model import REASONS, Check, Rule, Severity, Unknown
from analysis.rules.row_sets import PARTS, TABLES
from dissector.capture import expand
from dissector.frames.reader import FrameReader
from dissector.generate.scenarios import SCENARIOS
from dissector.options import ReadOptions
from tests.support.paths import ROOT

#: Traffic of every kind, so that every table has rows.
CAPTURES = ("basic", "sync-writes", "takeover", "relay", "oso", "flow-control", "draft", "close-resume", "rollback")
CHECKS = [pytest.param(rule, check, id=f"{rule.id}/{check.name}") for rule in RULES for check in rule.checks]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
each_check = pytest.mark.parametrize(("rule", "check"), CHECKS)


@cache
def tables() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """The columns and references that the context's tables have."""
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    names = [f"captures/clean/{name}.pcapng" for name in CAPTURES]
    names += [f"captures/broken/{name}.pcapng" for name in ("FRM-01-stray", "OPQ-10")]
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
    assert fields(check.because) | set(check.words) <= set(check.facts), f"{rule.id} speaks of what are no facts"
    assert check.severity is None or isinstance(check.severity, Severity)


@each_check
def test_what_a_check_is_about_exists(rule: Rule, check: Check) -> None:
    table = PARTS[check.over][0] if check.over in PARTS else check.over
    assert table in TABLES, f"{rule.id} looks at {check.over}"
    if table not in tables():
        pytest.skip(f"no capture of this test has {table}")
    columns, refs = tables()[table]
    assert set(columns_of(check)) <= columns
    assert {*check.evidence, check.guilty} <= refs
    assert {"connection", "vbucket", "stream_id"} <= columns
    assert "guilty" in refs
