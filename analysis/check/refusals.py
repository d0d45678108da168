"""Refusals: the answer in which a guilty message's receiver said no, found among the frames that follow it.

Messages of a stream share one opaque and are not answered when they succeed. So an answer is a message's only if the
message had arrived when it was sent, and no later message of the same kind and opaque had: else it may be that one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dissector.display.message_details import reason
from dissector.spec import registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    Row = dict[str, Any]

#: What rows must have for refusals to be found.
COLUMNS = frozenset(("direction", "opcode", "opaque", "response", "status", "end_offset", "acked_offset", "text"))
_AGREED = ("success", "rollback")  #: answers that the protocol goes on with
SEARCHED = 64  #: frames of the connection after the guilty one in which its refusal is looked for


def refusal_of(message: Row, later: Iterable[Row]) -> Row | None:
    """Return the answer that refuses a message, among the rows of its connection that come after it."""
    if message["response"]:
        return None
    arrived_since: list[int] = []
    for row in later:
        if (row["opcode"], row["opaque"]) != (message["opcode"], message["opaque"]):
            continue
        if row["direction"] == message["direction"]:
            if not row["response"]:
                arrived_since.append(row["end_offset"])
        elif row["response"] and row["acked_offset"] is not None and row["acked_offset"] >= message["end_offset"]:
            if any(end <= row["acked_offset"] for end in arrived_since):
                return None
            return row if row["status"] is not None and registry.status_name(row["status"]) not in _AGREED else None
    return None


def told(refusal: Row) -> str:
    """Say with what a message was refused: the status by number and name, and the reason that the server gave."""
    name = registry.status_name(refusal["status"])
    why = reason(refusal["text"] or "")
    return f"{refusal['status']:#04x}{f' {name}' if name else ''}{f': {why}' if why else ''}"
