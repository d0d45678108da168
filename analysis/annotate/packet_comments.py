"""Findings to comments on packets: which packet of the annotated copy gets which comments.

Packets are counted through all inputs. Reads the captures again for the names of the frames. Knows findings and packet
numbers; must not know capture files.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.annotate.comment import PacketComment
from analysis.check import transcript
from dissector.capture import CaptureReader
from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from analysis.check.findings import Finding
    from dissector.capture import Input
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions

#: What a comment says of a frame, and where it is. No key: user data is written only when it is asked for.
_COLUMNS = transcript.COLUMNS | {"name", "response", "vbucket", "by_seqno"}
_PLACES = frozenset(("capture", "capture_first", "packet_first", "packet_last", "missing"))
#: Comments on one packet, in bytes. A thousand findings may share a stream request; older versions of Wireshark read no
#: file that has a block of more than 16 MiB.
_MOST_BYTES = 8 << 20


class _FramePlace(NamedTuple):
    """A frame: what it is called, and its packet in the copy."""

    message: str
    packet: int


class PacketComments:
    """The comments of every packet, by its number in the copy."""

    def __init__(self, findings: Sequence[Finding], places: dict[int, _FramePlace]) -> None:
        self._places = places
        self._proofs: dict[int, list[tuple[Finding, int]]] = defaultdict(list)
        for finding in findings:
            for at, frame in enumerate(finding.frames):
                self._proofs[places[frame.frame].packet].append((finding, at))
        self.numbers: NDArray[np.int64] = np.array(sorted(self._proofs), np.int64)  #: packets that have comments
        self.left_out = 0  #: comments that were left out because their packet has too many

    def of(self, packet: int) -> list[bytes]:
        """Write the comments of a packet: those of the worst findings first."""
        texts: list[bytes] = []
        size = 0
        for finding, at in self._proofs.get(packet, ()):
            text = str(self._comment(finding, at)).encode()
            size += len(text)
            if size > _MOST_BYTES:
                self.left_out += 1
            else:
                texts.append(text)
        return texts

    def _comment(self, finding: Finding, at: int) -> PacketComment:
        frame = finding.frames[at]
        return PacketComment(
            finding.rule,
            finding.severity.value,
            frame.role,
            self._places[frame.frame].message,
            _told(finding, guilty=at == 0),
            finding.id,
            tuple((each.role, self._places[each.frame].packet) for each in finding.frames),
        )


def _told(finding: Finding, *, guilty: bool) -> str:
    """Return the finding's sentence; on the guilty frame also who is at fault, and what to look at next."""
    sentences = [finding.sentence]
    if guilty and finding.fault:
        sentences.append(f"At fault: {finding.fault}")
    if guilty and finding.next_step:
        # A copy may be anywhere: its comments do not depend on what the captures are called.
        name = re.escape(shlex.quote(finding.guilty.capture))
        step = re.sub(rf"(\buprscope \w+ ){name}(?![^\s`])", r"\1CAPTURE", finding.next_step)
        sentences.append(f"Next: {step}")
    return " ".join(f"{each.rstrip('.')}." for each in sentences)


def comments_for(
    inputs: Sequence[Input],
    options: ReadOptions,
    findings: Sequence[Finding],
    watch: Callable[[BatchReader], Callable[[], None]] | None = None,
) -> PacketComments:
    """Make the comments for a copy of ``inputs``, which are in the order in which they are read and copied."""
    chosen = dataclasses.replace(options, columns=_COLUMNS | _PLACES, document_keys=False)
    rows = transcript.read(inputs, chosen, findings, watch, neighbours=0).rows
    for frame in (frame for finding in findings for frame in finding.frames):
        if frame.frame not in rows:
            raise InputError(f"{frame.capture}: changed while it was being checked")
    index = {each.name: at for at, each in enumerate(inputs)}
    packets = {number: _packet(row) for number, row in rows.items()}
    last = max((index[capture] for capture, _ in packets.values()), default=0)
    before = _packets_before(inputs[:last])
    places = {
        number: _FramePlace(_message(rows[number]), before[index[capture]] + packet)
        for number, (capture, packet) in packets.items()
    }
    return PacketComments(findings, places)


def _packet(row: dict[str, Any]) -> tuple[str, int]:
    """Return the packet that gets a frame's comment: where it ends; or where it begins, if its end was not captured."""
    if row["missing"]:
        return row["capture_first"], row["packet_first"]
    return row["capture"], row["packet_last"]


def _message(row: dict[str, Any]) -> str:
    """Name a frame. Seqnos of 2^63-1 and more are all 2^63-1 in the rows."""
    parts = [row["name"]]
    if row["response"]:
        parts.append("response")
    if row["vbucket"] is not None:
        parts.append(f"vb {row['vbucket']}")
    if row["by_seqno"] is not None:
        parts.append(f"seqno {row['by_seqno']}")
    return " ".join(parts)


def _packets_before(inputs: Sequence[Input]) -> list[int]:
    """Count the packets before each of the inputs, and those of all of them."""
    before = [0]
    for each in inputs:
        with CaptureReader(each) as reader:
            for _ in reader:
                pass
        before.append(before[-1] + reader.packets)
    return before
