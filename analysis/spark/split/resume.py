"""Where a connection goes on in a scout's piece: the head is played, and behind the anchors the scout's end is taken.

Knows every part of a connection's state, and when two that differ in offsets alone go on alike. Must not know rows or
pieces. Nothing is taken on trust: a direction is joined only where the engine, fed with the very segments, is in step
at the scout's anchor, with the same bytes of the same packets waiting. What comes behind that is then the same to both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.spark.split.records import SETTLED, WEIGHED, DialectHint, counts_of, set_counts, sync_state_of
from dissector.link.flow_key import reverse_key
from dissector.link.segment_block import ACK, SYN
from dissector.spec import registry
from dissector.spec.model import Dialect
from dissector.tcp.connections import Connections
from dissector.tcp.framing import State
from dissector.tcp.reassembly import HalfConnection, shifted

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.spark.split.records import Counts, HeadSegment, Opening, PrescanNotes, SyncPoint
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection, TcpSegment
    from dissector.tcp.framing import Framer, RawFrame

_WRAP = 1 << 32
_HELLO = bytes([registry.named(Dialect.DCP, "hello").opcode])


class UnstitchableError(Exception):
    """What a scout saw does not follow from what was before, or not beyond doubt."""


def opened(segment: TcpSegment, options: ReadOptions) -> Connection:
    """Return the connection that a segment opens which belongs to none."""
    return _engine(options, _nobody).open(segment)[0]


def end_of(connection: Connection, opening: Opening, options: ReadOptions) -> int:
    """End a connection whose ports are used again; return how many frames came of that."""
    side = 0 if connection.key == opening.key else 1
    if connection.directions[side].opened_by(opening.sequence):
        raise UnstitchableError("a SYN that belongs to what was there before")
    return rest_of(connection, options)


def rest_of(connection: Connection, options: ReadOptions) -> int:
    """End a connection; return how many frames came of that."""
    before = frames_of(connection)
    _resumed(connection, options, _nobody).end(connection)
    return frames_of(connection) - before


def frames_of(connection: Connection) -> int:
    """Return how many frames a connection has given so far."""
    return sum(framer.frames for framer in connection.framers)


class Resumption:
    """A connection as it was before a piece, and a scout's notes on what became of it. Lives for one use."""

    def __init__(self, connection: Connection, life: PrescanNotes, scouted: Connection, options: ReadOptions) -> None:
        self._connection = connection
        self._life = life
        self._scouted = scouted
        self._engine = _resumed(connection, options, self._emit)
        self._packet = 0
        self._told: list[DialectHint] = []
        # By direction as the scout numbers them, which may be the other way round.
        self._flipped = int(connection.key != scouted.key)
        self._shift: list[int | None] = [None, None]  #: of acknowledged offsets
        self._joined: list[Counts | None] = [None, None]

    def sew(self) -> int:
        """Move the connection on to where the scout ended; return how many frames came of that."""
        if self._life.broken:
            raise UnstitchableError("a SYN inside a connection")
        before = frames_of(self._connection)
        for head in self._life.head:
            self._play(head)
        # What a direction's frames say counts if it was not ignored when the scout began to list them.
        heard = [self._joined[side] is not None for side in (0, 1)]
        for side in (0, 1):
            self._go_on(side)
        self._tell(heard)
        self._connection.reset |= self._scouted.reset
        self._connection.last_packet = self._scouted.last_packet
        self._connection.last_ns = self._scouted.last_ns
        return frames_of(self._connection) - before

    def _emit(self, _: Connection, side: int, frame: RawFrame) -> None:
        self._told.append(DialectHint(self._packet, side, frame.data))

    def _play(self, head: HeadSegment) -> None:
        """Feed a segment of the head to the engine."""
        segment, side = head.segment, head.side
        direction = self._connection.directions[side ^ self._flipped]
        if segment.flags & SYN and not direction.opened_by(segment.seq):
            raise UnstitchableError("a SYN that the scout took for an older one")
        acks, shift = bool(segment.flags & ACK), self._shift[side]
        if acks and shift is None and direction.ack is None:
            self._place_first(head, direction)
        if acks and shift is not None:
            # Acknowledgements without data came between: the scout added them up.
            direction.ack, direction.acked = segment.ack, head.acked + shift
        self._packet = segment.packet
        self._engine.take(self._connection, side ^ self._flipped, segment)
        if acks and shift is None:
            self._shift[side] = direction.acked - head.acked
        anchor = self._life.anchors[side]
        if anchor is not None and anchor.packet == segment.packet:
            self._verify(side, anchor)

    def _place_first(self, head: HeadSegment, direction: HalfConnection) -> None:
        """Take a direction's very first acknowledgement: what it is near to is where the other one was then."""
        other = 1 - head.side
        anchor, joined = self._life.anchors[other], self._joined[other]
        if self._life.given_up[other] or (
            anchor is not None and anchor.packet < head.segment.packet and joined is None
        ):
            raise UnstitchableError("a first acknowledgement of an unknown place")
        if anchor is not None and joined is not None:
            sent, _ = self._sides(other)
            sent.next = head.other_next + joined.next - anchor.counts.next
            direction.acknowledge(head.segment.ack, sent)
            sent.next = joined.next

    def _verify(self, side: int, anchor: SyncPoint) -> None:
        """Compare the direction with the scout's where that was in step."""
        direction, framer = self._sides(side)
        if framer.state is State.IGNORE:
            return
        by = self._shift[side] or 0
        marks = tuple(mark._replace(acked=shifted(mark.acked, by)) for mark in anchor.place.marks)
        if sync_state_of(direction, framer) != anchor.place._replace(marks=marks):
            raise UnstitchableError("not in step at the anchor")
        self._joined[side] = counts_of(direction, framer)

    def _go_on(self, side: int) -> None:
        """Move a direction on to the end of the piece."""
        direction, framer = self._sides(side)
        scouted = self._scouted.directions[side]
        anchor, joined, by = self._life.anchors[side], self._joined[side], self._shift[side]
        if framer.state is State.IGNORE:
            _follow(direction, scouted)
        elif self._life.given_up[side]:
            raise UnstitchableError("no anchor")
        elif anchor is not None:
            if joined is None or by is None:
                raise UnstitchableError("the anchor was not reached")
            self._take_over(side, anchor, joined, by)
            return
        # All that it sent was played, but for acknowledgements and what ends it.
        direction.finished |= scouted.finished
        if by is not None:
            direction.ack, direction.acked = scouted.ack, scouted.acked + by

    def _take_over(self, side: int, anchor: SyncPoint, joined: Counts, by: int) -> None:
        """Put the scout's direction into the place of ours, with our offsets and counts."""
        ours, theirs = self._connection.directions[side ^ self._flipped], self._scouted.directions[side]
        framer = self._scouted.framers[side]
        counts = counts_of(theirs, framer)
        moved = joined.next - anchor.counts.next
        theirs.shift(moved, by)
        framer.shift(moved, by)
        ours.next, ours.ack, ours.acked = theirs.next, theirs.ack, theirs.acked
        ours.finished |= theirs.finished
        ours.held, ours.held_cost = theirs.held, theirs.held_cost
        sums = [was + now - then for was, now, then in zip(joined, counts, anchor.counts, strict=True)]
        set_counts(ours, framer, type(joined)(*sums))
        framers = list(self._connection.framers)
        framers[side ^ self._flipped] = framer
        self._connection.framers = (framers[0], framers[1])

    def _tell(self, heard: list[bool]) -> None:
        """Let the detector hear of all frames that may tell something, in order."""
        detector = self._connection.detector
        listed = [each for each in self._life.telling if each.side < 0 or heard[each.side]]
        turned = [each if each.side < 0 else each._replace(side=each.side ^ self._flipped) for each in listed]
        for each in sorted(self._told + turned, key=_packet):
            if each.side == WEIGHED and detector.dialect is Dialect.MEMCACHED:
                raise UnstitchableError("the dialect is not clear")
            if each.side == SETTLED and not detector.decided:
                raise UnstitchableError("the dialect is not settled")
            if each.side >= 0 and (not detector.decided or each.data[1:2] == _HELLO):
                detector.feed(each.side, each.data)

    def _sides(self, side: int) -> tuple[HalfConnection, Framer]:
        number = side ^ self._flipped
        return self._connection.directions[number], self._connection.framers[number]


def _packet(telling: DialectHint) -> int:
    return telling.packet


def _follow(direction: HalfConnection, scouted: HalfConnection) -> None:
    """Move a direction that nobody listens to any more on to where it is: what comes next is no hole."""
    if direction.base is not None and scouted.base is not None:
        ahead = (scouted.base + scouted.next - direction.base - direction.next) % _WRAP
        direction.next += ahead if ahead < _WRAP // 2 else 0
        direction.held, direction.held_cost = [], 0


def _engine(options: ReadOptions, emit: Callable[[Connection, int, RawFrame], None]) -> Connections:
    return Connections(emit, options.limits, options.ports, dialect=options.dialect)


def _resumed(
    connection: Connection, options: ReadOptions, emit: Callable[[Connection, int, RawFrame], None]
) -> Connections:
    """Return an engine that knows of one connection."""
    engine = _engine(options, emit)
    engine.live[reverse_key(connection.key)] = (connection, 1)
    engine.live[connection.key] = (connection, 0)
    return engine


def _nobody(_: Connection, __: int, ___: RawFrame) -> None:
    """Take a frame that was counted elsewhere."""
