"""Durations, numbers of things and amounts of bytes, as people read them."""

from __future__ import annotations

#: Units of time, in nanoseconds.
TIME_UNITS = ((3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def duration(nanoseconds: float) -> str:
    """Write a duration with a unit that fits."""
    for scale, unit in TIME_UNITS:
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def count(number: int, noun: str) -> str:
    """Write a number with its noun, singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def amount(number: float) -> str:
    """Write a number of bytes with a unit that fits."""
    step = 0
    while number >= _STEP and step < len(_BYTE_UNITS) - 1:
        number, step = number / _STEP, step + 1
    return f"{number:.3g} {_BYTE_UNITS[step]}"
