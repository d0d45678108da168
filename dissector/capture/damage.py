"""The log of damage in one capture: bounded, and in file order.

Knows how to count and fold; the layers that read bytes know what is damage. A hostile file can break a million times:
each reason keeps a fixed number of entries, and the last of them counts the rest.
"""

from __future__ import annotations

from dataclasses import replace

from dissector.capture.packet_block import Damage, DamageReason

ENTRIES_PER_REASON = 100
# One cause (a lost interface description) strikes every packet after it: one entry tells it all.
FOLDED_AT_ONCE = frozenset({DamageReason.UNKNOWN_INTERFACE, DamageReason.TOO_MANY_INTERFACES})


class DamageLog:
    """Collects the damage of one capture under the capture's name."""

    def __init__(self, capture: str) -> None:
        self._capture = capture
        self._entries: dict[DamageReason, list[Damage]] = {}

    def add(self, offset: int, reason: DamageReason, detail: str, skipped: int = 0) -> None:
        """Note one damaged place."""
        entries = self._entries.setdefault(reason, [])
        limit = 1 if reason in FOLDED_AT_ONCE else ENTRIES_PER_REASON
        if len(entries) < limit:
            entries.append(Damage(self._capture, offset, reason, detail, skipped))
        else:
            last = entries[-1]
            entries[-1] = replace(last, skipped=last.skipped + skipped, count=last.count + 1)

    def entries(self) -> list[Damage]:
        """Return what was noted so far, in file order whatever layer noticed it first."""
        return sorted((entry for entries in self._entries.values() for entry in entries), key=lambda e: e.offset)

    def __bool__(self) -> bool:
        return bool(self._entries)
