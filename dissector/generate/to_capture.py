"""Conversations on the network: segments, impairments, packets, files.

Puts the stages together; each knows its own business. What was sent and what was written come back as
:class:`Written`, from which the truth is told. Everything is packed with struct and numpy; scapy has no part in it.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from operator import attrgetter
from typing import IO, TYPE_CHECKING

import numpy as np

from dissector.generate.bulk import BYTES_PER_FRAME, Bulk
from dissector.generate.capture_files import Files, Medium, records
from dissector.generate.impairments import Impairer, Impairments
from dissector.generate.packets import Packer, ends_of
from dissector.generate.segments import deliver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dissector.array_types import Longs
    from dissector.generate.conversation import Conversation
    from dissector.generate.packets import Ends
    from dissector.generate.scenario import Size
    from dissector.generate.segments import MadeSegment, Sent


#: When captures begin: November 2023, after every CAS that scenarios use.
EPOCH_NS = 1_700_000_000 * 10**9
_WRAP_BYTES = 1 << 16  #: of a large capture's first connection, before its sequence numbers go round
_AT_ONCE = 4096  #: packets that are packed together; bounds the memory


@dataclass(frozen=True, slots=True)
class Written:
    """What was sent, and the packets that were written of it: the first one has number 1."""

    sent: list[list[Sent]]  #: per connection
    packets: list[MadeSegment]
    payloads: list[int]  #: bytes of each packet's payload that a snap length has left
    files: list[int]  #: packets in each


@dataclass(slots=True)
class Recorder:
    """Writes segments to files, thousands at a time."""

    medium: Medium
    ends: Sequence[Ends]
    opener: Callable[[int], IO[bytes]]
    files: Files = field(init=False)
    _packer: Packer = field(init=False)

    def __post_init__(self) -> None:
        self.files = Files(self.medium, self.opener)
        self._packer = Packer(self.ends, self.medium.links)

    def record(self, segments: Sequence[MadeSegment]) -> list[Longs]:
        """Write segments in this order; return the sizes of the headers in front of their payloads."""
        heads = []
        for start in range(0, len(segments), _AT_ONCE):
            chunk = segments[start : start + _AT_ONCE]
            packed = self._packer.pack(chunk)
            times = np.array([segment.time_ns for segment in chunk], np.int64) + EPOCH_NS
            self.files.write(records(self.medium, packed, times))
            heads.append(packed.head_bytes)
        return heads

    def finish(self) -> None:
        """Complete the last file."""
        self.files.finish()


def write(
    conversations: Sequence[Conversation],
    opener: Callable[[int], IO[bytes]],
    *,
    seed: int = 1,
    medium: Medium | None = None,
    impairments: Impairments | None = None,
    rate: float | None = None,
) -> Written:
    """Write settled conversations as a capture. ``opener`` opens its files by number, from 1.

    ``rate`` is how many messages there shall be in a second, over all connections.
    """
    medium, impairments = medium or Medium(), impairments or Impairments()
    maker = Impairer(impairments, seed)
    size, scale = maker.size(), 1.0 if rate is None else _scale(conversations, rate)
    deliveries = [
        deliver(conversation, index, size, skip_messages=impairments.skip_messages, scale=scale)
        for index, conversation in enumerate(conversations)
    ]
    chance = random.Random(f"network/{seed}")  # noqa: S311 - no secret depends on it
    ends = []
    for index, (conversation, delivery) in enumerate(zip(conversations, deliveries, strict=True)):
        total = max((each.end for each in delivery.sent if each.emission.side), default=0)
        wrap = total // 2 if index == 0 else None  # one connection's numbers go round in the middle of its bytes
        ends.append(_ends(conversation, chance, medium, wrap=wrap))
    ordered = heapq.merge(*(delivery.segments for delivery in deliveries), key=attrgetter("time_ns"))
    segments = maker.disturb(list(ordered))
    recorder = Recorder(medium, ends, opener)
    heads = recorder.record(segments)
    recorder.finish()
    lengths = np.array([len(segment.data) for segment in segments], np.int64)
    if medium.snaplen is not None and segments:
        lengths = np.clip(medium.snaplen - np.concatenate(heads), 0, lengths)
    return Written([delivery.sent for delivery in deliveries], segments, lengths.tolist(), recorder.files.counts)


class BulkRun:
    """A large capture while it is written: goes round after round, and tells how far it has come."""

    def __init__(
        self,
        seed: int,
        size: Size,
        medium: Medium,
        impairments: Impairments,
        opener: Callable[[int], IO[bytes]],
        rate: float | None = None,
    ) -> None:
        self._maker = Impairer(impairments, seed)
        self.bulk = Bulk(seed, size, self._maker.size(), rate)
        self.bytes_total: int | None = self.bulk.frames * BYTES_PER_FRAME  #: a guess, for the progress bar
        chance = random.Random(f"network/{seed}")  # noqa: S311 - no secret depends on it
        ends = [
            _ends(conversation, chance, medium, wrap=_WRAP_BYTES if index == 0 else None)
            for index, conversation in enumerate(self.bulk.conversations)
        ]
        self._recorder = Recorder(medium, ends, opener)
        self.bytes_read = 0  #: how far it has come, in the progress bar's words

    @property
    def files(self) -> list[int]:
        """Return the packets in each file."""
        return self._recorder.files.counts

    def __iter__(self) -> Iterator[None]:
        for segments in self.bulk.rounds():
            self._recorder.record(self._maker.disturb(segments))
            self.bytes_read = min(self._recorder.files.bytes_written, self.bytes_total or 0)
            yield
        self._recorder.finish()


def _ends(conversation: Conversation, chance: random.Random, medium: Medium, *, wrap: int | None) -> Ends:
    addresses, ports = (conversation.client, conversation.server), (conversation.client_port, conversation.server_port)
    return ends_of(addresses, ports, chance, version=medium.ip, wrap=wrap)


def _scale(conversations: Sequence[Conversation], rate: float) -> float:
    """Return by how much pauses are to be stretched."""
    messages = sum(len(conversation.emissions) for conversation in conversations)
    spans = [
        (conversation.begin_ns, conversation.begin_ns + sum(each.pause_ns for each in conversation))
        for conversation in conversations
    ]
    lasts = max((end for _, end in spans), default=0) - min((begin for begin, _ in spans), default=0)
    return messages / rate * 1e9 / lasts if lasts else 1.0
