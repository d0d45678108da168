"""XCN-01 in Spark: do all versions of one bucket, vbucket, branch and seqno agree?

The pattern for rules across connections: aggregate to what can be decided, fold to one row per root, and only then
fetch the frames that prove it. A group is one seqno, so no bucket or connection is too large. Results are kept by
intervals of seqnos, which add up to roots; ``seqno_spans`` decides which intervals are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from analysis.archive.document_versions import ATTRIBUTES, IDENTITY, OBSERVATION, VERSION
from analysis.check.findings import Finding, FrameRef, finding_id, next_step
from analysis.rules.cross import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

RULE = next(rule for rule in RULES if rule.id == "XCN-01")

#: Distinct observations of one version that are read. Two that differ are among the first few: others come only from
#: messages that lack an attribute, and there are not this many kinds of those.
_MAX_OBSERVATIONS = 200
_ATTRIBUTES_DIFFER = " or ".join(f"min({name}) != max({name})" for name in ATTRIBUTES)
#: One row per interval. Attributes that are not null are compared; a version that is shown once can't be.
_COMPARE_INTERVALS = f"""
select bucket, vbucket, branch, chunk, min(by_seqno) as first_seqno, max(by_seqno) as last_seqno,
  count_if(seen > 1 and branch is not null) as checked,
  count_if(branch is null) as undecided,
  count_if(differs) as violated,
  min(case when differs then by_seqno end) as first_violated,
  max(case when differs then by_seqno end) as last_violated
from (
  select {", ".join(VERSION)}, chunk, interval_number, count(*) as seen,
    branch is not null and coalesce({_ATTRIBUTES_DIFFER}, false) as differs
  from {{versions}} group by {", ".join(VERSION)}, chunk, interval_number
) group by bucket, vbucket, branch, chunk, interval_number
"""  # noqa: S608 - names of this program
_ROOTS = """
select bucket, vbucket, branch, sum(checked) as checked, sum(undecided) as undecided, sum(violated) as violated,
  min(first_violated) as first_seqno, max(last_violated) as last_seqno
from {compared} group by bucket, vbucket, branch
"""
#: Observations of the first and last violated seqno of a root. Of equal observations the earliest stands for all: the
#: first that differs from an earlier one is the first of its kind, and so is the one that it differs from.
_PROOF = f"""
select * from (
  select *, row_number() over (partition by {", ".join(VERSION)} order by observation) as number from (
    select {", ".join(VERSION)}, {", ".join(ATTRIBUTES)}, violated, last_seqno,
      min(struct({", ".join(OBSERVATION)})) as observation
    from (
      select /*+ broadcast(r) */ v.*, r.violated, r.last_seqno from {{versions}} v join {{roots}} r
        on v.bucket = r.bucket and v.vbucket = r.vbucket and v.branch = r.branch
        and v.by_seqno in (r.first_seqno, r.last_seqno)
    ) group by {", ".join(VERSION)}, {", ".join(ATTRIBUTES)}, violated, last_seqno
  )
) where number <= {_MAX_OBSERVATIONS}
"""  # noqa: S608 - names of this program


def compare_intervals(versions: DataFrame) -> DataFrame:
    """Return one row per interval; versions have a ``chunk`` and an ``interval_number`` in it."""
    return versions.sparkSession.sql(_COMPARE_INTERVALS, versions=versions)


def roots(compared: DataFrame) -> DataFrame:
    """Return one row per branch: how many seqnos were compared, how many differ, the first and the last that do."""
    return compared.sparkSession.sql(_ROOTS, compared=compared)


def findings(versions: DataFrame, broken: DataFrame) -> list[Finding]:
    """Return a finding for each violated branch; ``broken`` are rows of :func:`roots`."""
    shown = versions.sparkSession.sql(_PROOF, versions=versions, roots=broken)
    seen: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in shown.collect():
        found = row.asDict() | row["observation"].asDict()
        seen.setdefault(tuple(found[name] for name in VERSION[:3]), []).append(found)
    made = (_finding(rows) for rows in seen.values())
    return sorted(made, key=lambda finding: (finding.time_ns, finding.id))


def _finding(rows: Sequence[Mapping[str, Any]]) -> Finding:
    first = min(row["by_seqno"] for row in rows)
    what, later, earlier = _first_difference([row for row in rows if row["by_seqno"] == first])
    check = RULE.checks[0]
    values: dict[str, Any] = {"by_seqno": first, "what": what, "vbucket_uuid": later["branch"]}
    for name in ("rev_seqno", "item_flags", "expiration", "durability_level"):
        values |= {name: later[name], f"other_{name}": earlier[name]}
    facts = {name: int(values[name]) for name in check.facts if values[name] is not None}
    words = {**dict.fromkeys(check.facts, 0), **facts, "other_connection": earlier["connection"]}
    spoken = cast("Mapping[str, int]", words)
    echoes = later["violated"] - 1
    last = [row for row in rows if row["by_seqno"] == later["last_seqno"]]
    name = finding_id(RULE, check, later["connection"], later["direction"], later["start_offset"])
    guilty = _frame_ref("guilty", later)
    return Finding(
        name,
        RULE.id,
        RULE.severity,
        RULE.title,
        later["connection"],
        later["vbucket"],
        None,
        (guilty, _frame_ref("other", earlier)),
        facts,
        check.sentence(spoken),
        check.name,
        check.fault.value,
        True,
        next_step(RULE, check, spoken, guilty, later["connection"], name),
        echoes,
        _frame_ref("guilty", _first_difference(last)[1]) if echoes else None,
    )


def _first_difference(rows: Sequence[Mapping[str, Any]]) -> tuple[int, Mapping[str, Any], Mapping[str, Any]]:
    """Return how two observations of one version differ, the later one, and the earliest that it differs from."""
    first: dict[str, Mapping[str, Any]] = {}  #: by attribute, the earliest that has it
    for row in sorted(rows, key=_observation_order):
        known = [name for name in ATTRIBUTES if row[name] is not None]
        others = [first[name] for name in known if name in first and first[name][name] != row[name]]
        if others:
            other = min(others, key=_observation_order)
            return next(_differences(row, other)), row, other
        for name in known:
            first.setdefault(name, row)
    raise ValueError("observations that were found to differ do not")


def _observation_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the sort key of an observation."""
    return tuple(row[name] for name in OBSERVATION)


def _differences(one: Mapping[str, Any], another: Mapping[str, Any]) -> Iterator[int]:
    for what, names in enumerate(IDENTITY, 1):
        for name in names:
            if one[name] is not None and another[name] is not None and one[name] != another[name]:
                yield what


def _frame_ref(role: str, row: Mapping[str, Any]) -> FrameRef:
    return FrameRef(role, row["frame"], row["capture"], row["packet_first"], row["packet_last"], row["time_ns"])
