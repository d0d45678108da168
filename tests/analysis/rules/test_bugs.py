"""Historical bugs: each capture is found by the rules that it names, at the guilty message, and by no others."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from analysis.check.inspection import inspect
from analysis.check.rule_docs import ALL
from analysis.rules import RULE_BY_ID, Severity
from dissector.capture import Input
from dissector.generate.bugs import BUG_BY_NAME, BUGS, Bug
from dissector.generate.bugs.model import Story
from dissector.generate.library import FOLDER
from dissector.options import ReadOptions
from dissector.spec.defects import DEFECTS
from tests.support.checking import Result, batches_of, captured, check, findings_of, frame_of, single_rows
from tests.support.paths import ROOT

CAPTURED = [each for each in BUGS if each.capture]
SEEN = [pytest.param(each, rule, id=f"{each.name} {rule}") for each in CAPTURED for rule in each.rules]
#: Rules that compare connections or captures: none of them can see a bug in one stream.
COMPARING = re.compile(r"XCN-\d\d|CON-08|SEQ-1[34]|FOL-09|FOL-10|TKO-0[89]")
#: Defects of single messages that a rule must know to see a bug.
DEFECT_NEEDED = {"MB-54967": "event-table-compressed"}
_LARGEST = 20_000


@cache
def told(name: str, seed: int = 1) -> tuple[Story, Result]:
    story = BUG_BY_NAME[name].story(seed)
    return story, findings_of(story.conversations, seed=seed)


def guilty_frames(result: Result, rule: str) -> list[int]:
    return [each.guilty.frame for each in result.findings if each.rule == rule]


def need(bug: Bug, rule: str) -> None:
    if rule not in RULE_BY_ID:
        pytest.skip(f"there is no rule {rule} yet")
    if bug.name in DEFECT_NEEDED and DEFECT_NEEDED[bug.name] not in {each.id for each in DEFECTS}:
        pytest.skip(f"there is no defect {DEFECT_NEEDED[bug.name]} yet")


def test_there_are_enough() -> None:
    assert len(CAPTURED) >= 40


@pytest.mark.parametrize(("bug", "rule"), SEEN)
def test_the_rule_finds_it_at_the_guilty_message(bug: Bug, rule: str) -> None:
    need(bug, rule)
    story, result = told(bug.name)
    (broken,) = (each for each in story.broken if each.rule == rule)
    assert frame_of(result, story.conversations, broken.emissions[0]) in guilty_frames(result, rule)


@pytest.mark.parametrize("bug", CAPTURED, ids=lambda each: each.name)
def test_no_other_rule_calls_it_an_error(bug: Bug) -> None:
    story, result = told(bug.name)
    assert {each.rule for each in story.broken} == set(bug.rules)
    assert story.broken[0].rule == bug.rules[0]
    assert {each.rule for each in result.findings if each.severity is Severity.ERROR} <= set(bug.rules)


@pytest.mark.parametrize("bug", CAPTURED, ids=lambda each: each.name)
def test_the_committed_capture_says_the_same(bug: Bug) -> None:
    path = ROOT / FOLDER / bug.capture
    assert path.stat().st_size < _LARGEST
    kept = inspect([Input(path.name, path)], tuple(RULE_BY_ID.values()), ReadOptions())
    found = {(each.rule, each.guilty.frame) for each in kept.findings}
    assert found == {(each.rule, each.guilty.frame) for each in told(bug.name)[1].findings}


@pytest.mark.parametrize(("bug", "rule"), SEEN)
def test_it_is_found_with_every_seed(bug: Bug, rule: str) -> None:
    need(bug, rule)
    for seed in (2, 3):
        story, result = told(bug.name, seed)
        (broken,) = (each for each in story.broken if each.rule == rule)
        assert frame_of(result, story.conversations, broken.emissions[0]) in guilty_frames(result, rule)
        assert {each.rule for each in result.findings if each.severity is Severity.ERROR} <= set(bug.rules)


@pytest.mark.parametrize("bug", CAPTURED[::7], ids=lambda each: each.name)
def test_batches_do_not_matter(bug: Bug) -> None:
    batches = batches_of(captured(bug.story().conversations))
    assert check(single_rows(batches)).summary == check(batches).summary


@pytest.mark.parametrize("bug", CAPTURED, ids=lambda each: each.name)
def test_what_proves_it_is_sent(bug: Bug) -> None:
    for broken in bug.story().broken:
        own = {id(each) for each in broken.conversation}
        assert {id(each) for each in broken.emissions} <= own
        assert broken.because


def test_every_number_that_a_rule_names_is_declared() -> None:
    for rule in ALL:
        for name in rule.bugs:
            if name.startswith("MB-"):
                bug = BUG_BY_NAME[name]
                assert rule.id in {*bug.rules, *bug.across, *(silent for silent, _ in bug.silent)}, (rule.id, name)


def test_numbers_in_texts_are_declared() -> None:
    """What a rule, a scenario or a document says of a bug can be looked up."""
    places = [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "dissector").rglob("*.py")]
    named = {name for path in places for name in re.findall(r"MB-\d{4,}", path.read_text(encoding="utf-8"))}
    assert named <= set(BUG_BY_NAME)


@pytest.mark.parametrize("bug", BUGS, ids=lambda each: each.name)
def test_a_declaration_is_complete(bug: Bug) -> None:
    assert bug.title[0].islower() or not bug.title[0].isalpha() or bug.title.startswith("CAS")
    assert not bug.title.endswith(".")
    assert bug.doc.endswith(".")
    assert bool(bug.capture) != bool(bug.why_no_capture)
    assert all(COMPARING.fullmatch(rule) for rule in bug.across)
    assert not any(COMPARING.fullmatch(rule) for rule in bug.rules)
    named = [*bug.rules, *bug.across, *(rule for rule, _ in bug.silent)]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("bug", BUGS, ids=lambda each: each.name)
def test_captures_that_a_reason_names_exist(bug: Bug) -> None:
    for name in re.findall(r"captures/[\w./-]+\.pcapng", f"{bug.why_no_capture} {bug.doc}"):
        assert (ROOT / name).is_file()
    for _, because in bug.silent:
        for scenario in re.findall(r"the scenario ([\w-]+)", because):
            assert Path(ROOT, FOLDER, "clean", f"{scenario}.pcapng").is_file()
