"""An archive as a source of frames and findings: a directory of Parquet files, as the Spark job writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.check.export import SCHEMA
from analysis.check.findings import Finding, FrameRef
from analysis.plots.frame_source import FrameSource
from analysis.rules.model import Severity
from dissector.capture import Input
from dissector.capture.magic import RowFormat
from dissector.errors import InputError, UsageError
from dissector.terminal.style import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.options import ReadOptions


def open_archive(name: str, options: ReadOptions) -> tuple[FrameSource, list[Finding] | None]:
    """Return the source of an archive's frames, and its findings; None if it has none and frames must be checked."""
    folder = Path(name)
    frames = _files(folder / "frames")
    if not frames:
        raise InputError(f"{name}: no archive: there is no Parquet file in {folder / 'frames'}")
    findings = _files(folder / "findings")
    inputs = [Input(str(path), path, rows=RowFormat.PARQUET) for path in frames]
    return FrameSource(inputs, options, folder.resolve().name), _findings(findings) if (
        folder / "findings"
    ).is_dir() else None


def _files(folder: Path) -> list[Path]:
    # Spark gives files that are not data, or not complete, names with a dot or an underscore first.
    return sorted(path for path in folder.rglob("*.parquet") if path.is_file() and path.name[0] not in "._")


def _findings(paths: Sequence[Path]) -> list[Finding]:
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load
    import pyarrow.parquet as pq  # noqa: PLC0415

    found: list[Finding] = []
    for path in paths:
        try:
            table = pq.read_table(path, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: cannot be read: {one_line(str(error)[:200])}") from error
        missing = [name for name in ("id", "rule", "frames") if name not in table.column_names]
        if missing:
            raise UsageError(f"{path}: has no column {missing[0]}, so these are no findings")
        found += [_finding(row) for row in table.to_pylist()]
    return found


def _finding(row: dict[str, Any]) -> Finding:
    row = {name: row.get(name) for name in SCHEMA.names}
    severity = row["severity"] if row["severity"] in tuple(Severity) else Severity.ERROR
    return Finding(
        id=str(row["id"]),
        rule=str(row["rule"]),
        severity=Severity(severity),
        title=row["title"] or "",
        connection=row["connection"] or "",
        vbucket=row["vbucket"],
        stream_id=row["stream_id"],
        frames=tuple(_frame(frame) for frame in row["frames"] or ()) or (_frame({**row, "role": "guilty"}),),
        facts={fact["name"]: fact["value"] for fact in row["facts"] or ()},
        sentence=row["sentence"] or "",
        fault=row["fault"] or "",
        next_step=row["next_step"] or "",
        echoes=row["echoes"] or 0,
    )


def _frame(frame: dict[str, Any]) -> FrameRef:
    numbers = {name: frame.get(name) or 0 for name in ("frame", "packet_first", "packet_last", "time_ns")}
    return FrameRef(role=frame.get("role") or "", capture=frame.get("capture") or "", **numbers)
