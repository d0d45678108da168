"""Scapy layers for UPR (DCP), Couchbase's replication protocol: build, send, dissect and reassemble its messages.

Generated from dissector/spec by `make docs`: change that, not this file. It knows scapy and nothing else of this
repository, so a copy of it works anywhere. scapy is GPL-2.0 and optional; nothing that analyses captures imports this.

    >>> UPR(opaque=7, vbucket=3) / UPRMutation(by_seqno=5, key=b"k", value=b"v")

A message is a header layer and a body layer. The header says which dialect it is:
:class:`UPR` is that of dcp; :class:`UPREarly` is that of upr; :class:`UPRDraft` is that of draft; :class:`UPRProto` is
that of upr-proto; :class:`Memcached` is that of memcached.

A body has a class for each message, answer and layout: one that is not the first of its message has the layout's name
at its end and is a subclass of the first, so that ``packet[UPRDeletion]`` finds every form of a deletion. A body that
no layout describes is a :class:`UPRBody`. What a body's class implies (magic, opcode, subtype, status) and all lengths
are filled in when a message is built, unless they are given, wrong ones included.

A TCP payload is a chain of messages; :func:`messages` lists them. What is no whole message stays ``Raw``; under scapy's
``TCPSession`` the rest of a message is waited for.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

try:
    from scapy.fields import (
        ByteEnumField,
        ByteField,
        ConditionalField,
        EnumField,
        Field,
        FieldLenField,
        FlagsField,
        IntEnumField,
        IntField,
        LongField,
        PacketListField,
        ShortEnumField,
        ShortField,
        StrField,
        StrLenField,
        XIntField,
        XLongField,
        XShortField,
    )
    from scapy.layers.inet import TCP
    from scapy.packet import NoPayload, Packet, Padding, Raw, bind_top_down
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "dissector.generate.scapy_layers needs scapy: pip install 'scapy>=2.6'", name=error.name
    ) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scapy.fields import AnyField

#: 24 bytes that every message starts with.
HEADER_SIZE = 24
#: A header that announces more than this is no header: no server sends it.
MAX_BODY = 31457280
#: TCP ports that are bound to :class:`UPR` on import.
PORTS = (11210, 11209)
#: Messages of one TCP payload that are chained as layers. Scapy walks layers recursively, and Python's stack is finite:
#: what follows is in the list of one :class:`UPRMore`.
CHAINED = 32
#: A larger message is not looked at again before it is whole, which keeps reassembly fast. Scapy does not hand such a
#: message on when its connection ends in the middle of it, but does so with smaller ones.
PATIENCE = 1 << 16
#: Records of one value that become packets; what follows stays bytes.
MAX_RECORDS = 1 << 16


class Magic(NamedTuple):
    """What a first byte says."""

    name: str
    response: bool
    flexible: bool
    server_push: bool


MAGICS: dict[int, Magic] = {
    0x80: Magic("request", False, False, False),  # A command; on a UPR connection both sides send them, at any time.
    0x81: Magic("response", True, False, False),  # The answer to a 0x80 or 0x08.
    # A command with framing extras; on UPR they carry the stream id.
    0x08: Magic("flexible_request", False, True, False),
    # An answer with framing extras: server duration (HELLO tracing), units and throttling (HELLO report_unit_usage).
    0x18: Magic("flexible_response", True, True, False),
    0x82: Magic("server_request", False, False, True),  # A server's push outside UPR (HELLO duplex).
    0x83: Magic("server_response", True, False, True),  # The client's answer to a 0x82.
}
_MAGIC_OF = {magic[1:]: value for value, magic in MAGICS.items()}

# Numbers with names. Flags are bits.

#: A byte that says yes or no.
BOOLEAN_NAMES: dict[int, str] = {
    0x00: "false",  # no
    0x01: "true",  # yes
}

#: How a value is encoded. On data messages it describes the value as sent, except with the open flag
#: no_value_with_underlying_datatype.
DATATYPE_NAMES: dict[int, str] = {
    0x01: "json",  # the document is JSON
    0x02: "snappy",  # the whole value is compressed with raw snappy
    0x04: "xattr",  # a section of extended attributes precedes the document
}

#: How safe a sync write must be before it is committed.
DURABILITY_LEVEL_NAMES: dict[int, str] = {
    0x01: "majority",  # a majority of the nodes has it in memory
    0x02: "majority_and_persist_on_active",  # the same, and the active node has it on disk
    0x03: "persist_to_majority",  # a majority of the nodes has it on disk
}

#: What a client asks for and a server grants; what the answer does not list is off.
HELLO_FEATURE_NAMES: dict[int, str] = {
    0x01: "datatype",  # all datatypes at once; retired, each has its own feature now
    0x02: "tls",  # never more than a number
    0x03: "tcp_nodelay",  # small packets are sent at once
    0x04: "mutation_seqno",  # answers to writes carry vbucket uuid and seqno
    0x05: "tcp_delay",  # small packets may be gathered
    0x06: "xattr",  # values may have a section of xattrs
    0x07: "xerror",  # errors carry a JSON context, and get_error_map explains statuses
    0x08: "select_bucket",  # the client will select a bucket
    0x09: "collections_prototype",  # the collections of 5.0 to 6.0; retired
    0x0A: "snappy",  # values may be compressed
    0x0B: "json",  # values may be marked as JSON
    0x0C: "duplex",  # the server may send requests
    0x0D: "clustermap_change_notification",  # the server pushes new cluster maps
    0x0E: "unordered_execution",  # commands may be answered in another order
    0x0F: "tracing",  # responses carry the server's duration in framing extras
    0x10: "alt_request",  # requests may carry framing extras
    0x11: "sync_replication",  # writes may ask for a durability level
    0x12: "collections",  # keys start with a collection id, and stream requests may have a value
    0x13: "snappy_everywhere",  # every value may be compressed, in answers to any command
    0x14: "preserve_ttl",  # a write can keep the document's expiry
    0x15: "vattr",  # the virtual xattr $vbucket is known, and an unknown one is an error
    0x16: "point_in_time_recovery",  # withdrawn
    0x17: "subdoc_create_as_deleted",  # a sub-document command can make a tombstone
    0x18: "subdoc_document_macro_support",  # the virtual xattr $document can be used in macros
    0x19: "subdoc_replace_body_with_xattr",  # a sub-document command can turn an xattr into the document
    0x1A: "report_unit_usage",  # responses carry read and write units in framing extras
    0x1B: "non_blocking_throttling_mode",  # would_throttle instead of a command that is held back
    0x1C: "subdoc_replica_read",  # sub-document look-ups may read replicas
    0x1D: "get_cluster_config_with_known_version",  # a client can name the cluster map that it has
    0x1E: "dedupe_not_my_vbucket_clustermap",  # not_my_vbucket repeats no cluster map that was sent before
    0x1F: "clustermap_change_notification_brief",  # the server pushes versions of new cluster maps only
    0x20: "subdoc_access_multiple_xattr_keys",  # one sub-document command may touch several xattrs
    0x26: "skip_deletes_in_backfill",  # the server knows the open flag of this name
}

#: The role that the *receiver* of an open takes, and what it is to send.
OPEN_FLAGS_NAMES: dict[int, str] = {
    0x01: "producer",  # set: the receiver becomes the producer; clear: the consumer
    0x02: "notifier",  # tells that there are changes, not which; refused since 7.0
    0x04: "include_xattrs",  # values come with their extended attributes
    0x08: "no_value",  # keys and metadata only
    0x10: "collections_prototype",  # one more extras byte on data messages; unused since, and refused by 7.0
    0x20: "include_delete_times",  # every deletion has the 21-byte form
    # as no_value, but the datatype is that of the stored document; excludes no_value
    0x40: "no_value_with_underlying_datatype",
    0x80: "point_in_time_recovery",  # withdrawn; 7.0 accepts it
    0x100: "include_deleted_user_xattrs",  # tombstones keep their user xattrs; needs include_xattrs
    0x200: "skip_deletes_in_backfill",  # no deletions in the first backfill; producer only
}

#: The two ends of a snapshot without seqno order.
OUT_OF_ORDER_SNAPSHOT_BRACKET_NAMES: dict[int, str] = {
    0x01: "start",  # changes in key order follow
    0x02: "end",  # back to snapshots in seqno order
}

#: What kind of snapshot follows. In builds of May 2014 the number 0 meant memory and 1 disk.
SNAPSHOT_MARKER_FLAGS_NAMES: dict[int, str] = {
    0x01: "memory",  # the snapshot comes from memory
    0x02: "disk",  # the snapshot comes from a backfill
    0x04: "checkpoint",  # a new checkpoint starts
    0x08: "acknowledge",  # answer when the snapshot is complete (takeover)
    0x10: "history",  # all versions, not only the latest
    0x20: "may_contain_duplicates",  # a key may appear more than once
}

#: The outcome of a command, in bytes 6 and 7 of a response. A refusal may carry a text, a JSON error context (HELLO
#: xerror) or, with not_my_vbucket, a cluster map: its value is never judged.
STATUS_NAMES: dict[int, str] = {
    0x00: "success",  # the command was carried out
    0x01: "key_not_found",  # no such document; in UPR: no such stream
    # the document exists, or has another CAS; in UPR: the stream exists already, and in 6.5 an opaque that matches no
    # stream
    0x02: "key_exists",
    0x03: "too_big",  # the document is larger than the server takes
    0x04: "invalid_arguments",  # the request is malformed, or not allowed here
    0x05: "not_stored",  # the document was not written, for a reason that has no status of its own
    0x06: "delta_bad_value",  # the counter's document is not a number
    0x07: "not_my_vbucket",  # the node does not have the vbucket; the body may hold a cluster map
    0x08: "no_bucket",  # the connection has not selected a bucket
    0x09: "locked",  # the document is locked
    0x0A: "dcp_stream_not_found",  # no such stream; only after the control v7_dcp_status_codes, else key_not_found
    # the opaque is not the stream's; only after the control v7_dcp_status_codes, else key_exists
    0x0B: "opaque_no_match",
    0x0C: "would_throttle",  # the command would have been held back
    0x0D: "config_only",  # the bucket serves its configuration only
    0x0E: "not_locked",  # the document to unlock is not locked
    0x0F: "cas_value_invalid",  # a CAS that no document can have
    0x1F: "auth_stale",  # the log-in is no longer valid: log in again
    0x20: "auth_error",  # the log-in failed
    0x21: "auth_continue",  # the SASL exchange takes another step
    0x22: "out_of_range",  # seqnos that contradict each other or the snapshot
    0x23: "rollback",  # the consumer has to go back to the seqno in the body
    0x24: "no_access",  # the user lacks a privilege
    0x25: "not_initialised",  # the node is not ready yet
    0x26: "encryption_key_unavailable",  # the key that the data is encrypted with is not there
    0x27: "checksum_mismatch",  # the data does not have its checksum
    0x28: "expiry_overflow",  # an expiry time beyond what can be stored
    0x29: "lock_expiry_overflow",  # a lock time beyond what can be stored
    0x34: "scope_size_limit_exceeded",  # the scope holds as much data as it may
    0x50: "bucket_paused",  # the bucket takes no commands for now
    0x51: "cancelled",  # the command was given up before it was done
    0x80: "unknown_frame_info",  # a frame info that the server does not know
    0x81: "unknown_command",  # an opcode that the server does not know
    0x82: "out_of_memory",  # the server has no memory left
    0x83: "not_supported",  # known, but switched off or excluded by something else
    0x84: "internal_error",  # something went wrong inside the server
    0x85: "busy",  # the server is too busy
    0x86: "temporary_failure",  # not now: try again
    0x87: "xattr_invalid",  # malformed xattrs
    0x88: "unknown_collection",  # the collection does not exist
    0x89: "no_collections_manifest",  # the bucket has no collections manifest yet
    0x8A: "cannot_apply_manifest",  # the collections manifest cannot follow the present one
    0x8B: "manifest_is_ahead",  # the client knows a newer collections manifest than the server
    0x8C: "unknown_scope",  # the scope does not exist
    0x8D: "dcp_stream_id_invalid",  # a stream id that is missing, not expected or in use
    0xA0: "durability_invalid_level",  # no such durability level
    0xA1: "durability_impossible",  # too few replicas for the durability level
    0xA2: "sync_write_in_progress",  # another sync write of the document is pending
    0xA3: "sync_write_ambiguous",  # the time is up, and the sync write may still succeed
    0xA4: "sync_write_re_commit_in_progress",  # a prepare from before a failover is being committed again
    0xA5: "range_scan_cancelled",  # the range scan was given up
    0xA6: "range_scan_more",  # the range scan has more to give
    0xA7: "range_scan_complete",  # the range scan is done
    0xA8: "vb_uuid_not_equal",  # the vbucket has another uuid than the request names
}

#: Why a stream ended.
STREAM_END_REASON_NAMES: dict[int, str] = {
    0x00: "ok",  # the end seqno was reached, or a takeover is complete
    0x01: "closed",  # by a close stream
    0x02: "state_changed",  # the vbucket changed its state or was deleted; a rollback (6) is sent as this too
    0x03: "disconnected",  # defined, but never transmitted
    0x04: "too_slow",  # the consumer did not keep up and its cursor was dropped
    0x05: "backfill_failed",  # the producer could not read the changes from disk
    0x06: "rollback",  # rewritten to state_changed before sending
    0x07: "filter_empty",  # the collections or the scope of the filter were dropped
    0x08: "lost_privileges",  # the user may no longer read what is streamed
}

#: What kind of stream an add stream or a stream request asks for. Servers accept bits that they do not know (E-43).
STREAM_REQUEST_FLAGS_NAMES: dict[int, str] = {
    0x01: "takeover",  # hand the vbucket over at the end
    0x02: "disk_only",  # end at the last persisted seqno
    0x04: "to_latest",  # end at the high seqno of now
    0x08: "no_value",  # keys and metadata only; refused by 5.0, ignored by 7.0
    0x10: "active_vbucket_only",  # fail unless the vbucket is active
    0x20: "strict_vbucket_uuid",  # the uuid must match even at seqno 0
    # start at the current high seqno, whatever the start and snapshot fields say; in the documents since 7.2, in the
    # source since 7.6
    0x40: "from_latest",
    0x80: "ignore_purged_tombstones",  # no rollback only because tombstones that the consumer has not seen were purged
    0x100: "cache_transfer",  # only with takeover or active_vbucket_only
}

#: What happened to a scope or collection; the version says how the value tells it.
SYSTEM_EVENT_NAMES: dict[int, str] = {
    0x00: "collection_begin",  # A collection was created, or (8.0) flushed. Version 1 has a time to live.
    0x01: "collection_end",  # A collection was dropped.
    0x02: "collection_flush",  # A collection was flushed. Defined, and gone since 7.2.
    0x03: "scope_create",  # A scope was created.
    0x04: "scope_drop",  # A scope was dropped.
    # A collection's properties were changed; told to connections with flatbuffers_system_events only.
    0x05: "collection_modify",
}

#: What kind of stream an add stream asks for.
UPR_ADD_STREAM_FLAGS_NAMES: dict[int, str] = {
    0x01: "takeover",  # hand the vbucket over at the end
}

#: The role that the *receiver* of an open takes.
UPR_OPEN_FLAGS_NAMES: dict[int, str] = {
    0x01: "producer",  # set: the receiver becomes the producer; clear: the consumer
}

#: Why a stream ended. 1 became 2 in the shipped protocol (E-09).
UPR_STREAM_END_REASON_NAMES: dict[int, str] = {
    0x00: "ok",  # everything that was asked for has been sent
    0x01: "state_changed",  # the vbucket changed its state; in dcp this number means closed
}

#: A vbucket's state as documents and senders up to 4.1.0 number it (E-10).
UPR_VBUCKET_STATE_NAMES: dict[int, str] = {
    0x01: "active",  # serves clients
    0x02: "pending",  # about to become active
    0x03: "replica",  # follows an active one
    0x04: "dead",  # serves nobody
}

#: Which vbuckets GET_ALL_VB_SEQNOS reports.
VBUCKET_STATE_FILTER_NAMES: dict[int, str] = {
    0x00: "alive",  # every vbucket that is not dead
    0x01: "active",  # active vbuckets only
    0x02: "replica",  # replicas only
    0x03: "pending",  # pending vbuckets only
    0x04: "dead",  # dead vbuckets only
}

#: A vbucket's state as servers number it. Senders up to 4.1.0 and all 3.x swap 2 and 3 (E-10).
VBUCKET_STATE_NAMES: dict[int, str] = {
    0x01: "active",  # serves clients
    0x02: "replica",  # follows an active one; pending when sent by 3.x or 4.0 to 4.1.0
    0x03: "pending",  # about to become active; replica when sent by 3.x or 4.0 to 4.1.0
    0x04: "dead",  # serves nobody
}

# Opcodes by dialect; a server's pushes outside UPR have numbers of their own.

OPCODES: dict[str, dict[int, str]] = {
    "dcp": {
        0x50: "open",
        0x51: "add_stream",
        0x52: "close_stream",
        0x53: "stream_request",
        0x54: "get_failover_log",
        0x55: "stream_end",
        0x56: "snapshot_marker",
        0x57: "mutation",
        0x58: "deletion",
        0x59: "expiration",
        0x5A: "flush",
        0x5B: "set_vbucket_state",
        0x5C: "noop",
        0x5D: "buffer_ack",
        0x5E: "control",
        0x5F: "system_event",
        0x60: "prepare",
        0x61: "seqno_acknowledged",
        0x62: "commit",
        0x63: "abort",
        0x64: "seqno_advanced",
        0x65: "oso_snapshot",
        0x66: "cache_transfer",
        0x67: "cache_transfer_end",
    },
    "upr": {
        0x50: "open",
        0x51: "add_stream",
        0x52: "close_stream",
        0x53: "stream_request",
        0x54: "get_failover_log",
        0x55: "stream_end",
        0x56: "snapshot_marker",
        0x57: "mutation",
        0x58: "deletion",
        0x59: "expiration",
        0x5A: "flush",
        0x5B: "set_vbucket_state",
        0x5C: "noop",
        0x5D: "buffer_ack",
        0x5E: "control",
    },
    "draft": {
        0x01: "upr_request",
        0x02: "upr_response",
        0x03: "upr_stream_start",
        0x04: "upr_stream_message",
        0x05: "upr_stream_end",
    },
    "upr-proto": {
        0x50: "stream_request",
        0x51: "get_failover_log",
        0x52: "stream_start",
        0x53: "stream_end",
        0x54: "snapshot_start",
        0x55: "snapshot_end",
        0x56: "mutation",
        0x57: "deletion",
        0x58: "expiration",
        0x59: "flush",
        0x5A: "set_vbucket_state",
    },
    "memcached": {
        0x00: "get",
        0x01: "set",
        0x02: "add",
        0x03: "replace",
        0x04: "delete",
        0x05: "increment",
        0x06: "decrement",
        0x07: "quit",
        0x08: "kv_flush",
        0x09: "getq",
        0x0A: "kv_noop",
        0x0B: "version",
        0x0C: "getk",
        0x0D: "getkq",
        0x0E: "append",
        0x0F: "prepend",
        0x10: "stat",
        0x11: "setq",
        0x12: "addq",
        0x13: "replaceq",
        0x14: "deleteq",
        0x15: "incrementq",
        0x16: "decrementq",
        0x17: "quitq",
        0x18: "flushq",
        0x19: "appendq",
        0x1A: "prependq",
        0x1B: "verbosity",
        0x1C: "touch",
        0x1D: "gat",
        0x1E: "gatq",
        0x1F: "hello",
        0x20: "sasl_list_mechs",
        0x21: "sasl_auth",
        0x22: "sasl_step",
        0x23: "ioctl_get",
        0x24: "ioctl_set",
        0x25: "config_validate",
        0x26: "config_reload",
        0x27: "audit_put",
        0x28: "audit_config_reload",
        0x29: "shutdown",
        0x2A: "set_bucket_throttle_properties",
        0x2B: "set_bucket_data_limit_exceeded",
        0x2C: "set_node_throttle_properties",
        0x2D: "set_active_encryption_keys",
        0x2E: "prune_encryption_keys",
        0x30: "rget",
        0x31: "rset",
        0x32: "rsetq",
        0x33: "rappend",
        0x34: "rappendq",
        0x35: "rprepend",
        0x36: "rprependq",
        0x37: "rdelete",
        0x38: "rdeleteq",
        0x39: "rincr",
        0x3A: "rincrq",
        0x3B: "rdecr",
        0x3C: "rdecrq",
        0x3D: "set_vbucket",
        0x3E: "get_vbucket",
        0x3F: "del_vbucket",
        0x40: "tap_connect",
        0x41: "tap_mutation",
        0x42: "tap_delete",
        0x43: "tap_flush",
        0x44: "tap_opaque",
        0x45: "tap_vbucket_set",
        0x46: "tap_checkpoint_start",
        0x47: "tap_checkpoint_end",
        0x48: "get_all_vb_seqnos",
        0x49: "get_ex",
        0x4A: "get_ex_replica",
        0x70: "get_fusion_storage_snapshot",
        0x71: "release_fusion_storage_snapshot",
        0x72: "mount_fusion_vbucket",
        0x73: "unmount_fusion_vbucket",
        0x74: "sync_fusion_logstore",
        0x75: "start_fusion_uploader",
        0x76: "stop_fusion_uploader",
        0x77: "delete_fusion_namespace",
        0x78: "get_fusion_namespaces",
        0x80: "stop_persistence",
        0x81: "start_persistence",
        0x82: "set_param",
        0x83: "get_replica",
        0x84: "set_chronicle_auth_token",
        0x85: "create_bucket",
        0x86: "delete_bucket",
        0x87: "list_buckets",
        0x88: "expand_bucket",
        0x89: "select_bucket",
        0x8A: "pause_bucket",
        0x8B: "resume_bucket",
        0x8C: "validate_bucket_config",
        0x90: "start_replication",
        0x91: "observe_seqno",
        0x92: "observe",
        0x93: "evict_key",
        0x94: "get_locked",
        0x95: "unlock_key",
        0x96: "kv_get_failover_log",
        0x97: "last_closed_checkpoint",
        0x98: "restore_file",
        0x99: "restore_abort",
        0x9A: "restore_complete",
        0x9B: "online_update_start",
        0x9C: "online_update_complete",
        0x9D: "online_update_revert",
        0x9E: "deregister_tap_client",
        0x9F: "reset_replication_chain",
        0xA0: "get_meta",
        0xA1: "getq_meta",
        0xA2: "set_with_meta",
        0xA3: "setq_with_meta",
        0xA4: "add_with_meta",
        0xA5: "addq_with_meta",
        0xA6: "snapshot_vb_states",
        0xA7: "vbucket_batch_count",
        0xA8: "del_with_meta",
        0xA9: "delq_with_meta",
        0xAA: "create_checkpoint",
        0xAC: "notify_vbucket_update",
        0xAD: "enable_traffic",
        0xAE: "disable_traffic",
        0xAF: "ifconfig",
        0xB0: "change_vb_filter",
        0xB1: "checkpoint_persistence",
        0xB2: "return_meta",
        0xB3: "compact_db",
        0xB4: "set_cluster_config",
        0xB5: "get_cluster_config",
        0xB6: "get_random_key",
        0xB7: "seqno_persistence",
        0xB8: "get_keys",
        0xB9: "set_collections_manifest",
        0xBA: "get_collections_manifest",
        0xBB: "get_collection_id",
        0xBC: "get_scope_id",
        0xC1: "set_drift_counter_state",
        0xC2: "get_adjusted_time",
        0xC5: "subdoc_get",
        0xC6: "subdoc_exists",
        0xC7: "subdoc_dict_add",
        0xC8: "subdoc_dict_upsert",
        0xC9: "subdoc_delete",
        0xCA: "subdoc_replace",
        0xCB: "subdoc_array_push_last",
        0xCC: "subdoc_array_push_first",
        0xCD: "subdoc_array_insert",
        0xCE: "subdoc_array_add_unique",
        0xCF: "subdoc_counter",
        0xD0: "subdoc_multi_lookup",
        0xD1: "subdoc_multi_mutation",
        0xD2: "subdoc_get_count",
        0xD3: "subdoc_replace_body_with_xattr",
        0xDA: "range_scan_create",
        0xDB: "range_scan_continue",
        0xDC: "range_scan_cancel",
        0xE0: "prepare_snapshot",
        0xE1: "release_snapshot",
        0xE2: "download_snapshot",
        0xE3: "get_file_fragment",
        0xF0: "scrub",
        0xF1: "isasl_refresh",
        0xF2: "ssl_certs_refresh",
        0xF3: "get_cmd_timer",
        0xF4: "set_ctrl_token",
        0xF5: "get_ctrl_token",
        0xF6: "update_external_user_permissions",
        0xF7: "rbac_refresh",
        0xF8: "auth_provider",
        0xFB: "drop_privilege",
        0xFC: "adjust_timeofday",
        0xFD: "ewouldblock_ctl",
        0xFE: "get_error_map",
    },
}
PUSH_OPCODES: dict[int, str] = {
    0x01: "cluster_map_change",
    0x02: "authenticate",
    0x03: "active_external_users",
    0x04: "get_authorization",
}
#: Where a connection of a dialect looks an opcode up, in order.
SEARCH: dict[str, tuple[str, ...]] = {
    "dcp": ("dcp", "memcached"),
    "upr": ("upr", "dcp", "memcached"),
    "draft": ("draft", "memcached"),
    "upr-proto": ("upr-proto", "memcached"),
    "memcached": ("memcached", "dcp"),
}
#: Dialects that read each other's layouts where their own do not fit.
SIBLINGS: dict[str, str] = {
    "dcp": "upr",
    "upr": "dcp",
}


def _names(dialect: str) -> dict[int, str]:
    """Return the names of all opcodes on a connection of a dialect, without the pushes'."""
    return {opcode: name for table in reversed(SEARCH[dialect]) for opcode, name in OPCODES[table].items()}


#: System events: the fields of a value, with their sizes, by event and version.
EVENT_FIELDS: dict[tuple[int, int], dict[str, int]] = {
    (0, 0): {"manifest_uid": 8, "scope_id": 4, "collection_id": 4},
    (0, 1): {"manifest_uid": 8, "scope_id": 4, "collection_id": 4, "max_ttl": 4},
    (1, 0): {"manifest_uid": 8, "scope_id": 4, "collection_id": 4},
    (3, 0): {"manifest_uid": 8, "scope_id": 4},
    (4, 0): {"manifest_uid": 8, "scope_id": 4},
}

#: FlatBuffers tables of system events: their slots with the sizes of numbers; 0: a text.
TABLES: dict[str, dict[str, int]] = {
    "": {},  # what other values have
    "Collection": {
        "manifest_uid": 8,  # the collections manifest after the change
        "scope_id": 4,  # id of the scope
        "collection_id": 4,  # id of the collection
        "ttl_valid": 1,  # whether max_ttl says anything
        "max_ttl": 4,  # the collection's longest time to live
        "collection_name": 0,  # name of the collection, as in the key
        "history": 1,  # whether every version of the collection's documents is kept
        "default_max_visible_seqno": 8,  # last visible seqno of the default collection; the server's own affair (7.2.4)
        "metered": 1,  # whether use of the collection is metered (7.6)
        "flush_uid": 8,  # the manifest in which the collection was last flushed; 0: never (8.0)
    },
    "DroppedCollection": {
        "manifest_uid": 8,  # the collections manifest after the change
        "scope_id": 4,  # id of the scope
        "collection_id": 4,  # id of the collection
        "system_collection": 1,  # whether the server's own collection was dropped (7.6)
    },
    "Scope": {
        "manifest_uid": 8,  # the collections manifest after the change
        "scope_id": 4,  # id of the scope
        "scope_name": 0,  # name of the scope, as in the key
    },
    "DroppedScope": {
        "manifest_uid": 8,  # the collections manifest after the change
        "scope_id": 4,  # id of the scope
        "system_scope": 1,  # whether the server's own scope was dropped (7.6)
    },
}
#: System events whose value is a table, by event and version.
EVENT_TABLES: dict[tuple[int, int], str] = {
    (0, 2): "Collection",  # collection_begin
    (1, 2): "DroppedCollection",  # collection_end
    (3, 2): "Scope",  # scope_create
    (4, 2): "DroppedScope",  # scope_drop
    (5, 2): "Collection",  # collection_modify
}


# Headers: which of their forms a magic has, and fields that the message fills in.

DRAFT_FORM = "draft header"
HEADER_FORMS: dict[int, str] = {
    0x80: "request header",
    0x82: "request header",
    0x81: "response header",
    0x83: "response header",
    0x08: "flexible request header",
    0x18: "flexible response header",
}


class Form(NamedTuple):
    """How a body is recognised, and what it implies for the header."""

    dialect: str
    opcode: int
    response: bool = False
    status: int = 0
    subtypes: tuple[int, ...] = ()  #: draft only
    extras_size: int = 0
    version: int | None = None  #: what the last extras byte must be
    value_size: int = 0  #: fixed fields at the start of the value
    exact: bool = False  #: a form that is only put up with: believed when its value has exactly this size
    takes_value: bool = True
    server_push: bool = False
    uncounted: bool = False  #: servers have sent it with a stream id that the header does not count (E-41)


class Sizes(NamedTuple):
    """The parts of a body in bytes, cut to what the body can hold."""

    framing: int
    extras: int
    key: int
    value: int


def _only_in(*forms: str) -> Callable[[Packet], bool]:
    """Make the condition of a field that only some forms of the header have."""
    return lambda packet: cast("UPR", packet).header_form() in forms


def _if_given(name: str, size: int) -> Callable[[Packet], bool]:
    """Make the condition of a field that a frame info may leave out: there if its size is, or if it was given."""

    def there(packet: Packet) -> bool:
        known = packet.getfieldval("size")
        return packet.getfieldval(name) is not None if known is None else bool(known >= size)

    return there


class _Computed(EnumField[int]):
    """A number that the message implies unless it is given; in flexible frames it can be narrower."""

    __slots__ = ["narrow"]

    def __init__(self, name: str, fmt: str, names: dict[int, str] | None = None, flexible: str | None = None) -> None:
        super().__init__(name, None, names or {}, fmt)
        self.narrow = struct.Struct(f"!{flexible or fmt}")

    def _struct(self, packet: Packet) -> struct.Struct:
        return self.narrow if cast("UPR", packet).is_flexible() else self.struct

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write the number, or what it should be."""
        number = cast("UPR", pkt).implied(self.name) if val is None else val
        try:
            return s + self._struct(pkt).pack(number)
        except struct.error as error:
            raise ValueError(f"{self.name}: {number} does not fit: {error}") from error

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read the number."""
        # The magic itself says which form the header has, so it is never the narrow one.
        form = self.struct if self.name == "magic" else self._struct(pkt)
        return s[form.size :], form.unpack_from(s)[0]


class _Opcode(_Computed):
    """An opcode: a server's pushes have names of their own."""

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Take a number or a name."""
        if isinstance(x, str) and self.s2i is not None and x not in self.s2i:
            return next(opcode for opcode, name in PUSH_OPCODES.items() if name == x)
        return super().any2i(pkt, x)

    def i2repr(self, pkt: Packet | None, x: Any) -> Any:
        """Write the name."""
        magic = MAGICS.get(pkt.getfieldval("magic")) if pkt is not None else None
        if magic is not None and magic.server_push:
            return PUSH_OPCODES.get(x, repr(x))
        return super().i2repr(pkt, x)


class _EventField(ConditionalField):
    """A field of a system event's value. Either all that the event and its version have are there, or none is."""

    def __init__(self, field: Field[Any, Any]) -> None:
        field.default = None  # not there unless given
        super().__init__(field, self._given)

    def _given(self, packet: Packet) -> bool:
        sizes = self._sizes(packet)
        return self.fld.name in sizes and any(packet.getfieldval(name) is not None for name in sizes)

    def _sizes(self, packet: Packet) -> dict[str, int]:
        return EVENT_FIELDS.get((packet.getfieldval("event"), packet.getfieldval("event_version")), {})

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read the field, unless the value is too short for the event."""
        sizes = self._sizes(pkt)
        first = next(iter(sizes), "")
        whole = len(s) >= sum(sizes.values()) if self.fld.name == first else first in pkt.fields
        return self.fld.getfield(pkt, s) if self.fld.name in sizes and whole else (s, None)


class EventTable(dict[str, Any]):
    """Numbers and texts (bytes) of a FlatBuffers table, by name. What is not there has its default: 0, or no text."""

    raw = b""  #: what it was read from

    def copy(self) -> EventTable:
        """Make another one."""
        other = EventTable(self)
        other.raw = self.raw
        return other


def _read_table(slots: dict[str, int], data: bytes) -> EventTable | None:
    """Read a table; None where anything leads outside of the data."""
    found = EventTable()
    try:
        (place,) = struct.unpack_from("<I", data)
        vtable = place - struct.unpack_from("<i", data, place)[0]
        listed, size = struct.unpack_from("<HH", data, max(vtable, 0))
        if vtable < 0 or listed < 4 or listed % 2 or size < 4 or max(vtable + listed, place + size) > len(data):
            return None
        for number, (name, width) in enumerate(slots.items()):
            at = 4 + 2 * number
            inside = struct.unpack_from("<H", data, vtable + at)[0] if at < listed else 0
            if not inside:
                continue
            if inside < 4 or inside + (width or 4) > size:
                return None
            start = place + inside
            value = int.from_bytes(data[start : start + (width or 4)], "little")
            if not width:
                start, distance = start + value, value
                (length,) = struct.unpack_from("<I", data, start)
                if not distance or data[start + 4 + length : start + 5 + length] != b"\0":
                    return None
                found[name] = data[start + 4 : start + 4 + length]
            else:
                found[name] = value
    except struct.error:
        return None
    found.raw = data
    return found


def _pack_table(slots: dict[str, int], given: dict[str, Any]) -> bytes:
    """Write a table: what has its default is left out, wide numbers come first."""
    if unknown := given.keys() - slots.keys():
        raise ValueError(f"no slots of this table: {', '.join(sorted(unknown))}")
    inside: dict[str, int] = {}
    size = 4
    for name, width in sorted(slots.items(), key=lambda slot: -(slot[1] or 4)):
        if given.get(name):
            inside[name] = size
            size += width or 4
    size += -size % 4
    used = max((number for number, name in enumerate(slots, 1) if name in inside), default=0)
    vtable = struct.pack(f"<{2 + used}H", 4 + 2 * used, size, *[inside.get(name, 0) for name in [*slots][:used]])
    place = 4 + len(vtable)
    place += -(place + 4) % 8
    body = bytearray(struct.pack("<i", len(vtable)).ljust(size, b"\0"))
    texts = b""
    for name, at in inside.items():
        if width := slots[name]:
            body[at : at + width] = given[name].to_bytes(width, "little")
        else:
            struct.pack_into("<I", body, at, size - at + len(texts))
            texts += struct.pack("<I", len(given[name])) + given[name] + bytes(4 - len(given[name]) % 4)
    return struct.pack("<I", place).ljust(place - len(vtable), b"\0") + vtable + bytes(body) + texts


class _TableField(Field[Any, Any]):
    """The FlatBuffers table that is the value of a system event, as a dict; bytes that are none stay in the value."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, "B")

    def _slots(self, packet: Packet) -> dict[str, int]:
        return TABLES[EVENT_TABLES.get((packet.getfieldval("event"), packet.getfieldval("event_version")), "")]

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write the table: as it was read, if nothing in it was changed."""
        if val is None:
            return s
        slots = self._slots(pkt)
        raw = val.raw if isinstance(val, EventTable) else b""
        return s + (raw if raw and _read_table(slots, raw) == val else _pack_table(slots, val))

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read the table, if the event has one and the bytes are it."""
        slots = self._slots(pkt)
        found = _read_table(slots, s) if slots else None
        return (s, None) if found is None else (b"", found)


class _Records(PacketListField):
    """Records until the value ends, of one size or of sizes that they tell; what is left over is none."""

    __slots__ = ["each", "tail"]

    def __init__(self, name: str, record: type[Packet], each: int, tail: tuple[str, ...] = ()) -> None:
        super().__init__(name, [], record)
        self.each = each
        self.tail = tail

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, list[Any]]:  # noqa: ARG002 - scapy's signature
        """Read whole records."""
        found: list[Any] = []
        at = 0
        while (end := at + self.each) <= len(s) and len(found) < MAX_RECORDS:
            if self.tail:
                head = self.cls(s[at:end])
                end += sum(head.getfieldval(length) for length in self.tail)
                if end > len(s):
                    break
            found.append(self.cls(s[at:end]))
            at = end
        return s[at:], found


class _Messages(PacketListField):
    """Whole messages, one after the other, each a packet of its own."""

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, list[Any]]:
        """Read whole messages."""
        header = _header_below(pkt)
        found: list[Any] = []
        at = 0
        while size := _whole(s, at):
            found.append(header(s[at : at + size]))
            at += size
        return s[at:], found


class _InfoId(ShortField):
    """A frame info's id. It shares its byte with the size, which writes both."""

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:  # noqa: ARG002 - scapy's signature
        """Leave it to the size."""
        return s

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, int]:  # noqa: ARG002 - scapy's signature
        """Look ahead."""
        return s, _info_tag(s)[0]


class _InfoSize(Field[Any, Any]):
    """The byte with a frame info's id and size; from 15 on each goes on in a byte of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, "B")

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write id and size."""
        if val is None:
            val = cast("UPRFrameInfo", pkt).data_size()
        number = pkt.getfieldval("id")
        more = [rest - 15 for rest in (number, val) if rest >= 15]
        return s + bytes([min(number, 15) << 4 | min(val, 15), *more])

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, int]:  # noqa: ARG002 - scapy's signature
        """Read the size, passing over the id."""
        _, size, at = _info_tag(s)
        return s[at:], size


def _info_tag(data: bytes) -> tuple[int, int, int]:
    """Return id and size of the frame info that starts here, and where its data do."""
    number, size, at = data[0] >> 4, data[0] & 15, 1
    if number == 15 and at < len(data):
        number, at = number + data[at], at + 1
    if size == 15 and at < len(data):
        size, at = size + data[at], at + 1
    return number, size, at


def _info_class(packet: Packet, _found: list[Any], last: Packet | None, rest: bytes) -> type[Packet]:
    """Choose the class of the next frame info: its own if it has a size that it may have."""
    header = cast("UPR", packet)
    if last is None:
        rest = rest[: header.sizes().framing]
    if not rest:
        return UPRFrameInfo
    number, size, at = _info_tag(rest)
    found = _INFO_BY_ID.get((header.is_response(), number), UPRFrameInfo)
    fits = len(rest) >= at + size and (found.sizes is None or size in found.sizes)
    return found if fits else UPRFrameInfo


def _announced(data: bytes, at: int = 0) -> int | None:
    """Return the size of the message whose header starts here, or None where no header can start."""
    if data[at] not in MAGICS:
        return None
    body = int.from_bytes(data[at + 8 : at + 12], "big") if len(data) >= at + HEADER_SIZE else 0
    return HEADER_SIZE + body if body <= MAX_BODY else None


def _whole(data: bytes, at: int = 0) -> int:
    """Return the size of the message that starts here, or 0 where there is none or it is not all there."""
    size = _announced(data, at) if at < len(data) else None
    return size if size is not None and at + size <= len(data) else 0


def _header_below(packet: Packet) -> type[UPR]:
    """Return the class of the nearest header below a layer."""
    layer = packet.underlayer
    while layer is not None and not isinstance(layer, UPR):
        layer = layer.underlayer
    return UPR if layer is None else type(layer)


def _framing_length(packet: Packet) -> int:
    return cast("UPR", packet).sizes().framing


def _extras_length(packet: Packet) -> int:
    header = packet.underlayer
    return header.sizes().extras if isinstance(header, UPR) else 0


def _key_length(packet: Packet) -> int:
    header = packet.underlayer
    return header.sizes().key if isinstance(header, UPR) else 0


class _Delimited(Packet):
    """A layer that knows where it ends before it is read, and gives its last field all that is left."""

    match_subclass = True

    def own_size(self, data: bytes) -> int:
        """Return how many of these bytes are this layer's."""
        raise NotImplementedError

    def do_dissect(self, s: bytes) -> bytes:
        """Read this layer's bytes and return the others."""
        size = self.own_size(s)
        rest: bytes = super().do_dissect(s[:size])
        return rest + s[size:]


class UPRFrameInfo(_Delimited):
    """An object of the framing extras; here one that is unknown, or has a size that it should not have."""

    sizes: ClassVar[tuple[int, ...] | None] = None
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 0),
        _InfoSize("size"),  # bytes of data
        StrField("data", b""),
    ]

    def own_size(self, data: bytes) -> int:
        """Return the size of tag and data."""
        _, size, at = _info_tag(data)
        return at + size

    def data_size(self) -> int:
        """Return how many bytes the fields behind id and size make."""
        data = b""
        for field in self.fields_desc[2:]:
            data = field.addfield(self, data, self.getfieldval(field.name))
        return len(data)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Leave what follows to the list."""
        return b"", s


class UPRBarrierInfo(UPRFrameInfo):
    """Frame info 0 of a request: Wait for all earlier commands."""

    sizes: ClassVar[tuple[int, ...] | None] = (0,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 0),
        _InfoSize("size"),  # bytes of data
        StrField("data", b""),  # what is left
    ]


class UPRDurabilityInfo(UPRFrameInfo):
    """Frame info 1 of a request: A sync write's level, with an optional time-out."""

    sizes: ClassVar[tuple[int, ...] | None] = (1, 3)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 1),
        _InfoSize("size"),  # bytes of data
        ByteEnumField("durability_level", 0, DURABILITY_LEVEL_NAMES),  # requested level
        # milliseconds; left out: the server's default
        ConditionalField(ShortField("durability_timeout", None), _if_given("durability_timeout", 3)),
        StrField("data", b""),  # what is left
    ]


class UPRStreamIdInfo(UPRFrameInfo):
    """Frame info 2 of a request: Tells streams of one vbucket apart: three bytes on the wire, the first one 0x22."""

    sizes: ClassVar[tuple[int, ...] | None] = (2,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 2),
        _InfoSize("size"),  # bytes of data
        ShortField("stream_id", 0),  # which of a vbucket's streams
        StrField("data", b""),  # what is left
    ]


class UPROpenTracingContextInfo(UPRFrameInfo):
    """Frame info 3 of a request: A prototype that was not released."""

    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 3),
        _InfoSize("size"),  # bytes of data
        StrField("data", b""),  # what is left
    ]


class UPRImpersonateUserInfo(UPRFrameInfo):
    """Frame info 4 of a request: Run the command as this user."""

    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 4),
        _InfoSize("size"),  # bytes of data
        StrField("data", b""),  # what is left
    ]


class UPRPreserveTtlInfo(UPRFrameInfo):
    """Frame info 5 of a request: Keep the document's expiry."""

    sizes: ClassVar[tuple[int, ...] | None] = (0,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 5),
        _InfoSize("size"),  # bytes of data
        StrField("data", b""),  # what is left
    ]


class UPRImpersonateExtraPrivilegeInfo(UPRFrameInfo):
    """Frame info 6 of a request: One more privilege for the command."""

    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 6),
        _InfoSize("size"),  # bytes of data
        StrField("data", b""),  # what is left
    ]


class UPRImpersonateTokenInfo(UPRFrameInfo):
    """Frame info 7 of a request: Run the command with this authentication token."""

    sizes: ClassVar[tuple[int, ...] | None] = (2,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 7),
        _InfoSize("size"),  # bytes of data
        XShortField("auth_token_id", 0),  # id of an authentication token
        StrField("data", b""),  # what is left
    ]


class UPRServerDurationInfo(UPRFrameInfo):
    """Frame info 0 of a response: How long the server worked on the command."""

    sizes: ClassVar[tuple[int, ...] | None] = (2,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 0),
        _InfoSize("size"),  # bytes of data
        ShortField("server_duration", 0),  # encoded: microseconds = value ** 1.74 / 2
        StrField("data", b""),  # what is left
    ]


class UPRReadUnitsInfo(UPRFrameInfo):
    """Frame info 1 of a response: Metering: units read."""

    sizes: ClassVar[tuple[int, ...] | None] = (2,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 1),
        _InfoSize("size"),  # bytes of data
        ShortField("read_units", 0),  # units read
        StrField("data", b""),  # what is left
    ]


class UPRWriteUnitsInfo(UPRFrameInfo):
    """Frame info 2 of a response: Metering: units written."""

    sizes: ClassVar[tuple[int, ...] | None] = (2,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 2),
        _InfoSize("size"),  # bytes of data
        ShortField("write_units", 0),  # units written
        StrField("data", b""),  # what is left
    ]


class UPRThrottleDurationInfo(UPRFrameInfo):
    """Frame info 3 of a response: How long the command was held back."""

    sizes: ClassVar[tuple[int, ...] | None] = (2,)
    fields_desc: ClassVar[list[AnyField]] = [
        _InfoId("id", 3),
        _InfoSize("size"),  # bytes of data
        ShortField("throttle_duration", 0),  # encoded like the server duration
        StrField("data", b""),  # what is left
    ]


class UPR(Packet):
    """The header of a message on a connection of the dialect dcp: since 3.0 (2014).

    The protocol as shipped, under its later name. Opcodes 0x50 to 0x67; the snapshot marker announces a range of
    seqnos and precedes the changes.
    """

    dialect: ClassVar[str] = "dcp"
    match_subclass = True
    fields_desc: ClassVar[list[AnyField]] = [
        _Computed("magic", "B", {value: magic.name for value, magic in MAGICS.items()}),  # kind of the frame
        _Opcode("opcode", "B", _names("dcp")),  # which command; a response repeats that of its request
        # bytes of framing extras
        ConditionalField(
            _Computed("framing_length", "B"),
            _only_in("flexible request header", "flexible response header"),
        ),
        _Computed("key_length", "H", flexible="B"),  # bytes of key
        _Computed("extras_length", "B"),  # bytes of extras
        FlagsField("datatype", 0, 8, DATATYPE_NAMES),  # how the value is encoded
        # vbucket id; 0 where a command has none
        ConditionalField(ShortField("vbucket", 0), _only_in("request header", "flexible request header")),
        # outcome of the command
        ConditionalField(
            _Computed("status", "H", STATUS_NAMES),
            _only_in("response header", "flexible response header"),
        ),
        _Computed("body_length", "I"),  # bytes that follow the header, everything included
        # chosen by the requester, repeated by the answer; in a stream, that of its stream request. Compare it as four
        # bytes: a server's counter is little-endian on most machines
        XIntField("opaque", 0),
        XLongField("cas", 0),  # version of the document, or 0
        PacketListField("framing", [], next_cls_cb=_info_class, length_from=_framing_length),  # frame infos
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_fields: Any) -> type[Packet]:
        """Leave what is no whole message to Raw."""
        return cls if not _pkt or _whole(_pkt) else Raw

    @classmethod
    def tcp_reassemble(cls, data: bytes, metadata: dict[str, Any], _session: dict[str, Any]) -> Packet | None:
        """Give scapy's TCPSession the whole messages of a stream; None: more bytes are needed."""
        end = 0
        while size := _whole(data, end):
            end += size
        over = bool(metadata.get("tcp_end"))
        if not end:
            announced = _announced(data) if data else HEADER_SIZE
            if announced is None or over:
                return Raw(data)  # the middle of a message, or one that will not be completed
            if announced > PATIENCE:
                metadata["tcp_min_len"] = announced
            return None
        found = cast("Packet", cls(data[:end]))
        if end < len(data):
            found.add_payload(Raw(data[end:]) if over else Padding(data[end:]))
        return found

    def body_form(self) -> Form | None:
        """Return what the body's class implies, if there is a body that does."""
        return self.payload.form if isinstance(self.payload, UPRBody) else None

    def is_response(self) -> bool:
        """Tell whether the magic is, or will be, that of a response."""
        magic = MAGICS.get(self.getfieldval("magic"))
        if magic is not None:
            return magic.response
        form = self.body_form()
        return form.response if form is not None else self.fields.get("status") is not None

    def is_flexible(self) -> bool:
        """Tell whether framing extras may follow the header."""
        given = self.getfieldval("magic")
        magic = MAGICS.get(given)
        return bool(self.getfieldval("framing")) and given is None if magic is None else magic.flexible

    def is_draft(self) -> bool:
        """Tell whether the header has the draft's form."""
        if self.dialect != "draft" or self.number("opcode") not in OPCODES["draft"]:
            return False
        magic = MAGICS.get(self.number("magic"))
        return magic is not None and not magic.flexible and not magic.server_push

    def header_form(self) -> str:
        """Name the header's form; a magic that is none has a request's."""
        return DRAFT_FORM if self.is_draft() else HEADER_FORMS.get(self.number("magic"), HEADER_FORMS[_REQUEST])

    def number(self, name: str) -> int:
        """Return a number of the header as it is or will be on the wire."""
        given = self.getfieldval(name)
        return self.implied(name) if given is None else int(given)

    def implied(self, name: str) -> int:
        """Return what a number of the header should be, going by the body."""
        form = self.body_form()
        body = self.payload
        if name == "magic":
            push = form is not None and form.server_push
            return _MAGIC_OF.get((self.is_response(), self.is_flexible(), push), _REQUEST)
        if name == "framing_length":
            return sum(len(bytes(info)) for info in self.getfieldval("framing"))
        if name == "body_length":
            framing = self.implied("framing_length") if self.is_flexible() else 0
            return framing + self._body_size()
        if name == "extras_length":
            if form is not None:
                return form.extras_size
            return len(body.getfieldval("extras")) if isinstance(body, UPRBody) else 0
        if name == "key_length":
            return len(body.getfieldval("key")) if isinstance(body, UPRBody) else 0
        if form is None:
            return 0
        if name == "subtype":
            return form.subtypes[0] if form.subtypes else 0
        return form.opcode if name == "opcode" else form.status

    def _body_size(self) -> int:
        """Return the size of the body layer; what is behind it is another message, or none."""
        if isinstance(self.payload, UPRBody):
            return len(self.payload.self_build())
        return 0 if isinstance(self.payload, NoPayload | Padding | UPR | UPRMore) else len(self.payload)

    def sizes(self) -> Sizes:
        """Return how the body of a dissected message divides."""
        framing = (self.getfieldval("framing_length") or 0) if self.is_flexible() else 0
        extras, key = self.number("extras_length"), self.number("key_length")
        body = self.number("body_length")
        if not framing and self._uncounted(body - extras - key):
            framing = _STREAM_ID_SIZE
        framing = min(framing, body)
        extras = min(extras, body - framing)
        key = min(key, body - framing - extras)
        return Sizes(framing, extras, key, body - framing - extras - key)

    def _uncounted(self, surplus: int) -> bool:
        """Recognise a stream id that the header does not count (E-41)."""
        if not self.is_flexible() or (self.table(), self.number("opcode")) not in _UNCOUNTED:
            return False
        # Without a value there are exactly 3 bytes too many; with one, only a datatype explains the others.
        fits = surplus == _STREAM_ID_SIZE or (surplus > _STREAM_ID_SIZE and self.getfieldval("datatype") != 0)
        return fits and self.original[HEADER_SIZE : HEADER_SIZE + 1] == _STREAM_ID_TAG

    def table(self) -> str | None:
        """Return the dialect that gives the opcode its meaning here."""
        opcode = self.number("opcode")
        magic = MAGICS.get(self.number("magic"))
        if magic is not None and magic.server_push:
            return _PUSH_TABLE if opcode in PUSH_OPCODES else None
        tables = ["draft"] if self.is_draft() else [table for table in SEARCH[self.dialect] if table != "draft"]
        return next((table for table in tables if opcode in OPCODES[table]), None)

    def message_name(self) -> str:
        """Return the message's name, or its opcode in hexadecimal."""
        opcode, table = self.number("opcode"), self.table()
        magic = MAGICS.get(self.number("magic"))
        if magic is not None and magic.server_push:
            return PUSH_OPCODES.get(opcode, f"0x{opcode:02x}")
        return f"0x{opcode:02x}" if table is None else OPCODES[table][opcode]

    def mysummary(self) -> str:
        """Name the message in a packet's summary."""
        return f"{type(self).__name__} {self.message_name()} {'response' if self.is_response() else 'request'}"

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Choose the body's class by opcode, magic, status or subtype, extras length, version byte and value size."""
        table, sizes = self.table(), self.sizes()
        if table is None:
            return UPRBody
        version = payload[sizes.extras - 1 : sizes.extras] if sizes.extras else b""
        for dialect in (table, SIBLINGS.get(table)):
            if dialect is not None:
                found = _fitting(self._known(dialect), sizes, version)
                if found is not None:
                    return found
        return UPRBody

    def _known(self, dialect: str) -> list[type[UPRBody]]:
        """List the bodies that a message like this one can have."""
        response = self.is_response()
        magic = MAGICS.get(self.number("magic"))
        push = magic is not None and magic.server_push
        known = _BODIES.get((dialect, self.number("opcode"), response, push), [])
        if dialect == "draft":
            return [body for body in known if self.number("subtype") in body.forms().subtypes]
        if not response:
            return known
        answers = [body for body in known if body.forms().status == self.number("status")]
        # A refusal keeps the extras of a success (add stream), or has none.
        return answers or [body for body in known if body.forms().status == 0 and body.forms().extras_size]

    def do_dissect_payload(self, s: bytes) -> None:
        """Give a message without a body its layer too."""
        if s:
            super().do_dissect_payload(s)
        else:
            self.add_payload(self.guess_payload_class(b"")(_internal=1, _underlayer=self))


def _fitting(known: list[type[UPRBody]], sizes: Sizes, version: bytes) -> type[UPRBody] | None:
    """Return the body of this extras length, and version where there are versions; the value's size breaks ties."""
    fits = []
    for body in known:
        form = body.forms()
        if (
            form.extras_size == sizes.extras
            and (form.version is None or version == bytes([form.version]))
            and (form.value_size == sizes.value or (form.value_size < sizes.value and not form.exact))
        ):
            fits.append(body)
    # The draft has two answers under one number: only one of them has a value (E-13).
    fits.sort(key=lambda body: (body.forms().value_size != sizes.value, bool(sizes.value) != body.forms().takes_value))
    return fits[0] if fits else None


class UPREarly(UPR):
    """The header of a message on a connection of the dialect upr: 2013-09 to 2014-05.

    The specification of January to June 2014 and the servers built before 3.0. The same opcodes as dcp; the
    marker has no range and follows its changes, and consumers answer what they receive though the documents say
    that they should not.
    """

    dialect: ClassVar[str] = "upr"
    fields_desc: ClassVar[list[AnyField]] = [
        _Computed("magic", "B", {value: magic.name for value, magic in MAGICS.items()}),  # kind of the frame
        _Opcode("opcode", "B", _names("upr")),  # which command; a response repeats that of its request
        # bytes of framing extras
        ConditionalField(
            _Computed("framing_length", "B"),
            _only_in("flexible request header", "flexible response header"),
        ),
        _Computed("key_length", "H", flexible="B"),  # bytes of key
        _Computed("extras_length", "B"),  # bytes of extras
        FlagsField("datatype", 0, 8, DATATYPE_NAMES),  # how the value is encoded
        # vbucket id; 0 where a command has none
        ConditionalField(ShortField("vbucket", 0), _only_in("request header", "flexible request header")),
        # outcome of the command
        ConditionalField(
            _Computed("status", "H", STATUS_NAMES),
            _only_in("response header", "flexible response header"),
        ),
        _Computed("body_length", "I"),  # bytes that follow the header, everything included
        # chosen by the requester, repeated by the answer; in a stream, that of its stream request. Compare it as four
        # bytes: a server's counter is little-endian on most machines
        XIntField("opaque", 0),
        XLongField("cas", 0),  # version of the document, or 0
        PacketListField("framing", [], next_cls_cb=_info_class, length_from=_framing_length),  # frame infos
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_fields: Any) -> type[Packet]:
        """Leave what is no whole message to Raw; scapy asks the class itself, never its parents."""
        return cls if not _pkt or _whole(_pkt) else Raw


class UPRDraft(UPR):
    """The header of a message on a connection of the dialect draft: August 2013.

    The first draft: opcodes 0x01 to 0x05, which collide with SET to INCREMENT, with a subtype in the datatype's
    place and responses used as pushes. A stream is an ok, a stream start, changes between snapshot starts and
    ends, and a stream end. Believed only on positive evidence.
    """

    dialect: ClassVar[str] = "draft"
    fields_desc: ClassVar[list[AnyField]] = [
        _Computed("magic", "B", {value: magic.name for value, magic in MAGICS.items()}),  # kind of the frame
        _Opcode("opcode", "B", _names("draft")),  # which command; a response repeats that of its request
        # bytes of framing extras
        ConditionalField(
            _Computed("framing_length", "B"),
            _only_in("flexible request header", "flexible response header"),
        ),
        _Computed("key_length", "H", flexible="B"),  # bytes of key
        _Computed("extras_length", "B"),  # bytes of extras
        # how the value is encoded
        ConditionalField(
            FlagsField("datatype", 0, 8, DATATYPE_NAMES),
            _only_in("request header", "response header", "flexible request header", "flexible response header"),
        ),
        # which request, answer or stream message
        ConditionalField(_Computed("subtype", "B"), _only_in("draft header")),
        # vbucket id; 0 where a command has none
        ConditionalField(
            ShortField("vbucket", 0),
            _only_in("request header", "flexible request header", "draft header"),
        ),
        # outcome of the command
        ConditionalField(
            _Computed("status", "H", STATUS_NAMES),
            _only_in("response header", "flexible response header"),
        ),
        _Computed("body_length", "I"),  # bytes that follow the header, everything included
        # chosen by the requester, repeated by the answer; in a stream, that of its stream request. Compare it as four
        # bytes: a server's counter is little-endian on most machines
        ConditionalField(
            XIntField("opaque", 0),
            _only_in("request header", "response header", "flexible request header", "flexible response header"),
        ),
        # every message of a stream repeats that of its request
        ConditionalField(XIntField("request_id", 0), _only_in("draft header")),
        XLongField("cas", 0),  # version of the document, or 0
        PacketListField("framing", [], next_cls_cb=_info_class, length_from=_framing_length),  # frame infos
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_fields: Any) -> type[Packet]:
        """Leave what is no whole message to Raw; scapy asks the class itself, never its parents."""
        return cls if not _pkt or _whole(_pkt) else Raw


class UPRProto(UPR):
    """The header of a message on a connection of the dialect upr-proto: September and October 2013.

    A numbering between draft and upr that lived in the source tree for some weeks. Never released and never
    detected: it is decoded on request only.
    """

    dialect: ClassVar[str] = "upr-proto"
    fields_desc: ClassVar[list[AnyField]] = [
        _Computed("magic", "B", {value: magic.name for value, magic in MAGICS.items()}),  # kind of the frame
        _Opcode("opcode", "B", _names("upr-proto")),  # which command; a response repeats that of its request
        # bytes of framing extras
        ConditionalField(
            _Computed("framing_length", "B"),
            _only_in("flexible request header", "flexible response header"),
        ),
        _Computed("key_length", "H", flexible="B"),  # bytes of key
        _Computed("extras_length", "B"),  # bytes of extras
        FlagsField("datatype", 0, 8, DATATYPE_NAMES),  # how the value is encoded
        # vbucket id; 0 where a command has none
        ConditionalField(ShortField("vbucket", 0), _only_in("request header", "flexible request header")),
        # outcome of the command
        ConditionalField(
            _Computed("status", "H", STATUS_NAMES),
            _only_in("response header", "flexible response header"),
        ),
        _Computed("body_length", "I"),  # bytes that follow the header, everything included
        # chosen by the requester, repeated by the answer; in a stream, that of its stream request. Compare it as four
        # bytes: a server's counter is little-endian on most machines
        XIntField("opaque", 0),
        XLongField("cas", 0),  # version of the document, or 0
        PacketListField("framing", [], next_cls_cb=_info_class, length_from=_framing_length),  # frame infos
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_fields: Any) -> type[Packet]:
        """Leave what is no whole message to Raw; scapy asks the class itself, never its parents."""
        return cls if not _pkt or _whole(_pkt) else Raw


class Memcached(UPR):
    """The header of a message on a connection of the dialect memcached: always.

    The host protocol: the commands that share a connection or a capture with UPR. A connection without a sign of
    UPR is this.
    """

    dialect: ClassVar[str] = "memcached"
    fields_desc: ClassVar[list[AnyField]] = [
        _Computed("magic", "B", {value: magic.name for value, magic in MAGICS.items()}),  # kind of the frame
        _Opcode("opcode", "B", _names("memcached")),  # which command; a response repeats that of its request
        # bytes of framing extras
        ConditionalField(
            _Computed("framing_length", "B"),
            _only_in("flexible request header", "flexible response header"),
        ),
        _Computed("key_length", "H", flexible="B"),  # bytes of key
        _Computed("extras_length", "B"),  # bytes of extras
        FlagsField("datatype", 0, 8, DATATYPE_NAMES),  # how the value is encoded
        # vbucket id; 0 where a command has none
        ConditionalField(ShortField("vbucket", 0), _only_in("request header", "flexible request header")),
        # outcome of the command
        ConditionalField(
            _Computed("status", "H", STATUS_NAMES),
            _only_in("response header", "flexible response header"),
        ),
        _Computed("body_length", "I"),  # bytes that follow the header, everything included
        # chosen by the requester, repeated by the answer; in a stream, that of its stream request. Compare it as four
        # bytes: a server's counter is little-endian on most machines
        XIntField("opaque", 0),
        XLongField("cas", 0),  # version of the document, or 0
        PacketListField("framing", [], next_cls_cb=_info_class, length_from=_framing_length),  # frame infos
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_fields: Any) -> type[Packet]:
        """Leave what is no whole message to Raw; scapy asks the class itself, never its parents."""
        return cls if not _pkt or _whole(_pkt) else Raw


class UPRBody(_Delimited):
    """Extras, key and value of a message that no layout describes, or whose lengths fit none."""

    form: ClassVar[Form | None] = None
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("extras", b"", length_from=_extras_length),
        StrLenField("key", b"", length_from=_key_length),
        StrField("value", b""),
    ]

    @classmethod
    def forms(cls) -> Form:
        """Return the form of a body that has one."""
        if cls.form is None:
            raise TypeError(f"{cls.__name__} has no form")
        return cls.form

    def own_size(self, data: bytes) -> int:
        """Return the size of extras, key and value; without a header everything is theirs."""
        header = self.underlayer
        return sum(header.sizes()[1:]) if isinstance(header, UPR) else len(data)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Go on with the next message."""
        if not isinstance(self.underlayer, UPR) or not _whole(payload):
            return Raw
        count = 0
        layer: Packet | None = self
        while layer is not None:
            count += isinstance(layer, UPR)
            layer = layer.underlayer
        return _header_below(self) if count < CHAINED else UPRMore


class UPRMore(Packet):
    """The messages of a TCP payload behind the first few, as a list."""

    match_subclass = True
    fields_desc: ClassVar[list[AnyField]] = [_Messages("messages", [], UPR)]


def messages(packet: Packet) -> Iterator[UPR]:
    """Yield the messages of a packet in their order, as headers; ``header.payload`` is a message's body."""
    layer = packet
    while not isinstance(layer, NoPayload):
        if isinstance(layer, UPR):
            yield layer
        elif isinstance(layer, UPRMore):
            yield from layer.getfieldval("messages")
        layer = layer.payload


def bind_port(port: int, header: type[UPR] = UPR) -> None:
    """Take what goes to and comes from a TCP port for messages of a dialect: ``bind_port(12000, UPREarly)``.

    A port has one dialect at a time, and it goes before whatever else scapy would take the port for.
    """
    unbind_port(port)
    ends: list[tuple[dict[str, Any], type[Packet]]] = [({"sport": port}, header), ({"dport": port}, header)]
    TCP.payload_guess = ends + TCP.payload_guess


def unbind_port(port: int) -> None:
    """Undo :func:`bind_port`."""
    TCP.payload_guess = [
        (fields, upper)
        for fields, upper in TCP.payload_guess
        if not issubclass(upper, UPR) or fields not in ({"sport": port}, {"dport": port})
    ]


# Records: what some values repeat until they end.


class _Record(Packet):
    """An entry of a list in a value."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Leave what follows to the list."""
        return b"", s


class UPRFailoverLogEntry(_Record):
    """An entry of a value of the kind failover log.

    The branches of the vbucket's history, the newest first; seqnos never rise.
    """

    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # a branch of the vbucket's history
        LongField("seqno", 0),  # where the branch begins
    ]


class UPRFeatureListEntry(_Record):
    """An entry of a value of the kind feature list.

    A list of features: in a request those that the client wants, in the answer those that it gets.
    """

    fields_desc: ClassVar[list[AnyField]] = [
        # number of a feature that the client wants, or the server grants
        ShortEnumField("feature", 0, HELLO_FEATURE_NAMES),
    ]


class UPRVbucketSeqnosEntry(_Record):
    """An entry of a value of the kind vbucket seqnos.

    A list of vbuckets, by ascending id.
    """

    fields_desc: ClassVar[list[AnyField]] = [
        ShortField("vbucket", 0),  # vbucket id
        LongField("seqno", 0),  # its high seqno
    ]


class UPRCacheTransferRecordsEntry(_Record):
    """An entry of a value of the kind cache transfer records.

    Documents; key and value follow the fields of each. Their seqnos are in no order.
    """

    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("cas", 0),  # CAS of the document
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        FieldLenField("value_length", None, length_of="value", fmt="I"),  # bytes of value in this record
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        FieldLenField("key_length", None, length_of="key", fmt="H"),  # bytes of key in this record, 2 to 251
        FlagsField("datatype", 0, 8, DATATYPE_NAMES),  # datatype of the value
        ByteField("cache_hint", 0),  # how recently the document was used
        StrLenField("key", b"", length_from=lambda packet: packet.key_length),
        StrLenField("value", b"", length_from=lambda packet: packet.value_length),
    ]


class UPROpen(UPRBody):
    """open (DCP_OPEN), request: open, 8 bytes of extras.

    Names the connection and gives the receiver its role; the flag producer is about the receiver, not the sender.
    The key is the connection's name, by the documents of at most 200 bytes, though 7.0 takes longer ones. A
    second connection of the same name makes the server drop the first one (4.5 refused the newcomer instead,
    MB-17042).
    """

    form: ClassVar[Form | None] = Form("dcp", 0x50, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        IntField("reserved", 0),  # zero
        FlagsField("open_flags", 0, 32, OPEN_FLAGS_NAMES),  # role and features
        StrLenField("key", b"", length_from=_key_length),  # name, must be there
        StrField("value", b""),  # JSON, may be there
    ]


class UPROpenResponse(UPRBody):
    """open (DCP_OPEN), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x50, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRAddStream(UPRBody):
    """add_stream (DCP_ADD_STREAM), request: add stream, 4 bytes of extras.

    Tells a consumer to ask its producer for a vbucket. The answer waits until the stream request is settled, so
    it often comes behind the first changes. Its extras hold the stream's opaque in network order, byte-reversed
    against the opaque of the stream's own messages on a little-endian server. A refusal has them too, with the
    opaque 0, when the producer was asked, and none when it was not.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x51, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        # kind of the stream: the consumer's stream request repeats it
        FlagsField("stream_flags", 0, 32, STREAM_REQUEST_FLAGS_NAMES),
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRAddStreamResponse(UPRBody):
    """add_stream (DCP_ADD_STREAM), answer with status 0x00: add stream response, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x51, response=True, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("stream_opaque", 0),  # opaque of the stream
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRCloseStream(UPRBody):
    """close_stream (DCP_CLOSE_STREAM), request: no extras.

    Ends a stream early. Agents send it to either side, and a consumer to its producer; with several streams of a
    vbucket the stream id in the framing extras says which. A stream end with reason closed follows only where the
    control send_stream_end_on_client_close_stream was accepted, else nothing more comes.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x52, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRCloseStreamResponse(UPRBody):
    """close_stream (DCP_CLOSE_STREAM), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x52, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRStreamRequest(UPRBody):
    """stream_request (DCP_STREAM_REQ), request: stream request, 48 bytes of extras.

    Asks for a vbucket's changes from a seqno on. Its opaque is the opaque of every message of the stream. Success
    brings the failover log, at least one entry and the newest first; rollback brings the seqno to go back to. The
    answer precedes the stream's messages, and comes even while the flow-control window is full. A value needs
    HELLO collections (7.0; a preview in 6.5).
    """

    form: ClassVar[Form | None] = Form("dcp", 0x53, extras_size=48)
    fields_desc: ClassVar[list[AnyField]] = [
        FlagsField("stream_flags", 0, 32, STREAM_REQUEST_FLAGS_NAMES),  # kind of the stream
        IntField("reserved", 0),  # zero
        LongField("start_seqno", 0),  # last seqno that the consumer has; 0: everything
        LongField("end_seqno", 0),  # seqno to stream up to; all ones: no end
        XLongField("vbucket_uuid", 0),  # the history branch that the consumer knows; 0: none
        LongField("snap_start_seqno", 0),  # start of the snapshot that the consumer was in
        LongField("snap_end_seqno", 0),  # end of the snapshot that the consumer was in
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # JSON, may be there
    ]


class UPRStreamRequestResponse(UPRBody):
    """stream_request (DCP_STREAM_REQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x53, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # The branches of the vbucket's history, the newest first; seqnos never rise.
        _Records("failover_log", UPRFailoverLogEntry, 16),
        StrField("value", b""),  # what is left of the value
    ]


class UPRStreamRequestRollback(UPRBody):
    """stream_request (DCP_STREAM_REQ), answer with status 0x23: rollback."""

    form: ClassVar[Form | None] = Form("dcp", 0x53, response=True, status=0x23, value_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        LongField("rollback_seqno", 0),  # seqno that the consumer has to go back to
        StrField("value", b""),  # what is left of the value
    ]


class UPRStreamRequestRollbackRollbackInExtras(UPRStreamRequestRollback):
    """stream_request (DCP_STREAM_REQ), answer with status 0x23: rollback in extras, 8 bytes of extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x53, response=True, status=0x23, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("rollback_seqno", 0),  # seqno that the consumer has to go back to
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPRGetFailoverLog(UPRBody):
    """get_failover_log (DCP_GET_FAILOVER_LOG), request: no extras.

    Asks for the branches of a vbucket's history. At least one comes, the newest first, with seqnos that never
    rise.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x54, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRGetFailoverLogResponse(UPRBody):
    """get_failover_log (DCP_GET_FAILOVER_LOG), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x54, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # The branches of the vbucket's history, the newest first; seqnos never rise.
        _Records("failover_log", UPRFailoverLogEntry, 16),
        StrField("value", b""),  # what is left of the value
    ]


class UPRStreamEnd(UPRBody):
    """stream_end (DCP_STREAM_END), request: stream end, 4 bytes of extras.

    The last message of a stream.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x55, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        IntEnumField("end_reason", 0, STREAM_END_REASON_NAMES),  # why the stream ended
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRStreamEndResponse(UPRBody):
    """stream_end (DCP_STREAM_END), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x55, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSnapshotMarker(UPRBody):
    """snapshot_marker (DCP_SNAPSHOT_MARKER), request: V1, 20 bytes of extras, since 3.0.

    Announces the seqno range that the following changes lie in. The first one of a stream starts where the stream
    request's snapshot did, each later one behind the end of the former. The form without extras is that of the
    early dialect, where the marker follows its items.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x56, extras_size=20)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("snap_start_seqno", 0),  # first seqno that the snapshot may hold
        LongField("snap_end_seqno", 0),  # last seqno of the snapshot
        FlagsField("snapshot_type", 0, 32, SNAPSHOT_MARKER_FLAGS_NAMES),  # kind of the snapshot
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPRSnapshotMarkerV20(UPRSnapshotMarker):
    """snapshot_marker (DCP_SNAPSHOT_MARKER), request: V2.0, 1 byte of extras, since 6.5.

    Connections with enable_sync_writes and consumer_name.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x56, extras_size=1, version=0, value_size=36)
    fields_desc: ClassVar[list[AnyField]] = [
        ByteField("marker_version", 0),  # form of the value
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        LongField("snap_start_seqno", 0),  # first seqno that the snapshot may hold
        LongField("snap_end_seqno", 0),  # last seqno of the snapshot
        FlagsField("snapshot_type", 0, 32, SNAPSHOT_MARKER_FLAGS_NAMES),  # kind of the snapshot
        LongField("max_visible_seqno", 0),  # last seqno that a client without sync writes may see
        # highest prepare that is committed or aborted; means something on disk snapshots only
        LongField("high_completed_seqno", 0),
        StrField("value", b""),  # what is left of the value
    ]


class UPRSnapshotMarkerV22(UPRSnapshotMarker):
    """snapshot_marker (DCP_SNAPSHOT_MARKER), request: V2.2, 1 byte of extras, since 8.0.

    After the control max_marker_version 2.2.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x56, extras_size=1, version=2, value_size=52)
    fields_desc: ClassVar[list[AnyField]] = [
        ByteField("marker_version", 2),  # form of the value
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        LongField("snap_start_seqno", 0),  # first seqno that the snapshot may hold
        LongField("snap_end_seqno", 0),  # last seqno of the snapshot
        FlagsField("snapshot_type", 0, 32, SNAPSHOT_MARKER_FLAGS_NAMES),  # kind of the snapshot
        LongField("max_visible_seqno", 0),  # last seqno that a client without sync writes may see
        # highest prepare that is committed or aborted; means something on disk snapshots only
        LongField("high_completed_seqno", 0),
        LongField("purge_seqno", 0),  # tombstones up to here may be gone
        LongField("high_prepared_seqno", 0),  # highest prepare in the snapshot; means something on disk snapshots only
        StrField("value", b""),  # what is left of the value
    ]


class UPRSnapshotMarkerV21(UPRSnapshotMarker):
    """snapshot_marker (DCP_SNAPSHOT_MARKER), request: V2.1, 1 byte of extras, since 7.0, until 7.6.

    Defined, never sent, removed in 8.0.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x56, extras_size=1, version=1, value_size=44)
    fields_desc: ClassVar[list[AnyField]] = [
        ByteField("marker_version", 1),  # form of the value
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        LongField("snap_start_seqno", 0),  # first seqno that the snapshot may hold
        LongField("snap_end_seqno", 0),  # last seqno of the snapshot
        FlagsField("snapshot_type", 0, 32, SNAPSHOT_MARKER_FLAGS_NAMES),  # kind of the snapshot
        LongField("max_visible_seqno", 0),  # last seqno that a client without sync writes may see
        # highest prepare that is committed or aborted; means something on disk snapshots only
        LongField("high_completed_seqno", 0),
        LongField("snapshot_timestamp", 0),  # nanoseconds since the epoch
        StrField("value", b""),  # what is left of the value
    ]


class UPRSnapshotMarkerResponse(UPRBody):
    """snapshot_marker (DCP_SNAPSHOT_MARKER), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x56, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRMutation(UPRBody):
    """mutation (DCP_MUTATION), request: mutation, 31 bytes of extras.

    A document was created or changed. Its seqno is never 0.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x57, extras_size=31)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        ByteField("nru", 0),  # how recently the document was used: not recently used, in its coarse or finer form
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRMutationCollectionsPrototype(UPRMutation):
    """mutation (DCP_MUTATION), request: collections prototype, 32 bytes of extras, since 5.0, until 6.0.

    Open flag 0x10.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x57, extras_size=32)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        ByteField("nru", 0),  # how recently the document was used: not recently used, in its coarse or finer form
        ByteField("collection_length", 0),  # bytes of the key that name the collection (prototype)
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRMutationResponse(UPRBody):
    """mutation (DCP_MUTATION), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x57, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDeletion(UPRBody):
    """deletion (DCP_DELETION), request: V1, 18 bytes of extras, since 3.0.

    A document was deleted, or has expired where the expiration message is not in use. The value can hold xattrs
    since 5.0.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x58, extras_size=18, uncounted=True)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRDeletionV2(UPRDeletion):
    """deletion (DCP_DELETION), request: V2, 21 bytes of extras, since 5.5.

    Every deletion once open flag 0x20 is set; a consumer with HELLO collections wants no other.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x58, extras_size=21, uncounted=True)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        IntField("delete_time", 0),  # when the document was deleted
        ByteField("unused", 0),  # unused; in the collections prototype the collection length
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRDeletionCollectionsPrototype(UPRDeletion):
    """deletion (DCP_DELETION), request: collections prototype, 19 bytes of extras, since 5.0, until 6.0.

    Open flag 0x10.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x58, extras_size=19, uncounted=True)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        ByteField("collection_length", 0),  # bytes of the key that name the collection (prototype)
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRDeletionResponse(UPRBody):
    """deletion (DCP_DELETION), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x58, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRExpiration(UPRBody):
    """expiration (DCP_EXPIRATION), request: expiration, 20 bytes of extras, since 6.5.

    A document has expired. Sent since 6.5, after the control enable_expiry_opcode and with open flag 0x20;
    without both, and before, expired documents come as deletions.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x59, extras_size=20, uncounted=True)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        IntField("delete_time", 0),  # when the document was deleted
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRExpirationAsDeletionV1(UPRExpiration):
    """expiration (DCP_EXPIRATION), request: as deletion V1, 18 bytes of extras, since 3.0, until 6.0.

    Accepted by consumers, never sent by servers.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x59, extras_size=18, uncounted=True)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRExpirationCollectionsPrototype(UPRExpiration):
    """expiration (DCP_EXPIRATION), request: collections prototype, 19 bytes of extras, since 5.0, until 6.0.

    Open flag 0x10.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x59, extras_size=19, uncounted=True)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        ByteField("collection_length", 0),  # bytes of the key that name the collection (prototype)
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRExpirationResponse(UPRBody):
    """expiration (DCP_EXPIRATION), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x59, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRFlush(UPRBody):
    """flush (DCP_FLUSH), request: no extras.

    Empties the bucket. Never implemented: no producer sends it.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x5A, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRFlushResponse(UPRBody):
    """flush (DCP_FLUSH), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x5A, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSetVbucketState(UPRBody):
    """set_vbucket_state (DCP_SET_VBUCKET_STATE), request: state, 1 byte of extras.

    Takeover: the consumer's vbucket is to become pending, later active. The producer does not go on without the
    answer. Which number means pending depends on the sender's release.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x5B, extras_size=1, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("vbucket_state", 0, VBUCKET_STATE_NAMES),  # the state to take
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSetVbucketStateResponse(UPRBody):
    """set_vbucket_state (DCP_SET_VBUCKET_STATE), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x5B, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRNoop(UPRBody):
    """noop (DCP_NOOP), request: no extras.

    Are you there? Sent whenever the interval has passed since the last one and no answer is pending, whatever
    else was sent. Server-made opaques count up from 1,000,001 (3.0) or 10,000,001, little-endian. Needs the
    control enable_noop; 3.x and 4.x send it only once there is a stream, 7.0 before that too.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x5C, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRNoopResponse(UPRBody):
    """noop (DCP_NOOP), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x5C, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRBufferAck(UPRBody):
    """buffer_ack (DCP_BUFFER_ACK), request: buffer ack, 4 bytes of extras.

    Gives back flow-control bytes. Servers ignore its opaque and vbucket; a count of 0 is legal (MB-59474). Server
    consumers send one when they have freed more than a fifth of the window, or after 5 seconds.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x5D, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        IntField("buffer_bytes", 0),  # bytes that the consumer has freed
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRBufferAckResponse(UPRBody):
    """buffer_ack (DCP_BUFFER_ACK), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x5D, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRControl(UPRBody):
    """control (DCP_CONTROL), request: no extras.

    Sets a parameter of the connection: the key names it, the value is text. Servers 3.0 to 4.6 compare keys by
    their first letters only, and 7.0 still takes a truncated one.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x5E)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # parameter, must be there
        StrField("value", b""),  # text, must be there
    ]


class UPRControlResponse(UPRBody):
    """control (DCP_CONTROL), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x5E, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSystemEvent(UPRBody):
    """system_event (DCP_SYSTEM_EVENT), request: system event, 13 bytes of extras.

    A scope or collection was created, dropped or changed. The key is its name, where there is one, and never has
    a collection id in front. Of the events of one manifest change only the last carries the new uid. A prototype
    was in 5.0.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x5F, extras_size=13)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        IntEnumField("event", 0, SYSTEM_EVENT_NAMES),  # what happened
        ByteField("event_version", 0),  # form of the value
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        _EventField(XLongField("manifest_uid", 0)),  # the collections manifest after the change
        _EventField(XIntField("scope_id", 0)),  # id of the scope
        _EventField(XIntField("collection_id", 0)),  # id of the collection
        _EventField(IntField("max_ttl", 0)),  # the collection's longest time to live
        _TableField("event_table"),  # numbers and texts of version 2, by name
        StrField("value", b""),  # what is left of the value
    ]


class UPRSystemEventResponse(UPRBody):
    """system_event (DCP_SYSTEM_EVENT), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x5F, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRPrepare(UPRBody):
    """prepare (DCP_PREPARE), request: prepare, 31 bytes of extras.

    A sync write that waits until enough replicas have it. Sent to connections with enable_sync_writes; a commit
    or an abort of the same key follows. A backfill sends prepares with the changes that they became, not with
    commits.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x60, extras_size=31)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        ByteField("nru", 0),  # how recently the document was used: not recently used, in its coarse or finer form
        ByteEnumField("deleted", 0, BOOLEAN_NAMES),  # 1: the prepared change is a deletion
        ByteEnumField("durability_level", 0, DURABILITY_LEVEL_NAMES),  # what the write waits for
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPRPrepareResponse(UPRBody):
    """prepare (DCP_PREPARE), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x60, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSeqnoAcknowledged(UPRBody):
    """seqno_acknowledged (DCP_SEQNO_ACKNOWLEDGED), request: seqno acknowledged, 8 bytes of extras.

    A replica has prepared everything up to a seqno. Also sent for the end of a disk snapshot that holds no
    prepare.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x61, extras_size=8, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("prepared_seqno", 0),  # highest seqno that is prepared
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSeqnoAcknowledgedResponse(UPRBody):
    """seqno_acknowledged (DCP_SEQNO_ACKNOWLEDGED), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x61, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRCommit(UPRBody):
    """commit (DCP_COMMIT), request: commit, 16 bytes of extras.

    A prepared sync write is done: the prepare of this key takes effect. Connections without sync writes get a
    mutation or deletion instead.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x62, extras_size=16, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("prepared_seqno", 0),  # seqno of the prepare
        LongField("commit_seqno", 0),  # seqno of the commit: this message's by_seqno
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRCommitResponse(UPRBody):
    """commit (DCP_COMMIT), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x62, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRAbort(UPRBody):
    """abort (DCP_ABORT), request: abort, 16 bytes of extras.

    A prepared sync write is given up. From a backfill it comes without its prepare.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x63, extras_size=16, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("prepared_seqno", 0),  # seqno of the prepare
        LongField("abort_seqno", 0),  # seqno of the abort: this message's by_seqno
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRAbortResponse(UPRBody):
    """abort (DCP_ABORT), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x63, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSeqnoAdvanced(UPRBody):
    """seqno_advanced (DCP_SEQNO_ADVANCED), request: seqno advanced, 8 bytes of extras.

    The snapshot's last change was filtered out: go on as if this seqno, which is the snapshot's end, had arrived.
    It is the last message of its snapshot.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x64, extras_size=8, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRSeqnoAdvancedResponse(UPRBody):
    """seqno_advanced (DCP_SEQNO_ADVANCED), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x64, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPROsoSnapshot(UPRBody):
    """oso_snapshot (DCP_OSO_SNAPSHOT), request: bracket, 4 bytes of extras.

    Opens or closes a snapshot whose changes come in key order, not in seqno order. Used for streams of exactly
    one collection, after the control enable_out_of_order_snapshots; the first ordinary marker behind it overlaps
    what it brought.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x65, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        IntEnumField("oso_flags", 0, OUT_OF_ORDER_SNAPSHOT_BRACKET_NAMES),  # which end of the snapshot
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPROsoSnapshotResponse(UPRBody):
    """oso_snapshot (DCP_OSO_SNAPSHOT), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x65, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRCacheTransfer(UPRBody):
    """cache_transfer (DCP_CACHE_TRANSFER), request: no extras.

    Documents of the producer's cache, in no order and outside snapshots. A consumer without memory answers
    out_of_memory, which ends the transfer.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x66)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # Documents; key and value follow the fields of each. Their seqnos are in no order.
        _Records("cache_transfer_records", UPRCacheTransferRecordsEntry, 40, ("key_length", "value_length")),
        StrField("value", b""),  # what is left of the value
    ]


class UPRCacheTransferResponse(UPRBody):
    """cache_transfer (DCP_CACHE_TRANSFER), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x66, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRCacheTransferEnd(UPRBody):
    """cache_transfer_end (DCP_CACHE_TRANSFER_END), request: no extras.

    No more documents of the cache will come; the stream goes on with its first snapshot.
    """

    form: ClassVar[Form | None] = Form("dcp", 0x67, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRCacheTransferEndResponse(UPRBody):
    """cache_transfer_end (DCP_CACHE_TRANSFER_END), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("dcp", 0x67, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyOpen(UPRBody):
    """open (UPR_OPEN), request: open, 8 bytes of extras.

    Names the connection, by its key, and gives the receiver its role: set flag, producer; clear, consumer.
    """

    form: ClassVar[Form | None] = Form("upr", 0x50, extras_size=8, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        IntField("sequence_number", 0),  # unused; reserved in the shipped protocol
        FlagsField("open_flags", 0, 32, UPR_OPEN_FLAGS_NAMES),  # role of the receiver
        StrLenField("key", b"", length_from=_key_length),  # name, must be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyOpen4Bytes(UPREarlyOpen):
    """open (UPR_OPEN), request: 4 bytes, 4 bytes of extras.

    Before 2013-10-30; its field is not recorded, only its size.
    """

    form: ClassVar[Form | None] = Form("upr", 0x50, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        IntField("sequence_number", 0),  # unused; reserved in the shipped protocol
        StrLenField("key", b"", length_from=_key_length),  # name, must be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyOpenResponse(UPRBody):
    """open (UPR_OPEN), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x50, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyAddStream(UPRBody):
    """add_stream (UPR_ADD_STREAM), request: add stream, 4 bytes of extras.

    Tells a consumer to ask its producer for a vbucket; the answer brings the opaque of the stream.
    """

    form: ClassVar[Form | None] = Form("upr", 0x51, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        FlagsField("stream_flags", 0, 32, UPR_ADD_STREAM_FLAGS_NAMES),  # kind of the stream
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyAddStreamResponse(UPRBody):
    """add_stream (UPR_ADD_STREAM), answer with status 0x00: add stream response, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("upr", 0x51, response=True, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("stream_opaque", 0),  # opaque of the stream
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyCloseStream(UPRBody):
    """close_stream (UPR_CLOSE_STREAM), request: no extras.

    Ends a stream early. A consumer that closed tells its producer when the next message for the vbucket arrives,
    and a producer may still get answers for a stream that it closed. The documents describe no answer.
    """

    form: ClassVar[Form | None] = Form("upr", 0x52, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyCloseStreamResponse(UPRBody):
    """close_stream (UPR_CLOSE_STREAM), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x52, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyStreamRequest(UPRBody):
    """stream_request (UPR_STREAM_REQ), request: 40 bytes, 40 bytes of extras.

    Asks for a vbucket's changes from a seqno on; uuid 0 and start 0 ask for everything. Its opaque is the opaque
    of every message of the stream. Success brings the failover log, rollback the seqno to go back to. Before
    2014-04-28: ends in the high seqno.
    """

    form: ClassVar[Form | None] = Form("upr", 0x53, extras_size=40, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        FlagsField("stream_flags", 0, 32, STREAM_REQUEST_FLAGS_NAMES),  # kind of the stream
        IntField("reserved", 0),  # zero
        LongField("start_seqno", 0),  # last seqno that the consumer has; 0: everything
        LongField("end_seqno", 0),  # seqno to stream up to; all ones: no end
        XLongField("vbucket_uuid", 0),  # the history branch that the consumer knows; 0: none
        LongField("high_seqno", 0),  # high seqno when the uuid was made
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyStreamRequest48Bytes(UPREarlyStreamRequest):
    """stream_request (UPR_STREAM_REQ), request: 48 bytes, 48 bytes of extras.

    Since 2014-04-28 (MB-10640).
    """

    form: ClassVar[Form | None] = Form("upr", 0x53, extras_size=48, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        FlagsField("stream_flags", 0, 32, STREAM_REQUEST_FLAGS_NAMES),  # kind of the stream
        IntField("reserved", 0),  # zero
        LongField("start_seqno", 0),  # last seqno that the consumer has; 0: everything
        LongField("end_seqno", 0),  # seqno to stream up to; all ones: no end
        XLongField("vbucket_uuid", 0),  # the history branch that the consumer knows; 0: none
        LongField("snap_start_seqno", 0),  # start of the snapshot that the consumer was in
        LongField("snap_end_seqno", 0),  # end of the snapshot that the consumer was in
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyStreamRequestResponse(UPRBody):
    """stream_request (UPR_STREAM_REQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x53, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # The branches of the vbucket's history, the newest first; seqnos never rise.
        _Records("failover_log", UPRFailoverLogEntry, 16),
        StrField("value", b""),  # what is left of the value
    ]


class UPREarlyStreamRequestRollback(UPRBody):
    """stream_request (UPR_STREAM_REQ), answer with status 0x23: rollback."""

    form: ClassVar[Form | None] = Form("upr", 0x53, response=True, status=0x23, value_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        LongField("rollback_seqno", 0),  # seqno that the consumer has to go back to
        StrField("value", b""),  # what is left of the value
    ]


class UPREarlyStreamRequestRollbackRollbackInExtras(UPREarlyStreamRequestRollback):
    """stream_request (UPR_STREAM_REQ), answer with status 0x23: rollback in extras, 8 bytes of extras."""

    form: ClassVar[Form | None] = Form("upr", 0x53, response=True, status=0x23, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("rollback_seqno", 0),  # seqno that the consumer has to go back to
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPREarlyGetFailoverLog(UPRBody):
    """get_failover_log (UPR_GET_FAILOVER_LOG), request: no extras.

    Asks for the branches of a vbucket's history: pairs of uuid and seqno.
    """

    form: ClassVar[Form | None] = Form("upr", 0x54, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyGetFailoverLogResponse(UPRBody):
    """get_failover_log (UPR_GET_FAILOVER_LOG), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x54, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # The branches of the vbucket's history, the newest first; seqnos never rise.
        _Records("failover_log", UPRFailoverLogEntry, 16),
        StrField("value", b""),  # what is left of the value
    ]


class UPREarlyStreamEnd(UPRBody):
    """stream_end (UPR_STREAM_END), request: stream end, 4 bytes of extras.

    The last message of a stream.
    """

    form: ClassVar[Form | None] = Form("upr", 0x55, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        IntEnumField("end_reason", 0, UPR_STREAM_END_REASON_NAMES),  # why the stream ended
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyStreamEndResponse(UPRBody):
    """stream_end (UPR_STREAM_END), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x55, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlySnapshotMarker(UPRBody):
    """snapshot_marker (UPR_SNAPSHOT_MARKER), request: no extras.

    Closes a run of changes with unique keys. It has no range and comes behind the changes, until 2014-04-28.
    """

    form: ClassVar[Form | None] = Form("upr", 0x56, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlySnapshotMarkerWithRange(UPREarlySnapshotMarker):
    """snapshot_marker (UPR_SNAPSHOT_MARKER), request: with range, 20 bytes of extras.

    Since 2014-04-28 (MB-10640).
    """

    form: ClassVar[Form | None] = Form("upr", 0x56, extras_size=20, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("snap_start_seqno", 0),  # first seqno that the snapshot may hold
        LongField("snap_end_seqno", 0),  # last seqno of the snapshot
        FlagsField("snapshot_type", 0, 32, SNAPSHOT_MARKER_FLAGS_NAMES),  # kind of the snapshot
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlySnapshotMarkerResponse(UPRBody):
    """snapshot_marker (UPR_SNAPSHOT_MARKER), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x56, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyMutation(UPRBody):
    """mutation (UPR_MUTATION), request: 30 bytes, 30 bytes of extras.

    A document was created or changed. 2013-12-11 to 2014-01-21.
    """

    form: ClassVar[Form | None] = Form("upr", 0x57, extras_size=30)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPREarlyMutation31Bytes(UPREarlyMutation):
    """mutation (UPR_MUTATION), request: 31 bytes, 31 bytes of extras.

    Since 2014-01-21.
    """

    form: ClassVar[Form | None] = Form("upr", 0x57, extras_size=31)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        ByteField("nru", 0),  # how recently the document was used: not recently used, in its coarse or finer form
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPREarlyMutation28Bytes(UPREarlyMutation):
    """mutation (UPR_MUTATION), request: 28 bytes, 28 bytes of extras.

    Before 2013-12-11.
    """

    form: ClassVar[Form | None] = Form("upr", 0x57, extras_size=28)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class UPREarlyMutationResponse(UPRBody):
    """mutation (UPR_MUTATION), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x57, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyDeletion(UPRBody):
    """deletion (UPR_DELETION), request: 18 bytes, 18 bytes of extras.

    A document was deleted.
    """

    form: ClassVar[Form | None] = Form("upr", 0x58, extras_size=18, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyDeletion16Bytes(UPREarlyDeletion):
    """deletion (UPR_DELETION), request: 16 bytes, 16 bytes of extras.

    Before 2013-12-11.
    """

    form: ClassVar[Form | None] = Form("upr", 0x58, extras_size=16, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyDeletionResponse(UPRBody):
    """deletion (UPR_DELETION), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x58, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyExpiration(UPRBody):
    """expiration (UPR_EXPIRATION), request: 18 bytes, 18 bytes of extras.

    A document has expired.
    """

    form: ClassVar[Form | None] = Form("upr", 0x59, extras_size=18, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        ShortField("nmeta", 0),  # size of the extended metadata behind the value; 0 since 5.0
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyExpiration16Bytes(UPREarlyExpiration):
    """expiration (UPR_EXPIRATION), request: 16 bytes, 16 bytes of extras.

    Before 2013-12-11.
    """

    form: ClassVar[Form | None] = Form("upr", 0x59, extras_size=16, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyExpirationResponse(UPRBody):
    """expiration (UPR_EXPIRATION), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x59, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyFlush(UPRBody):
    """flush (UPR_FLUSH), request: no extras.

    Empties the bucket. Never implemented in any server.
    """

    form: ClassVar[Form | None] = Form("upr", 0x5A, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyFlushResponse(UPRBody):
    """flush (UPR_FLUSH), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x5A, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlySetVbucketState(UPRBody):
    """set_vbucket_state (UPR_SET_VBUCKET_STATE), request: state, 1 byte of extras.

    The consumer's vbucket is to change its state. The documents say that it is not answered, and what the answer
    is.
    """

    form: ClassVar[Form | None] = Form("upr", 0x5B, extras_size=1, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("vbucket_state", 0, UPR_VBUCKET_STATE_NAMES),  # the state to take
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlySetVbucketStateResponse(UPRBody):
    """set_vbucket_state (UPR_SET_VBUCKET_STATE), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x5B, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyNoop(UPRBody):
    """noop (UPR_NOOP), request: no extras.

    Are you there? Added on 2014-03-12.
    """

    form: ClassVar[Form | None] = Form("upr", 0x5C, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyNoopResponse(UPRBody):
    """noop (UPR_NOOP), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x5C, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyBufferAck(UPRBody):
    """buffer_ack (UPR_BUFFER_ACK), request: buffer ack, 4 bytes of extras.

    Gives back flow-control bytes. The count is a value here; shipped servers want it in the extras. Added on
    2014-03-12.
    """

    form: ClassVar[Form | None] = Form("upr", 0x5D, extras_size=4)
    fields_desc: ClassVar[list[AnyField]] = [
        IntField("buffer_bytes", 0),  # bytes that the consumer has freed
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPREarlyBufferAckCountAsValue(UPREarlyBufferAck):
    """buffer_ack (UPR_BUFFER_ACK), request: count as value."""

    form: ClassVar[Form | None] = Form("upr", 0x5D, value_size=4, exact=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        IntField("buffer_bytes", 0),  # bytes that the consumer has freed
        StrField("value", b""),  # what is left of the value
    ]


class UPREarlyBufferAckResponse(UPRBody):
    """buffer_ack (UPR_BUFFER_ACK), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x5D, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPREarlyControl(UPRBody):
    """control (UPR_CONTROL), request: no extras.

    Sets a parameter of the connection: connection_buffer_size or stream_buffer_size. The key names it, the value
    is text. Added on 2014-03-12.
    """

    form: ClassVar[Form | None] = Form("upr", 0x5E)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # parameter, must be there
        StrField("value", b""),  # text, must be there
    ]


class UPREarlyControlResponse(UPRBody):
    """control (UPR_CONTROL), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("upr", 0x5E, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftStreamRequest(UPRBody):
    """stream_request (UPR Request), request: 32 bytes, 32 bytes of extras.

    Asks for a vbucket's changes; the key is the group id, the stream's name. Its request id is that of every
    message of the stream.
    """

    form: ClassVar[Form | None] = Form("draft", 0x01, subtypes=(1,), extras_size=32, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("start_seqno", 0),  # last seqno that the consumer has; 0: everything
        LongField("end_seqno", 0),  # seqno to stream up to; all ones: no end
        XLongField("vbucket_uuid", 0),  # the history branch that the consumer knows; 0: none
        LongField("high_seqno", 0),  # high seqno when the uuid was made
        StrLenField("key", b"", length_from=_key_length),  # name, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftStreamRequest40BytesAsDrawn(UPRDraftStreamRequest):
    """stream_request (UPR Request), request: 40 bytes as drawn, 40 bytes of extras."""

    form: ClassVar[Form | None] = Form("draft", 0x01, subtypes=(1,), extras_size=40, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("start_seqno", 0),  # last seqno that the consumer has; 0: everything
        LongField("end_seqno", 0),  # seqno to stream up to; all ones: no end
        XLongField("vbucket_uuid", 0),  # the history branch that the consumer knows; 0: none
        LongField("high_seqno", 0),  # high seqno when the uuid was made
        LongField("padding", 0),  # counted by the header, named by nobody (E-12)
        StrLenField("key", b"", length_from=_key_length),  # name, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftGetFailoverLog(UPRBody):
    """get_failover_log (UPR Request), request: no extras.

    Asks for the branches of a vbucket's history.
    """

    form: ClassVar[Form | None] = Form("draft", 0x01, subtypes=(2,), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftStreamOk(UPRBody):
    """stream_ok (UPR Response), push: no extras.

    The stream will start: a stream start follows.
    """

    form: ClassVar[Form | None] = Form("draft", 0x02, response=True, subtypes=(1,), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftStreamNotMyVbucket(UPRBody):
    """stream_not_my_vbucket (UPR Response), push: no extras.

    The producer does not have the vbucket. The failover log response has the same number (E-13).
    """

    form: ClassVar[Form | None] = Form("draft", 0x02, response=True, subtypes=(2,), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftStreamRollback(UPRBody):
    """stream_rollback (UPR Response), push: rollback.

    The consumer has to go back to the seqno in the body.
    """

    form: ClassVar[Form | None] = Form("draft", 0x02, response=True, subtypes=(3,), value_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        LongField("rollback_seqno", 0),  # seqno that the consumer has to go back to
        StrField("value", b""),  # what is left of the value
    ]


class UPRDraftStreamStart(UPRBody):
    """stream_start (UPR Stream Start), push: no extras.

    The first message of a stream; also called stream begin.
    """

    form: ClassVar[Form | None] = Form("draft", 0x03, response=True, subtypes=(0,), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftSnapshotStart(UPRBody):
    """snapshot_start (UPR Stream Message), push: no extras.

    Changes with unique keys follow.
    """

    form: ClassVar[Form | None] = Form("draft", 0x04, response=True, subtypes=(1,), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftSnapshotEnd(UPRBody):
    """snapshot_end (UPR Stream Message), push: no extras.

    The snapshot is complete.
    """

    form: ClassVar[Form | None] = Form("draft", 0x04, response=True, subtypes=(2,), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftMutation(UPRBody):
    """mutation (UPR Stream Message), push: 28 bytes, 28 bytes of extras.

    A document was created or changed.
    """

    form: ClassVar[Form | None] = Form("draft", 0x04, response=True, subtypes=(3,), extras_size=28)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPRDraftMutation36BytesAsDrawn(UPRDraftMutation):
    """mutation (UPR Stream Message), push: 36 bytes as drawn, 36 bytes of extras."""

    form: ClassVar[Form | None] = Form("draft", 0x04, response=True, subtypes=(3,), extras_size=36)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        LongField("padding", 0),  # counted by the header, named by nobody (E-12)
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPRDraftDeletion(UPRBody):
    """deletion (UPR Stream Message), push: 28 bytes, 28 bytes of extras.

    A document was deleted.
    """

    form: ClassVar[Form | None] = Form(
        "draft",
        0x04,
        response=True,
        subtypes=(4,),
        extras_size=28,
        takes_value=False,
    )
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftDeletion36BytesAsDrawn(UPRDraftDeletion):
    """deletion (UPR Stream Message), push: 36 bytes as drawn, 36 bytes of extras."""

    form: ClassVar[Form | None] = Form(
        "draft",
        0x04,
        response=True,
        subtypes=(4,),
        extras_size=36,
        takes_value=False,
    )
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        LongField("padding", 0),  # counted by the header, named by nobody (E-12)
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftExpiration(UPRBody):
    """expiration (UPR Stream Message), push: 28 bytes, 28 bytes of extras.

    A document has expired.
    """

    form: ClassVar[Form | None] = Form(
        "draft",
        0x04,
        response=True,
        subtypes=(5,),
        extras_size=28,
        takes_value=False,
    )
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftExpiration36BytesAsDrawn(UPRDraftExpiration):
    """expiration (UPR Stream Message), push: 36 bytes as drawn, 36 bytes of extras."""

    form: ClassVar[Form | None] = Form(
        "draft",
        0x04,
        response=True,
        subtypes=(5,),
        extras_size=36,
        takes_value=False,
    )
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        LongField("padding", 0),  # counted by the header, named by nobody (E-12)
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftFlush(UPRBody):
    """flush (UPR Stream Message), push: no extras.

    The bucket was emptied.
    """

    form: ClassVar[Form | None] = Form("draft", 0x04, response=True, subtypes=(6,), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftStreamEnd(UPRBody):
    """stream_end (UPR Stream End), push: no extras.

    The last message of a stream; the subtype says why it ended. Also called stream close.
    """

    form: ClassVar[Form | None] = Form("draft", 0x05, response=True, subtypes=(1, 2), takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class UPRDraftFailoverLog(UPRBody):
    """failover_log (UPR Response), push: no extras.

    The branches of a vbucket's history: zero or more pairs.
    """

    form: ClassVar[Form | None] = Form("draft", 0x02, response=True, subtypes=(2,))
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # The branches of the vbucket's history, the newest first; seqnos never rise.
        _Records("failover_log", UPRFailoverLogEntry, 16),
        StrField("value", b""),  # what is left of the value
    ]


class UPRProtoMutation(UPRBody):
    """mutation (UPR_MUTATION), request: 28 bytes, 28 bytes of extras.

    A document was created or changed.
    """

    form: ClassVar[Form | None] = Form("upr-proto", 0x56, extras_size=28)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        IntField("lock_time", 0),  # how long the document is locked
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPRProtoDeletion(UPRBody):
    """deletion (UPR_DELETION), request: 16 bytes, 16 bytes of extras.

    A document was deleted.
    """

    form: ClassVar[Form | None] = Form("upr-proto", 0x57, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # bytes, may be there
    ]


class UPRProtoExpiration(UPRBody):
    """expiration (UPR_EXPIRATION), request: 16 bytes, 16 bytes of extras.

    A document has expired.
    """

    form: ClassVar[Form | None] = Form("upr-proto", 0x58, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("by_seqno", 0),  # position of the change in its vbucket's history; never 0
        LongField("rev_seqno", 0),  # how often the document has changed
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedGet(UPRBody):
    """get (GET), request: no extras.

    Reads a document.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x00, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetResponse(UPRBody):
    """get (GET), answer with status 0x00: found, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x00, response=True, extras_size=4)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        StrLenField("key", b"", length_from=_key_length),  # document key, may be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedSet(UPRBody):
    """set (SET), request: store, 8 bytes of extras.

    Writes a document.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x01, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedSetResponse(UPRBody):
    """set (SET), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x01, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedSetResponseWithMutationSeqno(MemcachedSetResponse):
    """set (SET), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x01, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedAdd(UPRBody):
    """add (ADD), request: store, 8 bytes of extras.

    Writes a document that is not there yet.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x02, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedAddResponse(UPRBody):
    """add (ADD), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x02, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedAddResponseWithMutationSeqno(MemcachedAddResponse):
    """add (ADD), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x02, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedReplace(UPRBody):
    """replace (REPLACE), request: store, 8 bytes of extras.

    Writes a document that is there already.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x03, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedReplaceResponse(UPRBody):
    """replace (REPLACE), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x03, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedReplaceResponseWithMutationSeqno(MemcachedReplaceResponse):
    """replace (REPLACE), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x03, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDelete(UPRBody):
    """delete (DELETE), request: no extras.

    Deletes a document.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x04, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedDeleteResponse(UPRBody):
    """delete (DELETE), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x04, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDeleteResponseWithMutationSeqno(MemcachedDeleteResponse):
    """delete (DELETE), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x04, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedIncrement(UPRBody):
    """increment (INCREMENT), request: arithmetic, 20 bytes of extras.

    Adds to a counter.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x05, extras_size=20, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("delta", 0),  # how much to add
        LongField("initial", 0),  # where to start a new counter
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedIncrementResponse(UPRBody):
    """increment (INCREMENT), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x05, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedIncrementResponseWithMutationSeqno(MemcachedIncrementResponse):
    """increment (INCREMENT), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x05, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDecrement(UPRBody):
    """decrement (DECREMENT), request: arithmetic, 20 bytes of extras.

    Subtracts from a counter.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x06, extras_size=20, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("delta", 0),  # how much to add
        LongField("initial", 0),  # where to start a new counter
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedDecrementResponse(UPRBody):
    """decrement (DECREMENT), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x06, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDecrementResponseWithMutationSeqno(MemcachedDecrementResponse):
    """decrement (DECREMENT), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x06, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedGetq(UPRBody):
    """getq (GETQ), request: no extras.

    Reads a document, silent on a miss.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x09, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetqResponse(UPRBody):
    """getq (GETQ), answer with status 0x00: found, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x09, response=True, extras_size=4)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        StrLenField("key", b"", length_from=_key_length),  # document key, may be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedKvNoop(UPRBody):
    """kv_noop (NOOP), request: no extras.

    Does nothing, and says so.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x0A, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedKvNoopResponse(UPRBody):
    """kv_noop (NOOP), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0A, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedVersion(UPRBody):
    """version (VERSION), request: no extras.

    Asks for the server's version.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x0B, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedVersionResponse(UPRBody):
    """version (VERSION), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0B, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # text, must be there
    ]


class MemcachedGetk(UPRBody):
    """getk (GETK), request: no extras.

    Reads a document; the answer repeats the key.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x0C, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetkResponse(UPRBody):
    """getk (GETK), answer with status 0x00: found, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0C, response=True, extras_size=4)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        StrLenField("key", b"", length_from=_key_length),  # document key, may be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedGetkq(UPRBody):
    """getkq (GETKQ), request: no extras.

    Reads a document, silent on a miss; the answer repeats the key.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x0D, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetkqResponse(UPRBody):
    """getkq (GETKQ), answer with status 0x00: found, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0D, response=True, extras_size=4)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        StrLenField("key", b"", length_from=_key_length),  # document key, may be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedAppendResponse(UPRBody):
    """append (APPEND), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0E, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedAppendResponseWithMutationSeqno(MemcachedAppendResponse):
    """append (APPEND), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0E, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedPrependResponse(UPRBody):
    """prepend (PREPEND), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0F, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedPrependResponseWithMutationSeqno(MemcachedPrependResponse):
    """prepend (PREPEND), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x0F, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedStatResponse(UPRBody):
    """stat (STAT), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x10, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        StrField("value", b""),  # text, may be there
    ]


class MemcachedSetq(UPRBody):
    """setq (SETQ), request: store, 8 bytes of extras.

    Writes a document, silent on success.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x11, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedSetqResponse(UPRBody):
    """setq (SETQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x11, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedSetqResponseWithMutationSeqno(MemcachedSetqResponse):
    """setq (SETQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x11, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedAddq(UPRBody):
    """addq (ADDQ), request: store, 8 bytes of extras.

    Writes a document that is not there yet, silent on success.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x12, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedAddqResponse(UPRBody):
    """addq (ADDQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x12, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedAddqResponseWithMutationSeqno(MemcachedAddqResponse):
    """addq (ADDQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x12, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedReplaceq(UPRBody):
    """replaceq (REPLACEQ), request: store, 8 bytes of extras.

    Writes a document that is there already, silent on success.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x13, extras_size=8)
    fields_desc: ClassVar[list[AnyField]] = [
        XIntField("item_flags", 0),  # the application's flags, stored as they came
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # document, may be there
    ]


class MemcachedReplaceqResponse(UPRBody):
    """replaceq (REPLACEQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x13, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedReplaceqResponseWithMutationSeqno(MemcachedReplaceqResponse):
    """replaceq (REPLACEQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x13, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDeleteq(UPRBody):
    """deleteq (DELETEQ), request: no extras.

    Deletes a document, silent on success.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x14, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedDeleteqResponse(UPRBody):
    """deleteq (DELETEQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x14, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDeleteqResponseWithMutationSeqno(MemcachedDeleteqResponse):
    """deleteq (DELETEQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x14, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedIncrementq(UPRBody):
    """incrementq (INCREMENTQ), request: arithmetic, 20 bytes of extras.

    Adds to a counter, silent on success.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x15, extras_size=20, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("delta", 0),  # how much to add
        LongField("initial", 0),  # where to start a new counter
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedIncrementqResponse(UPRBody):
    """incrementq (INCREMENTQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x15, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedIncrementqResponseWithMutationSeqno(MemcachedIncrementqResponse):
    """incrementq (INCREMENTQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x15, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDecrementq(UPRBody):
    """decrementq (DECREMENTQ), request: arithmetic, 20 bytes of extras.

    Subtracts from a counter, silent on success.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x16, extras_size=20, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("delta", 0),  # how much to add
        LongField("initial", 0),  # where to start a new counter
        IntField("expiration", 0),  # when the document expires; 0: never
        StrLenField("key", b"", length_from=_key_length),  # document key, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedDecrementqResponse(UPRBody):
    """decrementq (DECREMENTQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x16, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedDecrementqResponseWithMutationSeqno(MemcachedDecrementqResponse):
    """decrementq (DECREMENTQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x16, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedAppendqResponse(UPRBody):
    """appendq (APPENDQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x19, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedAppendqResponseWithMutationSeqno(MemcachedAppendqResponse):
    """appendq (APPENDQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x19, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedPrependqResponse(UPRBody):
    """prependq (PREPENDQ), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x1A, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedPrependqResponseWithMutationSeqno(MemcachedPrependqResponse):
    """prependq (PREPENDQ), answer with status 0x00: with mutation seqno, 16 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x1A, response=True, extras_size=16)
    fields_desc: ClassVar[list[AnyField]] = [
        XLongField("vbucket_uuid", 0),  # history branch of the change
        LongField("seqno", 0),  # seqno of the change
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedHello(UPRBody):
    """hello (HELLO), request: no extras.

    Negotiates features: the key is the agent's name, the value the features asked for; the answer lists those
    granted.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x1F)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        # A list of features: in a request those that the client wants, in the answer those that it gets.
        _Records("feature_list", UPRFeatureListEntry, 2),
        StrField("value", b""),  # what is left of the value
    ]


class MemcachedHelloResponse(UPRBody):
    """hello (HELLO), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x1F, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # A list of features: in a request those that the client wants, in the answer those that it gets.
        _Records("feature_list", UPRFeatureListEntry, 2),
        StrField("value", b""),  # what is left of the value
    ]


class MemcachedSaslListMechs(UPRBody):
    """sasl_list_mechs (SASL_LIST_MECHS), request: no extras.

    Asks for the SASL mechanisms.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x20, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedSaslListMechsResponse(UPRBody):
    """sasl_list_mechs (SASL_LIST_MECHS), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x20, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # text, may be there
    ]


class MemcachedSaslAuth(UPRBody):
    """sasl_auth (SASL_AUTH), request: no extras.

    Starts a log-in; the key is the mechanism. auth_continue asks for another step.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x21)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        StrField("value", b""),  # secret, may be there
    ]


class MemcachedSaslAuthResponse(UPRBody):
    """sasl_auth (SASL_AUTH), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x21, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        StrField("value", b""),  # secret, may be there
    ]


class MemcachedSaslAuthAuthContinue(UPRBody):
    """sasl_auth (SASL_AUTH), answer with status 0x21: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x21, response=True, status=0x21)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        StrField("value", b""),  # secret, may be there
    ]


class MemcachedSaslStep(UPRBody):
    """sasl_step (SASL_STEP), request: no extras.

    Goes on with a log-in.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x22)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        StrField("value", b""),  # secret, may be there
    ]


class MemcachedSaslStepResponse(UPRBody):
    """sasl_step (SASL_STEP), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x22, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        StrField("value", b""),  # secret, may be there
    ]


class MemcachedSaslStepAuthContinue(UPRBody):
    """sasl_step (SASL_STEP), answer with status 0x21: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x22, response=True, status=0x21)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, may be there
        StrField("value", b""),  # secret, may be there
    ]


class MemcachedSetVbucket(UPRBody):
    """set_vbucket (SET_VBUCKET), request: state byte, 1 byte of extras.

    Sets a vbucket's state, in the extras or in the value; since 6.5 a JSON topology may follow. A state that
    changes ends the vbucket's streams.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x3D, extras_size=1)
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("vbucket_state", 0, VBUCKET_STATE_NAMES),  # the state to take
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedSetVbucketStateWord(MemcachedSetVbucket):
    """set_vbucket (SET_VBUCKET), request: state word, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x3D, extras_size=4)
    fields_desc: ClassVar[list[AnyField]] = [
        IntEnumField("vbucket_state", 0, VBUCKET_STATE_NAMES),  # the state to take
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedSetVbucketStateAsValue(MemcachedSetVbucket):
    """set_vbucket (SET_VBUCKET), request: state as value."""

    form: ClassVar[Form | None] = Form("memcached", 0x3D)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # bytes, may be there
    ]


class MemcachedSetVbucketResponse(UPRBody):
    """set_vbucket (SET_VBUCKET), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x3D, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetAllVbSeqnos(UPRBody):
    """get_all_vb_seqnos (GET_ALL_VB_SEQNOS), request: no extras.

    Asks for the high seqnos of all vbuckets, or of those in a state, or of one collection in them; listed by
    ascending vbucket.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x48, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetAllVbSeqnosByState(MemcachedGetAllVbSeqnos):
    """get_all_vb_seqnos (GET_ALL_VB_SEQNOS), request: by state, 4 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x48, extras_size=4, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        # only vbuckets in this state are listed; without the field, every one that is not dead
        IntEnumField("state_filter", 0, VBUCKET_STATE_FILTER_NAMES),
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetAllVbSeqnosByStateAndCollection(MemcachedGetAllVbSeqnos):
    """get_all_vb_seqnos (GET_ALL_VB_SEQNOS), request: by state and collection, 8 bytes of extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x48, extras_size=8, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        # only vbuckets in this state are listed; without the field, every one that is not dead
        IntEnumField("state_filter", 0, VBUCKET_STATE_FILTER_NAMES),
        XIntField("collection_id", 0),  # id of the collection
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedGetAllVbSeqnosResponse(UPRBody):
    """get_all_vb_seqnos (GET_ALL_VB_SEQNOS), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x48, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        _Records("vbucket_seqnos", UPRVbucketSeqnosEntry, 10),  # A list of vbuckets, by ascending id.
        StrField("value", b""),  # what is left of the value
    ]


class MemcachedSelectBucket(UPRBody):
    """select_bucket (SELECT_BUCKET), request: no extras.

    Chooses the bucket; the key is its name.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x89, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # name, must be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedSelectBucketResponse(UPRBody):
    """select_bucket (SELECT_BUCKET), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x89, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedKvGetFailoverLog(UPRBody):
    """kv_get_failover_log (GET_FAILOVER_LOG), request: no extras.

    The failover log outside UPR; same body as 0x54.
    """

    form: ClassVar[Form | None] = Form("memcached", 0x96, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedKvGetFailoverLogResponse(UPRBody):
    """kv_get_failover_log (GET_FAILOVER_LOG), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0x96, response=True)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        # The branches of the vbucket's history, the newest first; seqnos never rise.
        _Records("failover_log", UPRFailoverLogEntry, 16),
        StrField("value", b""),  # what is left of the value
    ]


class MemcachedSeqnoPersistence(UPRBody):
    """seqno_persistence (SEQNO_PERSISTENCE), request: seqno, 8 bytes of extras.

    Waits until a seqno is on disk.
    """

    form: ClassVar[Form | None] = Form("memcached", 0xB7, extras_size=8, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        LongField("seqno", 0),  # seqno to wait for
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


class MemcachedSeqnoPersistenceResponse(UPRBody):
    """seqno_persistence (SEQNO_PERSISTENCE), answer with status 0x00: no extras."""

    form: ClassVar[Form | None] = Form("memcached", 0xB7, response=True, takes_value=False)
    fields_desc: ClassVar[list[AnyField]] = [
        StrLenField("key", b"", length_from=_key_length),  # must not be there
        StrField("value", b""),  # must not be there
    ]


# Look-ups.

FRAME_INFOS: tuple[type[UPRFrameInfo], ...] = (
    UPRBarrierInfo,
    UPRDurabilityInfo,
    UPRStreamIdInfo,
    UPROpenTracingContextInfo,
    UPRImpersonateUserInfo,
    UPRPreserveTtlInfo,
    UPRImpersonateExtraPrivilegeInfo,
    UPRImpersonateTokenInfo,
    UPRServerDurationInfo,
    UPRReadUnitsInfo,
    UPRWriteUnitsInfo,
    UPRThrottleDurationInfo,
)
#: By direction (is it a response's?) and id.
_INFO_BY_ID: dict[tuple[bool, int], type[UPRFrameInfo]] = {
    (False, 0): UPRBarrierInfo,
    (False, 1): UPRDurabilityInfo,
    (False, 2): UPRStreamIdInfo,
    (False, 3): UPROpenTracingContextInfo,
    (False, 4): UPRImpersonateUserInfo,
    (False, 5): UPRPreserveTtlInfo,
    (False, 6): UPRImpersonateExtraPrivilegeInfo,
    (False, 7): UPRImpersonateTokenInfo,
    (True, 0): UPRServerDurationInfo,
    (True, 1): UPRReadUnitsInfo,
    (True, 2): UPRWriteUnitsInfo,
    (True, 3): UPRThrottleDurationInfo,
}
HEADERS: tuple[type[UPR], ...] = (
    UPR,
    UPREarly,
    UPRDraft,
    UPRProto,
    Memcached,
)
BODIES: tuple[type[UPRBody], ...] = (
    UPROpen,
    UPROpenResponse,
    UPRAddStream,
    UPRAddStreamResponse,
    UPRCloseStream,
    UPRCloseStreamResponse,
    UPRStreamRequest,
    UPRStreamRequestResponse,
    UPRStreamRequestRollback,
    UPRStreamRequestRollbackRollbackInExtras,
    UPRGetFailoverLog,
    UPRGetFailoverLogResponse,
    UPRStreamEnd,
    UPRStreamEndResponse,
    UPRSnapshotMarker,
    UPRSnapshotMarkerV20,
    UPRSnapshotMarkerV22,
    UPRSnapshotMarkerV21,
    UPRSnapshotMarkerResponse,
    UPRMutation,
    UPRMutationCollectionsPrototype,
    UPRMutationResponse,
    UPRDeletion,
    UPRDeletionV2,
    UPRDeletionCollectionsPrototype,
    UPRDeletionResponse,
    UPRExpiration,
    UPRExpirationAsDeletionV1,
    UPRExpirationCollectionsPrototype,
    UPRExpirationResponse,
    UPRFlush,
    UPRFlushResponse,
    UPRSetVbucketState,
    UPRSetVbucketStateResponse,
    UPRNoop,
    UPRNoopResponse,
    UPRBufferAck,
    UPRBufferAckResponse,
    UPRControl,
    UPRControlResponse,
    UPRSystemEvent,
    UPRSystemEventResponse,
    UPRPrepare,
    UPRPrepareResponse,
    UPRSeqnoAcknowledged,
    UPRSeqnoAcknowledgedResponse,
    UPRCommit,
    UPRCommitResponse,
    UPRAbort,
    UPRAbortResponse,
    UPRSeqnoAdvanced,
    UPRSeqnoAdvancedResponse,
    UPROsoSnapshot,
    UPROsoSnapshotResponse,
    UPRCacheTransfer,
    UPRCacheTransferResponse,
    UPRCacheTransferEnd,
    UPRCacheTransferEndResponse,
    UPREarlyOpen,
    UPREarlyOpen4Bytes,
    UPREarlyOpenResponse,
    UPREarlyAddStream,
    UPREarlyAddStreamResponse,
    UPREarlyCloseStream,
    UPREarlyCloseStreamResponse,
    UPREarlyStreamRequest,
    UPREarlyStreamRequest48Bytes,
    UPREarlyStreamRequestResponse,
    UPREarlyStreamRequestRollback,
    UPREarlyStreamRequestRollbackRollbackInExtras,
    UPREarlyGetFailoverLog,
    UPREarlyGetFailoverLogResponse,
    UPREarlyStreamEnd,
    UPREarlyStreamEndResponse,
    UPREarlySnapshotMarker,
    UPREarlySnapshotMarkerWithRange,
    UPREarlySnapshotMarkerResponse,
    UPREarlyMutation,
    UPREarlyMutation31Bytes,
    UPREarlyMutation28Bytes,
    UPREarlyMutationResponse,
    UPREarlyDeletion,
    UPREarlyDeletion16Bytes,
    UPREarlyDeletionResponse,
    UPREarlyExpiration,
    UPREarlyExpiration16Bytes,
    UPREarlyExpirationResponse,
    UPREarlyFlush,
    UPREarlyFlushResponse,
    UPREarlySetVbucketState,
    UPREarlySetVbucketStateResponse,
    UPREarlyNoop,
    UPREarlyNoopResponse,
    UPREarlyBufferAck,
    UPREarlyBufferAckCountAsValue,
    UPREarlyBufferAckResponse,
    UPREarlyControl,
    UPREarlyControlResponse,
    UPRDraftStreamRequest,
    UPRDraftStreamRequest40BytesAsDrawn,
    UPRDraftGetFailoverLog,
    UPRDraftStreamOk,
    UPRDraftStreamNotMyVbucket,
    UPRDraftStreamRollback,
    UPRDraftStreamStart,
    UPRDraftSnapshotStart,
    UPRDraftSnapshotEnd,
    UPRDraftMutation,
    UPRDraftMutation36BytesAsDrawn,
    UPRDraftDeletion,
    UPRDraftDeletion36BytesAsDrawn,
    UPRDraftExpiration,
    UPRDraftExpiration36BytesAsDrawn,
    UPRDraftFlush,
    UPRDraftStreamEnd,
    UPRDraftFailoverLog,
    UPRProtoMutation,
    UPRProtoDeletion,
    UPRProtoExpiration,
    MemcachedGet,
    MemcachedGetResponse,
    MemcachedSet,
    MemcachedSetResponse,
    MemcachedSetResponseWithMutationSeqno,
    MemcachedAdd,
    MemcachedAddResponse,
    MemcachedAddResponseWithMutationSeqno,
    MemcachedReplace,
    MemcachedReplaceResponse,
    MemcachedReplaceResponseWithMutationSeqno,
    MemcachedDelete,
    MemcachedDeleteResponse,
    MemcachedDeleteResponseWithMutationSeqno,
    MemcachedIncrement,
    MemcachedIncrementResponse,
    MemcachedIncrementResponseWithMutationSeqno,
    MemcachedDecrement,
    MemcachedDecrementResponse,
    MemcachedDecrementResponseWithMutationSeqno,
    MemcachedGetq,
    MemcachedGetqResponse,
    MemcachedKvNoop,
    MemcachedKvNoopResponse,
    MemcachedVersion,
    MemcachedVersionResponse,
    MemcachedGetk,
    MemcachedGetkResponse,
    MemcachedGetkq,
    MemcachedGetkqResponse,
    MemcachedAppendResponse,
    MemcachedAppendResponseWithMutationSeqno,
    MemcachedPrependResponse,
    MemcachedPrependResponseWithMutationSeqno,
    MemcachedStatResponse,
    MemcachedSetq,
    MemcachedSetqResponse,
    MemcachedSetqResponseWithMutationSeqno,
    MemcachedAddq,
    MemcachedAddqResponse,
    MemcachedAddqResponseWithMutationSeqno,
    MemcachedReplaceq,
    MemcachedReplaceqResponse,
    MemcachedReplaceqResponseWithMutationSeqno,
    MemcachedDeleteq,
    MemcachedDeleteqResponse,
    MemcachedDeleteqResponseWithMutationSeqno,
    MemcachedIncrementq,
    MemcachedIncrementqResponse,
    MemcachedIncrementqResponseWithMutationSeqno,
    MemcachedDecrementq,
    MemcachedDecrementqResponse,
    MemcachedDecrementqResponseWithMutationSeqno,
    MemcachedAppendqResponse,
    MemcachedAppendqResponseWithMutationSeqno,
    MemcachedPrependqResponse,
    MemcachedPrependqResponseWithMutationSeqno,
    MemcachedHello,
    MemcachedHelloResponse,
    MemcachedSaslListMechs,
    MemcachedSaslListMechsResponse,
    MemcachedSaslAuth,
    MemcachedSaslAuthResponse,
    MemcachedSaslAuthAuthContinue,
    MemcachedSaslStep,
    MemcachedSaslStepResponse,
    MemcachedSaslStepAuthContinue,
    MemcachedSetVbucket,
    MemcachedSetVbucketStateWord,
    MemcachedSetVbucketStateAsValue,
    MemcachedSetVbucketResponse,
    MemcachedGetAllVbSeqnos,
    MemcachedGetAllVbSeqnosByState,
    MemcachedGetAllVbSeqnosByStateAndCollection,
    MemcachedGetAllVbSeqnosResponse,
    MemcachedSelectBucket,
    MemcachedSelectBucketResponse,
    MemcachedKvGetFailoverLog,
    MemcachedKvGetFailoverLogResponse,
    MemcachedSeqnoPersistence,
    MemcachedSeqnoPersistenceResponse,
)
_BODIES: dict[tuple[str, int, bool, bool], list[type[UPRBody]]] = {}
for _body in BODIES:
    _form = _body.forms()
    _BODIES.setdefault((_form.dialect, _form.opcode, _form.response, _form.server_push), []).append(_body)
_UNCOUNTED = {(_body.forms().dialect, _body.forms().opcode) for _body in BODIES if _body.forms().uncounted}
_REQUEST = _MAGIC_OF[False, False, False]
_PUSH_TABLE = "memcached"
_STREAM_ID_TAG = b"\x22"
_STREAM_ID_SIZE = 3

for _port in PORTS:
    bind_port(_port)
for _header in HEADERS:
    bind_top_down(TCP, _header, dport=PORTS[0])
