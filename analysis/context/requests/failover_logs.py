"""Failover logs and rollbacks: what each vbucket's log said last, and what answers to stream requests should be.

Which log a producer had when it answered with a rollback is certain only between two logs that are the same, so a
rollback waits for the vbucket's next log on the connection. Answers and logs come the same way, so their order is
exact, and what was lost in between can't have changed a log and back again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from analysis.context import kinds
from analysis.context.causality import had_received
from analysis.context.codes import UnknownReason
from analysis.context.requests.failover_events import HistoryShaken, HistoryTold, StreamAsked, asked, whole
from analysis.context.requests.rollback_point import RollbackPoint, RollbackVerdict, in_order, rollback_point
from analysis.context.requests.state import MAX_WAITING
from analysis.context.schema import TABLES
from analysis.context.schema.failover_tables import TABLES as OWN_TABLES
from analysis.context.tables import Records
from dissector.frames import stream_key as keys
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from analysis.context.frame_refs import Ref
    from analysis.context.requests.rollback_point import Log
    from analysis.context.requests.state import PendingRequest
    from analysis.context.requests.stream_lifecycle import BatchChanges
    from analysis.context.streams.stream_tables import StreamTables
    from analysis.context.tables import Table
    from dissector.array_types import Longs

_MOST_ROLLBACKS = 64  #: that wait for a log of one vbucket
_ROLLBACK = enums.STATUSES.number("rollback")
_FROM_LATEST = enums.STREAM_FLAGS.bit("from_latest")
_FACTS = ("opened", "agreed", "unsure", "since")


class _Rollback(NamedTuple):
    """A rollback that waits for the log by which it was made."""

    connection: int
    ref: Ref
    request: PendingRequest
    seqno: int
    log: Log | None  #: the last one before it
    log_ref: Ref | None
    least_high: int
    about: Mapping[str, int]  #: columns that were known when it came


@dataclass(slots=True, eq=False)
class _History:
    """What a side said about one vbucket."""

    log: Log | None = None  #: the last one that was in order
    ref: Ref | None = None
    least_high: int = 0  #: the high seqno is at least this, since that log
    waiting: list[_Rollback] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Asking:
    """What was asked for one stream: a vbucket, with stream ids an id of it."""

    waiting: list[int] = field(default_factory=list)  #: rows of the requests that have no answer yet
    told: HistoryTold | None = None  #: the rollback after which nothing was asked for yet
    refused_row: int = 0  #: the request that this one answers
    rolled_back: bool = False  #: since the last grant
    start: int = -1  #: of the last request that was rolled back
    in_a_row: int = 0  #: rollbacks without a smaller start
    row: int = 0  #: the request of the last one of these
    granted_row: int = 0  #: the last answer that granted a request
    counted: bool = False  #: no rollback of this row can have been lost


class FailoverLogs:
    """Logs and rollbacks of all connections."""

    def __init__(self) -> None:
        self._records = {each.name: Records(TABLES[each.name]) for each in OWN_TABLES}
        self._histories: dict[int, OrderedDict[tuple[int, int], _History]] = {}  #: by connection: side and vbucket
        self._askings: dict[int, OrderedDict[int, _Asking]] = {}  #: by connection: key of the stream

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Give out what has come."""
        for name, records in self._records.items():
            table = records.table()
            if table.size:
                yield name, table

    def report(self, changes: BatchChanges, rows: StreamTables, facts: Mapping[str, Longs]) -> None:
        """Take what a batch says, now that its items are known."""
        for event in changes.failover:
            about = {name: int(facts[name][event.row]) for name in _FACTS}
            about["is_upr"] = int(rows.frames.early[event.row])
            if isinstance(event, HistoryShaken):
                self._shake(event)
            elif isinstance(event, StreamAsked):
                self._ask(event, about)
            else:
                self._tell(event, about, changes, rows)

    def finish(self) -> None:
        """Report the rollbacks after which no log came."""
        for histories in self._histories.values():
            for history in histories.values():
                self._give_up(history, UnknownReason.END)

    # -------------------------------------------------------------------------------------------------- what is kept

    def _history(self, connection: int, side: int, vbucket: int) -> _History:
        histories = self._histories.setdefault(connection, OrderedDict())
        found = histories.setdefault((side, vbucket), _History())
        histories.move_to_end((side, vbucket))
        if len(histories) > MAX_WAITING:
            self._give_up(histories.popitem(last=False)[1], UnknownReason.LIMIT)
        return found

    def _asking(self, connection: int, side: int, request: PendingRequest) -> _Asking:
        """Return what was asked for a stream of the producer on this side."""
        askings = self._askings.setdefault(connection, OrderedDict())
        key = keys.stream_key(connection, max(request.vbucket, 0), request.stream_id, side)
        found = askings.setdefault(key, _Asking())
        askings.move_to_end(key)
        if len(askings) > MAX_WAITING:
            askings.popitem(last=False)
        return found

    def _forget_askings(self, connection: int) -> None:
        """Take note of a request, or an answer, of which it is not known which stream it is about."""
        self._askings.pop(connection, None)

    def _shake(self, event: HistoryShaken) -> None:
        """The vbucket may have gone back itself: what it had does not tell its high seqno any more."""
        history = self._history(event.connection, event.side, event.vbucket)
        history.log, history.ref, history.least_high = None, None, 0

    # ------------------------------------------------------------------------------------------------------ requests

    def _ask(self, event: StreamAsked, about: dict[str, int]) -> None:
        request = event.request
        unknown = UnknownReason.KNOWN
        told: HistoryTold | None = None
        if request.unreadable or request.vbucket < 0:
            self._forget_askings(event.connection)
            unknown = UnknownReason.GAP
        else:
            asking = self._asking(event.connection, 1 - request.ref.side, request)
            told = asking.told
            if told is not None and not had_received(event.acked, told.end_offset):
                told = None  # it crossed the rollback on its way
            if told is not None:
                asking.told = None
                if event.peer_lost or event.lost_row > asking.refused_row or asking.waiting:
                    unknown = UnknownReason.GAP
            asking.waiting = [*asking.waiting, request.ref.ordinal][-_MOST_ROLLBACKS:]
        self._records["stream_requests"].add(
            event.connection,
            request.vbucket,
            request.stream_id,
            request.ref,
            {"rollback": told and told.ref},
            **_numbers(request),
            **about,
            whole=int(whole(request, is_upr=bool(about["is_upr"]))),
            told_back=int(told is not None),
            told_seqno=-1 if told is None else told.rollback_seqno,
            unknown=unknown,
        )

    # ------------------------------------------------------------------------------------------------------- answers

    def _tell(self, event: HistoryTold, about: dict[str, int], changes: BatchChanges, rows: StreamTables) -> None:
        request = event.request
        if event.status == enums.SUCCESS:
            self._report_log(event, request, about)
        if request is None or request.vbucket < 0:
            if event.opcode == kinds.STREAM_REQUEST:
                self._forget_askings(event.connection)
            return
        history = self._history(event.connection, event.ref.side, request.vbucket)
        if event.opcode == kinds.STREAM_REQUEST:
            key = keys.stream_key(event.connection, request.vbucket, request.stream_id, event.ref.side)
            delivered, sure = rows.delivered_before(key, event.row)
            history.least_high = max(history.least_high, delivered)
            asking = self._asking(event.connection, event.ref.side, request)
            self._count(asking, event, request, begun=about["opened"] > 0)
            self._report_answer(event, request, history, asking, about)
            if event.status == _ROLLBACK:
                self._wait(event, request, history, about)
            elif event.status == enums.SUCCESS:
                goes_on = request.numbers["start"] >= delivered > 0 and not asking.rolled_back
                if goes_on and not request.numbers["flags"] & _FROM_LATEST and event.row in changes.begins:
                    entry = changes.begins[event.row][1]
                    rows.instances["resumed_after"][entry] = delivered
                    rows.instances["resumed_surely"][entry] = int(sure)
                asking.rolled_back = False
        if event.log is not None:
            self._take_log(history, event)

    @staticmethod
    def _count(asking: _Asking, event: HistoryTold, request: PendingRequest, *, begun: bool) -> None:
        """Count rollbacks in a row, and take note of what the client has to do next."""
        # Requests are answered in turn: what was asked before was answered before.
        asking.waiting = [row for row in asking.waiting if row > request.ref.ordinal]
        if event.status == _ROLLBACK:
            start = request.numbers["start"]
            known = begun or asking.granted_row > 0
            if asking.in_a_row == 0:
                asking.in_a_row, asking.counted = 1, known and event.lost_row <= asking.granted_row
            elif event.lost_row > asking.row:
                asking.in_a_row, asking.counted = 1, False
            elif 0 <= asking.start <= start:
                asking.in_a_row += 1
            else:
                asking.in_a_row, asking.counted = 1, True
            asking.start, asking.row = start, request.ref.ordinal
            asking.rolled_back = True
            asking.told = event if event.rollback_seqno >= 0 else None
            asking.refused_row = request.ref.ordinal
        elif event.status == enums.SUCCESS:
            asking.told, asking.start, asking.in_a_row, asking.granted_row = None, -1, 0, event.ref.ordinal

    def _wait(self, event: HistoryTold, request: PendingRequest, history: _History, about: dict[str, int]) -> None:
        """Let a rollback wait for the next log."""
        seqno, high = event.rollback_seqno, history.least_high
        rollback = _Rollback(event.connection, event.ref, request, seqno, history.log, history.ref, high, about)
        if seqno < 0 or history.log is None:
            self._report_rollback(rollback)
            return
        if len(history.waiting) >= _MOST_ROLLBACKS:
            self._give_up(history, UnknownReason.LIMIT)
        history.waiting.append(rollback)

    def _take_log(self, history: _History, event: HistoryTold) -> None:
        """Decide the rollbacks before a log, and keep it."""
        log = event.log or ()
        sound = in_order(log)
        waiting, history.waiting = history.waiting, []
        for each in waiting:
            if sound and each.log == log:
                self._decide(each, event)
            else:
                self._report_rollback(each)
        if not sound:
            history.log, history.ref, history.least_high = None, None, 0
            return
        if history.log != log:
            history.least_high = 0
        history.log, history.ref = log, event.ref
        history.least_high = max(history.least_high, log[0][1])

    def _decide(self, rollback: _Rollback, event: HistoryTold) -> None:
        request, wanted = rollback.request, asked(rollback.request)
        if not wanted.sound or not wanted.start or rollback.log is None or request.numbers["flags"] & _FROM_LATEST:
            self._report_rollback(rollback, log_after=event.ref)
            return
        point = rollback_point(wanted, rollback.log, rollback.least_high)
        self._report_rollback(rollback, point=point, log_after=event.ref)
        if rollback.seqno == 0 and point.verdict is not RollbackVerdict.UNKNOWN_BRANCH:
            # Of all vbuckets of a connection there is one finding.
            self._records["full_rollbacks"].add(
                event.connection,
                -1,
                0,
                rollback.ref,
                {"request": request.ref, "log_before": rollback.log_ref, "log_after": event.ref},
                rolled_back_vbucket=request.vbucket,
                start=wanted.start,
                enough=int(point.fits(0)),
                is_upr=rollback.about["is_upr"],
            )

    def _give_up(self, history: _History, unknown: UnknownReason) -> None:
        for each in history.waiting:
            self._report_rollback(each, unknown)
        history.waiting.clear()

    # ------------------------------------------------------------------------------------------------------- reports

    def _report_log(self, event: HistoryTold, request: PendingRequest | None, about: dict[str, int]) -> None:
        log = event.log or ()
        disordered = next((at for at in range(1, len(log)) if log[at][1] > log[at - 1][1]), 0)
        first: dict[int, int] = {}
        repeated = next((at for at, (uuid, _) in enumerate(log) if uuid and first.setdefault(uuid, at) != at), 0)
        zero = next((at + 1 for at, (uuid, _) in enumerate(log) if not uuid), 0)
        self._records["failover_logs"].add(
            event.connection,
            -1 if request is None else request.vbucket,
            0 if request is None else request.stream_id,
            event.ref,
            {},
            opcode=event.opcode,
            value_length=event.value_length,
            readable=int(event.log is not None),
            entries=len(log),
            disordered_entry=disordered + 1 if disordered else 0,
            entry_seqno=log[disordered][1] if disordered else 0,
            newer_seqno=log[disordered - 1][1] if disordered else 0,
            repeated_entry=repeated + 1 if repeated else 0,
            first_entry=first[log[repeated][0]] + 1 if repeated else 0,
            zero_entry=zero,
            is_upr=about["is_upr"],
        )

    def _report_answer(
        self, event: HistoryTold, request: PendingRequest, history: _History, asking: _Asking, about: dict[str, int]
    ) -> None:
        wanted, log = asked(request), event.log or ()
        known = event.status == enums.SUCCESS and in_order(log)
        point = rollback_point(wanted, log, 0) if known and wanted.sound and wanted.start else None
        in_log = known and any(uuid == wanted.uuid for uuid, _ in log)
        due = point is not None and point.verdict is RollbackVerdict.OLD_BRANCH
        self._records["stream_answers"].add(
            event.connection,
            request.vbucket,
            request.stream_id,
            event.ref,
            {"request": request.ref},
            **_numbers(request),
            **about,
            whole=int(whole(request, is_upr=bool(about["is_upr"]))),
            status=event.status,
            rollback_seqno=event.rollback_seqno,
            least_high=history.least_high,
            log_known=int(known),
            in_log=int(in_log),
            branch_end=-1 if point is None else point.branch_end,
            rollback_due=point.due if due and point is not None else -1,
            in_a_row=asking.in_a_row if event.status == _ROLLBACK else 0,
            counted=int(asking.counted),
            unknown=event.unknown,
        )

    def _report_rollback(
        self,
        rollback: _Rollback,
        unknown: UnknownReason = UnknownReason.KNOWN,
        *,
        point: RollbackPoint | None = None,
        log_after: Ref | None = None,
    ) -> None:
        """Report a rollback; ``point`` is where it should go, if the log by which it was made is known."""
        request, point = rollback.request, point or RollbackPoint(RollbackVerdict.OPEN)
        self._records["rollbacks"].add(
            rollback.connection,
            request.vbucket,
            request.stream_id,
            rollback.ref,
            {"request": request.ref, "log_before": rollback.log_ref, "log_after": log_after},
            **_numbers(request),
            **rollback.about,
            rollback_seqno=rollback.seqno,
            verdict=point.verdict,
            rollback_due=point.due,
            branch_end=point.branch_end,
            least_high=rollback.least_high,
            fits=int(point.fits(rollback.seqno)),
            unknown=unknown,
        )


def _numbers(request: PendingRequest) -> dict[str, int]:
    """Return what a request asks for as columns."""
    names = ("start", "end", "ask_snap_start", "ask_snap_end", "flags")
    found = {name: request.numbers[name] for name in names}
    return {**found, "vbucket_uuid": request.numbers["uuid"]}
