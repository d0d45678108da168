"""Connections that take notes: what the prescan can know of the conversations in its split.

Extends the TCP engine. What it makes of a connection whose beginning it has not seen is a guess until ``resume`` has
verified it at the sync point, so a wrong guess costs time, never a wrong row. Two things must be exact: the head is
complete, and the state of one connection never depends on another (where a limit shared by connections decides, the
conversation is reported as lost).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from analysis.spark.partitioning import conversation_key
from analysis.spark.split.records import (
    DIALECT_DECIDED,
    DIALECT_LIKELY,
    UNSYNCED_OFFSET,
    ConversationNotes,
    DialectHint,
    HeadSegment,
    OpeningSyn,
    PrescanNotes,
    sync_point_of,
)
from analysis.spark.split.resume import frame_count
from dissector.codec.dialect_evidence import HELLO, IS_DRAFT_OPCODE, IS_EVIDENCE, SAYS_MORE
from dissector.link.flow_key import reverse_key
from dissector.link.segment_block import ACK, SYN
from dissector.spec import enums, fingerprints
from dissector.spec.model import MessageType
from dissector.tcp.connections import Connections
from dissector.tcp.framing import PREFIX_BYTES, Framer, State
from dissector.tcp.limits import SEGMENT_OVERHEAD
from dissector.tcp.reassembly import HalfConnection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection, TcpSegment
    from dissector.tcp.fast_path import SequentialPath
    from dissector.tcp.frame_table import FrameTable

#: Bytes of a direction's head, and of all heads in a split. More is not kept: shuffling the segments is cheaper.
HEAD_BYTES, HEADS_BYTES = 2 << 20, 64 << 20
#: Hints that are kept of a connection until its dialect is decided.
HINT_FRAMES = 1024
#: A hole before a sync point is given up after so many segments: its bytes were in an earlier split, or lost.
_HELD_SEGMENTS = 8

_RESPONSE = np.zeros(256, bool)
_RESPONSE[[magic.value for magic in enums.MAGICS if magic.direction is MessageType.RESPONSE]] = True


class _UnsyncedHalf(HalfConnection):
    """A direction that is followed from the middle of its stream."""

    __slots__ = ()

    def acknowledge(self, ack: int, other: HalfConnection) -> int:
        """Take an acknowledgement; the first is no evidence of the other direction's offset, which may be far ahead."""
        if self.ack is None:
            self.ack, self.acked = ack, UNSYNCED_OFFSET
        return super().acknowledge(ack, other)


class PrescanConnections(Connections):
    """Connections that take notes."""

    def __init__(self, slow: SequentialPath, options: ReadOptions, *, first: bool) -> None:
        super().__init__(slow.emit, options.limits, options.ports, dialect=options.dialect)
        self.notes: dict[bytes, ConversationNotes] = {}  #: by conversation
        self.unsynced: dict[int, PrescanNotes] = {}  #: by connection, those that began before the split
        self.lost: set[bytes] = set()  #: conversations dropped since the caller last cleared this
        self._first = first
        self._sizes: Counter[tuple[int, int]] = Counter()  #: bytes of heads, by connection and direction
        self._kept = 0

    def feed(self, segment: TcpSegment) -> None:
        """Take the next segment of the split."""
        found = self.live.get(segment.key)
        if segment.flags & SYN and found is not None:
            connection, side = found
            # Here a SYN of an older connection can't be told from one of a new connection: assume a new one.
            belongs = connection.directions[side].opened_by(segment.seq, segment.length)
            if not belongs or (connection.index in self.unsynced and not segment.flags & ACK):
                self._replace(connection, segment)
                found = None
        connection, side = found if found is not None else self.open(segment)
        if segment.packet >= connection.last_packet:
            self.touch(connection, segment.packet, segment.time_ns)
        self.take(connection, side, segment)

    def open(self, segment: TcpSegment) -> tuple[Connection, int]:
        """Make a connection for a segment that belongs to none."""
        entry = super().open(segment)
        connection = entry[0]
        conversation, _ = conversation_key(segment.key)
        notes = self.notes.get(conversation)
        if notes is None:
            notes = self.notes[conversation] = ConversationNotes(packet=segment.packet)
            if not self._first and segment.flags & (SYN | ACK) == SYN:
                notes.opening = OpeningSyn(segment.key, segment.seq, segment.length)
            elif not self._first:
                notes.earlier_notes, notes.earlier_state = self._follow_unsynced(connection, segment), connection
        if connection.index not in self.unsynced:
            notes.state, notes.began = connection, segment.packet
        if reverse_key(segment.key) == segment.key:
            self.lost.add(conversation)  # both directions have one key: the side would be a guess
        return entry

    def _follow_unsynced(self, connection: Connection, segment: TcpSegment) -> PrescanNotes:
        """Begin notes on a connection from an earlier split, and give it offsets of its own."""
        notes = self.unsynced[connection.index] = PrescanNotes(segment._replace(data=b""))
        connection.directions = (_UnsyncedHalf(next=UNSYNCED_OFFSET), _UnsyncedHalf(next=UNSYNCED_OFFSET))
        if connection.ignored:
            notes.given_up = [True, True]
        _note_dialect(notes, connection, segment.packet)
        return notes

    def take(self, connection: Connection, side: int, segment: TcpSegment) -> None:
        """Take a segment of a known connection."""
        notes = self.unsynced.get(connection.index)
        if notes is None or notes.sync_points[side] is not None:
            super().take(connection, side, segment)
            if notes is not None and segment.flags & SYN:
                notes.syn_inside = True
            return
        if connection.ignored and not segment.flags & SYN:
            return
        direction, framer = connection.directions[side], connection.framers[side]
        first = direction.ack is None and bool(segment.flags & ACK)
        super().take(connection, side, segment)
        if segment.length or segment.flags & SYN or first:
            self._keep(notes, connection, side, segment, always=bool(segment.flags & SYN) or first)
        if len(direction.held) > _HELD_SEGMENTS:
            self.give_up_hole(connection, side)
        if not notes.given_up[side]:
            notes.sync_points[side] = sync_point_of(segment.packet, direction, framer)

    def _keep(
        self, notes: PrescanNotes, connection: Connection, side: int, segment: TcpSegment, *, always: bool
    ) -> None:
        """Keep a segment of a head while there is room; without its data also later, if it is ``always`` needed."""
        kept = HeadSegment(segment, side, connection.directions[side].acked, connection.directions[1 - side].next)
        if not notes.given_up[side]:
            size = len(segment.data) + SEGMENT_OVERHEAD
            self._sizes[connection.index, side] += size
            self._kept += size
            if self._sizes[connection.index, side] > HEAD_BYTES or self._kept > HEADS_BYTES:
                self._give_up_head(notes, connection, side)
        if not notes.given_up[side]:
            notes.head.append(kept)
        elif always:
            notes.head.append(_without_data(kept))

    def _give_up_head(self, notes: PrescanNotes, connection: Connection, side: int) -> None:
        """Stop following a direction: its head would cost more than shuffling its segments."""
        notes.given_up[side] = True
        own = [each for each in notes.head if each.side == side]
        kept = {id(each) for each in own if each.segment.flags & SYN}
        kept |= {id(each) for each in [each for each in own if each.segment.flags & ACK][:1]}
        notes.head = [
            each if each.side != side else _without_data(each)
            for each in notes.head
            if each.side != side or id(each) in kept
        ]
        self._kept -= self._sizes.pop((connection.index, side))
        direction, framer = connection.directions[side], connection.framers[side]
        self.held_total -= direction.held_cost
        self.partial_total -= framer.cost
        direction.held, direction.held_cost = [], 0
        connection.framers = _with_framer(
            connection.framers, side, Framer(self.limits, State.IGNORE, forced=framer.forced)
        )

    def _replace(self, connection: Connection, segment: TcpSegment) -> None:
        """End a connection whose ports are reused."""
        notes = self.notes[conversation_key(segment.key)[0]]
        if self.unsynced.pop(connection.index, None) is None:
            self.end(connection)
            notes.frames += frame_count(connection)
            return
        notes.opening = OpeningSyn(segment.key, segment.seq, segment.length)
        # Stitching ends it from its true state; here it is only removed.
        self.held_total -= sum(direction.held_cost for direction in connection.directions)
        self.partial_total -= sum(framer.cost for framer in connection.framers)
        del self.live[connection.key]
        self.live.pop(reverse_key(connection.key), None)
        self.recent.pop(connection.index, None)

    def _evict(self) -> None:
        oldest = next(iter(self.recent.values()))
        self._note_lost(oldest)
        super()._evict()
        self.unsynced.pop(oldest.index, None)
        self.notes.pop(conversation_key(oldest.key)[0], None)

    def _relieve(self) -> None:
        before = [(each, _held_costs(each)) for each in self.connections()]
        super()._relieve()
        for connection, held in before:
            if _held_costs(connection) != held:
                self._note_lost(connection)

    def _note_lost(self, connection: Connection) -> None:
        """Note that a limit of this task, not of the run, decided about a connection."""
        self.lost.add(conversation_key(connection.key)[0])

    def feed_detectors(self, table: FrameTable) -> None:
        """Feed the frames of a block that may tell a dialect to the detectors, and list them as hints."""
        if not len(table):
            return
        source = np.frombuffer(table.stream, np.uint8)
        opcode = source[table.position + 1]
        detectors = [connection.detector for connection in table.connections]
        decided = np.array([detector.decided for detector in detectors], bool)[table.connection]
        hello = opcode == HELLO
        chosen = hello | (~decided & IS_EVIDENCE[opcode])
        if not chosen.any():
            return
        # Without a fingerprint, a request says no more once two of its kind have made the connection UPR.
        likely = np.array([detector.likely for detector in detectors], bool)
        indecisive = likely[table.connection] & ~SAYS_MORE[opcode, source[table.position + 4]]
        chosen &= hello | (~indecisive & ~_without_hint(source, table.position))
        for index in np.flatnonzero(chosen).tolist():
            connection = table.connections[table.connection[index]]
            detector, side = connection.detector, int(table.side[index])
            notes = self.unsynced.get(connection.index)
            if notes is not None:
                self._add_hint(notes, side, table, index, hello=bool(hello[index]))
            if hello[index] or not detector.decided:
                detector.feed(side, table.data(index))
            if notes is not None:
                _note_dialect(notes, connection, int(table.released[index]))

    def _add_hint(self, notes: PrescanNotes, side: int, table: FrameTable, index: int, *, hello: bool) -> None:
        sync_point, released = notes.sync_points[side], int(table.released[index])
        if sync_point is None or released <= sync_point.packet:
            return  # part of the head: the engine will see it there
        if hello or not notes.dialect_decided:
            data = table.data(index)
            notes.hints.append(DialectHint(released, side, data if hello else data[:PREFIX_BYTES]))
        if not notes.dialect_decided and len(notes.hints) >= HINT_FRAMES:
            notes.dialect_decided = True
            notes.hints.append(DialectHint(released, DIALECT_DECIDED, b""))


def _note_dialect(notes: PrescanNotes, connection: Connection, packet: int) -> None:
    """Note from which packet on most frames add nothing about the dialect."""
    detector = connection.detector
    if detector.decided and not notes.dialect_decided:
        notes.dialect_decided = True
        notes.hints.append(DialectHint(packet, DIALECT_DECIDED, b""))
    elif detector.likely and not (notes.dialect_decided or notes.dialect_likely):
        notes.dialect_likely = True
        notes.hints.append(DialectHint(packet, DIALECT_LIKELY, b""))


def _without_hint(source: NDArray[np.uint8], position: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which frames never tell a dialect: requests and responses of every key-value client."""
    magic, opcode, extras = source[position], source[position + 1], source[position + 4]
    has_key = (source[position + 2] | source[position + 3]) > 0
    # Answers that have a datatype and no value are those of the draft, or may be.
    has_value = (source[position + 8] | source[position + 9] | source[position + 10] | source[position + 11]) > 0
    usual = has_value | (source[position + 5] == 0)
    response = _RESPONSE[magic]
    common = np.where(
        response,
        ~has_key & (opcode != fingerprints.DRAFT_RESPONSE) & usual,
        has_key & (extras == fingerprints.SET_EXTRAS),
    )
    found: NDArray[np.bool_] = IS_DRAFT_OPCODE[opcode] & common
    return found


def _without_data(head: HeadSegment) -> HeadSegment:
    return head._replace(segment=head.segment._replace(data=b"", length=0))


def _with_framer(framers: tuple[Framer, Framer], side: int, framer: Framer) -> tuple[Framer, Framer]:
    return (framers[0], framer) if side else (framer, framers[1])


def _held_costs(connection: Connection) -> tuple[int, ...]:
    return (*(each.held_cost for each in connection.directions), *(each.cost for each in connection.framers))
