"""Predicates as terms over columns: ``col.by_seqno > col.previous_seqno``.

A term is called with a table and gives an array. It also can be printed, so that the documentation of a rule shows
exactly what is computed: numbers that stand for something are printed by the names that their column declares.

Rules have much in common, and most of what they ask about never happens. So equal terms are one object, which is
computed once per table where several ask for it; and after a condition that no row meets nothing is computed.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context.schema import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from analysis.context import Table
    from analysis.context.schema import Vocabulary


class Term:
    """Something that can be computed for every row of a table."""

    __slots__ = ("_make", "atomic", "columns", "shared", "text", "vocabulary")

    def __init__(
        self, make: Callable[[Table], Any], text: str, *, atomic: bool = False, columns: frozenset[str] = frozenset()
    ) -> None:
        self._make = make
        self.text = text
        self.atomic = atomic
        self.columns = columns  #: that it is computed of
        self.shared = False  #: used more than once, so its result is kept
        self.vocabulary: Vocabulary | None = None  #: what the column's numbers are called

    def __call__(self, table: Table) -> NDArray[Any]:
        """Compute it: a read-only array with an element for each row."""
        made = self.make(table)
        if isinstance(made, np.ndarray) and made.shape == (table.size,):
            return made
        return np.broadcast_to(np.asarray(made), (table.size,))

    def make(self, table: Table) -> Any:
        """Compute it: an array, or one number for all rows."""
        if not self.shared:
            return self._make(table)
        found = table.terms.get(self)
        if found is None:
            found = table.terms[self] = self._make(table)
        return found

    def __str__(self) -> str:
        return self.text

    @property
    def inner(self) -> str:
        """Return the text as part of another one."""
        return self.text if self.atomic else f"({self.text})"

    def named(self, text: str, *, atomic: bool = True) -> Term:
        """Return the same term, printed as a name."""
        return _one((self, text), self.make, text, atomic=atomic)

    def _with(self, other: Term | int, symbol: str, act: Callable[[Any, Any], Any]) -> Term:
        right = other if isinstance(other, Term) else self._constant(other, symbol)
        text = f"{self.inner} {symbol} {right.inner}"
        return _one((symbol, self, right), lambda table: act(self.make(table), right.make(table)), text)

    def _constant(self, number: int, symbol: str) -> Term:
        """Return a number to compare with, under the name that it has in this column."""
        term = constant(number)
        if self.vocabulary is not None:
            name = self.vocabulary.value(number) if symbol in _EQUALITY else self.vocabulary.measure(number)
            return term if name is None else term.named(name)
        return term

    def __and__(self, other: Term | int) -> Term:
        right = other if isinstance(other, Term) else constant(other)

        def both(table: Table) -> Any:
            first = self.make(table)
            return first if _uniform(first, value=False) else first & right.make(table)

        return _one(("&", self, right), both, f"{self.inner} & {right.inner}")

    def __or__(self, other: Term | int) -> Term:
        right = other if isinstance(other, Term) else constant(other)

        def any_of(table: Table) -> Any:
            first = self.make(table)
            return first if _uniform(first, value=True) else first | right.make(table)

        return _one(("|", self, right), any_of, f"{self.inner} | {right.inner}")

    def __add__(self, other: Term | int) -> Term:
        return self._with(other, "+", operator.add)

    def __sub__(self, other: Term | int) -> Term:
        return self._with(other, "-", operator.sub)

    def __mul__(self, other: Term | int) -> Term:
        return self._with(other, "*", operator.mul)

    def __mod__(self, other: Term | int) -> Term:
        return self._with(other, "%", operator.mod)

    def __lt__(self, other: Term | int) -> Term:
        return self._with(other, "<", operator.lt)

    def __le__(self, other: Term | int) -> Term:
        return self._with(other, "<=", operator.le)

    def __gt__(self, other: Term | int) -> Term:
        return self._with(other, ">", operator.gt)

    def __ge__(self, other: Term | int) -> Term:
        return self._with(other, ">=", operator.ge)

    def equals(self, other: Term | int) -> Term:
        """Return whether two things are equal."""
        return self._with(other, "=", operator.eq)

    def differs(self, other: Term | int) -> Term:
        """Return whether two things are not equal."""
        return self._with(other, "≠", operator.ne)

    def __invert__(self) -> Term:
        return _one(("not", self), lambda table: np.logical_not(self.make(table)), f"not {self.inner}")

    def has(self, bits: int) -> Term:
        """Return whether any of some bits is set; null has none."""

        def found(table: Table) -> Any:
            numbers = self.make(table)
            return ((numbers & bits) != 0) & (numbers > 0)

        return _one(("has", self, bits), found, self._bits(bits))

    def _bits(self, bits: int) -> str:
        names = () if self.vocabulary is None else self.vocabulary.bits(bits)
        if len(names) > 1:
            return f"{self.inner} has any of {{{', '.join(names)}}}"
        return f"{self.inner} has {names[0] if names else f'{bits:#x}'}"

    def one_of(self, values: Iterable[int]) -> Term:
        """Return whether it is one of some numbers."""
        wanted = sorted(values)
        names = [None if self.vocabulary is None else self.vocabulary.value(number) for number in wanted]
        listed = ", ".join(str(number) if name is None else name for number, name in zip(wanted, names, strict=True))
        text = f"{self.inner} in {{{listed}}}"
        return _one(("in", self, tuple(wanted)), lambda table: np.isin(self.make(table), wanted), text)

    def true(self) -> Term:
        """Return whether it is not 0."""
        return _one(("true", self), lambda table: np.not_equal(self.make(table), 0), self.text, atomic=self.atomic)


_TERMS: dict[Hashable, Term] = {}
_EQUALITY = ("=", "≠")


def _one(key: Hashable, make: Callable[[Table], Any], text: str, *, atomic: bool = False) -> Term:
    """Return the one term of this kind; from the second time on that it is made, its result is shared."""
    found = _TERMS.get(key)
    if found is None:
        parts = key if isinstance(key, tuple) else ()
        columns = frozenset[str]().union(*(part.columns for part in parts if isinstance(part, Term)))
        found = _TERMS[key] = Term(make, text, atomic=atomic, columns=columns)
    else:
        found.shared = True
    return found


def _uniform(mask: Any, *, value: bool) -> bool:
    """Tell whether a condition has this value for all rows."""
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        return False
    return bool(mask.all()) if value else not mask.any()


def constant(number: int) -> Term:
    """Return a number as a term."""
    text = f"{number:#x}" if number > 1 << 20 else str(number)
    found = _TERMS.get(("constant", number))
    return found or _TERMS.setdefault(("constant", number), Term(lambda _: number, text, atomic=True))


class _Columns:
    """Columns by name."""

    def __getattr__(self, name: str) -> Term:
        found = _TERMS.get(("column", name))
        if found is None:
            found = Term(lambda table: table[name], name, atomic=True, columns=frozenset((name,)))
            found.vocabulary = vocabulary(name)
            _TERMS["column", name] = found
        return found


col = _Columns()


def either(condition: Term, yes: Term, no: Term) -> Term:
    """Return one of two things for each row."""
    return _one(
        ("if", condition, yes, no),
        lambda table: np.where(condition.make(table), yes.make(table), no.make(table)),
        f"if {condition.inner} then {yes.inner} else {no.inner}",
    )


ALWAYS = Term(lambda table: np.ones(table.size, bool), "always", atomic=True)
NEVER = Term(lambda table: np.zeros(table.size, bool), "never", atomic=True)
