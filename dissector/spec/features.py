"""HELLO features: what a client asks for in a list of numbers, and a server grants in another."""

from __future__ import annotations

from dissector.spec.model import UNRELEASED, Enumeration, Name, Release

COLLECTIONS_FEATURE = 0x12

FEATURES = Enumeration(
    "HELLO feature",
    "What a client asks for and a server grants; what the answer does not list is off.",
    (
        Name(0x01, "datatype", "all datatypes at once; retired, each has its own feature now"),
        Name(0x02, "tls", "never more than a number"),
        Name(0x03, "tcp_nodelay", "small packets are sent at once"),
        Name(0x04, "mutation_seqno", "answers to writes carry vbucket uuid and seqno"),
        Name(0x05, "tcp_delay", "small packets may be gathered"),
        Name(0x06, "xattr", "values may have a section of xattrs", Release(5)),
        Name(0x07, "xerror", "errors carry a JSON context, and get_error_map explains statuses"),
        Name(0x08, "select_bucket", "the client will select a bucket"),
        Name(0x09, "collections_prototype", "the collections of 5.0 to 6.0; retired", Release(5), Release(6)),
        Name(0x0A, "snappy", "values may be compressed"),
        Name(0x0B, "json", "values may be marked as JSON"),
        Name(0x0C, "duplex", "the server may send requests"),
        Name(0x0D, "clustermap_change_notification", "the server pushes new cluster maps"),
        Name(0x0E, "unordered_execution", "commands may be answered in another order"),
        Name(0x0F, "tracing", "responses carry the server's duration in framing extras"),
        Name(0x10, "alt_request", "requests may carry framing extras"),
        Name(0x11, "sync_replication", "writes may ask for a durability level", Release(6, 5)),
        Name(
            COLLECTIONS_FEATURE,
            "collections",
            "keys start with a collection id, and stream requests may have a value",
            Release(7),
        ),
        Name(0x13, "snappy_everywhere", "every value may be compressed, in answers to any command"),
        Name(0x14, "preserve_ttl", "a write can keep the document's expiry"),
        Name(0x15, "vattr", "the virtual xattr $vbucket is known, and an unknown one is an error"),
        Name(0x16, "point_in_time_recovery", "withdrawn"),
        Name(0x17, "subdoc_create_as_deleted", "a sub-document command can make a tombstone"),
        Name(0x18, "subdoc_document_macro_support", "the virtual xattr $document can be used in macros"),
        Name(0x19, "subdoc_replace_body_with_xattr", "a sub-document command can turn an xattr into the document"),
        Name(0x1A, "report_unit_usage", "responses carry read and write units in framing extras"),
        Name(0x1B, "non_blocking_throttling_mode", "would_throttle instead of a command that is held back"),
        Name(0x1C, "subdoc_replica_read", "sub-document look-ups may read replicas"),
        Name(0x1D, "get_cluster_config_with_known_version", "a client can name the cluster map that it has"),
        Name(0x1E, "dedupe_not_my_vbucket_clustermap", "not_my_vbucket repeats no cluster map that was sent before"),
        Name(0x1F, "clustermap_change_notification_brief", "the server pushes versions of new cluster maps only"),
        Name(0x20, "subdoc_access_multiple_xattr_keys", "one sub-document command may touch several xattrs"),
        Name(
            0x26,
            "skip_deletes_in_backfill",
            "the server knows the open flag of this name",
            UNRELEASED,
        ),
    ),
)
