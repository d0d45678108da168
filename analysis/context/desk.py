"""The desk: everything that is asked and answered, one message at a time.

Set-up messages, requests, answers and the ends of streams are few; they are read in their order, and what they settle
(roles, agreements, the beginnings and ends of streams) is handed on to those who look at millions of rows at once.

Across directions, order is what TCP's acknowledgements prove: an answer to nothing is only wrong once everything that
its sender had heard has been seen, without a hole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.dealings import ACK_WANTED, COLUMNS, PATIENCE_NS, PATIENT, Happenings, Reader
from analysis.context.tables import Records
from analysis.context.talks import MAX_WAITING, Talk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.instances import Instances
    from analysis.context.refs import Ref
    from analysis.context.sight import Directions, Sight
    from analysis.context.talks import Asked, Closing, Orphan

    Longs = NDArray[np.int64]


class Desk:
    """All connections' dealings."""

    def __init__(self, instances: Instances) -> None:
        self.talks: dict[int, Talk] = {}
        self.instances = instances
        self.answers = Records(
            (
                *("opcode", "status", "pairing", "early", "draft", "data", "unknown", "settling"),
                *("latency_ns", "to_stream", "opaque"),
            ),
            ("request",),
        )
        self.exchanges = Records(("opcode", "answered", "latency_ns", "unknown", "patient", "opaque"), ("answer",))
        self.begins = Records(
            ("live", "shared", "reused", "opaque", "unknown", "other_vbucket"), ("request", "previous", "sharer")
        )
        self.closings = Records(("announced", "ended", "reason", "unknown"), ("request", "ending"))
        self.additions = Records(
            (
                *("asked", "told", "told_reversed", "asked_flags", "sent_flags", "found", "unknown", "taken"),
                *("stream_opaque", "matches", "changed"),
            ),
            ("request", "stream_request"),
        )
        self.endings = Records(("reached", "ended", "waited_ns", "unknown", "end_seqno"), ("reached_by",))

    def talk(self, connection: int) -> Talk:
        """Return what is remembered of a connection."""
        found = self.talks.get(connection)
        if found is None:
            found = self.talks[connection] = Talk(connection)
        return found

    def read(self, sight: Sight, gaps: Longs, directions: Directions) -> Happenings:
        """Take a batch's set-up messages. ``gaps`` are the last gaps of each row's direction."""
        done = Happenings()
        kind = sight.kind
        wanted = (kind == kinds.DESK) | (kind == kinds.END) | (kind == kinds.STATE)
        markers = kind == kinds.MARKER
        if markers.any():
            wanted |= markers & (np.maximum(sight.numbers("snapshot_type"), 0) & ACK_WANTED > 0)
        wanted |= (kind == kinds.ACK) & sight.early
        which = np.flatnonzero(wanted)
        if len(which):
            reader = Reader(self, sight, gaps, directions, done)
            for index, row in zip(which.tolist(), sight.view.rows(which, COLUMNS), strict=True):
                reader.take(index, row)
        self._orphans(sight, gaps)
        self._lapses(sight, gaps)
        return done

    def finish(self) -> None:
        """The capture is over: what still waits will never be known."""
        for talk in self.talks.values():
            for asked in talk.order.values():
                if not asked.overdue:
                    self.overdue(talk, asked, unknown=1)
            for orphan in talk.orphans:
                self.unanswerable(talk, orphan, unknown=1)
            for closing in talk.closing.values():
                self.closing_ended(talk, closing, None, 0, unknown=1)
            for key, ref in talk.reached.items():
                self._unended(talk, key, ref, 0, unknown=1)

    # ------------------------------------------------------------------------------------------------ what is too late

    def _lapses(self, sight: Sight, gaps: Longs) -> None:
        """Report what the batch's times show to be overdue."""
        time_ns = sight.numbers("time_ns")
        for number in np.unique(sight.connection).tolist():
            talk = self.talks.get(number)
            if talk is None or not (talk.order or talk.closing or talk.reached):
                continue
            rows = np.flatnonzero(sight.connection == number)
            latest = int(time_ns[rows].max())

            def too_late(since: Ref, rows: Longs = rows, latest: int = latest, talk: Talk = talk) -> bool:
                """Tell whether too long has passed, and take note of what was lost until then."""
                limit = since.time_ns + PATIENCE_NS
                if latest <= limit:
                    return False
                until = rows[: int(np.argmax(time_ns[rows] > limit)) + 1]
                lost = int(gaps[until].max())
                if lost:
                    talk.doubt[0] = max(talk.doubt[0], lost)
                return True

            for asked in list(talk.order.values()):
                if not asked.overdue and too_late(asked.ref):
                    self.overdue(talk, asked, unknown=0)
            for key, closing in list(talk.closing.items()):
                if too_late(closing.ref):
                    self.closing_ended(talk, closing, None, 0, unknown=0)
                    del talk.closing[key]
            for key, ref in list(talk.reached.items()):
                if too_late(ref):
                    self._unended(talk, key, ref, PATIENCE_NS, unknown=0)
                    del talk.reached[key]

    def overdue(self, talk: Talk, asked: Asked, unknown: int) -> None:
        """Report a request that nobody answered in time."""
        asked.overdue = True
        doubtful = int(talk.opened == 0 or self.doubtful(talk, asked.ref.ordinal))
        self.exchanges.add(
            talk.number,
            asked.vbucket,
            asked.stream_id,
            asked.ref,
            {},
            opcode=asked.opcode,
            answered=0,
            latency_ns=PATIENCE_NS,
            unknown=unknown or doubtful,
            patient=int(asked.opcode in PATIENT),
            opaque=asked.opaque,
        )

    def doubtful(self, talk: Talk, since: int) -> bool:
        """Tell whether either direction lost something since a row."""
        return max(talk.doubt) >= since

    def closing_ended(self, talk: Talk, closing: Closing, ending: Ref | None, reason: int, unknown: int) -> None:
        """Report how the closing of a stream went on."""
        self.closings.add(
            talk.number,
            closing.vbucket,
            closing.stream_id,
            ending or closing.ref,
            {"request": closing.request, "ending": ending},
            announced=int(closing.announced),
            ended=int(ending is not None),
            reason=reason,
            unknown=unknown or int(self.doubtful(talk, closing.request.ordinal)),
        )

    def reach(self, connection: int, key: int, ref: Ref) -> None:
        """Take note that a stream has delivered all that was asked for."""
        talk = self.talk(connection)
        if key not in talk.over and len(talk.reached) < MAX_WAITING:
            talk.reached.setdefault(key, ref)

    def _unended(self, talk: Talk, key: int, ref: Ref, waited_ns: int, unknown: int) -> None:
        instance = talk.live.get(key, -1)
        end = int(self.instances["end"][instance]) if instance >= 0 else 0
        self.endings.add(
            talk.number,
            key >> 17 & 0xFFFF,
            key >> 1 & 0xFFFF,
            ref,
            {"reached_by": ref},
            reached=1,
            ended=0,
            waited_ns=waited_ns,
            unknown=unknown or int(self.doubtful(talk, ref.ordinal)),
            end_seqno=end,
        )

    def ended_in_time(self, talk: Talk, key: int, ref: Ref) -> None:
        """A stream that had reached its end was ended."""
        reached = talk.reached.pop(key, None)
        if reached is not None:
            self.endings.add(
                talk.number,
                key >> 17 & 0xFFFF,
                key >> 1 & 0xFFFF,
                ref,
                {"reached_by": reached},
                reached=1,
                ended=1,
                waited_ns=ref.time_ns - reached.time_ns,
            )

    # -------------------------------------------------- answers that found no request

    def _orphans(self, sight: Sight, gaps: Longs) -> None:
        """Decide on answers to nothing, now that more of what their sender had heard is there."""
        end_offset: Longs | None = None
        for number in np.unique(sight.connection).tolist():
            talk = self.talks.get(number)
            if talk is None or not talk.orphans:
                continue
            end_offset = sight.numbers("end_offset") if end_offset is None else end_offset
            left = []
            for orphan in talk.orphans:
                heard = np.flatnonzero(
                    (sight.stream_of_bytes == number * 2 + 1 - orphan.side) & (end_offset >= orphan.acked)
                )
                if len(heard):
                    lost = int(gaps[heard[0]]) > 0 or talk.doubt[1 - orphan.side] > 0
                    self.unanswerable(talk, orphan, unknown=int(lost or not talk.opened))
                else:
                    left.append(orphan)
            talk.orphans = left

    def unanswerable(self, talk: Talk, orphan: Orphan, unknown: int) -> None:
        """Report an answer to nothing."""
        self.answers.add(
            talk.number,
            -1,
            0,
            orphan.ref,
            {"request": orphan.first},
            opcode=orphan.opcode,
            status=orphan.status,
            pairing=2 if orphan.repeated else 0,
            unknown=unknown,
            opaque=orphan.opaque,
        )
