"""What is known of one vbucket stream, and what is remembered of the streams of one live connection.

Plain records and two small readings; :mod:`dissector.summary.streams` fills them in.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dissector.frames.batch import NOTHING
from dissector.frames.pairing import PendingRequests
from dissector.spec import registry

if TYPE_CHECKING:
    from dissector.summary.connections import ConnectionSummary

#: Answers without a request, and closes without an answer, are remembered up to here, per connection.
MAX_PENDING = 4096
_SID = re.compile(r'"sid"\s*:\s*(\d{1,5})\b')


@dataclass(slots=True, eq=False)
class StreamSummary:
    """A stream request, or a stream whose request was not captured."""

    connection: ConnectionSummary
    producer: int  #: direction of its messages
    vbucket: int | None
    stream_id: int | None
    opaque: int
    start_ns: int
    draft: bool = False
    request_frame: int | None = None
    requested: dict[str, int | None] = field(default_factory=dict)
    status: str | None = None
    status_code: int | None = None
    rollback_seqno: int | None = None
    started: bool = False
    closed: bool = False
    replaced: bool = False
    answer_ns: int | None = None
    answer_acked: int = NOTHING  #: bytes of the consumer's direction that had arrived when the answer was sent


class PendingStream(NamedTuple):
    """A stream whose request waits for an answer."""

    number: int
    vbucket: int
    stream_id: int | None


@dataclass(slots=True)
class ConnectionStreams:
    """What is remembered of a live connection: numbers of streams."""

    current: dict[int, int] = field(default_factory=dict)  #: stream key to the latest stream
    #: Streams whose requests wait for an answer, by direction and opaque.
    pending: PendingRequests[PendingStream] = field(default_factory=PendingRequests)
    #: Streams that were answered and not requested, by direction of the answer and opaque.
    unrequested: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Of these, those whose vbucket is not known yet.
    without_vbucket: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Stream keys without direction that a close stream is to close, by direction and opaque.
    closing: PendingRequests[int] = field(default_factory=lambda: PendingRequests(MAX_PENDING))


def requested_stream_id(text: str | None) -> int | None:
    """Return the stream id that a request asks for: a member of its JSON value, of which servers keep 16 bits."""
    if not text or '"sid"' not in text:
        return None
    try:
        value = json.loads(text)
        found = value.get("sid") if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        match = _SID.search(text)  # rows keep the first few thousand bytes only
        found = int(match[1]) if match else None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        return None
    return found & 0xFFFF


def status_name(status: int | None) -> str | None:
    """Return a status's name, or its number."""
    return None if status is None else registry.status_name(status) or f"0x{status:04x}"
