"""Spark starts once: its tests go to one worker of pytest-xdist, and the others are distributed as usual."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

_TEST = """
import os, pathlib, time, pytest
{mark}
@pytest.mark.parametrize("n", range(6))
def test_where(n):
    time.sleep(0.05)
    here = pathlib.Path({name!r} + os.environ["PYTEST_XDIST_WORKER"])
    here.touch()
"""


def test_one_worker_has_all_tests_of_the_group(
    pytester: pytest.Pytester, repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "UPRSCOPE_"))]:
        monkeypatch.delenv(name)
    top = pytester.path
    (top / "tests").mkdir()
    shutil.copy(repo_root / "pyproject.toml", top)
    shutil.copy(repo_root / "tests" / "conftest.py", top / "tests")
    mark = 'pytestmark = pytest.mark.xdist_group("spark")'
    for name in ("one", "two"):
        (top / "tests" / f"test_{name}.py").write_text(_TEST.format(mark=mark, name="spark-"))
    (top / "tests" / "test_other.py").write_text(_TEST.format(mark="", name="other-"))
    result = pytester.runpytest_subprocess("-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", timeout=120)
    result.assert_outcomes(passed=18)
    assert len(list(top.glob("spark-*"))) == 1
    assert list(top.glob("other-*"))
