"""Numbers of connections in the order in which their first frames come up: for listings, summaries and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.arrow import encoded, is_shared, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dissector.array_types import Longs


UNUSED = "-"  #: in place of the id, where rows of a file have left a number out
_MOST_NUMBERS = 1 << 20  #: of connections, that rows of a file may have
_LONGEST_RUN = 1 << 33  #: seconds


class AppearanceOrder:
    """Names in the order in which they come up."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}  #: from 1, as people count

    def add(self, names: Sequence[str]) -> None:
        """Number the names that are new."""
        for name in names:
            if name not in self.numbers:
                self.names.append(name)
                self.numbers[name] = len(self.names)

    def forget(self, name: str) -> None:
        """Forget a name of which nothing more comes; its number is not given to another one."""
        number = self.numbers.pop(name, None)
        if number is not None:
            self.names[number - 1] = ""

    def indexes(self, names: Sequence[str]) -> Longs:
        """Return each name's place in :attr:`names`, from 0; new ones are added."""
        self.add(names)
        return np.array([self.numbers[name] - 1 for name in names], np.int64)


def is_number(text: str) -> bool:
    """Tell whether a text is the number of a connection in listings."""
    return text.isascii() and text.isdigit() and len(text) < 16


def is_id(text: str) -> bool:
    """Tell whether a text is the id of a connection: 16 hexadecimal digits."""
    return len(text) == 16 and all(character in "0123456789abcdef" for character in text.lower())


def is_name(text: str | None) -> bool:
    """Tell whether a connection is asked for by its name, and neither by its number nor by its id."""
    return text is not None and not is_number(text) and not is_id(text)


def place_of(connection: str, ids: Sequence[str]) -> int:
    """Return where a connection, given by its number or id, is among ``ids``, which are in their order; -1: nowhere."""
    if is_number(connection):
        there = 1 <= int(connection) <= len(ids) and ids[int(connection) - 1] != UNUSED
        return int(connection) - 1 if there else -1
    return ids.index(connection.lower()) if connection.lower() in ids else -1


def no_such_connection(connection: str, ids: Sequence[str]) -> str | None:
    """Say that a connection has not come up among all; None: it has."""
    if place_of(connection, ids) >= 0:
        return None
    known = [number for number, each in enumerate(ids, 1) if each != UNUSED]
    if not known:
        return f"no connection {connection} (no connection has frames)"
    if len(known) == 1:
        return f"no connection {connection} (the only connection is {known[0]})"
    return f"no connection {connection} (connections are {known[0]} to {known[-1]})"


class ConnectionNumbers(AppearanceOrder):
    """Connections by their ids, whether or not their frames are shown; and the time of the first frame."""

    def __init__(self) -> None:
        super().__init__()
        self.start_ns: int | None = None
        self._seen: tuple[pa.Array, Longs] | None = None  #: the last batch's connections, which several stages ask for

    def see(self, batch: pa.RecordBatch) -> Longs:
        """Number a batch's connections, and take note of when the first batch begins.

        Returns the place of each row's connection in :attr:`names`, from 0. Rows that were written before may be some
        of a run: the numbers and seconds that they have hold on.
        """
        there = batch.schema.names
        if self.start_ns is None and batch.num_rows and "time_ns" in there:
            self.start_ns = batch.column("time_ns")[0].as_py() - _passed_ns(batch)
        if "connection" not in there:
            return np.empty(0, np.int64)
        column = batch.column("connection")
        if self._seen is None or not is_shared(column, self._seen[0]):
            ids, codes = encoded(column)
            names = ids.to_pylist()
            self.take(names, codes.astype(np.int64), batch)
            self._seen = column, self.indexes(names)[codes]
        return self._seen[1]

    def forget(self, name: str) -> None:
        """Forget a connection of which nothing more comes; its number is not given to another one."""
        super().forget(name)
        self._seen = None

    def take(self, ids: Sequence[str], codes: Longs, batch: pa.RecordBatch) -> None:
        """Number a batch's connections, of which each row has the code."""
        if "connection_number" in batch.schema.names:
            self._keep(ids, codes, batch.column("connection_number"))
        self.add(ids)

    def _keep(self, ids: Sequence[str], codes: Longs, stored: pa.Array) -> None:
        """Take the numbers that rows have; one that is taken, or beyond all sense, is not kept."""
        new = [code for code, name in enumerate(ids) if name not in self.numbers]
        if not new:
            return
        numbers = plain(stored, 0)
        for code in new:
            number = int(numbers[np.argmax(codes == code)])
            if len(self.names) < number <= _MOST_NUMBERS:
                self.names += [UNUSED] * (number - len(self.names))
            if 0 < number <= len(self.names) and self.names[number - 1] == UNUSED:
                self.names[number - 1], self.numbers[ids[code]] = ids[code], number


def _passed_ns(batch: pa.RecordBatch) -> int:
    """Return how long the run had lasted when a batch began, as far as its rows tell."""
    if "seconds" not in batch.schema.names:
        return 0
    seconds = batch.column("seconds")[0].as_py()
    return round(seconds * 1e9) if seconds is not None and 0 <= seconds < _LONGEST_RUN else 0
