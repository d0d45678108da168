"""What an archive of 100 TB would need, from the ratios of one run: the table and the block of docs/scaling.md.

Knows arithmetic only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measure import Cost

_TB = 100
_MB = _TB * 1_000_000
_MACHINES, _CORES = 20, 16
_HEAP_MB = 1500
_LETTERS = {"ingest": "*i*", "check": "*c*", "check, shuffled": "*s*", "across": "*a*"}

Costs = Mapping[str, Mapping[str, float]]


def table(
    titles: Mapping[str, tuple[str, float]], ratios: Mapping[str, float], sessions: Mapping[int, Costs], size: int
) -> list[str]:
    """Return the table: one row per step (title, part of the captures), ratios of the first session, memory of all."""
    first, last = next(iter(sessions)), [*sessions][-1]
    lines = [
        f"| | step | x one process | shuffled / captured | largest worker, MB | wall-clock, {first} to {last} cores |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, (title, fraction) in titles.items():
        cost = sessions[first][name]
        peak = max(costs[name]["rss_mb"] for costs in sessions.values())
        gain = cost["wall_s"] / max(sessions[last][name]["wall_s"], 1e-3)
        shuffled = cost.get("shuffled", 0.0) / (size * fraction)
        lines.append(
            f"| {_LETTERS.get(name, '')} | {title} | {ratios[name]:.2f} | {shuffled:.3f} | {peak:.0f} | {gain:.2f} |"
        )
    return lines


def block(
    single: Mapping[str, Cost], ratios: Mapping[str, float], sessions: Mapping[int, Costs], size: int, parquet: float
) -> list[str]:
    """Return the arithmetic. Numbers are rounded before they are used, so that readers can follow."""
    decoded, checked = (round(size / 1e6 / single[name].cpu_s) for name in ("dissect", "check"))
    costs = next(iter(sessions.values()))
    sent = {name: round(costs[name].get("shuffled", 0.0) / size, 3) for name in ("check, shuffled", "across")}
    worker = round(max(cost["rss_mb"] for each in sessions.values() for cost in each.values()))
    hours, lines = {}, [_line(f"captures ({_TB} TB)", "", f"{_MB:,} MB")]
    for name, title, speed in (
        ("ingest", "ingest", decoded),
        ("check", "check, ring by ring", checked),
        ("check, shuffled", "  or, by connection", checked),
        ("across", "XCN-01", checked),
    ):
        ratio = round(ratios[name], 2)
        hours[name] = round(_MB / speed / 3600 * ratio)
        lines.append(_line(title, f"{_MB:,} / {speed} / 3600 x {ratio:.2f}", f"{hours[name]:,} core-hours"))
    parts = [hours[name] for name in ("ingest", "check", "across")]
    total, cores = sum(parts), _MACHINES * _CORES
    lines += [
        _line("together", " + ".join(f"{part:,}" for part in parts), f"{total:,} core-hours"),
        _line(f"{_MACHINES} machines of {_CORES} cores", f"{total:,} / {cores}", f"{total / cores:.1f} hours"),
        _line("a day's growth of 1 %", f"0.01 x {total:,}", f"{total / 100:,.0f} core-hours"),
    ]
    for name, title in (("check, shuffled", "shuffle, if by connection"), ("across", "shuffle of XCN-01")):
        size_tb = _TB * sent[name]
        each = f"{size_tb:.1f} TB, {size_tb / _MACHINES:.2f} TB of local disk per machine"
        lines.append(_line(title, f"{_TB} TB x {sent[name]:.3f}", each))
    partitions = round(_MB * sent["across"] / 200, -2)
    ring = round(100_000 / decoded * round(ratios["ingest"], 2) / 60)
    lines += [
        _line("  in partitions of 200 MB", f"{_TB * sent['across']:.1f} TB / 200 MB", f"{partitions:,.0f} partitions"),
        _line("archive", f"{_TB} TB x {parquet:.3f}", f"{_TB * parquet:.1f} TB of Parquet"),
        _line(
            "memory of a machine",
            f"{_CORES} x ({worker} MB + {_HEAP_MB:,} MB)",
            f"{_CORES * (worker + _HEAP_MB) / 1000:.0f} GB",
        ),
        _line("a ring of 100 GB", f"100,000 / {decoded} x {ratios['ingest']:.2f} / 60", f"{ring} minutes in one task"),
    ]
    return ["```", *lines, "```"]


def document(
    titles: Mapping[str, tuple[str, float]],
    single: Mapping[str, Cost],
    ratios: Mapping[str, float],
    runs: Mapping[int, Any],
    size: int,
) -> list[str]:
    """Return table and block, under a heading that says where they go."""
    sessions = {cores: run["costs"] for cores, run in runs.items()}
    parquet = next(iter(runs.values()))["found"]["parquet"] / size
    return [
        "## For docs/scaling.md",
        "",
        *table(titles, ratios, sessions, size),
        "",
        *block(single, ratios, sessions, size, parquet),
    ]


def _line(what: str, how: str, result: str) -> str:
    return f"{what:27}{how:>34} = {result}" if how else f"{what:61} = {result}"
