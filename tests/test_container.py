"""The Containerfile: it copies what is there and what the wheel needs; it is built where something can build."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest

from tests.support.paths import CAPTURES, ROOT

TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
BASE = re.findall(r"^ARG BASE=(\S+)$", TEXT, re.MULTILINE)


def copied() -> list[str]:
    """What is copied from the checkout, and not from an earlier stage."""
    lines = re.findall(r"^COPY (?!--)(.*)$", TEXT, re.MULTILINE)
    return [word for line in lines for word in line.split()[:-1]]


def test_what_it_copies_is_there_and_is_not_ignored() -> None:
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    for name in copied():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored


def test_it_copies_everything_that_a_wheel_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = [
        *wheel["packages"],
        *wheel["force-include"],
        *wheel["shared-data"],
        *project["project"]["license-files"],
        project["project"]["readme"],
        "pyproject.toml",
    ]
    for name in wanted:
        assert any(name == each or name.startswith(f"{each}/") for each in copied()), name


def test_its_extras_are_ours() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {extra for words in re.findall(r"EXTRAS=([\w,]+)", TEXT) for extra in words.split(",")}
    assert named == {"report", "spark"} <= set(extras)


def builder() -> str | None:
    """A builder that has the base image: a test fetches nothing."""
    for name in ("podman", "docker"):
        if shutil.which(name) is not None:
            asked = subprocess.run([name, "image", "inspect", BASE[0]], capture_output=True, check=False, timeout=60)
            if asked.returncode == 0:
                return name
    return None


@pytest.mark.timeout(900)
def test_it_is_built_and_runs() -> None:
    name = builder()
    if name is None:
        pytest.skip(f"no podman and no docker here that works and has {BASE[0]}")
    tag = "uprscope-test"
    subprocess.run([name, "build", "-q", "-f", "Containerfile", "-t", tag, "."], cwd=ROOT, check=True, timeout=800)
    words = [name, "run", "--rm", "-v", f"{CAPTURES}:/data:ro", tag, "check", "broken/FLC-02.pcapng"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (1, "")
    assert "1039 bytes are outstanding in a window of 1024" in done.stdout
