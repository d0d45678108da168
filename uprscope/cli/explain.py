"""``uprscope explain``: the protocol's numbers and names, and the rules of ``check``, looked up.

Arguments and output only. Answers about rules come from a module that is loaded when a rule is asked for: questions
about the protocol need none of the analysis.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from dissector.terminal.style import Terminal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

_RULES = "analysis.check.rule_help"
#: A rule, a finding of it, or a group; the last only where nothing in the protocol has that name.
_RULE = re.compile(r"([A-Za-z]{3}-[0-9]{1,3})(?:-[0-9a-fA-F]{8})?\Z")
_GROUP = re.compile(r"[A-Za-z]{3}\Z")
_ALL = ("rule", "rules")

_EXAMPLES = """\
examples:
  uprscope explain mutation               a message: layouts, flags, errata
  uprscope explain 0x50                   a number, whatever it can mean
  uprscope explain status 0x23 E-22       a sort of thing first, several at once
  uprscope explain UPR_STREAM_REQ         the early dialect's form
  uprscope explain errata                 everything of a sort
  uprscope explain SEQ-01 SNP             a rule of check, a group; rules: all
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


class RulesModule(Protocol):
    """What the module about rules has to offer."""

    def names(self) -> list[str]:
        """Return everything that can be asked."""

    def facts(self, name: str) -> dict[str, Any]:
        """Answer as data."""

    def text(self, name: str, terminal: Terminal) -> str:
        """Answer as text."""


def rules_module() -> RulesModule:
    """Load what knows the rules."""
    return cast("RulesModule", importlib.import_module(_RULES))


def run(args: argparse.Namespace) -> int:
    """Look everything up, then write: a question without an answer writes nothing."""
    from dissector.explain import as_text, lookup  # noqa: PLC0415

    terminal = Terminal.of(sys.stdout, args.color)
    if args.json:
        import json  # noqa: PLC0415

        from dissector.explain import as_data  # noqa: PLC0415

        found: list[dict[str, Any]] = [] if args.thing else as_data.overview_facts()
        for words, is_rule in _questions(args.thing):
            if is_rule:
                found += [rules_module().facts(words[0])]
            else:
                found += [as_data.result_facts(result) for result in lookup.lookup(words)]
        json.dump(found, sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif not args.thing:
        sys.stdout.write(as_text.overview(terminal))
    else:
        pages = [
            rules_module().text(words[0], terminal) if is_rule else as_text.render(lookup.lookup(words), terminal)
            for words, is_rule in _questions(args.thing)
        ]
        sys.stdout.write("\n\n".join(pages))
    return 0


def _questions(words: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """Tell questions about rules from those about the protocol; the latter may be of several words."""
    plain: list[str] = []
    for at, word in enumerate(words):
        name = _rule(word)
        if name is None:
            plain.append(word)
            continue
        if plain:
            yield plain, False
            plain = []
        if word.lower() in _ALL and at + 1 < len(words) and _rule(words[at + 1]) is not None:
            continue  # "rule SEQ-01"
        yield [name], True
    if plain:
        yield plain, False


def _rule(word: str) -> str | None:
    """Return the rule or group that a word names, if it does."""
    found = _RULE.match(word)
    if found:
        return found[1]
    if word.lower() in _ALL:
        return "rules"
    if _GROUP.match(word):
        from dissector.errors import UsageError  # noqa: PLC0415
        from dissector.explain import lookup  # noqa: PLC0415

        try:
            lookup.lookup([word])
        except UsageError:
            # "nothing is called foo" is the answer where no group is meant.
            return word if word.upper() in rules_module().names() else None
    return None
