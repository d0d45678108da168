"""What there is to say about a capture, as frozen values: plain numbers, with units in their names.

Must not know how the numbers come about, nor how they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.stats.durations import Distribution


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From the first message to the last one."""

    first_ns: int
    last_ns: int

    @property
    def duration_ns(self) -> int:
        """Return how long that is."""
        return self.last_ns - self.first_ns


@dataclass(frozen=True, slots=True)
class OpcodeTraffic:
    """All messages of one opcode, requests and responses apart."""

    name: str
    opcode: int
    response: bool
    dialect: str  #: whose numbering of opcodes it is: draft, upr-proto or dcp
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Busiest:
    """The second with the most messages, and the one with the most bytes; they need not be the same."""

    messages: int
    messages_at_s: int  #: seconds since the epoch
    bytes: int
    bytes_at_s: int


@dataclass(frozen=True, slots=True)
class Server:
    """One end that accepted connections."""

    address: str
    connections: int
    eras: tuple[str, ...]  #: releases that fit what was seen
    dialects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stalls:
    """Times at which a producer had to wait because its window was full."""

    count: int = 0
    unsure: int = 0  #: of these, those that may be none: something was lost
    unended: int = 0  #: of these, those that went on until the connection or the capture ended
    total_ns: int = 0
    longest_ns: int = 0
    window_bytes: int = 0  #: the window at the longest one

    def plus(self, other: Stalls) -> Stalls:
        """Return both together."""
        longest = max(self, other, key=lambda each: each.longest_ns)
        return Stalls(
            self.count + other.count,
            self.unsure + other.unsure,
            self.unended + other.unended,
            self.total_ns + other.total_ns,
            longest.longest_ns,
            longest.window_bytes,
        )


@dataclass(frozen=True, slots=True)
class NoopStatistics:
    """No-ops of a connection, and how long nothing was said."""

    noops: int = 0
    noops_unanswered: int = 0
    interval_ns: int = 0  #: that was agreed upon; 0: none is known
    longest_wait_ns: int = 0  #: for a no-op that was due
    longest_silence_ns: int = 0  #: of both sides


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """One connection."""

    number: int  #: as listings have it
    id: str
    client: str
    server: str
    name: str | None
    producer: str | None  #: client or server
    dialect: str
    era: str | None
    ended: str | None  #: null: rows of frames do not tell
    messages: int
    bytes: int
    bytes_lost: int
    bytes_skipped: int
    acks: Distribution | None
    stalls: Stalls
    liveness: NoopStatistics


@dataclass(frozen=True, slots=True)
class RequestStatistics:
    """All requests of one opcode that are owed an answer."""

    name: str
    opcode: int
    answers: Distribution | None
    unanswered: int
    unsure: int  #: of these, those whose answer may have been lost, or may come after the end of the capture


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A stream that had no end."""

    connection: int
    vbucket: int | None
    last_seqno: int | None


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """Streams, their snapshots and what became of them."""

    requests: int
    granted: int
    refused: Mapping[str, int]  #: by status, rollbacks left out
    rollbacks: int
    farthest_rollback: int  #: seqnos between what was asked for and what the producer wants
    unanswered: int
    not_captured: int  #: streams whose request is not in the capture
    ended: Mapping[str, int]  #: by how it ended
    open: int  #: never ended
    some_open: tuple[OpenStream, ...]
    snapshots: int
    items: int
    counted_items: int  #: those of streams whose seqnos tell how many were passed over
    covered_seqnos: int  #: of these streams, from what the request had to the last item

    @property
    def without_item(self) -> int:
        """Return how many of the seqnos have no item: it was deduplicated, filtered or purged."""
        return self.covered_seqnos - self.counted_items


@dataclass(frozen=True, slots=True)
class LossStatistics:
    """What is not there, or could not be read."""

    bytes_lost: int
    bytes_skipped: int
    bytes_repeated: int
    sentences: tuple[str, ...]  #: about all of it, damage and limits included


@dataclass(frozen=True, slots=True)
class Statistics:
    """Everything."""

    captures: tuple[str, ...]
    time: TimeRange | None  #: None: no message
    messages: int
    bytes: int
    busiest: Busiest | None
    servers: tuple[Server, ...]
    opcodes: tuple[OpcodeTraffic, ...]  #: most messages first
    connections: tuple[ConnectionStatistics, ...]  #: in the order of their numbers
    requests: tuple[RequestStatistics, ...]  #: most requests first
    acks: Distribution | None
    stalls: Stalls
    streams: StreamStatistics
    losses: LossStatistics
    seen_instead: str | None = None  #: what there was, where there was no message of UPR or DCP
    notes: tuple[str, ...] = ()  #: what is not counted, because there is too much
