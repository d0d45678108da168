"""The page about rows, ``docs/frames.md``: every column of the schema, its type and its meaning."""

from __future__ import annotations

import itertools
import textwrap

from dissector.codegen.markdown import code, escape, table
from dissector.frames.derived_columns import ALIASES, DERIVED, ROW_COLUMNS
from dissector.frames.schema import ALWAYS, CONTENT_COLUMNS, FIELD_COLUMNS, HEADER_COLUMNS, IDENTITY_COLUMNS, Column
from dissector.spec import registry
from dissector.spec.model import Dialect

_INTRODUCTION = """\
# Frames as rows

<!-- Generated from dissector/frames/schema.py and dissector/frames/derived_columns.py by `make docs`. -->

One row per message. `uprscope dissect --format ndjson|json|csv|parquet|arrow` and `uprscope.frames` give these rows.
[frames.schema.json](frames.schema.json) is the JSON Schema of a line of NDJSON.

* Numbers are signed, as Spark has no unsigned types: each stands in the next larger one. Of 64-bit ones, identifiers
  (*unsigned* below) keep their bit pattern in Parquet and Arrow. In NDJSON and CSV they are text of sixteen hexadecimal
  digits, `0x17b2a04c4f8e0000`: readers that turn numbers into doubles would round them.
* Seqnos are numbers, below 2^53 by the protocol. They stop at 9223372036854775807 (2^63-1), which stands for "no end":
  in NDJSON and CSV there is no number then (null inside of lists), and `open_ended` is true everywhere.
* `time_ns` is exact; `time` is the same for readers that want a timestamp. In JSON it is `2026-11-16T01:35:28.491254Z`.
* A column without a value is null; NDJSON leaves it out.
{always}
* `key` is the key as people write it, without its collection id (`collection_id`): as it is where it is printable
  UTF-8, else `hex:` and hexadecimal digits. `key_bytes` is the key as on the wire.
* Bytes (`key_bytes`, `value`) are bytes in Parquet and Arrow. In NDJSON and CSV they are text where they are printable
  UTF-8, else `hex:` and their hexadecimal digits; CSV does the same with `text`.
* Rows come in the order in which frames were complete. The order within one direction is exact; across directions use
  `acked_offset`, not the order.
* A message that only the draft has in its form waits for what proves that the draft is spoken: then its row, and those
  of its connection behind it, are the draft's (`dialect`), else they are memcached's.
* Documents are not looked into: `defects` does not say whether a value is the JSON, snappy or xattrs that its datatype
  promises.
* Columns marked *derived* are made of the others, where rows leave the dissector: `dissect`, the library and filters
  have them; the Spark data source and the tables of an archive do not. Rows that were written before keep those about
  the run; of several files at once these are made anew.
* An answer belongs to the oldest request of its opcode and opaque, sent by the other side of its connection, of those
  that have to be answered. A further answer to the same request has no `response_to`.
* `--fields` and filters also take what the list on the screen calls columns: {aliases}.
"""


def render() -> str:
    """Return the page."""
    named = [column.name for column in (*IDENTITY_COLUMNS, *HEADER_COLUMNS) if column.name not in ALWAYS]
    always = (
        f"Columns of the first two tables are never null, but for {', '.join(map(code, named))} and what is derived "
        "from them, and `response_to`; nor is `defects`."
    )
    wrapped = textwrap.fill(always, 118, initial_indent="* ", subsequent_indent="  ")
    aliases = ", ".join(f"{code(alias)} for {code(name)}" for alias, name in ALIASES.items())
    parts = [_INTRODUCTION.format(always=wrapped, aliases=aliases)]
    for title, columns in (
        ("Where the frame was", IDENTITY_COLUMNS),
        ("Header", HEADER_COLUMNS),
        ("Fields of single messages", FIELD_COLUMNS),
        ("Content", CONTENT_COLUMNS),
    ):
        with_messages = columns is FIELD_COLUMNS
        header = ["column", "type", "meaning", *(["messages"] if with_messages else [])]
        rows = [_row(column, with_messages=with_messages) for column in _with_derived(columns)]
        parts.append(f"## {title}\n\n{table(header, rows)}\n")
    return "\n".join(parts)


def _with_derived(columns: tuple[Column, ...]) -> list[Column]:
    """Return columns with those that stand behind them."""
    first = next(at for at, column in enumerate(ROW_COLUMNS) if column.name == columns[0].name)
    names = {column.name for column in columns} | DERIVED.keys()
    return list(itertools.takewhile(lambda column: column.name in names, ROW_COLUMNS[first:]))


def _row(column: Column, *, with_messages: bool) -> list[str]:
    kind = f"{column.type}, unsigned" if column.unsigned else str(column.type)
    kind += ", derived" if column.name in DERIVED else ""
    row = [code(column.name), escape(kind), escape(column.doc)]
    if with_messages:
        source = DERIVED[column.name].behind if column.name in DERIVED else column.name
        row.append(", ".join(_messages(source)))
    return row


def _messages(name: str) -> list[str]:
    """Name the messages of upr and dcp that fill a column."""
    found: dict[str, None] = {}
    for message in registry.MESSAGES:
        if message.dialect is Dialect.MEMCACHED:
            continue
        names = {
            field.name
            for shape in message.shapes()
            for layout in shape.layouts
            for field in (*layout.extras, *layout.value)
        }
        if name in names or (name == "by_seqno" and message.seqno is not None):
            found[message.name] = None
    if any(name == field.name for event in registry.EVENT_BY_ID.values() for field in event.fields):
        found["system_event"] = None
    return list(found)
