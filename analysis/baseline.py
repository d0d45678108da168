"""Findings of an earlier run: only their names matter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dissector.errors import UsageError


def known_ids(name: str) -> frozenset[str]:
    """Read the ids of findings from what ``check`` wrote as JSON or NDJSON."""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(f"--baseline {name}: {reason}") from error
    try:
        return frozenset(_ids(_documents(text)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"--baseline {name}: no JSON or NDJSON of uprscope check") from error


def _documents(text: str) -> list[Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(document, dict) and "findings" in document:
        return list(document["findings"])
    return document if isinstance(document, list) else [document]


def _ids(rows: list[Any]) -> list[str]:
    return [str(row["id"]) for row in rows]
