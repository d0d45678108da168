"""An archive, asked step by step; made to be read, run, and changed: ``python docs/spark_example.py FOLDER``.

Each block between ``# %%`` lines is a cell in editors that know these marks.
"""

from __future__ import annotations

import sys

# %% A session, and the archive's tables by name.
from analysis.archive.spark_tables import views
from analysis.spark.session import spark_session

archive = sys.argv[1]
spark = spark_session()
print(", ".join(views(spark, archive)))

# %% What there is.
spark.sql("select day, count(*) as frames, count(distinct connection) as connections from frames group by day").show()

# %% What is broken.
findings = spark.table("findings")
findings.groupBy("rule", "severity").count().orderBy("severity", "rule").show(truncate=False)

# %% Violations next to the load of their minute: do they come when much is going on?
spark.sql("""
    with minutes as (
      select time_ns div 60000000000 as minute, count(*) as frames from frames group by minute
    )
    select f.rule, count(*) as findings, round(avg(m.frames)) as frames_per_minute
    from findings f join minutes m on m.minute = f.time_ns div 60000000000
    group by f.rule order by findings desc
""").show()

# %% One vbucket's seqnos over time, as columns that any plotting library takes.
frames = spark.table("frames")
busiest = frames.where("by_seqno is not null").groupBy("vbucket").count().orderBy("count", ascending=False).first()
if busiest is not None:
    seqnos = frames.where(frames["vbucket"] == busiest["vbucket"]).where("by_seqno is not null")
    table = seqnos.select("time_ns", "by_seqno", "connection").orderBy("time_ns").toArrow()
    print(f"vbucket {busiest['vbucket']}: {table.num_rows} points")

# %% Captures that are not in an archive: one row per frame all the same.
# spark.read.format("upr").load("captures/*.pcap").groupBy("name").count().show()
