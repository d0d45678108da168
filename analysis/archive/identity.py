"""XCN-01 in Spark: versions of one bucket, vbucket, branch and seqno against each other.

The pattern of rules across connections: aggregate to what can be decided, fold to one row per root, and only then fetch
the frames that prove it. All aggregates have a part that is done before anything is sent around, and a group is one
seqno, so no bucket or connection is too large. Must not know how versions are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from analysis.archive.versions import ATTRIBUTES, IDENTITY, VERSION, versions
from analysis.findings import Finding, FrameRef, finding_id
from analysis.rules.cross import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

RULE = next(rule for rule in RULES if rule.id == "XCN-01")

_DIFFERS = " or ".join(f"min({name}) != max({name})" for name in ATTRIBUTES)
#: One row per branch of a vbucket; what is not null is compared, and what nothing else shows can't be compared.
_ROOTS = f"""
select bucket, vbucket, branch,
  count_if(seen > 1 and branch is not null) as checked,
  count_if(branch is null) as undecided,
  count_if(differs) as violated,
  min(case when differs then by_seqno end) as first_seqno,
  max(case when differs then by_seqno end) as last_seqno
from (
  select {", ".join(VERSION)}, count(*) as seen, branch is not null and coalesce({_DIFFERS}, false) as differs
  from {{versions}} group by {", ".join(VERSION)}
) group by bucket, vbucket, branch
"""  # noqa: S608 - names of this program
_PROOF = """
select /*+ broadcast(r) */ v.*, r.violated, r.last_seqno from {versions} v join {roots} r
  on v.bucket = r.bucket and v.vbucket = r.vbucket and v.branch = r.branch
  and v.by_seqno in (r.first_seqno, r.last_seqno)
"""


def roots(frames: DataFrame, connections: DataFrame) -> DataFrame:
    """Return one row per branch: how many seqnos were compared, how many differ, and the first one that does."""
    return frames.sparkSession.sql(_ROOTS, versions=versions(frames, connections))


def findings(frames: DataFrame, connections: DataFrame, broken: DataFrame) -> list[Finding]:
    """Return a finding for each broken branch; ``broken`` are rows of :func:`roots`, as many as are wanted."""
    shown = frames.sparkSession.sql(_PROOF, versions=versions(frames, connections), roots=broken)
    seen: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in shown.toLocalIterator():
        found = row.asDict()
        seen.setdefault(tuple(found[name] for name in VERSION[:3]), []).append(found)
    made = (_finding(rows) for rows in seen.values())
    return sorted(made, key=lambda finding: (finding.time_ns, finding.id))


def _finding(rows: Sequence[Mapping[str, Any]]) -> Finding:
    first = min(row["by_seqno"] for row in rows)
    what, guilty, other = _pair([row for row in rows if row["by_seqno"] == first])
    check = RULE.checks[0]
    values: dict[str, Any] = {"by_seqno": first, "what": what, "vbucket_uuid": guilty["branch"]}
    for name in ("rev_seqno", "item_flags", "expiration", "durability_level"):
        values |= {name: guilty[name], f"other_{name}": other[name]}
    facts = {name: int(values[name]) for name in check.facts if values[name] is not None}
    spoken = {**dict.fromkeys(check.facts, 0), **facts, "other_connection": other["connection"]}
    echoes = guilty["violated"] - 1
    last = [row for row in rows if row["by_seqno"] == guilty["last_seqno"]]
    return Finding(
        finding_id(RULE, check, guilty["connection"], guilty["direction"], guilty["start_offset"]),
        RULE.id,
        RULE.severity,
        RULE.title,
        guilty["connection"],
        guilty["vbucket"],
        None,
        (_frame("guilty", guilty), _frame("other", other)),
        facts,
        check.sentence(cast("Mapping[str, int]", spoken)),
        check.name,
        echoes,
        _frame("guilty", _pair(last)[1]) if echoes else None,
    )


def _pair(rows: Sequence[Mapping[str, Any]]) -> tuple[int, Mapping[str, Any], Mapping[str, Any]]:
    """Return how two observations of one version differ, the later one, and the earliest that it differs from."""
    ordered = sorted(rows, key=lambda row: (row["time_ns"], row["ring"], row["frame"]))
    for at, guilty in enumerate(ordered):
        for other in ordered[:at]:
            for what in _differences(guilty, other):
                return what, guilty, other
    raise ValueError("observations that were found to differ do not")


def _differences(one: Mapping[str, Any], another: Mapping[str, Any]) -> Iterator[int]:
    for what, names in enumerate(IDENTITY, 1):
        for name in names:
            if one[name] is not None and another[name] is not None and one[name] != another[name]:
                yield what


def _frame(role: str, row: Mapping[str, Any]) -> FrameRef:
    return FrameRef(role, row["frame"], row["capture"], row["packet_first"], row["packet_last"], row["time_ns"])
