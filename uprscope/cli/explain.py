"""``uprscope explain``: the protocol's numbers and names, the rules of ``check``, historical bugs, and uprscope itself.

Arguments and output only: the answers come from :mod:`dissector.explain` and, about rules, bugs and uprscope, from
:mod:`analysis.check.rule_help`, :mod:`analysis.check.bug_help`, :mod:`uprscope.cli.explain_pages`. These are imported
only when they are asked: the analysis takes longer to load than a question about the protocol takes to answer.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from dissector.terminal.style import Terminal
from uprscope.pages import page_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from types import ModuleType

#: A rule or a finding of it; a group counts only where nothing in the protocol has its name.
_RULE = re.compile(r"([A-Za-z]{3}-[0-9]{1,3})(?:-[0-9a-fA-F]{8})?\Z")
_GROUP = re.compile(r"[A-Za-z]{3}\Z")
#: A bug; a number alone counts only where nothing in the protocol has it.
_BUG = re.compile(r"MB[-_]?[0-9]{4,6}\Z", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{4,6}\Z")
_ALL = {"rule": "rules", "rules": "rules", "bug": "bugs", "bugs": "bugs"}
_RULES, _BUGS, _PAGES = "rules", "bugs", "pages"

_EXAMPLES = """\
examples:
  uprscope explain mutation               a message: layouts, flags, errata
  uprscope explain 0x50                   a number, whatever it can mean
  uprscope explain status 0x23 E-22       a sort of thing first, several at once
  uprscope explain UPR_STREAM_REQ         the early dialect's form
  uprscope explain errata                 everything of a sort
  uprscope explain SEQ-01 SNP             a rule of check, a group; rules: all
  uprscope explain MB-16042               a historical bug; bugs: all
  uprscope explain columns                uprscope itself: columns, filters,
                                          findings, exit-status, ...
  uprscope explain --json snapshot-marker | jq '.[0].answers[0].request'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``explain``."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "thing",
        nargs="*",
        metavar="THING",
        help="a name or number, such as mutation, 0x57, E-22, SEQ-01 or columns; left out: what can be asked",
    )
    parser.add_argument("--json", action="store_true", help="write the answers as JSON")


def run(args: argparse.Namespace) -> int:
    """Look everything up before writing: if one question has no answer, nothing is written."""
    from dissector.explain import as_text, lookup  # noqa: PLC0415

    terminal = Terminal.of(sys.stdout, args.color)
    if args.json:
        import json  # noqa: PLC0415

        from dissector.explain import as_data  # noqa: PLC0415

        found: list[dict[str, Any]] = [] if args.thing else as_data.overview_facts()
        for words, sort in _questions(args.thing):
            if sort:
                found += [_help_of(sort).facts(words[0])]
            else:
                found += [as_data.result_facts(result) for result in lookup.lookup(words)]
        json.dump(found, sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif not args.thing:
        from uprscope.cli import explain_pages  # noqa: PLC0415

        sys.stdout.write(f"{as_text.overview(terminal)}\n{explain_pages.listing(terminal)}")
    else:
        sys.stdout.write(answers(args.thing, terminal))
    return 0


def answers(things: Sequence[str], terminal: Terminal) -> str:
    """Return what there is to say, as text."""
    from dissector.explain import as_text, lookup  # noqa: PLC0415

    pages = []
    for words, sort in _questions(things):
        if sort:
            pages.append(_help_of(sort).text(words[0], terminal))
        else:
            pages.append(as_text.render(lookup.lookup(words), terminal))
    return "\n\n".join(pages)


def _help_of(sort: str) -> ModuleType:
    """Return the module that answers about rules, about bugs, or about the product itself."""
    if sort == _PAGES:
        from uprscope.cli import explain_pages  # noqa: PLC0415

        return explain_pages
    from analysis.check import bug_help, rule_help  # noqa: PLC0415 - brings the analysis along

    return rule_help if sort == _RULES else bug_help


def _questions(words: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """Split the words into questions, each with its sort: one word about a rule or a bug, runs about the protocol."""
    plain: list[str] = []
    for at, word in enumerate(words):
        found = _rule_or_bug(word)
        if found is not None and found[1] == _PAGES and _begins_a_name(words[at:]):
            found = None
        if found is None:
            plain.append(word)
            continue
        if plain:
            yield plain, ""
            plain = []
        name, sort = found
        following = _rule_or_bug(words[at + 1]) if at + 1 < len(words) else None
        if word.lower() in _ALL and following is not None and following[1] == sort:
            continue  # "rule SEQ-01"
        yield [name], sort
    if plain:
        yield plain, ""


def _begins_a_name(words: Sequence[str]) -> bool:
    """Tell whether the first words are one name of the protocol together: connections between servers."""
    from dissector.explain import lookup  # noqa: PLC0415

    return lookup.begins_a_name(words)


def _rule_or_bug(word: str) -> tuple[str, str] | None:
    """Return the rule, group, bug or page that a word names, with its sort; None: it names none."""
    found = _RULE.match(word)
    if found:
        return found[1], _RULES
    if page_of(word) is not None:
        return word, _PAGES
    if word.lower() in _ALL:
        return _ALL[word.lower()], _ALL[word.lower()]
    if _BUG.match(word):
        return word, _BUGS
    sort = _RULES if _GROUP.match(word) else _BUGS if _NUMBER.match(word) else ""
    if sort:
        from dissector.errors import UsageError  # noqa: PLC0415
        from dissector.explain import lookup  # noqa: PLC0415

        try:
            lookup.lookup([word])
        except UsageError:
            # Where it names nothing here either, the lookup of the protocol says that nothing is called so.
            name = word.upper() if sort == _RULES else f"MB-{word}"
            return (name, sort) if name in _help_of(sort).names() else None
    return None
