"""References to frames that outlive their batch: enough to name a frame in a report and to find it again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: ``ordinal`` counts rows as they come to the context, from 1; 0 stands for no frame.
REF = np.dtype(
    [
        ("ordinal", "i8"),
        ("frame", "i8"),
        ("capture", "i4"),
        ("side", "i4"),
        ("packet_first", "i8"),
        ("packet_last", "i8"),
        ("time_ns", "i8"),
        ("start_offset", "i8"),
    ]
)
NO_REF = np.zeros((), REF)[()]

Refs = np.ndarray[tuple[int], np.dtype[np.void]]


class Ref(NamedTuple):
    """One reference."""

    ordinal: int
    frame: int
    capture: int
    side: int
    packet_first: int
    packet_last: int
    time_ns: int
    start_offset: int

    @classmethod
    def of(cls, record: np.void) -> Ref:
        """Make one from an array's element."""
        return cls(*record.tolist())
