"""Tables of a report as values: columns, cells, rows. Knows what the table's template shows; must not know HTML."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class PageColumn:
    """The top of a column, and how its cells look."""

    label: str
    right: bool = False  #: numbers
    wrap: bool = False  #: long text
    cut: bool = False  #: long text that nobody reads: its beginning is shown, the rest where it is pointed at

    @property
    def style(self) -> str:
        """Return the class of its cells."""
        return "number" if self.right else "wide" if self.wrap else "cut" if self.cut else ""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text that leads to an element of the page, or that has the colour of a verdict."""

    text: str
    link: str = ""  #: id of the element
    tag: str = ""  #: verdict, or severity


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table, which the script makes sortable and filterable unless it is fixed.

    Rows after the first ones, if ``first`` is not None, are folded away; they can be shown without a script.
    """

    id: str
    caption: str
    columns: Sequence[PageColumn]
    rows: Sequence[Sequence[str | Cell]]
    fixed: bool = False
    first: int | None = None
    folded: str = ""  #: what the rows after the first ones are

    @property
    def shown(self) -> int:
        """Return how many rows are there to be seen at first."""
        return len(self.rows) if self.first is None else self.first

    @property
    def rest(self) -> str:
        """Return what is folded away; nothing if there is nothing."""
        return self.folded if self.shown < len(self.rows) else ""

    def paired(self, row: Sequence[str | Cell]) -> Iterator[tuple[PageColumn, str | Cell]]:
        """Return the cells of a row, each with its column."""
        return zip(self.columns, row, strict=True)


def without_empty_columns(table: PageTable, always: int = 0) -> PageTable:
    """Return a table without the columns that are empty in every row; the first ``always`` columns stay."""
    used = [at for at in range(len(table.columns)) if at < always or any(row[at] for row in table.rows)]
    columns = [table.columns[at] for at in used]
    return dataclasses.replace(table, columns=columns, rows=[[row[at] for at in used] for row in table.rows])
