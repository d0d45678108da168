"""``uprscope generate``: captures made to order. Arguments and files only: ``dissector.generate`` makes the packets."""

from __future__ import annotations

import argparse
import contextlib
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dissector.errors import UsageError
from uprscope.cli.input_options import positive
from uprscope.cli.output_options import counted, known_ending, tell_written

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.capture_files import Medium
    from dissector.generate.impairments import Impairments
    from dissector.generate.scenario import Size

SIDES = ("client", "server")
DEFAULT_SEED = 1

_EPILOG = """\
examples:
  uprscope generate --list
  uprscope generate basic -o basic.pcapng
  uprscope generate --break SEQ-01 -o broken.pcapng --truth broken.json
  uprscope generate basic --break 'SNP-02@frame=40' -o broken.pcap
  uprscope generate --bug MB-16042 -o bug.pcapng
  uprscope generate multiplex --mss 1-1448 --reorder 0.1 --retransmit 0.05 \\
      --ip 6 -o rough.pcapng
  uprscope generate bulk --frames 1000000 --vbuckets 1024 -o big.pcap
  uprscope generate basic -o - | uprscope dissect -

The same command gives the same bytes, whenever and wherever it is run; another
--seed gives others. Troubles are per packet with data. None but the losses
changes what the analyzer finds in a capture."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="what is to happen; left out: where the first fault is at home"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the capture, .pcap or .pcapng, or - for standard output"
    )
    parser.add_argument("--truth", metavar="FILE", help="write what was sent, and what is wrong with it, as JSON")
    parser.add_argument(
        "--list", action="store_true", help="show scenarios, faults, bugs and the captures in captures/"
    )
    wanted = parser.add_argument_group("what to make")
    wanted.add_argument("--seed", type=_natural, default=DEFAULT_SEED, metavar="N", help="default: 1")
    wanted.add_argument("--frames", type=positive, metavar="N", help="about so many messages; bulk: exactly")
    wanted.add_argument("--connections", type=positive, metavar="N", help="where the scenario lets you choose")
    wanted.add_argument("--vbuckets", type=positive, metavar="N", help="where the scenario lets you choose")
    wanted.add_argument("--rate", type=_amount, metavar="N", help="messages per second: changes the time between them")
    wanted.add_argument(
        "--break",
        dest="breaks",
        action="append",
        default=[],
        metavar="RULE",
        help="break it: RULE, RULE/VARIANT, or either with @frame=N: at the first chance from message N on; repeatable",
    )
    wanted.add_argument("--bug", metavar="BUG", help="what a historical bug looked like, such as MB-16042")
    network = parser.add_argument_group("what the network does", "chances are between 0 and 1")
    network.add_argument("--mss", default="1448", metavar="BYTES", help="of full segments: a number, or LOW-HIGH")
    for name, text in (
        ("reorder", "a segment is overtaken by later ones"),
        ("overlap", "a segment begins with bytes that were sent before"),
        ("retransmit", "a segment is sent again, often cut otherwise"),
        ("duplicate", "a packet is recorded twice"),
        ("loss", "a packet is missing in the capture"),
    ):
        network.add_argument(f"--{name}", type=_chance, default=0.0, metavar="CHANCE", help=text)
    network.add_argument(
        "--lose", action="append", default=[], metavar="N", help="leave out packet N; repeatable, or N,N,..."
    )
    network.add_argument("--skip-packets", type=_natural, default=0, metavar="N", help="the recorder starts late")
    network.add_argument(
        "--skip-messages", type=_natural, default=0, metavar="N", help="it starts behind N messages of each connection"
    )
    network.add_argument("--only", choices=SIDES, help="record what one side sends, and nothing else")
    recorder = parser.add_argument_group("how it is recorded")
    recorder.add_argument("--link", choices=("ethernet", "vlan", "sll2"), default="ethernet", help="link layer")
    recorder.add_argument("--ip", choices=("4", "6"), help="version of IP (default: as the scenario has it)")
    recorder.add_argument("--nanoseconds", action="store_true", help="finer time stamps")
    recorder.add_argument(
        "--interfaces", choices=("1", "2"), default="1", help="2: each side's packets on one of its own (pcapng)"
    )
    recorder.add_argument("--snaplen", type=positive, metavar="BYTES", help="cut packets")
    recorder.add_argument(
        "--rotate", type=positive, metavar="N", help="a new file, FILE-00001 and so on, each N packets"
    )


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _chance(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return number


def run(args: argparse.Namespace) -> int:
    """Make a capture, or list what could be made."""
    if args.list:
        from dissector.generate.catalogue import render  # noqa: PLC0415
        from dissector.terminal.style import Terminal  # noqa: PLC0415

        terminal = Terminal.of(sys.stdout, args.color)
        sys.stdout.write(terminal.encode(render(terminal)))
        return 0
    _check(args)
    job = _Job(args, _medium(args), _impairments(args), _size(args))
    with contextlib.ExitStack() as stack:
        # The truth appears last: where it is there, its capture is complete.
        truth = _opened(stack, args.truth) if args.truth is not None else None
        counts = job.write(_opener(stack, args, job.medium), truth)
    _tell(args, counts)
    return 0


def _tell(args: argparse.Namespace, counts: list[int]) -> None:
    """Say what was written; several files are named by the first one."""
    from dissector.generate.capture_files import rotated_name  # noqa: PLC0415

    packets = counted(sum(counts), "packet")
    if args.rotate is None:
        tell_written(args.output, packets)
    else:
        more = f" in {counted(len(counts), 'file')}" if len(counts) > 1 else ""
        tell_written(rotated_name(args.output, 1), f"{packets}{more}")
    if args.truth is not None:
        tell_written(args.truth, "what was sent, and what is wrong with it")


def _check(args: argparse.Namespace) -> None:
    if args.bug is not None and (args.scenario is not None or args.breaks):
        raise UsageError("--bug is a scenario of its own: leave the scenario and --break out")
    if args.scenario is None and not args.breaks and args.bug is None:
        raise UsageError("no scenario given (try uprscope generate --list)")
    if args.output is None:
        raise UsageError("no output given: name a file with -o, or - for standard output")
    if args.output == "-" and sys.stdout.isatty():
        raise UsageError("a capture is not for terminals: give a file with -o, or a pipe")
    if args.output == "-" and args.rotate is not None:
        raise UsageError("several files cannot go to standard output: leave --rotate out, or name a file")
    if args.truth is not None and _same(args.truth, args.output):
        raise UsageError("the capture and its truth cannot go to the same place")
    known_ending(args.truth, "--truth", ("json",))


def _same(first: str, second: str) -> bool:
    return first == second or ("-" not in (first, second) and Path(first).resolve() == Path(second).resolve())


def _medium(args: argparse.Namespace) -> Medium:
    from dissector.generate.capture_files import Medium, form_of  # noqa: PLC0415 - brings numpy along

    # Pipes and devices have no ending that says the form: they get the richer one.
    named = args.output != "-" and (Path(args.output).is_file() or not Path(args.output).exists())
    return Medium(
        form=form_of(args.output) if named else "pcapng",
        link=args.link,
        ip=int(args.ip) if args.ip else None,
        nanoseconds=args.nanoseconds,
        interfaces=int(args.interfaces),
        snaplen=args.snaplen,
        rotate=args.rotate,
    )


def _impairments(args: argparse.Namespace) -> Impairments:
    from dissector.generate.impairments import Impairments, parse_mss  # noqa: PLC0415

    lose: list[int] = []
    for text in ",".join(args.lose).split(",") if args.lose else ():
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise UsageError(f"--lose {text}: packets have numbers from 1 on")
        lose.append(int(text))
    return Impairments(
        mss=parse_mss(args.mss),
        reorder=args.reorder,
        overlap=args.overlap,
        retransmit=args.retransmit,
        duplicate=args.duplicate,
        loss=args.loss,
        lose=tuple(lose),
        skip_packets=args.skip_packets,
        skip_messages=args.skip_messages,
        only=SIDES.index(args.only) if args.only else None,
    )


def _size(args: argparse.Namespace) -> Size:
    from dissector.generate.scenario import Size  # noqa: PLC0415

    return Size(args.frames, args.connections, args.vbuckets)


def _opened(stack: contextlib.ExitStack, name: str) -> IO[bytes]:
    from dissector.frames.writers import destination  # noqa: PLC0415 - brings pyarrow along

    return stack.enter_context(destination(name))


def _opener(stack: contextlib.ExitStack, args: argparse.Namespace, medium: Medium) -> Callable[[int], IO[bytes]]:
    from dissector.generate.capture_files import rotated_name  # noqa: PLC0415

    last: list[IO[bytes]] = []

    def opener(number: int) -> IO[bytes]:
        if last:
            last.pop().close()  # complete; all files appear together, at the end
        last.append(_opened(stack, args.output if medium.rotate is None else rotated_name(args.output, number)))
        return last[0]

    return opener


@dataclass(frozen=True, slots=True)
class _Job:
    """One capture to make."""

    args: argparse.Namespace
    medium: Medium
    impairments: Impairments
    size: Size

    def write(self, opener: Callable[[int], IO[bytes]], truth: IO[bytes] | None) -> list[int]:
        """Write the capture, and its truth if that is wanted; return how many packets each file has."""
        from dissector.generate import bulk  # noqa: PLC0415
        from dissector.generate.truth import dump  # noqa: PLC0415

        counts, facts = (
            self._bulk(opener) if self.args.scenario == bulk.NAME else self._scenario(opener, wanted=truth is not None)
        )
        if truth is not None:
            dump(facts, truth)
        return counts

    def _facts(self, name: str, title: str, counts: list[int]) -> dict[str, Any]:
        from dissector.generate.capture_files import rotated_name  # noqa: PLC0415

        output = Path(self.args.output).name
        names = [
            output if self.medium.rotate is None else rotated_name(output, 1 + index) for index in range(len(counts))
        ]
        return {
            "command": command_line(self.args),
            "seed": self.args.seed,
            "scenario": name,
            "title": title,
            "files": [{"name": file, "packets": count} for file, count in zip(names, counts, strict=True)],
            "recorded": self.medium.facts(),
            "troubles": self.impairments.facts(),
        }

    def _scenario(self, opener: Callable[[int], IO[bytes]], *, wanted: bool) -> tuple[list[int], dict[str, Any]]:
        from dissector.generate import recipe, scenarios, to_capture, truth  # noqa: PLC0415

        args = self.args
        if args.bug is not None:
            from dissector.generate.bugs import bug  # noqa: PLC0415 - all of them, and only who wants one needs any

            made = recipe.make_bug(bug(args.bug), args.seed)
        else:
            breaks = [recipe.Break.parse(text) for text in args.breaks]
            name = args.scenario if args.scenario is not None else recipe.fault_of(breaks[0]).scenario
            made = recipe.make(scenarios.scenario(name), args.seed, self.size, breaks)
        scenario = made.scenario
        written = to_capture.write(
            made.conversations, opener, seed=args.seed, medium=self.medium, impairments=self.impairments, rate=args.rate
        )
        if not wanted:
            return written.files, {}
        facts = self._facts(scenario.name, scenario.title, written.files)
        facts |= {"dialect": scenario.dialect, "era": scenario.era}
        facts["excuses"] = [{"rule": rule, "because": because} for rule, because in scenario.excuses]
        return written.files, facts | truth.tell(made, written)

    def _bulk(self, opener: Callable[[int], IO[bytes]]) -> tuple[list[int], dict[str, Any]]:
        from dissector.generate import bulk, to_capture  # noqa: PLC0415
        from dissector.generate.truth import connection_facts  # noqa: PLC0415
        from dissector.terminal.progress import progress  # noqa: PLC0415

        if self.args.breaks:
            raise UsageError("bulk breaks no rule: choose another scenario (try uprscope generate --list)")
        if self.impairments.skip_messages:
            raise UsageError("bulk cannot begin behind a message: use --skip-packets")
        run = to_capture.BulkRun(self.args.seed, self.size, self.medium, self.impairments, opener, self.args.rate)
        with progress(run, wanted=True) as advance:
            for _ in run:
                advance()
        facts = self._facts(bulk.NAME, bulk.TITLE, run.files)
        facts["connections"] = [
            {**connection_facts(index, conversation), **told}
            for index, (conversation, told) in enumerate(zip(run.bulk.conversations, run.bulk.facts(), strict=True))
        ]
        return run.files, facts


def command_line(args: argparse.Namespace) -> str:
    """Return the command that makes the same capture: options other than the defaults, files without folders."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    words = ["uprscope", "generate"]
    for action in parser._actions:
        value = getattr(args, action.dest)
        if value == action.default or action.dest == "truth":
            continue
        if not action.option_strings:
            words.append(value)
        elif value is True:
            words.append(action.option_strings[-1])
        elif action.dest == "output":
            words += ["-o", Path(value).name]
        else:
            for each in value if isinstance(value, list) else [value]:
                words += [action.option_strings[-1], f"{each:g}" if isinstance(each, float) else str(each)]
    return shlex.join(words)
