"""Faults of a message's parts: extras, key, value, reserved bits, marker versions (FRM-03, 04, 05, 08, 11).

A message whose absence would be felt keeps the fields that others count on; where it cannot, another one is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults.edits import (
    answer,
    extras_of,
    find,
    fresh_opaque,
    granted,
    put_before,
    untouched,
    with_parts,
)
from dissector.generate.faults.stream_finder import unshared
from dissector.generate.frame import STREAM_ID, Frame
from dissector.generate.scenario import Broken, Fault
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script
    from dissector.spec.model import Flags

_EINVAL = enums.STATUSES.number("invalid_arguments")
_PRESERVE_TTL, _UNKNOWN_INFO = 5, 9  #: numbers of frame infos
_QUIET_CONTROL = b"set_priority"  #: a parameter that shows in no other message
_ITEMS = ("mutation", "deletion", "expiration")


def _extras_length(script: Script) -> Broken:
    conversation, guilty = script.find(lambda each: untouched(each, "mutation"))
    # The fields that are there keep their places; two bytes follow that no form has.
    extras = extras_of(guilty.frame) + script.chance.randbytes(2)
    guilty.frame.raw = with_parts(guilty.frame, extras=extras)
    because = f"a mutation with {len(extras)} bytes of extras; dcp has 31 (32 in a prototype)"
    return Broken("FRM-03", "length", conversation, (guilty,), because)


def _extras_unexpected(script: Script) -> Broken:
    conversation, guilty = script.find(lambda each: untouched(each, "noop"))
    extras = script.chance.randbytes(4)
    guilty.frame.raw = with_parts(guilty.frame, extras=extras)
    return Broken(
        "FRM-03", "unexpected", conversation, (guilty,), f"a no-op with {len(extras)} bytes of extras; it has none"
    )


def _extras_missing(script: Script) -> Broken:
    # One more than there should be: without the one that is due, SEQ-10 could not be followed.
    conversation, anchor = script.find(lambda each: untouched(each, "seqno_acknowledged"))
    frame = anchor.frame.copy()
    frame.raw = with_parts(frame, extras=b"")
    guilty = put_before(conversation, anchor, anchor.side, frame)
    return Broken("FRM-03", "missing", conversation, (guilty,), "a seqno acknowledged without extras; it has 8 bytes")


def _frame_info(variant: str, rule: str, because: str, number: int, data: bytes | None) -> Callable[[Script], Broken]:
    """Return a fault that puts one more object after the stream id; without data it is the stream id again."""

    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(lambda each: untouched(each, *_ITEMS) and each.frame.stream_id is not None)
        frame = guilty.frame
        known = list(frame.framing or ())
        frame.framing = [*known, (number, known[0][1] if data is None else data)]
        return Broken(rule, variant, conversation, (guilty,), because)

    return apply


def _key_missing(script: Script) -> Broken:
    once = unshared(script)

    def fits(conversation: Conversation, emission: Emission) -> bool:
        # With collections the id would be missing too (FRM-09).
        bare = enums.COLLECTIONS_FEATURE not in granted(conversation)
        return untouched(emission, "mutation") and id(emission) in once and bare

    conversation, guilty = find(script, fits)
    because = f"a mutation of seqno {guilty.frame.seqno} with key length 0 instead of {len(guilty.frame.key)}"
    guilty.frame.key = b""
    return Broken("FRM-04", "missing", conversation, (guilty,), because)


def _key_unexpected(script: Script) -> Broken:
    conversation, guilty = script.find(lambda each: untouched(each, "snapshot_marker"))
    guilty.frame.key = b"key"
    return Broken(
        "FRM-04", "unexpected", conversation, (guilty,), "a snapshot marker with a key of 3 bytes; it has none"
    )


def _value_missing(script: Script) -> Broken:
    conversation, anchor = script.find(lambda each: untouched(each, "stream_request", "get_failover_log", "buffer_ack"))
    frame = Frame(anchor.frame.dialect, "control", key=_QUIET_CONTROL, opaque=fresh_opaque(script, conversation))
    guilty = put_before(conversation, anchor, anchor.side, frame)
    refusal = answer(
        conversation, guilty, Frame(frame.dialect, "control", response=True, opaque=frame.opaque, status=_EINVAL)
    )
    because = f"a control {_QUIET_CONTROL.decode()} without a value"
    return Broken("FRM-05", "missing", conversation, (guilty, refusal), because)


def _value_unexpected(script: Script) -> Broken:
    conversation, guilty = script.find(
        lambda each: untouched(each, "noop", "stream_end", "seqno_advanced", "commit", "abort")
    )
    guilty.frame.value = script.chance.randbytes(script.chance.randrange(1, 9))
    name = guilty.frame.name.replace("_", " ")
    because = f"a {name} with a value of {len(guilty.frame.value)} bytes; it has none"
    return Broken("FRM-05", "unexpected", conversation, (guilty,), because)


def _reserved(script: Script) -> Broken:
    conversation, guilty = script.find(lambda each: untouched(each, "stream_request"))
    number = script.chance.randrange(1, 1 << 32)
    guilty.frame.fields["reserved"] = number
    return Broken(
        "FRM-08", "reserved", conversation, (guilty,), f"the reserved field of a stream request is 0x{number:x}"
    )


def _unknown_flag(variant: str, name: str, field: str, known: int) -> Callable[[Script], Broken]:
    """Return a fault that sets a bit above all those that have a name."""

    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(lambda each: untouched(each, name) and field in each.frame.fields)
        bit = 1 << script.chance.randrange(known.bit_length() + 1, 31)
        guilty.frame.fields[field] |= bit
        because = f"{field} is 0x{guilty.frame.fields[field]:x}, of which 0x{bit:x} has no name"
        return Broken("FRM-08", variant, conversation, (guilty,), because)

    return apply


def _long_marker(emission: Emission) -> bool:
    """Tell whether a message is a marker of version 2.0."""
    fields = emission.frame.fields
    return (
        untouched(emission, "snapshot_marker")
        and "max_visible_seqno" in fields
        and "purge_seqno" not in fields
        and emission.frame.layout in (None, "V2.0")
    )


def _marker_version(script: Script) -> Broken:
    # Nobody can read the range of such a marker, so it is one more, before the marker whose range counts.
    conversation, anchor = script.find(_long_marker)
    version = script.chance.randrange(3, 256)
    frame = anchor.frame.copy(fields={**anchor.frame.fields, "marker_version": version}, layout="V2.0")
    guilty = put_before(conversation, anchor, anchor.side, frame)
    return Broken("FRM-11", "version", conversation, (guilty,), f"marker version {version}; there are 0 and 2")


def _marker_withdrawn(script: Script) -> Broken:
    conversation, guilty = script.find(_long_marker)
    guilty.frame.layout = "V2.1"
    because = "marker version 1 with a value of 44 bytes, which was withdrawn; there are 0 and 2"
    return Broken("FRM-11", "withdrawn", conversation, (guilty,), because)


def _marker_length(script: Script) -> Broken:
    conversation, guilty = script.find(_long_marker)
    surplus = script.chance.randrange(1, 8)  # 8 would be the size of another version
    guilty.frame.value = bytes(surplus)
    because = f"marker version 0 with a value of {36 + surplus} bytes instead of 36"
    return Broken("FRM-11", "length", conversation, (guilty,), because)


def _bits(flags: Flags) -> int:
    return sum(member.value for member in flags.members)


_OPEN_FLAGS = _bits(enums.OPEN_FLAGS)
_STREAM_FLAGS = _bits(enums.STREAM_FLAGS)
_MARKER_FLAGS = _bits(enums.MARKER_FLAGS)

FAULTS: tuple[Fault, ...] = (
    Fault("FRM-03", "a mutation with extras of an unknown length", "basic", _extras_length, "length"),
    Fault("FRM-03", "a no-op with extras", "basic", _extras_unexpected, "unexpected"),
    Fault("FRM-03", "a seqno acknowledged without extras", "sync-writes", _extras_missing, "missing"),
    Fault(
        "FRM-03",
        "a frame info of a wrong length",
        "stream-ids",
        _frame_info("frame-info", "FRM-03", "the frame info preserve TTL has 1 byte instead of 0", _PRESERVE_TTL, b"1"),
        "frame-info",
    ),
    Fault(
        "FRM-03",
        "a stream id that comes twice",
        "stream-ids",
        _frame_info("frame-info-twice", "FRM-03", "the frame info stream id comes 2 times", STREAM_ID, None),
        "frame-info-twice",
    ),
    Fault("FRM-04", "a mutation without a key", "basic", _key_missing, "missing"),
    Fault("FRM-04", "a marker with a key", "basic", _key_unexpected, "unexpected"),
    Fault("FRM-05", "a control without a value", "basic", _value_missing, "missing"),
    Fault("FRM-05", "a value where there is none", "basic", _value_unexpected, "unexpected"),
    Fault("FRM-08", "a reserved field that holds something", "basic", _reserved, "reserved"),
    Fault("FRM-08", "an unknown open flag", "basic", _unknown_flag("open", "open", "open_flags", _OPEN_FLAGS), "open"),
    Fault(
        "FRM-08",
        "an unknown stream flag",
        "basic",
        _unknown_flag("stream", "stream_request", "stream_flags", _STREAM_FLAGS),
        "stream",
    ),
    Fault(
        "FRM-08",
        "an unknown marker flag",
        "basic",
        _unknown_flag("marker", "snapshot_marker", "snapshot_type", _MARKER_FLAGS),
        "marker",
    ),
    Fault(
        "FRM-08",
        "an unknown frame info",
        "stream-ids",
        _frame_info("frame-info", "FRM-08", f"frame info {_UNKNOWN_INFO} has no meaning", _UNKNOWN_INFO, b""),
        "frame-info",
    ),
    Fault("FRM-11", "a marker of an unknown version", "sync-writes", _marker_version, "version"),
    Fault("FRM-11", "a marker of the withdrawn version", "sync-writes", _marker_withdrawn, "withdrawn"),
    # A value of a wrong length is what FRM-05 is about too.
    Fault("FRM-11", "a marker with a wrong length", "sync-writes", _marker_length, "length", ("FRM-05",)),
)
