"""An archive's tables in Spark: to read them, to write into one, and to make them known to SQL.

Knows folders and schemas; must not know what is computed from them.
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
    """Return a table of an archive, or of what a run is about to put there."""
    return spark.read.schema(spark_schema(whole_schema(table))).parquet(uri(folder / table.name))


def write(rows: DataFrame, folder: Path, table: ArchiveTable) -> None:
    """Write rows with a ring, a file for each."""
    names = [column.name for column in table.columns]
    rows.select(*names, "ring").repartition("ring").write.mode("append").partitionBy("ring").parquet(
        uri(folder / table.name), compression="zstd"
    )


def views(spark: SparkSession, archive: str | Path) -> list[str]:
    """Make an archive's tables known to ``spark.sql`` by their names; return these."""
    folder = Path(archive)
    if not (folder / "manifest.json").is_file():
        raise InputError(f"{archive}: is no archive")
    for table in TABLES:
        read(spark, folder, table).createOrReplaceTempView(table.name)
    return [table.name for table in TABLES]


def uri(path: Path) -> str:
    """Return a name that Spark takes for a local file, wherever its default file system is.

    Not ``Path.as_uri``: Spark does not undo what that does to spaces and equal signs.
    """
    return f"file://{path.absolute()}"
