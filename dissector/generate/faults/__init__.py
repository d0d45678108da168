"""All faults: each breaks one rule of the catalogue in traffic that would have been right."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.generate.faults import (
    agreements,
    connection,
    failover,
    flow_control,
    framing,
    liveness,
    opaque,
    seqno,
    snapshot,
    takeover,
)

if TYPE_CHECKING:
    from dissector.generate.scenario import Fault

_GROUPS = (framing, connection, agreements, opaque, snapshot, seqno, flow_control, failover, takeover, liveness)

FAULTS: tuple[Fault, ...] = tuple(each for group in _GROUPS for each in group.FAULTS)


def fault(rule: str, variant: str | None = None) -> Fault:
    """Return the fault that breaks a rule: the variant of this name, or the rule's first one."""
    variants = [each for each in FAULTS if each.rule == rule.upper()]
    if not variants:
        raise UsageError(f"no fault for rule {rule}: {_hint(rule.upper(), [each.rule for each in FAULTS])}")
    for each in variants:
        if variant is None or each.variant == variant:
            return each
    hint = _hint(variant or "", [each.variant for each in variants])
    raise UsageError(f"no variant {variant} of {rule.upper()}: {hint}")


def _hint(wanted: str, known: list[str]) -> str:
    names = [name for name in dict.fromkeys(known) if name]
    close = difflib.get_close_matches(wanted, names, 3, 0.5) or (names if len(names) <= 8 else [])
    return f"did you mean {' or '.join(close)}?" if close else "it is none of those listed"
