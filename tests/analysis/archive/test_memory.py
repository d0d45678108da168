"""Memory of an archive's tasks: what one of them needs does not grow with the connection that it reads and checks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from uprscope import cli

#: Frames of the one connection; at the smaller size all buffers are full already (a row group has 80,000 rows).
FRAMES = (100_000, 300_000)
MARGIN_MB = 40  #: that many bytes of noise; the larger capture is 105 MB larger, its rows of the check 70 MB

# What a task does, in a process of its own: its peak is that of the task.
_PEAK = """
import resource, sys
import pyarrow as pa
from pathlib import Path
from dissector.options import ReadOptions

def print_peak(rows):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(rows, peak)
"""
_INGEST = """
from analysis.archive.ingest import ingest_task
from analysis.archive.rings import find_captures, group_into_rings

found = group_into_rings(find_captures([sys.argv[1]]))
task = ingest_task(Path(sys.argv[2]), lambda: found, ReadOptions())
(result,) = [row for batch in task(iter([pa.RecordBatch.from_pydict({"id": [0]})])) for row in batch.to_pylist()]
assert result["connections"] == 1, result
print_peak(result["frames"])
"""
_CHECK = """
from analysis.archive.packed_batches import PACKED_BATCHES, pack_batch
from analysis.archive.check_by_connection import check_task
from analysis.context import COLUMNS
from analysis.rules import RULES
from dissector.capture import Input
from dissector.frames.reader import FrameReader

rows = 0

def batches():
    # As the tasks before it make them: a few columns, so many rows at once.
    global rows
    for batch in FrameReader([Input.of(sys.argv[1])], ReadOptions(inspect=True)):
        for part in pa.Table.from_batches([batch.select(sorted(COLUMNS))]).to_batches(16384):
            rows += len(part)
            first = part.column("frame")[0].as_py()
            row = {"ring": "r", "partition": 0, "first_frame": first, "frames": pack_batch(part)}
            yield pa.RecordBatch.from_pylist([row], PACKED_BATCHES)

tallies = [row for batch in check_task([rule.id for rule in RULES])(batches()) for row in batch.to_pylist()]
assert any(row["tally"]["checked"] >= rows // 4 for row in tallies), "it was checked"
print_peak(rows)
"""


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One giant connection, in two sizes."""
    folder = tmp_path_factory.mktemp("giant")
    made = []
    for frames in FRAMES:
        path = folder / f"{frames}.pcap"
        assert cli.main(["generate", "bulk", "--connections", "1", "--frames", str(frames), "-o", str(path)]) == 0
        made.append(path)
    assert made[1].stat().st_size - made[0].stat().st_size > 2 * MARGIN_MB << 20
    return made


@pytest.mark.parametrize("task", [_INGEST, _CHECK], ids=["ingest", "check"])
def test_a_giant_connection_takes_no_more_memory(task: str, captures: list[Path], tmp_path: Path) -> None:
    peaks = []
    for frames, path in zip(FRAMES, captures, strict=True):
        command = [sys.executable, "-c", _PEAK + task, str(path), str(tmp_path / path.stem)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        rows, peak = map(int, done.stdout.split())
        assert rows == frames
        peaks.append(peak)
    assert peaks[1] < peaks[0] + MARGIN_MB, f"peaks in MB: {peaks}"
