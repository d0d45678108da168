"""The page about the tables that rules look at, ``docs/context.md``: every column, and the parts that rules name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.context.schema import ARCHIVE_TABLES, TABLES
from analysis.context.schema.model import GUILTY, PLACE
from analysis.rules.row_sets import PARTS
from dissector.codegen.markdown import MarkdownPage, code, escape, slug, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.context.schema import Column, Reference, TableSchema

_INTRODUCTION = """\
<!-- Generated from analysis/context/schema/ by `make docs`. -->

[The rules](rules.md) are written in the columns of these tables. The context makes them: one pass over the frames
([their columns](frames.md)), connection by connection and stream by stream, in bounded memory.

A column of numbers has -1 where a field is not there, unless its line says otherwise. An *ordinal* is the number of a
row, counted over all frames of a run from 1; 0 stands for none. Columns named `..._root` tell which violations go back
to the same cause. A column of names holds numbers, and formulas print their names."""

_VIEWS = """\
Two sides and a capture between them do not see the same things at the same time. A message that was captured first may
have been sent last, and what was sent may not have arrived. So every column says from whose point of view it tells:

* **capture**: as the capture has it, in its order
* **producer**, **consumer**: as that side knew it when it sent the message, by what TCP had acknowledged
* **either**: as the message or the agreement says, which is the same for both sides"""

_SHARED = "Every table has these columns, and a reference to the frame that a finding would be about."
_FEW = 12  #: names that are listed; more are in docs/protocol.md
_REFERENCES = "Frames that a row refers to; rules show them as evidence:"


def render() -> str:
    """Return the page."""
    page = MarkdownPage()
    page.heading(1, "Context: the tables that rules look at")
    page.add(_INTRODUCTION)
    page.heading(2, "Points of view")
    page.add(_VIEWS)
    page.heading(2, "All tables")
    everything = (*TABLES.values(), *ARCHIVE_TABLES.values())
    page.add(
        table(
            ["table", "one row for"], [[f"[{each.name}](#{slug(each.name)})", escape(each.doc)] for each in everything]
        )
    )
    page.heading(2, "Parts of tables")
    page.add(
        "Some rules look at a part of a table only:",
        table(
            ["part", "of", "one row for", "rows"],
            [[code(name), code(part.table), part.doc, code(str(part.rows))] for name, part in PARTS.items()],
        ),
    )
    page.heading(2, "Columns of all tables")
    page.add(_SHARED, _columns(PLACE), _references((GUILTY,)))
    for each in everything:
        page.heading(2, each.name)
        page.add(*_section(each))
    return "\n\n".join(page.blocks) + "\n"


def _section(schema: TableSchema) -> Iterator[str]:
    yield f"One row for {escape(schema.doc)}."
    columns = schema.columns[len(PLACE) :] if schema.columns[: len(PLACE)] == PLACE else schema.columns
    refs = tuple(ref for ref in schema.refs if ref != GUILTY)
    if schema.base is not None:
        base = schema.base
        columns = tuple(column for column in columns if column not in base.columns)
        refs = tuple(ref for ref in refs if ref not in base.refs)
        more = ", and:" if columns else "."
        yield f"It has the columns and references of [{base.name}](#{slug(base.name)}){more}"
    if columns:
        yield _columns(columns)
    if refs:
        yield _REFERENCES
        yield _references(refs)


def _columns(columns: Sequence[Column]) -> str:
    rows = [[code(each.name), each.type, each.view.value, _meaning(each)] for each in columns]
    return table(["column", "type", "point of view", "meaning"], rows)


def _meaning(column: Column) -> str:
    """Return what a column means, with the names of its numbers where they are few."""
    names = [code(name) for name in column.words.values.values()]
    return f"{escape(column.doc)}: {', '.join(names)}" if 1 < len(names) <= _FEW else escape(column.doc)


def _references(refs: Sequence[Reference]) -> str:
    return table(["reference", "frame"], [[code(each.name), escape(each.doc)] for each in refs])
