"""Spark's log4j settings, so that a command's own lines are the only ones on stderr; and why a Spark job failed.

Knows log4j and Spark's exceptions. A user's own settings for the log (a log4j2.properties in SPARK_CONF_DIR, or an
option of the JVM) are kept.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOG_LEVEL = "spark.log.level"
#: Comes before ``spark.driver.extraJavaOptions``, so users can override it there.
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_JAVA_OPTION_SETTINGS = ("spark.driver.extraJavaOptions", JAVA_OPTIONS)
# PySpark's gateway logs its level if that differs from the root logger's.
_PROPERTIES = """\
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
_TRACEBACK = "Traceback (most recent call last):"


def log_settings(conf: Mapping[str, str], level: str) -> dict[str, str]:
    """Return settings that make Spark log from a level on; a ``spark.log.level`` in ``conf`` goes before it."""
    conf_dir = os.environ.get("SPARK_CONF_DIR")
    if any("log4j" in conf.get(name, "") for name in _JAVA_OPTION_SETTINGS) or JAVA_OPTIONS in conf:
        return {}
    if conf_dir and Path(conf_dir, "log4j2.properties").is_file():
        return {}
    folder = Path(tempfile.mkdtemp(prefix="uprscope-log4j-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "log4j2.properties"
    file.write_text(_PROPERTIES.format(level=conf.get(LOG_LEVEL, level).lower()), encoding="utf-8")
    return {JAVA_OPTIONS: f"-Dlog4j2.configurationFile={file.as_uri()}"}


@contextlib.contextmanager
def capture_stderr() -> Iterator[IO[bytes]]:
    """Redirect stderr of this process and its children to a file for the duration of the block; yield the file.

    A JVM that fails to start has no log, and writes the reason to stderr.
    """
    with tempfile.TemporaryFile() as file:
        if sys.stderr is None:  # started with 2>&-: there is no stderr
            yield file
            return
        sys.stderr.flush()
        before = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            yield file
        finally:
            os.dup2(before, 2)
            os.close(before)


def failure_reason(error: Exception, stderr: bytes = b"") -> str:
    """Return in one line why Spark failed: the error of the Python task or of the JVM, without the stack."""
    if "JAVA_GATEWAY_EXITED" in str(error) and stderr.strip():
        first = stderr.decode(errors="replace").strip().splitlines()[0]
        return re.sub(r'^Exception in thread "\w+" [\w.$]+: ', "", first)
    lines = str(error).rpartition(_TRACEBACK)[2].splitlines()
    raised = next((line for line in lines if line and not line.startswith((" ", "\t"))), type(error).__name__)
    if _TRACEBACK not in str(error):
        return raised
    # Drop the name of the exception class: the message is written for users.
    name, separator, words = raised.partition(": ")
    return words if separator and words and " " not in name else raised
