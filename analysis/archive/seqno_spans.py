"""Which seqnos rings show, and which intervals of seqnos have to be compared again when rings are added or removed.

Knows intervals of seqnos. A *span* is the lowest and highest seqno that a ring shows in a *chunk* of 4,096 seqnos of
one branch of a vbucket; chunks keep intervals that touch one another from growing into one. Overlapping spans and
earlier results are joined to one interval. An interval has to be compared again if a span of an added or removed ring
is in it; nothing outside of these can have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

CHUNK_BITS = 12
_KEY = "bucket, vbucket, branch, chunk"


def _same_key(one: str, other: str) -> str:
    """Return a condition for equal keys; an unknown value equals an unknown one."""
    return " and ".join(f"{one}.{name} <=> {other}.{name}" for name in _KEY.split(", "))


def _overlap(one: str, other: str) -> str:
    """Return a condition for overlapping seqnos."""
    return f"{one}.first_seqno <= {other}.last_seqno and {other}.first_seqno <= {one}.last_seqno"


_SPANS = f"""
select ring, {_KEY}, min(by_seqno) as first_seqno, max(by_seqno) as last_seqno
from (select *, shiftright(by_seqno, {CHUNK_BITS}) as chunk from {{versions}}) group by ring, {_KEY}
"""  # noqa: S608 - names of this program
#: Spans and results in order: one that begins after the end of all before it begins an interval.
_INTERVALS_TO_COMPARE = f"""
with members as (
  select {_KEY}, first_seqno, last_seqno, true as moved from {{moved}}
  union all select {_KEY}, first_seqno, last_seqno, false from {{standing}}
  union all select {_KEY}, first_seqno, last_seqno, false from {{compared}}
), keys as (
  select distinct {_KEY} from {{moved}}
), near as (
  select {_KEY}, first_seqno, last_seqno, bool_or(moved) as moved
  from members m left semi join keys k on {_same_key("m", "k")} group by {_KEY}, first_seqno, last_seqno
), marked as (
  select *, first_seqno > max(last_seqno) over (partition by {_KEY} order by first_seqno, last_seqno
    rows between unbounded preceding and 1 preceding) as begins from near
), numbered as (
  select *, count_if(begins) over (partition by {_KEY} order by first_seqno, last_seqno
    rows between unbounded preceding and current row) as interval_number from marked
)
select {_KEY}, interval_number, min(first_seqno) as first_seqno, max(last_seqno) as last_seqno
from numbered group by {_KEY}, interval_number having bool_or(moved)
"""  # noqa: S608 - names of this program
_RINGS_SHOWING = f"""
select distinct s.ring from {{spans}} s left semi join {{wanted}} w on {_same_key("s", "w")} and {_overlap("s", "w")}
"""  # noqa: S608 - names of this program
_RESULTS_OUTSIDE = f"""
select c.* from {{compared}} c left anti join {{due}} d on {_same_key("c", "d")} and {_overlap("c", "d")}
"""  # noqa: S608 - names of this program
_WITH_INTERVAL = f"""
select v.*, d.interval_number from (select *, shiftright(by_seqno, {CHUNK_BITS}) as chunk from {{versions}}) v
join {{due}} d on {_same_key("v", "d")} and v.by_seqno between d.first_seqno and d.last_seqno
"""  # noqa: S608 - names of this program
#: Intervals of the first and the last violation of a branch.
_VIOLATION_POINTS = f"""
select bucket, vbucket, branch, shiftright(seqno, {CHUNK_BITS}) as chunk, seqno as first_seqno, seqno as last_seqno
from (select bucket, vbucket, branch, explode(array(first_seqno, last_seqno)) as seqno from {{roots}})
"""  # noqa: S608 - names of this program


def ring_spans(versions: DataFrame) -> DataFrame:
    """Return the spans of rings."""
    return versions.sparkSession.sql(_SPANS, versions=versions)


def intervals_to_compare(moved: DataFrame, standing: DataFrame, compared: DataFrame) -> DataFrame:
    """Return the intervals to compare again: ``moved`` are the spans of added and removed rings."""
    return moved.sparkSession.sql(_INTERVALS_TO_COMPARE, moved=moved, standing=standing, compared=compared)


def rings_showing(spans: DataFrame, wanted: DataFrame) -> list[str]:
    """Return the rings that show seqnos of the wanted intervals."""
    return sorted(row["ring"] for row in spans.sparkSession.sql(_RINGS_SHOWING, spans=spans, wanted=wanted).collect())


def results_outside(compared: DataFrame, due: DataFrame) -> DataFrame:
    """Return the earlier results outside of the intervals that are compared again."""
    return compared.sparkSession.sql(_RESULTS_OUTSIDE, compared=compared, due=due)


def with_interval(versions: DataFrame, due: DataFrame | None) -> DataFrame:
    """Add chunk and interval to versions, and drop those outside of the intervals; None: keep all, in one."""
    if due is None:
        return versions.selectExpr("*", f"shiftright(by_seqno, {CHUNK_BITS}) as chunk", "0L as interval_number")
    return versions.sparkSession.sql(_WITH_INTERVAL, versions=versions, due=due)


def violation_points(roots: DataFrame) -> DataFrame:
    """Return intervals of one seqno: the first and the last violation of each root."""
    return roots.sparkSession.sql(_VIOLATION_POINTS, roots=roots)


def rows_of_rings(rows: DataFrame, names: Collection[str]) -> DataFrame:
    """Return the rows of some rings."""
    return rows.where(rows["ring"].isin(sorted(names)))
