"""Whole command lines and everything they print: one file of tests/cli/cases is one test.

A case is a TOML file. What stands in front of ``status`` is written by hand:

``about``      what the case is there to show
``command``    the command line behind ``uprscope``, as a string (split as a shell would) or a list
``stdin``      a file to read from standard input (then the case runs in a process of its own)
``env``        environment variables, over NO_COLOR=1, COLUMNS=100 and TZ=UTC
``process``    true: in a process of its own, as a user would run it
``make``       files to make first: ``{name = {from = "a capture", bytes = 1000, patch = {"24" = "ffff"}}}``: its first
               bytes only, and others at some offsets (of the original)
``python``     "<3.13": what argparse prints differs in later ones

``{tmp}`` is a directory of the case's own, in the command and in what it prints. From ``status`` on everything is
written by ``pytest tests/cli/test_cases.py --update-cases``, which prints the diff that it blesses: read it. Long
outputs stand beside the case, in files that have its name.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from uprscope import cli

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(FOLDER.glob("*.toml"))
INLINE_LINES = 24
BY_HAND = {"about", "command", "stdin", "env", "process", "make", "python"}
EXPECTED = {"status", "stdout", "stderr", "stdout_file", "stderr_file"}
ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "100", "TZ": "UTC"}
#: Settings of whoever runs the tests that would show.
CLEARED = ("CLICOLOR_FORCE", "PAGER", "LESS", "UPRSCOPE_DEBUG", "PYTHONIOENCODING", "LC_ALL", "TERM", "LINES")


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: str
    stderr: str


def load(path: Path) -> dict[str, Any]:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(case) <= BY_HAND | EXPECTED, f"{path.name}: {sorted(set(case) - BY_HAND - EXPECTED)} is no key of a case"
    return case


def make_files(case: dict[str, Any], root: Path, tmp: Path) -> None:
    for name, recipe in case.get("make", {}).items():
        data = bytearray((root / recipe["from"]).read_bytes())
        for offset, digits in recipe.get("patch", {}).items():
            patch = bytes.fromhex(digits)
            data[int(offset) : int(offset) + len(patch)] = patch
        (tmp / name).write_bytes(data[: recipe.get("bytes", len(data))])


def words_of(case: dict[str, Any], tmp: Path) -> list[str]:
    words = case["command"]
    words = shlex.split(words) if isinstance(words, str) else words
    return [word.replace("{tmp}", str(tmp)) for word in words]


def in_process(
    words: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes]
) -> tuple[int, bytes, bytes]:
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    capture.readouterr()
    status = cli.main(words)
    out, err = capture.readouterr()
    return status, out, err


def in_subprocess(words: list[str], env: dict[str, str], root: Path, stdin: str | None) -> tuple[int, bytes, bytes]:
    inherited = {name: value for name, value in os.environ.items() if name not in CLEARED}
    with (root / stdin if stdin else Path(os.devnull)).open("rb") as source:
        done = subprocess.run(
            [sys.executable, "-m", "uprscope", *words],
            stdin=source,
            capture_output=True,
            cwd=root,
            env={**inherited, "PYTHONUTF8": "1", **env},
            check=False,
            timeout=60,
        )
    return done.returncode, done.stdout, done.stderr


def normal(data: bytes, tmp: Path) -> str:
    """Take out what differs between runs: the case's directory, and how argparse quotes choices (bare since 3.12)."""
    text = data.decode().replace(str(tmp), "{tmp}")
    return re.sub(r"\(choose from [^)]*\)", lambda found: found[0].replace("'", ""), text)


def expected(case: dict[str, Any]) -> Outcome:
    def text(name: str) -> str:
        beside = case.get(f"{name}_file")
        return str(case.get(name, "")) if beside is None else (FOLDER / beside).read_bytes().decode()

    return Outcome(case.get("status", 0), text("stdout"), text("stderr"))


def written(path: Path, outcome: Outcome) -> dict[Path, str]:
    """Return the files of a case with this outcome; what was written by hand stays as it is."""
    by_hand = re.split(r"(?m)^status\b", path.read_text(encoding="utf-8"))[0].rstrip("\n")
    lines = [by_hand, "", f"status = {outcome.status}"]
    files = {}
    for name in ("stdout", "stderr"):
        text: str = getattr(outcome, name)
        fits = text.count("\n") <= INLINE_LINES and "'''" not in text
        if text and fits and all(char.isprintable() or char in "\n\t" for char in text):
            lines.append(f"{name} = '''\n{text}'''")
        elif text:
            beside = path.with_suffix(f".{name}")
            files[beside] = text
            lines.append(f'{name}_file = "{beside.name}"')
    return {path: "\n".join(lines) + "\n", **files}


def update(path: Path, outcome: Outcome) -> str:
    """Bless an outcome; return the diff."""
    files = written(path, outcome)
    diff: list[str] = []
    for file in sorted({*files, *(path.with_suffix(f".{name}") for name in ("stdout", "stderr"))}):
        before = file.read_bytes().decode() if file.exists() else ""
        after = files.get(file, "")
        where = str(file.relative_to(FOLDER.parent.parent))
        diff += difflib.unified_diff(before.splitlines(), after.splitlines(), where, where, lineterm="")
        if file in files:
            file.write_bytes(after.encode())
        else:
            file.unlink(missing_ok=True)
    return "\n".join(diff)


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_case(
    path: Path,
    repo_root: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    case = load(path)
    assert case["about"]
    if "python" in case:
        assert case["python"] == "<3.13"
        if sys.version_info >= (3, 13):
            pytest.skip("argparse writes this differently since 3.13")
    make_files(case, repo_root, tmp_path)
    words, env = words_of(case, tmp_path), {**ENVIRONMENT, **case.get("env", {})}
    monkeypatch.chdir(repo_root)
    if case.get("process") or "stdin" in case:
        status, out, err = in_subprocess(words, env, repo_root, case.get("stdin"))
    else:
        status, out, err = in_process(words, env, monkeypatch, capfdbinary)
    outcome = Outcome(status, normal(out, tmp_path), normal(err, tmp_path))
    if request.config.getoption("--update-cases"):
        if hasattr(request.config, "workerinput"):
            pytest.fail("--update-cases prints what it blesses: run it without -n", pytrace=False)
        with capfdbinary.disabled():
            diff = update(path, outcome)
            if diff:
                sys.stdout.write(f"\n{diff}\n")
    assert outcome == expected(load(path))


# --------------------------------------------------------------------------------------------------- the cases together


def test_every_file_belongs_to_a_case() -> None:
    named = {load(path).get(f"{name}_file") for path in CASES for name in ("stdout", "stderr")}
    beside = {path.name for path in FOLDER.iterdir()} - {path.name for path in CASES}
    assert beside == named - {None}


def test_every_command_has_a_case_that_works_and_one_that_does_not() -> None:
    ends = {(str(words[0]), case.get("status") == 0) for case in map(load, CASES) if (words := words_of(case, FOLDER))}
    for command in cli.COMMANDS:
        assert {(command.name, True), (command.name, False)} <= ends, command.name


def test_an_update_keeps_what_was_written_by_hand_and_says_what_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tests" / "cases"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys.modules[__name__], "FOLDER", folder)
    path = folder / "a.toml"
    by_hand = 'about = "status of a thing"\ncommand = "--version"\nenv = {A = "1"}  # why\n'
    path.write_text(by_hand + "\nstatus = 0\nstdout = '''\nold\n'''\n")
    long = "".join(f"line {number}\\x\n" for number in range(INLINE_LINES + 1))
    diff = update(path, Outcome(3, "tab\there 'quoted' \\n\n", long))
    assert {"-old", "+tab\there 'quoted' \\n", "-status = 0", "+status = 3", "+line 0\\x"} <= set(diff.splitlines())
    assert path.read_text().startswith(by_hand)
    assert expected(load(path)) == Outcome(3, "tab\there 'quoted' \\n\n", long)
    assert update(path, expected(load(path))) == ""
    escape = update(path, Outcome(0, "\x1b[1mbold\x1b[0m\r\n", ""))  # no TOML string can hold it as it is
    assert "+\x1b[1mbold\x1b[0m" in escape
    assert sorted(file.name for file in folder.iterdir()) == ["a.stdout", "a.toml"]
    assert expected(load(path)) == Outcome(0, "\x1b[1mbold\x1b[0m\r\n", "")
