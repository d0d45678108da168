"""What the library's functions take: which captures to read, and how.

Turns the caller's words into the inputs and :class:`~dissector.options.ReadOptions` of the dissector. Every mistake is
an UprscopeError of one line, before anything is read.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

from dissector.capture import expand
from dissector.errors import UsageError
from dissector.options import ReadOptions
from dissector.pseudonyms.permutation import pseudonyms_of
from dissector.spec.model import Dialect
from dissector.tcp.limits import Limits
from dissector.tcp.ports import AUTO, DEFAULT_PORTS, NONE, Ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dissector.capture import Input
    from dissector.pseudonyms import Pseudonyms

    #: A file, directory or pattern, ``-`` for standard input; or several of them.
    Name = str | os.PathLike[str]
    Captures = Name | Iterable[Name]


class Reading(TypedDict, total=False):
    """How to read captures: the keyword options of every function that does.

    separate: bool            connections do not go on from one file to the next
    ports: [12000, ...]       these ports are memcached, whatever it looks like
    decode_as: {12000: "dcp"} the same with the dialect; "auto" to find it out,
                              "none" to leave the port alone
    dialect: "dcp"            take this dialect for granted: draft, upr-proto,
                              upr, dcp or memcached
    values: bool              keep the values of documents in the rows
    show_secrets: bool        do not withhold log-ins, keys and tokens
    redact: "documents"       replace keys and values of documents; "names": and
                              names of users; "addresses": and those of hosts
    redact_key: b"..."        the same secret gives the same pseudonyms
    limits: {"connections": N, ...}   what may be held in memory; see
                              uprscope dissect --help, --max-...
    """

    separate: bool
    ports: Sequence[int]
    decode_as: Mapping[int, str]
    dialect: str | None
    values: bool
    show_secrets: bool
    redact: str | None
    redact_key: bytes | None
    limits: Mapping[str, int]


def inputs_of(captures: Captures) -> list[Input]:
    """Find the captures: what a directory or a pattern stands for is settled here."""
    if isinstance(captures, (str, bytes, os.PathLike)):
        captures = [captures]
    elif not isinstance(captures, Iterable):
        raise UsageError(f"captures: expected a path, or several, not {type(captures).__name__}")
    names = [_name(each) for each in captures]
    if not names:
        raise UsageError("captures: none given")
    return expand(names, rows=True)


def _name(name: object) -> str:
    text = os.fspath(name) if isinstance(name, os.PathLike) else name
    if not isinstance(text, str):
        raise UsageError(f"captures: expected a path, not {type(name).__name__}")
    return text


def options_of(reading: Reading) -> ReadOptions:
    """Check the options, and return them as the dissector takes them."""
    for name in reading:
        if name not in Reading.__annotations__:
            known = ", ".join(Reading.__annotations__)
            raise UsageError(f"{name}: no such option (known: {known})")
    return ReadOptions(
        limits=_limits(reading.get("limits", {})),
        ports=_ports(reading.get("ports", ()), reading.get("decode_as", {})),
        dialect=None if (dialect := reading.get("dialect")) is None else dialect_of(dialect),
        values=reading.get("values", False),
        withhold_secrets=not reading.get("show_secrets", False),
        separate=reading.get("separate", False),
        pseudonyms=_pseudonyms(reading.get("redact"), reading.get("redact_key")),
    )


def _pseudonyms(level: str | None, key: bytes | None) -> Pseudonyms | None:
    if key is not None and (level is None or not isinstance(key, bytes)):
        raise UsageError("redact_key: expected bytes, beside redact")
    return None if level is None else pseudonyms_of(level, key, "redact_key")


def dialect_of(name: str) -> Dialect:
    """Return the dialect of this name."""
    try:
        return Dialect(name)
    except ValueError:
        raise UsageError(f"dialect: {name!r} is none of {', '.join(Dialect)}") from None


def _ports(ports: Sequence[int], decode_as: Mapping[int, str]) -> Ports:
    if isinstance(ports, (str, bytes, int)) or not hasattr(ports, "__iter__"):
        raise UsageError(f"ports: expected a list of numbers, such as [12000], not {ports!r}")
    if not hasattr(decode_as, "items"):
        raise UsageError(f"decode_as: expected ports with dialects, such as {{12000: 'upr'}}, not {decode_as!r}")
    rules = {**DEFAULT_PORTS.rules, **dict.fromkeys(ports, AUTO), **decode_as}
    for port, dialect in rules.items():
        if not _within(port, (1 << 16) - 1):
            raise UsageError(f"ports: {port!r} is no number from 1 to 65535")
        if dialect not in (allowed := [AUTO, NONE, *Dialect]):
            raise UsageError(f"decode_as: {dialect!r} is none of {', '.join(allowed)}")
    return Ports(rules)


def _limits(limits: Mapping[str, int]) -> Limits:
    if not hasattr(limits, "items"):
        raise UsageError(f"limits: expected names with numbers, such as {{'connections': 1000}}, not {limits!r}")
    known = [field.name for field in dataclasses.fields(Limits)]
    for name, limit in limits.items():
        if name not in known:
            raise UsageError(f"limits: no limit {name!r} (known: {', '.join(known)})")
        if not _within(limit):
            raise UsageError(f"limits: {name}: {limit!r} is not a number above 0")
    return Limits(**limits)


def _within(number: object, largest: int | None = None) -> bool:
    """Tell whether a number is above 0, and not above the largest; callers are not held to the types."""
    return isinstance(number, int) and number > 0 and (largest is None or number <= largest)
