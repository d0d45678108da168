"""``uprscope explain``: the protocol's numbers and names, looked up. Arguments and output only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dissector.terminal import Terminal

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  uprscope explain mutation               a message: layouts, flags, errata
  uprscope explain 0x50                   a number, whatever it can mean
  uprscope explain status 0x23 E-22       a sort of thing first, several at once
  uprscope explain UPR_STREAM_REQ         the early dialect's form
  uprscope explain errata                 everything of a sort
  uprscope explain --json snapshot-marker | jq '.[0].answers[0].request'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``explain``."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "thing",
        nargs="*",
        metavar="THING",
        help="a name or number, such as mutation, 0x57, E-22 or status 0x23; left out: what can be asked",
    )
    parser.add_argument("--json", action="store_true", help="write the answers as JSON")


def run(args: argparse.Namespace) -> int:
    """Look everything up, then write: a question without an answer writes nothing."""
    from dissector.explain import lookup, text  # noqa: PLC0415 - the help of this command needs no protocol

    terminal = Terminal.of(sys.stdout, args.color)
    results = lookup.lookup(args.thing)
    if args.json:
        import json  # noqa: PLC0415

        from dissector.explain import facts  # noqa: PLC0415

        found = facts.overview_facts() if not results else [facts.result_facts(result) for result in results]
        json.dump(found, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(text.render(results, terminal) if results else text.overview(terminal))
    return 0
