"""System events: what happened to scopes and collections, and the values that say so."""

from __future__ import annotations

from dissector.spec import fields
from dissector.spec.model import Presence, Release, SystemEvent

_SCOPE_EVENT = (fields.MANIFEST_UID, fields.SCOPE_ID)
_COLLECTION_EVENT = (*_SCOPE_EVENT, fields.COLLECTION_ID)

SYSTEM_EVENTS: tuple[SystemEvent, ...] = (
    SystemEvent(
        0,
        "collection_begin",
        Presence.MUST,
        ((0, _COLLECTION_EVENT), (1, (*_COLLECTION_EVENT, fields.MAX_TTL)), (2, None)),
        "A collection was created, or flushed (8.0).",
    ),
    SystemEvent(1, "collection_end", Presence.MAY, ((0, _COLLECTION_EVENT), (2, None)), "A collection was dropped."),
    SystemEvent(
        2, "collection_flush", Presence.MAY, ((0, None), (1, None), (2, None)), "A collection was flushed (5.0 to 7.1)."
    ),
    SystemEvent(3, "scope_create", Presence.MUST, ((0, _SCOPE_EVENT), (2, None)), "A scope was created."),
    SystemEvent(4, "scope_drop", Presence.MAY, ((0, _SCOPE_EVENT), (2, None)), "A scope was dropped."),
    SystemEvent(5, "collection_modify", Presence.MUST, ((2, None),), "A collection was changed.", Release(7, 2)),
)
