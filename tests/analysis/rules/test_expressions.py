"""Terms: what rules are made of. Equal ones are one, are computed once per table, and not at all where nobody looks."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.context.tables import Table
from analysis.rules.expressions import Term, col, either

_ROWS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3), st.integers(0, 1)), max_size=8)
_COMPARED: tuple[Callable[[Any, Any], Any], ...] = (operator.lt, operator.le, operator.gt, operator.ge)


def table_of(rows: list[tuple[int, int, int]], asked: Counter[str] | None = None) -> Table:
    """Make a table that counts how often a column is asked for."""
    columns = dict(zip(("a", "b", "flag"), np.array(rows, np.int64).reshape(-1, 3).T, strict=True))

    def source(name: str) -> Callable[[Any], Any]:
        def make(chosen: Any) -> Any:
            if asked is not None:
                asked[name] += 1
            return columns[name] if chosen is None else columns[name][chosen]

        return make

    return Table(len(rows), {name: source(name) for name in columns}, {})


@given(_ROWS, st.sampled_from(_COMPARED), st.integers(-1, 3))
def test_a_term_is_what_it_says_of_each_row(
    rows: list[tuple[int, int, int]], compare: Callable[[Any, Any], Any], number: int
) -> None:
    flag = col.flag.true()
    terms: dict[Term, Callable[[int, int, int], Any]] = {
        compare(col.a, col.b) & flag: lambda a, b, flag: compare(a, b) and flag == 1,
        flag | compare(col.a, number): lambda a, _, flag: flag == 1 or compare(a, number),
        ~(flag & col.a.equals(number)) | col.b.differs(number): lambda a, b, flag: (
            not (flag == 1 and a == number) or b != number
        ),
        either(flag, col.a + 1, col.b * 2): lambda a, b, flag: a + 1 if flag else b * 2,
        col.a.has(2) & col.b.one_of([0, 3]): lambda a, b, _: a in (2, 3) and b in (0, 3),
        (col.a - col.b) % 3: lambda a, b, _: (a - b) % 3,
        (flag & (col.a > 0)).named("both"): lambda a, _, flag: flag == 1 and a > 0,
    }
    table = table_of(rows)
    for _ in range(2):  # what was computed is there the second time
        for term, told in terms.items():
            assert term(table).tolist() == [told(*row) for row in rows], term


def test_equal_terms_are_one() -> None:
    term = (col.a > 1) & col.flag.true()
    assert (col.a > 1) & col.flag.true() is term
    assert (col.a > 2) & col.flag.true() is not term
    assert col.flag.true() is not col.flag
    assert term.named("something") is term.named("something")
    assert str(term.named("something")) == "something"


def test_behind_a_condition_that_no_row_meets_nothing_is_computed() -> None:
    asked: Counter[str] = Counter()
    term = (col.flag.true() & (col.a > col.b)) | (col.flag.equals(0) | (col.b > 0))
    assert term(table_of([(1, 2, 0), (2, 1, 0)], asked)).tolist() == [True, True]
    assert set(asked) == {"flag"}
    assert term(table_of([(1, 0, 1), (0, 0, 1)], asked)).tolist() == [True, False]
    assert set(asked) == {"flag", "a", "b"}
