"""Small numbers in tables that stand for meanings: why a row is undecided, and what an answer belongs to.

Columns hold them as integers; rules compare with the members, and pages print the members' names.
"""

from __future__ import annotations

from enum import IntEnum


class UnknownReason(IntEnum):
    """Why a row can't be decided: column ``unknown``."""

    KNOWN = 0  #: it can
    GAP = 1  #: something was lost
    START = 2  #: the connection's beginning was not captured
    END = 3  #: the capture ends too early
    ONE_SIDED = 4  #: what the other side had received is not known
    LIMIT = 5  #: too much to remember
    CLOCK = 6  #: the clock of the capture was set meanwhile


class Pairing(IntEnum):
    """What an answer belongs to: column ``pairing``."""

    NONE = 0  #: no request of the other side
    ANSWERED = 1  #: a request that it answers
    REPEATED = 2  #: a request that was answered before
    TO_DATA = 3  #: a message of a stream: several have its opaque, and none waits for it
