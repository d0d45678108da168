"""Confirmations: of markers that asked for it, and of prepares by replicas. Both need to know what had arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.dealings import KEY_BITS
from analysis.context.refs import REF, Ref
from analysis.context.tables import Records, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from analysis.context.dealings import Happenings
    from analysis.context.desk import Desk
    from analysis.context.instances import Instances
    from analysis.context.sight import Sight

    Longs = NDArray[np.int64]

_DISK = 0x02


class Replicas:
    """What consumers confirm."""

    def __init__(self, instances: Instances, desk: Desk) -> None:
        self._instances = instances
        self._desk = desk
        self.confirmations = Records(("marker_end", "reached", "heard", "unknown", "opaque"), ("marker", "reached_by"))

    def fold(self, sight: Sight, done: Happenings, gaps: Longs, stream: Table) -> Iterator[tuple[str, Table]]:
        """Take a batch; behind the pass over its streams, and before it is carried over."""
        self._prepared(stream)
        acks = np.flatnonzero(sight.kind == kinds.SEQNO_ACK)
        if len(acks):
            yield "seqno_acks", self._acknowledge(sight, acks, gaps)
        del done

    def confirm(self, sight: Sight, done: Happenings, gaps: Longs) -> Iterator[tuple[str, Table]]:
        """Take a batch's confirmations of markers; behind what was carried over."""
        self._confirm(sight, done, gaps)
        table = self.confirmations.table()
        if table.size:
            yield "confirmations", table

    def finish(self) -> Iterator[tuple[str, Table]]:
        """Nothing is left open here: who never confirms is reported where answers are."""
        yield from ()

    def _confirm(self, sight: Sight, done: Happenings, gaps: Longs) -> None:
        """A marker is confirmed once its last item has arrived, and not before."""
        acked = sight.numbers("acked_offset") if done.confirmations else None
        for row, asked, talk in done.confirmations:
            if acked is None or asked.instance < 0:
                continue
            reached = self._instances.refs["reached"][asked.instance]
            offset = int(self._instances["reached_offset"][asked.instance])
            current = int(self._instances.refs["marker"]["ordinal"][asked.instance])
            # The marker's end was reached behind the marker itself, or a later marker shows that it was.
            arrived = reached["ordinal"] > asked.ref.ordinal or current > asked.ref.ordinal
            unknown = not talk.opened or max(talk.doubt) > 0 or int(gaps[row]) > 0
            self.confirmations.add(
                talk.number,
                asked.vbucket,
                asked.stream_id,
                sight.ref(row),
                {"marker": asked.ref, "reached_by": Ref.of(reached) if reached["ordinal"] else None},
                marker_end=asked.marker_end,
                reached=int(arrived),
                heard=int(current > asked.ref.ordinal or acked[row] >= offset),
                unknown=int(unknown),
                opaque=asked.opaque,
            )

    def _prepared(self, stream: Table) -> None:
        """Remember the highest seqno that each stream's replica may acknowledge."""
        prepare = (stream["kind"] == kinds.DATA) & (stream["opcode"] == kinds.PREPARE)
        disk = (stream["marker_type"] >= 0) & (stream["marker_type"] & _DISK > 0)
        whole = stream["completes"] & disk
        if (prepare | whole).any():
            reach = np.where(whole, stream["marker_end"], np.where(prepare, stream["by_seqno"], -1))
            np.maximum.at(self._instances["prepared_seqno"], stream["entry"], reach)

    def _acknowledge(self, sight: Sight, rows: Longs, gaps: Longs) -> Table:
        """Return the table of a batch's seqno acks."""
        seqno, vbucket = sight.numbers("prepared_seqno")[rows], sight.numbers("vbucket")[rows]
        stream_id = np.maximum(sight.numbers("stream_id")[rows], 0)
        key = sight.connection[rows] << KEY_BITS | vbucket << 17 | stream_id << 1 | 1 - sight.side[rows]
        size = len(rows)
        names = ("previous", "allowed", "unknown", "window_end")
        columns: dict[str, NDArray[Any]] = {name: np.full(size, -1, np.int64) for name in names}
        columns["seqno"] = seqno
        refs = {"before": np.zeros(size, REF)}
        for at, (each, row) in enumerate(zip(key.tolist(), rows.tolist(), strict=True)):
            talk = self._desk.talk(each >> KEY_BITS)
            instance = talk.live.get(each, -1)
            columns["unknown"][at] = int(instance < 0 or not talk.opened or max(talk.doubt) > 0 or int(gaps[row]) > 0)
            if instance >= 0:
                columns["previous"][at] = self._instances["acked_seqno"][instance]
                columns["allowed"][at] = self._instances["prepared_seqno"][instance]
                columns["window_end"][at] = self._instances["marker_end"][instance]
                refs["before"][at] = self._instances.refs["seqno_ack"][instance]
                self._instances["acked_seqno"][instance] = int(seqno[at])
                self._instances.refs["seqno_ack"][instance] = sight.refs()[row]
        columns |= {"connection": sight.connection[rows], "vbucket": vbucket, "stream_id": stream_id}
        return Table(size, columns, {"guilty": sight.refs()[rows], **refs})
