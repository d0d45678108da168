"""The comment on a packet that carries a frame which proves a finding: its form, and how it is read back.

    RULE SEVERITY ROLE, MESSAGE: SENTENCE [uprscope FINDING; ROLE PACKET, ROLE PACKET, ...; CHECK]

People read the first half; the second half is for programs, the Wireshark plugin among them. Knows text only, neither
capture files nor the check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dissector.capture.pcapng_writer import LONGEST_COMMENT
from dissector.terminal.style import one_line

MARK = " [uprscope "  #: where the half for programs begins
_ELLIPSIS = "…"
_FORM = re.compile(
    r"(?P<rule>[A-Z]{3}-[0-9]{2}) (?P<severity>error|warning|info) (?P<role>[a-z_]+), "
    r"(?P<message>[a-z0-9_]+(?: response)?(?: vb [0-9]+)?(?: seqno [0-9]+)?): (?P<sentence>[^\r\n]*)"
    r" \[uprscope (?P<finding>(?P=rule)-[0-9a-f]{8}); (?P<packets>[a-z_]+ [0-9]{1,18}(?:, [a-z_]+ [0-9]{1,18})*)"
    r"; (?P<check>[0-9a-f]{8})\]"
)


@dataclass(frozen=True, slots=True)
class PacketComment:
    """The content of a comment."""

    rule: str
    severity: str
    role: str  #: what the packet's frame is to the finding: guilty, or the name of the evidence
    message: str  #: the frame, such as ``mutation vb 12 seqno 9``
    sentence: str  #: why the rule is broken
    finding: str  #: id of the finding
    packets: tuple[tuple[str, int], ...]  #: role and packet of each frame that proves it, the guilty one first

    def __str__(self) -> str:
        """Write the comment. A sentence that makes it too long is shortened; nothing else ever is."""
        listed = ", ".join(f"{role} {packet}" for role, packet in self.packets)
        head = f"{self.rule} {self.severity} {self.role}, {self.message}: "
        tail = f"{MARK}{self.finding}; {listed}"
        sentence = one_line(self.sentence)
        room = LONGEST_COMMENT - len(f"{head}{tail}; 00000000]".encode())
        if len(sentence.encode()) > room:
            cut = sentence.encode()[: max(room - len(_ELLIPSIS.encode()), 0)]
            sentence = cut.decode(errors="ignore") + _ELLIPSIS
        text = f"{head}{sentence}{tail}"
        return f"{text}; {checksum(text):08x}]"


def checksum(text: str) -> int:
    """Return the checksum of the text before it.

    It is no secret. It tells our comments from those that were edited by hand, were cut, or only look alike; and it is
    simple enough for every language that may read them.
    """
    value = 5381
    for byte in text.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def read_comment(text: str) -> PacketComment | None:
    """Read a comment; None: it is none of ours."""
    if len(text) > LONGEST_COMMENT:
        return None
    match = _FORM.fullmatch(text)
    if match is None or not text.isprintable():
        return None
    if checksum(text[: match.start("check") - 2]) != int(match["check"], 16):
        return None
    packets = (each.split(" ") for each in match["packets"].split(", "))
    return PacketComment(
        match["rule"],
        match["severity"],
        match["role"],
        match["message"],
        match["sentence"],
        match["finding"],
        tuple((role, int(packet)) for role, packet in packets),
    )
