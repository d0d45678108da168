"""Faults of what was agreed upon: features that nobody asked for, that were refused, or that are not kept to (CON-05
to 07).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from dissector.codec.encoder import pack_xattrs
from dissector.generate.faults.edits import answer, put_after, take_out, untouched, with_room
from dissector.generate.faults.stream_finder import DATA, instances, pick, unshared
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

    Uses = Callable[[Emission], bool]

_NOT_SUPPORTED, _NO_STREAM = map(enums.STATUSES.number, ("not_supported", "dcp_stream_not_found"))
_SNAPPY, _XATTR, _JSON = map(enums.DATATYPES.bit, ("snappy", "xattr", "json"))
_CACHE_TRANSFER = enums.STREAM_FLAGS.bit("cache_transfer")
_DELETE_TIMES = enums.OPEN_FLAGS.bit("include_delete_times")
_HISTORY = enums.MARKER_FLAGS.bit("history") | enums.MARKER_FLAGS.bit("may_contain_duplicates")
_SNAPPY_FEATURE = enums.FEATURES.number("snappy").to_bytes(2, "big")


def _named(*names: str) -> Uses:
    return lambda each: untouched(each, *names)


def _without(variant: str, key: str, uses: Uses) -> Callable[[Script], Broken]:
    """Return a fault that leaves a control out, and all that follows as if it had been granted."""

    def apply(script: Script) -> Broken:
        conversation, asked, reply, guilty = _control_and_use(script, key, uses)
        take_out(conversation, reply)
        take_out(conversation, asked)
        because = f"a {guilty.frame.name.replace('_', ' ')}, and nobody asked for {key}"
        return Broken("CON-05", variant, conversation, (guilty,), because)

    return apply


def _refused(key: str, uses: Uses) -> Callable[[Script], Broken]:
    """Return a fault that refuses a control which is used none the less."""

    def apply(script: Script) -> Broken:
        conversation, _, reply, guilty = _control_and_use(script, key, uses)
        reply.frame.status = _NOT_SUPPORTED
        because = f"a {guilty.frame.name.replace('_', ' ')}, and {key} was refused"
        return Broken("CON-07", key.replace("_", "-"), conversation, (guilty, reply), because)

    return apply


def _control_and_use(script: Script, key: str, uses: Uses) -> tuple[Conversation, Emission, Emission, Emission]:
    """Find a control, its answer, and the first message that needs it."""
    options = []
    for conversation in script.conversations:
        asked = next((each for each in conversation if each.frame.key == key.encode()), None)
        if asked is None:
            continue
        later = conversation.emissions[conversation.place(asked) + 1 :]
        reply = next(each for each in later if each.frame.response and each.frame.opaque == asked.frame.opaque)
        options += [(used, (conversation, asked, reply, used)) for used in islice(filter(uses, later), 1)]
    return pick(script, options)


def _times(variant: str, *, wanted: bool) -> Callable[[Script], Broken]:
    """Return a fault that changes what the open says of delete times, and no deletion."""

    def fits(each: Emission) -> bool:
        return untouched(each, "deletion") and ("delete_time" in each.frame.fields) is not wanted

    def apply(script: Script) -> Broken:
        options = [
            (deletion, (conversation, opened, deletion))
            for conversation in script.conversations
            for opened in islice((each for each in reversed(conversation.emissions) if untouched(each, "open")), 1)
            for deletion in islice(filter(fits, conversation), 1)
        ]
        conversation, opened, guilty = pick(script, options)
        flags = opened.frame.fields["open_flags"]
        said = flags | _DELETE_TIMES if wanted else flags & ~_DELETE_TIMES
        opened.frame.fields["open_flags"] = said
        because = f"a deletion with {18 if wanted else 21} bytes of extras, and open flags {said:#x}"
        return Broken("CON-05", variant, conversation, (guilty, opened), because)

    return apply


def _compressed(script: Script) -> Broken:
    options = [
        (value, (conversation, value))
        for conversation in script.conversations
        if any(each.frame.name == "hello" for each in conversation)
        for value in islice((each for each in conversation if each.frame.datatype & _SNAPPY), 1)
    ]
    conversation, guilty = pick(script, options)
    for each in conversation:
        if each.frame.name == "hello":
            value = each.frame.value
            features = [value[at : at + 2] for at in range(0, len(value), 2)]
            each.frame.value = b"".join(feature for feature in features if feature != _SNAPPY_FEATURE)
    because = "a compressed value, and HELLO snappy was not asked for"
    return Broken("CON-05", "snappy", conversation, (guilty,), because)


def _status(script: Script) -> Broken:
    options = [(each.close, each) for each in instances(script) if each.close is not None]
    instance = pick(script, options)
    conversation = instance.conversation
    # The stream is closed already when this comes.
    frame = Frame(instance.request.frame.dialect, "close_stream", vbucket=instance.vbucket, opaque=b"\x7b\0\0\x01")
    asked = put_after(conversation, conversation.emissions[-1], 1 - instance.producer, frame)
    guilty = answer(conversation, asked, frame.copy(response=True, status=_NO_STREAM, vbucket=0))
    because = "an answer with status 0x0a, and nobody asked for v7_dcp_status_codes"
    return Broken("CON-05", "status", conversation, (guilty, asked), because)


def _cache(script: Script) -> Broken:
    known = [each for each in instances(script) if each.asked.get("stream_flags", 0) & _CACHE_TRANSFER]
    options = [
        (each, (instance, each))
        for instance in known
        for each in instance.conversation
        if untouched(each, "cache_transfer") and each.frame.vbucket == instance.vbucket
    ]
    instance, guilty = pick(script, options)
    instance.asked["stream_flags"] &= ~_CACHE_TRANSFER
    flags = instance.asked["stream_flags"]
    because = f"a cache transfer on a stream with flags {flags:#x}"
    return Broken("CON-05", "cache-transfer", instance.conversation, (guilty, instance.request), because)


def _advanced(script: Script) -> Broken:
    options = [
        (each.items[-1], (each, each.items[-1]))
        for each in with_room(script)
        if each.in_memory and not each.instance.filtered and each.following is None and each.instance.finish is None
    ]
    snapshot, last = pick(script, options)
    instance = snapshot.instance
    seqno = snapshot.end + 1
    snapshot.marker.frame.fields["snap_end_seqno"] = seqno
    frame = Frame(
        last.frame.dialect,
        "seqno_advanced",
        fields={"by_seqno": seqno},
        vbucket=instance.vbucket,
        opaque=instance.request.frame.opaque,
    )
    guilty = put_after(instance.conversation, last, instance.producer, frame)
    because = f"a seqno advanced to {seqno} on a stream of a sync replica"
    return Broken("CON-05", "replica", instance.conversation, (guilty, instance.request), because)


def _value(script: Script) -> Broken:
    alone = unshared(script)
    conversation, guilty = script.find(
        lambda each: untouched(each, "mutation") and not each.frame.value and id(each) in alone
    )
    guilty.frame.value, guilty.frame.datatype = b'{"n":1}', _JSON
    opened = next(each for each in conversation if each.frame.name == "open" and not each.frame.status)
    because = "a mutation with a document on a connection without values"
    return Broken("CON-06", "value", conversation, (guilty, opened), because)


def _xattrs(script: Script) -> Broken:
    alone = unshared(script)
    conversation, guilty = script.find(
        lambda each: untouched(each, "mutation") and each.frame.datatype == _JSON and id(each) in alone
    )
    guilty.frame.value = pack_xattrs([(b"_sync", b"{}")], guilty.frame.value)
    guilty.frame.datatype |= _XATTR
    opened = next(each for each in conversation if each.frame.name == "open")
    because = "a mutation with xattrs on a connection that was opened without them"
    return Broken("CON-06", "xattrs", conversation, (guilty, opened), because)


def _has(name: str, field: str, bits: int | None = None) -> Uses:
    """Return what tells a message with a field, or with one of some bits of it."""

    def uses(each: Emission) -> bool:
        found = each.frame.fields.get(field) if untouched(each, name) else None
        return found is not None and (bits is None or found & bits > 0)

    return uses


def _identified(each: Emission) -> bool:
    frame = each.frame
    return not frame.response and frame.stream_id is not None and frame.name in {*DATA, "snapshot_marker"}


_OSO = "enable_out_of_order_snapshots"
_EXPIRY = "enable_expiry_opcode"

FAULTS: tuple[Fault, ...] = (
    Fault("CON-05", "no-ops that nobody asked for", "basic", _without("noop", "enable_noop", _named("noop")), "noop"),
    Fault(
        "CON-05",
        "expirations that nobody asked for",
        "modern",
        _without("expiration", _EXPIRY, _named("expiration")),
        "expiration",
    ),
    Fault(
        "CON-05",
        "deletions with times that nobody asked for",
        "open-retried",
        _times("delete-times", wanted=False),
        "delete-times",
    ),
    Fault(
        "CON-05",
        "deletions without the times that were asked for",
        "expiry-without-times",
        _times("no-delete-times", wanted=True),
        "no-delete-times",
    ),
    Fault(
        "CON-05",
        "prepares to a client that knows none",
        "sync-writes",
        _without("sync-writes", "enable_sync_writes", _has("snapshot_marker", "max_visible_seqno")),
        "sync-writes",
    ),
    Fault(
        "CON-05",
        "an acknowledgement from a replica without a name",
        "sync-writes",
        _without("seqno-acknowledged", "consumer_name", _named("seqno_acknowledged")),
        "seqno-acknowledged",
    ),
    Fault("CON-05", "an out-of-order snapshot", "oso", _without("oso", _OSO, _named("oso_snapshot")), "oso"),
    Fault(
        "CON-05",
        "a marker of version 2.2",
        "marker-v22",
        _without("marker-2-2", "max_marker_version", _has("snapshot_marker", "purge_seqno")),
        "marker-2-2",
    ),
    Fault(
        "CON-05",
        "a history snapshot",
        "history",
        _without("history", "change_streams", _has("snapshot_marker", "snapshot_type", _HISTORY)),
        "history",
        ("SNP-08",),
    ),
    Fault(
        "CON-05",
        "messages with a stream id",
        "stream-ids",
        _without("stream-id", "enable_stream_id", _identified),
        "stream-id",
    ),
    Fault("CON-05", "a compressed value", "modern", _compressed, "snappy"),
    Fault("CON-05", "a status of 7.0", "basic", _status, "status"),
    Fault("CON-05", "a cache transfer", "cache-transfer", _cache, "cache-transfer"),
    Fault("CON-05", "a seqno advanced to a sync replica", "sync-writes", _advanced, "replica"),
    Fault("CON-06", "a document on a connection without values", "open-retried", _value, "value"),
    Fault("CON-06", "xattrs on a connection without them", "basic", _xattrs, "xattrs"),
    Fault("CON-07", "no-ops after they were refused", "basic", _refused("enable_noop", _named("noop")), "enable-noop"),
    Fault(
        "CON-07",
        "an out-of-order snapshot after it was refused",
        "oso",
        _refused(_OSO, _named("oso_snapshot")),
        "enable-out-of-order-snapshots",
    ),
)
