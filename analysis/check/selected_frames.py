"""The frames that a selection is about: how many there are, and whether its connection and vbucket came up at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.arrow import encoded, plain
from dissector.errors import UsageError
from dissector.frames.vbuckets_seen import VbucketsSeen

if TYPE_CHECKING:
    import pyarrow as pa

    from analysis.check.selection import Selection


class SelectedFrames:
    """Counts the frames of the chosen connection, and looks for the vbucket among them."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._vbuckets = VbucketsSeen()
        self.count: int | None = None if selection.connection is None else 0  #: None: no connection is chosen

    def see(self, batch: pa.RecordBatch, names: list[str]) -> None:
        """Look at a batch; ``names`` are the ids of all connections until then."""
        selection = self._selection
        if selection.connection is None and selection.vbucket is None:
            return
        mine = np.ones(batch.num_rows, bool)
        if selection.connection is not None:
            place = selection.place(names)
            ids, code = encoded(batch.column("connection"))
            there = ids.to_pylist()
            mine = code == there.index(names[place]) if place >= 0 and names[place] in there else ~mine
            self.count = (self.count or 0) + int(np.count_nonzero(mine))
        if selection.vbucket is not None:
            self._vbuckets.see(plain(batch.column("vbucket"), -1).astype(np.int64, copy=False)[mine])

    def confirm(self) -> None:
        """Raise UsageError, after all frames, if none of them had the vbucket that was asked for."""
        selection = self._selection
        if selection.vbucket is None:
            return
        where = f"connection {selection.connection}" if selection.connection is not None else ""
        if missing := self._vbuckets.missing(selection.vbucket, where):
            raise UsageError(missing)
