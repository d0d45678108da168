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
        "Size of the flow-control window. 0 switches it off since 4.0; in 3.0 a 0 leaves the window full for good. "
        "May be sent again with another size.",
        Release(3),
    ),
    ControlKey(
        "stream_buffer_size",
        "a decimal number of bytes",
        r"\d{1,10}",
        "Documented only: every release answers not_supported (E-25).",
        Release(3),
    ),
    ControlKey("enable_noop", _SWITCH, r"true|false", "The producer sends no-ops.", Release(3)),
    ControlKey(
        "set_noop_interval",
        "seconds; with a fraction since 7.6",
        r"\d+(\.\d+)?",
        "How often the producer sends no-ops; not less than the server's own interval.",
        Release(3, 0, 2),
    ),
    ControlKey("set_priority", "high, medium or low", r"high|medium|low", "Scheduling of the connection.", Release(4)),
    ControlKey(
        "enable_ext_metadata",
        _SWITCH,
        r"true|false",
        "Extended metadata behind the value of data messages.",
        Release(4),
        Release(6, 6),
    ),
    ControlKey(
        "enable_value_compression",
        _SWITCH,
        r"true|false",
        "Replaced by force_value_compression.",
        Release(4, 5),
        Release(5, 1),
    ),
    ControlKey(
        "supports_cursor_dropping",
        _SWITCH,
        r"true|false",
        "The consumer can take a stream end with reason too_slow.",
        Release(4, 5),
    ),
    ControlKey("supports_cursor_dropping_vulcan", _ON, r"true", "Server to server.", Release(5, 5)),
    ControlKey("supports_hifi_MFU", _ON, r"true", "Server to server: finer cache hints.", Release(5, 5)),
    ControlKey(
        "force_value_compression",
        _SWITCH,
        r"true|false",
        "Compress every value; needs HELLO snappy.",
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
        "Several streams of one vbucket; excludes sync writes.",
        Release(6, 5),
    ),
    ControlKey(
        "enable_sync_writes",
        _ON,
        r"true",
        "Prepares, commits and aborts are sent; with consumer_name this makes a sync replica.",
        Release(6, 5),
    ),
    ControlKey("consumer_name", "a name", r".+", "Who acknowledges prepares.", Release(6, 5)),
    ControlKey(
        "backfill_order",
        "round-robin or sequential",
        r"round-robin|sequential",
        "How backfills of several streams share the disk.",
        Release(6, 6),
    ),
    ControlKey("include_deleted_user_xattrs", _ON, r"true", "Probes for open flag 0x100.", Release(6, 6)),
    ControlKey(
        "enable_out_of_order_snapshots",
        "true, or true_with_seqno_advanced since 7.2",
        r"true|true_with_seqno_advanced",
        "Disk snapshots may come in key order.",
        Release(7),
    ),
    ControlKey("v7_dcp_status_codes", _ON, r"true", "Allows the statuses 0x0a and 0x0b.", Release(7)),
    ControlKey(
        "flatbuffers_system_events", _ON, r"true", "System events of version 2; false is refused.", Release(7, 2)
    ),
    ControlKey("change_streams", _ON, r"true", "History snapshots; false is refused.", Release(7, 2)),
    ControlKey("max_marker_version", "2.2", r"2\.[02]", "Markers of this version; needs collections.", Release(8)),
    ControlKey("cache_transfer", "anything", r"(?s).*", "Probes for cache transfer.", UNRELEASED),
)
