"""Pages that messages cite: all there, as text and as data, and nothing cites a file that only a checkout has."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from analysis.check.bug_help import names as bug_names
from analysis.check.rule_docs import ALL
from analysis.check.rule_help import names as rule_names
from dissector.explain import lookup
from dissector.frames.schema import SCHEMA
from dissector.summary.schema import CONNECTION_COLUMNS, STREAM_COLUMNS
from tests.support.paths import ROOT
from uprscope import cli, pages
from uprscope.cli import explain_pages

SOURCES = [path for package in ("dissector", "analysis", "uprscope") for path in sorted((ROOT / package).rglob("*.py"))]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["explain", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_every_page_fits_a_terminal(
    page: pages.HelpPage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = said(capsys, page.name)
    assert max(map(len, text.splitlines())) <= 80
    assert "\n\n\n" not in text
    assert ".md" not in text.replace("notebook.ipynb", "")
    assert {said(capsys, name) for name in page.names} == {text}


def test_columns_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert set(SCHEMA.names) <= set(re.findall(r"^ (\w+) ", said(capsys, "columns"), re.MULTILINE))
    names = {column.name for column in (*CONNECTION_COLUMNS, *STREAM_COLUMNS)}
    assert names <= set(re.findall(r"^ (\w+) ", said(capsys, "connections"), re.MULTILINE))


def test_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    [first, second] = json.loads(said(capsys, "--json", "filters", "exit-status"))
    assert first["answers"][0]["title"] == "Filters"
    assert "`exists f`" in first["answers"][0]["text"]
    assert [row.split("|")[1].strip() for row in second["answers"][0]["text"].splitlines()[2:]] == [
        "0", "1", "2", "3", "70", "130", "141",
    ]  # fmt: skip


def test_a_name_of_the_protocol_that_begins_like_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "connections", "between", "servers").startswith("connections between servers")
    both = said(capsys, "mutation", "exit-status")
    assert both.index("mutation") < both.index("Exit statuses")


def test_no_page_hides_something_of_the_protocol() -> None:
    for name in explain_pages.names():
        with pytest.raises(lookup.UsageError):
            lookup.lookup([name])


def _texts(path: Path) -> list[str]:
    """The strings of a module that may be shown: all but docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden
    ]


def test_messages_cite_nothing_that_a_wheel_lacks() -> None:
    shown = [path for path in SOURCES if "codegen" not in path.parts and path.name != "make_captures.py"]
    found = [
        (path.name, text)
        for path in shown
        for text in _texts(path)
        if re.search(r"(?<!kv_engine )\bdocs/\w+\.md", text)
    ]
    assert found == []


def test_what_messages_cite_can_be_asked() -> None:
    cited = {
        name
        for path in SOURCES
        for text in _texts(path)
        for name in re.findall(r"uprscope explain ([\w-]+)(?= (?:lists|describes|shows|has|alone)|\)|$)", text)
    }
    assert {"columns", "filters", "rules", "connections", "archive"} <= cited
    known = {*explain_pages.names(), *rule_names(), *bug_names()}
    for name in cited - known:
        assert lookup.lookup([name])


def test_every_bug_that_a_rule_names_is_explained() -> None:
    named = {bug for rule in ALL for bug in rule.bugs if re.match(r"MB-\d", bug)}
    assert len(named) > 50
    assert named <= set(bug_names())
