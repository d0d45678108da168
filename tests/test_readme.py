"""The walk-throughs of README and guide: every command is run, and prints what the page shows.

``pytest tests/test_readme.py --update-cases`` writes what they print now into the pages, and prints the difference.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.rules import RULES
from tests.support.paths import ROOT

README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
#: Pages with transcripts, and how many each has at least.
_PAGES = {README: 1, GUIDE: 4}


def commands(block: str) -> list[str]:
    return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def transcript(block: str, folder: Path) -> str:
    """Run the commands of a block, as a reader would in the project's root; files go to a folder of their own."""
    for name in ("captures", "docs"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    lines = []
    for command in commands(block):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        shown = "\n".join(line.rstrip() for line in (done.stdout + done.stderr).rstrip().splitlines())
        lines += [f"$ {command}", *([shown] if shown else [])]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_walk_throughs(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = _BLOCK.findall(text)
    assert len(blocks) >= _PAGES[page]
    assert all(commands(block) for block in blocks)
    fresh = _BLOCK.sub(lambda match: f"```console\n{transcript(match[1], tmp_path)}```", text)
    if request.config.getoption("--update-cases"):
        difference = difflib.unified_diff(text.splitlines(), fresh.splitlines(), page.name, "now", lineterm="")
        print("\n".join(difference))
        page.write_text(fresh, encoding="utf-8")
        return
    assert fresh == text


def test_examples_in_python_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - our own
        assert capsys.readouterr().out


def test_the_readme_counts_right() -> None:
    text = README.read_text()
    assert f"{len(RULES)} within connections" in text
    assert f"{len(list((ROOT / 'captures' / 'bugs').glob('*.pcapng')))} of them as captures" in text


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200
