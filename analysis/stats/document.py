"""Statistics as one JSON object: the frozen value, and what follows from it. docs/stats.md has the keys."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from analysis.stats.durations import BUCKET_ERROR
from dissector.summary.rows import iso_time

if TYPE_CHECKING:
    from analysis.stats.statistics import Statistics

_SECOND_NS = 10**9


def document(found: Statistics) -> dict[str, Any]:
    """Lay statistics out as an object of plain values."""
    laid_out: dict[str, Any] = dataclasses.asdict(found)
    time = found.time
    laid_out["quantile_error"] = round(BUCKET_ERROR, 4)
    if time is not None:
        laid_out["time"] |= {
            "first": iso_time(time.first_ns),
            "last": iso_time(time.last_ns),
            "duration_ns": time.duration_ns,
        }
    seconds = time.duration_ns / _SECOND_NS if time is not None else 0
    for name in ("messages", "bytes"):
        laid_out[f"{name}_per_second"] = round(laid_out[name] / seconds, 3) if seconds else None
    laid_out["streams"]["seqnos_without_item"] = found.streams.without_item
    return laid_out
