"""What became of streams, and how many of their seqnos came as items. Knows rows of streams."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from analysis.stats.statistics import OpenStream, StreamStatistics
from dissector.spec import enums
from dissector.summary.rows import OPEN
from dissector.summary.stream_summary import status_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Row = dict[str, Any]

_NAMED = 20  #: streams without an end that are named
_UNANSWERED, _REFUSED = "unanswered", "refused"
#: The draft answers without a status: by the name of the answer.
_ROLLBACKS = (status_name(enums.ROLLBACK), "stream_rollback")


def stream_statistics(rows: Iterable[Row], numbers: Mapping[str, int]) -> StreamStatistics:
    """Sum streams up; ``numbers`` are those of connections in listings, by id."""
    ended: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    open_streams: list[OpenStream] = []
    farthest = 0
    for row in rows:
        sums["requests" if row["request_captured"] else "not_captured"] += 1
        sums["snapshots"] += row["snapshots"]
        sums["items"] += row["items"]
        if row["status"] in _ROLLBACKS:
            sums["rollbacks"] += 1
            farthest = max(farthest, _distance(row))
        elif row["ended"] == _REFUSED:
            refused[row["status"]] += 1
        elif row["ended"] == _UNANSWERED:
            sums["unanswered"] += 1
        else:
            sums["granted"] += 1
            covered = _covered(row)
            if covered is not None:
                sums["covered"] += covered
                sums["counted"] += row["items"]
            if row["ended"] != OPEN:
                ended[row["ended"]] += 1
                continue
            sums["open"] += 1
            if len(open_streams) < _NAMED:
                open_streams.append(OpenStream(numbers[row["connection"]], row["vbucket"], row["last_seqno"]))
    return StreamStatistics(
        requests=sums["requests"],
        granted=sums["granted"],
        refused=dict(refused.most_common()),
        rollbacks=sums["rollbacks"],
        farthest_rollback=farthest,
        unanswered=sums["unanswered"],
        not_captured=sums["not_captured"],
        ended=dict(ended.most_common()),
        open=sums["open"],
        some_open=tuple(open_streams),
        snapshots=sums["snapshots"],
        items=sums["items"],
        counted_items=sums["counted"],
        covered_seqnos=sums["covered"],
    )


def _distance(row: Row) -> int:
    """Return how many seqnos a rollback goes back."""
    asked, wanted = row.get("start_seqno"), row["rollback_seqno"]
    return 0 if asked is None or wanted is None else max(asked - wanted, 0)


def _covered(row: Row) -> int | None:
    """Return from how many seqnos the items of a stream are; None: that can't be told.

    They go from the one that the request had to that of the last item. Where items come out of order, there may be
    fewer of these than items.
    """
    first, last, start = row["first_seqno"], row["last_seqno"], row.get("start_seqno")
    if first is None or last is None:
        return None
    covered: int = last - (start if start is not None and start < first else first - 1)
    return covered if covered >= row["items"] else None
