"""Filters: what they mean, held against a slow evaluator of rows; what they refuse, and where they say it is."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dissector.capture import expand
from dissector.errors import UprscopeError
from dissector.filters import Filter, FilterError, parse, syntax, tokens, tree
from dissector.filters.names import LISTS, NUMERIC, ORDERED, STRINGS, FieldKind, fields
from dissector.frames.derived_columns import ROW_SCHEMA
from dissector.frames.reader import FrameReader
from dissector.frames.run_columns import RunColumns
from dissector.frames.schema import NO_END, UNSIGNED
from dissector.options import ReadOptions
from dissector.spec import registry
from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs" / "filters.md"
CAPTURES = sorted((ROOT / "captures").glob("*.pcap*"))
TWO_COLUMNS = {"addr": ("src", "dst"), "port": ("sport", "dport"), "time": ("time_ns",)}
TWO_COLUMNS |= {"conn": ("connection_number",), "packet": ("packet_last",), "message": ("name",)}


@cache
def frames(path: Path) -> pa.Table:
    derived = RunColumns(ROW_SCHEMA.names)
    return pa.Table.from_batches(
        map(derived.add, FrameReader(expand([str(path)]), ReadOptions(values=True))), ROW_SCHEMA
    )


def odd_rows() -> list[dict[str, Any]]:
    """Rows that no recording has: patterns with the sign bit, bytes that are no text, lists with nothing in them."""
    return [
        {
            "cas": -1,
            "key": "hex:fffe6b6579",
            "key_bytes": b"\xff\xfekey",
            "defects": [],
            "features": [],
            "failover_log": [],
            "name": "",
        },
        {"cas": -(1 << 63), "key_bytes": b"", "defects": ["key-missing", "cas-zero"], "features": [0x12, 0x12]},
        {"cas": NO_END, "key": "schlüssel", "failover_log": [{"vbucket_uuid": -2, "seqno": 1}], "text": "é\n"},
        {
            "cache_records": [
                {"key": "key", "key_bytes": b"\0key", "by_seqno": 1},
                {"key": "hex:ff", "key_bytes": b"\xff"},
            ],
            "opcode": 0x66,
        },
        {"cache_records": [], "opcode": 0x66},
        {"key_bytes": b"key\x00_1_", "src": "::1", "dst": "10.0.0.1", "sport": 1, "dport": 2, "end_seqno": NO_END},
        {},
    ]


@cache
def sample() -> pa.RecordBatch:
    """Some rows of every capture, and the odd ones in the middle of a larger array: offsets are not zero."""
    table = pa.concat_tables([*(frames(path) for path in CAPTURES), pa.Table.from_pylist(odd_rows(), ROW_SCHEMA)])
    every = list(range(0, table.num_rows, 11)) + list(range(table.num_rows - len(odd_rows()), table.num_rows))
    return table.take(every).combine_chunks().to_batches()[0].slice(3)


@cache
def rows() -> list[dict[str, Any]]:
    return sample().to_pylist()


# A second opinion: one row at a time, in plain Python, from the tree and the schema alone.


def holds(expression: tree.Expression, row: dict[str, Any]) -> bool:
    match expression:
        case tree.And():
            return all(holds(part, row) for part in expression.parts)
        case tree.Or():
            return any(holds(part, row) for part in expression.parts)
        case tree.Not():
            return not holds(expression.part, row)
    asked = [each.name for each in tree.fields_of(expression)]
    choices = [TWO_COLUMNS.get(name, (name,)) for name in asked]
    worlds = [dict(zip(asked, names, strict=True)) for names in itertools.product(*choices)]
    answers = [answer(expression, {name: value_in(row, column) for name, column in world.items()}) for world in worlds]
    if isinstance(expression, tree.Compare) and expression.operators == ("!=",):
        return all(answers)
    return any(answers)


def value_in(row: dict[str, Any], column: str) -> Any:
    value = row[column]
    if value is None:
        return None
    if column in UNSIGNED:
        return value % 2**64
    if column == "failover_log":
        return [entry["vbucket_uuid"] % 2**64 for entry in value]
    if column == "cache_records":
        return [entry[part] for entry in value for part in ("key", "key_bytes")]  # text and bytes are never equal
    return value


def answer(expression: tree.Test, values: dict[str, Any]) -> bool:
    if any(value is None for value in values.values()):
        return False
    if isinstance(expression, tree.Compare):
        sides = [
            values[each.name] if isinstance(each, tree.FieldRef) else plain(each, values)
            for each in expression.operands
        ]
        return all(
            compare(operator, left, right)
            for operator, left, right in zip(expression.operators, sides, sides[1:], strict=False)
        )
    (value,) = values.values()
    match expression:
        case tree.Truth():
            return bool(value)
        case tree.Present():
            return not isinstance(value, list) or value != []
        case tree.InList():
            return any(
                plain(item.low, values) <= value <= plain(item.high, values)
                if isinstance(item, tree.Range)
                else value == plain(item, values)
                for item in expression.items
            )
        case tree.PartOf():
            literal = plain(expression.literal, values)
            if expression.operator == "contains":
                return literal in value
            return bool(value.startswith(literal) if expression.operator == "startswith" else value.endswith(literal))
        case tree.Bits():
            found = value & expression.mask
            return found == expression.mask if expression.operator == "has" else found != 0
        case tree.Matches():
            return re.search(expression.pattern.replace("$", r"\Z"), text_of(value), re.ASCII) is not None
    raise AssertionError(expression)


def text_of(value: str | bytes) -> str:
    """Decode bytes; one that is no UTF-8 becomes a line end, which "." does not match either."""
    return (
        value if isinstance(value, str) else re.sub("[\udc80-\udcff]", "\n", value.decode("utf-8", "surrogateescape"))
    )


def compare(operator: str, left: Any, right: Any) -> bool:
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def plain(literal: tree.Literal, values: dict[str, Any]) -> Any:
    match literal:
        case tree.Number():
            return literal.value if {*values} & {*UNSIGNED, "failover_log"} else min(literal.value, NO_END)
        case tree.Time():
            return literal.ns
        case tree.Seconds():
            return literal.ns / 1e9
        case _:
            return literal.value


def slow(expression: tree.Expression, given_rows: list[dict[str, Any]]) -> list[bool]:
    return [holds(expression, row) for row in given_rows]


# Random trees over values that are there, or close to them.

PATTERNS = (
    "key",
    "^k",
    "[0-9]+$",
    "^.{3}$",
    "a|e",
    "(?i)KEY",
    "_[0-2]_",
    "ü",
    r"^\w+\.",
    "^$",
    "",
    r"it\'s|\"",
    '"sid"',
    r"\x41",
)
NUMBERS = st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1), st.sampled_from([NO_END, NO_END + 1, 2**64 - 1]))


@cache
def seen(column: str) -> list[Any]:
    found = [value for value in sample().column(column).to_pylist() if value is not None]
    if found and isinstance(found[0], list):
        found = [_searched(entry) for each in found for entry in each]
    if found and isinstance(found[0], int) and column in {*UNSIGNED, "failover_log"}:
        found = [value % 2**64 for value in found]
    return sorted(set(found)) or [0]


def _searched(entry: Any) -> Any:
    """Return what ``contains`` compares of an entry of a list."""
    return entry.get("vbucket_uuid", entry.get("key")) if isinstance(entry, dict) else entry


def named(name: str) -> list[tree.Literal]:
    constants = {each for each in fields()[name].constants.values() if each.high is None}
    return [
        tree.Text(each.value) if isinstance(each.value, str) else tree.Number(each.value, each.name)
        for each in sorted(constants, key=lambda each: each.name)
    ]


def literals(name: str, *, whole: bool = True) -> st.SearchStrategy[tree.Literal]:
    """Literals for a field; for a part of one, any string will do."""
    info = fields()[name]
    column = seen(info.columns[-1])
    if info.kind is FieldKind.BOOLEAN:
        return st.booleans().map(tree.Boolean)
    if info.kind is FieldKind.TIME:
        return st.one_of(st.sampled_from(column), st.integers(-(2**63), 2**63 - 1)).map(tree.Time)
    if info.kind is FieldKind.RECORDS:
        return st.sampled_from([value for value in column if value is not None]).map(
            lambda value: tree.Text(value) if isinstance(value, str) else tree.Bytes(value)
        )
    if info.kind is FieldKind.BYTES:
        pieces = st.sampled_from(column).flatmap(lambda data: st.sampled_from([data, data[:3], data[2:5], data[-2:]]))
        return st.one_of(pieces, st.binary(max_size=4)).map(tree.Bytes)
    if info.kind in STRINGS:
        column = [each for each in column if isinstance(each, str)] or ["name"]  # none has such a name
        if whole and (info.closed or info.kind is FieldKind.ADDRESS):
            return st.sampled_from(named(name) or [tree.Text(value) for value in column])
        pieces = st.sampled_from(column).flatmap(lambda text: st.sampled_from([text, text[:3], text[2:5], text[-2:]]))
        characters = st.characters(exclude_categories=["Cs"])
        return st.one_of(pieces, st.text(characters, max_size=4)).map(tree.Text)
    if info.kind is FieldKind.SECONDS:
        times = st.one_of(st.sampled_from([round(each * 1e9) for each in column]), st.integers(0, 10**18 - 1))
        return times.map(lambda ns: tree.Seconds(max(ns, 0)))
    if info.kind in {FieldKind.IDS, FieldKind.NAMES}:
        return st.sampled_from(named(name))
    numbers = st.one_of(st.sampled_from(column), NUMBERS).map(tree.Number)
    return st.one_of(numbers, st.sampled_from(named(name))) if info.constants else numbers


@st.composite
def leaves(draw: st.DrawFn) -> tree.Test:
    name = draw(st.sampled_from(sorted(fields())))
    kind, field = fields()[name].kind, tree.FieldRef(name)
    shapes = ["present"]
    shapes += ["truth", "compare"] if kind is FieldKind.BOOLEAN else []
    shapes += ["compare", "member"] if kind in ORDERED | {FieldKind.ADDRESS} else []
    shapes += ["chain", "fields"] if kind in ORDERED else []
    shapes += ["part", "matches"] if kind in STRINGS else ["part"] if kind in LISTS else []
    shapes += ["bits"] if kind in NUMERIC else []
    value = literals(name)
    match draw(st.sampled_from(shapes)):
        case "truth":
            return tree.Truth(field)
        case "compare":
            signs = syntax.EQUALITY + (syntax.ORDERINGS if kind in ORDERED else ())
            sides = draw(st.permutations([field, draw(value)]))
            return tree.Compare(tuple(sides), (draw(st.sampled_from(signs)),))
        case "chain":
            signs = draw(st.sampled_from([("<", "<="), (">", ">=")]))
            operators = draw(st.tuples(st.sampled_from(signs), st.sampled_from(signs)))
            return tree.Compare((draw(value), field, draw(value)), operators)
        case "fields":
            other = draw(st.sampled_from([each for each, info in fields().items() if info.kind is kind]))
            assume(other not in fields()[name].constants)
            return tree.Compare((field, tree.FieldRef(other)), (draw(st.sampled_from(syntax.ORDERINGS)),))
        case "member":
            items = draw(st.lists(value, min_size=1, max_size=4))
            if kind in NUMERIC or kind in {FieldKind.TIME, FieldKind.SECONDS}:
                low, high = sorted([draw(value), draw(value)], key=plain_order)
                items.insert(draw(st.integers(0, len(items))), tree.Range(low, high))
            return tree.InList(field, tuple(items))
        case "part":
            operator = "contains" if kind in LISTS else draw(st.sampled_from(syntax.PARTS))
            return tree.PartOf(field, operator, draw(literals(name, whole=False)))
        case "matches":
            return tree.Matches(field, draw(st.sampled_from(PATTERNS)))
        case "bits":
            bits = [bit for bit in named(name) if fields()[name].flags]
            number = st.one_of(st.integers(1, 255), st.sampled_from([1 << 63, 1 << 40, 6])).map(tree.Number)
            bit = st.one_of(number, st.sampled_from(bits)) if bits else number
            chosen = draw(st.lists(bit, min_size=1, max_size=3))
            return tree.Bits(field, draw(st.sampled_from(["has", "&"])), tuple(chosen))
    return tree.Present(field)


def plain_order(literal: tree.Literal) -> int:
    return literal.ns if isinstance(literal, tree.Time | tree.Seconds) else literal.value  # type: ignore[union-attr,return-value]


def trees() -> st.SearchStrategy[tree.Expression]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            inner.map(tree.Not),
            st.lists(inner, min_size=2, max_size=4).map(syntax.both),
            st.lists(inner, min_size=2, max_size=4).map(syntax.either),
        ),
        max_leaves=8,
    )


@given(trees())
def test_a_tree_written_down_is_read_back(expression: tree.Expression) -> None:
    again = parse(str(expression))
    assert again == Filter(expression)
    assert str(again) == str(expression)


@given(trees())
def test_columns_and_rows_agree(expression: tree.Expression) -> None:
    chosen = Filter(expression)
    mask = chosen.mask(sample().select(sorted(chosen.columns)))
    assert isinstance(mask, pa.BooleanArray)
    assert mask.null_count == 0
    assert mask.to_pylist() == slow(expression, rows())


def test_the_sample_has_something_to_find() -> None:
    assert len(rows()) > 300
    for name in ("key", "value", "text", "features", "failover_log", "defects", "stream_id", "event", "end_seqno"):
        assert any(row[name] for row in rows()), name
        assert any(not row[name] for row in rows()), name


# What it means, in cases that can be counted by hand.

ROWS = [
    {"frame": 1, "opcode": 0x57, "magic": 0x80, "response": False, "vbucket": 5, "cas": -1, "key_bytes": b"k\xff"},
    {"frame": 2, "opcode": 0x53, "magic": 0x81, "response": True, "status": 0x23, "sport": 1, "dport": 9},
    {"frame": 3, "opcode": 0x53, "response": True, "status": 0, "src": "::1", "features": [0x12], "datatype": 3},
    {"frame": 4, "opcode": 0x56, "snapshot_type": 6, "time_ns": 1_794_795_000_000_000_001, "defects": ["key-missing"]},
    {"frame": 5, "opcode": 0x53, "end_seqno": NO_END, "opaque": 0x51, "text": 'a"b', "dialect": "dcp", "status": 0x30},
]  # fmt: skip
MEANINGS = [
    ("opcode == mutation", [1]),
    ("opcode == DCP_MUTATION", [1]),
    ("UPR_Mutation == opcode", [1]),
    ("opcode in {mutation..expiration}", [1]),
    ("status == rollback", [2]),
    ("status != success", [2, 5]),
    ("not status == success", [1, 2, 4, 5]),
    ("status in {rate_limited, ERANGE}", [5]),
    ("magic == request", [1]),
    ("response", [2, 3]),
    ("response == false", [1]),
    ("false == response", [1]),
    ("!response", [1, 4, 5]),
    ("exists response", [1, 2, 3]),
    ("vbucket", [1]),
    ("1 <= vbucket < 10", [1]),
    ("10 > vbucket > 5", []),
    ("vbucket in {1, 2, 5..9}", [1]),
    ("cas == 18446744073709551615", [1]),
    ("cas > 0x8000_0000_0000_0000", [1]),
    ("cas has 0xC000000000000000", [1]),
    ("vbucket < 18446744073709551615", [1]),
    ("end_seqno == 0xffffffffffffffff", [5]),
    ("end_seqno == no_end", [5]),
    (r'key_bytes == "k\xff"', [1]),
    ("key_bytes == hex:6bff", [1]),
    ('key_bytes matches "^k"', [1]),
    ('key_bytes matches "^k."', []),
    ("datatype has json|snappy", [3]),
    ("datatype has json|xattr", []),
    ("datatype & json|xattr", [3]),
    ("snapshot_type has disk", [4]),
    ("snapshot_type & 0x04 and not snapshot_type & 1", [4]),
    ("port == 9", [2]),
    ("port != 9", []),
    ("not port == 9", [1, 3, 4, 5]),
    ("port in {2..8}", []),
    ("2 <= port <= 8", []),
    ("src == ::1", [3]),
    ('addr == "0:0::1"', [3]),
    ("features contains collections", [3]),
    ("features contains 0x12", [3]),
    ("defects", [4]),
    ("exists defects", [4]),
    ("defects contains key-missing", [4]),
    ('time > "2026-11-16T02:10:00Z"', [4]),
    ('time == "2026-11-16T03:10:00.000000001+01:00"', [4]),
    ("opaque == 0x51", [5]),
    ("text == 'a\"b'", [5]),
    (r'text contains "\""', [5]),
    (r'text matches "\"b$"', [5]),
    ("text matches '^a\"b$'", [5]),
    ("dialect == DCP", [5]),
    ("vbucket or response and status == success", [1, 3]),
    ("(vbucket or response) AND NOT status == success", [1, 2]),
]


@pytest.mark.parametrize(("text", "expected"), MEANINGS)
def test_meaning(text: str, expected: list[int]) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, ROW_SCHEMA)
    mask = parse(text).mask(batch)
    assert [row["frame"] for row, kept in zip(ROWS, mask.to_pylist(), strict=True) if kept] == expected
    assert mask.to_pylist() == slow(parse(text).expression, batch.to_pylist())
    assert parse(str(parse(text))) == parse(text)
    assert len(parse(text).mask(batch.slice(0, 0))) == 0


def test_columns() -> None:
    assert parse('addr == ::1 and not (time < "2026-01-01" or key_length > value_length)').columns == {
        "src",
        "dst",
        "time_ns",
        "key_length",
        "value_length",
    }


def test_joined_conditions_are_one_list() -> None:
    assert parse("(vbucket and key) and (text && (cas))") == parse("vbucket and key and text and cas")
    assert str(parse("((vbucket) || (key and text))")) == "exists vbucket or exists key and exists text"


# What is refused: the mark stands under the character, and the reason says what to do.

ERRORS = [
    ("",
     "^", "the filter is empty"),
    ("  ",
     "  ^", "the filter is empty"),
    ("vbuckt == 5",
     "^", 'no field "vbuckt" (did you mean vbucket?)'),
    ("opcde == expiration",
     "^", "did you mean opcode?"),
    ("response and exists vbukcet",
     "                    ^", "did you mean vbucket?"),
    ("opcode == mutaton",
     "          ^", "did you mean mutation?"),
    ("opcode == snapshot_start",
     "          ^", "use name == snapshot_start"),
    ("opcode in {mutation, delet1on}",
     "                     ^", "did you mean deletion?"),
    ('opcode == "mutation"',
     "          ^", "names stand without quotes: mutation"),
    ("vbucket = 5",
     "        ^", "did you mean ==?"),
    ("vbucket <> 5",
     "        ^", "did you mean !=?"),
    ("key =~ 'a'",
     "    ^", "did you mean matches?"),
    ("key_bytes < 5",
     "            ^", "key_bytes is bytes"),
    ("key == hex:6bff",
     "       ^", "key is text; key_bytes has its bytes"),
    ('by_seqno contains "x"',
     "         ^", "by_seqno is a number"),
    ("vbucket == zero",
     "           ^", "vbucket has no names"),
    ("text == foo",
     "        ^", 'expected a string in "..."'),
    ('vbucket == "5"',
     "           ^", "expected a number"),
    ('response > true',
     "         ^", "only == and !="),
    ("response == 2",
     "            ^", "expected true or false"),
    ("response == maybe",
     "            ^", "expected true or false"),
    ("src < 10.0.0.1",
     "    ^", "only == and !="),
    ("src == 10.0.0.256",
     "       ^", "is no address"),
    ('src == "localhost"',
     "       ^", "is no address"),
    ("src == ::1::",
     "       ^", "is no address"),
    ("src == key_bytes",
     "       ^", "src is an address, key_bytes is bytes"),
    ("time > time_ns",
     "       ^", "time is a time, time_ns is a number"),
    ('time >= "yesterday"',
     "        ^", "is no time"),
    ('time >= "2026-02-30"',
     "        ^", "is on no calendar"),
    ('time >= "0001-01-01T00:00+14:00"',
     "        ^", "outside of what 64 bits"),
    ("time >= 2026-11-16",
     "            ^", "text and times stand in quotes"),
    ("defects == key-missing",
     "        ^", "ask whether it contains one"),
    ("defects contains key-mising",
     "                 ^", "did you mean key-missing?"),
    ('defects contains "key-mising"',
     "                 ^", "did you mean key-missing?"),
    ('dialect == "dpc"',
     "           ^", "did you mean dcp?"),
    ("defects in {key-missing}",
     "        ^", "ask whether it contains one"),
    ('features startswith "x"',
     "         ^", "startswith is for text and bytes"),
    ('failover_log contains "x"',
     "                      ^", "expected the number of a vbucket uuid"),
    ("name contains mutation",
     "              ^", 'expected a string in "..."'),
    ("vbucket matches '5'",
     "        ^", "matches is for text and bytes"),
    ('key matches "a(b"',
     "            ^", "missing )"),
    ('key matches "(?=a)"',
     "            ^", "no regular expression (RE2)"),
    ("key matches k",
     "            ^", "expected a regular expression"),
    ("key has 1",
     "    ^", "has is for numbers"),
    ("end_reason has closed",
     "               ^", "are values, not bits"),
    ("open_flags & 4 == 4",
     "               ^", "& is a test already"),
    ("open_flags has 0",
     "               ^", "0 has no bits"),
    ("open_flags has producer|",
     "                        ^", "expected a value, but the filter ends"),
    ("status == subdocument",
     "          ^", "write status in {subdocument}"),
    ("status not in {1}",
     "       ^", "not stands in front"),
    ("vbucket in {}",
     "            ^", "expected a value"),
    ("vbucket in {1 == 2}",
     "              ^", "expected , or }"),
    ("vbucket in (1)",
     "           ^", "expected {"),
    ("vbucket in {9..1}",
     "            ^", "the range ends before it begins"),
    ('key in {"a".."b"}',
     "           ^", "ranges are for numbers and times"),
    ("response in {true}",
     "         ^", "response is true or false"),
    ("5 == 6",
     "^", "one side has to be a field"),
    ("1 < 2 < 3",
     "    ^", "a field has to be in the middle"),
    ("1 < vbucket > 3",
     "            ^", "can follow each other"),
    ("vbucket == 1 == 1",
     "             ^", "can follow each other"),
    ("1 < vbucket < 3 < 4",
     "                ^", 'expected "and", "or" or the end'),
    ("vbucket 5",
     "        ^", "expected an operator"),
    ("5",
     " ^", "expected a comparison"),
    ("response response",
     "         ^", "expected an operator"),
    ("(response",
     "         ^", "expected ), but the filter ends"),
    ("response)",
     "        ^", 'but found ")"'),
    ("response and",
     "            ^", "expected a condition"),
    ("not",
     "   ^", "expected a condition"),
    ("exists",
     "      ^", "expected a field"),
    ("cas == 18446744073709551616",
     "       ^", "larger than 64 bits"),
    ("vbucket == 10k",
     "           ^", '"10k" is no number'),
    ("vbucket == 1__0",
     "           ^", "is no number"),
    ("vbucket == -1",
     "           ^", 'unexpected "-"'),
    ("key_bytes == hex:012",
     "                    ^", "two hexadecimal digits"),
    ("key_bytes == hex:0g",
     "                  ^", "is no hexadecimal digit"),
    ("text == hex:01",
     "        ^", "text is text"),
    (r'key == "a\q"',
     "         ^", r"no such escape: \q"),
    (r'key == "a\x1"',
     "         ^", "no such escape"),
    (r'key == "\ud800"',
     "        ^", "is no character"),
    (r'text == "\xff"',
     "        ^", "not UTF-8"),
    ('key == "abc',
     "       ^", 'no closing "'),
    ("key == \N{LEFT DOUBLE QUOTATION MARK}a",
     "       ^", "unexpected"),
    ('key == "\udcff"',
     "        ^", "not UTF-8"),
    ('key matches "\udcff"',
     "            ^", "not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "mark", "reason"), ERRORS)
def test_refusal(text: str, mark: str, reason: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.position == mark.index("^")
    assert reason in caught.value.reason
    first, shown, marked = str(caught.value).split("\n")
    assert first == caught.value.reason
    assert marked == "  " + mark
    assert shown == "  " + text.replace("\udcff", "?").rstrip() or not text.strip()


def test_a_refusal_is_fit_for_a_terminal() -> None:
    with pytest.raises(UprscopeError) as caught:
        parse('text == "\x1b[31m\n日本" and vbuckt == 5')
    _, shown, marked = str(caught.value).split("\n")
    assert shown == '  text == "?[31m 日本" and vbuckt == 5'
    assert marked.index("^") == shown.index("vbuckt") + 2  # two characters are two columns wide


def test_a_long_filter_is_shown_in_part() -> None:
    with pytest.raises(FilterError) as caught:
        parse("response or " * 100 + "vbuckt == 5" + " or response" * 100)
    _, shown, marked = str(caught.value).split("\n")
    assert len(shown) < 100
    assert shown[marked.index("^") :].startswith("vbuckt")
    assert shown.startswith("  ...")
    assert shown.endswith("...")


DEEP = syntax.MAX_DEPTH
HOSTILE = [
    "(" * (DEEP + 1) + "response" + ")" * (DEEP + 1),
    "(" * 60_000,
    "not " * 15_000 + "response",
    "!" * 60_000,
    "vbucket == " + "9" * 60_000,
    "vbucket == 0x" + "f" * 60_000,
    "vbucket == " + "1_" * 30_000,
    "vbucket in {" + "1," * 30_000,
    'key == "' + "\\" * 60_000,
    "key == '" + "a" * 60_000,
    "a" * 60_000 + " == 5",
    "opcode == " + "a-" * 30_000,
    "response or " * 10_000,
    "key matches '" + "(" * 60_000 + "'",
    "key matches '((((a{100}){100}){100}){100})'",
    "key matches '[[:nope:]]'",
    "key matches '\\'",
    "src == " + ":" * 60_000,
    "src == " + "1." * 30_000,
    "key_bytes == hex:" + "0" * 60_001,
    "\x00",
    "\ud800",
    "response \x85 response",
    "vbucket == \N{ARABIC-INDIC DIGIT FIVE}",
    'time > "9999-12-31T23:59:59-23:59"',
    'time > "2026-11-16T02:10:00+24:00"',
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert 0 <= caught.value.position <= len(text)
    assert len(str(caught.value)) < 600


def test_bounds() -> None:
    response = parse("response")
    assert parse("(" * DEEP + "response" + ")" * DEEP) == response
    assert parse("!" * DEEP + "response").mask(sample()).equals(response.mask(sample()))
    assert parse("response".ljust(tokens.MAX_LENGTH)) == response
    with pytest.raises(FilterError, match="longer than"):
        parse("response".ljust(tokens.MAX_LENGTH + 1))
    wide = parse(" or ".join(f"frame == {number}" for number in range(3000)))
    assert parse(str(wide)) == wide
    assert wide.mask(sample().slice(0, 9)).to_pylist() == slow(wide.expression, rows()[:9])


FIELDS = ("opcode", "key", "vbucket", "response", "defects", "time", "src", "port", "status", "datatype")
VALUES = ("mutation", "json", "5", "0x1f", '"a"', "'2026-01-01'", "hex:00", "::1", "10.0.0.1", "key-missing")
SIGNS = ("==", "=", "<", ">=", "{", "}", "..", ",", "(", ")", "|", "&", "&&", "||", "!", "-", "\\", '"', "é", "\n")
WIRESHARK = (
    "upr",
    "upr.opcode",
    "upr.open_flags.producer",
    "upr.defect",
    "frame.number",
    "upr.window",
    "eq",
    "gt",
    "~",
)
WORDS = (*sorted(tokens.KEYWORDS), *WIRESHARK, *FIELDS, *VALUES, *SIGNS)


def parsed(text: str) -> Filter | None:
    """Parse any text; a refusal points into it and is fit for a terminal."""
    refusal = None
    try:
        return parse(text)
    except FilterError as error:
        refusal = error
    assert 0 <= refusal.position <= len(text)
    assert all(line.isprintable() for line in str(refusal).split("\n"))
    return None


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    chosen = parsed(text)
    if chosen is not None:
        assert parse(str(chosen)) == chosen
        assert chosen.mask(sample()).to_pylist() == slow(chosen.expression, rows())


@given(trees(), st.data())
def test_a_cut_filter_is_a_filter_or_refused(expression: tree.Expression, data: st.DataObject) -> None:
    text = str(expression)
    start, end = sorted([data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))])
    chosen = parsed(text[:start] + text[end:])
    assert chosen is None or parse(str(chosen)) == chosen


# Names: every one can be written, and means one thing.


def test_names_can_be_written() -> None:
    for name, info in fields().items():
        assert name not in tokens.KEYWORDS
        assert not {column for column in info.columns if column not in ROW_SCHEMA.names}
        for spelled, constant in info.constants.items():
            assert [token.kind for token in tokens.tokenize(spelled)] == [
                tokens.TokenKind.WORD,
                tokens.TokenKind.END,
            ], spelled
            assert info.constants[constant.name.lower()] == constant  # what is printed is what was meant


def test_names_are_the_shipped_protocols() -> None:
    opcodes = {name: constant.value for name, constant in fields()["opcode"].constants.items()}
    assert opcodes["mutation"] == opcodes["upr_mutation"] == opcodes["dcp_mutation"] == 0x57
    assert (opcodes["noop"], opcodes["kv_noop"]) == (0x5C, 0x0A)
    assert fields()["end_reason"].constants["state_changed"].value == 2  # E-09
    assert fields()["vbucket_state"].constants["replica"].value == 2  # E-10


def test_every_defect_of_a_row_is_known() -> None:
    found = {defect for path in CAPTURES for row in frames(path).column("defects").to_pylist() for defect in row}
    assert found
    assert found <= set(registry.DEFECT_BY_ID)


def test_importing_takes_no_pyarrow() -> None:
    code = "import sys, dissector.filters; sys.exit(bool({'pyarrow', 'numpy'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# The document: its examples run, and its tables are complete.


def examples() -> list[tuple[str, str]]:
    lines = re.findall(r"^uprscope dissect captures/.*$", DOCUMENT.read_text(), re.MULTILINE)
    words = [shlex.split(line) for line in lines]
    assert all(len(line) == 5 and line[3] == "--filter" for line in words)
    return [(line[2], line[4]) for line in words]


def test_there_are_enough_examples() -> None:
    assert len(examples()) >= 15


@pytest.mark.parametrize(("capture", "text"), examples())
def test_example(capture: str, text: str) -> None:
    table = frames(ROOT / capture)
    chosen = parse(text)
    kept = [each for batch in table.to_batches() for each in chosen.mask(batch).to_pylist()]
    assert kept == slow(chosen.expression, table.to_pylist())
    assert 0 < sum(kept) < len(kept)  # an example that shows nothing, or everything, shows nobody anything


def test_the_document_names_every_field_with_names() -> None:
    text = DOCUMENT.read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", text.split("## Names")[1].split("## Grammar")[0], re.MULTILINE))
    seqnos = {name for name, info in fields().items() if set(info.constants) == {"no_end"}}
    assert listed == {name for name, info in fields().items() if info.constants} - seqnos
    assert all(f'"{word}"' in text for word in tokens.KEYWORDS)
    assert f"{tokens.MAX_LENGTH:,} characters" in text
    assert f"{syntax.MAX_DEPTH} levels" in text
