"""Which seqnos rings show, and which of them have to be compared anew when rings come, change or go.

Knows intervals of seqnos; must not know what is compared. Seqnos are looked at by chunks, so that intervals which touch
one after another do not become one for all time. A interval_number is a set of intervals that hang together: spans of rings and
what was compared before. One is due if a span of a ring that moved is in it; nothing outside of it can have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

CHUNK_BITS = 12
_KEY = "bucket, vbucket, branch, chunk"


def _same_key(one: str, other: str) -> str:
    """Return a condition for equal keys; what is not known is equal to what is not known."""
    return " and ".join(f"{one}.{name} <=> {other}.{name}" for name in _KEY.split(", "))


def _overlap(one: str, other: str) -> str:
    return f"{one}.first_seqno <= {other}.last_seqno and {other}.first_seqno <= {one}.last_seqno"


_SPANS = f"""
select ring, {_KEY}, min(by_seqno) as first_seqno, max(by_seqno) as last_seqno
from (select *, shiftright(by_seqno, {CHUNK_BITS}) as chunk from {{versions}}) group by ring, {_KEY}
"""  # noqa: S608 - names of this program
#: Intervals in order: one that begins behind the end of all before it begins a stretch.
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
#: Where the first and the last violation of a branch are.
_VIOLATION_POINTS = f"""
select bucket, vbucket, branch, shiftright(seqno, {CHUNK_BITS}) as chunk, seqno as first_seqno, seqno as last_seqno
from (select bucket, vbucket, branch, explode(array(first_seqno, last_seqno)) as seqno from {{roots}})
"""  # noqa: S608 - names of this program


def ring_spans(versions: DataFrame) -> DataFrame:
    """Return which seqnos rings show."""
    return versions.sparkSession.sql(_SPANS, versions=versions)


def intervals_to_compare(moved: DataFrame, standing: DataFrame, compared: DataFrame) -> DataFrame:
    """Return the stretches to be compared anew: ``moved`` are the spans of rings that moved, before and now."""
    return moved.sparkSession.sql(_INTERVALS_TO_COMPARE, moved=moved, standing=standing, compared=compared)


def rings_showing(spans: DataFrame, wanted: DataFrame) -> list[str]:
    """Return the rings that show seqnos of wanted stretches."""
    return sorted(row["ring"] for row in spans.sparkSession.sql(_RINGS_SHOWING, spans=spans, wanted=wanted).collect())


def results_outside(compared: DataFrame, due: DataFrame) -> DataFrame:
    """Return what of earlier comparisons still holds."""
    return compared.sparkSession.sql(_RESULTS_OUTSIDE, compared=compared, due=due)


def with_interval(versions: DataFrame, due: DataFrame | None) -> DataFrame:
    """Give versions their chunk and interval_number, and leave out those that are not due; None: all are."""
    if due is None:
        return versions.selectExpr("*", f"shiftright(by_seqno, {CHUNK_BITS}) as chunk", "0L as interval_number")
    return versions.sparkSession.sql(_WITH_INTERVAL, versions=versions, due=due)


def violation_points(roots: DataFrame) -> DataFrame:
    """Return stretches of one seqno: the first and the last violation of each root."""
    return roots.sparkSession.sql(_VIOLATION_POINTS, roots=roots)


def rows_of_rings(rows: DataFrame, names: Collection[str]) -> DataFrame:
    """Return the rows of some rings."""
    return rows.where(rows["ring"].isin(sorted(names)))
