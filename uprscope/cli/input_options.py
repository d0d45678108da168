"""The options that every command has that reads captures."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissector.errors import UsageError
from dissector.spec.model import Dialect
from dissector.tcp.limits import Limits
from dissector.tcp.ports import Ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.options import ReadOptions
    from dissector.pseudonyms import Pseudonyms

EXIT_DAMAGED = 3


def add_reading_arguments(
    parser: argparse.ArgumentParser, *, optional: bool = False, redaction: bool = True
) -> argparse._ArgumentGroup:
    """Declare captures, which may be ``optional``, and how to read them; return the group of the latter.

    ``redaction``: whether it can be asked for.
    """
    positional = parser.add_argument(
        "captures",
        nargs="*" if optional else "+",
        default=[],
        action=_Captures,
        metavar="CAPTURE",
        help="file, directory, pattern, or - for standard input",
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "-r",
        dest="captures",
        default=[],
        action=_Captures,
        const=positional,
        metavar="FILE",
        help="another way to name a CAPTURE, as in tshark",
    )
    reading.add_argument(
        "-n", action="store_true", dest="no_names", help="does nothing: addresses and ports are never resolved"
    )
    reading.add_argument("--separate", action="store_true", help="connections do not go on from one file to the next")
    reading.add_argument(
        "--port", action="append", default=[], metavar="N", help="this port is memcached, whatever it looks like"
    )
    reading.add_argument(
        "--decode-as",
        action="append",
        default=[],
        metavar="N=DIALECT",
        help="as --port, with the dialect; auto to find it out, none to leave the port alone",
    )
    reading.add_argument("--dialect", choices=[entry.value for entry in Dialect], help="take this dialect for granted")
    if redaction:
        _add_redaction_arguments(parser)
    limits = parser.add_argument_group("limits", "what may be held in memory; reaching one is reported")
    for field in dataclasses.fields(Limits):
        limits.add_argument(
            f"--max-{field.name.replace('_', '-')}",
            type=positive,
            default=field.default,
            metavar="N",
            help=f"default: {field.default:,}",
        )
    return reading


class _Captures(argparse.Action):
    """Collects captures, named with an option or without, in the order given.

    The option's constant is the positional argument, which is not needed beside it. Without the option it is needed,
    and argparse says so.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Add one capture or several."""
        del parser, option_string
        if isinstance(self.const, argparse.Action):
            self.const.nargs, self.const.required = "*", False
        named = [values] if isinstance(values, str) else [*(values or ())]
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *named])


def _add_redaction_arguments(parser: argparse.ArgumentParser) -> None:
    shared = parser.add_argument_group("redaction", "for what is to be given to others (uprscope explain sharing)")
    shared.add_argument(
        "--redact", action="store_true", help="replace keys and values of documents by pseudonyms of the same length"
    )
    shared.add_argument(
        "--redact-names", action="store_true", help="and names of users, buckets, connections and clients' software"
    )
    shared.add_argument("--redact-addresses", action="store_true", help="and these names, and addresses of hosts")
    shared.add_argument(
        "--redact-key",
        metavar="FILE",
        help="a file with a secret: the same one gives the same pseudonyms (default: others every time)",
    )


def positive(text: str) -> int:
    """Read a number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def options_of(args: argparse.Namespace) -> ReadOptions:
    """Read the options that say how captures are to be read."""
    from dissector.options import ReadOptions  # noqa: PLC0415 - brings numpy along

    limits = Limits(**{field.name: getattr(args, f"max_{field.name}") for field in dataclasses.fields(Limits)})
    return ReadOptions(
        limits=limits,
        ports=Ports.parse(args.port, args.decode_as),
        dialect=Dialect(args.dialect) if args.dialect else None,
        values=getattr(args, "values", False),
        inspect=getattr(args, "inspect", False),
        withhold_secrets=not getattr(args, "show_secrets", False),
        separate=args.separate,
        pseudonyms=_pseudonyms(args),
    )


def _pseudonyms(args: argparse.Namespace) -> Pseudonyms | None:
    """Return what user data is to be replaced by; None: it stays."""
    if not hasattr(args, "redact"):
        return None
    if not (args.redact or args.redact_names or args.redact_addresses):
        if args.redact_key is not None:
            raise UsageError("--redact-key is for --redact, --redact-names or --redact-addresses")
        return None
    from dissector.pseudonyms.permutation import pseudonyms_of  # noqa: PLC0415

    key = None
    if args.redact_key is not None:
        try:
            key = Path(args.redact_key).read_bytes().strip()
        except OSError as error:
            raise UsageError(f"--redact-key {args.redact_key}: {error.strerror or error}") from error
    level = "addresses" if args.redact_addresses else "names" if args.redact_names else "documents"
    return pseudonyms_of(level, key, f"--redact-key {args.redact_key}")
