"""Resynchronisation after damage: search, try, confirm.

Knows that records form a chain, each saying where the next one starts; a grammar says what a believable record looks
like. One believable header is chance, three in a row (or a chain that ends exactly with the file) are a place to read
on from. Every verdict depends on the bytes alone, never on how they arrived in chunks: where the chain leaves the
window, more is read before anything is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dissector.capture.packet_block import DamageReason

if TYPE_CHECKING:
    from dissector.array_types import Longs
    from dissector.capture.packet_block import DamageLog
    from dissector.capture.window import Window

CHAIN_LINKS = 3
FOUND = 0
NOWHERE = -1
# Positions tried at once: few at first, as most damage is short, and never so many that their masks get large.
_FIRST_SEGMENT_BYTES = 1 << 12
_LARGEST_SEGMENT_BYTES = 1 << 20
_REJECTED = -1


class Grammar(Protocol):
    """What the records of a container look like, to a reader that does not know where the next one starts."""

    header_bytes: int

    def likely(self, window: Window, first: int, count: int) -> Longs:
        """Return those of ``count`` buffer offsets from ``first`` where a header may start, cheaply and in order."""
        ...

    def link(self, window: Window, at: int) -> int | None:
        """Return where the record after the one at ``at`` starts, or None if that is no believable record.

        The answer may lie beyond the window; then the record is asked about again when all of it is there.
        """
        ...


@dataclass(frozen=True, slots=True)
class Lost:
    """Where and why reading stopped making sense."""

    position: int
    reason: DamageReason
    what: str

    def report(self, log: DamageLog, window: Window, *, found: bool) -> None:
        """Note the damage, now that it is known how far it reaches."""
        skipped = window.position - self.position
        if found:
            tail = f"; {skipped} bytes skipped, reading goes on at byte {window.position}"
        elif self.reason is DamageReason.TRUNCATED:
            tail = ""
        else:
            tail = f"; nothing readable in the {skipped} bytes from there to the end"
        log.add(self.position, self.reason, self.what + tail, skipped)


def search(window: Window, grammar: Grammar) -> int:
    """Move the window's start to the next believable chain.

    Returns FOUND, NOWHERE (the stream has ended, the window is empty), or how many bytes are needed to decide.
    """
    segment = _FIRST_SEGMENT_BYTES
    while True:
        count = min(window.end - window.start - grammar.header_bytes + 1, segment)
        if count <= 0:
            if not window.eof:
                return grammar.header_bytes
            window.start = window.end
            return NOWHERE
        for candidate in grammar.likely(window, window.start, count).tolist():
            verdict = _judge(window, grammar, candidate)
            if verdict == _REJECTED:
                continue
            window.start = candidate
            return verdict if verdict == FOUND else verdict - candidate
        window.start += count
        segment = min(2 * segment, _LARGEST_SEGMENT_BYTES)


def _judge(window: Window, grammar: Grammar, candidate: int) -> int:
    """Follow the chain from a candidate: FOUND, _REJECTED, or the buffer offset up to which bytes are needed."""
    at = candidate
    for whole in range(CHAIN_LINKS):
        if at + grammar.header_bytes > window.end:
            if not window.eof:
                return at + grammar.header_bytes
            return FOUND if _enough(whole, exact=at == window.end) else _REJECTED
        following = grammar.link(window, at)
        if following is None:
            return _REJECTED
        if following > window.end:
            if not window.eof:
                return following
            return FOUND if _enough(whole, exact=False) else _REJECTED
        at = following
    return FOUND


def _enough(whole: int, *, exact: bool) -> bool:
    """Whether so many whole records before the end of the file are believable."""
    return whole >= (1 if exact else CHAIN_LINKS - 1)
