"""The parameters of the control command."""

from __future__ import annotations

from dissector.spec.model import UNRELEASED, ControlKey, Release

_SWITCH = "true|false"
_ON = "true"

CONTROL_KEYS: tuple[ControlKey, ...] = (
    ControlKey(
        "connection_buffer_size",
        "a decimal number of bytes",
        r"\d{1,10}",
        "Size of the flow-control window. 0 switches it off; in 3.0 a 0, and anything that is no number, leaves the "
        "window full for good. May be sent again with another size.",
        Release(3),
    ),
    ControlKey(
        "stream_buffer_size",
        "a decimal number of bytes",
        r"\d{1,10}",
        "A window for each stream. Documented only: every release answers not_supported (E-25).",
        Release(3),
    ),
    ControlKey(
        "enable_noop",
        _SWITCH,
        r"true|false",
        "The producer sends no-ops (0x5c), and the consumer answers them. Streams with xattrs or a JSON value need it.",
        Release(3),
    ),
    ControlKey(
        "set_noop_interval",
        "seconds; with a fraction since 7.6",
        r"\d+(\.\d+)?",
        "How often the producer sends no-ops; not less than the interval of the server's connection manager. The "
        "documents say 20 to 10800, and since 3.0.1.",
        Release(3, 0, 2),
    ),
    ControlKey(
        "set_priority",
        "high, medium or low",
        r"high|medium|low",
        "How much of the server's time the connection gets.",
        Release(4),
    ),
    ControlKey(
        "enable_ext_metadata",
        _SWITCH,
        r"true|false",
        "Extended metadata behind the value of mutations and deletions: nmeta bytes.",
        Release(4),
        Release(6, 6),
    ),
    ControlKey(
        "enable_value_compression",
        _SWITCH,
        r"true|false",
        "Values are compressed. Replaced by force_value_compression.",
        Release(4, 5),
        Release(5, 1),
    ),
    ControlKey(
        "supports_cursor_dropping",
        _SWITCH,
        r"true|false",
        "The producer may drop the cursor of a consumer that is too slow, and the consumer copes with it.",
        Release(4, 5),
    ),
    ControlKey(
        "supports_cursor_dropping_vulcan",
        _ON,
        r"true",
        "Server to server: the consumer copes with dropped cursors.",
        Release(5, 5),
    ),
    ControlKey("supports_hifi_MFU", _ON, r"true", "Server to server: finer cache hints.", Release(5, 5)),
    ControlKey(
        "force_value_compression",
        _SWITCH,
        r"true|false",
        "Compress every value; without HELLO snappy it is answered with invalid_arguments.",
        Release(5, 5),
    ),
    ControlKey(
        "send_stream_end_on_client_close_stream",
        _ON,
        r"true",
        "A stream end with reason closed follows the answer to a close stream.",
        Release(5, 5),
    ),
    ControlKey(
        "enable_expiry_opcode",
        _SWITCH,
        r"true|false",
        "Expirations come as 0x59 rather than 0x58; takes effect with open flag 0x20 only.",
        Release(6, 5),
    ),
    ControlKey(
        "enable_stream_id",
        _ON,
        r"true",
        "Several streams of one vbucket, told apart by a stream id; excludes sync writes, which not_supported tells.",
        Release(6, 5),
    ),
    ControlKey(
        "enable_sync_writes",
        _ON,
        r"true",
        "Prepares, commits and aborts are sent; with consumer_name this makes a sync replica, which gets V2.0 markers.",
        Release(6, 5),
    ),
    ControlKey("consumer_name", "a name", r".+", "Who acknowledges prepares: the replica's name.", Release(6, 5)),
    ControlKey(
        "backfill_order",
        "round-robin or sequential",
        r"round-robin|sequential",
        "How backfills of several vbuckets share the disk: in turns, or one after the other.",
        Release(6, 6),
    ),
    ControlKey(
        "include_deleted_user_xattrs",
        _ON,
        r"true",
        "Probes for open flag 0x100, and has no other effect.",
        Release(6, 6),
    ),
    ControlKey(
        "enable_out_of_order_snapshots",
        "true, or true_with_seqno_advanced since 7.2",
        r"true|true_with_seqno_advanced",
        "Disk snapshots may come in key order, between two oso_snapshot messages (0x65).",
        Release(7),
    ),
    ControlKey(
        "v7_dcp_status_codes",
        _ON,
        r"true",
        "Allows the statuses dcp_stream_not_found (0x0a) and opaque_no_match (0x0b).",
        Release(7),
    ),
    ControlKey(
        "flatbuffers_system_events", _ON, r"true", "System events of version 2; false is refused.", Release(7, 2)
    ),
    ControlKey("change_streams", _ON, r"true", "History snapshots; false is refused.", Release(7, 2)),
    ControlKey(
        "max_marker_version",
        "2.2",
        r"2\.2",
        "Markers of this version; without HELLO collections it is answered with not_supported.",
        Release(8),
    ),
    ControlKey(
        "cache_transfer",
        "anything",
        r"(?s).*",
        "Probes for cache transfer, which not_supported tells to be switched off.",
        UNRELEASED,
    ),
)
