"""Completion in bash: functions of its own, and a case for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.shells.syntax import NO_COMMAND, Kind, Values, folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.shells.syntax import CommandLine

_FUNCTIONS = r"""
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


def script(line: CommandLine) -> Iterator[str]:
    """Write the script, line by line."""
    program, front, commands = line.program, line.front, line.commands
    yield f"# bash completion of {program}: {program} completion bash"
    yield ""
    yield "_uprscope_things() {"
    yield "    _uprscope_words \\"
    *most, last = folded(line.things, "        ")
    yield from (line + " \\" for line in most)
    yield last
    yield "}"
    yield ""
    yield _FUNCTIONS
    yield '    [[ -n $only ]] || case "$command:$prev" in'
    for syntax in commands:
        for option in syntax.options:
            if option.values is not None:
                patterns = "|".join(f"{syntax.name}:{flag}" for flag in option.flags)
                yield f"        {patterns}) {_values(option.values)}; return ;;"
    yield "    esac"
    yield '    case "$command" in'
    for syntax in (front, *commands):
        flags = " ".join(flag for option in syntax.options for flag in option.flags)
        names = Values(Kind.WORDS, tuple(command.name for command in commands))
        words = _values(names if syntax is front else syntax.words)
        yield f"        {syntax.name or NO_COMMAND})"
        yield f"            if [[ -z $only && $cur == -* ]]; then _uprscope_words {flags}; else {words}; fi ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield f"complete -F _uprscope {program}"


def _values(values: Values) -> str:
    words = " ".join(values.words)
    return {
        Kind.NOTHING: ":",
        Kind.FILES: "_uprscope_files",
        Kind.WORDS: f"_uprscope_words {words}",
        Kind.LIST: f"_uprscope_list {words}",
        Kind.THINGS: "_uprscope_things",
    }[values.kind]
