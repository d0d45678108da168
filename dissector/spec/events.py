"""System events: what happened to scopes and collections, and the values that say so."""

from __future__ import annotations

from dissector.spec import fields
from dissector.spec.model import Enumeration, Name, Presence, Release, SystemEvent

_SCOPE_EVENT = (fields.MANIFEST_UID, fields.SCOPE_ID)
_COLLECTION_EVENT = (*_SCOPE_EVENT, fields.COLLECTION_ID)

SYSTEM_EVENTS: tuple[SystemEvent, ...] = (
    SystemEvent(
        0,
        "collection_begin",
        Presence.MUST,
        ((0, _COLLECTION_EVENT), (1, (*_COLLECTION_EVENT, fields.MAX_TTL)), (2, None)),
        "A collection was created, or (8.0) flushed. Version 1 has a time to live.",
    ),
    SystemEvent(
        1, "collection_end", Presence.MUST_NOT, ((0, _COLLECTION_EVENT), (2, None)), "A collection was dropped."
    ),
    SystemEvent(
        2,
        "collection_flush",
        Presence.MAY,
        ((0, None), (1, None), (2, None)),
        "A collection was flushed. Defined, and gone since 7.2.",
        Release(5),
        Release(7, 1),
    ),
    SystemEvent(3, "scope_create", Presence.MUST, ((0, _SCOPE_EVENT), (2, None)), "A scope was created."),
    SystemEvent(4, "scope_drop", Presence.MUST_NOT, ((0, _SCOPE_EVENT), (2, None)), "A scope was dropped."),
    SystemEvent(
        5,
        "collection_modify",
        Presence.MUST,
        ((2, None),),
        "A collection's properties were changed; told to connections with flatbuffers_system_events only.",
        Release(7, 2),
    ),
)

EVENT_NAMES = Enumeration(
    "system event",
    "What happened to a scope or collection; the version says how the value tells it.",
    tuple(Name(event.id, event.name, event.doc, event.since, event.until) for event in SYSTEM_EVENTS),
)
