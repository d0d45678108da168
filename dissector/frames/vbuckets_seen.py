"""The vbuckets that came up, for a clear word where the one that was asked for did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBERS = 1 << 16
_MOST_RUNS = 5  #: runs of numbers that are named
_LONGEST_LIST = 2  #: numbers of a run that are named one by one


class VbucketsSeen:
    """Which numbers of vbuckets there were."""

    def __init__(self) -> None:
        self._seen = np.zeros(_NUMBERS, bool)

    def see(self, vbuckets: NDArray[np.integer]) -> None:
        """Take note of these; a number below 0 is none."""
        self._seen[vbuckets[vbuckets >= 0]] = True

    def missing(self, vbucket: int, where: str = "") -> str | None:
        """Say that no frame had this vbucket, and which there were; None: there was one. ``where``: on what alone."""
        if self._seen[vbucket]:
            return None
        there = np.flatnonzero(self._seen)
        on = f" on {where}" if where else ""
        if not len(there):
            return f"no vbucket {vbucket}{on} (no frame has a vbucket)"
        return f"no vbucket {vbucket}{on} ({_listed(there)})"


def _listed(numbers: NDArray[np.intp]) -> str:
    """Name the first runs of numbers: vbuckets are 0 to 5, 17 and 1,018 more."""
    if len(numbers) == 1:
        return f"the only vbucket is {numbers[0]}"
    shown = np.split(numbers, 1 + np.flatnonzero(np.diff(numbers) != 1))[:_MOST_RUNS]
    more = len(numbers) - sum(map(len, shown))
    texts: list[str] = []
    for run in shown:
        texts += [f"{run[0]} to {run[-1]}"] if len(run) > _LONGEST_LIST else [str(number) for number in run]
    if more:
        return f"vbuckets are {', '.join(texts)} and {more:,} more"
    return f"vbuckets are {', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else f"vbuckets are {texts[0]}"
