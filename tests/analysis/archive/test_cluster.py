"""The batch job on a real cluster: a standalone master and two workers, of which one dies in the middle."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.archive import manifest
from analysis.check.inspection import check
from analysis.spark.java import find_java
from uprscope import cli
from uprscope.submit_zip import make_zip

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

#: Of an executor; Spark keeps 300 MB of it for itself, and a fifth of the rest, 40 MB, is for all that its tasks hold.
MEMORY, FRACTION = "512m", "0.2"
#: Of the Python processes of an executor, programs and libraries included: no more than this can be mapped.
PYTHON_MEMORY = "1g"
#: One connection of so many frames: 51 MB of packets, which is more than an executor can hold.
GIANT_FRAMES = 100_000
NAMES = "SEQ-0*.pcapng"


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


class Cluster:
    """Processes of our own, each with a process group of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.master = f"spark://127.0.0.1:{self.port}"
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.env = os.environ | {
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*words], stdout=log, stderr=log, env=self.env, cwd=self.folder, start_new_session=True
            )
        self.started.append(process)
        return process

    def daemon(self, name: str, kind: str, *words: str) -> subprocess.Popen[bytes]:
        program = str(spark_home() / "bin" / "spark-class")
        return self.start(name, program, f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *words)

    def worker(self, name: str) -> subprocess.Popen[bytes]:
        words = ("--webui-port", "0", "-c", "1", "-m", "2g", "-d", str(self.folder / name), self.master)
        return self.daemon(name, "worker.Worker", *words)

    @staticmethod
    def kill(process: subprocess.Popen[bytes]) -> None:
        """End a process that was started here, and what it has started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def told(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        made.daemon("master", "master.Master", "--port", str(made.port), "--webui-port", "0")
        await_(lambda: _listens(made.port))
        yield made
    finally:
        for process in reversed(made.started):
            made.kill(process)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def await_(happened: object, seconds: float = 120) -> None:
    assert callable(happened)
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.05)


def test_a_worker_dies_and_the_result_is_the_same(cluster: Cluster, tmp_path: Path, repo_root: Path) -> None:
    captures = sorted((repo_root / "captures" / "broken").glob(NAMES))
    assert len(captures) > 12
    giant = tmp_path / "giant.pcap"
    words = ["generate", "bulk", "--connections", "1", "--frames", str(GIANT_FRAMES), "-o", str(giant)]
    assert cli.main(words) == 0
    assert giant.stat().st_size > 48 << 20
    captures.append(giant)
    archive = tmp_path / "archive"
    doomed = cluster.worker("worker1")
    cluster.worker("worker2")
    script = make_zip(str(tmp_path / "uprscope.zip"))
    settings = {
        "spark.executor.memory": MEMORY,
        "spark.memory.fraction": FRACTION,
        "spark.executor.pyspark.memory": PYTHON_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "12",
        "spark.ui.enabled": "false",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.master, *words]
    job = cluster.start(
        "job", *submit, "--py-files", str(tmp_path / "uprscope.zip"), str(script), *map(str, captures),
        "-o", str(archive), "--separate",
    )  # fmt: skip
    # Both workers are at it when the first files appear: now one of them goes.
    await_(lambda: job.poll() is not None or any(archive.rglob("_*.parquet")))
    assert job.poll() is None, cluster.told("job")
    cluster.kill(doomed)
    assert job.wait(timeout=240) == 1, cluster.told("job")
    assert "Lost executor" in (tmp_path / "job.log").read_text(errors="replace")
    entries = manifest.read(archive).rings.values()
    assert sum(len(entry.captures) for entry in entries) == len(captures)
    expected = {path: check(path) for path in captures}
    for entry in entries:
        inspection = expected[Path(entry.place)]
        assert (entry.frames, entry.left_out) == (inspection.frames, 0)
        rows = [row for name in entry.files if name.startswith("findings/") for row in _rows(archive / name)]
        assert sorted((row["id"], row["sentence"], row["packet_first"]) for row in rows) == sorted(
            (each.id, each.sentence, each.guilty.packet_first) for each in inspection.findings
        )
        frames = [name for name in entry.files if name.startswith("frames/")]
        assert sum(pq.ParquetFile(archive / name).metadata.num_rows for name in frames) == inspection.frames
    there = {path.relative_to(archive).as_posix() for path in archive.rglob("*.parquet")}
    assert there == {name for entry in entries for name in entry.files} | set(manifest.read(archive).across)


def _rows(path: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(path, partitioning=None).to_pylist()
    return rows
