"""Generated files: they are what the spec says, they hold all of it, and a stale one is noticed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dissector import codegen
from dissector.codegen import __main__ as command
from dissector.codegen import markdown, reference_page
from dissector.spec import dcp, dialects, enums, fingerprints, headers, registry, topics, value_kinds
from dissector.spec.model import Body, Release

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def page() -> str:
    return reference_page.render()


@pytest.mark.parametrize("name", sorted(codegen.FILES))
def test_the_committed_file_is_not_stale(name: str, repo_root: Path) -> None:
    assert (repo_root / name).read_text(encoding="utf-8") == codegen.render(name), "run python -m dissector.codegen"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def test_a_stale_or_missing_file_is_named(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--root", str(checkout)]
    assert command.main([*args, "--check"]) == 1
    assert "docs/protocol.md is stale" in capsys.readouterr().err
    assert not (checkout / "docs").exists()

    assert command.main(args) == 0
    assert "docs/protocol.md" in capsys.readouterr().out
    assert command.main([*args, "--check"]) == 0

    path = checkout / "docs" / "protocol.md"
    path.write_text(path.read_text(encoding="utf-8").replace("by_seqno", "by_seqn0", 1), encoding="utf-8")
    assert codegen.stale(checkout) == ["docs/protocol.md"]
    assert command.main([*args, "--check"]) == 1
    assert command.main(args) == 0
    assert codegen.stale(checkout) == []
    assert [entry.name for entry in path.parent.iterdir() if entry.name.endswith(".new")] == []


def test_line_ends_and_encoding_count(checkout: Path) -> None:
    codegen.write(checkout)
    path = checkout / "docs" / "protocol.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert codegen.stale(checkout) == ["docs/protocol.md"]
    path.write_bytes(b"\xff")
    assert codegen.stale(checkout) == ["docs/protocol.md"]


def test_outside_a_checkout_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["--root", str(tmp_path)])
    assert stop.value.code == 2
    assert "not a checkout" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_change_of_the_spec_changes_the_page(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = enums.MAGICS[0].__class__(0x99, "new_magic", enums.MAGICS[0].direction, False, False, "new", Release(9))
    monkeypatch.setitem(registry.MAGICS, 0x99, changed)
    assert "new_magic" in reference_page.render()
    assert "new_magic" not in page


def test_rendering_is_deterministic(page: str) -> None:
    assert reference_page.render() == page


def test_everything_in_the_spec_is_on_the_page(page: str) -> None:
    for message in registry.MESSAGES:
        assert f"`{message.name}`" in page or f" {message.name} ({message.dialect})" in page
        assert markdown.escape(message.doc) in page
        for shape in message.shapes():
            for layout in shape.layouts:
                for field in (*layout.extras, *layout.value):
                    assert f"| `{field.name}` | {markdown.escape(field.doc)}" in page
        for refusal in message.refusals:
            assert f" | {markdown.escape(refusal.doc)} |" in page
        for shape in message.shapes():
            for key in shape.json_keys:
                assert f"| `{key.name}` | {key.type} |" in page
                assert all(f"| `{key.name}.{member.name}` | {member.type} |" in page for member in key.members)
        assert markdown.escape(message.reply_doc) in page
    for topic in topics.TOPICS:
        assert all(markdown.escape(paragraph) in page for paragraph in topic.paragraphs)
        assert all(f". {markdown.escape(step)}" in page for step in topic.steps)
    for dialect in dialects.DIALECTS:
        assert markdown.escape(dialect.doc) in page
        assert all(f"- {markdown.escape(change)}" in page for change in dialect.changes)
    for form in headers.HEADERS:
        section = page.partition(f"\n### {form.name.capitalize()}\n")[2].partition("\n### ")[0]
        assert re.findall(r"^\| (\d+) \| \d+ \| `(\w+)`", section, re.MULTILINE) == [
            (str(offset), field.name) for offset, field in form.places
        ]
    for body in value_kinds.BODIES.values():
        assert body.body is Body.BYTES or markdown.escape(body.doc) in page
    for member in enums.STATUSES.members:
        assert all(f"`{alias}`" in page for alias in member.aliases)
    for table in (enums.STATUSES, enums.OPEN_FLAGS, enums.STREAM_FLAGS, enums.END_REASONS, enums.FEATURES):
        for member in table.members:
            assert f"| `{member.name}` |" in page
    for key in registry.CONTROL_BY_NAME.values():
        assert f"| `{key.name}` |" in page
    for event in registry.EVENT_BY_ID.values():
        assert f"Event {event.id}: {event.name}" in page
    for erratum in registry.ERRATUM_BY_ID.values():
        assert f"| {erratum.id} | {markdown.escape(erratum.where)} |" in page
    for defect in registry.DEFECT_BY_ID.values():
        assert f"| `{defect.id}` | {defect.severity} |" in page
    detection = page.partition("## Telling dialect")[2].partition("\n## ")[0]
    assert detection.count("| `0x") == len(fingerprints.FORMS)


def test_a_layout_s_table_has_the_right_offsets(page: str) -> None:
    section = page.partition("#### 0x53 stream_request (dcp)")[2].partition("\n#### ")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)`", section, re.MULTILINE)
    expected, offset = [], 0
    for field in dcp.STREAM_REQUEST_48:
        expected.append((str(offset), str(field.size), field.name))
        offset += field.size
    assert offset == 48
    assert rows[: len(expected)] == expected


def test_every_link_has_its_heading(page: str) -> None:
    body = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    anchors = {markdown.slug(title) for title in re.findall(r"^#+ (.*)$", body, re.MULTILINE)}
    links = set(re.findall(r"\]\(#([^)]*)\)", body))
    assert links - anchors == set()
    titles = re.findall(r"^#+ (.*)$", body, re.MULTILINE)
    assert len({markdown.slug(title) for title in titles}) == len(titles)  # no heading needs a number


def test_every_table_is_well_formed(page: str) -> None:
    body = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    blocks = [block.splitlines() for block in body.split("\n\n") if block.startswith("|")]
    assert len(blocks) > 100
    for block in blocks:
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in block}
        assert len(columns) == 1, block[0]
        assert re.fullmatch(r"\|(---\|)+", block[1])


def test_the_page_ends_in_one_line_end_and_has_no_trailing_space(page: str) -> None:
    assert page.endswith("|\n")
    assert not re.search(r"[ \t]$", page, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("<script>", r"\<script\>"),
        ("[x](y)", r"\[x\](y)"),
        ("rev_seqno", "rev_seqno"),
        ("_x_", r"\_x\_"),
        ("`", r"\`"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert markdown.escape(text) == escaped


def test_code_with_pipes_and_backticks() -> None:
    assert markdown.code("true|false") == r"`true\|false`"
    assert markdown.code("a`b") == "``a`b``"


def test_a_row_of_the_wrong_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        markdown.table(("a", "b"), [("x",)])


def test_repeated_headings_get_numbered_anchors() -> None:
    document = markdown.MarkdownPage()
    assert [document.heading(2, "Same, again") for _ in range(3)] == ["same-again", "same-again-1", "same-again-2"]
