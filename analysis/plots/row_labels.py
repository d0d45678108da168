"""Plots with a row for each connection: which rows to show, their labels, and the height of the figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

SHOWN = 24


def busiest(weight: NDArray[np.int64], keys: Sequence[int]) -> list[int]:
    """Return the lanes with the highest weights, as many as fit, in the order of their keys."""
    order = np.argsort(-weight, kind="stable").tolist()[:SHOWN]
    return sorted((lane for lane in order if weight[lane] > 0), key=lambda lane: keys[lane])


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Write a label beside each row, the first on top."""
    axes.set_yticks(np.arange(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def figure_height(rows: int) -> float:
    """Return the height of a figure with so many rows, in inches."""
    return 2.0 + 0.36 * max(rows, 2)
