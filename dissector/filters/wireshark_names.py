"""Names of Wireshark's display filters: which field of ours each one means, or why none does.

A field of the plugin is ``upr.`` and the column's name, a flag of it ``upr.<field>.<flag>``. A name stands for a column
only if it means the same; the others are listed with what comes near. Knows names, and no grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dissector.filters.names import FieldInfo

PREFIX = "upr."
#: Protocols: every message has them.
PROTOCOLS = frozenset(("upr", "tcp"))
#: What every message has.
ALWAYS_THERE = "frame"

_SAME = {
    "frame.number": "packet_last",  # Wireshark shows a message in the packet that completes it
    "frame.time_utc": "time",
    "ip.addr": "addr",
    "ip.src": "src",
    "ip.dst": "dst",
    "ipv6.addr": "addr",
    "ipv6.src": "src",
    "ipv6.dst": "dst",
    "tcp.port": "port",
    "tcp.srcport": "sport",
    "tcp.dstport": "dport",
    # A field that may be in a message several times is a column with a list.
    "upr.defect": "defects",
    "upr.feature": "features",
    "upr.failover_log.vbucket_uuid": "failover_log",
    "upr.record.key": "cache_records",
}
#: Names of others, and what to ask instead.
_OTHERS = {
    "frame.time": "time has it, in UTC unless it says otherwise",
    "frame.time_epoch": "time has it, as in time >= '2026-11-16T02:10:00Z'",
    "frame.time_relative": "it counts from the first packet of a file, seconds from the first message",
    "frame.time_delta": "it is the time between packets, delta that between messages",
    "frame.time_delta_displayed": "it is the time between packets, delta that between messages",
    "tcp.stream": "it counts all TCP connections from 0, conn those with messages from 1",
}
_SEQNO = "by_seqno has it"
_UNREAD = "rows do not have it: -V shows it"
_STATE = "only the plugin keeps it"
_RECORD = "cache_records has keys only: upr.record.key"
#: Fields of the plugin that no column has, and what comes near.
WITHOUT_COLUMN: Mapping[str, str] = {
    **dict.fromkeys(("sequence_number", "commit_seqno", "abort_seqno"), _SEQNO),
    **dict.fromkeys(
        (
            *("layout", "framing", "frame_info", "extras", "withheld", "inflated", "document", "unsynced"),
            *("xattr.name", "xattr.value", "collection_name", "scope_name", "metadata.id", "metadata.data"),
            *("metadata_id", "metadata_length", "request_id", "padding", "unused", "ttl_valid"),
            *("default_max_visible_seqno", "seqno", "delta", "initial", "state_filter", "durability_timeout"),
            *("auth_token_id", "server_duration", "read_units", "write_units", "throttle_duration"),
            *("vbucket_seqnos.vbucket", "vbucket_seqnos.seqno"),
        ),
        _UNREAD,
    ),
    "failover_log.seqno": "failover_log is asked for uuids only",
    **dict.fromkeys(
        (
            *("record.collection_id", "record.value", "record.cas", "record.by_seqno", "record.rev_seqno"),
            *("record.value_length", "record.item_flags", "record.expiration", "record.key_length"),
            *("record.datatype", "record.cache_hint"),
            *("record.datatype.json", "record.datatype.snappy", "record.datatype.xattr"),
        ),
        _RECORD,
    ),
    **dict.fromkeys(
        (
            *("connection_name", "role", "era", "stream", "snapshot", "snapshot_start", "snapshot_end"),
            *("previous_seqno", "outstanding", "window", "response_in"),
        ),
        _STATE,
    ),
    "response_to": "it has the packet of the request, response_to its message",
    "response_time": "response_time_ns has it, in nanoseconds",
    **dict.fromkeys(("rule", "severity", "finding", "evidence"), "uprscope check finds them"),
}


class Meaning(NamedTuple):
    """What a name stands for."""

    field: str
    flag: str = ""  #: of the field: a name among its constants


def meaning(word: str, fields: Mapping[str, FieldInfo]) -> Meaning | None:
    """Return what one of Wireshark's names stands for; None if no field is the same."""
    if word in _SAME:
        return Meaning(_SAME[word])
    name = word.removeprefix(PREFIX)
    if name == word or name in WITHOUT_COLUMN:
        return None
    if name in fields:
        return Meaning(name)
    field, _, flag = name.rpartition(".")
    info = fields.get(field)
    return Meaning(field, flag) if info is not None and info.flags and flag in info.constants else None


def why_not(word: str) -> str | None:
    """Say what to ask instead of a name that no field is the same as, if that is known."""
    return _OTHERS.get(word) or WITHOUT_COLUMN.get(word.removeprefix(PREFIX) if word.startswith(PREFIX) else "")


def known(fields: Mapping[str, FieldInfo]) -> list[str]:
    """Return names that stand for a field, to suggest one."""
    return [*_SAME, *(f"{PREFIX}{name}" for name in fields if name not in WITHOUT_COLUMN)]
