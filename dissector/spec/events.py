"""System events: what happened to scopes and collections, and the values that say so.

Versions 0 and 1 have fixed fields. Version 2 has a FlatBuffers table, whose slots are those of the servers' schema; one
that is not there has its default, which is 0 for all of them.
"""

from __future__ import annotations

from dissector.spec import fields
from dissector.spec.model import Enumeration, Name, Presence, Release, SystemEvent, TableSpec, TableText

_SCOPE_EVENT = (fields.MANIFEST_UID, fields.SCOPE_ID)
_COLLECTION_EVENT = (*_SCOPE_EVENT, fields.COLLECTION_ID)

COLLECTION = TableSpec(
    "Collection",
    (
        *_COLLECTION_EVENT,
        fields.TTL_VALID,
        fields.MAX_TTL,
        TableText("collection_name", "name of the collection, as in the key"),
        fields.HISTORY,
        fields.DEFAULT_MAX_VISIBLE_SEQNO,
        fields.METERED,
        fields.FLUSH_UID,
    ),
    depends=(("max_ttl", "ttl_valid"),),
)
DROPPED_COLLECTION = TableSpec("DroppedCollection", (*_COLLECTION_EVENT, fields.SYSTEM_COLLECTION))
SCOPE = TableSpec("Scope", (*_SCOPE_EVENT, TableText("scope_name", "name of the scope, as in the key")))
DROPPED_SCOPE = TableSpec("DroppedScope", (*_SCOPE_EVENT, fields.SYSTEM_SCOPE))
#: All tables, by name.
TABLES = {table.name: table for table in (COLLECTION, DROPPED_COLLECTION, SCOPE, DROPPED_SCOPE)}

SYSTEM_EVENTS: tuple[SystemEvent, ...] = (
    SystemEvent(
        0,
        "collection_begin",
        Presence.MUST,
        ((0, _COLLECTION_EVENT), (1, (*_COLLECTION_EVENT, fields.MAX_TTL)), (2, COLLECTION)),
        "A collection was created, or (8.0) flushed. Version 1 has a time to live.",
    ),
    SystemEvent(
        1,
        "collection_end",
        Presence.MUST_NOT,
        ((0, _COLLECTION_EVENT), (2, DROPPED_COLLECTION)),
        "A collection was dropped.",
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
    SystemEvent(3, "scope_create", Presence.MUST, ((0, _SCOPE_EVENT), (2, SCOPE)), "A scope was created."),
    SystemEvent(4, "scope_drop", Presence.MUST_NOT, ((0, _SCOPE_EVENT), (2, DROPPED_SCOPE)), "A scope was dropped."),
    SystemEvent(
        5,
        "collection_modify",
        Presence.MUST,
        ((2, COLLECTION),),
        "A collection's properties were changed; told to connections with flatbuffers_system_events only.",
        Release(7, 2),
    ),
)

EVENT_NAMES = Enumeration(
    "system event",
    "What happened to a scope or collection; the version says how the value tells it.",
    tuple(Name(event.id, event.name, event.doc, event.since, event.until) for event in SYSTEM_EVENTS),
)
