"""Numbers with names: magics, datatypes, statuses, flags, reasons, states, features, frame infos."""

from __future__ import annotations

from typing import NamedTuple

from dissector.spec.model import (
    UNRELEASED,
    Direction,
    Enumeration,
    Field,
    Flags,
    FrameInfo,
    Kind,
    Magic,
    Name,
    Release,
    Role,
)

MAGICS: tuple[Magic, ...] = (
    Magic(0x80, "request", Direction.REQUEST, False, False, "A command; on a UPR connection both sides send them."),
    Magic(0x81, "response", Direction.RESPONSE, False, False, "The answer to a 0x80 or 0x08."),
    Magic(
        0x08,
        "flexible_request",
        Direction.REQUEST,
        True,
        False,
        "A command with framing extras; on UPR they carry the stream id.",
        Release(6, 5),
    ),
    Magic(
        0x18,
        "flexible_response",
        Direction.RESPONSE,
        True,
        False,
        "An answer with framing extras: server duration and unit counts.",
        Release(6, 5),
    ),
    Magic(0x82, "server_request", Direction.REQUEST, False, True, "A server's push outside UPR (HELLO duplex)."),
    Magic(0x83, "server_response", Direction.RESPONSE, False, True, "The client's answer to a 0x82."),
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

STATUSES = Enumeration(
    "status",
    "The outcome of a command, in bytes 6 and 7 of a response.",
    (
        Name(0x00, "success"),
        Name(0x01, "key_not_found", "also: no such stream"),
        Name(0x02, "key_exists", "also: the stream exists already; in 6.5 an opaque that matches no stream"),
        Name(0x03, "too_big"),
        Name(0x04, "invalid_arguments", "EINVAL"),
        Name(0x05, "not_stored"),
        Name(0x06, "delta_bad_value"),
        Name(0x07, "not_my_vbucket", "the body may hold a cluster map"),
        Name(0x08, "no_bucket"),
        Name(0x09, "locked"),
        Name(0x0A, "dcp_stream_not_found", "opt-in by the control v7_dcp_status_codes", Release(7)),
        Name(0x0B, "opaque_no_match", "opt-in by the control v7_dcp_status_codes", Release(7)),
        Name(0x0C, "would_throttle"),
        Name(0x0D, "config_only"),
        Name(0x0E, "not_locked"),
        Name(0x0F, "cas_value_invalid"),
        Name(0x1F, "auth_stale"),
        Name(0x20, "auth_error"),
        Name(0x21, "auth_continue", "the SASL exchange takes another step"),
        Name(0x22, "out_of_range", "ERANGE: seqnos that contradict each other or the snapshot"),
        Name(0x23, "rollback", "the consumer has to go back to the seqno in the body"),
        Name(0x24, "no_access"),
        Name(0x25, "not_initialised"),
        Name(0x26, "encryption_key_unavailable"),
        Name(0x27, "checksum_mismatch"),
        Name(0x28, "expiry_overflow"),
        Name(0x29, "lock_expiry_overflow"),
        Name(0x50, "bucket_paused"),
        Name(0x51, "cancelled"),
        Name(0x80, "unknown_frame_info"),
        Name(0x81, "unknown_command"),
        Name(0x82, "out_of_memory"),
        Name(0x83, "not_supported"),
        Name(0x84, "internal_error"),
        Name(0x85, "busy"),
        Name(0x86, "temporary_failure"),
        Name(0x87, "xattr_invalid"),
        Name(0x88, "unknown_collection"),
        Name(0x8A, "cannot_apply_manifest"),
        Name(0x8C, "unknown_scope"),
        Name(0x8D, "dcp_stream_id_invalid", "", Release(6, 5)),
        Name(0xA0, "durability_invalid_level"),
        Name(0xA1, "durability_impossible"),
        Name(0xA2, "sync_write_in_progress"),
        Name(0xA3, "sync_write_ambiguous"),
        Name(0xA4, "sync_write_re_commit_in_progress"),
        Name(0xA5, "range_scan_cancelled"),
        Name(0xA6, "range_scan_more"),
        Name(0xA7, "range_scan_complete"),
        Name(0xA8, "vb_uuid_not_equal"),
    ),
)


class StatusRange(NamedTuple):
    """A family of statuses that is not told apart here."""

    low: int
    high: int
    name: str


STATUS_RANGES: tuple[StatusRange, ...] = (
    StatusRange(0x30, 0x33, "rate_limited"),
    StatusRange(0x35, 0x38, "bucket_limit"),
    StatusRange(0xC0, 0xD8, "subdocument"),
    StatusRange(0xFF00, 0xFFFF, "reserved_for_proxies"),
)

SUCCESS = 0x00
AUTH_CONTINUE = 0x21
ROLLBACK = 0x23

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
        Name(0x02, "notifier", "tells of new seqnos only; refused since 7.0", Release(3), Release(6, 6)),
        Name(0x04, "include_xattrs", "values come with their extended attributes", Release(5)),
        Name(0x08, "no_value", "keys and metadata only", Release(5)),
        Name(0x10, "collections_prototype", "one more extras byte on data messages", Release(5), Release(6)),
        Name(0x20, "include_delete_times", "every deletion has the 21-byte form", Release(5, 5)),
        Name(
            0x40,
            "no_value_with_underlying_datatype",
            "as no_value, but the datatype is that of the stored document; excludes no_value",
            Release(6, 5),
        ),
        Name(0x80, "point_in_time_recovery", "withdrawn"),
        Name(
            0x100,
            "include_deleted_user_xattrs",
            "tombstones keep their user xattrs; needs include_xattrs",
            Release(6, 6),
        ),
        Name(0x200, "skip_deletes_in_backfill", "producer only", UNRELEASED),
    ),
)

STREAM_FLAGS = Flags(
    "stream request flags",
    "What kind of stream is asked for. Servers accept bits that they do not know (E-43).",
    (
        Name(0x01, "takeover", "hand the vbucket over at the end", Release(3)),
        Name(0x02, "disk_only", "end at the last persisted seqno", Release(3)),
        Name(0x04, "to_latest", "end at the current high seqno", Release(3)),
        Name(0x08, "no_value", "refused in 5.0, ignored in 7.0", Release(4, 5), Release(4, 6)),
        Name(0x10, "active_vbucket_only", "fail unless the vbucket is active", Release(5)),
        Name(0x20, "strict_vbucket_uuid", "the uuid must match even at seqno 0", Release(5, 1)),
        Name(0x40, "from_latest", "start and snapshot fields are ignored", Release(7, 2)),
        Name(0x80, "ignore_purged_tombstones", "", Release(7, 2)),
        Name(0x100, "cache_transfer", "only with takeover or active_vbucket_only", UNRELEASED),
    ),
    lenient=True,
)

UPR_STREAM_FLAGS = Flags("upr stream flags", "", (Name(0x01, "takeover", "hand the vbucket over at the end"),))

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
    (Name(0x01, "start"), Name(0x02, "end")),
)

DRAFT_REQUEST_TYPES = Enumeration(
    "draft request type",
    "Byte 5 of a draft request.",
    (Name(1, "stream_request"), Name(2, "failover_log_request")),
)

UPR_END_REASONS = Enumeration(
    "upr stream end reason",
    "Why a stream ended. 1 became 2 in the shipped protocol (E-09).",
    (Name(0, "ok"), Name(1, "state_changed", "in dcp this number means closed")),
)

END_REASONS = Enumeration(
    "stream end reason",
    "Why a stream ended.",
    (
        Name(0, "ok", "the end seqno was reached, or a takeover is complete"),
        Name(1, "closed", "by a close stream"),
        Name(2, "state_changed", "the vbucket changed its state; a rollback (6) is also sent as this"),
        Name(3, "disconnected", "defined, but never transmitted"),
        Name(4, "too_slow", "the cursor was dropped", Release(4, 5)),
        Name(5, "backfill_failed"),
        Name(6, "rollback", "rewritten to state_changed before sending"),
        Name(7, "filter_empty", "the filtered collections are gone"),
        Name(8, "lost_privileges"),
    ),
)

#: What the documents say, and what servers up to 4.1.0 and all 3.x sent (E-10, MB-16292).
UPR_VBUCKET_STATES = Enumeration(
    "upr vbucket state",
    "A vbucket's state as documents and senders up to 4.1.0 number it (E-10).",
    (Name(1, "active"), Name(2, "pending"), Name(3, "replica"), Name(4, "dead")),
)

#: What receivers always read, and senders since 4.1.1.
VBUCKET_STATES = Enumeration(
    "vbucket state",
    "A vbucket's state as servers number it. Senders up to 4.1.0 and all 3.x swap 2 and 3 (E-10).",
    (
        Name(1, "active"),
        Name(2, "replica", "pending when sent by 3.x or 4.0 to 4.1.0"),
        Name(3, "pending", "replica when sent by 3.x or 4.0 to 4.1.0"),
        Name(4, "dead"),
    ),
)

SEQNO_STATE_FILTERS = Enumeration(
    "vbucket state filter",
    "Which vbuckets GET_ALL_VB_SEQNOS reports.",
    (Name(0, "alive"), Name(1, "active"), Name(2, "replica"), Name(3, "pending"), Name(4, "dead")),
)

DURABILITY_LEVELS = Enumeration(
    "durability level",
    "How safe a sync write must be before it is committed.",
    (Name(1, "majority"), Name(2, "majority_and_persist_on_active"), Name(3, "persist_to_majority")),
)

BOOLEAN = Enumeration("boolean", "", (Name(0, "false"), Name(1, "true")))

FEATURES = Enumeration(
    "HELLO feature",
    "What a client asks for and a server grants.",
    (
        Name(0x01, "datatype"),
        Name(0x02, "tls"),
        Name(0x03, "tcp_nodelay"),
        Name(0x04, "mutation_seqno"),
        Name(0x05, "tcp_delay"),
        Name(0x06, "xattr"),
        Name(0x07, "xerror", "errors carry a JSON context"),
        Name(0x08, "select_bucket"),
        Name(0x0A, "snappy", "values may be compressed"),
        Name(0x0B, "json"),
        Name(0x0C, "duplex", "the server may send requests"),
        Name(0x0D, "clustermap_change_notification"),
        Name(0x0E, "unordered_execution"),
        Name(0x0F, "tracing", "responses carry the server's duration"),
        Name(0x10, "alt_request", "requests may carry framing extras"),
        Name(0x11, "sync_replication"),
        Name(0x12, "collections", "keys carry a collection id"),
        Name(0x13, "snappy_everywhere"),
        Name(0x14, "open_tracing"),
        Name(0x15, "preserve_ttl"),
        Name(0x16, "vattr"),
        Name(0x17, "point_in_time_recovery"),
        Name(0x18, "subdoc_create_as_deleted"),
        Name(0x19, "subdoc_document_macro_support"),
        Name(0x1A, "subdoc_replace_body_with_xattr"),
        Name(0x1B, "report_unit_usage"),
        Name(0x26, "skip_deletes_in_backfill", "", UNRELEASED),
    ),
)

COLLECTIONS_FEATURE = 0x12

FRAME_INFOS: tuple[FrameInfo, ...] = (
    FrameInfo(0, "barrier", Direction.REQUEST, (0,), (), "Wait for all earlier commands."),
    FrameInfo(
        1,
        "durability",
        Direction.REQUEST,
        (1, 3),
        (
            Field("durability_level", Kind.U8, "requested level", DURABILITY_LEVELS),
            Field("durability_timeout", Kind.U16, "milliseconds; left out: the server's default"),
        ),
        "A sync write's level, with an optional time-out.",
    ),
    FrameInfo(
        2,
        "stream_id",
        Direction.REQUEST,
        (2,),
        (Field("stream_id", Kind.U16, "which of a vbucket's streams"),),
        "Tells streams of one vbucket apart: three bytes on the wire, the first one 0x22.",
    ),
    FrameInfo(3, "open_tracing_context", Direction.REQUEST, None, (), "A prototype that was not released."),
    FrameInfo(4, "impersonate_user", Direction.REQUEST, None, (), "Run the command as this user."),
    FrameInfo(5, "preserve_ttl", Direction.REQUEST, (0,), (), "Keep the document's expiry."),
    FrameInfo(6, "impersonate_extra_privilege", Direction.REQUEST, None, (), "One more privilege for the command."),
    FrameInfo(
        7,
        "impersonate_token",
        Direction.REQUEST,
        (2,),
        (Field("auth_token_id", Kind.U16, "id of an authentication token", role=Role.IDENTIFIER),),
        "Run the command with this authentication token.",
    ),
    FrameInfo(
        0,
        "server_duration",
        Direction.RESPONSE,
        (2,),
        (Field("server_duration", Kind.U16, "encoded: microseconds = value ** 1.74 / 2"),),
        "How long the server worked on the command.",
    ),
    FrameInfo(
        1,
        "read_units",
        Direction.RESPONSE,
        (2,),
        (Field("read_units", Kind.U16, "units read"),),
        "Metering: units read.",
    ),
    FrameInfo(
        2,
        "write_units",
        Direction.RESPONSE,
        (2,),
        (Field("write_units", Kind.U16, "units written"),),
        "Metering: units written.",
    ),
    FrameInfo(
        3,
        "throttle_duration",
        Direction.RESPONSE,
        (2,),
        (Field("throttle_duration", Kind.U16, "encoded like the server duration"),),
        "How long the command was held back.",
    ),
)

STREAM_ID_INFO = 2
