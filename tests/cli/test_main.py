"""The command line: help, mistakes, pipes and bugs all end in one way that scripts can rely on."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import types
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

import dissector
from dissector.errors import InputError
from uprscope import cli

if TYPE_CHECKING:
    from collections.abc import Callable

#: What a user's shell has: where PYTHONUNBUFFERED is set, nothing is left to flush when the interpreter exits.
_BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
_HEAVY = ("numpy", "pyarrow", "rich")


def _uprscope(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "uprscope", *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONUTF8": "1", **(env or {})},
        check=False,
        timeout=60,
    )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | None], None]:
    """Put a command ``fake`` into the table that ends with an exception."""

    def install(error: BaseException | None) -> None:
        module = types.ModuleType("uprscope.cli.fake")

        def run(args: argparse.Namespace) -> int:
            if error is not None:
                raise error
            return 3 if args.damaged else 0

        module.__dict__.update(
            add_arguments=lambda parser: parser.add_argument("--damaged", action="store_true"), run=run
        )
        monkeypatch.setitem(sys.modules, "uprscope.cli.fake", module)
        command = cli.Command("fake", "uprscope.cli.fake", "does nothing")
        monkeypatch.setattr(cli, "COMMANDS", (*cli.COMMANDS, command))

    return install


def test_help_names_every_command_and_fits_a_terminal() -> None:
    done = _uprscope("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Couchbase" in done.stdout
    assert "examples:" in done.stdout
    for command in cli.COMMANDS:
        assert f"  {command.name}" in done.stdout
        assert command.help in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_examples_use_only_commands_that_exist() -> None:
    examples = _uprscope("--help").stdout.partition("examples:")[2]
    used = [line.split()[1] for line in examples.splitlines() if line.startswith("  uprscope ")]
    assert used
    assert set(used) <= {command.name for command in cli.COMMANDS}


def test_the_table_matches_the_modules() -> None:
    for command in cli.COMMANDS:
        if importlib.util.find_spec(command.module) is None:
            continue  # listed before it is written
        module = importlib.import_module(command.module)
        module.add_arguments(argparse.ArgumentParser())
        assert callable(module.run)


def test_version_is_the_package_s() -> None:
    done = _uprscope("--version")
    assert (done.returncode, done.stdout) == (0, f"uprscope {dissector.__version__}\n")


def test_the_entry_point_is_main() -> None:
    scripts = {entry.name: entry.value for entry in metadata.distribution("uprscope").entry_points}
    assert scripts["uprscope"] == "uprscope.cli:main"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "uprscope: no command given (try uprscope --help)\n"),
        (("expain",), "uprscope: no command 'expain' (did you mean explain?)\n"),
        (("DISSECT",), "uprscope: no command 'DISSECT' (did you mean dissect?)\n"),
        (("zzz",), "uprscope: no command 'zzz' (try uprscope --help)\n"),
        (("--bad",), "uprscope: unrecognized arguments: --bad (try uprscope --help)\n"),
        (("explain", "--bad"), "uprscope: unrecognized arguments: --bad (try uprscope explain --help)\n"),
        (("explain", "--js", "mutation"), "uprscope: unrecognized arguments: --js (try uprscope explain --help)\n"),
        (("e\x1b[31m\n",), "uprscope: no command 'e\\x1b[31m\\n' (try uprscope --help)\n"),
        (("explain", "--\x1b[2J"), "uprscope: unrecognized arguments: --\\x1b[2J (try uprscope explain --help)\n"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(args: tuple[str, ...], said: str) -> None:
    done = _uprscope(*args)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_bad_choice_is_one_line() -> None:
    done = _uprscope("explain", "--color", "blue", "mutation")
    assert done.returncode == 2
    assert done.stderr.startswith("uprscope: argument --color: invalid choice: 'blue'")
    assert done.stderr.count("\n") == 1


def test_command_help() -> None:
    done = _uprscope("explain", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: uprscope explain ")
    assert "--json" in done.stdout
    assert "--color" in done.stdout


def test_the_status_of_a_command_is_passed_on(fake: Callable[[BaseException | None], None]) -> None:
    fake(None)
    assert cli.main(["fake"]) == 0
    assert cli.main(["fake", "--damaged"]) == 3


def test_a_user_s_mistake_is_one_line(
    fake: Callable[[BaseException | None], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(InputError("a\nb\x1b.pcap: no such file"))
    assert cli.main(["fake"]) == 2
    assert capsys.readouterr().err == "uprscope: a\\nb\\x1b.pcap: no such file\n"


def test_a_bug_is_one_line(
    fake: Callable[[BaseException | None], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("UPRSCOPE_DEBUG", raising=False)
    fake(KeyError("what\never"))
    assert cli.main(["fake"]) == 70
    said = capsys.readouterr().err
    assert said == ("uprscope: internal error: KeyError: 'what\\never' (run with UPRSCOPE_DEBUG=1 for the traceback)\n")


def test_a_bug_shows_its_traceback_when_asked(
    fake: Callable[[BaseException | None], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UPRSCOPE_DEBUG", "1")
    fake(ZeroDivisionError("oops"))
    assert cli.main(["fake"]) == 70
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "ZeroDivisionError: oops" in said


def test_an_interrupt_is_quiet(
    fake: Callable[[BaseException | None], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(KeyboardInterrupt())
    assert cli.main(["fake"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    script = f"'{sys.executable}' -m uprscope explain opcodes | head -1"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=_BUFFERED, check=False, timeout=60
    )
    assert done.stdout.startswith("every opcode")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize("question", ["takeover", "opcodes"])  # less than a buffer, which is kept, and more
def test_a_reader_that_never_comes_is_status_141(question: str) -> None:
    # How much a pipe holds differs between systems; a reading end that is closed before the start fails everywhere.
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "uprscope", "explain", question],
            stdout=writing,
            stderr=subprocess.PIPE,
            env=_BUFFERED,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("question", ["takeover", "opcodes"])
def test_a_full_disk_is_one_line(question: str) -> None:
    script = f"'{sys.executable}' -m uprscope explain {question} > /dev/full"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=_BUFFERED, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "uprscope: No space left on device\n"


def test_closed_streams_are_no_bug() -> None:
    script = f"'{sys.executable}' -m uprscope explain mutation >&- 2>&-; echo $?"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=_BUFFERED, check=False, timeout=60
    )
    assert done.stdout == "2\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("env", "args", "colored"),
    [
        ({}, (), False),  # a pipe
        ({"CLICOLOR_FORCE": "1"}, (), True),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, (), False),
        ({}, ("--color", "always"), True),
        ({"CLICOLOR_FORCE": "1"}, ("--color", "never"), False),
    ],
)
def test_colour(env: dict[str, str], args: tuple[str, ...], colored: bool) -> None:
    done = _uprscope("explain", *args, "mutation", env=env)
    assert done.returncode == 0
    assert ("\x1b[" in done.stdout) is colored


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["explain", "--help"], ["explain", "mutation"], ["explain", "--json", "0x50"]]
)
def test_small_questions_load_nothing_heavy(args: list[str]) -> None:
    script = (
        "import sys; from uprscope.cli import main; status = main(sys.argv[1:]); "
        f"heavy = [name for name in {_HEAVY!r} if name in sys.modules]; "
        "sys.exit(f'{status} {heavy}' if status or heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_help_does_not_load_the_protocol() -> None:
    script = (
        "import sys; from uprscope.cli import main; main(['--help']); sys.exit('dissector.spec.model' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
