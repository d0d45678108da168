"""Python over Arrow batches in Spark: ``mapInArrow`` without pandas.

Knows the one thing that Spark's own method does too much: it asks for pandas, which nothing on this way uses. Must not
know what is mapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    Batches = Iterator[pa.RecordBatch]


def spark_schema(schema: pa.Schema) -> StructType:
    """Return an Arrow schema as Spark has it."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an optional dependency

    return from_arrow_schema(schema)


def map_in_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
    """Send every partition through a function of batches, as ``DataFrame.mapInArrow`` does."""
    from pyspark.sql import DataFrame as Rows  # noqa: PLC0415
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.util import PythonEvalType  # noqa: PLC0415

    mapped = UserDefinedFunction(function, spark_schema(schema), evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*(frame[name] for name in frame.columns))
    return Rows(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)  # type: ignore[operator] # noqa: SLF001
