"""Large captures, fast: busy vbuckets on several connections, as many frames as wanted, in bounded memory.

Knows what a producer and its consumers say when all goes well: every rule holds. Mutations are packed out of columns,
whose form comes from the declarations; everything rarer comes from the encoder itself. Must not know packets.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.codec.encoder import encode
from dissector.errors import UsageError
from dissector.generate.conversation import CLIENT, SERVER, Conversation
from dissector.generate.segments import ACK, FIN, PSH, MadeSegment, deliver
from dissector.generate.session import MEMORY, Session
from dissector.spec import registry
from dissector.spec.model import Dialect, UInt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from dissector.array_types import Longs
    from dissector.generate.scenario import Size
    from dissector.generate.session import Stream


NAME = "bulk"
TITLE = "as many mutations as you like, on busy vbuckets of several connections; made fast"
FRAMES, CONNECTIONS = 100_000, 8
BYTES_PER_FRAME = 545  #: roughly, in a file
_ROUND_FRAMES, _ROUND_SHARE = 4096, 16  #: made at a time, or so many per connection if that is more
_LONGEST_RUN = 60  #: frames of one vbucket in a row
_LONGEST_TURN = 12  #: packets of one connection in a row
_SNAPSHOT = 50, 150  #: mutations
_SMALLEST_VALUE, _LARGEST_VALUE = 20, 2000
#: Sizes of values, as many small as large ones; a table, because libraries disagree on the last digit of a power.
_VALUE_SIZES = np.array([round(_SMALLEST_VALUE * (_LARGEST_VALUE / _SMALLEST_VALUE) ** (n / 255)) for n in range(256)])
_POOL_BYTES = 1 << 16
_BUFFER_BYTES, _ACK_BYTES = 10 << 20, 100 << 10
_PACKET_NS = 2000
#: A hybrid clock: an hour before captures begin, low 16 bits free.
_FIRST_CAS, _CAS_STEP = 1_699_996_400_000_000_000 & ~0xFFFF, 0x10000
_ITEM_FLAGS = 0x0200_0006

_MUTATION, _MARKER, _BUFFER_ACK = (
    registry.named(Dialect.DCP, name) for name in ("mutation", "snapshot_marker", "buffer_ack")
)
_HEADER_FIELDS = [
    ("magic", "u1"),
    ("opcode", "u1"),
    ("key_length", ">u2"),
    ("extras_length", "u1"),
    ("datatype", "u1"),
    ("vbucket", ">u2"),
    ("body_length", ">u4"),
    ("opaque", ">u4"),
    ("cas", ">u8"),
]
_DTYPES = {UInt.U8: "u1", UInt.U16: ">u2", UInt.U32: ">u4", UInt.U64: ">u8"}


def _mutation_form() -> np.dtype[np.void]:
    if _MUTATION.request is None:
        raise TypeError("a mutation without a request is not declared")
    extras = [(each.name, _DTYPES[each.kind]) for each in _MUTATION.request.layouts[0].extras]
    return np.dtype([*_HEADER_FIELDS, *extras])


_FORM = _mutation_form()
_EXTRAS_BYTES = _FORM.itemsize - registry.HEADER_SIZE


def mutation_heads(
    vbucket: Longs, opaque: Longs, seqno: Longs, key_bytes: Longs, value_bytes: Longs, cas: Longs
) -> npt.NDArray[np.void]:
    """Return headers and extras of mutations; keys and values go after each."""
    heads = np.zeros(len(seqno), _FORM)
    heads["magic"], heads["opcode"], heads["extras_length"] = 0x80, _MUTATION.opcode, _EXTRAS_BYTES
    heads["key_length"], heads["vbucket"], heads["opaque"], heads["cas"] = key_bytes, vbucket, opaque, cas
    heads["body_length"] = key_bytes + value_bytes + _EXTRAS_BYTES
    heads["by_seqno"], heads["rev_seqno"], heads["item_flags"] = seqno, 1, _ITEM_FLAGS
    return heads


@dataclass(slots=True, eq=False)
class _Link:
    """A connection with its streams, and how far it has come."""

    index: int
    session: Session
    streams: list[Stream] = field(default_factory=list)
    totals: list[int] = field(default_factory=lambda: [0, 0])
    waiting: list[bytes] = field(default_factory=list)  #: said by the server, and not yet sent
    outstanding: int = 0  #: flow-control bytes that the consumer has not given back
    segments: int = 0  #: sent by the server
    frames: Counter[str] = field(default_factory=Counter)


#: A segment that has no time yet: everything in front of it.
_Timeless = tuple[int, int, int, int, bytes]


class _Run(NamedTuple):
    """Mutations in a row on one stream, and the marker in front of them."""

    link: _Link
    stream: Stream
    first_seqno: int
    mutations: int
    marker: bytes


class Bulk:
    """Makes the segments of one capture, a round at a time."""

    def __init__(self, seed: int, wanted: Size, size: Callable[[], int], rate: float | None = None) -> None:
        self.frames = wanted.frames or FRAMES
        connections = wanted.connections or CONNECTIONS
        # Small captures have fewer vbuckets, so that the mix of frames is the same.
        vbuckets = wanted.vbuckets or min(registry.DEFAULT_VBUCKETS, max(connections, self.frames // 100))
        if vbuckets < connections:
            raise UsageError(
                f"every connection has vbuckets of its own: {connections} connections need {connections} vbuckets"
            )
        if vbuckets > 1 << 16:
            raise UsageError(f"there are no more than 65,536 vbuckets, not {vbuckets:,}")
        needed = 4 * connections + 2 * vbuckets
        if self.frames < needed:
            raise UsageError(
                f"{self.frames:,} frames do not suffice: {connections} connections with {vbuckets} vbuckets "
                f"take {needed:,} to set up"
            )
        self._chance = random.Random(f"{NAME}/{seed}")  # noqa: S311 - no secret depends on it
        # The old generator: numpy promises that its numbers stay the same from release to release.
        self._columns = np.random.RandomState(self._chance.getrandbits(32))
        self._pool = "".join(self._chance.choices('abcdefghij0123456789 "{}:,', k=_POOL_BYTES)).encode()
        self._size, self._rate = size, rate
        self._clock = 0
        self._left = self.frames
        self._made = 0  #: mutations
        self.links = [self._link(index, range(index, vbuckets, connections)) for index in range(connections)]

    @property
    def conversations(self) -> list[Conversation]:
        """Return the connections, as far as their set-up."""
        return [link.session.conversation for link in self.links]

    def rounds(self) -> Iterator[list[MadeSegment]]:
        """Yield segments in the order of time, thousands at a time."""
        yield self._set_up()
        while self._left:
            yield self._round()
        yield self._finish()

    def facts(self) -> list[dict[str, object]]:
        """Return what was said on each connection: messages by name, and the last seqno of each vbucket."""
        return [
            {
                "messages": dict(sorted(link.frames.items())),
                "bytes": list(link.totals),
                "last_seqno": {str(stream.vbucket): stream.last for stream in link.streams},
            }
            for link in self.links
        ]

    def _link(self, index: int, vbuckets: Sequence[int]) -> _Link:
        conversation = Conversation(
            client=f"10.0.{1 + index // 20_000}.1", client_port=40_000 + index % 20_000, begin_ns=index * 1000
        )
        conversation.orderly = False  # the end comes much later
        session = Session(conversation, self._chance)
        session.open(b"eq_dcpq:bulk-%d" % index)
        session.control("connection_buffer_size", str(_BUFFER_BYTES))
        link = _Link(index, session, [session.request(vbucket) for vbucket in vbuckets])
        for stream in link.streams:
            stream.accept([(self._chance.getrandbits(63) << 1 | 1, 0)])
        return link

    def _set_up(self) -> list[MadeSegment]:
        deliveries = [deliver(link.session.conversation, link.index, self._size) for link in self.links]
        for link, delivery in zip(self.links, deliveries, strict=True):
            for each in delivery.sent:
                link.totals[each.emission.side] = each.end
                link.frames[each.emission.frame.name] += 1
            self._left -= len(delivery.sent)
        merged = list(heapq.merge(*(delivery.segments for delivery in deliveries), key=attrgetter("time_ns")))
        self._clock = merged[-1].time_ns
        return merged

    def _round(self) -> list[MadeSegment]:
        budget = min(max(_ROUND_FRAMES, _ROUND_SHARE * len(self.links)), self._left)
        self._left -= budget
        runs = self._plan(budget)
        parts = self._mutations(runs)
        batches: list[list[_Timeless]] = [[] for _ in self.links]
        done = 0
        for run in runs:
            link = run.link
            if run.marker:
                link.waiting.append(run.marker)
                link.frames["snapshot_marker"] += 1
            link.waiting += parts[3 * done : 3 * (done + run.mutations)]
            said = sum(map(len, parts[3 * done : 3 * (done + run.mutations)])) + len(run.marker)
            done += run.mutations
            link.frames["mutation"] += run.mutations
            link.outstanding += said
            if link.outstanding >= _ACK_BYTES and self._left:
                self._send(link, batches[link.index], everything=True)
                self._acknowledge(link, batches[link.index])
        for link in self.links:
            self._send(link, batches[link.index], everything=False)
        return self._mixed(batches, budget)

    def _plan(self, budget: int) -> list[_Run]:
        """Share the frames of a round out to connections and vbuckets."""
        runs: list[_Run] = []
        chance = self._chance.random
        share, rest = divmod(budget, len(self.links))
        for link in self.links:
            left = share + (link.index < rest)
            while left:
                stream = link.streams[int(chance() * len(link.streams))]
                length = min(left, 1 + int(chance() * _LONGEST_RUN))
                left -= length
                while length:
                    marker = b""
                    if stream.last >= stream.snap_end:
                        first = stream.last + 1 if stream.last else 0  # the first one starts where the request does
                        stream.snap_end = stream.last + self._chance.randint(*_SNAPSHOT)
                        fields = {"snap_start_seqno": first, "snap_end_seqno": stream.snap_end, "snapshot_type": MEMORY}
                        marker = encode(_MARKER, fields, vbucket=stream.vbucket, opaque=stream.opaque)
                        length -= 1
                    count = min(length, stream.snap_end - stream.last)
                    runs.append(_Run(link, stream, stream.last + 1, count, marker))
                    stream.last += count
                    length -= count
        return runs

    def _mutations(self, runs: Sequence[_Run]) -> list[bytes]:
        """Make the mutations of a round: head, key and value of each in turn."""
        counts = np.array([run.mutations for run in runs])
        total = int(counts.sum())
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        seqno = np.repeat(np.array([run.first_seqno for run in runs]), counts) + within
        vbucket = np.repeat(np.array([run.stream.vbucket for run in runs]), counts)
        opaque = np.repeat(np.array([int.from_bytes(run.stream.opaque, "big") for run in runs]), counts)
        sizes = _VALUE_SIZES[self._columns.randint(0, len(_VALUE_SIZES), total)]
        starts = self._columns.randint(0, _POOL_BYTES - _LARGEST_VALUE, total)
        keys = [b"doc::%d::%d" % pair for pair in zip(vbucket.tolist(), seqno.tolist(), strict=True)]
        cas = _FIRST_CAS + _CAS_STEP * (self._made + 1 + np.arange(total))
        self._made += total
        heads = mutation_heads(vbucket, opaque, seqno, np.fromiter(map(len, keys), np.int64, total), sizes, cas)
        raw, step, pool = heads.tobytes(), heads.dtype.itemsize, self._pool
        parts = [b""] * (3 * total)
        parts[0::3] = [raw[start : start + step] for start in range(0, len(raw), step)]
        parts[1::3] = keys
        parts[2::3] = [pool[start:end] for start, end in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]
        return parts

    def _send(self, link: _Link, batch: list[_Timeless], *, everything: bool) -> None:
        """Send what the server has to say, or only what fills segments; the client acknowledges every second one."""
        data = b"".join(link.waiting)
        at, flow, (acked, offset) = 0, 2 * link.index, link.totals
        while at < len(data):
            piece = data[at : at + (size := self._size())]
            if len(piece) < size and not everything:
                break
            at += len(piece)
            batch.append((flow + SERVER, offset, acked, PSH | ACK if at == len(data) else ACK, piece))
            offset += len(piece)
            link.segments += 1
            if not link.segments & 1:
                batch.append((flow + CLIENT, acked, offset, ACK, b""))
        link.totals[SERVER] = offset
        link.waiting = [data[at:]] if at < len(data) else []

    def _acknowledge(self, link: _Link, batch: list[_Timeless]) -> None:
        """Let the consumer give back everything that it has received."""
        frame = encode(_BUFFER_ACK, {"buffer_bytes": link.outstanding}, opaque=link.session.opaque())
        client, server = link.totals
        batch.append((2 * link.index + CLIENT, client, server, PSH | ACK, frame))
        link.totals[CLIENT] += len(frame)
        link.outstanding = 0
        link.frames["buffer_ack"] += 1
        self._left -= 1

    def _mixed(self, batches: Sequence[list[_Timeless]], frames: int) -> list[MadeSegment]:
        """Let the connections take turns, each in runs of packets spread over the whole round."""
        moments = []
        for batch in batches:
            turn = np.arange(len(batch)) // self._chance.randint(1, _LONGEST_TURN)
            moments.append((turn + self._chance.random()) / (turn[-1] + 1 if len(turn) else 1))
        joined = [segment for batch in batches for segment in batch]
        order = np.argsort(np.concatenate(moments), kind="stable").tolist()
        step = _PACKET_NS
        if self._rate is not None and joined:
            step = max(1, round(frames / self._rate * 1e9 / len(joined)))
        times = range(self._clock + step, self._clock + step * (len(joined) + 1), step)
        self._clock = times[-1] if times else self._clock
        return [
            MadeSegment(flow, offset, acked, flags, data, time)
            for (flow, offset, acked, flags, data), time in zip(map(joined.__getitem__, order), times, strict=True)
        ]

    def _finish(self) -> list[MadeSegment]:
        """Send what is left, and close the connections."""
        batches: list[list[_Timeless]] = []
        for link in self.links:
            batch: list[_Timeless] = []
            self._send(link, batch, everything=True)
            (client, server), flow = link.totals, 2 * link.index
            batch += [
                (flow + CLIENT, client, server, FIN | ACK, b""),
                (flow + SERVER, server, client + 1, FIN | ACK, b""),
                (flow + CLIENT, client + 1, server + 1, ACK, b""),
            ]
            batches.append(batch)
        return self._mixed(batches, len(self.links))
