"""``uprscope completion``: scripts that make a shell complete this command line.

They are written when they are asked for, from the parsers that read the command line: an option that exists is
completed. What an option's argument may be is told by its choices, else by its metavar or name (``_values``). This
module knows shells and argparse; columns and names of the protocol come from where they are declared.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import sys
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from dissector import cli
from dissector.terminal import COLOR_CHOICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dissector.cli import CommandModule

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

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]*\Z")  #: words that no shell needs to have quoted

_NO_COMMAND = '""'


class Kind(Enum):
    """How a word is completed."""

    NOTHING = auto()
    FILES = auto()
    WORDS = auto()
    LIST = auto()  #: words with commas between them
    THINGS = auto()  #: names that can be explained; many, so they stand in the script once


@dataclass(frozen=True, slots=True)
class Values:
    """What a word may be."""

    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command; ``values`` is None if it has no argument."""

    flags: tuple[str, ...]
    help: str
    values: Values | None
    repeats: bool
    metavar: str = ""

    @property
    def last(self) -> bool:
        """Tell whether nothing else makes sense beside it."""
        return "--help" in self.flags or "--version" in self.flags


@dataclass(frozen=True, slots=True)
class Syntax:
    """A command with everything that may follow it."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: Values = field(default=Values(Kind.NOTHING))  #: what is no option
    metavar: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=tuple(_WRITERS), metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    lines = _WRITERS[args.shell](*described())
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


# ------------------------------------------------------------------------------------------------- what there is to say


def described() -> tuple[Syntax, list[Syntax]]:
    """Return the syntax in front of a command, and that of every command."""
    main = cli._main_parser()
    front = Syntax("", "", tuple(_options("", main)))
    return front, [_syntax(command) for command in cli.COMMANDS]


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
        from dissector.frames import SCHEMA  # noqa: PLC0415 - brings pyarrow along

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
    from dissector.cli.explain import rules_module  # noqa: PLC0415

    return rules_module().names()


def _scenarios() -> Iterator[str]:
    from dissector.generate import bulk, scenarios  # noqa: PLC0415 - brings numpy along

    yield from (each.name for each in scenarios.SCENARIOS)
    yield bulk.NAME


def _faults() -> Iterator[str]:
    from dissector.generate.faults import FAULTS  # noqa: PLC0415

    names = (f"{each.rule}/{each.variant}" if each.variant else each.rule for each in FAULTS)
    yield from (name for name in dict.fromkeys(names) if _PLAIN.match(name))


def _folded(words: Sequence[str], indent: str) -> Iterator[str]:
    """Write many words on lines of readable length."""
    line = indent
    for word in words:
        if len(line) + len(word) > 110 and line.strip():
            yield line.rstrip()
            line = indent
        line += word + " "
    yield line.rstrip()


# ----------------------------------------------------------------------------------------------------------------- bash

_BASH = r"""
_uprscope_words() {  # candidates among the arguments
    local IFS=$' \t\n'
    COMPREPLY=($(compgen -W "$*" -- "$cur"))
}

_uprscope_list() {  # the same behind the last comma, without what is there already
    local given= word IFS=$' \t\n'
    [[ $cur == *,* ]] && given=${cur%,*},
    COMPREPLY=()
    for word in "$@"; do
        [[ ,$given == *,"$word",* ]] || [[ $given$word != "$cur"* ]] || COMPREPLY+=("$given$word")
    done
    compopt -o nospace 2>/dev/null
}

_uprscope_files() {
    local file
    while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
    compopt -o filenames 2>/dev/null
}

_uprscope() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= at only=
    COMPREPLY=()
    # bash makes three words of --option=word.
    if [[ $cur == "=" ]]; then
        cur=
    elif [[ $prev == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [[ -z $command && ${COMP_WORDS[at]} != -* ]]; then
            command=${COMP_WORDS[at]}
        elif [[ ${COMP_WORDS[at]} == -- ]]; then
            only=words
        fi
    done
""".strip("\n")


def _bash(front: Syntax, commands: Sequence[Syntax]) -> Iterator[str]:
    yield f"# bash completion of {cli.PROG}: {cli.PROG} completion bash"
    yield ""
    yield "_uprscope_things() {"
    yield "    _uprscope_words \\"
    *most, last = _folded(things(), "        ")
    yield from (line + " \\" for line in most)
    yield last
    yield "}"
    yield ""
    yield _BASH
    yield '    [[ -n $only ]] || case "$command:$prev" in'
    for syntax in commands:
        for option in syntax.options:
            if option.values is not None:
                patterns = "|".join(f"{syntax.name}:{flag}" for flag in option.flags)
                yield f"        {patterns}) {_bash_values(option.values)}; return ;;"
    yield "    esac"
    yield '    case "$command" in'
    for syntax in (front, *commands):
        flags = " ".join(flag for option in syntax.options for flag in option.flags)
        names = Values(Kind.WORDS, tuple(command.name for command in commands))
        words = _bash_values(names if syntax is front else syntax.words)
        yield f"        {syntax.name or _NO_COMMAND})"
        yield f"            if [[ -z $only && $cur == -* ]]; then _uprscope_words {flags}; else {words}; fi ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield f"complete -F _uprscope {cli.PROG}"


def _bash_values(values: Values) -> str:
    words = " ".join(values.words)
    return {
        Kind.NOTHING: ":",
        Kind.FILES: "_uprscope_files",
        Kind.WORDS: f"_uprscope_words {words}",
        Kind.LIST: f"_uprscope_list {words}",
        Kind.THINGS: "_uprscope_things",
    }[values.kind]


# ------------------------------------------------------------------------------------------------------------------ zsh


def _zsh(front: Syntax, commands: Sequence[Syntax]) -> Iterator[str]:
    yield f"#compdef {cli.PROG}"
    yield f"# zsh completion of {cli.PROG}: {cli.PROG} completion zsh"
    yield ""
    yield "_uprscope_things() {"
    yield "    local -a things"
    yield "    things=("
    yield from _folded(things(), "        ")
    yield "    )"
    yield "    compadd -a things"
    yield "}"
    for syntax in commands:
        yield ""
        yield f"_uprscope_{syntax.name}() {{"
        yield "    _arguments -s \\"
        yield from (f"        {_zsh_option(option)} \\" for option in syntax.options)
        yield f"        {shlex.quote(f'*:{_zsh_text(syntax.metavar)}:{_zsh_values(syntax.words)}')}"
        yield "}"
    yield ""
    yield "_uprscope() {"
    yield "    local curcontext=$curcontext state line"
    yield "    local -a commands"
    yield "    commands=("
    yield from (f"        {shlex.quote(f'{syntax.name}:{syntax.help}')}" for syntax in commands)
    yield "    )"
    yield "    _arguments -C \\"
    yield from (f"        {_zsh_option(option)} \\" for option in front.options)
    yield "        '1:command:->command' '*::argument:->argument'"
    yield '    case "$state" in'
    yield "        command) _describe command commands ;;"
    yield "        argument) (( $+functions[_uprscope_$words[1]] )) && _uprscope_$words[1] ;;"
    yield "    esac"
    yield "}"
    yield ""
    # Loaded from fpath the file is the function's body; with eval it has to say whose function it is.
    yield 'if [[ "${funcstack[1]}" == _uprscope ]]; then'
    yield '    _uprscope "$@"'
    yield "else"
    yield f"    compdef _uprscope {cli.PROG}"
    yield "fi"


def _zsh_option(option: Option) -> str:
    action = "" if option.values is None else f":{_zsh_text(option.metavar)}:{_zsh_values(option.values)}"
    rest = shlex.quote(f"[{_zsh_text(option.help)}]{action}")
    excluded = "(- *)" if option.last else "*" if option.repeats else f"({' '.join(option.flags)})"
    names = [flag + ("" if option.values is None else "=" if flag.startswith("--") else "+") for flag in option.flags]
    together = "{" + ",".join(names) + "}" if len(names) > 1 else names[0]
    return f"{shlex.quote(excluded)}{together}{rest}"


def _zsh_text(text: str) -> str:
    return re.sub(r"([\\\[\]:])", r"\\\1", text)


def _zsh_values(values: Values) -> str:
    words = " ".join(values.words)
    return {
        Kind.NOTHING: " ",
        Kind.FILES: "_files",
        Kind.WORDS: f"({words})",
        Kind.LIST: f"_values -s , column {words}",
        Kind.THINGS: "_uprscope_things",
    }[values.kind]


# ----------------------------------------------------------------------------------------------------------------- fish

_FISH = r"""
function __uprscope_using  # whether this is the command; without one: whether there is none yet
    set -l words (commandline -opc)
    for word in $words[2..-1]
        string match -q -- '-*' $word; and continue
        test "$word" = "$argv[1]"
        return
    end
    test -z "$argv[1]"
end

function __uprscope_list  # candidates behind the last comma, without what is there already
    set -l token (string replace -r -- '^--[a-z-]+=' '' (commandline -ct))
    set -l given (string match -r -- '^.*,' $token)
    for word in $argv
        contains -- $word (string split -- , "$given"); or echo -- "$given$word"
    end
end
""".strip("\n")


def _fish(front: Syntax, commands: Sequence[Syntax]) -> Iterator[str]:
    yield f"# fish completion of {cli.PROG}: {cli.PROG} completion fish"
    yield ""
    yield _FISH
    yield ""
    yield "function __uprscope_things"
    yield "    printf '%s\\n' \\"
    *most, last = _folded(things(), "        ")
    yield from (line + " \\" for line in most)
    yield last
    yield "end"
    yield ""
    start = f"complete -c {cli.PROG}"
    yield f"{start} -f"
    for syntax in commands:
        yield f"{start} -n '__uprscope_using \"\"' -a {syntax.name} -d {_fish_text(syntax.help)}"
    for syntax in (front, *commands):
        using = f"{start} -n {_fish_text(f'__uprscope_using {syntax.name or _NO_COMMAND}')}"
        for option in syntax.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            values = "" if option.values is None else f" {_fish_values(option.values)}"
            yield f"{using} {flags}{values} -d {_fish_text(option.help)}"
        if syntax.words.kind is not Kind.NOTHING:
            yield f"{using} {_fish_values(syntax.words).removeprefix('-r ').removeprefix('-x ')}"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_values(values: Values) -> str:
    words = " ".join(values.words)
    return {
        Kind.NOTHING: "-x",
        Kind.FILES: "-r -F",
        Kind.WORDS: f"-x -a {_fish_text(words)}",
        Kind.LIST: f"-x -a {_fish_text(f'(__uprscope_list {words})')}",
        Kind.THINGS: "-x -a '(__uprscope_things)'",
    }[values.kind]


_WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
