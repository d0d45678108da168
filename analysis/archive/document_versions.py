"""Versions of documents, as connections show them: one row per message with a seqno, with bucket and history branch.

The table that rules across connections compare. Knows what a message says about a version and which branch it is on.
What a message does not tell, or not comparably, is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.spec import enums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Attributes that observations of one version agree on, worst difference first, as in
#: ``analysis.rules.cross.DIFFERENCES``.
IDENTITY = (
    ("kind",),
    ("key_id",),
    ("rev_seqno",),
    ("cas",),
    ("deleted",),
    ("item_flags",),
    ("expiration",),
    ("durability_level",),
    ("plain_value", "xattr_value"),
)
ATTRIBUTES = tuple(name for names in IDENTITY for name in names)
VERSION = ("bucket", "vbucket", "branch", "by_seqno")
#: Columns that locate an observation; the first three order observations, and no two have the same.
OBSERVATION = (
    "time_ns",
    "ring",
    "frame",
    "connection",
    "direction",
    "capture",
    "packet_first",
    "packet_last",
    "start_offset",
)

_DOCUMENTS = ("mutation", "deletion", "expiration", "commit", "prepare", "abort")
_NO_VALUE = sum(flag.value for flag in enums.OPEN_FLAGS.members if flag.name.startswith("no_value"))
_SNAPPY, _XATTR = map(enums.DATATYPES.bit, ("snappy", "xattr"))

# A log holds for the messages of its stream: same opaque, from the granted request to the next one. An opaque that
# several vbuckets share names no stream, and is left out before it is joined with all of their messages.
_SHARED_OPAQUES = """
select ring, connection, opaque from {frames}
where name = 'stream_request' and not response and vbucket is not null
group by ring, connection, opaque having count(distinct vbucket) > 1
"""
_LOGS = """
select ring, connection, direction, opaque, frame as log_frame, failover_log as log,
  lead(frame) over (partition by ring, connection, direction, opaque order by frame) as next_frame
from {frames} left anti join {shared} using (ring, connection, opaque)
where name = 'stream_request' and response and status = 0 and failover_log is not null
"""
_OPENS = """
select ring, connection, max(open_flags) as open_flags from {frames}
where name = 'open' and not response and open_flags is not null group by ring, connection
"""
_VERSIONS = f"""
select coalesce(c.bucket, '') as bucket, f.vbucket, f.by_seqno,
  get(filter(l.log, e -> e.seqno < f.by_seqno), 0).vbucket_uuid as branch,
  case f.name when 'prepare' then 1 when 'abort' then 2 else 0 end as kind,
  xxhash64(coalesce(f.collection_id, 0L), case when f.collection_id is null then f.key_bytes else
    substring(f.key_bytes, 2 + int(f.collection_id >= 128) + int(f.collection_id >= 16384)
      + int(f.collection_id >= 2097152) + int(f.collection_id >= 268435456)) end) as key_id,
  f.rev_seqno,
  case when f.name in ('commit', 'abort') then null else f.cas end as cas,
  case f.name when 'mutation' then 0 when 'deletion' then 1 when 'expiration' then 1
    when 'prepare' then f.deleted end as deleted,
  f.item_flags,
  case when f.name = 'mutation' then f.expiration end as expiration,
  case when f.name = 'prepare' then f.durability_level end as durability_level,
  case when f.name = 'mutation' and f.value_length > 0 and coalesce(f.nmeta, 0) = 0
    and f.datatype & {_SNAPPY | _XATTR} = 0 then f.value_hash end as plain_value,
  case when f.name = 'mutation' and coalesce(f.nmeta, 0) = 0
    and f.datatype & {_SNAPPY | _XATTR} = {_XATTR} and o.open_flags & {_NO_VALUE} = 0
    then f.value_hash end as xattr_value,
  {", ".join(f"f.{name}" for name in OBSERVATION)}
from {{frames}} f
  left join {{connections}} c on c.ring = f.ring and c.connection = f.connection
  left join {{opens}} o on o.ring = f.ring and o.connection = f.connection
  left join {{logs}} l on l.ring = f.ring and l.connection = f.connection and l.direction = f.direction
    and l.opaque = f.opaque and l.log_frame < f.frame and (l.next_frame is null or f.frame < l.next_frame)
where f.name in {_DOCUMENTS!r} and not f.response and f.missing = 0 and f.by_seqno is not null
"""  # noqa: S608 - names of this program


def versions(frames: DataFrame, connections: DataFrame, scratch: str | None = None) -> DataFrame:
    """Return the versions that frames show.

    Failover logs and open flags are few rows that are joined with many. If they are written to ``scratch`` first,
    Spark knows their size and broadcasts them; otherwise it learns that too late, and may have shuffled all frames by
    then.
    """
    spark = frames.sparkSession
    shared = spark.sql(_SHARED_OPAQUES, frames=frames)
    logs, opens = spark.sql(_LOGS, frames=frames, shared=shared), spark.sql(_OPENS, frames=frames)
    if scratch is not None:
        logs, opens = _materialized(logs, f"{scratch}/logs"), _materialized(opens, f"{scratch}/opens")
    return spark.sql(_VERSIONS, frames=frames, connections=connections, logs=logs, opens=opens)


def _materialized(rows: DataFrame, scratch: str) -> DataFrame:
    """Write rows, and return them as read back."""
    rows.write.parquet(scratch, compression="zstd")
    return rows.sparkSession.read.schema(rows.schema).parquet(scratch)
