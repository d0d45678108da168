"""What is said about rules: ``uprscope explain``, docs/rules.md and the examples agree with the declarations."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.check.export import COLUMNS
from analysis.check.rule_docs import ALL, GROUPS, ordered, rule_facts
from analysis.codegen import FILES, examples, findings_page, rules_page
from analysis.rules import RULE_BY_ID
from dissector import codegen
from dissector.codegen import markdown
from uprscope import cli
from uprscope.cli import completion


@pytest.fixture(scope="module")
def page() -> str:
    return rules_page.render()


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_committed_file_is_not_stale(name: str, repo_root: Path) -> None:
    assert (repo_root / name).read_text(encoding="utf-8") == codegen.render(name, FILES), (
        "run python -m analysis.codegen"
    )


def test_the_command_writes_and_checks(tmp_path: Path, repo_root: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    command = [sys.executable, "-m", "analysis.codegen", "--root", str(tmp_path)]
    stale = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False, cwd=repo_root)
    assert stale.returncode == 1
    assert stale.stderr.splitlines() == [f"{name} is stale: run python -m analysis.codegen" for name in FILES]
    assert list(tmp_path.iterdir()) == [tmp_path / "pyproject.toml"]


def test_the_page_has_every_rule_and_all_of_it(page: str) -> None:
    anchors = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert anchors == {markdown.slug(f"{rule.id}: {rule.title}") for rule in ALL}
    for rule in ALL:
        section = page.partition(f"\n### {rule.id}: {rule.title}\n")[2].partition("\n### ")[0]
        assert markdown.escape(rule.doc) in section
        assert markdown.escape(rule.source) in section
        for check in rule.checks:
            assert markdown.code(str(check.holds)) in section
            assert all(markdown.code(str(unknown.when)) in section for unknown in check.unknown)
        assert all(markdown.escape(excuse.title) in section for excuse in rule.excuses)
        assert all(bug in section for bug in rule.bugs)


def test_every_group_has_a_title() -> None:
    assert {rule.group for rule in ALL} <= set(GROUPS)


def test_examples_are_of_rules_that_there_are() -> None:
    made = examples.examples()
    assert set(made) <= set(RULE_BY_ID)
    assert "SEQ-01" in made
    for rule, example in made.items():
        assert any("▶" in line for line in example["lines"]), rule
        assert example["command"].startswith(f"uprscope generate --break {rule}")
        assert all(line.isprintable() and len(line) <= 150 for line in example["lines"])


def test_the_findings_page_has_every_column() -> None:
    page = findings_page.render()
    assert all(f"| `{column.name}` | " in page for column in COLUMNS)


# -------------------------------------------------------------------------------------------------------------- explain


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["explain", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["SEQ-01", "seq-01", "SEQ-01-06a74178"])
def test_a_rule_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(explained(capsys, name).split())
    rule = RULE_BY_ID["SEQ-01"]
    assert text.startswith(f"rule SEQ-01 {rule.title} (error)")
    for part in (rule.doc, rule.source, *rule.bugs, *(excuse.title for excuse in rule.excuses)):
        assert part in text
    assert str(rule.checks[0].holds) in text
    assert "uprscope generate --break SEQ-01" in text
    assert "▶" in text
    assert explained(capsys, name) == explained(capsys, "rule", name)


def test_every_rule_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for rule in ALL:
        assert rule.title in " ".join(explained(capsys, rule.id).split())


def test_groups_and_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    listed = explained(capsys, "rules")
    assert re.findall(r"^  ([A-Z]{3}-\d\d) ", listed, re.MULTILINE) == [rule.id for rule in ordered()]
    group = explained(capsys, "seq")
    ids = [rule.id for rule in ordered() if rule.group == "SEQ"]
    assert re.findall(r"^  ([A-Z]{3}-\d\d) ", group, re.MULTILINE) == ids


def test_several_questions_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "status", "0x23", "SEQ-01", "flow", "control")
    places = [text.index(part) for part in ("0x23", "rule SEQ-01", "flow control")]
    assert places == sorted(places)


def test_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    (answer,) = json.loads(explained(capsys, "--json", "SEQ-01"))
    assert answer["query"] == "SEQ-01"
    assert answer["answers"] == [json.loads(json.dumps(rule_facts(RULE_BY_ID["SEQ-01"])))]
    (noop, rule) = json.loads(explained(capsys, "--json", "noop", "SEQ-02"))
    assert noop["answers"][0]["kind"] != "rule"
    assert rule["answers"][0]["id"] == "SEQ-02"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["SEQ-99"], "no rule is called 'SEQ-99' (did you mean SEQ-"),
        (["ZZZ-01"], "no rule is called 'ZZZ-01'"),
        (["qqq"], "nothing is called 'qqq'"),
        (["mutaton", "SEQ-01"], "nothing is called 'mutaton'"),
    ],
)
def test_what_is_not_there(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_the_protocol_is_explained_without_the_analysis() -> None:
    code = (
        "import sys; from uprscope import cli; cli.main(['explain', 'mutation']); "
        "assert not {'numpy', 'pyarrow', 'analysis'} & set(sys.modules), 'loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_completion_offers_rules() -> None:
    assert {"rules", "SEQ", "SEQ-01"} <= set(completion.things())
    assert {"SEQ", "SEQ-01"} <= set(completion.rule_names())
