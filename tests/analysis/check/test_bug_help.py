"""What is said about historical bugs: ``explain``, docs/bugs.md and the library agree with the declarations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analysis.check.selection import rules_of
from analysis.codegen import bugs_page, rules_page
from analysis.rules import RULES
from dissector.codegen import markdown
from dissector.errors import UsageError
from dissector.generate import library
from dissector.generate.bugs import BUGS, bug
from uprscope import cli
from uprscope.cli import completion

CAPTURED = [each for each in BUGS if each.capture]


@pytest.mark.parametrize("question", ["MB-16042", "mb-16042", "mb16042", "MB_16042", "16042", "bug MB-16042"])
def test_a_bug_is_found_however_it_is_written(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", *question.split()]) == 0
    said = capsys.readouterr().out
    assert said.startswith("bug MB-16042")
    assert said.count("\nRules that see it\n") == 1
    assert "SNP-03" in said
    assert "captures/bugs/MB-16042.pcapng" in said
    assert "uprscope generate --bug MB-16042 -o MB-16042.pcapng" in said


@pytest.mark.parametrize("each", BUGS, ids=lambda each: each.name)
def test_every_bug_is_explained(each: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = each.name  # type: ignore[attr-defined]
    assert cli.main(["explain", name]) == 0
    said = " ".join(capsys.readouterr().out.split())
    known = bug(name)
    assert known.doc in said
    assert all(rule in said for rule in (*known.rules, *known.across))
    assert known.capture in said
    assert known.why_no_capture in said


def test_the_list_has_all_and_the_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "bugs"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for each in BUGS:
        assert each.name in said
        assert each.why_no_capture in said


def test_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--json", "mb31481", "SNP-03", "bugs"]) == 0
    one, rule, every = json.loads(capsys.readouterr().out)
    assert one["answers"][0]["id"] == "MB-31481"
    assert one["answers"][0]["rules"] == ["OPQ-10"]
    assert {each["rule"] for each in one["answers"][0]["silent"]} == {"OPQ-02", "SEQ-03"}
    assert rule["answers"][0]["bug_captures"] == ["captures/bugs/MB-16042.pcapng"]
    assert [each["id"] for each in every["answers"]] == [each.name for each in BUGS]


def test_a_number_that_nobody_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "MB-16043"]) == 2
    assert capsys.readouterr().err == "uprscope: no bug is called 'MB-16043' (did you mean MB-16042?)\n"
    assert cli.main(["explain", "55555"]) == 2
    assert "nothing has the number 55555" in capsys.readouterr().err


def test_a_rule_names_the_captures_of_its_bugs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "SNP-04"]) == 0
    said = capsys.readouterr().out
    for name in ("MB-50543", "MB-51105", "MB-24631", "MB-57767"):
        assert f"captures/bugs/{name}.pcapng" in said


def test_the_page_has_every_bug() -> None:
    page = bugs_page.render()
    for each in BUGS:
        assert f"\n### {each.name}\n" in page
        assert f"(#{markdown.slug(each.name)})" in page
        assert markdown.escape(each.doc) in page
    assert page.count("](../captures/bugs/") == 2 * len(CAPTURED)


def test_rules_link_to_their_bugs() -> None:
    page, anchors = rules_page.render(), {markdown.slug(each.name) for each in BUGS}
    linked = set(re.findall(r"\]\(bugs\.md#([^)]+)\)", page))
    assert linked
    assert linked <= anchors


def test_each_has_its_entry_in_the_library() -> None:
    entries = {entry.file: entry for entry in library.read() if entry.file.startswith("bugs/")}
    assert set(entries) == {each.capture for each in CAPTURED}
    for each in CAPTURED:
        entry = entries[each.capture]
        assert entry.command == f"uprscope generate --bug {each.name} -o captures/{each.capture}"
        assert entry.rules == each.rules
        assert entry.wrong
        assert entry.packets


def test_generate_makes_and_lists_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "bug.pcapng"
    assert cli.main(["generate", "--bug", "mb16042", "-o", str(target)]) == 0
    kept = library.ROOT / library.FOLDER / "bugs" / "MB-16042.pcapng"
    assert target.read_bytes() == kept.read_bytes()
    assert cli.main(["generate", "--list"]) == 0
    said = capsys.readouterr().out
    assert "historical bugs, for --bug" in said
    assert all(each.name in said for each in CAPTURED)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--bug", "MB-29040"], "--bug MB-29040: there is no capture of it: what it looks like is accepted today"),
        (["--bug", "MB-16043"], "no bug is called 'MB-16043' (did you mean MB-16042?)"),
        (["basic", "--bug", "MB-16042"], "--bug is a scenario of its own: leave the scenario and --break out"),
        (["--break", "SEQ-01", "--bug", "MB-16042"], "--bug is a scenario of its own"),
    ],
)
def test_what_can_not_be_made(words: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["generate", *words, "-o", str(tmp_path / "x.pcapng")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"uprscope: {error}")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["MB-31481", "MB-36971", "MB-10122"])
def test_they_are_ordinary_captures(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = str(library.ROOT / library.FOLDER / "bugs" / f"{name}.pcapng")
    assert cli.main(["check", capture, "--format", "json"]) == 1
    findings = json.loads(capsys.readouterr().out)
    found = findings if isinstance(findings, list) else findings["findings"]
    part = tmp_path / "part.pcapng"
    assert cli.main(["slice", capture, "--finding", found[0]["id"], "-o", str(part)]) == 0
    capsys.readouterr()
    assert cli.main(["check", str(part)]) == 1
    capsys.readouterr()
    assert cli.main(["dissect", capture]) == 0
    assert "open" in capsys.readouterr().out


def test_completion_knows_them() -> None:
    words = completion.things()
    assert {"bugs", "MB-16042", "MB-29040"} <= set(words)
    made = completion._WORDS["generate", "bug"]()
    assert "MB-16042" in made
    assert "MB-29040" not in made


def test_patterns_choose_rules() -> None:
    assert [rule.id for rule in rules_of("FLC-*")] == [rule.id for rule in RULES if rule.group == "FLC"]
    assert {rule.id for rule in rules_of("snp-0[34],SEQ-0?,OPQ")} == {
        "SNP-03",
        "SNP-04",
        *(rule.id for rule in RULES if re.fullmatch(r"SEQ-0\d|OPQ-\d\d", rule.id)),
    }
    assert rules_of("*") == RULES
    assert rules_of("F??") == tuple(rule for rule in RULES if rule.group.startswith("F"))


@pytest.mark.parametrize("text", ["FOX-*", "SEQ-9?", "[", "SEQ-01,FOX-*"])
def test_a_pattern_that_matches_nothing_is_a_mistake(text: str) -> None:
    with pytest.raises(UsageError, match=r"--rules: no rule matches '[^']*' \(uprscope explain rules lists them\)"):
        rules_of(text)
