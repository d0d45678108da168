"""A connection resumed in a split: its head is fed to the engine, and after the sync points the prescan's end is taken.

Knows every part of a connection's state, and when two states that differ only in offsets go on alike. Nothing is
assumed: a direction adopts the prescan's end state only if the engine, fed with the same segments, is in sync at the
prescan's sync point, with the same bytes of the same packets buffered. Otherwise the conversation is unstitchable.
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
    """The prescan's notes contradict the state at the end of the split before, or leave a doubt."""


def open_connection(segment: TcpSegment, options: ReadOptions) -> Connection:
    """Return the connection that a segment opens if it belongs to none."""
    return _new_engine(options, _ignore_frame).open(segment)[0]


def end_for_reuse(connection: Connection, opening: OpeningSyn, options: ReadOptions) -> int:
    """End a connection whose ports are reused; return how many frames that releases."""
    side = 0 if connection.key == opening.key else 1
    if connection.directions[side].opened_by(opening.sequence, opening.length):
        raise UnstitchableError("a SYN that belongs to the earlier connection")
    return end_connection(connection, options)


def end_connection(connection: Connection, options: ReadOptions) -> int:
    """End a connection; return how many frames that releases."""
    before = frame_count(connection)
    _engine_with(connection, options, _ignore_frame).end(connection)
    return frame_count(connection) - before


def frame_count(connection: Connection) -> int:
    """Return how many frames a connection has given so far."""
    return sum(framer.frames for framer in connection.framers)


def waits_for_dialect(connection: Connection) -> bool:
    """Tell whether rows of a connection may depend on frames to come: see :mod:`dissector.frames.look_ahead`."""
    detector = connection.detector
    return detector.draft_forms > 0 and detector.may_be_draft


class Resumption:
    """A connection as it was before a split, and the prescan's notes on it in the split. For one use."""

    def __init__(
        self, connection: Connection, notes: PrescanNotes, prescanned: Connection, options: ReadOptions
    ) -> None:
        self._connection = connection
        self._notes = notes
        self._prescanned = prescanned
        self._engine = _engine_with(connection, options, self._emit)
        self._packet = 0
        self._hints: list[DialectHint] = []
        # Lists are by direction as the prescan numbers them, which may be the other way round.
        self._flipped = int(connection.key != prescanned.key)
        self._ack_shift: list[int | None] = [None, None]  #: from the prescan's acknowledged offsets to the true ones
        self._counts_at_sync: list[Counts | None] = [None, None]

    def resume(self) -> int:
        """Bring the connection to the end of the split; return how many frames that releases."""
        if self._notes.syn_inside:
            raise UnstitchableError("a SYN inside a connection")
        before = frame_count(self._connection)
        for head in self._notes.head:
            self._feed_head(head)
        # Hints of a direction count unless it was ignored when the prescan began to list them.
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
        if segment.flags & SYN and not direction.opened_by(segment.seq, segment.length):
            raise UnstitchableError("a SYN that the prescan took for an older one")
        acks, shift = bool(segment.flags & ACK), self._ack_shift[side]
        if acks and shift is None and direction.ack is None:
            self._take_first_ack(head, direction)
        if acks and shift is not None:
            # Acknowledgements without data are not in the head: the prescan has summed them up.
            direction.ack, direction.acked = segment.ack, head.acked + shift
        self._packet = segment.packet
        self._engine.take(self._connection, side ^ self._flipped, segment)
        if acks and shift is None:
            self._ack_shift[side] = direction.acked - head.acked
        sync_point = self._notes.sync_points[side]
        if sync_point is not None and sync_point.packet == segment.packet:
            self._verify_sync_point(side, sync_point)

    def _take_first_ack(self, head: HeadSegment, direction: HalfConnection) -> None:
        """Take a direction's first acknowledgement, relative to where the other direction was at that time."""
        other = 1 - head.side
        sync_point, counts_at_sync = self._notes.sync_points[other], self._counts_at_sync[other]
        if self._notes.given_up[other] or (
            sync_point is not None and sync_point.packet < head.segment.packet and counts_at_sync is None
        ):
            raise UnstitchableError("a first acknowledgement of an unknown offset")
        if sync_point is not None and counts_at_sync is not None:
            sent, _ = self._sides(other)
            sent.next = head.other_next + counts_at_sync.next - sync_point.counts.next
            direction.acknowledge(head.segment.ack, sent)
            sent.next = counts_at_sync.next

    def _verify_sync_point(self, side: int, sync_point: SyncPoint) -> None:
        """Compare the direction with the prescan's at the sync point."""
        direction, framer = self._sides(side)
        if framer.state is State.IGNORE:
            return
        ack_shift = self._ack_shift[side] or 0
        marks = tuple(mark._replace(acked=shifted(mark.acked, ack_shift)) for mark in sync_point.state.marks)
        if sync_state_of(direction, framer) != sync_point.state._replace(marks=marks):
            raise UnstitchableError("not in sync at the sync point")
        self._counts_at_sync[side] = counts_of(direction, framer)

    def _advance(self, side: int) -> None:
        """Bring a direction to the end of the split."""
        direction, framer = self._sides(side)
        prescanned = self._prescanned.directions[side]
        sync_point, ack_shift = self._notes.sync_points[side], self._ack_shift[side]
        counts_at_sync = self._counts_at_sync[side]
        if framer.state is State.IGNORE:
            _skip_ahead(direction, prescanned)
        elif self._notes.given_up[side]:
            raise UnstitchableError("no sync point")
        elif sync_point is not None:
            if counts_at_sync is None or ack_shift is None:
                raise UnstitchableError("the sync point was not reached")
            self._adopt_prescan(side, sync_point, counts_at_sync, ack_shift)
            return
        # The engine has seen all that the direction sent, except bare acknowledgements and its end.
        direction.finished |= prescanned.finished
        if ack_shift is not None:
            direction.ack, direction.acked = prescanned.ack, prescanned.acked + ack_shift

    def _adopt_prescan(self, side: int, sync_point: SyncPoint, counts_at_sync: Counts, ack_shift: int) -> None:
        """Replace a direction by the prescan's, with the true offsets and counters."""
        ours, theirs = self._connection.directions[side ^ self._flipped], self._prescanned.directions[side]
        framer = self._prescanned.framers[side]
        counts = counts_of(theirs, framer)
        moved = counts_at_sync.next - sync_point.counts.next
        theirs.shift(moved, ack_shift)
        framer.shift(moved, ack_shift)
        ours.next, ours.ack, ours.acked = theirs.next, theirs.ack, theirs.acked
        ours.finished |= theirs.finished
        ours.held, ours.held_cost = theirs.held, theirs.held_cost
        sums = [was + now - then for was, now, then in zip(counts_at_sync, counts, sync_point.counts, strict=True)]
        set_counts(ours, framer, type(counts_at_sync)(*sums))
        framers = list(self._connection.framers)
        framers[side ^ self._flipped] = framer
        self._connection.framers = (framers[0], framers[1])

    def _feed_detector(self, heard: list[bool]) -> None:
        """Feed the detector all frames that may tell the dialect, in order."""
        detector = self._connection.detector
        listed = [each for each in self._notes.hints if each.side < 0 or heard[each.side]]
        renumbered = [each if each.side < 0 else each._replace(side=each.side ^ self._flipped) for each in listed]
        for each in sorted(self._hints + renumbered, key=attrgetter("packet")):
            if each.side == DIALECT_LIKELY and not detector.likely:
                raise UnstitchableError("the dialect is not clear")
            if each.side == DIALECT_DECIDED and not detector.decided:
                raise UnstitchableError("the dialect is not decided")
            if each.side >= 0 and (not detector.decided or each.data[1:2] == _HELLO):
                detector.feed(each.side, each.data)

    def _sides(self, side: int) -> tuple[HalfConnection, Framer]:
        number = side ^ self._flipped
        return self._connection.directions[number], self._connection.framers[number]


def _skip_ahead(direction: HalfConnection, prescanned: HalfConnection) -> None:
    """Move an ignored direction to where it is now: what comes next is no hole."""
    if direction.base is not None and prescanned.base is not None:
        ahead = (prescanned.base + prescanned.next - direction.base - direction.next) % _WRAP
        direction.next += ahead if ahead < _WRAP // 2 else 0
        direction.held, direction.held_cost = [], 0


def _new_engine(options: ReadOptions, emit: Callable[[Connection, int, RawFrame], None]) -> Connections:
    return Connections(emit, options.limits, options.ports, dialect=options.dialect)


def _engine_with(
    connection: Connection, options: ReadOptions, emit: Callable[[Connection, int, RawFrame], None]
) -> Connections:
    """Return an engine that has one connection."""
    engine = _new_engine(options, emit)
    engine.live[reverse_key(connection.key)] = (connection, 1)
    engine.live[connection.key] = (connection, 0)
    return engine


def _ignore_frame(_: Connection, __: int, ___: RawFrame) -> None:
    """Drop a frame: only its count matters here."""
