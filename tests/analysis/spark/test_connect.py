"""The data source through Spark Connect: a server on the loopback interface, and a client without a Java of its own."""

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

from analysis.spark.java import find_java
from analysis.spark.read_options import SourceOptions
from tests.support.split_archives import decoded_at_once, packed, pcap_file
from tests.support.tcp_by_hand import SERVER, Conversation, Ends, mutation
from uprscope import cli

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

NEEDED = ("pandas", "grpc", "grpc_status", "google.rpc")
#: Where ``make`` puts them: pandas must not be there for other tests.
APART = Path(sys.prefix) / "connect"
_CLIENT = """
import sys
import pyarrow.parquet as pq
from analysis.spark.session import spark_session

address, answer, *paths = sys.argv[1:]
spark = spark_session(address)
frames = spark.read.format("upr").option("values", "true").option("splitBytes", "9000").load(paths)
assert frames.count() > 0
pq.write_table(frames.toArrow(), answer)
spark.stop()
"""


def client(*words: str, timeout: int = 150) -> subprocess.CompletedProcess[str]:
    """Run a process of its own: where there is a Spark already, no other one can be reached."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "JAVA"))}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(APART), env.get("PYTHONPATH"))))
    command = [sys.executable, "-c", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Run a server; give its address."""
    if client(f"import {', '.join(NEEDED)}").returncode:
        pytest.skip(f"a client of Spark Connect needs {', '.join(NEEDED)}: the extra connect has them")
    import pyspark

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.ui.enabled": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    words += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    env = os.environ | {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    command = [str(home / "bin" / "spark-submit"), "--class", kind, "--master", "local[1]", *words, "spark-internal"]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=tmp_path, start_new_session=True)
    try:
        until = time.monotonic() + 120
        while not listens(port):
            assert process.poll() is None, (tmp_path / "server.log").read_text(errors="replace")[-3000:]
            assert time.monotonic() < until, "the server does not listen"
            time.sleep(0.05)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_frames_through_a_server(server: str, tmp_path: Path) -> None:
    paths = []
    for number, count in enumerate((30, 3)):
        conversation = Conversation(Ends(ports=(41_000 + number, 11_210))).open()
        for seqno in range(1, count + 1):
            conversation.send(SERVER, mutation(1, 5, seqno, b"key%d" % seqno, b"v" * 700), mss=500)
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(pcap_file(packed(conversation.packets)))
        paths.append(str(path))
    answer = tmp_path / "answer.parquet"
    done = client(_CLIENT, server, str(answer), *paths)
    assert done.returncode == 0, done.stderr[-3000:]
    found = pq.read_table(answer).sort_by([("capture", "ascending"), ("frame", "ascending")]).to_pylist()
    assert found == [row for path in paths for row in decoded_at_once([path], SourceOptions(values=True)).to_pylist()]
    assert len(found) == 33


def test_an_archive_is_not_made_through_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(pcap_file(packed(Conversation().open().packets)))
    assert (
        cli.main(["archive", str(capture), "-o", str(tmp_path / "out"), "--master", "sc://127.0.0.1:1/;token=x"]) == 2
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("uprscope: --master sc://...: ")
    assert not (tmp_path / "out").exists()
