"""``uprscope archive`` as people and scripts meet it: exit statuses, and a stderr that holds its own lines only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analysis.archive import manifest
from analysis.spark import interrupts, java, log4j
from tests.support.archive_cases import write_capture
from tests.support.checking import clean
from uprscope import cli

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def started(words: Sequence[str], folder: Path, conf: Mapping[str, str] = SETTINGS) -> subprocess.Popen[str]:
    """Start the command in a process of its own, which starts a Spark of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    code = "import sys; from uprscope.cli import main; sys.exit(main())"
    program = [sys.executable, "-c", code, "archive", *words, *settings]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        program, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def command(words: Sequence[str], folder: Path, conf: Mapping[str, str] = SETTINGS) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    process = started(words, folder, conf)
    try:
        said, complained = process.communicate(timeout=240)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, said, complained)


def test_nothing_violated_and_nothing_said(tmp_path: Path) -> None:
    write_capture(tmp_path / "in" / "a.pcap", clean("basic"))
    done = command(["in", "-o", "out", "--master", "local[1]"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split("(")[0].strip() for line in done.stderr.splitlines()] == [
        "uprscope: reading 1 ring of captures",
        "uprscope: checking connections",
        "uprscope: comparing connections",
    ]
    assert done.stdout.endswith("No findings.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--master", "nonsense"], "Spark does not start: Master must either be "),
        (["--conf", "spark.driver.memory=1zz"], "Spark does not start: Invalid maximum heap size"),
    ],
)
def test_a_spark_that_does_not_start_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    write_capture(tmp_path / "in" / "a.pcap", clean("basic"))
    done = command(["in", "-o", "out", *words], tmp_path, {})
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"uprscope: {said}")
    assert line.endswith("(--conf spark.log.level=ERROR shows more)")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_in_a_ring_of_two(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark
    whole = write_capture(tmp_path / "in" / "a.pcap", clean("basic"))
    (tmp_path / "in" / "b.pcap").write_bytes(write_capture(tmp_path / "b", clean("basic"), 300).read_bytes()[:-9])
    assert cli.main(["archive", str(whole.parent), "-o", str(tmp_path / "out")]) == 3
    told = capsys.readouterr()
    assert "in 2 captures; of 1 rings 1 read now, 0 as before." in told.out
    assert told.err.splitlines()[-1].startswith(f"uprscope: damaged: {tmp_path / 'in' / 'b.pcap'}: ")
    assert [entry.place for entry in manifest.read(tmp_path / "out").rings.values()] == [str(whole.parent)]


def test_what_python_raised_in_a_task_is_what_counts() -> None:
    told = (
        "[PYTHON_ERROR] An exception was thrown.\n\nTraceback (most recent call last):\n  File x\n    y\nOSError: a\n\n"
        "During handling:\n\nTraceback (most recent call last):\n  File x\n    z\n"
        "dissector.errors.InputError: s3://b/c: no way\n  more\n"
    )
    assert log4j.failure_reason(RuntimeError(told)) == "s3://b/c: no way"
    assert log4j.failure_reason(RuntimeError("first line\n at x\n at y")) == "first line"
    assert log4j.failure_reason(RuntimeError("")) == "RuntimeError"
    assert log4j.failure_reason(RuntimeError("[JAVA_GATEWAY_EXITED] x"), b"\nwhy not\nat x\n") == "why not"


def test_every_java_gets_a_stand_in_that_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "libjvm.so").touch()
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\nprintf '%s|' \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = java.use_java()
    assert (found.version, found.origin, found.home != home) == (21, "JAVA_HOME", True)
    assert (found.home / "lib" / "libjvm.so").is_file()
    words = [found.home / "bin" / "java", "-Dwords=two words", "--add-modules=jdk.incubator.vector", "Main"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "-Dwords=two words|Main|"
    assert java.use_java() == found


def test_a_log_of_the_users_own_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    option = log4j.log_settings({"spark.log.level": "INFO"}, "OFF")["spark.driver.defaultJavaOptions"]
    file = Path(option.partition("file://")[2])
    assert "rootLogger.level = info" in file.read_text()
    assert log4j.log_settings({"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=x"}, "OFF") == {}
    assert log4j.log_settings({"spark.driver.defaultJavaOptions": "-Dx"}, "OFF") == {}
    (tmp_path / "log4j2.properties").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert log4j.log_settings({}, "OFF") == {}


@pytest.mark.parametrize("when", ["while Spark starts", "in a job"])
def test_an_interruption_ends_it_quietly(tmp_path: Path, when: str) -> None:
    for number in range(40):
        write_capture(tmp_path / "in" / str(number) / "a.pcap", clean("basic"))
    process = started(["in", "-o", "out", "--master", "local[1]"], tmp_path)
    try:
        assert process.stderr is not None
        if when == "in a job":
            assert process.stderr.readline().startswith("uprscope: reading 40 rings")
        else:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            if not children.exists():
                pytest.skip("this system does not tell the children of a process")
            while not children.read_text().strip() and process.poll() is None:
                time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        # Java and the workers have these pipes too: they end only when no process is left.
        said, complained = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == cli.EXIT_INTERRUPTED
    assert said == ""
    assert [line for line in complained.splitlines() if not line.startswith("uprscope: ")] == []
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_interruption_is_put_off_until_the_end() -> None:
    reached = []
    before = signal.getsignal(signal.SIGINT)

    def block() -> None:
        with interrupts.delay_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # as others do in the meantime
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached
    assert signal.getsignal(signal.SIGINT) is before


def test_who_ignores_interruptions_goes_on_doing_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.delay_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_java_fails_to_answer_after_an_interruption_is_the_interruption() -> None:
    try:
        try:
            raise KeyboardInterrupt
        finally:
            raise OSError("no answer")  # what a clean-up comes across
    except OSError as error:
        found = error
    assert interrupts.caused_by_interrupt(found)
    assert not interrupts.caused_by_interrupt(OSError("no answer"))
