"""Options of the data source and of ``split.read_frames``, checked.

Knows names and values of options. Names come as users write them (``splitBytes``) or as Spark passes them on
(``splitbytes``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.options import ReadOptions
from dissector.spec.model import Dialect
from dissector.tcp.ports import DEFAULT_PORTS, Ports

if TYPE_CHECKING:
    from collections.abc import Mapping

SPLIT_BYTES = 128 << 20
_SMALLEST_SPLIT_BYTES = 1 << 10
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
#: Options of Spark itself, and the paths.
_SPARK_OPTIONS = frozenset({"path", "paths", "header"})
_NAMES = ("values", "ports", "dialect", "splitBytes", "mode")


class Mode(StrEnum):
    """What to do with a file that is no capture."""

    PERMISSIVE = "permissive"  #: it is left out, and reported
    FAILFAST = "failfast"  #: reading fails


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one reading."""

    values: bool = False
    """Keep values in the rows."""
    ports: Ports = field(default=DEFAULT_PORTS)
    dialect: Dialect | None = None
    """Assumed on every connection."""
    split_bytes: int = SPLIT_BYTES
    """Larger files are read by several tasks."""
    mode: Mode = Mode.PERMISSIVE

    @classmethod
    def of(cls, options: Mapping[str, str], others: tuple[str, ...] = ()) -> SourceOptions:
        """Parse options as Spark passes them on; raises UsageError for an invalid one.

        ``others`` are names of options that the caller reads itself.
        """
        given = {name.lower(): str(value) for name, value in options.items()}
        names = (*_NAMES, *others)
        unknown = sorted(given.keys() - {name.lower() for name in names} - _SPARK_OPTIONS)
        if unknown:
            raise UsageError(f"option {unknown[0]}: not known; there are {', '.join(names)}")
        return cls(
            values=parse_bool("values", given.get("values", "false")),
            ports=ports_of(given.get("ports", "")),
            dialect=_dialect(given["dialect"]) if "dialect" in given else None,
            split_bytes=_split_bytes(given.get("splitbytes", str(SPLIT_BYTES))),
            mode=_mode(given.get("mode", Mode.PERMISSIVE)),
        )

    @property
    def options(self) -> ReadOptions:
        """Return the options of the frame reader."""
        return ReadOptions(values=self.values, ports=self.ports, dialect=self.dialect)


def parse_bool(name: str, text: str) -> bool:
    """Parse an option that is true or false."""
    if text.lower() not in _BOOLEANS:
        raise UsageError(f"option {name}={text}: expected true or false")
    return _BOOLEANS[text.lower()]


def ports_of(text: str) -> Ports:
    """Parse ports such as ``11210,9999=dcp``: numbers that are memcached, and numbers with a dialect, auto or none."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return Ports.parse([word for word in words if "=" not in word], [word for word in words if "=" in word])


def _dialect(text: str) -> Dialect:
    try:
        return Dialect(text.lower())
    except ValueError as error:
        raise UsageError(f"option dialect={text}: expected one of {', '.join(Dialect)}") from error


def _mode(text: str) -> Mode:
    try:
        return Mode(text.lower())
    except ValueError as error:
        raise UsageError(f"option mode={text}: expected permissive or failfast") from error


def _split_bytes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < _SMALLEST_SPLIT_BYTES:
        raise UsageError(f"option splitBytes={text}: expected a number of bytes, at least {_SMALLEST_SPLIT_BYTES}")
    return int(text)
