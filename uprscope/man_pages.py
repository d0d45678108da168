"""The man pages: one of ``uprscope`` and one of each command, made of the declarations that argparse reads.

``python -m uprscope.man_pages`` writes them to ``docs/man``, from where a wheel takes them (``share/man/man1``); a test
holds them fresh. It knows argparse and roff, and no command.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dissector import __version__
from uprscope import cli
from uprscope.pages import EXIT_STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FOLDER = "docs/man"
_ROOT = Path(__file__).parents[1]
_ESCAPED = str.maketrans({"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"})
_STATUS = re.compile(r"exit status:\s*", re.IGNORECASE)
_ENVIRONMENT = (
    ("COLUMNS", "how wide text may get, where the output is no terminal"),
    ("NO_COLOR", "if set, no colors"),
    ("CLICOLOR_FORCE", "if set, colors wherever the output goes"),
    ("PAGER", "what shows long text on a terminal (default: less)"),
    ("JAVA_HOME", "the Java for archive (default: the first one that is new enough)"),
    ("UPRSCOPE_DEBUG", "if set, mistakes of uprscope itself have a traceback"),
)


def pages() -> dict[str, str]:
    """Return every page by the name of its file."""
    _, parsers = cli.whole_parser()
    found = {f"{cli.PROG}.1": _page(cli.PROG, "dissector and offline analyzer for UPR (DCP)", _overview())}
    for command in cli.COMMANDS:
        name = f"{cli.PROG}-{command.name}"
        found[f"{name}.1"] = _page(name, command.help, _command(command.name, parsers[command.name]))
    return found


def escape(text: str) -> str:
    """Write text so that roff shows it as it is."""
    plain = text.translate(_ESCAPED)
    plain = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in plain)
    return rf"\&{plain}" if plain.startswith((".", r"\(aq")) else plain


def _page(name: str, about: str, body: Iterable[str]) -> str:
    title = f'.TH {escape(name.upper())} 1 "" "{cli.PROG} {__version__}" "User Commands"'
    return "\n".join([title, ".ad l", ".nh", ".SH NAME", rf"{escape(name)} \- {escape(about)}", *body, ""])


def _overview() -> Iterator[str]:
    main = cli.main_parser()
    yield from (".SH SYNOPSIS", rf"\fB{cli.PROG}\fR [\fIOPTION\fR] \fICOMMAND\fR [\fIARGUMENT\fR ...]")
    yield ".SH DESCRIPTION"
    yield from _prose((main.description or "").partition("\n\ncommands:")[0])
    yield ".SH COMMANDS"
    for command in cli.COMMANDS:
        yield from (".TP", rf"\fB{escape(f'{cli.PROG}-{command.name}')}\fR(1)", escape(command.help))
    yield ".SH OPTIONS"
    yield from _options(main._actions)
    yield from _epilog(main.epilog or "")
    yield ".SH EXIT STATUS"
    for status, meaning in EXIT_STATUSES:
        yield from (".TP", rf"\fB{status}\fR", escape(meaning))
    yield ".SH ENVIRONMENT"
    for variable, meaning in _ENVIRONMENT:
        yield from (".TP", rf"\fB{variable}\fR", escape(meaning))


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    words = [action for action in parser._actions if not action.option_strings]
    required = [rf"{_form(action, first_only=True)}" for action in parser._actions if _is_required(action)]
    yield ".SH SYNOPSIS"
    yield " ".join([rf"\fB{cli.PROG} {escape(name)}\fR", r"[\fIOPTION\fR ...]", *required, *map(_word, words)])
    yield ".SH DESCRIPTION"
    yield from _prose(parser.description or "")
    for group in parser._action_groups:
        if group._group_actions:
            yield f".SH {escape((group.title or '').upper().removeprefix('POSITIONAL '))}"
            if group.description:
                yield escape(f"{group.description[0].upper()}{group.description[1:]}.")
            yield from _options(group._group_actions)
    yield from _epilog(parser.epilog or "")
    yield ".SH SEE ALSO"
    yield rf"\fB{cli.PROG}\fR(1), \fB{cli.PROG} explain exit\-status\fR"


def _is_required(action: argparse.Action) -> bool:
    return bool(action.option_strings) and action.required


def _word(action: argparse.Action) -> str:
    name = rf"\fI{escape(_value(action))}\fR"
    forms = {"+": f"{name} ...", "*": f"[{name} ...]", "?": f"[{name}]"}
    return forms.get(str(action.nargs), name)


def _value(action: argparse.Action) -> str:
    """Return what stands for the argument's value."""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _form(action: argparse.Action, *, first_only: bool = False) -> str:
    """Return an option with its other names and its value."""
    names = action.option_strings[:1] if first_only else action.option_strings
    shown = ", ".join(rf"\fB{escape(name)}\fR" for name in names)
    return shown if action.nargs == 0 else rf"{shown} \fI{escape(_value(action))}\fR"


def _options(actions: Sequence[argparse.Action]) -> Iterator[str]:
    for action in actions:
        if action.help == argparse.SUPPRESS:
            continue
        yield from (".TP", _form(action) if action.option_strings else _word(action))
        yield escape((action.help or "") % {"default": action.default, "prog": cli.PROG})


def _prose(text: str) -> Iterator[str]:
    for at, paragraph in enumerate(text.strip().split("\n\n")):
        if at:
            yield ".PP"
        yield escape(" ".join(paragraph.split()))


def _epilog(text: str) -> Iterator[str]:
    """Yield the sections of an epilog: a line that ends in a colon begins one, and so does the exit status."""
    for block in filter(None, (part.strip("\n") for part in text.split("\n\n"))):
        first, _, rest = block.partition("\n")
        if first.endswith(":") and rest.startswith("  "):
            yield from (f".SH {escape(first[:-1].upper())}", ".nf", *_literal(rest), ".fi")
            continue
        notes, *statuses = _STATUS.split(block)
        if notes.strip():
            yield from (".SH NOTES", *_prose(notes))
        for status in statuses:
            yield from (".SH EXIT STATUS", *_prose(status))


def _literal(text: str) -> Iterator[str]:
    """Yield lines as they are, without what all are indented by."""
    for line in text.split("\n"):
        yield escape(line.removeprefix("  "))


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or name those that are stale."""
    parser = argparse.ArgumentParser(prog="python -m uprscope.man_pages", description="Write the man pages.")
    parser.add_argument("folder", nargs="?", type=Path, default=_ROOT / FOLDER, help=f"default: {FOLDER}")
    parser.add_argument("--check", action="store_true", help="write nothing; say which pages are stale")
    args = parser.parse_args(argv)
    stale = 0
    for name, text in pages().items():
        path = args.folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if args.check:
            print(f"{path} is stale: run python -m uprscope.man_pages")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            print(path)
    return int(args.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
