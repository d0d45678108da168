"""What each message is to a stream, by opcode: data, marker, end, request, answer. From the spec's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.frames.batch import DRAFT, PLAIN, PROTO
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE, ITEM, MARKER, END, OTHER, REQUEST, ANSWER, CLOSE = range(8)

_CLASSES = {
    **dict.fromkeys(("mutation", "deletion", "expiration", "system_event", "prepare", "commit", "abort"), ITEM),
    "seqno_advanced": ITEM,
    **dict.fromkeys(("snapshot_marker", "snapshot_start"), MARKER),
    "stream_end": END,
    **dict.fromkeys(("flush", "set_vbucket_state", "oso_snapshot", "snapshot_end", "stream_start"), OTHER),
    **dict.fromkeys(("cache_transfer", "cache_transfer_end"), OTHER),
    "stream_request": REQUEST,
    **dict.fromkeys(("stream_ok", "stream_not_my_vbucket", "stream_rollback"), ANSWER),
    "close_stream": CLOSE,
}


def _tables() -> NDArray[np.int8]:
    """Return the class of messages by numbering, response or not, opcode, and in the draft subtype."""
    table = np.zeros((3, 2, 256, 256), np.int8)
    for numbering, dialect in ((PLAIN, Dialect.DCP), (PROTO, Dialect.PROTO)):
        for message in registry.MESSAGES:
            if message.dialect is dialect:
                kind = _CLASSES.get(message.name, NONE)
                table[numbering, 0, message.opcode] = kind
                if kind in (REQUEST, CLOSE):
                    table[numbering, 1, message.opcode] = ANSWER if kind == REQUEST else CLOSE
    for message in registry.MESSAGES:
        if message.dialect is Dialect.DRAFT and message is not registry.DRAFT_FAILOVER_LOG:
            pushed = int(message.push is not None)
            table[DRAFT, pushed, message.opcode, list(message.subtypes)] = _CLASSES.get(message.name, NONE)
    return table


TABLE = _tables()
