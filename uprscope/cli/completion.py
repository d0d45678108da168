"""``uprscope completion``: scripts that make a shell complete this command line.

They are written when they are asked for, from the parsers that read the command line: an option that exists is
completed. What an option's argument may be is told by its choices, else by its metavar or name (``_values``). This
module knows argparse; what shells want to be told is in ``dissector.shells``, and columns and names of the protocol
come from where they are declared.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from typing import TYPE_CHECKING, cast

from dissector.shells.syntax import CommandLine, Kind, Option, Syntax, Values
from dissector.terminal.style import COLOR_CHOICES
from uprscope import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uprscope.cli import CommandModule

_EPILOG = """\
to try it in the shell you are in:
  eval "$(uprscope completion bash)"          bash
  eval "$(uprscope completion zsh)"           zsh, behind compinit
  uprscope completion fish | source           fish

to have it always:
  bash   uprscope completion bash > \\
           ~/.local/share/bash-completion/completions/uprscope
         (needs the package bash-completion; else put the line above into
         ~/.bashrc)
  zsh    uprscope completion zsh > ~/.zfunc/_uprscope, with
         fpath+=~/.zfunc in front of compinit in ~/.zshrc
  fish   uprscope completion fish > \\
           ~/.config/fish/completions/uprscope.fish

The script lists what this version has: print it again after an update."""

_SHELLS = ("bash", "zsh", "fish")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]*\Z")  #: words that no shell needs to have quoted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    lines = importlib.import_module(f"dissector.shells.{args.shell}").script(described())
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def described() -> CommandLine:
    """Return what can be completed."""
    front = Syntax("", "", tuple(_options("", cli._main_parser())))
    return CommandLine(cli.PROG, front, tuple(_syntax(command) for command in cli.COMMANDS), tuple(things()))


def _syntax(command: cli.Command) -> Syntax:
    parser = argparse.ArgumentParser()
    parser.add_argument("--color", choices=COLOR_CHOICES, help="color the output")
    cast("CommandModule", importlib.import_module(command.module)).add_arguments(parser)
    places = [action for action in parser._actions if not action.option_strings]
    values = _values(command.name, places[0]) if places else Values(Kind.NOTHING)
    metavar = str(places[0].metavar or places[0].dest) if places else ""
    return Syntax(command.name, command.help, tuple(_options(command.name, parser)), values, metavar)


def _options(command: str, parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            values = None if action.nargs == 0 else _values(command, action)
            repeats = isinstance(action, argparse._AppendAction)
            metavar = str(action.metavar or action.dest)
            yield Option(tuple(action.option_strings), _help(action.help or ""), values, repeats, metavar)


def _help(text: str) -> str:
    """Shorten help to what fits beside a candidate."""
    return re.split(r"[;:(]", text, maxsplit=1)[0].strip()


def _values(command: str, action: argparse.Action) -> Values:
    if action.choices is not None:
        return Values(Kind.WORDS, tuple(str(choice) for choice in action.choices))
    if (command, action.dest) == ("dissect", "fields"):
        from dissector.frames.schema import SCHEMA  # noqa: PLC0415 - brings pyarrow along

        return Values(Kind.LIST, tuple(SCHEMA.names))
    if (command, action.dest) in {("generate", "scenario"), ("generate", "breaks")}:
        return Values(Kind.WORDS, tuple(_scenarios() if action.dest == "scenario" else _faults()))
    if (command, action.dest) == ("check", "rules"):
        return Values(Kind.LIST, tuple(name for name in _rules() if name != "rules"))
    by_metavar = {"CAPTURE": Kind.FILES, "FILE": Kind.FILES, "THING": Kind.THINGS}
    return Values(by_metavar.get(str(action.metavar), Kind.NOTHING))


def things() -> list[str]:
    """Return every name of one word that ``explain`` answers to, categories first."""
    from dissector.explain import catalogue  # noqa: PLC0415 - the help of this command needs no protocol

    names = [word for words in catalogue.WORDS.values() for word in words[:2]]
    for thing in catalogue.things():
        names += [thing.name, *thing.aliases]
    names += _rules()
    return [name for name in dict.fromkeys(names) if _PLAIN.match(name)]


def _rules() -> list[str]:
    from uprscope.cli.explain import rules_module  # noqa: PLC0415

    return rules_module().names()


def _scenarios() -> Iterator[str]:
    from dissector.generate import bulk, scenarios  # noqa: PLC0415 - brings numpy along

    yield from (each.name for each in scenarios.SCENARIOS)
    yield bulk.NAME


def _faults() -> Iterator[str]:
    from dissector.generate.faults import FAULTS  # noqa: PLC0415

    names = (f"{each.rule}/{each.variant}" if each.variant else each.rule for each in FAULTS)
    yield from (name for name in dict.fromkeys(names) if _PLAIN.match(name))
