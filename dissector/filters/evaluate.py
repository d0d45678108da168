"""Trees on record batches: whole columns at a time, with the kernels of pyarrow.

Two-valued: what a frame does not have compares false, so every test gives a mask without nulls.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dissector.filters import tree
from dissector.filters.errors import shown
from dissector.filters.names import LISTS, NO_END, FieldKind, fields

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPARE = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PART = {"contains": pc.match_substring, "startswith": pc.starts_with, "endswith": pc.ends_with}


def evaluate(expression: tree.Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return which rows an expression holds for."""
    match expression:
        case tree.And():
            return _joined(pc.and_, [evaluate(part, batch) for part in expression.parts])
        case tree.Or():
            return _joined(pc.or_, [evaluate(part, batch) for part in expression.parts])
        case tree.Not():
            return pc.invert(evaluate(expression.part, batch))
    asked = [field.name for field in tree.fields_of(expression)]
    masks = [
        pc.fill_null(_tested(expression, dict(zip(asked, columns, strict=True)), batch), False)
        for columns in itertools.product(*(fields()[name].columns for name in asked))
    ]
    # "port != 1" says that no port is 1; everything else, that some port is like that.
    differs = isinstance(expression, tree.Compare) and expression.operators == ("!=",)
    return _joined(pc.and_ if differs else pc.or_, masks)


def pattern_trouble(pattern: str) -> str | None:
    """Return why RE2 refuses a pattern; None: it does not."""
    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowException as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        return f"no regular expression (RE2): {shown(reason)[1:-1]}"
    return None


def _joined(join: Any, masks: list[pa.BooleanArray]) -> pa.BooleanArray:
    joined = masks[0]
    for mask in masks[1:]:
        joined = join(joined, mask)
    return joined


def _tested(test: tree.Test, columns: Mapping[str, str], batch: pa.RecordBatch) -> pa.BooleanArray:
    """Apply one test, with a column for each of its fields."""
    if isinstance(test, tree.Compare):
        return _compared(test, columns, batch)
    kind = fields()[test.field.name].kind
    column = batch.column(columns[test.field.name])
    match test:
        case tree.Truth():
            return column
        case tree.Present():
            return pc.greater(pc.list_value_length(column), 0) if kind in LISTS else pc.is_valid(column)
        case tree.Matches():
            # Bytes are taken for UTF-8 without a check: RE2 matches nothing where they are not.
            return pc.match_substring_regex(column.view(pa.string()), test.pattern)
        case tree.PartOf():
            if kind in LISTS:
                return _in_list(column, kind, test.literal)
            return _PART[test.operator](column, _plain(test.literal))
        case tree.Bits():
            # All columns as patterns of 64 bits: a number that is not negative is its own pattern.
            mask = pa.scalar(test.mask, pa.uint64())
            found = pc.bit_wise_and(_numbers(column, unsigned=True), mask)
            return pc.equal(found, mask) if test.operator == "has" else pc.greater(found, pa.scalar(0, pa.uint64()))
        case tree.InList():
            return _member(test, column, unsigned=kind is FieldKind.UNSIGNED)


def _compared(test: tree.Compare, columns: Mapping[str, str], batch: pa.RecordBatch) -> pa.BooleanArray:
    kinds = {fields()[field.name].kind for field in tree.fields_of(test)}
    unsigned = FieldKind.UNSIGNED in kinds
    values = []
    for operand in test.operands:
        if isinstance(operand, tree.FieldRef):
            column = batch.column(columns[operand.name])
            values.append(_numbers(column, unsigned=unsigned) if pa.types.is_integer(column.type) else column)
        else:
            values.append(_scalar(operand, unsigned=unsigned))
    masks = [
        _COMPARE[operator](left, right)
        for operator, left, right in zip(test.operators, values, values[1:], strict=False)
    ]
    return _joined(pc.and_, masks)


def _member(test: tree.InList, column: pa.Array, *, unsigned: bool) -> pa.BooleanArray:
    numbers = _numbers(column, unsigned=unsigned) if pa.types.is_integer(column.type) else column
    masks = []
    singles = [_scalar(item, unsigned=unsigned) for item in test.items if not isinstance(item, tree.Range)]
    if singles:
        masks.append(pc.is_in(numbers, value_set=pa.array([each.as_py() for each in singles], numbers.type)))
    for item in test.items:
        if isinstance(item, tree.Range):
            low, high = _scalar(item.low, unsigned=unsigned), _scalar(item.high, unsigned=unsigned)
            masks.append(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)))
    return _joined(pc.or_, masks)


def _in_list(column: pa.Array, kind: FieldKind, literal: tree.Literal) -> pa.BooleanArray:
    """Compare a value with the entries of all lists at once, and mark the rows of the lists that have it."""
    entries, rows = column.flatten(), pc.list_parent_indices(column)
    if kind is FieldKind.LOG:
        entries = _numbers(pc.struct_field(entries, "vbucket_uuid"), unsigned=True)
    elif kind is FieldKind.RECORDS:
        entries = pc.struct_field(entries, "key_bytes" if isinstance(literal, tree.Bytes) else "key")
    elif kind is FieldKind.NUMBERS:
        entries = _numbers(entries, unsigned=False)
    found = pc.fill_null(pc.equal(entries, _scalar(literal, unsigned=kind is FieldKind.LOG)), False)
    mask = np.zeros(len(column), bool)
    mask[rows.filter(found).to_numpy(zero_copy_only=False)] = True
    return pa.array(mask)


def _numbers(column: pa.Array, *, unsigned: bool) -> pa.Array:
    """Widen numbers to 64 bits; identifiers become unsigned."""
    wide = column.cast(pa.int64())
    return wide.view(pa.uint64()) if unsigned else wide


def _scalar(literal: tree.Literal, *, unsigned: bool) -> pa.Scalar:
    match literal:
        case tree.Number():
            if unsigned:
                return pa.scalar(literal.value, pa.uint64())
            # As in the rows: seqnos stop at NO_END, and no other number is that large.
            return pa.scalar(min(literal.value, NO_END), pa.int64())
        case tree.Time():
            return pa.scalar(literal.ns, pa.int64())
        case tree.Seconds():
            return pa.scalar(literal.ns / tree.SECOND_NS, pa.float64())
        case tree.Bytes():
            return pa.scalar(literal.value, pa.binary())
        case tree.Text():
            return pa.scalar(literal.value, pa.string())
        case tree.Boolean():
            return pa.scalar(literal.value, pa.bool_())


def _plain(literal: tree.Literal) -> str | bytes:
    if isinstance(literal, tree.Text | tree.Bytes):
        return literal.value
    raise TypeError(literal)  # pragma: no cover - the parser lets no other through
