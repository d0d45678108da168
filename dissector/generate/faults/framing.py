"""Faults of single frames: all that FRM-01 to FRM-15 forbid.

The header's are in :mod:`~dissector.generate.faults.framing_header`, the parts' in ``framing_layout``, what keys,
values and fields say in ``framing_value``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults import framing_header, framing_layout, framing_value

if TYPE_CHECKING:
    from dissector.generate.scenario import Fault

FAULTS: tuple[Fault, ...] = tuple(
    sorted(
        (*framing_header.FAULTS, *framing_layout.FAULTS, *framing_value.FAULTS),
        key=lambda each: each.rule,
    )
)
