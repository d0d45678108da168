"""What became of every packet: the reasons, and the sums kept of them.

``packets == segments + sum(dropped)`` holds at any time: a packet gives one segment or one reason. Notes are beside
that sum: things worth knowing about packets that may still have given a segment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from dissector.link.assigned_numbers import UNREAD_LINKTYPES


class Reason(StrEnum):
    """Why a packet gave no TCP segment. The values are stable: reports and tests name them."""

    NOT_IP = "not-ip"
    NOT_TCP = "not-tcp"
    ENCRYPTED = "encrypted"
    TRUNCATED_LINK = "truncated-link"
    TRUNCATED_IP = "truncated-ip"
    TRUNCATED_TUNNEL = "truncated-tunnel"
    TRUNCATED_TCP = "truncated-tcp"
    BAD_HEADER = "bad-header"
    UNSUPPORTED_LINKTYPE = "unsupported-linktype"
    UNSUPPORTED_TUNNEL = "unsupported-tunnel"
    TOO_DEEP = "too-deep"
    FRAGMENT_HELD = "fragment-held"
    FRAGMENT_OVERSIZE = "fragment-oversize"


class Note(StrEnum):
    """What was remarkable about packets, whether or not they gave a segment. Stable values, as above."""

    BAD_IP_CHECKSUM = "bad-ip-checksum"
    BAD_TCP_CHECKSUM = "bad-tcp-checksum"
    FRAGMENT_REASSEMBLED = "fragment-reassembled"
    FRAGMENT_OVERLAP = "fragment-overlap"
    FRAGMENT_EVICTED = "fragment-evicted"
    FRAGMENT_PENDING = "fragment-pending"


_UNREAD = (
    ((Reason.UNSUPPORTED_TUNNEL,), "in tunnels that are not read"),
    ((Reason.ENCRYPTED,), "encrypted (IPsec, MACsec or DTLS)"),
    ((Reason.TOO_DEEP,), "with more headers inside one another than are followed"),
    (
        (Reason.TRUNCATED_LINK, Reason.TRUNCATED_IP, Reason.TRUNCATED_TUNNEL, Reason.TRUNCATED_TCP),
        "cut before the end of the TCP header: a larger snap length is needed",
    ),
)


@dataclass(slots=True)
class LinkCounts:
    """Sums over any number of packets; those of several blocks or captures can be merged.

    ``FRAGMENT_HELD`` counts fragments that did not complete their datagram when they came; the one that does gives the
    segment. What became of the held ones is told in notes, per fragment: ``FRAGMENT_EVICTED`` by a limit or the
    time-out, ``FRAGMENT_PENDING`` still incomplete at the end. ``FRAGMENT_REASSEMBLED`` counts datagrams.
    """

    packets: int = 0
    segments: int = 0
    dropped: Counter[Reason] = field(default_factory=Counter)
    noted: Counter[Note] = field(default_factory=Counter)
    linktypes: Counter[int] = field(default_factory=Counter)
    """Packets per link type that is not supported."""

    def drop(self, reason: Reason, packets: int = 1) -> None:
        """Count packets that gave no segment."""
        if packets:
            self.dropped[reason] += packets

    def note(self, note: Note, times: int = 1) -> None:
        """Count something remarkable."""
        if times:
            self.noted[note] += times

    def unsupported(self, linktype: int, packets: int = 1) -> None:
        """Count packets of a link type that no decoder here reads."""
        self.drop(Reason.UNSUPPORTED_LINKTYPE, packets)
        self.linktypes[linktype] += packets

    def merge(self, other: LinkCounts) -> None:
        """Add another sum to this one."""
        self.packets += other.packets
        self.segments += other.segments
        self.dropped.update(other.dropped)
        self.noted.update(other.noted)
        self.linktypes.update(other.linktypes)

    def unread(self) -> list[str]:
        """Return a sentence for each kind of packet that may have had TCP in it."""
        kinds = (
            f"{each} ({name})" if (name := UNREAD_LINKTYPES.get(each)) else f"{each}" for each in sorted(self.linktypes)
        )
        sentences = (((Reason.UNSUPPORTED_LINKTYPE,), f"of link types that are not read: {', '.join(kinds)}"), *_UNREAD)
        counted = ((sum(self.dropped[reason] for reason in reasons), sentence) for reasons, sentence in sentences)
        return [f"{count:,} packet{'s' if count > 1 else ''} {sentence}" for count, sentence in counted if count]

    def as_dict(self) -> dict[str, int]:
        """Return every sum that is not zero under its stable id, an unsupported link type with its number."""
        named = {"packets": self.packets, "tcp-segments": self.segments}
        named.update({reason.value: self.dropped[reason] for reason in Reason if self.dropped[reason]})
        named.update({note.value: self.noted[note] for note in Note if self.noted[note]})
        for linktype in sorted(self.linktypes):
            named[f"{Reason.UNSUPPORTED_LINKTYPE.value}-{linktype}"] = self.linktypes[linktype]
        return named
