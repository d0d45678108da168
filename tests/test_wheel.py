"""The wheel: built, installed into an empty folder, and used from elsewhere, without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from dissector.terminal.style import Terminal
from tests.support.paths import CAPTURES, ROOT
from uprscope.cli.explain import answers
from uprscope.pages import PAGES, HelpPage

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

#: Runs the command line from the folder that the first argument names. ``-I`` and ``-S`` keep the checkout out: neither
#: PYTHONPATH nor the working directory nor the .pth file of an editable installation is read.
_MAIN = """
import sys
folder, site = sys.argv[1:3]
sys.path[:0] = [folder]
sys.path.append(site)
import analysis, dissector, uprscope
for package in (analysis, dissector, uprscope):
    assert package.__file__.startswith(folder), package.__file__
from uprscope.cli import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    words = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, *words], cwd=folder, check=True, capture_output=True, timeout=200)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    words = ["install", "--no-deps", "--no-index", "--no-compile", "--target", str(folder), str(wheel)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, *words], cwd=folder, check=True, capture_output=True, timeout=200)
    return folder


def uprscope(installed: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    site = sysconfig.get_paths()["purelib"]
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MAIN, str(installed), site, *words],
        cwd=cwd,
        # The path is for Spark's workers: they are Pythons of their own, without -I.
        env={**os.environ, "PYTHONPATH": str(installed), "NO_COLOR": "1", "COLUMNS": "100", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def test_what_is_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"analysis", "dissector", "uprscope"}
    lua = {f"dissector/codegen/lua_src/{path.name}" for path in (ROOT / "lua" / "src").glob("*.lua")}
    typed = {f"{package}/py.typed" for package in ("analysis", "dissector", "uprscope")}
    assert (
        lua
        | typed
        | {
            "uprscope/__init__.py",
            "uprscope/cli/check.py",
            *(f"uprscope/docs/{page.source}" for page in PAGES if page.source.endswith(".md")),
            "analysis/report/templates/page.css",
            "analysis/report/templates/page.html.j2",
        }
        <= names
    )
    pages = {path.name for path in (ROOT / "docs" / "man").iterdir()}
    shared = {name.rpartition("/")[2] for name in names if ".data/data/share/man/man1/" in name}
    assert shared == pages
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    for name in tracked.stdout.split():
        if name.startswith(("analysis/", "dissector/", "uprscope/")) and (ROOT / name).exists():
            assert name in names


def test_it_explains(installed: Path, tmp_path: Path) -> None:
    done = uprscope(installed, tmp_path, "explain", "SEQ-01")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("rule SEQ-01")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_it_has_the_pages_that_messages_cite(installed: Path, tmp_path: Path, page: HelpPage) -> None:
    done = uprscope(installed, tmp_path, "explain", page.name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == answers([page.name], Terminal(width=100))


def test_it_has_the_plugin(installed: Path, tmp_path: Path) -> None:
    done = uprscope(installed, tmp_path, "lua")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (ROOT / "lua" / "upr.lua").read_text()


def test_it_checks(installed: Path, tmp_path: Path) -> None:
    done = uprscope(installed, tmp_path, "check", str(CAPTURES / "broken" / "FLC-02.pcapng"))
    assert (done.returncode, done.stderr) == (1, "")
    assert "1039 bytes are outstanding in a window of 1024" in done.stdout


def test_it_packs_itself_for_a_cluster(installed: Path, tmp_path: Path) -> None:
    assert uprscope(installed, tmp_path, "archive", "--help").stdout.startswith("usage: uprscope archive")
    done = uprscope(installed, tmp_path, "archive", "--make-zip", "uprscope.zip")
    assert (done.returncode, done.stderr) == (0, "")
    assert "uprscope/cli/archive.py" in zipfile.ZipFile(tmp_path / "uprscope.zip").namelist()


@pytest.mark.spark
def test_it_archives(installed: Path, tmp_path: Path) -> None:
    done = uprscope(
        installed, tmp_path, "archive", str(CAPTURES / "broken" / "FLC-02.pcapng"), "-o", "out", "--master", "local[1]"
    )
    assert done.returncode == 1, done.stderr
    assert list((tmp_path / "out" / "findings").rglob("*.parquet"))
