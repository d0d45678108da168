"""Faults of how connections are set up: opens, roles, log-ins and controls (CON-01 to 04, 09)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.conversation import CLIENT
from dissector.generate.faults.edits import answer, find, fresh_opaque, fresh_vbucket, put_after, put_before, untouched
from dissector.generate.faults.stream_finder import instances, pick
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_INVALID, _NO_ACCESS = map(enums.STATUSES.number, ("invalid_arguments", "no_access"))
_ITEMS = ("mutation", "deletion", "expiration")
_QUIET_CONTROL = (b"set_priority", b"medium")  #: a parameter that shows in no other message


def _open_of(script: Script) -> tuple[Conversation, Emission, Emission]:
    """Find an open and the answer that grants it."""
    conversation, asked = script.find(lambda each: untouched(each, "open"))
    replies = (each for each in conversation if each.frame.name == "open" and each.frame.response)
    return conversation, asked, next(each for each in replies if each.frame.opaque == asked.frame.opaque)


def _early(script: Script) -> Broken:
    conversation, asked, _ = _open_of(script)
    key, value = _QUIET_CONTROL
    frame = Frame(asked.frame.dialect, "control", key=key, value=value, opaque=fresh_opaque(script, conversation))
    guilty = put_before(conversation, asked, asked.side, frame)
    put_after(conversation, guilty, 1 - asked.side, frame.copy(response=True, status=_INVALID, key=b"", value=b""))
    return Broken("CON-01", "early", conversation, (guilty, asked), "a control comes before the open")


def _granted(script: Script) -> Broken:
    conversation, asked, reply = _open_of(script)
    reply.frame.status = _INVALID
    later = conversation.emissions[conversation.place(reply) + 1 :]
    guilty = next(each for each in later if untouched(each, "control", "get_failover_log", response=True))
    because = f"the open is refused, and a {guilty.frame.name.replace('_', ' ')} is granted"
    return Broken("CON-01", "granted", conversation, (guilty, asked), because)


def _again(script: Script) -> Broken:
    conversation, anchor = script.find(lambda each: untouched(each, *_ITEMS))
    first = next(each for each in conversation if each.frame.name == "open")
    frame = first.frame.copy(opaque=fresh_opaque(script, conversation))
    guilty = put_before(conversation, anchor, CLIENT, frame)
    refusal = Frame(frame.dialect, "open", response=True, opaque=frame.opaque, status=_INVALID)
    answer(conversation, guilty, refusal)
    return Broken("CON-02", "", conversation, (guilty, first), "a second open")


def _misplaced(variant: str, make: Callable[[Script, Emission], tuple[int, Frame]]) -> Callable[[Script], Broken]:
    """Return a fault that has the wrong side say something."""

    def apply(script: Script) -> Broken:
        known = [each for each in instances(script) if each.items and untouched(each.request, "stream_request")]
        instance, anchor = pick(script, [(item, (each, item)) for each in known for item in each.items])
        conversation = instance.conversation
        side, frame = make(script, anchor)
        frame.opaque = fresh_opaque(script, conversation)
        guilty = put_before(conversation, anchor, side, frame)
        name = frame.name.replace("_", " ")
        opened = next(each for each in conversation if each.frame.name == "open")
        return Broken("CON-03", variant, conversation, (guilty, opened), f"a {name} from the side that sends none")

    return apply


def _request(script: Script, anchor: Emission) -> tuple[int, Frame]:
    fields = dict.fromkeys(("start_seqno", "end_seqno", "vbucket_uuid", "snap_start_seqno", "snap_end_seqno"), 0)
    frame = Frame(anchor.frame.dialect, "stream_request", fields=fields | {"stream_flags": 0})
    frame.vbucket = fresh_vbucket(script)
    return anchor.side, frame


def _ack(_script: Script, anchor: Emission) -> tuple[int, Frame]:
    return anchor.side, Frame(anchor.frame.dialect, "buffer_ack", fields={"buffer_bytes": 55})


def _noop(_script: Script, anchor: Emission) -> tuple[int, Frame]:
    return 1 - anchor.side, Frame(anchor.frame.dialect, "noop")


def _add_stream(script: Script, anchor: Emission) -> tuple[int, Frame]:
    frame = Frame(anchor.frame.dialect, "add_stream", fields={"stream_flags": 0}, vbucket=fresh_vbucket(script))
    return 1 - anchor.side, frame


def _late_hello(script: Script) -> Broken:
    conversation, asked = script.find(lambda each: each.frame.name == "hello" and not each.frame.response)
    opened = next(each for each in conversation if each.frame.name == "open" and each.frame.response)
    frame = asked.frame.copy(opaque=fresh_opaque(script, conversation))
    guilty = put_after(conversation, opened, CLIENT, frame)
    granted = Frame(frame.dialect, "hello", response=True, opaque=frame.opaque, value=frame.value)
    put_after(conversation, guilty, 1 - CLIENT, granted)
    return Broken("CON-04", "late", conversation, (guilty, opened), "a HELLO behind the open")


def _no_login(script: Script) -> Broken:
    conversation, asked, _ = _open_of(script)
    frame = asked.frame.copy(opaque=fresh_opaque(script, conversation))
    guilty = put_before(conversation, asked, asked.side, frame)
    refusal = Frame(frame.dialect, "open", response=True, opaque=frame.opaque, status=_NO_ACCESS)
    put_after(conversation, guilty, 1 - asked.side, refusal)
    return Broken("CON-04", "no-login", conversation, (guilty,), "an open is refused with no access")


def _impatient(script: Script) -> Broken:
    def wanted(conversation: Conversation, each: Emission) -> bool:
        opened = next((one for one in conversation if one.frame.name == "open"), None)
        return untouched(each, "stream_request") and opened is not None and opened.side != each.side

    conversation, guilty = find(script, wanted)
    before = conversation.emissions[: conversation.place(guilty)]
    last = next(each for each in reversed(before) if each.frame.name == "control" and each.frame.response)
    asked = next(each for each in before if each.frame.name == "control" and each.frame.opaque == last.frame.opaque)
    conversation.remove(last)
    put_after(conversation, guilty, last.side, last.frame)
    because = f"a stream request while the control {asked.frame.key.decode()} has no answer"
    return Broken("CON-09", "", conversation, (guilty, asked), because)


FAULTS: tuple[Fault, ...] = (
    Fault("CON-01", "a control before the open", "basic", _early, "early"),
    Fault("CON-01", "an open that is refused, and a connection that goes on", "basic", _granted, "granted"),
    Fault("CON-02", "a second open", "basic", _again),
    Fault("CON-03", "a stream request from the producer", "basic", _misplaced("request", _request), "request"),
    Fault("CON-03", "a buffer ack from the producer", "basic", _misplaced("ack", _ack), "ack"),
    Fault("CON-03", "a no-op from the consumer", "basic", _misplaced("noop", _noop), "noop"),
    Fault("CON-03", "an add stream to a producer", "basic", _misplaced("add-stream", _add_stream), "add-stream"),
    Fault("CON-04", "a HELLO behind the open", "modern", _late_hello, "late"),
    Fault("CON-04", "an open before the log-in", "modern", _no_login, "no-login"),
    Fault("CON-09", "a stream request before a control is answered", "server-consumer", _impatient),
)
