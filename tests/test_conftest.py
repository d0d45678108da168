"""The test set-up itself: conftest.py in a small copy of the project, make file and scripts with stand-in programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ("pytester",)

ABSENT = "a-program-nobody-has"
OUTER_SETTINGS = ("UPRSCOPE_", "PYTEST_", "MAKE", "MFLAGS", "GNUMAKEFLAGS", "CI", "NO_COLOR", "FORCE_COLOR", "PYTHON")
SERIAL_AND_PARALLEL = pytest.mark.parametrize("workers", ["0", "2"])


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the outer run (its workers, its make, its CI) reaches the inner ones."""
    for name in list(os.environ):
        if name.startswith(OUTER_SETTINGS):
            monkeypatch.delenv(name)


# conftest.py


def project(top: Path, repo_root: Path, tests: str) -> None:
    """Lay out this project's settings and conftest.py around a test file of its own."""
    (top / "tests").mkdir(parents=True)
    shutil.copy(repo_root / "pyproject.toml", top)
    shutil.copy(repo_root / "tests" / "conftest.py", top / "tests")
    (top / "tests" / "test_inner.py").write_text(f"import pytest\n{tests}", encoding="utf-8")


TOOL_TESTS = f"""
@pytest.fixture
def uses_tool():
    raise RuntimeError("a fixture ran without its tool")

@pytest.mark.tool("{ABSENT}")
def test_absent(uses_tool): pass

@pytest.mark.tool("{ABSENT}")
@pytest.mark.parametrize("n", [1, 2])
def test_each(n): pass

@pytest.mark.tool("sh")
def test_present(): pass

def test_skipped_for_another_reason(): pytest.skip("no reason")
"""


@SERIAL_AND_PARALLEL
def test_missing_tool_skips_and_is_named_in_red(pytester: pytest.Pytester, repo_root: Path, workers: str) -> None:
    project(pytester.path, repo_root, TOOL_TESTS)
    result = pytester.runpytest_subprocess("-n", workers, "--color=yes")
    assert result.ret == 0
    result.assert_outcomes(passed=1, skipped=4)
    named = [line for line in result.outlines if " needs " in line]
    names = ["test_absent", "test_each[1]", "test_each[2]"]
    assert named == [f"\x1b[31mtests/test_inner.py::{name} needs {ABSENT}\x1b[0m" for name in names]


@SERIAL_AND_PARALLEL
def test_missing_tool_fails_where_tools_are_required(
    pytester: pytest.Pytester, repo_root: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    project(pytester.path, repo_root, TOOL_TESTS)
    monkeypatch.setenv("UPRSCOPE_REQUIRE_TOOLS", "1")
    result = pytester.runpytest_subprocess("-n", workers)
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=3, skipped=1)
    result.stdout.fnmatch_lines([f"{ABSENT} not found, and UPRSCOPE_REQUIRE_TOOLS=1 asks for it"])
    result.stdout.no_fnmatch_line("*a program is missing*")


def test_tool_marker_without_a_name_is_an_error(pytester: pytest.Pytester, repo_root: Path) -> None:
    project(pytester.path, repo_root, "@pytest.mark.tool()\ndef test_nameless(): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the marker tool(name) names no program"])


SHARED_TESTS = """
@pytest.mark.shared
def test_marked(): pass

def test_fixture(shared_dir): assert (shared_dir / "note").read_text() == "here"
"""


@SERIAL_AND_PARALLEL
def test_missing_shared_material_is_counted_in_yellow(
    pytester: pytest.Pytester, repo_root: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    project(pytester.path, repo_root, SHARED_TESTS)
    monkeypatch.setenv("UPRSCOPE_SHARED", "nowhere")
    result = pytester.runpytest_subprocess("-n", workers, "--color=yes")
    result.assert_outcomes(skipped=2)
    counted = f"tests skipped for want of the reference material at {pytester.path / 'nowhere'}: 2"
    assert f"\x1b[33m{counted}\x1b[0m" in result.outlines


@pytest.mark.parametrize("place", ["shared", "elsewhere"])
def test_shared_material_is_found(
    pytester: pytest.Pytester, repo_root: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    project(pytester.path / "checkout", repo_root, SHARED_TESTS)
    (pytester.mkdir(place) / "note").write_text("here", encoding="utf-8")
    if place != "shared":
        monkeypatch.setenv("UPRSCOPE_SHARED", str(pytester.path / place))
    monkeypatch.chdir(pytester.path / "checkout")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*for want of*")


@pytest.mark.parametrize(
    ("environment", "arguments", "depth"),
    [
        ({}, (), (60, False)),
        ({"CI": "true"}, (), (60, True)),
        ({"UPRSCOPE_SWEEP": "full"}, (), (2000, False)),
        ({"UPRSCOPE_SWEEP": "full", "CI": "true"}, (), (2000, False)),
        ({}, ("--hypothesis-profile=full",), (2000, False)),
    ],
)
def test_search_depth(
    pytester: pytest.Pytester,
    repo_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    environment: dict[str, str],
    arguments: tuple[str, ...],
    depth: tuple[int, bool],
) -> None:
    project(
        pytester.path,
        repo_root,
        f"""
from hypothesis import HealthCheck, settings
def test_depth():
    now = settings()
    assert (now.max_examples, now.derandomize) == {depth}
    assert now.deadline is None
    assert tuple(now.suppress_health_check) == (HealthCheck.too_slow,)
""",
    )
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=1)


def test_unknown_search_depth_is_refused(
    pytester: pytest.Pytester, repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(pytester.path, repo_root, "def test_nothing(): pass")
    monkeypatch.setenv("UPRSCOPE_SWEEP", "fulll")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*UPRSCOPE_SWEEP=fulll*"])


# Makefile

# Writes down what it is asked to do; stands in for the chosen Python and for the one of the environment it "makes".
PYTHON = """#!/bin/sh
echo "$*" >> calls
case "$*" in *"${FAILS:-nothing fails}"*) exit 1 ;; esac
case "$*" in
    "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
    "-m pip "*) printf '#!/bin/sh\\necho "uprscope $*" >> calls\\n' > .venv/bin/uprscope; chmod +x .venv/bin/uprscope ;;
esac
"""
VENV = "-m venv .venv"
INSTALL_BASE = "-m pip install -qq -c constraints.txt -e .[report]"
CONNECT = "googleapis-common-protos grpcio grpcio-status pandas protobuf pytz"
INSTALL_DEV = [
    "-m pip install -qq -c constraints.txt -e .[dev,generate,report,spark]",
    f"-m pip install -qq --no-deps --upgrade -c constraints.txt --target .venv/connect {CONNECT}",
]
ENSURE = ["ensure-tshark", "-m tests.support.wiresharks", "ensure-chromium"]
CHECKS = ["-m ruff check", "-m ruff format --check", "-m mypy", "-m pytest -n auto --dist loadgroup"]
DEMO = [
    "uprscope dissect captures/25_stream_id_v705.pcap --limit 40",
    "uprscope check captures/broken/FLC-02.pcapng --limit 1 --no-pager",
    "uprscope report captures/broken/FLC-02.pcapng -o build/demo/report.html",
    "uprscope plot captures/broken/FLC-02.pcapng flow -o build/demo/flow.png",
    "uprscope plot captures/02_flow_control.pcap seqno --connection 1 -o build/demo/seqno.png",
]


def script(path: Path, text: str) -> None:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path, repo_root: Path) -> Path:
    """The make file and what it depends on, with a stand-in Python; the path has a space in it."""
    top = tmp_path / "my checkout"
    script(top / "python", PYTHON)
    for name in ("ensure-tshark", "ensure-chromium"):
        script(top / "tests" / "support" / name, f"#!/bin/sh\necho {name} >> calls\n")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(repo_root / name, top)
    return top


def make(top: Path, *arguments: str, **environment: str) -> tuple[int, list[str], str]:
    """Run make; return its status, the calls it made (those that only ask something left out), and its messages."""
    (top / "calls").write_text("", encoding="utf-8")
    done = subprocess.run(
        ["make", "PYTHON=./python", *arguments],
        cwd=top,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    calls = (top / "calls").read_text(encoding="utf-8").splitlines()
    return done.returncode, [call for call in calls if not call.startswith("-c ")], done.stderr


@pytest.mark.tool("make")
def test_make_test_installs_once_and_ends_with_pytest(checkout: Path) -> None:
    assert make(checkout, "test") == (0, [VENV, *INSTALL_DEV, *ENSURE, *CHECKS], "")
    assert make(checkout, "test") == (0, [*ENSURE, *CHECKS], "")
    assert make(checkout, "demo") == (0, [*DEMO], "")


@pytest.mark.tool("make")
def test_make_demo_installs_no_more_than_it_needs(checkout: Path) -> None:
    assert make(checkout, "demo") == (0, [VENV, INSTALL_BASE, *DEMO], "")
    assert make(checkout, "demo") == (0, [*DEMO], "")
    assert make(checkout, "types") == (0, [*INSTALL_DEV, "-m mypy"], "")


@pytest.mark.tool("make")
@pytest.mark.parametrize("failing", CHECKS)
def test_one_failing_check_fails_make_test_after_all_have_run(checkout: Path, failing: str) -> None:
    status, calls, _ = make(checkout, "test", FAILS=failing)
    assert status == 2
    assert calls[-4:] == CHECKS


@pytest.mark.tool("make")
def test_changed_pins_install_again_into_the_same_environment(checkout: Path) -> None:
    make(checkout, "demo")
    os.utime(checkout / ".venv" / "base.stamp", (0, 0))
    assert make(checkout, "demo")[1] == [INSTALL_BASE, *DEMO]


@pytest.mark.tool("make")
@pytest.mark.parametrize("failing", ["-m venv", "-m pip install"])
def test_unfinished_environment_is_made_anew(checkout: Path, failing: str) -> None:
    assert make(checkout, "demo", FAILS=failing)[0] == 2
    assert make(checkout, "demo") == (0, [VENV, INSTALL_BASE, *DEMO], "")


@pytest.mark.tool("make")
def test_interrupted_installation_is_not_trusted_for_an_older_stamp(checkout: Path) -> None:
    make(checkout, "demo")
    assert make(checkout, "types", FAILS="-m pip install")[0] == 2
    assert make(checkout, "demo")[1] == [VENV, INSTALL_BASE, *DEMO]


@pytest.mark.tool("make")
def test_moved_or_broken_environment_is_made_anew(checkout: Path) -> None:
    make(checkout, "demo")
    moved = checkout.rename(checkout.with_name("moved"))
    assert make(moved, "demo")[1] == [VENV, INSTALL_BASE, *DEMO]
    (moved / ".venv" / "bin" / "python").unlink()
    assert make(moved, "demo")[1] == [VENV, INSTALL_BASE, *DEMO]


@pytest.mark.tool("make")
def test_working_environment_of_somebody_elses_is_kept(checkout: Path) -> None:
    script(checkout / ".venv" / "bin" / "python", PYTHON)
    assert make(checkout, "demo")[1] == [INSTALL_BASE, *DEMO]


@pytest.mark.tool("make")
@pytest.mark.parametrize(
    ("arguments", "failing", "message"),
    [
        (["PYTHON="], "", "error: no Python 3.11 or newer found"),
        (["PYTHON=./python"], "version_info", "error: PYTHON=./python is not a Python 3.11 or newer"),
        (["PYTHON=./python"], "ensurepip", "error: ./python has no venv module; on Debian and Ubuntu: "),
    ],
)
def test_unusable_python_is_one_clear_line(checkout: Path, arguments: list[str], failing: str, message: str) -> None:
    status, calls, messages = make(checkout, *arguments, "demo", **({"FAILS": failing} if failing else {}))
    assert (status, calls) == (2, [])
    assert messages.startswith(message)
    assert len(messages.splitlines()) == 2  # ours and make's own


@pytest.mark.tool("make")
def test_first_python_that_runs_and_is_new_enough_is_chosen(checkout: Path, tmp_path: Path) -> None:
    for name, runs in (("python3.13", False), ("python3.12", True), ("python3.11", True), ("python3", True)):
        script(tmp_path / "bin" / name, f"#!/bin/sh\necho {name} >> calls\n" + (PYTHON[9:] if runs else "exit 127\n"))
    makefile = (checkout / "Makefile").read_text(encoding="utf-8")
    (checkout / "Makefile").write_text(f"{makefile}\nchosen:\n\t@echo chosen $(PYTHON) >> calls\n", encoding="utf-8")
    (checkout / "calls").touch()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["make", "chosen"], cwd=checkout, env=os.environ | {"PATH": path}, check=True)
    assert (checkout / "calls").read_text(encoding="utf-8").splitlines()[-1] == "chosen python3.12"


@pytest.mark.tool("make")
def test_make_alone_lists_every_target(checkout: Path) -> None:
    listed = subprocess.run(["make"], cwd=checkout, capture_output=True, text=True, check=True).stdout.splitlines()
    targets = {line.split()[1] for line in listed}
    assert targets == {
        "help",
        "demo",
        "test",
        "lint",
        "types",
        "unit",
        "sweep",
        "docs",
        "captures",
        "pictures",
        "wheel",
        "clean",
    }


# tests/support/ensure-tshark, .ci/run

APT = """#!/bin/sh
echo "apt-get $*" >> "$CALLS"
case "$*" in
    *install*) [ -n "$BROKEN" ] && { echo "E: no such package"; exit 100; }; cp "$0" "${0%/*}/$TOOL" ;;
esac
"""


def ensure_tshark(
    tmp_path: Path,
    repo_root: Path,
    user: int = 0,
    programs: tuple[str, ...] = (),
    settings: dict[str, str] | None = None,
    tool: str = "tshark",
) -> tuple[int, list[str], str]:
    """Run the script where only the given programs exist; return its status, apt-get's calls and its messages."""
    found = tmp_path / "bin"
    found.mkdir()
    for name in ("bash", "cat", "cp", "env", "mktemp", "rm", "sh", "true"):
        (found / name).symlink_to(shutil.which(name) or name)
    script(found / "id", f"#!/bin/sh\necho {user}\n")
    for name in programs:
        script(found / name, APT if name == "apt-get" else '#!/bin/sh\nshift\nexec "$@"\n')
    calls = tmp_path / "calls"
    calls.touch()
    done = subprocess.run(
        [repo_root / "tests" / "support" / f"ensure-{tool}"],
        env={"PATH": str(found), "CALLS": str(calls), "TMPDIR": str(tmp_path), "TOOL": tool, **(settings or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    assert not list(tmp_path.glob("tmp.*")), "the log was left behind"
    return done.returncode, calls.read_text(encoding="utf-8").splitlines(), done.stderr


UPDATE = "apt-get -q update"
INSTALL = "apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends tshark"


def test_tshark_that_is_there_is_left_alone(tmp_path: Path, repo_root: Path) -> None:
    assert ensure_tshark(tmp_path, repo_root, programs=("tshark", "apt-get")) == (0, [], "")


@pytest.mark.parametrize(("user", "programs"), [(0, ("apt-get",)), (1000, ("apt-get", "sudo"))])
def test_tshark_is_installed_where_allowed(
    tmp_path: Path, repo_root: Path, user: int, programs: tuple[str, ...]
) -> None:
    status, calls, messages = ensure_tshark(tmp_path, repo_root, user=user, programs=programs)
    assert (status, calls) == (0, [UPDATE, INSTALL])
    assert messages == "tshark is missing: installing it with apt-get\n"


@pytest.mark.parametrize(("user", "programs"), [(0, ()), (1000, ("apt-get",))])
@pytest.mark.parametrize(("required", "status", "word"), [("", 0, "will be skipped"), ("1", 1, "error: ")])
def test_tshark_that_may_not_be_installed_is_one_line(
    tmp_path: Path, repo_root: Path, *, user: int, programs: tuple[str, ...], required: str, status: int, word: str
) -> None:
    result = ensure_tshark(
        tmp_path, repo_root, user=user, programs=programs, settings={"UPRSCOPE_REQUIRE_TOOLS": required}
    )
    assert result[:2] == (status, [])
    assert len(result[2].splitlines()) == 1
    assert word in result[2]
    assert "\x1b" not in result[2]


@pytest.mark.parametrize(("setting", "red"), [({"CI": "true"}, True), ({"CI": "true", "NO_COLOR": "1"}, False)])
def test_missing_tshark_is_red_in_ci(tmp_path: Path, repo_root: Path, setting: dict[str, str], *, red: bool) -> None:
    messages = ensure_tshark(tmp_path, repo_root, settings=setting)[2]
    assert messages.startswith("\x1b[31m") is red


@pytest.mark.parametrize(("required", "status"), [("", 0), ("1", 1)])
def test_failed_installation_shows_its_log(tmp_path: Path, repo_root: Path, required: str, status: int) -> None:
    result = ensure_tshark(
        tmp_path, repo_root, programs=("apt-get",), settings={"BROKEN": "1", "UPRSCOPE_REQUIRE_TOOLS": required}
    )
    assert result[:2] == (status, [UPDATE, INSTALL])
    assert "E: no such package" in result[2]


def test_chromium_is_installed_the_same_way(tmp_path: Path, repo_root: Path) -> None:
    install = INSTALL.replace("tshark", "chromium")
    status, calls, messages = ensure_tshark(tmp_path, repo_root, programs=("apt-get",), tool="chromium")
    assert (status, calls, messages) == (0, [UPDATE, install], "chromium is missing: installing it with apt-get\n")
    (tmp_path / "again").mkdir()
    assert ensure_tshark(tmp_path / "again", repo_root, programs=("chromium",), tool="chromium") == (0, [], "")


@pytest.mark.parametrize(("required", "status", "word"), [("", 0, "will be skipped"), ("1", 1, "error: ")])
def test_chromium_that_may_not_be_installed_is_one_line(
    tmp_path: Path, repo_root: Path, required: str, status: int, word: str
) -> None:
    result = ensure_tshark(tmp_path, repo_root, settings={"UPRSCOPE_REQUIRE_TOOLS": required}, tool="chromium")
    assert result[:2] == (status, [])
    assert len(result[2].splitlines()) == 1
    assert word in result[2]


@pytest.mark.parametrize("status", [0, 2])
def test_ci_runs_make_test_with_every_tool_required(tmp_path: Path, repo_root: Path, status: int) -> None:
    script(tmp_path / "make", f'#!/bin/sh\necho "$# $*|$PWD|$UPRSCOPE_REQUIRE_TOOLS"\nexit {status}\n')
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [repo_root / ".ci" / "run"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, f"1 test|{repo_root}|1\n")


# constraints.txt


def pins(repo_root: Path) -> dict[str, str]:
    """Read constraints.txt; anything but ``name==version`` and comments fails."""
    found: dict[str, str] = {}
    for line in (repo_root / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pin = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+]+)", line)
            assert pin, f"not a pin: {line}"
            found[canonicalize_name(pin[1])] = pin[2]
    return found


def test_constraints_are_pins_and_name_no_place(repo_root: Path) -> None:
    assert pins(repo_root)
    for name in (
        "constraints.txt",
        "Makefile",
        ".ci/run",
        "tests/support/ensure-tshark",
        "tests/support/ensure-chromium",
    ):
        text = (repo_root / name).read_text(encoding="utf-8")
        assert not re.search(r"://|index-url|find-links|trusted-host", text), name


def test_every_dependency_is_pinned_at_a_version_it_allows(repo_root: Path) -> None:
    settings = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*settings["build-system"]["requires"], *settings["project"]["dependencies"]]
    for extra in settings["project"]["optional-dependencies"].values():
        wanted += extra
    pinned = pins(repo_root)
    refused = {
        str(requirement): pinned.get(canonicalize_name(requirement.name), "no pin")
        for requirement in map(Requirement, wanted)
        if not requirement.specifier.contains(pinned.get(canonicalize_name(requirement.name), "0"), prereleases=True)
    }
    assert refused == {}
