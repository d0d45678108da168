"""The command line: finds the command, runs it, and turns every way of ending into an exit status.

The commands are a table of names. Only the module of the command that was asked for is imported: numpy, pyarrow and the
rules take longer to load than help or a small question takes to answer.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from dissector import __version__
from dissector.errors import UprscopeError, UsageError
from dissector.terminal.style import COLOR_CHOICES, Terminal, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

PROG = "uprscope"

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_DESCRIPTION = """\
Dissect captures of UPR, Couchbase's replication protocol, which has been
called DCP since server 3.0. Every form that the protocol has had on the wire is
understood, and every number in it can be asked about."""

_EXAMPLES = """\
examples:
  uprscope dissect capture.pcapng        one line per frame
  uprscope connections ring/*.pcap       who talked: names, roles, eras, losses
  uprscope stats capture.pcapng          latencies, stalls, streams, losses
  uprscope check capture.pcapng          what is wrong, which frames prove it
  uprscope generate basic -o a.pcapng    make a capture; --list shows of what
  uprscope explain mutation              what a message looks like on the wire
  uprscope explain 0x57 status 0x23      numbers: of opcodes, statuses, ...
  uprscope explain connection_buffer_size E-22
  uprscope explain columns filters       uprscope itself: what a row has, ...
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command's name, the module that has its ``add_arguments`` and ``run``, and one line of help."""

    name: str
    module: str
    help: str


COMMANDS: tuple[Command, ...] = (
    Command("dissect", "uprscope.cli.dissect", "decode a capture: one line per frame"),
    Command("connections", "uprscope.cli.connections", "sum captures up: one row per connection or per stream"),
    Command("stats", "uprscope.cli.stats", "one screen about a capture: traffic, latencies, stalls, losses"),
    Command("generate", "uprscope.cli.generate", "make captures to order: scenarios, broken rules, network troubles"),
    Command("check", "uprscope.cli.check", "find broken rules of the protocol, and the frames that prove it"),
    Command(
        "slice",
        "uprscope.cli.slice",
        "write chosen packets, or those of a finding, to a new capture",
    ),
    Command("plot", "uprscope.cli.plot", "draw pictures of captures: seqnos, flow control, rates and more"),
    Command("report", "uprscope.cli.report", "write one page about captures: verdicts, findings, pictures"),
    Command("archive", "uprscope.cli.archive", "bring captures of any amount into Parquet tables, with Spark"),
    Command("lua", "uprscope.cli.lua", "the Wireshark plugin: print it, install it, remove it"),
    Command("explain", "uprscope.cli.explain", "look up opcodes, statuses, flags, controls, errata, ..."),
    Command("completion", "uprscope.cli.completion", "print a script that makes your shell complete all this"),
)


class CommandModule(Protocol):
    """A command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments; ``--color`` and ``--help`` are there already."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command, and return the exit status."""


class Parser(argparse.ArgumentParser):
    """argparse, except that a mistake is a UsageError of one line, like every other mistake."""

    def error(self, message: str) -> NoReturn:
        """Raise the mistake instead of printing the whole usage."""
        raise UsageError(f"{message} (try {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Lets no exception out."""
    try:
        status = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()  # a failure to write must show here, not when the interpreter exits
    except UprscopeError as error:
        _drain_stdout()
        _complain(str(error), drawn=hasattr(error, "position"))
        status = EXIT_USAGE
    except BrokenPipeError:
        _drain_stdout()
        status = EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        _drain_stdout()
        status = EXIT_INTERRUPTED
    except OSError as error:
        # Commands turn an input that they cannot use into an InputError, so this is the output: mostly a full disk.
        _drain_stdout()
        where = f"{error.filename}: " if error.filename is not None else ""
        _complain(f"{where}{error.strerror or error}")
        _trace()
        status = EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - a bug ends as one line too
        _drain_stdout()
        _complain(f"internal error: {type(error).__name__}: {error} (run with UPRSCOPE_DEBUG=1 for the traceback)")
        _trace()
        status = EXIT_INTERNAL
    return status


def _dispatch(argv: list[str]) -> int:
    if sys.stdout is None:  # started with >&-
        raise UsageError("standard output is closed")
    place = next((index for index, word in enumerate(argv) if not word.startswith("-")), len(argv))
    try:
        main_parser().parse_args(argv[:place])
        if place == len(argv):
            raise UsageError(f"no command given (try {PROG} --help)")
        command = _command(argv[place])
        module = _module(command)
        parser = Parser(prog=f"{PROG} {command.name}", **_form(command))
        _declare(parser, module)
        args = parser.parse_args(argv[place + 1 :])
    except SystemExit as stop:  # argparse has printed help or version
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    return module.run(args)


def whole_parser() -> tuple[Parser, dict[str, argparse.ArgumentParser]]:
    """Return one parser of the whole command line, and those of its commands. Imports all of them: for completion."""
    parser = main_parser()
    commands = parser.add_subparsers(metavar="COMMAND")
    for command in COMMANDS:
        _declare(commands.add_parser(command.name, help=command.help, **_form(command)), _module(command))
    return parser, dict(commands.choices)


def _module(command: Command) -> CommandModule:
    return cast("CommandModule", importlib.import_module(command.module))


def _form(command: Command) -> dict[str, Any]:
    """Return how a command's parser is made."""
    return {
        "description": f"{command.help[0].upper()}{command.help[1:].removesuffix(', ...')}.",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def _declare(parser: argparse.ArgumentParser, module: CommandModule) -> None:
    """Declare what every command has, and the command's own arguments."""
    parser.add_argument(
        "--color",
        choices=COLOR_CHOICES,
        default="auto",
        help="color the output: auto (default: on a terminal, unless NO_COLOR is set), always or never",
    )
    module.add_arguments(parser)


def main_parser() -> Parser:
    """Return the parser of what stands before a command."""
    width = max(len(command.name) for command in COMMANDS)
    listed = "\n".join(f"  {command.name:{width}}  {command.help}" for command in COMMANDS)
    parser = Parser(
        prog=PROG,
        usage=f"{PROG} [--help] [--version] COMMAND [ARGUMENT ...]",
        description=f"{_DESCRIPTION}\n\ncommands:\n{listed}\n",
        epilog=f"{_EXAMPLES}\n{PROG} COMMAND --help tells more about a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    return parser


def _command(name: str) -> Command:
    for command in COMMANDS:
        if command.name == name:
            return command
    import difflib  # noqa: PLC0415 - only after a typing error

    close = difflib.get_close_matches(name.lower(), [command.name for command in COMMANDS], 1, 0.5)
    hint = f"did you mean {close[0]}?" if close else f"try {PROG} --help"
    raise UsageError(f"no command {name!r} ({hint})")


def _complain(message: str, *, drawn: bool = False) -> None:
    """Write one line to stderr, if it is open; a ``drawn`` message has more: a text, and a mark under a place in it."""
    if sys.stderr is None:
        return
    terminal = Terminal.of(sys.stderr)
    with contextlib.suppress(OSError, ValueError):
        lines = [terminal.encode(one_line(line)) for line in (message.split("\n") if drawn else [message])]
        sys.stderr.write(f"{terminal.error(PROG + ':')} " + "\n".join(lines) + "\n")
        sys.stderr.flush()


def _trace() -> None:
    if os.environ.get("UPRSCOPE_DEBUG", "0") not in {"", "0"} and sys.stderr is not None:
        import traceback  # noqa: PLC0415 - only while debugging

        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()


def _drain_stdout() -> None:
    """Flush stdout; if that fails, redirect it to the null device.

    The interpreter flushes once more when it exits, and would print a traceback of its own.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
