"""Fields and runs of fields that several messages, dialects or records share."""

from __future__ import annotations

from dissector.spec import enums
from dissector.spec.model import Field, Role, UInt


def seqno(name: str, doc: str) -> Field:
    """Declare a 64-bit sequence number."""
    return Field(name, UInt.U64, doc, role=Role.SEQNO)


def uuid(name: str, doc: str) -> Field:
    """Declare a 64-bit identifier, which has no order."""
    return Field(name, UInt.U64, doc, role=Role.IDENTIFIER)


BY_SEQNO = seqno("by_seqno", "position of the change in its vbucket's history; never 0")
REV_SEQNO = seqno("rev_seqno", "how often the document has changed")
ITEM_FLAGS = Field(
    "item_flags", UInt.U32, "the application's flags, stored as they came", role=Role.IDENTIFIER, raw=True
)
EXPIRATION = Field("expiration", UInt.U32, "when the document expires; 0: never", role=Role.SECONDS)
LOCK_TIME = Field("lock_time", UInt.U32, "how long the document is locked", role=Role.SECONDS)
NMETA = Field("nmeta", UInt.U16, "size of the extended metadata behind the value; 0 since 5.0")
NRU = Field("nru", UInt.U8, "how recently the document was used: not recently used, in its coarse or finer form")
COLLECTION_LENGTH = Field("collection_length", UInt.U8, "bytes of the key that name the collection (prototype)")
DELETE_TIME = Field("delete_time", UInt.U32, "when the document was deleted", role=Role.SECONDS)
UNUSED_BYTE = Field("unused", UInt.U8, "unused; in the collections prototype the collection length")

START_SEQNO = seqno("start_seqno", "last seqno that the consumer has; 0: everything")
END_SEQNO = seqno("end_seqno", "seqno to stream up to; all ones: no end")
VBUCKET_UUID = uuid("vbucket_uuid", "the history branch that the consumer knows; 0: none")
SNAP_START_SEQNO = seqno("snap_start_seqno", "start of the snapshot that the consumer was in")
SNAP_END_SEQNO = seqno("snap_end_seqno", "end of the snapshot that the consumer was in")
HIGH_SEQNO = seqno("high_seqno", "high seqno when the uuid was made")
RESERVED = Field("reserved", UInt.U32, "zero", reserved=True)

#: 28 bytes, the mutation of the draft and of upr before 2013-12-11.
MUTATION_28 = (BY_SEQNO, REV_SEQNO, ITEM_FLAGS, EXPIRATION, LOCK_TIME)
MUTATION_30 = (*MUTATION_28, NMETA)
MUTATION_31 = (*MUTATION_30, NRU)
MUTATION_32 = (*MUTATION_31, COLLECTION_LENGTH)

DELETION_16 = (BY_SEQNO, REV_SEQNO)
DELETION_18 = (*DELETION_16, NMETA)
DELETION_19 = (*DELETION_18, COLLECTION_LENGTH)
DELETION_21 = (BY_SEQNO, REV_SEQNO, DELETE_TIME, UNUSED_BYTE)
EXPIRATION_20 = (BY_SEQNO, REV_SEQNO, DELETE_TIME)

ROLLBACK_SEQNO = seqno("rollback_seqno", "seqno that the consumer has to go back to")
BUFFER_BYTES = Field("buffer_bytes", UInt.U32, "bytes that the consumer has freed")

MARKER_START = seqno("snap_start_seqno", "first seqno that the snapshot may hold")
MARKER_END = seqno("snap_end_seqno", "last seqno of the snapshot")
MARKER_RANGE = (
    MARKER_START,
    MARKER_END,
    Field("snapshot_type", UInt.U32, "kind of the snapshot", enums.MARKER_FLAGS),
)
MARKER_V2 = (
    *MARKER_RANGE,
    seqno("max_visible_seqno", "last seqno that a client without sync writes may see"),
    seqno(
        "high_completed_seqno", "highest prepare that is committed or aborted; means something on disk snapshots only"
    ),
)
MARKER_V2_1 = (*MARKER_V2, Field("snapshot_timestamp", UInt.U64, "nanoseconds since the epoch"))
MARKER_V2_2 = (
    *MARKER_V2,
    seqno("purge_seqno", "tombstones up to here may be gone"),
    seqno("high_prepared_seqno", "highest prepare in the snapshot; means something on disk snapshots only"),
)

# Records: what some values repeat until they end.
FAILOVER_ENTRY = (
    uuid("vbucket_uuid", "a branch of the vbucket's history"),
    seqno("seqno", "where the branch begins"),
)
VBUCKET_SEQNO_ENTRY = (
    Field("vbucket", UInt.U16, "vbucket id"),
    seqno("seqno", "its high seqno"),
)
FEATURE_ENTRY = (
    Field("feature", UInt.U16, "number of a feature that the client wants, or the server grants", enums.FEATURES),
)
CACHE_RECORD = (
    uuid("cas", "CAS of the document"),
    BY_SEQNO,
    REV_SEQNO,
    Field("value_length", UInt.U32, "bytes of value in this record"),
    ITEM_FLAGS,
    EXPIRATION,
    Field("key_length", UInt.U16, "bytes of key in this record, 2 to 251"),
    Field("datatype", UInt.U8, "datatype of the value", enums.DATATYPES),
    Field("cache_hint", UInt.U8, "how recently the document was used"),
)
METADATA_ENTRY = (
    Field("metadata_id", UInt.U8, "what the entry holds", enums.METADATA_IDS),
    Field("metadata_length", UInt.U16, "bytes that follow"),
)
METADATA_VERSION = 1

#: A cache record's key: at least a collection id and one byte.
CACHE_KEY_MIN = 2

STATE_FILTER = Field(
    "state_filter",
    UInt.U32,
    "only vbuckets in this state are listed; without the field, every one that is not dead",
    enums.SEQNO_STATE_FILTERS,
)

MANIFEST_UID = uuid("manifest_uid", "the collections manifest after the change")
SCOPE_ID = Field("scope_id", UInt.U32, "id of the scope", role=Role.IDENTIFIER)
COLLECTION_ID = Field("collection_id", UInt.U32, "id of the collection", role=Role.IDENTIFIER)
MAX_TTL = Field("max_ttl", UInt.U32, "the collection's longest time to live", role=Role.SECONDS)
# In tables of FlatBuffers system events alone. Flags are bytes that are 0 or 1.
TTL_VALID = Field("ttl_valid", UInt.U8, "whether max_ttl says anything")
HISTORY = Field("history", UInt.U8, "whether every version of the collection's documents is kept")
DEFAULT_MAX_VISIBLE_SEQNO = seqno(
    "default_max_visible_seqno", "last visible seqno of the default collection; the server's own affair (7.2.4)"
)
METERED = Field("metered", UInt.U8, "whether use of the collection is metered (7.6)")
FLUSH_UID = uuid("flush_uid", "the manifest in which the collection was last flushed; 0: never (8.0)")
SYSTEM_COLLECTION = Field("system_collection", UInt.U8, "whether the server's own collection was dropped (7.6)")
SYSTEM_SCOPE = Field("system_scope", UInt.U8, "whether the server's own scope was dropped (7.6)")
