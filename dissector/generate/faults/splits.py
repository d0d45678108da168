"""What more than one fault needs: room for a message, a snapshot sent in two parts, a parameter agreed upon in time.

Knows what a well-behaved producer would have written instead; must not know rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults import edits, stream_finder, window_sums
from dissector.generate.frame import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.faults.stream_finder import Snapshot
    from dissector.generate.scenario import Script


_ONE_MORE = 100  #: bytes; no message that faults add without a document is larger


def with_room(script: Script) -> Iterator[Snapshot]:
    """Go through the ordinary snapshots of connections whose window has room for one message more (FLC-02)."""
    full = {
        id(conversation)
        for conversation in script.conversations
        for row in window_sums.balances(conversation)
        if row.window and row.emission.frame.flow_bytes and row.outstanding + _ONE_MORE >= row.window
    }
    for each in stream_finder.ranges(script):
        if id(each.instance.conversation) not in full:
            yield each


def split(snapshot: Snapshot, at: int) -> Emission:
    """Announce the items from one on as a snapshot of their own; return its marker."""
    instance, frame = snapshot.instance, snapshot.marker.frame
    end, last = stream_finder.seqno(snapshot.items[at - 1]), snapshot.end
    fields = {**frame.fields, "snap_start_seqno": end + 1, "snap_end_seqno": last}
    frame.fields["snap_end_seqno"] = end
    if frame.fields.get("max_visible_seqno", 0) > end:
        frame.fields["max_visible_seqno"] = end
    return edits.put_before(instance.conversation, snapshot.items[at], instance.producer, frame.copy(fields=fields))


def agree(script: Script, conversation: Conversation, key: str, value: str) -> Emission:
    """Set one more parameter behind the others, and have it accepted; return the request."""
    last = [each for each in conversation if each.frame.name == "control" and each.frame.response][-1]
    opaque = edits.fresh_opaque(script, conversation)
    frame = Frame(last.frame.dialect, "control", key=key.encode(), value=value.encode(), opaque=opaque)
    asked = edits.put_after(conversation, last, 1 - last.side, frame)
    edits.put_after(conversation, asked, last.side, Frame(frame.dialect, "control", response=True, opaque=opaque))
    return asked
