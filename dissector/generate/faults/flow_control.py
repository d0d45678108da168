"""Faults in flow control (FLC-01 to FLC-09): acks of too much, too little or too late, and a producer that overruns.

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
Sums that other faults may still change are left to be counted in the end.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dissector.generate.faults import edits, idle_time, stream_finder, window_sums
from dissector.generate.frame import ALL_THAT_ARRIVED, Frame
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import SECOND
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.faults.window_sums import Balance
    from dissector.generate.scenario import Script

_AMOUNT = "buffer_bytes"
_TOO_MUCH = 4096
_OVERRUN = 3  #: messages that a producer sends at a full window, at least
_OVERFULL = 1.25  #: how full the window is when the next ack comes
_STALL_S, _LATE_S, _QUIET_S = 90, 13, 45
_LEAK = 0.3  #: of the window is never given back
_NOOP_SIZE = 24
_SHORT = 2  #: bytes that a prepare counts beyond its frame, and that are easily forgotten
_SOON_NS = 5 * SECOND  #: consumers give back the rest by then


def _sums(script: Script) -> Iterator[tuple[Conversation, list[Balance]]]:
    """Go through the connections with acks, early ones left out: those are answered, and count in another way."""
    for conversation in script.conversations:
        rows = window_sums.balances(conversation)
        if any(window_sums.is_ack(row.emission) and row.emission.frame.dialect is Dialect.DCP for row in rows):
            yield conversation, rows


def _acks(script: Script) -> Iterator[tuple[Conversation, Balance]]:
    """Go through the acks of connections with a window."""
    for conversation, rows in _sums(script):
        for row in rows:
            if window_sums.is_ack(row.emission) and row.window:
                yield conversation, row


def _too_much(script: Script) -> Broken:
    """Give back more than arrived (FLC-01)."""
    conversation, row = stream_finder.pick(
        script,
        (
            (row.emission, (conversation, row))
            for conversation, row in _acks(script)
            if _gives_all_back(row) and row.everything
        ),
    )
    row.emission.frame.fields[_AMOUNT] = row.amount + _TOO_MUCH
    because = f"{row.amount + _TOO_MUCH} bytes are given back, and {row.amount} had arrived since the last time"
    return Broken("FLC-01", "too-much", conversation, (row.emission,), because)


def _twice(script: Script) -> Broken:
    """Give the same bytes back twice (FLC-01)."""
    conversation, row = stream_finder.pick(
        script,
        (
            (row.emission, (conversation, row))
            for conversation, row in _acks(script)
            if _gives_all_back(row) and row.everything
        ),
    )
    ack = row.emission
    again = edits.put_after(conversation, ack, ack.side, _ack_like(script, conversation, ack, row.amount))
    because = f"the {row.amount} bytes that had arrived are given back twice"
    return Broken("FLC-01", "twice", conversation, (again, ack), because)


def _overrun(script: Script) -> Broken:
    """Leave acks out until the producer has sent on at a full window (FLC-02)."""
    conversation, gone = stream_finder.pick(script, _runs(script), lambda found: len(_overdrawn(*found)) >= _OVERRUN)
    rows = _overdrawn(conversation, gone)
    for each in gone:
        edits.take_out(conversation, each)
    before = conversation.emissions[: conversation.place(rows[0].emission)]
    proof = [each for each in before if window_sums.is_ack(each)][-1:]
    because = f"{rows[0].outstanding} bytes are outstanding in a window of {rows[0].window}, and more is sent"
    return Broken("FLC-02", "", conversation, (*(row.emission for row in rows), *proof), because)


def _runs(script: Script) -> Iterator[tuple[Emission, tuple[Conversation, list[Emission]]]]:
    """Go through the runs of acks without which a producer may overrun the window, an ack of everything after them."""
    for conversation, rows in _sums(script):
        acks = [row for row in rows if window_sums.is_ack(row.emission)]
        while acks and not _gives_all_back(acks[-1]):  # without an end to it, some would never be given back
            acks.pop()
        for at, first in enumerate(acks):
            gone: list[Emission] = []
            for row in acks[at:]:
                if gone and row.sent - first.returned >= _OVERFULL * row.window:
                    yield gone[0], (conversation, gone)
                    break
                if not _gives_all_back(row):
                    break
                gone.append(row.emission)


def _overdrawn(conversation: Conversation, gone: list[Emission]) -> list[Balance]:
    """Return the messages that would be sent at a full window if these acks gave nothing back."""
    for each in gone:
        each.frame.fields[_AMOUNT] = 0
    found = [row for row in window_sums.balances(conversation) if row.overdrawn]
    for each in gone:
        each.frame.fields[_AMOUNT] = ALL_THAT_ARRIVED
    return found


def _stall(script: Script) -> Broken:
    """Leave the producer at a full window for long, then go on (FLC-03)."""
    conversation, row = stream_finder.pick(
        script,
        (
            (row.emission, (conversation, row))
            for conversation, row in _acks(script)
            if row.sent - row.returned >= row.window
        ),
        lambda found: idle_time.restful(found[0], found[1].emission),
    )
    idle_time.hold(script, conversation, row.emission, _STALL_S)
    outstanding = row.sent - row.returned
    because = f"{outstanding} bytes are outstanding in a window of {row.window} for {_STALL_S} s"
    return Broken("FLC-03", "", conversation, (row.emission, _before(conversation, row)), because)


def _leak(script: Script) -> Broken:
    """Never give back a good part of the window, though the connection lives on (FLC-04)."""
    conversation, row, missing = stream_finder.pick(script, _leaks(script))
    following = [
        each for each in conversation.emissions[conversation.place(row.emission) + 1 :] if window_sums.is_ack(each)
    ]
    for each in following:
        edits.take_out(conversation, each)
    row.emission.frame.fields[_AMOUNT] = row.amount - missing
    alive = _alive(script, conversation)
    idle_time.hold(script, conversation, alive, _QUIET_S)
    last = window_sums.balances(conversation)[-1]
    left = last.sent - last.returned
    because = f"{left} bytes of a window of {row.window} are never given back, and nothing comes for {_QUIET_S} s"
    return Broken("FLC-04", "", conversation, (row.emission, alive), because)


def _leaks(script: Script) -> Iterator[tuple[Emission, tuple[Conversation, Balance, int]]]:
    """Go through acks that could be the last, with how much less they would have to give back."""
    for conversation, rows in _sums(script):
        sent = rows[-1].sent + rows[-1].emission.frame.flow_bytes
        kinds = Counter(row.emission.frame.name for row in rows if row.emission.frame.flow_bytes)
        counts = [count for count in kinds.values() if count > 1]
        for row in rows:
            if not window_sums.is_ack(row.emission) or not row.window:
                continue
            window = rows[-1].window
            left = sent - row.returned - row.amount  # if no other followed
            missing = max(0, int(_LEAK * window) - left)
            while missing < row.amount and any((left + missing) % count == 0 for count in counts):
                missing += 1  # no constant per message of a kind explains it (FLC-05)
            # Below the window, or it would be a stall or an overrun; and something has to be given back (FLC-07).
            if missing < row.amount and left + missing < window == row.window:
                yield row.emission, (conversation, row, missing)


def _drift(script: Script) -> Broken:
    """Count every prepare two bytes short, as its frame would have it (FLC-05)."""
    conversation, prepare = stream_finder.pick(
        script,
        (
            (each, (conversation, each))
            for conversation, rows in _sums(script)
            if rows[-1].window
            for each in conversation
            if each.frame.name == "prepare"
        ),
    )
    alive = _alive(script, conversation)
    rows = window_sums.balances(conversation)
    acks = [row for row in rows if window_sums.is_ack(row.emission)]
    if acks[-1].returned + acks[-1].amount < rows[-1].sent:
        ack = _ack_like(script, conversation, acks[-1].emission, ALL_THAT_ARRIVED)
        edits.put_before(conversation, alive, acks[-1].emission.side, ack).pause_ns = _SOON_NS
        rows = window_sums.balances(conversation)
    idle_time.hold(script, conversation, alive, _QUIET_S)
    short, arrived = 0, _arrived_prepares(conversation)
    for row in rows:
        if window_sums.is_ack(row.emission):
            owed = _SHORT * arrived[id(row.emission)]
            row.emission.frame.fields[_AMOUNT] = row.amount - (owed - short)
            short = owed
    last = [row.emission for row in rows if window_sums.is_ack(row.emission)][-1]
    count = short // _SHORT
    because = f"{short} bytes are never given back: {_SHORT} for each of {count} prepares"
    return Broken("FLC-05", "", conversation, (last, prepare, alive), because)


def _arrived_prepares(conversation: Conversation) -> dict[int, int]:
    """Return how many prepares had arrived at each message of the consumer."""
    producer = window_sums.producer_of(conversation)
    sums, found = [0], {}
    for each in conversation:
        if each.side == producer:
            sums.append(sums[-1] + (each.frame.name == "prepare"))
        else:
            found[id(each)] = sums[max(0, len(sums) - 1 - each.unheard)]
    return found


def _unwanted(script: Script) -> Broken:
    """Give bytes back on a connection without a window (FLC-06): none was asked for."""
    conversation, row = stream_finder.pick(
        script, ((row.emission, (conversation, row)) for conversation, row in _acks(script) if row.amount)
    )
    wanted = [each for each in conversation if each.frame.name == "control" and each.frame.key == window_sums.WINDOW]
    opaques = {each.frame.opaque for each in wanted}
    answers = [each for each in conversation if each.frame.name == "control" and each.frame.opaque in opaques]
    for each in answers:
        edits.take_out(conversation, each)
    acks = [each for each in conversation if window_sums.is_ack(each)]
    others = [each for each in acks if each is not row.emission]
    because = f"{row.amount} bytes are given back, and no connection_buffer_size was set"
    return Broken("FLC-06", "", conversation, (row.emission, *others), because)


def _nothing(script: Script) -> Broken:
    """Give nothing back (FLC-07)."""
    conversation, row = stream_finder.pick(
        script, ((row.emission, (conversation, row)) for conversation, row in _acks(script))
    )
    ack = row.emission
    zero = edits.put_after(conversation, ack, ack.side, _ack_like(script, conversation, ack, 0))
    return Broken("FLC-07", "", conversation, (zero,), "0 bytes are given back")


def _noops_too(script: Script) -> Broken:
    """Give back 24 bytes for every no-op as well (FLC-08), from one ack on."""

    usable = [(conversation, row) for conversation, row in _acks(script) if _gives_all_back(row) and row.everything]
    at = stream_finder.pick(
        script,
        ((row.emission, at) for at, (_, row) in enumerate(usable)),
        lambda at: bool(_noops_since(usable[at][0], usable[at][1].emission)),
    )
    conversation = usable[at][0]
    guilty: list[Emission] = []
    noops: list[Emission] = []
    for row in [row for found, row in usable[at:] if found is conversation]:
        counted = _noops_since(conversation, row.emission)
        if counted:
            row.emission.frame.fields[_AMOUNT] = row.amount + _NOOP_SIZE * len(counted)
            guilty.append(row.emission)
            noops += counted
    amount = guilty[0].frame.fields[_AMOUNT]
    over = _NOOP_SIZE * len(_noops_since(conversation, guilty[0]))
    because = f"{amount} bytes are given back and {amount - over} had arrived: {_NOOP_SIZE} too much for each no-op"
    return Broken("FLC-08", "", conversation, (*guilty, *noops), because)


def _noops_since(conversation: Conversation, ack: Emission) -> list[Emission]:
    """Return the no-ops since the ack before this one."""
    found: list[Emission] = []
    for each in conversation.emissions[: conversation.place(ack)]:
        if window_sums.is_ack(each):
            found = []
        elif each.frame.name == "noop" and not each.frame.response:
            found.append(each)
    return found


def _late(script: Script) -> Broken:
    """Give back late what arrived in time (FLC-09)."""
    conversation, row = stream_finder.pick(
        script,
        (
            (row.emission, (conversation, row))
            for conversation, row in _acks(script)
            if row.amount and row.sent - row.returned < row.window
        ),
        lambda found: idle_time.restful(found[0], found[1].emission),
    )
    idle_time.hold(script, conversation, row.emission, _LATE_S)
    because = f"the {row.amount} bytes are given back {_LATE_S} s after the last of them arrived"
    return Broken("FLC-09", "", conversation, (row.emission, _before(conversation, row)), because)


def _gives_all_back(row: Balance) -> bool:
    """Tell whether the ack gives back what arrived, whatever that will be."""
    return row.emission.frame.fields.get(_AMOUNT) == ALL_THAT_ARRIVED


def _ack_like(script: Script, conversation: Conversation, ack: Emission, amount: int) -> Frame:
    return ack.frame.copy(fields={_AMOUNT: amount}, opaque=edits.fresh_opaque(script, conversation))


def _before(conversation: Conversation, row: Balance) -> Emission:
    """Return the last counted message before an ack."""
    sent = [each for each in conversation.emissions[: conversation.place(row.emission)] if each.frame.flow_bytes]
    return sent[-1]


def _alive(script: Script, conversation: Conversation) -> Emission:
    """Return what comes after the last counted message and the last ack; if nothing does, the consumer asks."""
    counted = [at for at, each in enumerate(conversation) if each.frame.flow_bytes or window_sums.is_ack(each)]
    for each in conversation.emissions[counted[-1] + 1 :]:
        if not each.frame.response:
            return each
    asked = next(each for each in conversation if each.frame.name == "stream_request" and not each.frame.response)
    granted = next(
        each
        for each in conversation
        if each.frame.name == "stream_request" and each.frame.response and not each.frame.status
    )
    opaque, dialect = edits.fresh_opaque(script, conversation), asked.frame.dialect
    request = Frame(dialect, "get_failover_log", opaque=opaque, vbucket=asked.frame.vbucket)
    answer = Frame(dialect, "get_failover_log", response=True, opaque=opaque, value=granted.frame.value)
    sent = edits.put(conversation, len(conversation.emissions), asked.side, request)
    edits.put(conversation, len(conversation.emissions), granted.side, answer)
    return sent


FAULTS: tuple[Fault, ...] = (
    Fault("FLC-01", "give back more than arrived", "flow-control", _too_much, "too-much"),
    Fault("FLC-01", "give the same bytes back twice", "flow-control", _twice, "twice"),
    Fault("FLC-02", "send on at a full window", "flow-control", _overrun),
    Fault("FLC-03", "leave the producer at a full window for long", "flow-control", _stall, implies=("FLC-09",)),
    Fault("FLC-04", "never give back a part of the window", "flow-control", _leak),
    # The bytes that are left are taken for those of later messages, which are then given back late.
    Fault("FLC-05", "give two bytes less back for every prepare", "sync-writes", _drift, implies=("FLC-09",)),
    Fault("FLC-06", "give bytes back without a window", "modern", _unwanted),
    Fault("FLC-07", "give nothing back", "flow-control", _nothing),
    Fault("FLC-08", "count no-ops too", "basic", _noops_too, implies=("FLC-01",)),
    Fault("FLC-09", "give bytes back late", "basic", _late),
)
