"""No-ops: how often they come, whether and when they are answered, and by what number they go.

A producer sends one when the interval has passed since the last, and not while one waits for its answer: so the time to
the next one counts from that answer. 3.x begins when the connection has a stream, later releases at once; here it
counts from the first stream, which allows for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.context import kinds
from analysis.context.causality import had_received
from analysis.context.codes import UnknownReason
from analysis.context.requests.state import bit
from analysis.context.schema import TABLES
from analysis.context.tables import Records
from dissector.spec.registry import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.context.clock import CaptureClock
    from analysis.context.frame_refs import Ref
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.state import ConnectionState, PendingRequest
    from analysis.context.tables import Table

MS_NS, SECOND_NS = 10**6, 10**9
INTERVAL = "set_noop_interval"
_LONGEST_NS = 1 << 60
FIRST_NUMBERS = (1_000_001, 10_000_001)  #: of a server's first no-op: of 3.0.0, and of later ones
_NUMBERS = 1 << 32
_ON, _SERVED = bit("enable_noop"), bit("open_producer")


def interval_of(text: str) -> int:
    """Return an interval that was agreed upon, in nanoseconds; -1: that is no number of seconds."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        return -1
    return min(int(whole or "0") * SECOND_NS + int(fraction[:9].ljust(9, "0") or "0"), _LONGEST_NS)


class NoopTables:
    """The tables about no-ops, row by row."""

    def __init__(self, directions: DirectionProgress, clock: CaptureClock) -> None:
        self._directions, self._clock = directions, clock
        self._noops, self._gaps, self._answers = (Records(TABLES[name]) for name in _NAMES)

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Give out what has come."""
        for name, records in zip(_NAMES, (self._noops, self._gaps, self._answers), strict=True):
            table = records.table()
            if table.size:
                yield name, table

    # -------------------------------------------------------------------------------------------------- agreements

    @staticmethod
    def agree(state: ConnectionState, name: str, text: str, ref: Ref) -> None:
        """Take a control that was accepted."""
        own = state.noops
        if name == INTERVAL:
            interval = interval_of(text)
            own.unsure = interval < 0
            own.interval_ns = max(interval, 0)
        if name in (INTERVAL, "enable_noop") and own.due is not None:
            own.due = ref
        if name == "enable_noop" and text == "false":
            own.due = None

    @staticmethod
    def begin_stream(state: ConnectionState, ref: Ref, *, lone: bool) -> None:
        """Take a stream that was granted; ``lone``: the connection had no other."""
        own = state.noops
        if not state.agreed & _ON:
            return
        own.first_due = own.first_due or ref.ordinal
        if lone and (own.last is None or own.due is not None):
            own.due = ref

    # ----------------------------------------------------------------------------------------------------- no-ops

    def ask(self, state: ConnectionState, request: PendingRequest, acked: int) -> None:
        """Take a no-op, whose sender had received so much."""
        own, side = state.noops, request.ref.side
        number = int.from_bytes(request.opaque.to_bytes(4, "big"), "little")
        before = own.last
        previous = -1 if before is None else int.from_bytes(before.opaque.to_bytes(4, "big"), "little")
        served = bool(state.agreed & _SERVED) and side == state.producer
        left_out = min((number - each) % _NUMBERS for each in (FIRST_NUMBERS if before is None else (previous + 1,)))
        lost = state.hidden[side].total - own.lost_bytes
        reason = UnknownReason.KNOWN
        if before is None and not state.opened:
            reason = UnknownReason.START
        elif 0 < left_out <= lost // HEADER_SIZE:  # so many no-ops may have been lost
            reason = UnknownReason.GAP
        waits, waits_unknown = self._waits(state, side, acked)
        self._noops.add(
            state.number,
            -1,
            0,
            request.ref,
            {"previous": None if before is None else before.ref},
            opaque=request.opaque,
            number=number,
            previous_number=previous,
            left_out=left_out,
            served=int(served),
            unknown=reason,
            waiting=int(waits),
            waiting_unknown=waits_unknown,
        )
        # Servers count: with the next number, none was lost in between.
        self._report_gap(state, side, request.ref, sure=served and number == previous + 1 > 0)
        own.last, own.due, own.lost_bytes = request, None, state.hidden[side].total

    @staticmethod
    def _waits(state: ConnectionState, side: int, acked: int) -> tuple[bool, UnknownReason]:
        """Tell whether the last no-op had no answer when its sender had received so much, and why it may have had."""
        last = state.noops.last
        if last is None or last.ref.side != side or last.misanswered:
            return False, UnknownReason.KNOWN
        if last.answered and had_received(acked, last.answer_end):
            return False, UnknownReason.KNOWN
        if acked < 0:
            return True, UnknownReason.ONE_SIDED
        if last.maybe_answered or state.hidden[1 - side].may_hold_answer(last.end_offset):
            return True, UnknownReason.GAP
        return True, UnknownReason.LIMIT if state.overflowed else UnknownReason.KNOWN

    def answer(self, state: ConnectionState, request: PendingRequest, ref: Ref) -> None:
        """Take the answer to a no-op."""
        own = state.noops
        if request is own.last:
            own.due = ref
        passed = self._clock.passed(request.ref, ref)
        unknown = UnknownReason.KNOWN
        if request.maybe_answered or request.unreadable:
            unknown = UnknownReason.GAP
        elif (ref.capture, ref.packet_last) < (request.ref.capture, request.ref.packet_first):
            unknown = UnknownReason.CLOCK  # the directions were stamped by clocks of their own
        self._report_answer(state, ref, request, passed, unknown, answered=1)

    def answer_wrongly(self, state: ConnectionState, opaque: int, ref: Ref, acked: int, unknown: UnknownReason) -> None:
        """Take an answer that has no request, by a side that had received so much."""
        last = state.noops.last
        if last is None or last.answered or last.ref.side == ref.side or last.misanswered:
            return
        if not had_received(acked, last.end_offset):
            return
        if not unknown and last.maybe_answered:
            unknown = UnknownReason.GAP
        last.misanswered = True
        self._report_answer(state, ref, last, 0, unknown, wrong=1, opaque=opaque)

    def _report_answer(
        self,
        state: ConnectionState,
        guilty: Ref,
        request: PendingRequest,
        passed: int,
        unknown: UnknownReason,
        **more: int,
    ) -> None:
        own = state.noops
        self._answers.add(
            state.number,
            -1,
            0,
            guilty,
            {"request": request.ref},
            **{"opaque": request.opaque, **more},
            asked_opaque=request.opaque,
            latency_ns=passed,
            latency_ms=passed // MS_NS,
            interval_ns=own.interval_ns,
            interval_ms=own.interval_ns // MS_NS,
            agreed=state.agreed,
            unsure=state.unsure | (_ON if own.unsure else 0),
            unknown=unknown,
        )

    # -------------------------------------------------------------------------------------------- what never came

    def _report_gap(
        self, state: ConnectionState, side: int, ref: Ref | None, until_ns: int = 0, *, sure: bool = False
    ) -> None:
        """Report how long the next no-op took: it came at last, or has not come until a time.

        ``sure``: none can have been lost.
        """
        own, due = state.noops, state.noops.due
        if due is None or not state.agreed & _ON:
            return
        passed = self._clock.elapsed(due.time_ns, until_ns) if ref is None else self._clock.passed(due, ref)
        lost = state.hidden[side].row > due.ordinal and not sure
        last = own.last
        self._gaps.add(
            state.number,
            -1,
            0,
            ref or due,
            {"previous": None if last is None else last.ref, "due": due},
            came=int(ref is not None),
            waited_ns=passed,
            waited_s=passed // SECOND_NS,
            interval_ns=own.interval_ns,
            interval_ms=own.interval_ns // MS_NS,
            unsure=state.unsure | (_ON if own.unsure else 0),
            unknown=UnknownReason.GAP if lost else UnknownReason.KNOWN,
        )

    def report_overdue(self, state: ConnectionState, side: int, time_ns: int) -> None:
        """Report a no-op that is due, before something is lost of a side; its last frame came at that time."""
        own = state.noops
        if side == state.producer and own.due is not None and time_ns - own.due.time_ns > 2 * own.interval_ns:
            self._report_gap(state, side, None, time_ns)
            own.due = None

    def finish(self, state: ConnectionState, *, live: bool) -> None:
        """Report, at the end of the frames, what never came on a connection; ``live``: it has a stream."""
        side = state.producer
        if side < 0 and state.noops.last is not None:
            side = state.noops.last.ref.side  # only producers send no-ops
        if side < 0:
            return
        direction = state.number * 2 + side
        until = self._directions.time_ns(direction)
        if until and live:
            self._report_gap(state, side, None, until)
        acked, heard = self._directions.acked(direction), self._directions.heard(direction ^ 1)
        for request in state.pending:
            if request.opcode != kinds.NOOP or request.ref.side != side or request.misanswered:
                continue
            passed = self._clock.elapsed(request.ref.time_ns, until)
            unknown = UnknownReason.KNOWN
            if request.maybe_answered or state.hidden[1 - side].may_hold_answer(request.end_offset):
                unknown = UnknownReason.GAP
            elif acked < 0 or acked > heard:
                unknown = UnknownReason.ONE_SIDED
            self._report_answer(state, request.ref, request, passed, unknown, passed_over=int(request.overtaken))


_NAMES = ("noops", "noop_gaps", "noop_answers")
