"""What waited for what: answers, acks, full windows, no-ops. Sums over tables of the context.

The context pairs requests with answers and counts flow control; here its rows are only added up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from analysis.stats.durations import DurationsByKey, rows_by
from analysis.stats.statistics import NoopStatistics, RequestStatistics, Stalls
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from analysis.context import Table
    from analysis.stats.durations import Distribution

#: Connections whose acks have a distribution of their own; more than these only count in that of all.
MOST_CONNECTIONS = 1024
_OPCODES = 256


class Waits:
    """Sums over the context's tables. Connections are given by their places in the order of appearance."""

    def __init__(self) -> None:
        self._answers = DurationsByKey(_OPCODES)
        self._acks = DurationsByKey(MOST_CONNECTIONS)
        self._unanswered = np.zeros(_OPCODES, np.int64)
        self._unsure = np.zeros(_OPCODES, np.int64)
        self._stalls: dict[int, Stalls] = {}
        self.unended: dict[int, Stalls] = {}  #: of each connection, the stall that nothing ended
        self._liveness: dict[int, NoopStatistics] = {}

    def take(self, tables: Iterable[tuple[str, Table]]) -> None:
        """Add what a batch of frames gave, or the end of them."""
        for name, table in tables:
            if name == "requests":
                self._take_requests(table)
            elif name == "acks":
                known = np.flatnonzero(table["latency_ns"] > 0)
                self._acks.add(table["connection"][known], table["latency_ns"][known])
            elif name == "stalls":
                self._take_stalls(table)
            elif name in ("noops", "noop_gaps", "noop_answers"):
                self._take_noops(name, table)

    @property
    def connections_with_acks(self) -> int:
        """Return how many connections have a distribution of their own."""
        return len(self._acks.by_key)

    def requests(self) -> tuple[RequestStatistics, ...]:
        """Return all kinds of requests, those with the most first."""
        found = []
        for opcode in sorted({*self._answers.by_key, *np.flatnonzero(self._unanswered).tolist()}):
            message = registry.message(Dialect.DCP, opcode)
            name = message.name if message is not None else f"0x{opcode:02x}"
            unanswered, unsure = int(self._unanswered[opcode]), int(self._unsure[opcode])
            found.append(RequestStatistics(name, opcode, self._answers.of(opcode), unanswered, unsure))
        return tuple(sorted(found, key=lambda kind: -(kind.unanswered + (kind.answers.count if kind.answers else 0))))

    def acks(self, connection: int | None = None) -> Distribution | None:
        """Return how long messages waited for their acks: on a connection, or everywhere."""
        return self._acks.all.distribution() if connection is None else self._acks.of(connection)

    def stalls(self, connection: int | None = None) -> Stalls:
        """Return the stalls of a connection, or of all."""
        if connection is not None:
            return self._stalls.get(connection, Stalls())
        total = Stalls()
        for each in self._stalls.values():
            total = total.plus(each)
        return total

    def prolong(self, connection: int, more_ns: int) -> None:
        """Let a connection's last stall go on: the context ends it with the last frame."""
        last, every = self.unended[connection], self._stalls[connection]
        waited, longest_ns, window = last.longest_ns + more_ns, every.longest_ns, every.window_bytes
        if waited > longest_ns:
            longest_ns, window = waited, last.window_bytes
        self._stalls[connection] = replace(
            every, total_ns=every.total_ns + more_ns, longest_ns=longest_ns, window_bytes=window
        )

    def liveness(self, connection: int, longest_silence_ns: int) -> NoopStatistics:
        """Return the no-ops of a connection."""
        found = self._liveness.get(connection, NoopStatistics())
        return NoopStatistics(
            found.noops, found.noops_unanswered, found.interval_ns, found.longest_wait_ns, longest_silence_ns
        )

    def _take_requests(self, table: Table) -> None:
        answered, opcode = table["answered"] > 0, table["opcode"]
        self._answers.add(opcode[answered], table["latency_ns"][answered])
        if not answered.all():
            missing = opcode[~answered]
            self._unanswered += np.bincount(missing, minlength=_OPCODES)
            self._unsure += np.bincount(missing[table["unknown"][~answered] > 0], minlength=_OPCODES)

    def _take_stalls(self, table: Table) -> None:
        connection, waited, unsure = table["connection"], table["waited_ns"], table["unknown"] > 0
        window = table["window"]
        # Of others the guilty frame is the ack that ended them.
        unended = table.refs("guilty")["ordinal"] == table.refs("last")["ordinal"]
        for number, rows in rows_by(connection):
            longest = rows[np.argmax(waited[rows])]
            found = Stalls(
                count=len(rows),
                unsure=int(np.count_nonzero(unsure[rows])),
                unended=int(np.count_nonzero(unended[rows])),
                total_ns=int(waited[rows].sum()),
                longest_ns=int(waited[longest]),
                window_bytes=int(window[longest]),
            )
            self._stalls[number] = self.stalls(number).plus(found)
        for row in np.flatnonzero(unended).tolist():
            self.unended[int(connection[row])] = Stalls(1, longest_ns=int(waited[row]), window_bytes=int(window[row]))

    def _take_noops(self, name: str, table: Table) -> None:
        connection = table["connection"]
        for number, rows in rows_by(connection):
            old = self._liveness.get(number, NoopStatistics())
            noops, unanswered, interval, longest = (
                *(old.noops, old.noops_unanswered),
                *(old.interval_ns, old.longest_wait_ns),
            )
            if name == "noops":
                noops += len(rows)
            elif name == "noop_gaps":
                interval = int(table["interval_ns"][rows[-1]])
                longest = max(longest, int(table["waited_ns"][rows].max()))
            else:
                unanswered += int(np.count_nonzero(table["answered"][rows] == 0))
            self._liveness[number] = NoopStatistics(noops, unanswered, interval, longest)
