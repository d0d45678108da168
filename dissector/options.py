"""Options of a reading of captures, and the report of what was read beside the frames."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.link.drop_counts import LinkCounts
from dissector.tcp.limits import Limits
from dissector.tcp.other_protocols import OtherProtocols
from dissector.tcp.ports import DEFAULT_PORTS, Ports

if TYPE_CHECKING:
    from dissector.capture import Damage
    from dissector.pseudonyms import Pseudonyms
    from dissector.spec.model import Dialect
    from dissector.tcp.connections import Connection


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How captures are to be read."""

    limits: Limits = field(default_factory=Limits)
    ports: Ports = DEFAULT_PORTS
    dialect: Dialect | None = None  #: taken for granted on every connection
    values: bool = False  #: keep values in the rows
    document_keys: bool = True  #: False: keys of documents may be null in the rows; their hashes never are
    columns: frozenset[str] | None = None  #: make these columns only; None: all
    count_ignored: bool = False  #: count the bytes of connections of other protocols to their end, for their rows
    inspect: bool = False  #: look into documents: whether they are what their datatype says
    withhold_secrets: bool = True  #: that is log-ins, keys and tokens
    pseudonyms: Pseudonyms | None = None  #: replace user data before it becomes rows
    separate: bool = False  #: every file stands alone: connections do not go on in the next one
    live: bool = False  #: somebody watches: of what happens now, less is waited for (tcp/patience.py)
    chunk_bytes: int | None = None  #: None: the size in ``capture.chunk_sizes`` for what is read


@dataclass(slots=True)
class ReadReport:
    """What became of everything that is no frame. Filled while frames are read; complete after the last one."""

    link: LinkCounts = field(default_factory=LinkCounts)
    damage: list[Damage] = field(default_factory=list)
    given_up: Counter[str] = field(default_factory=Counter)  #: names of limits that were reached, and how often
    connections: int = 0
    connections_ignored: int = 0  #: another protocol
    others: OtherProtocols = field(default_factory=OtherProtocols)  #: what those speak
    frames: int = 0
    bytes_lost: int = 0
    bytes_skipped: int = 0
    bytes_repeated: int = 0
    bytes_conflicting: int = 0

    def ended(self, connection: Connection) -> None:
        """Add a connection that is over."""
        self.connections += 1
        framers = connection.framers
        if not any(framer.frames for framer in framers):
            self.connections_ignored += 1
            self.others.add(connection)
            return
        for framer, direction in zip(framers, connection.directions, strict=True):
            self.bytes_skipped += framer.bytes_skipped
            self.bytes_lost += direction.bytes_lost
            self.bytes_repeated += direction.bytes_repeated
            self.bytes_conflicting += direction.bytes_conflicting

    def seen_instead(self, messages: int = 0) -> str:
        """Say what was there where no message of UPR or DCP was; so many messages of memcached were."""
        others = self.others.sentence()
        if messages:
            plain = f"plain memcached ({messages:,} message{'s' if messages > 1 else ''})"
            return f"{plain}; {others}" if others else plain
        if others:
            return others
        packets = f"{self.link.packets:,} packet{'s' if self.link.packets != 1 else ''}"
        return f"{packets}, but no TCP connection with data" if self.link.packets else "nothing"

    def losses(self) -> list[str]:
        """Return a sentence for each kind of loss."""
        lines = [str(damage) for damage in self.damage]
        if self.bytes_lost:
            lines.append(f"{self.bytes_lost:,} bytes of TCP streams are not in the capture")
        if self.bytes_skipped:
            lines.append(f"{self.bytes_skipped:,} bytes could not be read as frames")
        lines += [f"limit reached: {name} ({count} times)" for name, count in sorted(self.given_up.items())]
        return lines
