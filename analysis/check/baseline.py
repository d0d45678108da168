"""Ids of the findings of an earlier run, read back from any format that ``check`` writes for programs."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

from dissector.errors import UsageError

_ID = re.compile(r"[A-Z]{3}-[0-9]{2}-[0-9a-f]{8}\b")
_PARQUET = b"PAR1"


def known_ids(name: str) -> frozenset[str]:
    """Read the ids of findings from JSON, NDJSON, CSV, Parquet or a JUnit report; the content tells which it is."""
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"--baseline {name}: {error.strerror}") from error
    try:
        found = frozenset(_parquet(data) if data.startswith(_PARQUET) else _text(data.decode("utf-8-sig")))
    except (ValueError, KeyError, TypeError, OSError, RecursionError, csv.Error) as error:
        raise UsageError(f"--baseline {name}: not written by uprscope check --format {_FORMATS}") from error
    if not all(_ID.fullmatch(each) for each in found):
        raise UsageError(f"--baseline {name}: has ids that are no findings of uprscope check")
    return found


_FORMATS = "json, ndjson, csv, parquet or junit"


def _text(text: str) -> list[str]:
    start = text.lstrip()[:1]
    if start in ("{", "["):
        return [str(row["id"]) for row in _documents(text)]
    if start == "<":
        return _junit(text)
    if not start:
        return []  # NDJSON without findings
    rows = csv.DictReader(io.StringIO(text, newline=""))
    if "id" not in (rows.fieldnames or ()):
        raise ValueError("no column id")
    return [row["id"] for row in rows]


def _documents(text: str) -> list[Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(document, dict) and "findings" in document:
        return list(document["findings"])
    return document if isinstance(document, list) else [document]


def _junit(text: str) -> list[str]:
    """Return the ids in a report; it is not parsed as XML, which could be made to expand without end."""
    if "<testsuite" not in text:
        raise ValueError("no JUnit report")
    return _ID.findall(text)


def _parquet(data: bytes) -> list[str]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    column = pq.read_table(pa.BufferReader(data), columns=["id"]).column("id")
    return [str(each) for each in column.to_pylist()]
