"""Where a connection goes on in a scout's piece: the head is played, and behind the anchors the scout's end is taken.

Knows every part of a connection's state, and when two that differ in offsets alone go on alike. Must not know rows or
pieces. Nothing is taken on trust: a direction is joined only where the engine, fed with the very segments, is in step
at the scout's anchor, with the same bytes of the same packets waiting. What comes behind that is then the same to both.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from analysis.spark.split.records import (
    DIALECT_DECIDED,
    DIALECT_LIKELY,
    DialectHint,
    counts_of,
    set_counts,
    sync_state_of,
)
from dissector.link.flow_key import reverse_key
from dissector.link.segment_block import ACK, SYN
from dissector.spec import registry
from dissector.spec.model import Dialect
from dissector.tcp.connections import Connections
from dissector.tcp.framing import State
from dissector.tcp.reassembly import HalfConnection, shifted

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.spark.split.records import Counts, HeadSegment, OpeningSyn, PrescanNotes, SyncPoint
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection, TcpSegment
    from dissector.tcp.framing import Framer, RawFrame

_WRAP = 1 << 32
_HELLO = bytes([registry.named(Dialect.DCP, "hello").opcode])


class UnstitchableError(Exception):
    """What a scout saw does not follow from what was before, or not beyond doubt."""


def open_connection(segment: TcpSegment, options: ReadOptions) -> Connection:
    """Return the connection that a segment opens which belongs to none."""
    return _new_engine(options, _ignore_frame).open(segment)[0]


def end_for_reuse(connection: Connection, opening: OpeningSyn, options: ReadOptions) -> int:
    """End a connection whose ports are used again; return how many frames came of that."""
    side = 0 if connection.key == opening.key else 1
    if connection.directions[side].opened_by(opening.sequence):
        raise UnstitchableError("a SYN that belongs to the earlier connection")
    return end_connection(connection, options)


def end_connection(connection: Connection, options: ReadOptions) -> int:
    """End a connection; return how many frames came of that."""
    before = frame_count(connection)
    _engine_with(connection, options, _ignore_frame).end(connection)
    return frame_count(connection) - before


def frame_count(connection: Connection) -> int:
    """Return how many frames a connection has given so far."""
    return sum(framer.frames for framer in connection.framers)


class Resumption:
    """A connection as it was before a piece, and a scout's notes on what became of it. Lives for one use."""

    def __init__(
        self, connection: Connection, notes: PrescanNotes, prescanned: Connection, options: ReadOptions
    ) -> None:
        self._connection = connection
        self._notes = notes
        self._prescanned = prescanned
        self._engine = _engine_with(connection, options, self._emit)
        self._packet = 0
        self._hints: list[DialectHint] = []
        # By direction as the scout numbers them, which may be the other way round.
        self._flipped = int(connection.key != prescanned.key)
        self._ack_shift: list[int | None] = [None, None]  #: of acknowledged offsets
        self._counts_at_sync: list[Counts | None] = [None, None]

    def resume(self) -> int:
        """Move the connection on to where the scout ended; return how many frames came of that."""
        if self._notes.syn_inside:
            raise UnstitchableError("a SYN inside a connection")
        before = frame_count(self._connection)
        for head in self._notes.head:
            self._feed_head(head)
        # What a direction's frames say counts if it was not ignored when the scout began to list them.
        heard = [self._counts_at_sync[side] is not None for side in (0, 1)]
        for side in (0, 1):
            self._advance(side)
        self._feed_detector(heard)
        self._connection.reset |= self._prescanned.reset
        self._connection.last_packet = self._prescanned.last_packet
        self._connection.last_ns = self._prescanned.last_ns
        return frame_count(self._connection) - before

    def _emit(self, _: Connection, side: int, frame: RawFrame) -> None:
        self._hints.append(DialectHint(self._packet, side, frame.data))

    def _feed_head(self, head: HeadSegment) -> None:
        """Feed a segment of the head to the engine."""
        segment, side = head.segment, head.side
        direction = self._connection.directions[side ^ self._flipped]
        if segment.flags & SYN and not direction.opened_by(segment.seq):
            raise UnstitchableError("a SYN that the prescan took for an older one")
        acks, shift = bool(segment.flags & ACK), self._ack_shift[side]
        if acks and shift is None and direction.ack is None:
            self._take_first_ack(head, direction)
        if acks and shift is not None:
            # Acknowledgements without data came between: the scout added them up.
            direction.ack, direction.acked = segment.ack, head.acked + shift
        self._packet = segment.packet
        self._engine.take(self._connection, side ^ self._flipped, segment)
        if acks and shift is None:
            self._ack_shift[side] = direction.acked - head.acked
        sync_point = self._notes.sync_points[side]
        if sync_point is not None and sync_point.packet == segment.packet:
            self._verify_sync_point(side, sync_point)

    def _take_first_ack(self, head: HeadSegment, direction: HalfConnection) -> None:
        """Take a direction's very first acknowledgement: what it is near to is where the other one was then."""
        other = 1 - head.side
        sync_point, joined = self._notes.sync_points[other], self._counts_at_sync[other]
        if self._notes.given_up[other] or (
            sync_point is not None and sync_point.packet < head.segment.packet and joined is None
        ):
            raise UnstitchableError("a first acknowledgement of an unknown offset")
        if sync_point is not None and joined is not None:
            sent, _ = self._sides(other)
            sent.next = head.other_next + joined.next - sync_point.counts.next
            direction.acknowledge(head.segment.ack, sent)
            sent.next = joined.next

    def _verify_sync_point(self, side: int, sync_point: SyncPoint) -> None:
        """Compare the direction with the scout's where that was in step."""
        direction, framer = self._sides(side)
        if framer.state is State.IGNORE:
            return
        by = self._ack_shift[side] or 0
        marks = tuple(mark._replace(acked=shifted(mark.acked, by)) for mark in sync_point.state.marks)
        if sync_state_of(direction, framer) != sync_point.state._replace(marks=marks):
            raise UnstitchableError("not in sync at the sync point")
        self._counts_at_sync[side] = counts_of(direction, framer)

    def _advance(self, side: int) -> None:
        """Move a direction on to the end of the piece."""
        direction, framer = self._sides(side)
        prescanned = self._prescanned.directions[side]
        sync_point, joined, by = self._notes.sync_points[side], self._counts_at_sync[side], self._ack_shift[side]
        if framer.state is State.IGNORE:
            _skip_ahead(direction, prescanned)
        elif self._notes.given_up[side]:
            raise UnstitchableError("no sync point")
        elif sync_point is not None:
            if joined is None or by is None:
                raise UnstitchableError("the sync point was not reached")
            self._adopt_prescan(side, sync_point, joined, by)
            return
        # All that it sent was played, but for acknowledgements and what ends it.
        direction.finished |= prescanned.finished
        if by is not None:
            direction.ack, direction.acked = prescanned.ack, prescanned.acked + by

    def _adopt_prescan(self, side: int, sync_point: SyncPoint, joined: Counts, by: int) -> None:
        """Put the scout's direction into the place of ours, with our offsets and counts."""
        ours, theirs = self._connection.directions[side ^ self._flipped], self._prescanned.directions[side]
        framer = self._prescanned.framers[side]
        counts = counts_of(theirs, framer)
        moved = joined.next - sync_point.counts.next
        theirs.shift(moved, by)
        framer.shift(moved, by)
        ours.next, ours.ack, ours.acked = theirs.next, theirs.ack, theirs.acked
        ours.finished |= theirs.finished
        ours.held, ours.held_cost = theirs.held, theirs.held_cost
        sums = [was + now - then for was, now, then in zip(joined, counts, sync_point.counts, strict=True)]
        set_counts(ours, framer, type(joined)(*sums))
        framers = list(self._connection.framers)
        framers[side ^ self._flipped] = framer
        self._connection.framers = (framers[0], framers[1])

    def _feed_detector(self, heard: list[bool]) -> None:
        """Let the detector hear of all frames that may tell something, in order."""
        detector = self._connection.detector
        listed = [each for each in self._notes.hints if each.side < 0 or heard[each.side]]
        turned = [each if each.side < 0 else each._replace(side=each.side ^ self._flipped) for each in listed]
        for each in sorted(self._hints + turned, key=attrgetter("packet")):
            if each.side == DIALECT_LIKELY and detector.dialect is Dialect.MEMCACHED:
                raise UnstitchableError("the dialect is not clear")
            if each.side == DIALECT_DECIDED and not detector.settled:
                raise UnstitchableError("the dialect is not decided")
            if each.side >= 0 and (not detector.settled or each.data[1:2] == _HELLO):
                detector.feed(each.side, each.data)

    def _sides(self, side: int) -> tuple[HalfConnection, Framer]:
        number = side ^ self._flipped
        return self._connection.directions[number], self._connection.framers[number]


def _skip_ahead(direction: HalfConnection, prescanned: HalfConnection) -> None:
    """Move a direction that nobody listens to any more on to where it is: what comes next is no hole."""
    if direction.base is not None and prescanned.base is not None:
        ahead = (prescanned.base + prescanned.next - direction.base - direction.next) % _WRAP
        direction.next += ahead if ahead < _WRAP // 2 else 0
        direction.held, direction.held_cost = [], 0


def _new_engine(options: ReadOptions, emit: Callable[[Connection, int, RawFrame], None]) -> Connections:
    return Connections(emit, options.limits, options.ports, dialect=options.dialect)


def _engine_with(
    connection: Connection, options: ReadOptions, emit: Callable[[Connection, int, RawFrame], None]
) -> Connections:
    """Return an engine that knows of one connection."""
    engine = _new_engine(options, emit)
    engine.live[reverse_key(connection.key)] = (connection, 1)
    engine.live[connection.key] = (connection, 0)
    return engine


def _ignore_frame(_: Connection, __: int, ___: RawFrame) -> None:
    """Take a frame that was counted elsewhere."""
