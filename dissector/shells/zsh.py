"""Completion in zsh: a function for each command, in the language of _arguments."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from dissector.shells.syntax import Kind, folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.shells.syntax import CommandLine, Option, Values


def script(line: CommandLine) -> Iterator[str]:
    """Write the script, line by line."""
    program, front, commands = line.program, line.front, line.commands
    yield f"#compdef {program}"
    yield f"# zsh completion of {program}: {program} completion zsh"
    yield ""
    yield "_uprscope_things() {"
    yield "    local -a things"
    yield "    things=("
    yield from folded(line.things, "        ")
    yield "    )"
    yield "    compadd -a things"
    yield "}"
    for syntax in commands:
        yield ""
        yield f"_uprscope_{syntax.name}() {{"
        yield "    _arguments -s \\"
        yield from (f"        {_option(option)} \\" for option in syntax.options)
        yield f"        {shlex.quote(f'*:{_text(syntax.metavar)}:{_values(syntax.words)}')}"
        yield "}"
    yield ""
    yield "_uprscope() {"
    yield "    local curcontext=$curcontext state line"
    yield "    local -a commands"
    yield "    commands=("
    yield from (f"        {shlex.quote(f'{syntax.name}:{syntax.help}')}" for syntax in commands)
    yield "    )"
    yield "    _arguments -C \\"
    yield from (f"        {_option(option)} \\" for option in front.options)
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
    yield f"    compdef _uprscope {program}"
    yield "fi"


def _option(option: Option) -> str:
    action = "" if option.values is None else f":{_text(option.metavar)}:{_values(option.values)}"
    rest = shlex.quote(f"[{_text(option.help)}]{action}")
    excluded = "(- *)" if option.last else "*" if option.repeats else f"({' '.join(option.flags)})"
    names = [flag + ("" if option.values is None else "=" if flag.startswith("--") else "+") for flag in option.flags]
    together = "{" + ",".join(names) + "}" if len(names) > 1 else names[0]
    return f"{shlex.quote(excluded)}{together}{rest}"


def _text(text: str) -> str:
    return re.sub(r"([\\\[\]:])", r"\\\1", text)


def _values(values: Values) -> str:
    words = " ".join(values.words)
    return {
        Kind.NOTHING: " ",
        Kind.FILES: "_files",
        Kind.WORDS: f"({words})",
        Kind.LIST: f"_values -s , column {words}",
        Kind.THINGS: "_uprscope_things",
    }[values.kind]
