"""Predicates as terms over columns: ``col.by_seqno > col.previous_seqno``.

A term is called with a table and gives an array. It also can be printed, so that the documentation of a rule shows
exactly what is computed.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from analysis.context import Table


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Something that can be computed for every row of a table."""

    make: Callable[[Table], Any]
    text: str
    atomic: bool = False

    def __call__(self, table: Table) -> NDArray[Any]:
        """Compute it."""
        made = self.make(table)
        if isinstance(made, np.ndarray) and made.shape == (table.size,):
            return made
        return np.broadcast_to(np.asarray(made), (table.size,))

    def __str__(self) -> str:
        return self.text

    @property
    def inner(self) -> str:
        """Return the text as part of another one."""
        return self.text if self.atomic else f"({self.text})"

    def _with(self, other: Term | int, symbol: str, act: Callable[[Any, Any], Any]) -> Term:
        right = other if isinstance(other, Term) else constant(other)
        return Term(lambda table: act(self.make(table), right.make(table)), f"{self.inner} {symbol} {right.inner}")

    def __and__(self, other: Term | int) -> Term:
        return self._with(other, "&", operator.and_)

    def __or__(self, other: Term | int) -> Term:
        return self._with(other, "|", operator.or_)

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
        return Term(lambda table: np.logical_not(self.make(table)), f"not {self.inner}", atomic=False)

    def has(self, bits: int) -> Term:
        """Return whether any of some bits is set; null has none."""
        return Term(lambda table: (np.maximum(self.make(table), 0) & bits) != 0, f"{self.inner} has {bits:#x}")

    def one_of(self, values: Iterable[int]) -> Term:
        """Return whether it is one of some numbers."""
        wanted = sorted(values)
        listed = ", ".join(map(str, wanted))
        return Term(lambda table: np.isin(self.make(table), wanted), f"{self.inner} in {{{listed}}}")

    def true(self) -> Term:
        """Return whether it is not 0."""
        return Term(lambda table: np.not_equal(self.make(table), 0), self.text, self.atomic)


def constant(number: int) -> Term:
    """Return a number as a term."""
    return Term(lambda _: number, f"{number:#x}" if number > 1 << 20 else str(number), atomic=True)


class _Columns:
    """Columns by name."""

    def __getattr__(self, name: str) -> Term:
        return Term(lambda table: table[name], name, atomic=True)


col = _Columns()


def either(condition: Term, yes: Term, no: Term) -> Term:
    """Return one of two things for each row."""
    return Term(
        lambda table: np.where(condition.make(table), yes.make(table), no.make(table)),
        f"if {condition.inner} then {yes.inner} else {no.inner}",
    )


ALWAYS = Term(lambda table: np.ones(table.size, bool), "always", atomic=True)
NEVER = Term(lambda table: np.zeros(table.size, bool), "never", atomic=True)
