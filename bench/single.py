"""One process that does what a step of the Spark jobs does: what their CPU time is divided by.

    python bench/single.py decode CAPTURES ...         all columns to Arrow, no sink; every file stands alone
    python bench/single.py check ARCHIVE               all rules over an archive's frames, a ring at a time
    python bench/single.py count FILE                  how many rows a Parquet file has; not timed

Prints what it found as JSON. Must not know Spark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def decode(names: list[str]) -> dict[str, int]:
    """Decode captures as the data source does, and drop the rows."""
    from dissector.capture import expand  # noqa: PLC0415 - each command pays for its own imports
    from dissector.frames.reader import FrameReader  # noqa: PLC0415
    from dissector.options import ReadOptions  # noqa: PLC0415

    frames = sum(batch.num_rows for name in names for batch in FrameReader(expand([name]), ReadOptions()))
    return {"frames": frames}


def check(archive: Path) -> dict[str, int]:
    """Check the frames of every ring, read from the same Parquet files that Spark reads."""
    from analysis.archive.check_by_ring import rings_below  # noqa: PLC0415
    from analysis.archive.ordered_frames import frames_in_order  # noqa: PLC0415
    from analysis.check.inspection import check_frames  # noqa: PLC0415
    from analysis.context import COLUMNS  # noqa: PLC0415

    frames = findings = held = 0
    for files in rings_below(archive).values():
        inspection = check_frames(frames_in_order(files, sorted(COLUMNS)))
        frames += inspection.frames
        findings += len(inspection.findings)
        held += next(tally.held for tally in inspection.tallies if tally.rule == "SEQ-07")
    return {"frames": frames, "findings": findings, "held": held}


def count(path: Path) -> dict[str, int]:
    """Look into a file that was written."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    return {"frames": pq.ParquetFile(path).metadata.num_rows}


def main() -> None:
    """Do what the first argument says."""
    command, *words = sys.argv[1:]
    found = decode(words) if command == "decode" else {"check": check, "count": count}[command](Path(words[0]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
