"""docs/context.md: every table, part and column that rules are written in, each with its meaning."""

from __future__ import annotations

import re

import pytest

from analysis.codegen import context_page
from analysis.context.schema import ARCHIVE_TABLES, TABLES, TableSchema
from analysis.rules.row_sets import PARTS
from dissector.codegen import markdown

ALL = [*TABLES.values(), *ARCHIVE_TABLES.values()]


@pytest.fixture(scope="module")
def page() -> str:
    return context_page.render()


@pytest.mark.parametrize("schema", ALL, ids=lambda schema: schema.name)
def test_a_table_is_told_in_full(page: str, schema: TableSchema) -> None:
    section = page.partition(f"\n## {schema.name}\n")[2].partition("\n## ")[0]
    assert markdown.escape(schema.doc) in section
    if schema.base is not None:
        assert f"](#{schema.base.name})" in section
        section += page.partition(f"\n## {schema.base.name}\n")[2].partition("\n## ")[0]
    section += page.partition("\n## Columns of all tables\n")[2].partition("\n## ")[0]
    for column in schema.columns:
        assert column.doc
        assert not column.doc.endswith(".")
        assert f"| `{column.name}` | {column.type} | {column.view} | {markdown.escape(column.doc)}" in section
    for ref in schema.refs:
        assert f"| `{ref.name}` | {markdown.escape(ref.doc)} |" in section


def test_every_part_is_there(page: str) -> None:
    for name, (table, term, doc) in PARTS.items():
        assert f"| `{name}` | `{table}` | {doc} | {markdown.code(str(term))} |" in page


def test_every_link_has_its_heading(page: str) -> None:
    anchors = {markdown.slug(title) for title in re.findall(r"^#+ (.*)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) == {schema.name for schema in ALL}
    assert {schema.name for schema in ALL} <= anchors
