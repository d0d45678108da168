"""Faults of takeovers: states in the wrong order, too early, or where they do not belong (TKO-01 to TKO-07).

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dissector.generate.faults.edits import answer, put_after, put_before, take_out, with_room
from dissector.generate.faults.stream_finder import instances, pick, recent
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import ACK, CHECKPOINT, DISK, MEMORY, PRODUCER, REASON_OK, REASON_STATE, TAKEOVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.faults.stream_finder import Instance
    from dissector.generate.scenario import Script

_STATE = "set_vbucket_state"
_ACTIVE, _PENDING, _EARLY_PENDING = 1, 3, 2


@dataclass(frozen=True, slots=True, eq=False)
class _Takeover:
    """A takeover that goes all the way: both states with their answers, and the end."""

    instance: Instance
    pending: Emission
    pending_answer: Emission
    active: Emission
    active_answer: Emission
    finish: Emission

    @property
    def conversation(self) -> Conversation:
        """Return where it is."""
        return self.instance.conversation


def _takeovers(script: Script) -> Iterator[_Takeover]:
    """Go through the takeovers that no fault has been at."""
    for instance in instances(script):
        if not instance.asked.get("stream_flags", 0) & TAKEOVER or not instance.completed or instance.finish is None:
            continue
        conversation = instance.conversation
        later = conversation.emissions[conversation.place(instance.answer) :]
        mine = [
            each for each in later if each.frame.name == _STATE and each.frame.opaque == instance.answer.frame.opaque
        ]
        said = [each for each in mine if each.side == instance.producer]
        answers = [each for each in mine if each.side != instance.producer]
        if [each.frame.fields.get("vbucket_state") for each in said][1:] == [_ACTIVE] and len(answers) == 2:
            yield _Takeover(instance, said[0], answers[0], said[1], answers[1], instance.finish)


def _no_pending(script: Script) -> Broken:
    found = pick(script, ((each.active, each) for each in _takeovers(script)))
    take_out(found.conversation, found.pending)
    take_out(found.conversation, found.pending_answer)
    because = f"vbucket {found.instance.vbucket} is told to be active, and pending was never said"
    return Broken("TKO-01", "no-pending", found.conversation, (found.active, found.instance.request), because)


def _again(script: Script) -> Broken:
    found = pick(script, ((each.active, each) for each in _takeovers(script)))
    frame = found.pending.frame.copy()
    guilty = put_before(found.conversation, found.active, found.instance.producer, frame)
    answer(found.conversation, guilty, found.pending_answer.frame.copy())
    because = f"vbucket {found.instance.vbucket} is told twice to be pending"
    return Broken("TKO-01", "again", found.conversation, (guilty, found.pending), because)


def _document_behind(script: Script) -> Broken:
    found = pick(script, ((each.active, each) for each in _takeovers(script) if each.instance.items))
    instance, conversation = found.instance, found.conversation
    last, item = instance.snapshots[-1], instance.items[-1]
    number = last.end + 1
    fields = {**last.marker.frame.fields, "snap_start_seqno": number, "snap_end_seqno": number}
    fields["snapshot_type"] = MEMORY | (CHECKPOINT if last.flags & DISK else 0)
    if "max_visible_seqno" in fields:
        fields["max_visible_seqno"] = number
    put_before(conversation, found.finish, instance.producer, last.marker.frame.copy(fields=fields))
    own = {"by_seqno": number, "rev_seqno": 1}
    frame = Frame(item.frame.dialect, "mutation", vbucket=instance.vbucket, opaque=item.frame.opaque)
    frame.fields, frame.key, frame.value = own, item.frame.key[:1] + b"late", b"{}"
    frame.cas = item.frame.cas + 0x10000
    guilty = put_before(conversation, found.finish, instance.producer, frame)
    because = f"a mutation with seqno {number} comes behind the state active of vbucket {instance.vbucket}"
    return Broken("TKO-02", "", conversation, (guilty, found.active), because)


def _unanswered(variant: str, early: Callable[[_Takeover], Emission]) -> Callable[[Script], Broken]:
    """Return a fault that has the producer go on before the answer to a state has come (TKO-03)."""

    def apply(script: Script) -> Broken:
        found = pick(script, ((early(each), each) for each in _takeovers(script)))
        guilty = early(found)
        state, reply = (
            (found.pending, found.pending_answer) if guilty is found.active else (found.active, found.active_answer)
        )
        take_out(found.conversation, reply)
        late = put_after(found.conversation, guilty, reply.side, reply.frame)
        because = f"a {guilty.frame.name} of vbucket {found.instance.vbucket} before the answer to the state before it"
        return Broken("TKO-03", variant, found.conversation, (guilty, state, late), because)

    return apply


def _unconfirmed(script: Script) -> Broken:
    options = []
    for each in _takeovers(script):
        conversation = each.conversation
        before = conversation.emissions[: conversation.place(each.pending)]
        confirmed = [one for one in each.instance.confirmed if any(one is other for other in before)]
        markers = [one.marker for one in each.instance.snapshots if one.flags & ACK and one.marker in before]
        if confirmed and markers:
            options.append((each.pending, (each, confirmed[-1], markers[-1])))
    found, confirmation, marker = pick(script, options)
    take_out(found.conversation, confirmation)
    late = put_after(found.conversation, found.pending, confirmation.side, confirmation.frame)
    because = f"pending for vbucket {found.instance.vbucket} before the last snapshot was confirmed"
    return Broken("TKO-04", "", found.conversation, (found.pending, marker, late), because)


def _no_takeover(script: Script) -> Broken:
    options = [
        (snapshot.items[0], snapshot)
        for snapshot in with_room(script)
        if not snapshot.instance.asked.get("stream_flags", 0) & TAKEOVER and snapshot.instance.alone
    ]
    snapshot = pick(script, options)
    instance, anchor = snapshot.instance, snapshot.items[0]
    frame = Frame(anchor.frame.dialect, _STATE, vbucket=instance.vbucket, opaque=anchor.frame.opaque)
    frame.fields, frame.framing = {"vbucket_state": _PENDING}, anchor.frame.framing
    guilty = put_before(instance.conversation, anchor, instance.producer, frame)
    answer(instance.conversation, guilty, Frame(frame.dialect, _STATE, response=True, opaque=frame.opaque))
    because = f"a state for vbucket {instance.vbucket}, whose stream has no flag takeover"
    return Broken("TKO-05", "", instance.conversation, (guilty, instance.request), because)


def _other_reason(script: Script) -> Broken:
    found = pick(script, ((each.finish, each) for each in _takeovers(script)))
    found.finish.frame.fields["end_reason"] = REASON_STATE
    because = f"the takeover of vbucket {found.instance.vbucket} is done and ends for reason {REASON_STATE}"
    return Broken("TKO-06", "reason", found.conversation, (found.finish, found.active), because)


def _never_active(script: Script) -> Broken:
    found = pick(script, ((each.finish, each) for each in _takeovers(script)))
    take_out(found.conversation, found.active)
    take_out(found.conversation, found.active_answer)
    because = f"the takeover of vbucket {found.instance.vbucket} ends with reason {REASON_OK}, without active"
    return Broken("TKO-06", "unfinished", found.conversation, (found.finish, found.pending), because)


def _old_number(script: Script) -> Broken:
    new = recent(script)
    opened = {
        id(conversation)
        for conversation in script.conversations
        if any(each.frame.name == "open" and each.frame.fields.get("open_flags", 0) & PRODUCER for each in conversation)
    }
    found = pick(
        script,
        (
            (each.pending, each)
            for each in _takeovers(script)
            if id(each.conversation) in new & opened and each.pending.frame.fields["vbucket_state"] == _PENDING
        ),
    )
    found.pending.frame.fields["vbucket_state"] = _EARLY_PENDING
    because = f"pending for vbucket {found.instance.vbucket} is sent as {_EARLY_PENDING} by a server that knows HELLO"
    return Broken("TKO-07", "", found.conversation, (found.pending, found.instance.request), because)


FAULTS: tuple[Fault, ...] = (
    Fault("TKO-01", "a takeover without pending", "takeover", _no_pending, "no-pending"),
    Fault("TKO-01", "a takeover that says pending twice", "takeover-3x", _again, "again"),
    Fault("TKO-02", "a mutation behind the state active", "takeover", _document_behind),
    Fault(
        "TKO-03",
        "active is sent before pending was answered",
        "takeover",
        _unanswered("state", lambda each: each.active),
        "state",
    ),
    Fault(
        "TKO-03",
        "the stream ends before active was answered",
        "takeover-relay",
        _unanswered("end", lambda each: each.finish),
        "end",
    ),
    Fault("TKO-04", "pending is sent before the last snapshot was confirmed", "takeover-3x", _unconfirmed),
    Fault("TKO-05", "a vbucket state on a stream that is no takeover", "basic", _no_takeover),
    Fault("TKO-06", "a takeover that is done ends for another reason", "takeover-relay", _other_reason, "reason"),
    Fault("TKO-06", "a takeover ends with ok and without active", "takeover", _never_active, "unfinished"),
    Fault("TKO-07", "a server that knows HELLO sends pending as 2", "takeover", _old_number),
)
