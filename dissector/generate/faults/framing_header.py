"""Faults of the 24-byte header: lengths, magic, opcode, datatype, CAS, vbucket (FRM-01, 02, 06, 07, 15).

Each changes or adds one message so that the bytes after it still start with a header. What it adds takes nothing from
the flow-control window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.message import Header
from dissector.generate.faults.edits import (
    XATTR_FEATURE,
    answer,
    find,
    fresh_opaque,
    granted,
    put_before,
    untouched,
    with_parts,
)
from dissector.generate.faults.stream_finder import unshared
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.spec import enums, registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_ITEMS = ("mutation", "deletion", "expiration")
_JSON = enums.DATATYPES.bit("json")
_KEY_LIMIT = registry.MAX_KEY - 1  #: without a collection id
_NOT_MY_VBUCKET = enums.STATUSES.number("not_my_vbucket")
_PRESERVE_TTL = 5  #: number of a frame info
_ASKED_BY_CONSUMER = ("stream_request", "get_failover_log", "buffer_ack", "close_stream")


def _key_length(script: Script) -> Broken:
    def fits(emission: Emission) -> bool:
        frame = emission.frame
        # The key that a reader cuts to the body must not be too long for a key: that would be FRM-09.
        # And nothing may be left of a value that has extended metadata after it: that would be FRM-12.
        plain = untouched(emission, *_ITEMS) and frame.framing is None and not frame.fields.get("nmeta")
        return plain and len(frame.key + frame.value) <= _KEY_LIMIT

    conversation, guilty = script.find(fits)
    head = Header.parse(guilty.frame.encode())
    excess = script.chance.randrange(1, 9)
    key = head.body_length - head.extras_length + excess
    guilty.frame.header["key_word"] = key
    because = f"extras {head.extras_length} + key {key} = {head.body_length + excess} > total body {head.body_length}"
    return Broken("FRM-01", "key", conversation, (guilty,), because)


def _strays(script: Script) -> Broken:
    def fits(conversation: Conversation, emission: Emission) -> bool:
        frame = emission.frame
        bare = frame.response and frame.raw is None and len(frame.encode()) == registry.HEADER_SIZE
        return bare and any(
            each.side == emission.side for each in conversation.emissions[conversation.place(emission) + 1 :]
        )

    conversation, guilty = find(script, fits)
    strays = b"\xff" * script.chance.randrange(3, 8)
    guilty.frame.raw = guilty.frame.encode() + strays
    because = f"total body 0, but {len(strays)} bytes ({strays.hex()}) lie between this frame and the next header"
    return Broken("FRM-01", "stray", conversation, (guilty,), because)


def _frame_info_cut(script: Script) -> Broken:
    conversation, guilty = script.find(lambda each: untouched(each, *_ITEMS) and bool(each.frame.framing))
    frame = guilty.frame
    size = script.chance.randrange(1, 4)
    frame.raw = with_parts(frame, framing=bytes([_PRESERVE_TTL << 4 | size]))
    because = f"the last object of the framing extras claims {size} bytes, and 0 are left of them"
    return Broken("FRM-01", "frame-info", conversation, (guilty,), because)


def _added(script: Script, variant: str, header: dict[str, int], because: str) -> Broken:
    """Put a message before an item that needs no request and counts for no window."""
    conversation, anchor = script.find(lambda each: untouched(each, *_ITEMS))
    frame = Frame(anchor.frame.dialect, "noop", opaque=fresh_opaque(script, conversation), header=header)
    return Broken("FRM-02", variant, conversation, (put_before(conversation, anchor, anchor.side, frame),), because)


def _magic(script: Script) -> Broken:
    unknown = script.chance.choice([number for number in range(0x20, 0x80) if number not in registry.MAGICS])
    return _added(script, "magic", {"magic": unknown}, f"the first byte is 0x{unknown:02x}, which is no magic")


def _opcode(script: Script) -> Broken:
    _, anchor = script.find(lambda each: untouched(each, *_ITEMS))
    dialect = anchor.frame.dialect
    # Between UPR's own and 0x80, where servers of the future have UPR's next ones first; 0x68 is spoken for already.
    free = [number for number in range(0x69, 0x80) if registry.message(dialect, number) is None]
    unknown = script.chance.choice(free)
    return _added(script, "opcode", {"opcode": unknown}, f"{dialect} has no opcode 0x{unknown:02x}")


def _too_early(script: Script) -> Broken:
    conversation, guilty = find(
        script, lambda conversation, each: untouched(each, "mutation") and not granted(conversation)
    )
    guilty.frame.framing = []
    magic = Header.parse(guilty.frame.encode()).magic
    because = f"magic 0x{magic:02x} on a connection of servers before 6.5"
    return Broken("FRM-02", "flexible", conversation, (guilty,), because)


def _subtype(script: Script) -> Broken:
    conversation, anchor = script.find(lambda each: each.frame.name in _ITEMS and each.frame.dialect is Dialect.DRAFT)
    known = anchor.frame.message
    taken = [message.subtypes for message in registry.MESSAGES if message.dialect is known.dialect]
    unknown = max(number for subtypes in taken for number in subtypes) + script.chance.randrange(1, 9)
    frame = anchor.frame.copy(name="snapshot_start", fields={}, key=b"", value=b"", cas=0, subtype=unknown)
    guilty = put_before(conversation, anchor, anchor.side, frame)
    because = f"opcode 0x{known.opcode:02x} has no subtype {unknown}"
    return Broken("FRM-02", "subtype", conversation, (guilty,), because)


def _datatype_bits(script: Script) -> Broken:
    conversation, guilty = script.find(lambda each: untouched(each, "mutation"))
    bit = 1 << script.chance.randrange(3, 8)
    guilty.frame.datatype |= bit
    because = f"datatype 0x{guilty.frame.datatype:02x} > 0x07: bit 0x{bit:02x} means nothing"
    return Broken("FRM-06", "unknown", conversation, (guilty,), because)


def _datatype_of(variant: str, *names: str) -> Callable[[Script], Broken]:
    """Return a fault that says JSON of a message that cannot be: the one bit that needs no agreement (CON-05)."""

    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(lambda each: untouched(each, *names) and each.frame.datatype == 0)
        guilty.frame.datatype = _JSON
        allowed = "only 0, 2, 4, 5, 6 and 7 are allowed" if variant == "deletion" else "only 0 is allowed"
        because = f"datatype {_JSON} on a {guilty.frame.name.replace('_', ' ')}: {allowed}"
        return Broken("FRM-06", variant, conversation, (guilty,), because)

    return apply


def _no_cas(variant: str, name: str) -> Callable[[Script], Broken]:
    def apply(script: Script) -> Broken:
        once = unshared(script)

        def fits(conversation: Conversation, emission: Emission) -> bool:
            # A CAS below that of an earlier version of the key would break SEQ-05 as well.
            late = XATTR_FEATURE in granted(conversation)
            return untouched(emission, name) and id(emission) in once and late and _first_of_key(conversation, emission)

        conversation, guilty = find(script, fits)
        because = f"CAS 0 instead of 0x{guilty.frame.cas:016x} on a {name} of seqno {guilty.frame.seqno}"
        guilty.frame.cas = 0
        return Broken("FRM-07", variant, conversation, (guilty,), because)

    return apply


def _first_of_key(conversation: Conversation, emission: Emission) -> bool:
    frame = emission.frame
    for each in conversation:
        if each is emission:
            return True
        if each.frame.key == frame.key and each.frame.vbucket == frame.vbucket and each.frame.seqno is not None:
            return False
    return False


def _cas_on(variant: str, *names: str) -> Callable[[Script], Broken]:
    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(lambda each: untouched(each, *names) and each.frame.cas == 0)
        guilty.frame.cas = _cas_nearby(conversation, guilty)
        because = f"{guilty.frame.name.replace('_', ' ')} with CAS 0x{guilty.frame.cas:016x}; it has none"
        return Broken("FRM-07", variant, conversation, (guilty,), because)

    return apply


def _cas_nearby(conversation: Conversation, emission: Emission) -> int:
    """Return the CAS of the message's own prepare or of any message before: one that would raise no other question."""
    cas = 0x10000
    frame = emission.frame
    for each in conversation.emissions[: conversation.place(emission)]:
        if each.frame.cas and (not frame.key or each.frame.key == frame.key):
            cas = each.frame.cas
    return cas


def _vbucket(script: Script) -> Broken:
    conversation, anchor = script.find(lambda each: untouched(each, *_ASKED_BY_CONSUMER))
    number = registry.DEFAULT_VBUCKETS + script.chance.randrange(1024)
    opaque = fresh_opaque(script, conversation)
    frame = Frame(anchor.frame.dialect, "get_failover_log", vbucket=number, opaque=opaque)
    guilty = put_before(conversation, anchor, anchor.side, frame)
    refusal = answer(conversation, guilty, frame.copy(response=True, vbucket=0, status=_NOT_MY_VBUCKET))
    because = f"vbucket {number} >= {registry.DEFAULT_VBUCKETS}"
    return Broken("FRM-15", "", conversation, (guilty, refusal), because)


FAULTS: tuple[Fault, ...] = (
    Fault("FRM-01", "a key length that exceeds the body", "basic", _key_length, "key"),
    Fault("FRM-01", "bytes between two frames", "basic", _strays, "stray"),
    Fault("FRM-01", "an object longer than the framing extras", "stream-ids", _frame_info_cut, "frame-info"),
    Fault("FRM-02", "a frame without a known magic", "basic", _magic, "magic"),
    Fault("FRM-02", "an opcode that nobody knows", "basic", _opcode, "opcode"),
    Fault("FRM-02", "flexible framing before 6.5", "basic", _too_early, "flexible"),
    Fault("FRM-02", "a stream message of an unknown type, in the draft", "draft", _subtype, "subtype"),
    Fault("FRM-06", "a datatype bit without a meaning", "modern", _datatype_bits, "unknown"),
    Fault("FRM-06", "a deletion that claims to be JSON", "modern", _datatype_of("deletion", "deletion"), "deletion"),
    Fault("FRM-06", "a marker with a datatype", "modern", _datatype_of("marker", "snapshot_marker"), "marker"),
    Fault("FRM-06", "a stream end with a datatype", "modern", _datatype_of("end", "stream_end"), "end"),
    Fault("FRM-06", "a control with a datatype", "modern", _datatype_of("control", "control"), "control"),
    Fault("FRM-06", "a buffer ack with a datatype", "modern", _datatype_of("ack", "buffer_ack"), "ack"),
    Fault("FRM-06", "a state with a datatype", "takeover", _datatype_of("state", "set_vbucket_state"), "state"),
    Fault("FRM-07", "a mutation without a CAS", "modern", _no_cas("mutation", "mutation"), "mutation", ("SEQ-06",)),
    Fault("FRM-07", "a prepare without a CAS", "sync-writes", _no_cas("prepare", "prepare"), "prepare", ("SEQ-06",)),
    Fault("FRM-07", "a commit or abort with a CAS", "sync-writes", _cas_on("commit", "commit", "abort"), "commit"),
    Fault(
        "FRM-07",
        "an acknowledged seqno with a CAS",
        "sync-writes",
        _cas_on("acknowledged", "seqno_acknowledged"),
        "acknowledged",
    ),
    Fault(
        "FRM-07",
        "a cache transfer with a CAS",
        "cache-transfer",
        _cas_on("cache", "cache_transfer", "cache_transfer_end"),
        "cache",
    ),
    Fault("FRM-15", "a question about a vbucket that no cluster has", "basic", _vbucket),
)
