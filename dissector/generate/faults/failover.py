"""Faults of failover logs, of the ranges of stream requests and of rollbacks: all that the rules FOL forbid.

Requests that a fault adds are for a vbucket that nobody else asks for, and streams that it adds stay silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults import failover_resumed
from dissector.generate.faults.edits import answer, fresh_opaque, fresh_vbucket, put_after, put_before, untouched
from dissector.generate.faults.stream_finder import DOCUMENTS
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import NO_END, ROLLBACK, SUCCESS, pack_log
from dissector.spec import enums
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_ENTRY = 16
_ERANGE = enums.STATUSES.number("out_of_range")
_STRICT = enums.STREAM_FLAGS.bit("strict_vbucket_uuid")
_LOGS = ("stream_request", "get_failover_log")
_START, _BRANCH_END = 30, 24
_LOOP = 4  #: rollbacks in a row

#: A rollback: its conversation, the request, the rollback itself, and the answers with the logs before and after.
_Found = tuple["Conversation", "Emission", "Emission", "Emission", "Emission"]


# --- logs ----------------------------------------------------------------------------------------------------------


def _log(frame: Frame) -> list[tuple[int, int]]:
    numbers = [int.from_bytes(frame.value[at : at + 8], "big") for at in range(0, len(frame.value), 8)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _tells_log(emission: Emission, *names: str, entries: int = 1) -> bool:
    found = untouched(emission, *(names or _LOGS), response=True) and emission.frame.status == SUCCESS
    return found and len(emission.frame.value) >= entries * _ENTRY


def _length(variant: str, change: Callable[[bytes], bytes]) -> Callable[[Script], Broken]:
    """Return a fault that sends a failover log of another length."""

    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(_tells_log)
        guilty.frame.value = change(guilty.frame.value)
        because = f"{len(guilty.frame.value)} bytes of failover log; entries have 16 bytes, and there is at least one"
        return Broken("FOL-01", variant, conversation, (guilty,), because)

    return apply


def _changed_log(
    rule: str, variant: str, change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]], because: str
) -> Callable[[Script], Broken]:
    """Return a fault in the entries of a log that was asked for by itself: no stream depends on it."""

    def apply(script: Script) -> Broken:
        conversation, guilty = script.find(
            lambda each: _tells_log(each, "get_failover_log", entries=2) and _log(each.frame)[0][1] > 0
        )
        guilty.frame.value = pack_log(change(_log(guilty.frame)))
        return Broken(rule, variant, conversation, (guilty,), because)

    return apply


def _twice(log: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*log[:-1], (log[0][0], log[-1][1])]


def _nameless(log: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*log[:-1], (0, log[-1][1])]


# --- stream requests -----------------------------------------------------------------------------------------------


def _asked(
    script: Script,
    start: int,
    snapshot: tuple[int, int],
    *,
    end: int = NO_END,
    uuid: int = 0,
    flags: int = 0,
    after: tuple[Conversation, Emission] | None = None,
) -> tuple[Conversation, Emission]:
    """Put a stream request into a conversation, for a vbucket of its own; or once more, after something."""
    fields = {"stream_flags": flags, "start_seqno": start, "end_seqno": end, "vbucket_uuid": uuid}
    fields |= {"snap_start_seqno": snapshot[0], "snap_end_seqno": snapshot[1]}
    if after is not None:
        conversation, anchor = after
        frame = Frame(Dialect.DCP, "stream_request", fields=fields, vbucket=anchor.frame.vbucket)
        frame.opaque = fresh_opaque(script, conversation)
        return conversation, put_after(conversation, _answer_to(conversation, anchor), anchor.side, frame)
    conversation, anchor = script.find(
        lambda each: untouched(each, *DOCUMENTS) and each.frame.dialect is Dialect.DCP and each.frame.stream_id is None
    )
    frame = Frame(Dialect.DCP, "stream_request", fields=fields, vbucket=fresh_vbucket(script))
    frame.opaque = fresh_opaque(script, conversation)
    return conversation, put_before(conversation, anchor, 1 - anchor.side, frame)


def _answer_to(conversation: Conversation, asked: Emission) -> Emission:
    later = conversation.emissions[conversation.place(asked) :]
    return next(each for each in later if each.frame.response and each.frame.opaque == asked.frame.opaque)


def _answered(
    conversation: Conversation,
    asked: Emission,
    status: int = SUCCESS,
    *,
    log: Sequence[tuple[int, int]] = (),
    rollback: int | None = None,
) -> Emission:
    """Answer a stream request."""
    frame = Frame(Dialect.DCP, "stream_request", response=True, opaque=asked.frame.opaque, status=status)
    if rollback is not None:
        frame.fields["rollback_seqno"] = rollback
    elif status == SUCCESS:
        frame.value = pack_log(log)
    else:
        frame.value = b"Outside range"
    return answer(conversation, asked, frame)


def _uuids(script: Script) -> tuple[int, int]:
    return script.chance.randrange(1, 1 << 47), script.chance.randrange(1 << 47, 1 << 48)


def _bad_range(variant: str, snapshot: tuple[int, int], end: int = NO_END) -> Callable[[Script], Broken]:
    """Return a fault that asks for a range that makes no sense, and is refused."""

    def apply(script: Script) -> Broken:
        conversation, asked = _asked(script, _START, snapshot, end=end)
        _answered(conversation, asked, _ERANGE)
        because = f"start {_START}, end {end}, snapshot {snapshot[0]} to {snapshot[1]}"
        return Broken("FOL-04", variant, conversation, (asked,), because)

    return apply


def _accepted(script: Script) -> Broken:
    conversation, asked = _asked(script, _START, (_START, _START), end=_START - 10)
    guilty = _answered(conversation, asked, log=[(_uuids(script)[0], 0)])
    because = f"a stream from {_START} to {_START - 10} is granted"
    return Broken("FOL-04", "accepted", conversation, (guilty, asked), because)


def _refused(script: Script) -> Broken:
    conversation, asked = _asked(script, 0, (0, 0))
    guilty = _answered(conversation, asked, _ERANGE)
    because = "a stream from 0 to no end in the snapshot 0 to 0 is refused with 0x22"
    return Broken("FOL-04", "refused", conversation, (guilty, asked), because)


def _granted(script: Script) -> Broken:
    old, new = _uuids(script)
    conversation, asked = _asked(script, _START, (_START, _START), uuid=old)
    guilty = _answered(conversation, asked, log=[(new, _BRANCH_END), (old, 0)])
    because = f"a stream from {_START} on is granted, and its branch ended at {_BRANCH_END}"
    return Broken("FOL-05", "granted", conversation, (guilty, asked), because)


def _foreign(script: Script) -> Broken:
    old, new = _uuids(script)
    conversation, asked = _asked(script, _START, (_START, _START), uuid=old)
    guilty = _answered(conversation, asked, log=[(new, 0)])
    because = f"uuid {old:#x} is granted, and the log has {new:#x} alone"
    return Broken("FOL-06", "", conversation, (guilty, asked), because)


def _stays(script: Script) -> Broken:
    uuid, _ = _uuids(script)
    conversation, asked = _asked(script, _START, (_START, _START), uuid=uuid)
    told = _answered(conversation, asked, ROLLBACK, rollback=0)
    _, guilty = _asked(script, _START, (_START, _START), uuid=uuid, after=(conversation, asked))
    _answered(conversation, guilty, ROLLBACK, rollback=0)
    because = f"start {_START} after a rollback to 0"
    return Broken("FOL-07", "stays", conversation, (guilty, told, asked), because)


def _loop(script: Script) -> Broken:
    uuid, _ = _uuids(script)
    conversation, asked = _asked(script, 0, (0, 0), uuid=uuid, flags=_STRICT)
    _answered(conversation, asked, ROLLBACK, rollback=0)
    for _ in range(_LOOP - 1):
        _, asked = _asked(script, 0, (0, 0), uuid=uuid, flags=_STRICT, after=(conversation, asked))
        told = _answered(conversation, asked, ROLLBACK, rollback=0)
    because = f"{_LOOP} rollbacks in a row for start 0"
    return Broken("FOL-07", "loop", conversation, (asked, told), because)


# --- rollbacks -----------------------------------------------------------------------------------------------------


def _rollback(script: Script, wanted: Callable[[Emission, Emission, list[tuple[int, int]]], bool]) -> _Found:
    """Find a rollback between two equal logs: by request, rollback, and log."""
    options: dict[int, _Found] = {}
    for conversation in script.conversations:
        asked: dict[bytes, Emission] = {}
        logs: dict[int, tuple[Emission, list[tuple[int, int]]]] = {}
        waiting: list[tuple[Emission, Emission, Emission, list[tuple[int, int]]]] = []
        for each in conversation:
            if not each.frame.response and each.frame.name in _LOGS:
                asked[each.frame.opaque] = each
                continue
            request = asked.get(each.frame.opaque) if each.frame.name in _LOGS else None
            if request is None or not untouched(each, *_LOGS, response=True):
                continue
            vbucket = request.frame.vbucket
            if each.frame.status == ROLLBACK and vbucket in logs and untouched(request, "stream_request"):
                waiting.append((request, each, *logs[vbucket]))
            elif _tells_log(each):
                log = _log(each.frame)
                for one, told, before, known in waiting:
                    if one.frame.vbucket == vbucket and known == log and wanted(one, told, log):
                        options.setdefault(id(told), (conversation, one, told, before, each))
                waiting = [one for one in waiting if one[0].frame.vbucket != vbucket]
                logs[vbucket] = each, log
    _, emission = script.find(lambda each: id(each) in options)
    return options[id(emission)]


def _not_lower(script: Script) -> Broken:
    conversation, asked, guilty, *_ = _rollback(script, lambda *_: True)
    start = asked.frame.fields["start_seqno"]
    guilty.frame.fields["rollback_seqno"] = start + 5
    return Broken("FOL-05", "not-lower", conversation, (guilty, asked), f"a rollback from {start} to {start + 5}")


def _elsewhere(script: Script) -> Broken:
    def fits(asked: Emission, told: Emission, log: list[tuple[int, int]]) -> bool:
        older = [uuid for uuid, _ in log[1:]]
        room = told.frame.fields["rollback_seqno"] + 1 < asked.frame.fields["start_seqno"]
        return asked.frame.fields["vbucket_uuid"] in older and room

    conversation, asked, guilty, before, after = _rollback(script, fits)
    right = guilty.frame.fields["rollback_seqno"]
    guilty.frame.fields["rollback_seqno"] = right + 1
    because = f"a rollback to {right + 1}; by the log it goes to {right}"
    return Broken("FOL-05", "elsewhere", conversation, (guilty, asked, before, after), because)


def _purged(script: Script) -> Broken:
    def fits(asked: Emission, told: Emission, log: list[tuple[int, int]]) -> bool:
        older = [uuid for uuid, _ in log[1:]]
        to_zero = told.frame.fields["rollback_seqno"] == 0
        return to_zero and asked.frame.fields["vbucket_uuid"] in older and asked.frame.fields["start_seqno"] > 1

    conversation, asked, guilty, before, after = _rollback(script, fits)
    start = asked.frame.fields["start_seqno"]
    # What the client has of the snapshot is no longer all there is: the log alone would send it to the new start.
    asked.frame.fields["snap_start_seqno"] = start - 1
    because = f"a rollback from {start} to 0; by the log it goes to a seqno beyond"
    return Broken("FOL-11", "", conversation, (guilty, asked, before, after), because)


FAULTS: tuple[Fault, ...] = (
    Fault("FOL-01", "a failover log without an entry", "basic", _length("empty", lambda _: b""), "empty", ("FRM-05",)),
    Fault(
        "FOL-01",
        "a failover log that ends in the middle of an entry",
        "basic",
        _length("partial", lambda value: value[:-1]),
        "partial",
        ("FRM-05",),
    ),
    Fault(
        "FOL-02",
        "a failover log with its oldest entry first",
        "failover-history",
        _changed_log("FOL-02", "", lambda log: log[::-1], "the seqnos increase from entry to entry"),
    ),
    Fault(
        "FOL-03",
        "a uuid that two branches have",
        "failover-history",
        _changed_log("FOL-03", "repeated", _twice, "the first and the last entry have the same uuid"),
        "repeated",
    ),
    Fault(
        "FOL-03",
        "a branch with uuid 0",
        "failover-history",
        _changed_log("FOL-03", "zero", _nameless, "the last entry has uuid 0"),
        "zero",
    ),
    Fault("FOL-04", "a request that ends before it starts", "basic", _bad_range("end", (30, 30), 20), "end"),
    Fault("FOL-04", "a start before the snapshot", "basic", _bad_range("before", (31, 40)), "before"),
    Fault("FOL-04", "a start beyond the snapshot", "basic", _bad_range("beyond", (20, 29)), "beyond"),
    Fault("FOL-04", "a request that makes no sense, and is granted", "basic", _accepted, "accepted"),
    Fault("FOL-04", "a request that makes sense, and is out of range", "basic", _refused, "refused"),
    Fault("FOL-05", "a rollback that goes up", "failover-history", _not_lower, "not-lower"),
    Fault("FOL-05", "a rollback to another seqno than the log's", "failover-history", _elsewhere, "elsewhere"),
    Fault("FOL-05", "no rollback for a client beyond the end of its branch", "basic", _granted, "granted"),
    Fault("FOL-06", "no rollback for a client on a branch that nobody knows", "basic", _foreign),
    Fault("FOL-07", "a client that does not go back", "basic", _stays, "stays"),
    Fault("FOL-07", "a client that asks in vain", "strict-uuid", _loop, "loop"),
    *failover_resumed.FAULTS,
    Fault("FOL-11", "a rollback to 0 that the log does not ask for", "failover-history", _purged),
)
