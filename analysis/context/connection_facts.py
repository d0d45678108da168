"""What is known of a connection at each of its frames: role, era, agreements, flow-control window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.lookback import as_of
from analysis.context.requests.state import ALL_AGREEMENTS
from dissector.codec.dialect_evidence import NO_VERSION, SINCE, release_number
from dissector.spec import enums, fingerprints
from dissector.spec.model import Release

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs


#: By fact, what it is before anything is known.
FACTS = {"opened": 0, "producer": -1, "agreed": 0, "unsure": ALL_AGREEMENTS, "refused": 0, "window": -1, "since": 0}
_DELETE_TIMES = enums.OPEN_FLAGS.bit("include_delete_times")
_FLEXIBLE = [magic.value for magic in enums.MAGICS if magic.flexible]


def release(major: int, minor: int = 0) -> int:
    """Return a release as a number that compares: 6.5 is 605."""
    return release_number(Release(major, minor))


class ConnectionFacts:
    """Facts of all connections, carried from batch to batch."""

    def __init__(self) -> None:
        self._known = {name: np.full(0, empty, np.int64) for name, empty in FACTS.items()}

    def fold(self, frames: ContextBatch, changes: dict[str, dict[int, int]]) -> dict[str, Longs]:
        """Return each fact at each row, with all that happened up to it, itself included."""
        room = int(frames.connection.max()) + 1 if frames.size else 0
        for name, column in self._known.items():
            if room > len(column):
                more = np.full(max(room, 2 * len(column)) - len(column), FACTS[name], np.int64)
                self._known[name] = np.r_[column, more]
        self._eras(frames, changes)
        return {name: as_of(self._known[name], frames.connection, changes.get(name, {})) for name in FACTS}

    def _eras(self, frames: ContextBatch, changes: dict[str, dict[int, int]]) -> None:
        """Add what the forms of requests tell of the producer's release."""
        version = np.minimum(frames.numbers("marker_version"), NO_VERSION)
        since = SINCE[frames.opcode, frames.numbers("extras_length") & 0xFF, np.where(version < 0, NO_VERSION, version)]
        since[np.isin(frames.numbers("magic"), _FLEXIBLE)] = release_number(fingerprints.FLEXIBLE_SINCE)
        flags = frames.numbers("open_flags")
        since[(flags > 0) & (flags & _DELETE_TIMES > 0)] = release_number(fingerprints.DELETE_TIMES_SINCE)
        since[frames.response | frames.draft | frames.early] = 0
        telling = np.flatnonzero(since > self._known["since"][frames.connection])
        if not len(telling):
            return
        newest = dict.fromkeys(frames.connection[telling].tolist(), 0)
        newest.update({number: int(self._known["since"][number]) for number in newest})
        _, first = np.unique(frames.connection[telling] << 32 | since[telling], return_index=True)
        for row in sorted(telling[first].tolist()):
            number = int(frames.connection[row])
            if since[row] > newest[number]:
                newest[number] = int(since[row])
                changes.setdefault("since", {})[row] = newest[number]
