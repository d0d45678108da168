"""Faults of questions and answers: what has no request, no reply, or a reply too many (OPQ-01, 02, 03, 05, 11).

Questions that a fault adds are about things that no other message depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dissector.generate.faults.edits import (
    answer,
    find,
    fresh_opaque,
    fresh_vbucket,
    put_after,
    put_before,
    take_out,
    untouched,
)
from dissector.generate.faults.idle_time import hold, restful
from dissector.generate.faults.stream_finder import instances, pick
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import ACK, SECOND, TAKEOVER, TO_LATEST
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_ITEMS = ("mutation", "deletion", "expiration")
_PENDING = (2, 3)  #: by the sender's era
_SILENCE = 125  #: seconds; no side waits longer than 60
_NEAR = 20  #: messages around a close or a takeover in which refusals are to be expected
_ENDING = ("close_stream", "stream_end", "set_vbucket_state")
_QUIET_CONTROL = (b"set_priority", b"medium")  #: a parameter that shows in no other message


def _unasked(script: Script) -> Broken:
    conversation, anchor = script.find(lambda each: untouched(each, *_ITEMS))
    opaque = fresh_opaque(script, conversation)
    frame = Frame(anchor.frame.dialect, "control", response=True, opaque=opaque)
    guilty = put_before(conversation, anchor, anchor.side, frame)
    because = f"a control response with opaque {opaque.hex()}, which no request had"
    return Broken("OPQ-01", "unasked", conversation, (guilty,), because)


def _twice(script: Script) -> Broken:
    conversation, first = script.find(
        lambda each: untouched(each, "control", "get_failover_log", "noop", response=True)
    )
    guilty = put_after(conversation, first, first.side, first.frame.copy())
    because = f"2 {first.frame.name} responses to the request with opaque {first.frame.opaque.hex()}"
    return Broken("OPQ-01", "twice", conversation, (guilty, first), because)


def _reversed(script: Script) -> Broken:
    # A server that converts the opaque to host order, as one did in 2013.
    known = [each for each in instances(script) if untouched(each.request, "stream_request")]
    options = [(item, (instance, item)) for instance in known for item in instance.items]
    instance, anchor = pick(script, options)
    conversation = instance.conversation
    opaque = fresh_opaque(script, conversation)
    frame = Frame(anchor.frame.dialect, "get_failover_log", vbucket=instance.vbucket, opaque=opaque)
    asked = put_before(conversation, anchor, 1 - instance.producer, frame)
    log = instance.answer.frame.value
    guilty = answer(conversation, asked, frame.copy(response=True, vbucket=0, opaque=opaque[::-1], value=log))
    because = f"the request's opaque is {opaque.hex()}, the response's {opaque[::-1].hex()}"
    return Broken("OPQ-01", "reversed", conversation, (guilty, asked), because)


def _ignored(variant: str, ask: Callable[[Emission], Frame]) -> Callable[[Script], Broken]:
    """Return a fault that adds a question which is never answered, though the conversation goes on."""

    def apply(script: Script) -> Broken:
        conversation, anchor = find(
            script, lambda conversation, each: untouched(each, *_ITEMS) and restful(conversation, each)
        )
        frame = ask(anchor)
        frame.opaque = fresh_opaque(script, conversation)
        guilty = put_before(conversation, anchor, 1 - anchor.side, frame)
        hold(script, conversation, anchor, _SILENCE)
        return Broken("OPQ-02", variant, conversation, (guilty, anchor), _unanswered(conversation, guilty, anchor))

    return apply


def _failover_log(anchor: Emission) -> Frame:
    return Frame(anchor.frame.dialect, "get_failover_log", vbucket=anchor.frame.vbucket)


def _control(anchor: Emission) -> Frame:
    key, value = _QUIET_CONTROL
    return Frame(anchor.frame.dialect, "control", key=key, value=value)


def _unsaid(variant: str, wanted: Callable[[Emission], bool], *, noops: bool = True) -> Callable[[Script], Broken]:
    """Return a fault that leaves an answer out and lets time pass after it, with no-ops or without."""

    def apply(script: Script) -> Broken:
        options = []
        for conversation, asked in script.all():
            reply = _reply(conversation, asked) if wanted(asked) else None
            later = conversation.emissions[conversation.place(reply) + 1 :] if reply is not None else []
            if reply is not None and later:
                options.append((asked, (conversation, asked, reply, later[0])))
        conversation, guilty, reply, following = pick(script, options)
        take_out(conversation, reply)
        if noops:
            hold(script, conversation, following, _SILENCE)
        else:
            following.pause_ns += _SILENCE * SECOND
        return Broken(
            "OPQ-02", variant, conversation, (guilty, following), _unanswered(conversation, guilty, following)
        )

    return apply


def _reply(conversation: Conversation, asked: Emission) -> Emission | None:
    for each in conversation.emissions[conversation.place(asked) + 1 :]:
        frame = each.frame
        if frame.response and (frame.name, frame.opaque) == (asked.frame.name, asked.frame.opaque):
            return each
    return None


def _unanswered(conversation: Conversation, asked: Emission, later: Emission) -> str:
    first, last = conversation.place(asked), conversation.place(later)
    seconds = sum(each.pause_ns for each in conversation.emissions[first + 1 : last + 1]) / SECOND
    name = asked.frame.name.replace("_", " ")
    return f"the {name} with opaque {asked.frame.opaque.hex()} has no reply, {seconds:.0f} s later or ever"


def _asks_for_answer(emission: Emission) -> bool:
    return untouched(emission, "snapshot_marker") and bool(emission.frame.fields.get("snapshot_type", 0) & ACK)


def _sets_pending(emission: Emission) -> bool:
    return untouched(emission, "set_vbucket_state") and emission.frame.fields["vbucket_state"] in _PENDING


def _thanks(variant: str, *names: str) -> Callable[[Script], Broken]:
    """Return a fault that answers with success what is not to be answered."""

    def apply(script: Script) -> Broken:
        conversation, asked = script.find(lambda each: untouched(each, *names))
        frame = Frame(asked.frame.dialect, asked.frame.name, response=True, opaque=asked.frame.opaque)
        guilty = answer(conversation, asked, frame)
        because = f"a {frame.name.replace('_', ' ')} response with status 0 (opaque {frame.opaque.hex()})"
        return Broken("OPQ-03", variant, conversation, (guilty, asked), because)

    return apply


def _refusal(variant: str, status: int, text: bytes) -> Callable[[Script], Broken]:
    """Return a fault that has the consumer refuse an item, far from any close or takeover."""

    def apply(script: Script) -> Broken:
        options = [
            (item, (instance.conversation, item))
            for instance in instances(script)
            if not instance.asked.get("stream_flags", 0) & TAKEOVER
            for item in instance.items
            if untouched(item, *_ITEMS) and not _ends_nearby(instance.conversation, item)
        ]
        conversation, asked = pick(script, options)
        name, opaque = asked.frame.name, asked.frame.opaque
        frame = Frame(asked.frame.dialect, name, response=True, opaque=opaque, status=status, value=text)
        guilty = answer(conversation, asked, frame)
        because = f"status 0x{status:02x} for the {name} of seqno {asked.frame.seqno}, vbucket {asked.frame.vbucket}"
        return Broken("OPQ-11", variant, conversation, (guilty, asked), because)

    return apply


def _ends_nearby(conversation: Conversation, item: Emission) -> bool:
    at = conversation.place(item)
    around = conversation.emissions[max(0, at - _NEAR) : at + _NEAR + 1]
    return any(each.frame.name in _ENDING and each.frame.vbucket == item.frame.vbucket for each in around)


@dataclass(frozen=True, slots=True, eq=False)
class _Added:
    """An add stream that was carried out."""

    conversation: Conversation
    asked: Emission
    made: Emission  #: the stream request that it led to
    reply: Emission
    others: tuple[Emission, ...]  #: the other successful responses of the connection


def _added(script: Script, *, alone: bool = True) -> _Added:
    """Find an add stream that was carried out, where need be on a connection with others."""
    options = []
    for conversation in script.conversations:
        good = tuple(
            each for each in conversation if untouched(each, "add_stream", response=True) and not each.frame.status
        )
        for asked in (each for each in conversation if untouched(each, "add_stream")):
            made, reply = _stream_request(conversation, asked), _reply(conversation, asked)
            others = tuple(each for each in good if each is not reply)
            if made is not None and reply is not None and len(others) < len(good) and (others or alone):
                options.append((reply, _Added(conversation, asked, made, reply, others)))
    return pick(script, options)


def _stream_request(conversation: Conversation, asked: Emission) -> Emission | None:
    for each in conversation.emissions[conversation.place(asked) :]:
        if untouched(each, "stream_request") and each.frame.vbucket == asked.frame.vbucket:
            return each
    return None


def _other_opaque(script: Script) -> Broken:
    found = _added(script)
    wrong, right = fresh_opaque(script, found.conversation), found.made.frame.opaque
    found.reply.frame.fields["stream_opaque"] = int.from_bytes(wrong, "big")
    because = f"the response names opaque {wrong.hex()}, the stream request has {right.hex()}"
    return Broken("OPQ-05", "opaque", found.conversation, (found.reply, found.asked, found.made), because)


def _other_order(script: Script) -> Broken:
    found = _added(script, alone=False)
    told = found.reply.frame.fields["stream_opaque"].to_bytes(4, "big")[::-1]
    found.reply.frame.fields["stream_opaque"] = int.from_bytes(told, "big")
    right = found.made.frame.opaque.hex()
    because = f"the response names opaque {told.hex()} for {right}; other responses have the other byte order"
    proof = (found.reply, found.asked, found.made, found.others[0])
    return Broken("OPQ-05", "byte-order", found.conversation, proof, because)


def _lost_flags(script: Script) -> Broken:
    found = _added(script)
    fields = found.asked.frame.fields
    fields["stream_flags"] = fields.get("stream_flags", 0) | TO_LATEST
    got = found.made.frame.fields["stream_flags"] & ~TO_LATEST
    found.made.frame.fields["stream_flags"] = got
    because = f"the add stream has flags 0x{fields['stream_flags']:x}, its stream request 0x{got:x}"
    return Broken("OPQ-05", "flags", found.conversation, (found.made, found.asked, found.reply), because)


def _no_request(script: Script) -> Broken:
    found = _added(script)
    conversation, asked, reply = found.conversation, found.asked, found.reply
    vbucket, named = fresh_vbucket(script), fresh_opaque(script, conversation)
    frame = asked.frame.copy(vbucket=vbucket, opaque=fresh_opaque(script, conversation))
    fresh = put_after(conversation, reply, asked.side, frame)
    fields = {"stream_opaque": int.from_bytes(named, "big")}
    guilty = answer(conversation, fresh, reply.frame.copy(opaque=frame.opaque, fields=fields))
    because = f"success for vbucket {vbucket} with opaque {named.hex()}, but no stream request for it"
    return Broken("OPQ-05", "no-request", conversation, (guilty, fresh), because)


FAULTS: tuple[Fault, ...] = (
    Fault("OPQ-01", "a response that nobody asked for", "basic", _unasked, "unasked"),
    Fault("OPQ-01", "a request that is answered twice", "basic", _twice, "twice"),
    # The request whose answer is taken for another's has none.
    Fault("OPQ-01", "a response with its opaque byte-reversed", "basic", _reversed, "reversed", ("OPQ-02",)),
    Fault(
        "OPQ-02", "no reply to a failover log request", "basic", _ignored("failover-log", _failover_log), "failover-log"
    ),
    Fault("OPQ-02", "no reply to a control", "basic", _ignored("control", _control), "control"),
    Fault(
        "OPQ-02",
        "no reply to a no-op",
        "basic",
        _unsaid("noop", lambda each: untouched(each, "noop"), noops=False),
        "noop",
        ("NOP-01",),
    ),
    Fault("OPQ-02", "no reply to a vbucket state", "takeover", _unsaid("state", _sets_pending), "state", ("TKO-03",)),
    Fault(
        "OPQ-02",
        "no reply to a marker that asks for one",
        "takeover",
        _unsaid("marker", _asks_for_answer),
        "marker",
        ("SNP-10", "TKO-04"),
    ),
    Fault("OPQ-03", "a mutation that is answered with success", "basic", _thanks("item", *_ITEMS), "item"),
    Fault("OPQ-03", "a buffer ack that is answered with success", "basic", _thanks("ack", "buffer_ack"), "ack"),
    Fault(
        "OPQ-03",
        "a sync write that is answered with success",
        "sync-writes",
        _thanks("sync-write", "prepare", "commit", "abort"),
        "sync-write",
    ),
    Fault("OPQ-05", "an add stream response with another opaque", "relay", _other_opaque, "opaque"),
    Fault("OPQ-05", "an add stream response in the other byte order", "relay", _other_order, "byte-order"),
    Fault("OPQ-05", "a stream request without the flags of its add stream", "relay", _lost_flags, "flags"),
    Fault("OPQ-05", "an add stream without a stream request", "relay", _no_request, "no-request"),
    Fault(
        "OPQ-11",
        "an item refused as out of range",
        "basic",
        _refusal("range", enums.STATUSES.number("out_of_range"), b"Outside range"),
        "range",
    ),
    Fault(
        "OPQ-11",
        "an item refused for want of a stream",
        "basic",
        _refusal("no-stream", enums.STATUSES.number("key_not_found"), b"Not found"),
        "no-stream",
    ),
)
