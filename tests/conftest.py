"""What every test may count on: where the repository is, which programs are there, how deep a search goes.

Markers (declared in pyproject.toml): ``tool(name)`` needs an external program, ``spark`` needs PySpark and a Java,
``shared`` needs the reference material beside a developer's checkout, ``sweep`` marks a long search. A test that could
not run is never silent: the end of the run names it. What a worker of pytest-xdist skips reaches that summary in the
report's ``user_properties``, the one part of a report that both sides carry as it is.

This file knows nothing of the protocol.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import SparkSession

    from tests.support.wiresharks import Wireshark

#: The versions that ``wiresharks`` looks after; that module is loaded by those alone who ask for one.
WIRESHARKS = ("4.0", "4.4", "4.6")
MISSING_TOOL = "uprscope_missing_tool"
MISSING_SHARED = "uprscope_missing_shared"
REPO_ROOT = Path(__file__).resolve().parents[1]


def _shared_path() -> Path:
    """Where the reference material is expected, there or not."""
    chosen = os.environ.get("UPRSCOPE_SHARED")
    return Path(chosen).resolve() if chosen else REPO_ROOT.parent / "shared"


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The top of this checkout."""
    return REPO_ROOT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The reference material beside the checkout; a test that asks for it is skipped where it is not there."""
    return _shared_path()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch of test_cases.py; options have to be declared here, before any test file is read."""
    parser.addoption("--update-cases", action="store_true", help="rewrite what the cases expect, and print the diff")


def pytest_configure() -> None:
    """Choose how far hypothesis searches; runs before its own plugin, so ``--hypothesis-profile`` still wins."""
    # In CI one commit gives one result. The full search is there to find new things, so it stays random.
    quiet = [HealthCheck.too_slow]
    settings.register_profile(
        "default", max_examples=60, deadline=None, derandomize=bool(os.environ.get("CI")), suppress_health_check=quiet
    )
    settings.register_profile("full", max_examples=2000, deadline=None, derandomize=False, suppress_health_check=quiet)
    depth = os.environ.get("UPRSCOPE_SWEEP") or "default"
    if depth not in {"default", "full"}:
        raise pytest.UsageError(f"UPRSCOPE_SWEEP={depth}: only 'full' or nothing makes sense")
    settings.load_profile(depth)


def _tools(item: pytest.Item) -> Iterator[str]:
    """Yield the programs that a test's ``tool`` markers name."""
    for marker in item.iter_markers("tool"):
        if not marker.args:
            pytest.fail("the marker tool(name) names no program", pytrace=False)
        yield from marker.args


@cache
def _grouped(file: Path) -> bool:
    """Tell whether a test file says that its tests are for the worker that has Spark."""
    return file.is_file() and 'xdist_group("spark")' in file.read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal all Spark tests to one worker, for ``--dist loadgroup``.

    pytest-xdist 3.8 tells its scheduler of groups through the ids of tests; pytest 9.2 no longer lets it change them.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class FileGroups(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            together = _grouped(config.rootpath / nodeid.partition("::")[0])
            return "spark" if together else super()._split_scope(nodeid)

    return FileGroups(config, log)


@cache
def _spark_lacks() -> tuple[str, ...]:
    """Return what Spark needs and is not here."""
    if importlib.util.find_spec("pyspark") is None:
        return ("pyspark",)
    from analysis.spark.java import find_java
    from dissector.errors import UsageError

    try:
        find_java()
    except UsageError:
        return ("java",)
    return ()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark for all tests of a run; xdist deals those of one group to one worker."""
    from analysis.spark.session import spark_session

    settings = {"spark.sql.shuffle.partitions": "3", "spark.driver.memory": "1g", "spark.default.parallelism": "2"}
    # Tests are over before the second compiler has paid off.
    settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    session = spark_session("local[2]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="module", params=WIRESHARKS)
def wireshark(request: pytest.FixtureRequest) -> Wireshark:
    """Each Wireshark in turn; ``lua_support.tshark`` runs the one whose turn it is."""
    from tests.support import wiresharks

    wiresharks.InUse.wireshark = wiresharks.all_of_them()[request.param]
    return wiresharks.InUse.wireshark


def _missing_wireshark(item: pytest.Item) -> Iterator[str]:
    """Yield the Wireshark that a test asks for, where it is not here."""
    version = getattr(item, "callspec", None) and item.callspec.params.get("wireshark")  # type: ignore[attr-defined]
    if version:
        from tests.support import wiresharks

        if version not in wiresharks.all_of_them():
            yield f"Wireshark {version}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that can't run here, before its fixtures do; where tools are required a missing one fails it."""
    missing = [*(name for name in _tools(item) if shutil.which(name) is None), *_missing_wireshark(item)]
    reason = f"{', '.join(missing)} not found"
    if not missing and item.get_closest_marker("spark"):
        missing = list(_spark_lacks())
        reason = f"{', '.join(missing)} not found for Spark"
    if missing:
        item.user_properties.extend((MISSING_TOOL, name) for name in missing)
        if os.environ.get("UPRSCOPE_REQUIRE_TOOLS") == "1":
            pytest.fail(f"{reason}, and UPRSCOPE_REQUIRE_TOOLS=1 asks for it", pytrace=False)
        pytest.skip(reason)
    wants_shared = item.get_closest_marker("shared") or "shared_dir" in getattr(item, "fixturenames", ())
    if wants_shared and not _shared_path().is_dir():
        item.user_properties.append((MISSING_SHARED, str(_shared_path())))
        pytest.skip(f"no reference material at {_shared_path()}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a required tool's absence as a failure of the test, not as an error of its set-up."""
    report = yield
    if report.when == "setup" and report.failed and _properties(report, MISSING_TOOL):
        report.when = "call"
    return report


def _properties(report: pytest.TestReport, name: str) -> list[str]:
    """Return the values a test recorded under a name."""
    return [str(value) for key, value in report.user_properties if key == name]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every test skipped for a missing tool, in red, and count those without the reference material, in yellow."""
    skipped: list[pytest.TestReport] = [
        report for report in terminalreporter.getreports("skipped") if isinstance(report, pytest.TestReport)
    ]
    without_tool = sorted(
        (report.nodeid, ", ".join(tools)) for report in skipped if (tools := _properties(report, MISSING_TOOL))
    )
    if without_tool:
        terminalreporter.section("skipped: a program is missing", red=True, bold=True)
        for nodeid, names in without_tool:
            terminalreporter.write_line(f"{nodeid} needs {names}", red=True)
    places = [place for report in skipped for place in _properties(report, MISSING_SHARED)]
    if places:
        terminalreporter.write_line(
            f"tests skipped for want of the reference material at {places[0]}: {len(places)}", yellow=True
        )
