"""TCP connections: which segments belong together, and what becomes of each direction's bytes.

The sequential engine: one segment at a time, exact, with every limit in force. The fast path hands it every segment of
a connection that is not plainly in order; the reference reader uses nothing else.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from dissector.codec.dialect import Detector
from dissector.link.flow_key import Flow, flow_of, reverse_key
from dissector.link.segment_block import ACK, FIN, RST, SYN
from dissector.tcp.framing import Framer, RawFrame, State
from dissector.tcp.ignored_bytes import count_segment, give_up_holes
from dissector.tcp.limits import Limits
from dissector.tcp.ports import DEFAULT_PORTS
from dissector.tcp.reassembly import Gap, HalfConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dissector.array_types import Longs
    from dissector.link.segment_block import SegmentBlock
    from dissector.spec.model import Dialect
    from dissector.tcp.patience import Patience
    from dissector.tcp.ports import Ports
    from dissector.tcp.reassembly import Chunk


class TcpSegment(NamedTuple):
    """One TCP segment of a known flow. ``packet`` orders all packets of a run; see :func:`packet_ordinal`."""

    key: bytes
    seq: int
    ack: int
    flags: int
    data: bytes
    length: int
    packet: int
    time_ns: int


_CAPTURE_SHIFT = 40  #: bits of a packet ordinal for the number within its capture
#: Over a limit, buffers are dropped down to this fraction of it: less would mean a pass over all connections each time.
_RELIEF = 0.75


@overload
def packet_ordinal(capture: int, number: int) -> int: ...
@overload
def packet_ordinal(capture: int | Longs, number: Longs) -> Longs: ...
def packet_ordinal(capture: Any, number: Any) -> Any:
    """Put a capture's index and a packet's number in it into one number that orders packets; for arrays too."""
    return capture << _CAPTURE_SHIFT | number


@overload
def packet_of(ordinal: int) -> tuple[int, int]: ...
@overload
def packet_of(ordinal: Longs) -> tuple[Longs, Longs]: ...
def packet_of(ordinal: Any) -> tuple[Any, Any]:
    """Return the capture's index and the packet's number that :func:`packet_ordinal` was given."""
    return ordinal >> _CAPTURE_SHIFT, ordinal & ((1 << _CAPTURE_SHIFT) - 1)


#: Ids are remembered of so many times the connections that may be live: enough for a recording that comes again.
_REMEMBERED = 4


def segments_of(block: SegmentBlock, indexes: Iterable[int] | None = None) -> Iterator[TcpSegment]:
    """Go through the segments of a block, or some of them, one object each."""
    for index in range(len(block)) if indexes is None else indexes:
        yield TcpSegment(
            key=block.keys[block.flow[index]],
            seq=int(block.seq[index]),
            ack=int(block.ack[index]),
            flags=int(block.flags[index]),
            data=block.payload(index),
            length=int(block.payload_length[index]),
            packet=packet_ordinal(block.capture, int(block.number[index])),
            time_ns=int(block.time_ns[index]),
        )


def connection_id(key: bytes, start_ns: int, alike: int = 0) -> str:
    """Return the id of the connection whose first packet came at this time, on either of its flows.

    ``alike`` counts the connections of the run before it that have the same ends and the same time: a recording that
    is there twice, or two that were made to order. They are different connections, and must not be taken for one.
    """
    ends = min(key, reverse_key(key))
    repeat = alike.to_bytes(8, "big") if alike else b""
    return hashlib.blake2b(ends + start_ns.to_bytes(8, "big", signed=True) + repeat, digest_size=8).hexdigest()


@dataclass(slots=True, eq=False)
class Connection:
    """Two directions; direction 0 is that of the side that opened, or that was seen first."""

    index: int
    key: bytes  #: of direction 0
    start_ns: int
    directions: tuple[HalfConnection, HalfConnection]
    framers: tuple[Framer, Framer]
    detector: Detector
    last_packet: int = 0
    last_ns: int = 0
    reset: bool = False
    alike: int = 0  #: connections of the run before it with the same ends and the same time
    id: str = ""
    _flows: tuple[Flow, Flow] | None = None

    def __post_init__(self) -> None:
        self.id = connection_id(self.key, self.start_ns, self.alike)

    def flow(self, side: int) -> Flow:
        """Return addresses and ports of a direction."""
        if self._flows is None:
            self._flows = (flow_of(self.key), flow_of(reverse_key(self.key)))
        return self._flows[side]

    @property
    def ignored(self) -> bool:
        """Tell whether both directions speak another protocol: further segments are not looked at."""
        return self.framers[0].state is State.IGNORE and self.framers[1].state is State.IGNORE

    @property
    def closed(self) -> bool:
        """Tell whether no more frames can come of it."""
        return self.reset or self.ignored or all(direction.finished for direction in self.directions)


@dataclass(slots=True)
class Connections:
    """All live connections of a run, and the limits they share."""

    emit: Callable[[Connection, int, RawFrame], None]
    limits: Limits = field(default_factory=Limits)
    ports: Ports = DEFAULT_PORTS
    dialect: Dialect | None = None  #: taken for granted
    patience: Patience | None = None  #: for a live reading: what is not waited for
    live: dict[bytes, tuple[Connection, int]] = field(default_factory=dict)  #: both directed keys to (connection, side)
    ended: Callable[[Connection], None] = lambda _: None
    #: By index, the least recently used first. A plain dict would search its first entry past all that were removed.
    recent: OrderedDict[int, Connection] = field(default_factory=OrderedDict)
    count: int = 0
    held_total: int = 0
    partial_total: int = 0
    given_up: Counter[str] = field(default_factory=Counter)  #: limit name to how often it was reached
    #: Ids of connections that have begun, without those that are alike, to how many are; the oldest are forgotten.
    begun: OrderedDict[str, int] = field(default_factory=OrderedDict)
    count_ignored: bool = False  #: count the bytes of connections of other protocols to their end

    def feed(self, segment: TcpSegment) -> None:
        """Take the next segment of the run."""
        found = self.live.get(segment.key)
        if segment.flags & SYN and found is not None:
            direction = found[0].directions[found[1]]
            if not direction.opened_by(segment.seq, segment.length):
                self.end(found[0])  # the ports are used again
                found = None
        connection, side = found if found is not None else self.open(segment)
        self.touch(connection, segment.packet, segment.time_ns)
        self.take(connection, side, segment)
        if self.patience is not None:
            self.patience.give_up_holes(self, connection, segment.time_ns)

    def touch(self, connection: Connection, packet: int, time_ns: int) -> None:
        """Note that a connection is in use."""
        connection.last_packet, connection.last_ns = packet, time_ns
        self.recent[connection.index] = connection
        self.recent.move_to_end(connection.index)

    def take(self, connection: Connection, side: int, segment: TcpSegment) -> None:
        """Take a segment of a known connection."""
        direction = connection.directions[side]
        if connection.ignored and not segment.flags & SYN:
            if self.count_ignored:
                direction.finished |= bool(segment.flags & FIN)
                connection.reset |= bool(segment.flags & RST)
                if segment.length and not segment.flags & RST:
                    count_segment(direction, segment.seq, segment.length, len(segment.data))
            return
        offset_of_data = segment.seq
        if segment.flags & SYN:
            if direction.isn is None:
                acknowledged = direction.open(segment.seq)
                if acknowledged:
                    connection.directions[1 - side].shift(0, acknowledged)
                    connection.framers[1 - side].shift(0, acknowledged)
                self._start(connection, side)
            offset_of_data += 1
        acked = None
        if segment.flags & ACK:
            acked = direction.acknowledge(segment.ack, connection.directions[1 - side])
            if segment.flags & SYN:
                connection.directions[1 - side].opening_acknowledged(segment.ack)
        if segment.flags & FIN:
            direction.finished = True
        if segment.flags & RST:
            connection.reset = True
            return  # the payload of a RST is a message for people, not part of the stream
        if not segment.length:
            return
        offset = direction.offset_of(offset_of_data & 0xFFFFFFFF)
        before = direction.held_cost
        events = direction.feed(offset, segment.length, segment.data, segment.packet, segment.time_ns, acked)
        self.held_total += direction.held_cost - before
        self.deliver(connection, side, events)
        if direction.held_cost > self.limits.out_of_order_bytes:
            self.given_up["out_of_order_bytes"] += 1
            self._give_up(connection, side)
        if self.held_total > self.limits.out_of_order_total or self.partial_total > self.limits.partial_total:
            self._relieve()

    def open(self, segment: TcpSegment) -> tuple[Connection, int]:
        """Make a connection for a segment that belongs to none."""
        if len(self.live) >= 2 * self.limits.connections:
            self._evict()
        # A SYN+ACK is the second packet of a connection whose first one was not seen.
        side = 1 if segment.flags & (SYN | ACK) == SYN | ACK else 0
        key = reverse_key(segment.key) if side else segment.key
        flow = flow_of(key)
        forced = self.ports.forced(flow)
        ignored = self.ports.forbidden(flow)
        framers = tuple(Framer(self.limits, State.IGNORE if ignored else State.SEARCH, forced=forced) for _ in range(2))
        connection = Connection(
            self.count,
            key,
            segment.time_ns,
            (HalfConnection(), HalfConnection()),
            (framers[0], framers[1]),
            Detector(self.dialect or self.ports.dialect(flow)),
            alike=self._count_alike(connection_id(key, segment.time_ns)),
        )
        self.count += 1
        self.live[reverse_key(key)] = (connection, 1)
        self.live[key] = (connection, 0)  # the only one where both ends are the same address and port
        return self.live[segment.key]

    def _count_alike(self, name: str) -> int:
        """Return how many connections with the same ends and the same time have begun before."""
        before = self.begun.pop(name, 0)
        self.begun[name] = before + 1
        if len(self.begun) > _REMEMBERED * self.limits.connections:
            self.begun.popitem(last=False)
        return before

    def deliver(self, connection: Connection, side: int, events: list[Chunk | Gap]) -> None:
        """Feed ordered bytes and gaps to the framer, and emit its frames."""
        framer = connection.framers[side]
        before = framer.cost
        frames: list[RawFrame] = []
        for event in events:
            if isinstance(event, Gap):
                framer.gap(event, frames)
            else:
                framer.data(event, frames)
        self.partial_total += framer.cost - before
        for frame in frames:
            self.emit(connection, side, frame)

    def end(self, connection: Connection) -> None:
        """Emit what is left of a connection and forget it."""
        for side in (0, 1):
            direction = connection.directions[side]
            self.held_total -= direction.held_cost
            self.deliver(connection, side, direction.flush())
            give_up_holes(direction)
            framer = connection.framers[side]
            before = framer.cost
            frames: list[RawFrame] = []
            framer.finish(frames)
            self.partial_total += framer.cost - before
            for frame in frames:
                self.emit(connection, side, frame)
        del self.live[connection.key]
        self.live.pop(reverse_key(connection.key), None)
        self.recent.pop(connection.index, None)
        self.ended(connection)

    def finish(self) -> None:
        """The run is over."""
        for connection in list(self.connections()):
            self.end(connection)

    def connections(self) -> Iterator[Connection]:
        """Go through the live connections in the order they were made."""
        both = (connection for connection, side in self.live.values() if side == 0)
        yield from sorted(both, key=_index)

    def _start(self, connection: Connection, side: int) -> None:
        """Expect a header at the first byte, unless bytes came before the SYN or the user chose the protocol."""
        framer = connection.framers[side]
        if framer.state is State.SEARCH and not framer.buffer and not framer.frames and not framer.gap_before:
            framer.state = State.TRIAL

    def _give_up(self, connection: Connection, side: int) -> None:
        direction = connection.directions[side]
        while direction.held_cost > self.limits.out_of_order_bytes:
            self.give_up_hole(connection, side)

    def give_up_hole(self, connection: Connection, side: int) -> None:
        """Take the first hole of a direction for lost, and deliver what is held behind it."""
        direction = connection.directions[side]
        before = direction.held_cost
        events = direction.give_up()
        self.held_total += direction.held_cost - before
        self.deliver(connection, side, events)

    def _relieve(self) -> None:
        """Bring the totals under their limits: the direction that holds most gives up first, of equals the oldest."""
        sides = [(connection, side) for connection in self.connections() for side in (0, 1)]
        if self.held_total > self.limits.out_of_order_total:
            sides.sort(key=lambda entry: -entry[0].directions[entry[1]].held_cost)
            for connection, side in sides:
                if self.held_total <= self.limits.out_of_order_total * _RELIEF:
                    break
                while connection.directions[side].held:
                    self.given_up["out_of_order_total"] += 1
                    self.give_up_hole(connection, side)
        if self.partial_total > self.limits.partial_total:
            sides.sort(key=lambda entry: -entry[0].framers[entry[1]].cost)
            for connection, side in sides:
                framer = connection.framers[side]
                before = framer.cost
                # Skip directions with an empty buffer: dropping it would also reset their TRIAL state.
                if self.partial_total <= self.limits.partial_total * _RELIEF or not before:
                    break
                framer.drop_buffer()
                self.partial_total += framer.cost - before
                self.given_up["partial_total"] += 1

    def _evict(self) -> None:
        oldest = next(iter(self.recent.values()))
        if not oldest.closed:
            self.given_up["connections"] += 1
        self.end(oldest)


def _index(connection: Connection) -> int:
    return connection.index
