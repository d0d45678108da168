"""The JSON objects that values of requests can be: what may stand in them. Servers ignore any other key."""

from __future__ import annotations

from dissector.spec.model import UNRELEASED, JsonKey, JsonType, Release

OPEN: tuple[JsonKey, ...] = (
    JsonKey(
        "consumer_name",
        JsonType.STRING,
        "a name",
        "Who acknowledges prepares; the control of the same name says it too.",
        Release(6, 5),
    ),
)

STREAM_REQUEST: tuple[JsonKey, ...] = (
    JsonKey(
        "uid",
        JsonType.STRING,
        "hexadecimal, without 0x",
        "The collections manifest that the consumer has seen last, from a system event.",
        Release(7),
    ),
    JsonKey(
        "sid",
        JsonType.INTEGER,
        "1 to 65535",
        "The stream id, which the stream's messages then carry; needs the control enable_stream_id. Servers keep 16 "
        "bits of it.",
        Release(6, 5),
        most=0xFFFF,
    ),
    JsonKey(
        "collections",
        JsonType.STRINGS,
        "hexadecimal ids, without 0x",
        "Only these collections; excludes scope.",
        Release(7),
    ),
    JsonKey(
        "scope",
        JsonType.STRING,
        "a hexadecimal id, without 0x",
        "Only the collections of this scope; excludes collections.",
        Release(7),
    ),
    JsonKey(
        "purge_seqno",
        JsonType.STRING,
        "decimal",
        "Purge seqno of the last V2.2 marker; spares a rollback that purged tombstones would cause.",
        Release(8),
    ),
    JsonKey(
        "cts",
        JsonType.OBJECT,
        "an object",
        "How the cache is to be transferred; for streams with the flag cache_transfer.",
        UNRELEASED,
        members=(
            JsonKey(
                "free_memory",
                JsonType.INTEGER,
                "bytes, not negative; left out: 0",
                "What the consumer has room for. When it is used up the transfer stops, or goes on without values.",
                UNRELEASED,
            ),
            JsonKey(
                "all_keys",
                JsonType.BOOLEAN,
                "left out: false",
                "Send every key, without its value where there is no room; false: only documents in memory.",
                UNRELEASED,
            ),
        ),
    ),
)
