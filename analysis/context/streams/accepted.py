"""Items that a consumer accepts: inside the snapshot that was announced, and after the last one that it accepted.

What a consumer refuses did not happen for the messages after it: one wrong seqno is one finding, at its cause. Which
message a refusal means is not on the wire, so this follows what consumers do instead of what they answer: they refuse a
seqno outside of the marker's range, one that is not above the last, and one that is absurd. Where something was lost in
between, and inside of out-of-order snapshots, every item counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.lookback import RowsOfKind

if TYPE_CHECKING:
    from analysis.context.streams.rows import StreamRows
    from analysis.context.streams.snapshots import Snapshots
    from dissector.array_types import Longs, Mask

SEQNO_LIMIT = 1 << 48


def accepted_items(rows: StreamRows, snapshots: Snapshots) -> RowsOfKind:
    """Return the items of a batch without those that a consumer refuses; mostly these are all."""
    at = rows.items.at
    if not len(at):
        return rows.items
    seqno = rows.seqno[at]
    number = rows.groups.number[at]
    odd = np.zeros(rows.groups.number[-1] + 1, bool)  # groups that have to be looked at item by item
    falls = np.flatnonzero((seqno[1:] <= seqno[:-1]) & (number[1:] == number[:-1]))
    odd[number[falls]] = True
    first = np.ones(len(at), bool)
    first[1:] = number[1:] != number[:-1]
    begins = np.flatnonzero(first)
    odd[number[begins]] |= seqno[begins] <= rows.instances["last_seqno"][rows.entry[at[begins]]]
    strange = np.flatnonzero((seqno >= SEQNO_LIMIT) | _outside(snapshots, rows, at))
    odd[number[strange]] = True
    if not odd.any():
        return rows.items
    refused = np.zeros(rows.size, bool)
    for group in np.flatnonzero(odd).tolist():
        _refuse(rows, snapshots, at[number == group], refused)
    return RowsOfKind(rows.groups, rows.data & ~refused) if refused.any() else rows.items


def _outside(snapshots: Snapshots, rows: StreamRows, at: Longs) -> Mask:
    """Tell which items are surely outside of the snapshot that was announced."""
    seqno, start, end = rows.seqno[at], snapshots.marker_start(at), snapshots.marker_end(at)
    outside: Mask = (end >= 0) & (start >= 0) & ((seqno < start) | (seqno > end)) & ~snapshots.inside_oso(at)
    if rows.lossy:
        outside &= rows.gaps[at] <= snapshots.marker_ordinal(at)
    return outside


def _refuse(rows: StreamRows, snapshots: Snapshots, at: Longs, refused: Mask) -> None:
    """Mark the items of one stream that are refused."""
    entry = int(rows.entry[at[0]])
    last = int(rows.instances["last_seqno"][entry])
    ordinal = int(rows.instances.refs["last"]["ordinal"][entry])
    outside = _outside(snapshots, rows, at)
    free = snapshots.inside_oso(at)
    bracket = snapshots.bracket_ordinal(at)
    for place, row in enumerate(at.tolist()):
        seqno = int(rows.seqno[row])
        fresh = bool(free[place]) or bracket[place] > ordinal or rows.gaps[row] > ordinal
        if seqno >= SEQNO_LIMIT or outside[place] or (seqno <= last and not fresh):
            refused[row] = True
        else:
            last, ordinal = seqno, int(rows.ordinal[row])
