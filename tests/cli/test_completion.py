"""Completion: the scripts are right for their shells, and know every option that the command line knows."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import types
from functools import cache
from pathlib import Path

import pytest

from analysis.check import bug_help, rule_help
from dissector.explain import lookup
from dissector.frames.derived_columns import ALIASES, ROW_SCHEMA
from tests.support.paths import ROOT
from uprscope import cli
from uprscope.cli import completion, explain_pages

SHELLS = completion.SHELLS


@cache
def script(shell: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "uprscope", "completion", shell], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_parses(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script(shell))
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def complete(*words: str, cwd: Path = ROOT) -> list[str]:
    """Ask bash what it would offer for the last of these words."""
    lines = [
        script("bash"),
        f"COMP_WORDS=({' '.join(map(shlex.quote, ('uprscope', *words)))})",
        f"COMP_CWORD={len(words)}",
        "_shtab_uprscope",
        r"""[[ ${#COMPREPLY[@]} == 0 ]] || printf '%s\n' "${COMPREPLY[@]}" """,
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)], capture_output=True, text=True, cwd=cwd, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("",), [command.name for command in cli.COMMANDS]),
        (("ex",), ["explain"]),
        (("--",), ["--help", "--version"]),
        (
            ("dissect", "--color", "never", "a.pcap", "captures/04_rollback_errors.p"),
            ["captures/04_rollback_errors.pcap"],
        ),
        (("dissect", "--fo"), ["--follow", "--format"]),
        (("dissect", "--format", ""), ["text", "json", "ndjson", "csv", "parquet", "arrow"]),
        (("dissect", "a.pcap", "--format", "p"), ["parquet"]),
        (("dissect", "--dialect", "u"), ["upr-proto", "upr"]),
        (("dissect", "--fields", "fra"), ["frame", "framing_length"]),
        (("dissect", "--fields", "frame,packet"), ["frame,packet_first", "frame,packet_last", "frame,packet"]),
        (("check", "--rules", "SEQ-01,SNP-04"), ["SEQ-01,SNP-04"]),
        (("dissect", "--filter", ""), []),
        (("dissect", "--limit", ""), []),
        (("dissect", "captures/04_rollback_errors.p"), ["captures/04_rollback_errors.pcap"]),
        (("dissect", "-o", "pyp"), ["pyproject.toml"]),
        (("dissect", "x", "--output", "pyp"), ["pyproject.toml"]),
        (("archive", "x", "-o", "captures/c"), ["captures/clean"]),
        (("dissect", "--", "pyp"), ["pyproject.toml"]),
        (("explain", "--j"), ["--json"]),
        (("explain", "E-2"), [f"E-2{digit}" for digit in range(10)]),
        (("explain", "mutation", "DCP_MUTA"), ["DCP_MUTATION"]),
        (("explain", "connection_buffer_"), ["connection_buffer_size"]),
        (("explain", "errat"), ["erratum", "errata"]),
        (("explain", "colum"), ["columns"]),
        (("plot", "a.pcap", "la"), ["latency", "ladder"]),
        (("generate", "mult"), ["multiplex"]),
        (("generate", "bul"), ["bulk"]),
        (("generate", "--break", "SNP-04"), ["SNP-04/at-end", "SNP-04/reaching-back"]),
        (("generate", "basic", "--only", ""), ["client", "server"]),
        (("generate", "basic", "-o", "pyp"), ["pyproject.toml"]),
        (("completion", ""), ["bash", "zsh", "fish", "tcsh"]),
        (("completion", "--color", "a"), ["auto", "always"]),
        (("nonsense", "x"), []),
    ],
)
def test_bash_offers(words: tuple[str, ...], expected: list[str]) -> None:
    assert complete(*words) == expected


def test_bash_offers_files_whatever_they_are_called(tmp_path: Path) -> None:
    names = ["a b.pcap", "a*.pcap", "a$HOME.pcap"]
    for name in names:
        (tmp_path / name).touch()
    assert sorted(complete("dissect", "a", cwd=tmp_path)) == sorted(names)


def options_in_help(command: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-m", "uprscope", *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(
        re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", done.stdout.partition("examples:")[0].partition("to try it")[0])
    )


@pytest.mark.parametrize("command", ["", *(command.name for command in cli.COMMANDS)])
def test_every_option_of_the_help_is_completed(command: str) -> None:
    """The common options are declared where commands are dispatched: this holds the completion to them."""
    whole, commands = cli.whole_parser()
    known = set((commands[command] if command else whole)._option_string_actions)
    in_help = options_in_help(command)
    assert {"-h", "--help"} < in_help
    assert known == in_help
    assert sorted({flag for dash in ("-", "--") for flag in complete(*command.split(), dash)}) == sorted(known)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_command_is_completed_without_further_ado(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="*", metavar="CAPTURE")
        parser.add_argument("--shape", choices=["round", "square"], help="it's [a] shape")

    module = types.ModuleType("uprscope.cli.fake")
    module.__dict__.update(add_arguments=add_arguments, run=lambda _: 0)
    monkeypatch.setitem(sys.modules, "uprscope.cli.fake", module)
    monkeypatch.setattr(cli, "COMMANDS", (*cli.COMMANDS, cli.Command("fake", "uprscope.cli.fake", "doesn't: nothing")))
    assert cli.main(["completion", shell]) == 0
    written = capsys.readouterr().out
    assert "fake" in written
    assert "shape" in written
    assert "round square" in written
    if shutil.which(shell) is not None:  # quotes and brackets in help do no harm
        path = tmp_path / "script"
        path.write_text(written)
        done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


FISH_OFFERS = [
    ("ex", ["explain"]),
    ("dissect --fo", ["--follow", "--format"]),
    ("dissect --format p", ["parquet"]),
    ("dissect --fields frame,packet_l", ["frame,packet_last"]),
    ("dissect a.pcap captures/04_rollback_errors.p", ["captures/04_rollback_errors.pcap"]),
    ("explain mutation connection_buffer_", ["connection_buffer_size"]),
]


@pytest.mark.parametrize(("line", "expected"), FISH_OFFERS)
def test_fish_offers(line: str, expected: list[str], tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    path = tmp_path / "script.fish"
    path.write_text(script("fish"))
    command = f"source {path}; complete -C {shlex.quote(f'uprscope {line}')}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", command], capture_output=True, text=True, cwd=ROOT, check=True, timeout=60
    )
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == expected


def test_zsh_completes_every_capture_not_the_first_alone() -> None:
    captures = [line for line in script("zsh").splitlines() if "or - for standard input" in line]
    assert len(captures) >= 6
    assert all(line.startswith('  "*:') and line.endswith((':_files"', '_files_or_word"')) for line in captures)
    assert '"(*)' not in script("zsh")


def test_everything_offered_can_be_asked() -> None:
    names = completion.things()
    assert {"mutation", "DCP_STREAM_REQ", "E-22", "opcodes", "truncated-frame", "rollback", "draft"} <= set(names)
    for name in names:
        sort = next((each for each in (rule_help, bug_help, explain_pages) if name in each.names()), None)
        assert sort.facts(name)["answers"] if sort is not None else lookup.lookup([name]), name


@pytest.mark.parametrize("shell", SHELLS)
def test_columns_and_things_are_in_every_script(shell: str) -> None:
    words = set(re.findall(r"[\w.+/-]+", script(shell)))
    assert {*ROW_SCHEMA.names, *ALIASES} <= words
    assert set(completion.things()) <= words
