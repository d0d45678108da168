"""Statuses: what bytes 6 and 7 of a response say. Any error may carry a body that no layout mentions."""

from __future__ import annotations

from typing import NamedTuple

from dissector.spec.model import Enumeration, Name, Release

SUCCESS = 0x00
AUTH_CONTINUE = 0x21
ROLLBACK = 0x23

STATUSES = Enumeration(
    "status",
    "The outcome of a command, in bytes 6 and 7 of a response. A refusal may carry a text, a JSON error context "
    "(HELLO xerror) or, with not_my_vbucket, a cluster map: its value is never judged.",
    (
        Name(SUCCESS, "success", "the command was carried out"),
        Name(0x01, "key_not_found", "no such document; in UPR: no such stream", aliases=("KEY_ENOENT",)),
        Name(
            0x02,
            "key_exists",
            "the document exists, or has another CAS; in UPR: the stream exists already, and in 6.5 an opaque that "
            "matches no stream",
            aliases=("KEY_EEXISTS",),
        ),
        Name(0x03, "too_big", "the document is larger than the server takes", aliases=("E2BIG",)),
        Name(0x04, "invalid_arguments", "the request is malformed, or not allowed here", aliases=("EINVAL",)),
        Name(0x05, "not_stored", "the document was not written, for a reason that has no status of its own"),
        Name(0x06, "delta_bad_value", "the counter's document is not a number", aliases=("DELTA_BADVAL",)),
        Name(0x07, "not_my_vbucket", "the node does not have the vbucket; the body may hold a cluster map"),
        Name(0x08, "no_bucket", "the connection has not selected a bucket"),
        Name(0x09, "locked", "the document is locked"),
        Name(
            0x0A,
            "dcp_stream_not_found",
            "no such stream; only after the control v7_dcp_status_codes, else key_not_found",
            Release(7),
        ),
        Name(
            0x0B,
            "opaque_no_match",
            "the opaque is not the stream's; only after the control v7_dcp_status_codes, else key_exists",
            Release(7),
        ),
        Name(0x0C, "would_throttle", "the command would have been held back", aliases=("EWOULDTHROTTLE",)),
        Name(0x0D, "config_only", "the bucket serves its configuration only", aliases=("ECONFIGONLY",)),
        Name(0x0E, "not_locked", "the document to unlock is not locked"),
        Name(0x0F, "cas_value_invalid", "a CAS that no document can have"),
        Name(0x1F, "auth_stale", "the log-in is no longer valid: log in again"),
        Name(0x20, "auth_error", "the log-in failed"),
        Name(AUTH_CONTINUE, "auth_continue", "the SASL exchange takes another step"),
        Name(0x22, "out_of_range", "seqnos that contradict each other or the snapshot", aliases=("ERANGE",)),
        Name(ROLLBACK, "rollback", "the consumer has to go back to the seqno in the body"),
        Name(0x24, "no_access", "the user lacks a privilege", aliases=("EACCESS",)),
        Name(0x25, "not_initialised", "the node is not ready yet", aliases=("NOT_INITIALIZED",)),
        Name(0x26, "encryption_key_unavailable", "the key that the data is encrypted with is not there"),
        Name(0x27, "checksum_mismatch", "the data does not have its checksum"),
        Name(0x28, "expiry_overflow", "an expiry time beyond what can be stored"),
        Name(0x29, "lock_expiry_overflow", "a lock time beyond what can be stored"),
        Name(0x34, "scope_size_limit_exceeded", "the scope holds as much data as it may"),
        Name(0x50, "bucket_paused", "the bucket takes no commands for now"),
        Name(0x51, "cancelled", "the command was given up before it was done"),
        Name(0x80, "unknown_frame_info", "a frame info that the server does not know"),
        Name(0x81, "unknown_command", "an opcode that the server does not know"),
        Name(0x82, "out_of_memory", "the server has no memory left", aliases=("ENOMEM",)),
        Name(0x83, "not_supported", "known, but switched off or excluded by something else"),
        Name(0x84, "internal_error", "something went wrong inside the server", aliases=("EINTERNAL",)),
        Name(0x85, "busy", "the server is too busy", aliases=("EBUSY",)),
        Name(0x86, "temporary_failure", "not now: try again", aliases=("ETMPFAIL",)),
        Name(0x87, "xattr_invalid", "malformed xattrs", aliases=("XATTR_EINVAL",)),
        Name(0x88, "unknown_collection", "the collection does not exist"),
        Name(0x89, "no_collections_manifest", "the bucket has no collections manifest yet"),
        Name(
            0x8A,
            "cannot_apply_manifest",
            "the collections manifest cannot follow the present one",
            aliases=("CANNOT_APPLY_COLLECTIONS_MANIFEST",),
        ),
        Name(
            0x8B,
            "manifest_is_ahead",
            "the client knows a newer collections manifest than the server",
            aliases=("COLLECTIONS_MANIFEST_IS_AHEAD",),
        ),
        Name(0x8C, "unknown_scope", "the scope does not exist"),
        Name(
            0x8D,
            "dcp_stream_id_invalid",
            "a stream id that is missing, not expected or in use",
            Release(6, 5),
        ),
        Name(0xA0, "durability_invalid_level", "no such durability level"),
        Name(0xA1, "durability_impossible", "too few replicas for the durability level"),
        Name(0xA2, "sync_write_in_progress", "another sync write of the document is pending"),
        Name(0xA3, "sync_write_ambiguous", "the time is up, and the sync write may still succeed"),
        Name(0xA4, "sync_write_re_commit_in_progress", "a prepare from before a failover is being committed again"),
        Name(0xA5, "range_scan_cancelled", "the range scan was given up"),
        Name(0xA6, "range_scan_more", "the range scan has more to give"),
        Name(0xA7, "range_scan_complete", "the range scan is done"),
        Name(0xA8, "vb_uuid_not_equal", "the vbucket has another uuid than the request names"),
    ),
)


class StatusRange(NamedTuple):
    """A family of statuses that is not told apart here."""

    low: int
    high: int
    name: str
    doc: str


STATUS_RANGES: tuple[StatusRange, ...] = (
    StatusRange(0x30, 0x33, "rate_limited", "the user has had too much: network in or out, connections, commands"),
    StatusRange(0x35, 0x38, "bucket_limit", "the bucket is at one of its limits"),
    StatusRange(0xC0, 0xD8, "subdocument", "answers of sub-document commands"),
    StatusRange(0xFF00, 0xFFFF, "reserved_for_proxies", "never from a server: left to proxies and applications"),
)
