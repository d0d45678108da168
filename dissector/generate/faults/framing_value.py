"""Faults of what keys, values and fields say: collection ids, datatypes, numbers, records (FRM-09, 10, 12, 13, 14).

A value that is spoilt keeps its length where it can, so that nothing else about its message changes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import cramjam

from dissector.codec import leb128
from dissector.codec.encoder import pack_metadata
from dissector.generate.faults.edits import XATTR_FEATURE, find, granted, put_after, untouched
from dissector.generate.faults.stream_finder import unshared
from dissector.generate.scenario import Broken, Fault
from dissector.spec import enums, registry
from dissector.spec.fields import CACHE_RECORD, METADATA_VERSION
from dissector.spec.model import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_JSON, _SNAPPY, _XATTR = (enums.DATATYPES.bit(name) for name in ("json", "snappy", "xattr"))
_WITH_DOCUMENT = ("mutation", "deletion", "prepare")
_RECORD_HEAD = size_of(CACHE_RECORD)
_VALUE_LENGTH_AT, _KEY_LENGTH_AT = (
    size_of(CACHE_RECORD[: next(at for at, field in enumerate(CACHE_RECORD) if field.name == name)])
    for name in ("value_length", "key_length")
)
_TABLES_SINCE = 2  #: version of system events
_CONFLICT_MODE = 2  #: an entry of the extended metadata


def _key(variant: str, spoil: Callable[[bytes, bytes], bytes], because: str) -> Callable[[Script], Broken]:
    """Return a fault that makes a key of a collection id and a name otherwise."""

    def apply(script: Script) -> Broken:
        once = unshared(script)
        conversation, guilty = find(
            script,
            lambda conversation, each: (
                untouched(each, "mutation") and id(each) in once and enums.COLLECTIONS_FEATURE in granted(conversation)
            ),
        )
        frame = guilty.frame
        size = leb128.read(frame.key)[1]
        frame.key = spoil(frame.key[:size], frame.key[size:])
        text = because.format(key=frame.key[:8].hex(" "), size=len(frame.key))
        return Broken("FRM-09", variant, conversation, (guilty,), text)

    return apply


def _not_canonical(number: bytes) -> bytes:
    """Return a LEB128 number with a zero more than it needs."""
    return number[:-1] + bytes([number[-1] | 0x80, 0])


def _endless(_number: bytes) -> bytes:
    """Return a number of more than 5 bytes."""
    return b"\x81\x82\x83\x84\x85\x06"


def _table(variant: str, spoil: Callable[[bytes], bytes], because: str) -> Callable[[Script], Broken]:
    """Return a fault that spoils the FlatBuffers table of a system event."""

    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(
            lambda each: untouched(each, "system_event") and each.frame.fields["event_version"] == _TABLES_SINCE
        )
        frame = guilty.frame
        frame.value = spoil(frame.value)
        text = because.format(event=frame.fields["event"], size=len(frame.value))
        return Broken("FRM-10", variant, conversation, (guilty,), text)

    return apply


def _outside(table: bytes) -> bytes:
    """Return a table whose vtable lies outside of the value."""
    place = int.from_bytes(table[:4], "little")
    return table[:place] + (-len(table)).to_bytes(4, "little", signed=True) + table[place + 4 :]


def _compressed(table: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(table))


def _stream_id(script: Script) -> Broken:
    """Ask for a stream id of more than 16 bits: the server takes it for what it was before."""
    conversation, guilty = script.find(lambda each: untouched(each, "stream_request") and b'"sid":' in each.frame.value)
    value = guilty.frame.value
    wanted = int(re.findall(rb'"sid":(\d+)', value)[0])
    wide = wanted + (1 << 16)
    guilty.frame.value = value.replace(b'"sid":%d' % wanted, b'"sid":%d' % wide)
    because = f"a stream request asks for stream id {wide}; it must be at most 65535"
    return Broken("FRM-13", "stream-id", conversation, (guilty,), because)


def _document(
    variant: str, fits: Callable[[int, bytes], bool], spoil: Callable[[bytes], bytes], because: str
) -> Callable[[Script], Broken]:
    """Return a fault that spoils a value which its datatype describes."""

    def apply(script: Script) -> Broken:
        once = unshared(script)

        def suits(emission: Emission) -> bool:
            frame = emission.frame
            plain = untouched(emission, *_WITH_DOCUMENT) and not frame.fields.get("nmeta")
            return plain and id(emission) in once and fits(frame.datatype, frame.value)

        conversation, guilty = script.find(suits)
        frame = guilty.frame
        frame.value = spoil(frame.value)
        text = because.format(size=len(frame.value), datatype=frame.datatype, begin=frame.value[:8].hex(" "))
        return Broken("FRM-10", variant, conversation, (guilty,), text)

    return apply


def _is_compressed(datatype: int, value: bytes) -> bool:
    return bool(datatype & _SNAPPY) and len(value) > 5


def _has_xattrs(datatype: int, value: bytes) -> bool:
    return datatype & (_XATTR | _SNAPPY) == _XATTR and len(value) > 8


def _is_json(datatype: int, value: bytes) -> bool:
    return datatype == _JSON and len(value) > 1


def _long_section(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value[4:]


def _long_pair(value: bytes) -> bytes:
    return value[:4] + value[:4] + value[8:]


def _metadata_size(script: Script) -> Broken:
    conversation, guilty = script.find(
        lambda each: untouched(each, "mutation") and bool(each.frame.fields.get("nmeta"))
    )
    frame = guilty.frame
    number = len(frame.value) + script.chance.randrange(1, 100)
    frame.fields["nmeta"] = number
    because = f"nmeta {number} > {len(frame.value)} bytes of value"
    return Broken("FRM-12", "size", conversation, (guilty,), because)


def _metadata_late(script: Script) -> Broken:
    once = unshared(script)

    def fits(conversation: Conversation, emission: Emission) -> bool:
        bare = untouched(emission, "mutation") and not emission.frame.fields.get("nmeta")
        return bare and id(emission) in once and XATTR_FEATURE in granted(conversation)

    conversation, guilty = find(script, fits)
    frame = guilty.frame
    block = pack_metadata(METADATA_VERSION, [(_CONFLICT_MODE, b"\0")])
    frame.value += block
    frame.fields["nmeta"] = len(block)
    because = f"nmeta {len(block)} on a connection of servers since 5.0, where it is 0"
    return Broken("FRM-12", "era", conversation, (guilty,), because)


def _number(
    variant: str, name: str, field: str, numbers: range, allowed: str, *, before: range | None = None
) -> Callable[[Script], Broken]:
    """Return a fault that gives a field a number without a meaning; ``before`` restricts what it had."""

    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(
            lambda each: untouched(each, name) and (before is None or each.frame.fields.get(field, 0) in before)
        )
        number = script.chance.choice(numbers)
        guilty.frame.fields[field] = number
        because = f"{field} {number} of a {name.replace('_', ' ')}; {allowed}"
        return Broken("FRM-13", variant, conversation, (guilty,), because)

    return apply


def _bracket(script: Script) -> Broken:
    # One more, after the end: the brackets that count still alternate (SNP-11).
    conversation, anchor = script.find(
        lambda each: untouched(each, "oso_snapshot") and each.frame.fields["oso_flags"] == 2
    )
    number = script.chance.randrange(4, 256) & ~0x03
    guilty = put_after(conversation, anchor, anchor.side, anchor.frame.copy(fields={"oso_flags": number}))
    because = f"oso_flags {number} of an OSO snapshot; there are 1 and 2"
    return Broken("FRM-13", "oso", conversation, (guilty,), because)


def _records_cut(script: Script) -> Broken:
    conversation, guilty = script.find(
        lambda each: untouched(each, "cache_transfer") and len(each.frame.value) > _RECORD_HEAD
    )
    cut = script.chance.randrange(1, 4)
    size = len(guilty.frame.value)
    guilty.frame.value = guilty.frame.value[:-cut]
    because = f"the records take up {size} bytes, the value has {size - cut}"
    return Broken("FRM-14", "tiling", conversation, (guilty,), because)


def _record_key(script: Script) -> Broken:
    conversation, guilty = script.find(
        lambda each: untouched(each, "cache_transfer") and len(each.frame.value) > _RECORD_HEAD
    )
    value = bytearray(guilty.frame.value)
    key, rest = slice(_KEY_LENGTH_AT, _KEY_LENGTH_AT + 2), slice(_VALUE_LENGTH_AT, _VALUE_LENGTH_AT + 4)
    size = int.from_bytes(value[key], "big")
    # What the key loses the value gets: the records still tile.
    value[rest] = (int.from_bytes(value[rest], "big") + size - 1).to_bytes(4, "big")
    value[key] = (1).to_bytes(2, "big")
    guilty.frame.value = bytes(value)
    because = f"the first record's key has 1 byte instead of {size}; it has 2 to {registry.MAX_KEY}"
    return Broken("FRM-14", "key-length", conversation, (guilty,), because)


FAULTS: tuple[Fault, ...] = (
    Fault(
        "FRM-09",
        "a collection id with a needless zero",
        "collections",
        _key(
            "canonical", lambda number, name: _not_canonical(number) + name, "the key starts with {key}: not canonical"
        ),
        "canonical",
    ),
    Fault(
        "FRM-09",
        "a collection id of six bytes",
        "collections",
        _key("id-length", lambda number, name: _endless(number) + name, "the key starts with {key}: more than 5 bytes"),
        "id-length",
    ),
    Fault(
        "FRM-09",
        "a collection id without a key",
        "collections",
        _key("empty", lambda number, _: number, "the key is the collection id {key} alone"),
        "empty",
    ),
    Fault(
        "FRM-09",
        "a key that is too long",
        "collections",
        _key(
            "key-length",
            lambda number, name: (number + name).ljust(registry.MAX_KEY + 1, b"k"),
            "the key has {size} bytes, at most 251 are allowed",
        ),
        "key-length",
    ),
    Fault(
        "FRM-10",
        "a compressed value whose length in front is malformed",
        "modern",
        _document(
            "snappy",
            _is_compressed,
            lambda value: b"\xff" * 5 + value[5:],
            "datatype {datatype} says snappy, but {begin} is no length",
        ),
        "snappy",
    ),
    Fault(
        "FRM-10",
        "xattrs longer than the value",
        "modern",
        _document(
            "xattr",
            _has_xattrs,
            _long_section,
            "datatype {datatype} says xattrs, 4 + {size} bytes of them in a value of {size}",
        ),
        "xattr",
    ),
    Fault(
        "FRM-10",
        "an xattr longer than the section",
        "modern",
        _document(
            "xattr-pair",
            _has_xattrs,
            _long_pair,
            "datatype {datatype} says xattrs, but the first pair is as long as the section and its length: {begin}",
        ),
        "xattr-pair",
    ),
    Fault(
        "FRM-10",
        "JSON that is none",
        "modern",
        _document(
            "json", _is_json, lambda value: value[:-1] + b",", "datatype {datatype} says JSON, but a brace lacks"
        ),
        "json",
    ),
    Fault(
        "FRM-10",
        "a system event's table that leads outside",
        "event-tables",
        _table("table", _outside, "event {event} has a table whose vtable is outside of the {size} bytes of value"),
        "table",
    ),
    Fault(
        "FRM-10",
        "a system event's table that is compressed",
        "event-tables",
        _table("compressed-table", _compressed, "event {event} has a compressed table of {size} bytes (MB-54967)"),
        "compressed-table",
    ),
    Fault("FRM-12", "more extended metadata than value", "ext-metadata", _metadata_size, "size"),
    Fault("FRM-12", "extended metadata after its time", "modern", _metadata_late, "era"),
    Fault(
        "FRM-13",
        "a stream end for no known reason",
        "basic",
        # A stream that was not closed: OPQ-09 wants a reason of its own there.
        _number("end", "stream_end", "end_reason", range(9, 256), "0 to 8 have a meaning", before=range(1)),
        "end",
    ),
    Fault(
        "FRM-13",
        "a vbucket state that there is not",
        "takeover",
        _number(
            "state", "set_vbucket_state", "vbucket_state", range(5, 256), "1 to 4 have a meaning", before=range(2, 4)
        ),
        "state",
        ("TKO-01",),  # the states of a takeover are pending and active, and this is neither
    ),
    Fault("FRM-13", "a bracket that neither opens nor closes", "oso", _bracket, "oso"),
    Fault(
        "FRM-13",
        "an unknown system event",
        "modern",
        _number("event", "system_event", "event", range(6, 256), "0, 1, 3, 4 and 5 have a meaning"),
        "event",
    ),
    Fault(
        "FRM-13",
        "a prepare of an unknown durability",
        "sync-writes",
        _number("durability", "prepare", "durability_level", range(4, 256), "1 to 3 have a meaning"),
        "durability",
    ),
    Fault("FRM-13", "a stream id of more than 16 bits", "stream-ids", _stream_id, "stream-id"),
    Fault("FRM-14", "records that are cut", "cache-transfer", _records_cut, "tiling"),
    Fault("FRM-14", "a record with a key of one byte", "cache-transfer", _record_key, "key-length"),
)
