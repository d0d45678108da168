"""Faults of opaques and of streams' lives: all that OPQ-01 to OPQ-12 forbid.

Questions and answers are in :mod:`~dissector.generate.faults.opaque_replies`, streams in ``opaque_streams``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults import opaque_replies, opaque_streams

if TYPE_CHECKING:
    from dissector.generate.scenario import Fault

FAULTS: tuple[Fault, ...] = tuple(sorted((*opaque_replies.FAULTS, *opaque_streams.FAULTS), key=lambda each: each.rule))
