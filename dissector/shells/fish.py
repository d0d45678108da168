"""Completion in fish: a line for every option of every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.shells.syntax import NO_COMMAND, Kind, folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.shells.syntax import CommandLine, Values

_FUNCTIONS = r"""
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


def script(line: CommandLine) -> Iterator[str]:
    """Write the script, line by line."""
    program, front, commands = line.program, line.front, line.commands
    yield f"# fish completion of {program}: {program} completion fish"
    yield ""
    yield _FUNCTIONS
    yield ""
    yield "function __uprscope_things"
    yield "    printf '%s\\n' \\"
    *most, last = folded(line.things, "        ")
    yield from (line + " \\" for line in most)
    yield last
    yield "end"
    yield ""
    start = f"complete -c {program}"
    yield f"{start} -f"
    for syntax in commands:
        yield f"{start} -n '__uprscope_using \"\"' -a {syntax.name} -d {_text(syntax.help)}"
    for syntax in (front, *commands):
        using = f"{start} -n {_text(f'__uprscope_using {syntax.name or NO_COMMAND}')}"
        for option in syntax.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            values = "" if option.values is None else f" {_values(option.values)}"
            yield f"{using} {flags}{values} -d {_text(option.help)}"
        if syntax.words.kind is not Kind.NOTHING:
            yield f"{using} {_values(syntax.words).removeprefix('-r ').removeprefix('-x ')}"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _values(values: Values) -> str:
    words = " ".join(values.words)
    return {
        Kind.NOTHING: "-x",
        Kind.FILES: "-r -F",
        Kind.WORDS: f"-x -a {_text(words)}",
        Kind.LIST: f"-x -a {_text(f'(__uprscope_list {words})')}",
        Kind.THINGS: "-x -a '(__uprscope_things)'",
    }[values.kind]
