"""An archive's tables in Spark: read a table, write one, and register all as views for SQL.

Knows folders and schemas.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from analysis.archive.schema import TABLES, whole_schema
from analysis.spark.map_in_arrow import spark_schema
from dissector.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analysis.archive.schema import ArchiveTable


def read(spark: SparkSession, folder: Path, table: ArchiveTable) -> DataFrame:
    """Return a table of an archive, or of a run's staging folder."""
    return spark.read.schema(spark_schema(whole_schema(table))).parquet(uri(folder / table.name))


def write(rows: DataFrame, folder: Path, table: ArchiveTable) -> None:
    """Append rows that have a ring, one file per ring."""
    names = [column.name for column in table.columns]
    rows.select(*names, "ring").repartition("ring").write.mode("append").partitionBy("ring").parquet(
        uri(folder / table.name), compression="zstd"
    )


def views(spark: SparkSession, archive: str | Path) -> list[str]:
    """Register an archive's tables as temporary views for ``spark.sql``; return their names."""
    folder = Path(archive)
    if not (folder / "manifest.json").is_file():
        raise InputError(f"{archive}: is no archive")
    for table in TABLES:
        read(spark, folder, table).createOrReplaceTempView(table.name)
    return [table.name for table in TABLES]


def uri(path: Path) -> str:
    """Return the URI of a local file, whatever Spark's default file system is.

    Not ``Path.as_uri``: Spark does not decode escaped spaces and equal signs.
    """
    return f"file://{path.absolute()}"
