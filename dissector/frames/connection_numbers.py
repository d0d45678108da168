"""Numbers of connections in the order in which their first frames come up: for listings, summaries and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.arrow import encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dissector.array_types import Longs


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


class ConnectionNumbers(AppearanceOrder):
    """Connections by their ids, whether or not their frames are shown; and the time of the first frame."""

    def __init__(self) -> None:
        super().__init__()
        self.start_ns: int | None = None

    def see(self, batch: pa.RecordBatch) -> None:
        """Number a batch's connections, and take note of when the first batch begins."""
        if self.start_ns is None and batch.num_rows:
            self.start_ns = batch.column("time_ns")[0].as_py()
        self.add(encoded(batch.column("connection"))[0].to_pylist())
