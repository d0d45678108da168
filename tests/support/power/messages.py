"""One message of a recorded connection, taken apart with ``struct``: the header's fields and the parts behind it.

The bytes are put together from the parts, unless an edit wants a header that contradicts them: ``overrides`` holds
header fields that are written as they are, and ``tail`` bytes that no header accounts for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

HEADER = struct.Struct(">BBHBBHI4sQ")
FLEXIBLE = (0x08, 0x18)
RESPONSES = (0x81, 0x18, 0x83)
MAGICS = (0x80, 0x81, 0x82, 0x83, 0x08, 0x18)

HELLO, OPEN, ADD_STREAM, CLOSE_STREAM, STREAM_REQUEST, FAILOVER_LOG = 0x1F, 0x50, 0x51, 0x52, 0x53, 0x54
STREAM_END, MARKER, MUTATION, DELETION, EXPIRATION = 0x55, 0x56, 0x57, 0x58, 0x59
STATE, NOOP, ACK, CONTROL, EVENT = 0x5B, 0x5C, 0x5D, 0x5E, 0x5F
PREPARE, SEQNO_ACK, COMMIT, ABORT, ADVANCED, OSO, CACHE, CACHE_END = 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67

REVISED = (MUTATION, DELETION, EXPIRATION, PREPARE)
DOCUMENTS = (*REVISED, COMMIT, ABORT)
DATA = (*DOCUMENTS, EVENT, ADVANCED)
COUNTED = (*DATA, STREAM_END, MARKER, STATE, OSO, CACHE, CACHE_END)
OF_STREAMS = COUNTED

MEMORY, DISK, CHECKPOINT, ACKNOWLEDGE, HISTORY, DUPLICATES = 1, 2, 4, 8, 16, 32


@dataclass(slots=True)
class Message:
    """A message, who sent it and when, and the last message of the other side that had reached its sender by then."""

    uid: int
    side: int  #: 0 the side that connected, 1 the other
    time: float
    heard: int  #: uid of the other side's last message that TCP had acknowledged; -1 none
    magic: int
    opcode: int
    datatype: int
    number: int  #: vbucket of a request, status of a response
    opaque: bytes
    cas: int
    framing: bytes
    extras: bytes
    key: bytes
    value: bytes
    overrides: dict[str, int] = field(default_factory=dict)
    tail: bytes = b""
    kept: bool = False  #: an ack whose bytes are meant as they are
    odd: bool = False  #: made by a server with a framing length that is wrong: no place for edits

    @property
    def response(self) -> bool:
        return self.magic in RESPONSES

    @property
    def request(self) -> bool:
        return self.magic not in RESPONSES

    @property
    def body(self) -> bytes:
        return self.framing + self.extras + self.key + self.value

    @property
    def size(self) -> int:
        """What flow control counts: the frame, and two bytes more for a prepare."""
        return 24 + len(self.body) + (2 if self.opcode == PREPARE else 0)

    @property
    def counted(self) -> bool:
        return self.request and self.opcode in COUNTED

    @property
    def stream_id(self) -> int:
        """The stream id in the framing extras; 0 without."""
        if len(self.framing) >= 3 and self.framing[0] == 0x22:
            return int.from_bytes(self.framing[1:3])
        return 0

    def pack(self) -> bytes:
        """The bytes on the wire."""
        lengths = {"key": len(self.key), "extras": len(self.extras), "framing": len(self.framing)}
        lengths["body"] = len(self.body)
        lengths |= self.overrides
        key = lengths["framing"] << 8 | lengths["key"] if self.magic in FLEXIBLE else lengths["key"]
        head = (self.magic, self.opcode, key & 0xFFFF, lengths["extras"], self.datatype, self.number, lengths["body"])
        return HEADER.pack(*head, self.opaque, self.cas) + self.body + self.tail

    # --- fields of the extras -------------------------------------------------------------------------------------

    def at(self, offset: int, length: int = 8) -> int:
        """A number in the extras."""
        return int.from_bytes(self.extras[offset : offset + length])

    def put(self, offset: int, number: int, length: int = 8) -> None:
        """Write a number into the extras."""
        self.extras = self.extras[:offset] + number.to_bytes(length) + self.extras[offset + length :]

    @property
    def seqno_at(self) -> int:
        return 8 if self.opcode in (COMMIT, ABORT) else 0

    @property
    def seqno(self) -> int:
        return self.at(self.seqno_at)

    @seqno.setter
    def seqno(self, number: int) -> None:
        self.put(self.seqno_at, number)

    @property
    def revision(self) -> int:
        return self.at(8)

    @revision.setter
    def revision(self, number: int) -> None:
        self.put(8, number)

    def _marker(self, offset: int, length: int) -> int:
        place = self.value if len(self.extras) == 1 else self.extras
        return int.from_bytes(place[offset : offset + length])

    def _put_marker(self, offset: int, length: int, number: int) -> None:
        if len(self.extras) == 1:
            self.value = self.value[:offset] + number.to_bytes(length) + self.value[offset + length :]
        else:
            self.put(offset, number, length)

    @property
    def ranged(self) -> bool:
        """Whether this is a marker with a range."""
        return self.opcode == MARKER and self.request and (len(self.extras) == 20 or len(self.value) >= 36)

    @property
    def first(self) -> int:
        return self._marker(0, 8)

    @first.setter
    def first(self, number: int) -> None:
        self._put_marker(0, 8, number)

    @property
    def last(self) -> int:
        return self._marker(8, 8)

    @last.setter
    def last(self, number: int) -> None:
        self._put_marker(8, 8, number)

    @property
    def flags(self) -> int:
        return self._marker(16, 4)

    @flags.setter
    def flags(self, number: int) -> None:
        self._put_marker(16, 4, number)

    def copied(self) -> Message:
        """A copy that can be edited."""
        own = self.uid, self.side, self.time, self.heard, self.magic, self.opcode, self.datatype, self.number
        parts = self.opaque, self.cas, self.framing, self.extras, self.key, self.value
        return Message(*own, *parts, dict(self.overrides), self.tail, self.kept, self.odd)


def parse(data: bytes) -> list[tuple[int, tuple[object, ...]]]:
    """Cut one direction's bytes into messages: where each begins, and its fields; other bytes are a ValueError."""
    found = []
    place = 0
    while place < len(data):
        if len(data) - place < 24 or data[place] not in MAGICS:
            raise ValueError(f"no message at byte {place}")
        magic, opcode, key, extras, datatype, number, body, opaque, cas = HEADER.unpack_from(data, place)
        framing, key = (key >> 8, key & 0xFF) if magic in FLEXIBLE else (0, key)
        end = place + 24 + body
        if framing + extras + key > body or end > len(data):
            raise ValueError(f"lengths at byte {place}")
        odd = magic == 0x08 and opcode in (DELETION, EXPIRATION) and not framing and data[place + 24] == 0x22
        cuts = [
            place + 24,
            place + 24 + framing,
            place + 24 + framing + extras,
            place + 24 + framing + extras + key,
            end,
        ]
        parts = [data[cuts[i] : cuts[i + 1]] for i in range(4)]
        found.append((place, (magic, opcode, datatype, number, opaque, cas, *parts, odd)))
        place = end
    return found
