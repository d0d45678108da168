"""Finding what was asked for: names in any spelling, numbers in any base, and what is close to a mistake.

It knows spellings and which of several meanings is likelier. It does not know how answers look.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dissector.errors import UsageError
from dissector.explain.catalogue import WORDS, Category, TableMember, Thing, opcode_label, table_age, things
from dissector.spec.dialects import DIALECT_ORDER
from dissector.spec.model import Dialect, Message
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUGGESTIONS = 4
_FRAGMENT = 4  #: letters that make a part of a name worth a suggestion
_LONGEST = 10  #: words that one name may be spread over
_NUMBER = re.compile(r"(?:0x(?P<hex>[0-9a-f]{1,8})|(?P<decimal>[0-9]{1,10})|(?P<bare>[0-9a-f]{2}|[0-9a-f]{4}))\Z")
_SUBTYPED = re.compile(r"(?P<opcode>0x[0-9a-f]{1,2}|[0-9a-f]{2})/(?P<subtype>[0-9]{1,3})\Z")
#: What source trees put in front of names.
_PREFIXES = ("protocolbinarycmd", "protocolbinaryresponse", "cbmcbpclientopcode", "clientopcode", "cbmcbpstatus")
_CATEGORY_OF = {word: category for category, words in WORDS.items() for word in (*words, str(category))}
#: A bare number means one of these first; everything else that has it is only mentioned.
_NUMBERED_FIRST = {Category.OPCODE, Category.MAGIC, Category.STATUS}


class Answer(NamedTuple):
    """Things that are explained together: the first one in full, the others beside it. A listing has only lines."""

    things: tuple[Thing, ...]
    listing: str = ""  #: the title of a list of things
    category: Category | None = None  #: what a whole category's list is of


class Result(NamedTuple):
    """What was asked, the answers (likeliest first), and what else has that number."""

    query: str
    answers: tuple[Answer, ...]
    also: tuple[Thing, ...] = ()


def normal(text: str) -> str:
    """Reduce a name to what does not depend on spelling: case, underscores, dashes and spaces do not count."""
    return "".join(char for char in text.casefold() if char.isalnum())


@cache
def _by_name() -> dict[str, tuple[Thing, ...]]:
    index: dict[str, dict[int, Thing]] = {}
    for place, thing in enumerate(things()):
        for name in (thing.name, *thing.aliases):
            index.setdefault(normal(name), {})[place] = thing
    return {key: tuple(found.values()) for key, found in index.items()}


def lookup(words: Sequence[str]) -> list[Result]:
    """Find everything that a command line asks for; names may be spread over several words."""
    results = []
    start = 0
    while start < len(words):
        for end in range(min(len(words), start + _LONGEST), start, -1):
            found = _find(words[start:end])
            if found is not None:
                results.append(found)
                start = end
                break
        else:
            wanted = _category(words[start - 1]) if start else None
            raise UsageError(_not_found(words[start], wanted))
    return results


def begins_a_name(words: Sequence[str]) -> bool:
    """Tell whether at least the first two words are one name together."""
    return any(_find(words[:end]) is not None for end in range(2, min(len(words), _LONGEST) + 1))


def _find(words: Sequence[str]) -> Result | None:
    """Find one thing; a category may come first."""
    query = " ".join(words)
    if len(words) > 1 and (category := _category(words[0])) is not None:
        found = _within(" ".join(words[1:]), category)
        if found is not None:
            return Result(query, found.answers, found.also)
    return _within(query, None)


def _category(word: str) -> Category | None:
    return _CATEGORY_OF.get(word.casefold()) or _CATEGORY_OF.get(normal(word))


def _within(text: str, category: Category | None) -> Result | None:
    named = _named(text, category)
    listed = _category(text) if category is None else None
    answers = _gather(named, by_number=False)
    if listed is not None:
        whole = tuple(thing for thing in things() if thing.category is listed)
        messages = [answer for answer in answers if answer.things[0].category is Category.OPCODE]
        others = [answer for answer in answers if answer not in messages]
        listing = _gather(whole, by_number=False) if listed is Category.HEADER else (_listing(whole, listed),)
        answers = (*messages, *listing, *others)
    if answers:
        return Result(text, answers)
    return _numbered(text, category)


def _listing(whole: tuple[Thing, ...], category: Category) -> Answer:
    return Answer(whole, f"every {category}", category)


def _named(text: str, category: Category | None) -> list[Thing]:
    key = normal(text)
    for prefix in ("", *_PREFIXES):
        if key.startswith(prefix):
            found = _by_name().get(key.removeprefix(prefix), ())
            chosen = [thing for thing in found if category is None or thing.category is category]
            # A document about a message, and the draft's number of it, have the message's name: the message is meant.
            plain = [thing for thing in chosen if thing.category not in {Category.SOURCE, Category.SUBTYPE}]
            if chosen:
                return plain or chosen
    return []


def _numbered(text: str, category: Category | None) -> Result | None:
    lowered = text.strip().lower()
    subtyped = _SUBTYPED.match(lowered)
    if subtyped:
        opcode, subtype = int(subtyped["opcode"], 16), int(subtyped["subtype"])
        found = [
            thing
            for thing in things()
            if isinstance(thing.subject, Message)
            and thing.subject.opcode == opcode
            and subtype in thing.subject.subtypes
        ]
        return Result(text, tuple(Answer((thing,)) for thing in found)) if found else None
    number = read_number(lowered)
    if number is None:
        return None
    found = [thing for thing in things() if number in thing.numbers and category in {None, thing.category}]
    first = [thing for thing in found if thing.category in _NUMBERED_FIRST]
    rest = [thing for thing in found if thing.category not in _NUMBERED_FIRST]
    if category is not None or not first:
        first, rest = found, []
    answers = _gather(first, by_number=True)
    if category is None and lowered.isdigit():
        rest += _without_prefix(lowered, first)
    return Result(text, answers, tuple(rest)) if answers else None


def _without_prefix(digits: str, found: Sequence[Thing]) -> list[Thing]:
    """Return what these digits are as a hexadecimal opcode of dcp, unless they are an opcode of UPR's as they stand.

    57 is 0x39, a neighbour that few ask for: that 0x57 is the mutation is mentioned.
    """
    if any(_dialect(thing) not in {None, Dialect.MEMCACHED} for thing in found):
        return []
    number = int(digits, 16)
    return [thing for thing in things() if _dialect(thing) is Dialect.DCP and number in thing.numbers]


def read_number(text: str) -> int | None:
    """Read 0x57, 87 or, where a letter shows that it is hexadecimal, 5e."""
    match = _NUMBER.match(text)
    if match is None:
        return None
    if match["decimal"] is not None:
        return int(match["decimal"])
    return int(match["hex"] or match["bare"], 16)


def _gather(found: Sequence[Thing], *, by_number: bool) -> tuple[Answer, ...]:
    """Put things that belong together into one answer, and the answers into the order of likelihood."""
    groups: dict[tuple[object, ...], list[Thing]] = {}
    drafted = [thing for thing in found if _dialect(thing) is Dialect.DRAFT]
    # One opcode of the draft has up to six subtypes: a list of them says more than six full answers.
    if by_number and len(drafted) > 1:
        found = [thing for thing in found if thing not in drafted]
    else:
        drafted = []
    for thing in found:
        groups.setdefault(thing.group, []).append(thing)
    answers = [Answer(_family(group, by_number)) for group in groups.values()]
    if drafted:
        label = opcode_label(drafted[0].subject) if isinstance(drafted[0].subject, Message) else ""
        answers.append(Answer(tuple(drafted), f"opcode {label.partition('/')[0]} in the draft: the subtype decides"))
    return tuple(sorted(answers, key=lambda answer: _likelihood(answer.things[0])))


def _dialect(thing: Thing) -> Dialect | None:
    return thing.subject.dialect if isinstance(thing.subject, Message) else None


def _family(group: list[Thing], by_number: bool) -> tuple[Thing, ...]:
    """Add the same message of the other dialects, unless the number that was asked for means something else there."""
    if not isinstance(group[0].subject, Message):
        return tuple(group)
    family = [thing for thing in things() if thing.category is Category.OPCODE and thing.name == group[0].name]
    first = group[0]
    if by_number and first is not family[0]:
        return tuple(group)
    return (first, *(thing for thing in family if thing is not first))


def _likelihood(thing: Thing) -> tuple[int, int]:
    """Order: the protocol's own opcodes by dialect, magics, memcached's opcodes, statuses, the rest.

    Of memcached's opcodes those that are known by name only come after the statuses: 0x23 is rollback, not IOCTL_GET.
    """
    order = list(Category)
    if isinstance(thing.subject, Message) and thing.subject.dialect is Dialect.MEMCACHED:
        known = any(shape.layouts for shape in thing.subject.shapes())
        return (order.index(Category.MAGIC if known else Category.STATUS), 1)
    if isinstance(thing.subject, TableMember):
        return (order.index(thing.category), table_age(thing.subject.table))
    dialect = _dialect(thing)
    return (order.index(thing.category), DIALECT_ORDER[dialect] if dialect is not None else 0)


def _not_found(word: str, category: Category | None) -> str:
    nothing = f"no {category}" if category is not None else "nothing"
    shown = safe_text(word[:60] + ("…" if len(word) > 60 else ""))
    close = suggestions(word)
    number = read_number(word.strip().lower())
    if number is not None:
        what = f"{nothing} has the number {shown}" + (f" (0x{number:02x})" if word.strip().isdigit() else "")
    else:
        what = f"{nothing} is called '{shown}'"
    hint = f"did you mean {' or '.join(close)}?" if close else "uprscope explain lists what can be asked"
    return f"{what} ({hint})"


def suggestions(word: str) -> list[str]:
    """Return names that are close to a mistake, best first."""
    text = word.strip().lower()
    if text.isascii() and text.isdigit():
        return [f"0x{text}"] if _numbered(f"0x{text}", None) is not None else []
    key = normal(word)
    if not key or len(key) > 60:
        return []
    import difflib  # noqa: PLC0415 - only mistakes pay for the import

    index = _by_name()
    names = difflib.get_close_matches(key, index, _SUGGESTIONS, 0.7)
    shown = dict.fromkeys(index[name][0].name for name in names)
    if len(key) >= _FRAGMENT:
        parts = sorted((thing.name for thing in things() if key in normal(thing.name)), key=len)
        shown |= dict.fromkeys(parts)
    return list(shown)[:_SUGGESTIONS]
