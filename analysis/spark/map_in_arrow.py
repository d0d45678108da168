"""``mapInArrow`` without pandas: a function over the record batches of a partition.

PySpark requires pandas for every function over Arrow data, although those over record batches never use it, neither in
the driver nor in the workers. With pandas installed PySpark's own method is called; without it, the same steps are
taken without the check.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, function: BatchFunction, schema: StructType) -> DataFrame:
    """Return what ``frame.mapInArrow(function, schema)`` returns."""
    if importlib.util.find_spec("pandas") is not None:
        return frame.mapInArrow(function, schema)
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame  # noqa: PLC0415 - an optional dependency
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.util import PythonEvalType  # noqa: PLC0415

    classic = cast("Any", frame)
    mapped = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*[classic[name] for name in classic.columns])
    return ClassicDataFrame(classic._jdf.mapInArrow(column._jc, False, None), classic.sparkSession)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return an Arrow schema in Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - needs no pandas in spite of its name

    return from_arrow_schema(schema)
