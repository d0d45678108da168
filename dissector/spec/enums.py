"""Numbers with names: magics, datatypes, flags, reasons, states, frame infos; statuses and features from here too."""

from __future__ import annotations

from dissector.spec.features import COLLECTIONS_FEATURE, FEATURES
from dissector.spec.model import (
    UNRELEASED,
    Enumeration,
    Field,
    Flags,
    FrameInfo,
    Magic,
    MessageType,
    Name,
    Release,
    Role,
    UInt,
)
from dissector.spec.statuses import AUTH_CONTINUE, ROLLBACK, STATUS_RANGES, STATUSES, SUCCESS, StatusRange

__all__ = [
    "AUTH_CONTINUE",
    "BOOLEAN",
    "COLLECTIONS_FEATURE",
    "DATATYPES",
    "DELETION_DATATYPES",
    "DRAFT_END_REASONS",
    "DRAFT_MESSAGE_TYPES",
    "DRAFT_REQUEST_TYPES",
    "DRAFT_RESPONSE_TYPES",
    "DRAFT_START_TYPES",
    "DURABILITY_LEVELS",
    "END_REASONS",
    "FEATURES",
    "FRAME_INFOS",
    "MAGICS",
    "MARKER_FLAGS",
    "METADATA_IDS",
    "OPEN_FLAGS",
    "OSO_MARKERS",
    "ROLLBACK",
    "SEQNO_STATE_FILTERS",
    "STATUSES",
    "STATUS_RANGES",
    "STREAM_FLAGS",
    "STREAM_ID_INFO",
    "SUCCESS",
    "UPR_END_REASONS",
    "UPR_OPEN_FLAGS",
    "UPR_STREAM_FLAGS",
    "UPR_VBUCKET_STATES",
    "VBUCKET_STATES",
    "StatusRange",
]

MAGICS: tuple[Magic, ...] = (
    Magic(
        0x80,
        "request",
        MessageType.REQUEST,
        False,
        False,
        "A command; on a UPR connection both sides send them, at any time.",
    ),
    Magic(0x81, "response", MessageType.RESPONSE, False, False, "The answer to a 0x80 or 0x08."),
    Magic(
        0x08,
        "flexible_request",
        MessageType.REQUEST,
        True,
        False,
        "A command with framing extras; on UPR they carry the stream id.",
        Release(6, 5),
    ),
    Magic(
        0x18,
        "flexible_response",
        MessageType.RESPONSE,
        True,
        False,
        "An answer with framing extras: server duration (HELLO tracing), units and throttling (HELLO "
        "report_unit_usage).",
    ),
    Magic(0x82, "server_request", MessageType.REQUEST, False, True, "A server's push outside UPR (HELLO duplex)."),
    Magic(0x83, "server_response", MessageType.RESPONSE, False, True, "The client's answer to a 0x82."),
)

DATATYPES = Flags(
    "datatype",
    "How a value is encoded. On data messages it describes the value as sent, except with the open flag "
    "no_value_with_underlying_datatype.",
    (
        Name(0x01, "json", "the document is JSON"),
        Name(0x02, "snappy", "the whole value is compressed with raw snappy"),
        Name(0x04, "xattr", "a section of extended attributes precedes the document"),
    ),
)

#: What deletions may carry. 2, 5 and 7 are accepted producer bugs (MB-31141, MB-29040).
DELETION_DATATYPES = (0, 2, 4, 5, 6, 7)

UPR_OPEN_FLAGS = Flags(
    "upr open flags",
    "The role that the *receiver* of an open takes.",
    (Name(0x01, "producer", "set: the receiver becomes the producer; clear: the consumer"),),
)

OPEN_FLAGS = Flags(
    "open flags",
    "The role that the *receiver* of an open takes, and what it is to send.",
    (
        Name(0x01, "producer", "set: the receiver becomes the producer; clear: the consumer"),
        Name(0x02, "notifier", "tells that there are changes, not which; refused since 7.0", Release(3), Release(6, 6)),
        Name(0x04, "include_xattrs", "values come with their extended attributes", Release(5)),
        Name(0x08, "no_value", "keys and metadata only", Release(5)),
        Name(
            0x10,
            "collections_prototype",
            "one more extras byte on data messages; unused since, and refused by 7.0",
            Release(5),
            Release(6),
        ),
        Name(0x20, "include_delete_times", "every deletion has the 21-byte form", Release(5, 5)),
        Name(
            0x40,
            "no_value_with_underlying_datatype",
            "as no_value, but the datatype is that of the stored document; excludes no_value",
            Release(6, 5),
        ),
        Name(0x80, "point_in_time_recovery", "withdrawn; 7.0 accepts it"),
        Name(
            0x100,
            "include_deleted_user_xattrs",
            "tombstones keep their user xattrs; needs include_xattrs",
            Release(6, 6),
        ),
        Name(0x200, "skip_deletes_in_backfill", "no deletions in the first backfill; producer only", UNRELEASED),
    ),
)

STREAM_FLAGS = Flags(
    "stream request flags",
    "What kind of stream an add stream or a stream request asks for. Servers accept bits that they do not know (E-43).",
    (
        Name(0x01, "takeover", "hand the vbucket over at the end", Release(3)),
        Name(0x02, "disk_only", "end at the last persisted seqno", Release(3)),
        Name(0x04, "to_latest", "end at the high seqno of now", Release(3)),
        Name(0x08, "no_value", "keys and metadata only; refused by 5.0, ignored by 7.0", Release(4, 5), Release(4, 6)),
        Name(0x10, "active_vbucket_only", "fail unless the vbucket is active", Release(5)),
        Name(0x20, "strict_vbucket_uuid", "the uuid must match even at seqno 0", Release(5, 1)),
        Name(
            0x40,
            "from_latest",
            "start at the current high seqno, whatever the start and snapshot fields say; in the documents since "
            "7.2, in the source since 7.6",
            Release(7, 2),
        ),
        Name(
            0x80,
            "ignore_purged_tombstones",
            "no rollback only because tombstones that the consumer has not seen were purged",
            Release(7, 2),
        ),
        Name(0x100, "cache_transfer", "only with takeover or active_vbucket_only", UNRELEASED),
    ),
    lenient=True,
)

UPR_STREAM_FLAGS = Flags(
    "upr add stream flags",
    "What kind of stream an add stream asks for.",
    (Name(0x01, "takeover", "hand the vbucket over at the end"),),
)

MARKER_FLAGS = Flags(
    "snapshot marker flags",
    "What kind of snapshot follows. In builds of May 2014 the number 0 meant memory and 1 disk.",
    (
        Name(0x01, "memory", "the snapshot comes from memory"),
        Name(0x02, "disk", "the snapshot comes from a backfill"),
        Name(0x04, "checkpoint", "a new checkpoint starts"),
        Name(0x08, "acknowledge", "answer when the snapshot is complete (takeover)"),
        Name(0x10, "history", "all versions, not only the latest", Release(7, 2)),
        Name(0x20, "may_contain_duplicates", "a key may appear more than once", Release(7, 2)),
    ),
)

OSO_MARKERS = Enumeration(
    "out-of-order snapshot bracket",
    "The two ends of a snapshot without seqno order.",
    (
        Name(0x01, "start", "changes in key order follow"),
        Name(0x02, "end", "back to snapshots in seqno order"),
    ),
)

# Byte 5 of the draft's messages, by opcode.
DRAFT_REQUEST_TYPES = Enumeration(
    "draft request type",
    "What a request (0x01) of the draft asks for.",
    (
        Name(1, "stream_request", "a stream of a vbucket's changes"),
        Name(2, "failover_log_request", "the branches of a vbucket's history"),
    ),
)
DRAFT_RESPONSE_TYPES = Enumeration(
    "draft response type",
    "What a response (0x02) of the draft says.",
    (
        Name(1, "ok", "the stream will start"),
        Name(2, "not_my_vbucket", "or, in answer to a failover log request, the failover log (E-13)"),
        Name(3, "rollback", "go back to the seqno in the body"),
    ),
)
DRAFT_START_TYPES = Enumeration(
    "draft stream start type",
    "A stream start (0x03) of the draft has one kind.",
    (Name(0, "stream_start", "the first message of a stream"),),
)
DRAFT_MESSAGE_TYPES = Enumeration(
    "draft stream message type",
    "What a stream message (0x04) of the draft is.",
    (
        Name(1, "snapshot_start", "changes with unique keys follow"),
        Name(2, "snapshot_end", "the snapshot is complete"),
        Name(3, "mutation", "a document was created or changed"),
        Name(4, "deletion", "a document was deleted"),
        Name(5, "expiration", "a document has expired"),
        Name(6, "flush", "the bucket was emptied"),
    ),
)
DRAFT_END_REASONS = Enumeration(
    "draft stream end reason",
    "Why a stream of the draft ended, in byte 5 of a stream end (0x05).",
    (
        Name(1, "ok", "everything that was asked for has been sent"),
        Name(2, "state_changed", "the vbucket changed its state"),
    ),
)

UPR_END_REASONS = Enumeration(
    "upr stream end reason",
    "Why a stream ended. 1 became 2 in the shipped protocol (E-09).",
    (
        Name(0, "ok", "everything that was asked for has been sent"),
        Name(1, "state_changed", "the vbucket changed its state; in dcp this number means closed"),
    ),
)

END_REASONS = Enumeration(
    "stream end reason",
    "Why a stream ended.",
    (
        Name(0, "ok", "the end seqno was reached, or a takeover is complete"),
        Name(1, "closed", "by a close stream"),
        Name(2, "state_changed", "the vbucket changed its state or was deleted; a rollback (6) is sent as this too"),
        Name(3, "disconnected", "defined, but never transmitted"),
        Name(4, "too_slow", "the consumer did not keep up and its cursor was dropped", Release(4, 5)),
        Name(5, "backfill_failed", "the producer could not read the changes from disk"),
        Name(6, "rollback", "rewritten to state_changed before sending"),
        Name(7, "filter_empty", "the collections or the scope of the filter were dropped"),
        Name(8, "lost_privileges", "the user may no longer read what is streamed"),
    ),
)

#: What the documents say, and what servers up to 4.1.0 and all 3.x sent (E-10, MB-16292).
UPR_VBUCKET_STATES = Enumeration(
    "upr vbucket state",
    "A vbucket's state as documents and senders up to 4.1.0 number it (E-10).",
    (
        Name(1, "active", "serves clients"),
        Name(2, "pending", "about to become active"),
        Name(3, "replica", "follows an active one"),
        Name(4, "dead", "serves nobody"),
    ),
)

#: What receivers always read, and senders since 4.1.1.
VBUCKET_STATES = Enumeration(
    "vbucket state",
    "A vbucket's state as servers number it. Senders up to 4.1.0 and all 3.x swap 2 and 3 (E-10).",
    (
        Name(1, "active", "serves clients"),
        Name(2, "replica", "follows an active one; pending when sent by 3.x or 4.0 to 4.1.0"),
        Name(3, "pending", "about to become active; replica when sent by 3.x or 4.0 to 4.1.0"),
        Name(4, "dead", "serves nobody"),
    ),
)

SEQNO_STATE_FILTERS = Enumeration(
    "vbucket state filter",
    "Which vbuckets GET_ALL_VB_SEQNOS reports.",
    (
        Name(0, "alive", "every vbucket that is not dead"),
        Name(1, "active", "active vbuckets only"),
        Name(2, "replica", "replicas only"),
        Name(3, "pending", "pending vbuckets only"),
        Name(4, "dead", "dead vbuckets only"),
    ),
)

DURABILITY_LEVELS = Enumeration(
    "durability level",
    "How safe a sync write must be before it is committed.",
    (
        Name(1, "majority", "a majority of the nodes has it in memory"),
        Name(2, "majority_and_persist_on_active", "the same, and the active node has it on disk"),
        Name(3, "persist_to_majority", "a majority of the nodes has it on disk"),
    ),
)

BOOLEAN = Enumeration("boolean", "A byte that says yes or no.", (Name(0, "false", "no"), Name(1, "true", "yes")))

METADATA_IDS = Enumeration(
    "extended metadata id",
    "What an entry of the extended metadata holds.",
    (
        Name(1, "adjusted_time", "the time by the clock of the cluster"),
        Name(2, "conflict_resolution_mode", "how conflicting changes are settled"),
    ),
)

FRAME_INFOS: tuple[FrameInfo, ...] = (
    FrameInfo(0, "barrier", MessageType.REQUEST, (0,), (), "Wait for all earlier commands."),
    FrameInfo(
        1,
        "durability",
        MessageType.REQUEST,
        (1, 3),
        (
            Field("durability_level", UInt.U8, "requested level", DURABILITY_LEVELS),
            Field("durability_timeout", UInt.U16, "milliseconds; left out: the server's default"),
        ),
        "A sync write's level, with an optional time-out.",
    ),
    FrameInfo(
        2,
        "stream_id",
        MessageType.REQUEST,
        (2,),
        (Field("stream_id", UInt.U16, "which of a vbucket's streams"),),
        "Tells streams of one vbucket apart: three bytes on the wire, the first one 0x22.",
    ),
    FrameInfo(3, "open_tracing_context", MessageType.REQUEST, None, (), "A prototype that was not released."),
    FrameInfo(4, "impersonate_user", MessageType.REQUEST, None, (), "Run the command as this user."),
    FrameInfo(5, "preserve_ttl", MessageType.REQUEST, (0,), (), "Keep the document's expiry."),
    FrameInfo(6, "impersonate_extra_privilege", MessageType.REQUEST, None, (), "One more privilege for the command."),
    FrameInfo(
        7,
        "impersonate_token",
        MessageType.REQUEST,
        (2,),
        (Field("auth_token_id", UInt.U16, "id of an authentication token", role=Role.IDENTIFIER),),
        "Run the command with this authentication token.",
    ),
    FrameInfo(
        0,
        "server_duration",
        MessageType.RESPONSE,
        (2,),
        (Field("server_duration", UInt.U16, "encoded: microseconds = value ** 1.74 / 2"),),
        "How long the server worked on the command.",
    ),
    FrameInfo(
        1,
        "read_units",
        MessageType.RESPONSE,
        (2,),
        (Field("read_units", UInt.U16, "units read"),),
        "Metering: units read.",
    ),
    FrameInfo(
        2,
        "write_units",
        MessageType.RESPONSE,
        (2,),
        (Field("write_units", UInt.U16, "units written"),),
        "Metering: units written.",
    ),
    FrameInfo(
        3,
        "throttle_duration",
        MessageType.RESPONSE,
        (2,),
        (Field("throttle_duration", UInt.U16, "encoded like the server duration"),),
        "How long the command was held back.",
    ),
)

STREAM_ID_INFO = 2
