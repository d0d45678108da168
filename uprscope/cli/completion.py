"""``uprscope completion``: scripts that make a shell complete this command line.

shtab writes them, when they are asked for, from the parsers that read the command line: an option that exists is
completed. This module says what an argument may be where argparse does not: files, columns, rules, scenarios, and
everything that ``explain`` answers to.
"""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from uprscope import cli

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

_EPILOG = """\
to try it in the shell you are in:
  eval "$(uprscope completion bash)"          bash
  eval "$(uprscope completion zsh)"           zsh, after compinit
  uprscope completion fish | source           fish
  uprscope completion tcsh > u.tcsh; source u.tcsh

to have it always:
  bash   uprscope completion bash > \\
           ~/.local/share/bash-completion/completions/uprscope
         (needs the package bash-completion; else put the line above into
         ~/.bashrc)
  zsh    uprscope completion zsh > ~/.zfunc/_uprscope, with
         fpath+=~/.zfunc before compinit in ~/.zshrc
  fish   uprscope completion fish > \\
           ~/.config/fish/completions/uprscope.fish
  tcsh   uprscope completion tcsh > ~/.uprscope.tcsh, with
         source ~/.uprscope.tcsh in ~/.tcshrc

The script lists what this version has: print it again after an update. In bash
an argument is completed after a space (--format json), not after a =."""

SHELLS = ("bash", "zsh", "fish", "tcsh")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]*\Z")  #: words that no shell needs to have quoted
#: An argument that may be repeated, in shtab's zsh: it would be completed once only.
_REPEATED = re.compile(r'^  "\(\*\)::?', re.MULTILINE)
_BASH_LIST = """\
{function}() {{  # candidates after the last comma
  local given=
  [[ $1 == *,* ]] && given=${{1%,*}},
  compgen -P "$given" -W "{words}" -- "${{1##*,}}"
}}"""

#: Files, of which there may be many, and then a word: either may come next.
_BASH_FILES_OR_WORD = """\
{function}() {{  # files, or the word that ends them
  compgen -W "{words}" -- "$1"
  _shtab_compgen_files "$1"
}}"""
_ZSH_FILES_OR_WORD = """\
{function}() {{  # files, or the word that ends them
  _alternative 'words:word:({words})' 'files:file:_files'
}}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish or tcsh")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab  # noqa: PLC0415 - no other command needs it

    script = shtab.complete(completed_parser(), args.shell)
    if args.shell == "zsh":
        script = _REPEATED.sub('  "*:', script)
    sys.stdout.write(script + "\n")
    return 0


def completed_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line, with what every argument may be, for shtab alone."""
    parser, commands = cli.whole_parser()
    for name, command in commands.items():
        words = [action for action in command._actions if not action.option_strings]
        for files, following in pairwise(words):
            if files.nargs == "+" and following.choices:
                _describe_files_before(name, files, following)
        for action in command._actions:
            if not hasattr(action, "complete") and action.choices is None and action.nargs != 0:
                _describe(name, action)
    return parser


def _describe(command: str, action: argparse.Action) -> None:
    """Say what an argument may be, by its name or its metavar; others are not completed."""
    import shtab  # noqa: PLC0415 - as above

    place = (command, action.dest)
    if place in _LISTS:
        words = [word for word in _LISTS[place]() if _PLAIN.match(word)]
        action.complete = _comma_list(action.dest, words)  # type: ignore[attr-defined]
    elif place in _WORDS:
        action.choices = [word for word in dict.fromkeys(_WORDS[place]()) if _PLAIN.match(word)]
    elif action.metavar in ("CAPTURE", "FILE"):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif action.metavar in ("FOLDER", "DIR"):
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]


def _describe_files_before(command: str, action: argparse.Action, following: argparse.Action) -> None:
    """Say that files are followed by one of a few words: plot CAPTURE ... KIND. fish offers both by itself."""
    import shtab  # noqa: PLC0415 - as above

    words, function = " ".join(following.choices or ()), f"_uprscope_{command}_files_or_word"
    texts = {"function": function, "words": words}
    action.complete = {  # type: ignore[attr-defined]
        **shtab.FILE,
        "bash": function,
        "zsh": function,
        "preamble": {"bash": _BASH_FILES_OR_WORD.format(**texts), "zsh": _ZSH_FILES_OR_WORD.format(**texts)},
    }


def _comma_list(name: str, words: Sequence[str]) -> dict[str, object]:
    """Say in each shell's words that candidates stand with commas between them."""
    listed, function = " ".join(words), f"_uprscope_{name}"
    return {
        "bash": function,
        "zsh": f"_values -s , {name} {listed}",
        "fish": f"(__fish_append , {listed})",
        "tcsh": f"({listed})",
        "preamble": {"bash": _BASH_LIST.format(function=function, words=listed)},
    }


def things() -> list[str]:
    """Return every name of one word that ``explain`` answers to, categories first."""
    from dissector.explain import catalogue  # noqa: PLC0415 - the help of this command needs no protocol

    names = [word for words in catalogue.WORDS.values() for word in words[:2]]
    for thing in catalogue.things():
        names += [thing.name, *thing.aliases]
    names += [*rule_names(), *bug_names(), *page_names()]
    return [name for name in dict.fromkeys(names) if _PLAIN.match(name)]


def _columns() -> Iterable[str]:
    from dissector.frames.derived_columns import ALIASES, ROW_SCHEMA  # noqa: PLC0415 - brings pyarrow along

    return [*ROW_SCHEMA.names, *ALIASES]


def rule_names() -> list[str]:
    """Return the words that stand for rules: their ids, their groups, and ``rules`` for all."""
    from analysis.check import rule_help  # noqa: PLC0415 - brings the analysis along

    return rule_help.names()


def bug_names() -> list[str]:
    """Return the words that stand for historical bugs: their numbers, and ``bugs`` for all."""
    from analysis.check import bug_help  # noqa: PLC0415 - brings the analysis along

    return bug_help.names()


def page_names() -> list[str]:
    """Return the words that stand for pages about uprscope itself."""
    from uprscope.cli import explain_pages  # noqa: PLC0415 - as above

    return explain_pages.names()


def _captured_bugs() -> Iterable[str]:
    from dissector.generate.bugs import BUGS  # noqa: PLC0415 - as above

    return [each.name for each in BUGS if each.capture]


def _rules() -> Iterable[str]:
    return [name for name in rule_names() if name != "rules"]


def _scenarios() -> Iterable[str]:
    from dissector.generate import bulk, scenarios  # noqa: PLC0415 - brings numpy along

    return [*(each.name for each in scenarios.SCENARIOS), bulk.NAME]


def _faults() -> Iterable[str]:
    from dissector.generate.faults import FAULTS  # noqa: PLC0415 - as above

    return [f"{each.rule}/{each.variant}" if each.variant else each.rule for each in FAULTS]


#: Arguments that are lists with commas, and those that are one of many words: by command and destination.
_LISTS: dict[tuple[str, str], Callable[[], Iterable[str]]] = {
    ("dissect", "fields"): _columns,
    ("check", "rules"): _rules,
}
_WORDS: dict[tuple[str, str], Callable[[], Iterable[str]]] = {
    ("explain", "thing"): things,
    ("generate", "scenario"): _scenarios,
    ("generate", "breaks"): _faults,
    ("generate", "bug"): _captured_bugs,
}
