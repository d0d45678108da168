"""What each message is: data of a stream, marker, end, flow-control ack, or part of the set-up. From the spec's names.

One table for all who read batches of frames; it knows opcodes and dialects, and no state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.frames.batch import DRAFT, PLAIN, PROTO
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray

(NONE, DATA, MARKER, SNAPSHOT_END, END, OSO, STATE, CACHE, OTHER, ACK, SEQNO_ACK, SETUP, REQUEST, ANSWER, CLOSE) = (
    range(15)
)
#: Messages of a vbucket's stream; acks and everything else belong to the connection.
FIRST_OF_STREAM, LAST_OF_STREAM = DATA, OTHER
#: Of the set-up messages, from here on those that begin and close streams: requests, answers to them, closes.
FIRST_OF_LIFECYCLE = REQUEST

_KINDS = {
    **dict.fromkeys(
        ("mutation", "deletion", "expiration", "system_event", "prepare", "commit", "abort", "seqno_advanced"), DATA
    ),
    "snapshot_marker": MARKER,
    "snapshot_start": MARKER,  # draft
    "snapshot_end": SNAPSHOT_END,  # draft
    "stream_end": END,
    "oso_snapshot": OSO,
    "set_vbucket_state": STATE,
    "cache_transfer": CACHE,
    "cache_transfer_end": CACHE,
    "flush": OTHER,
    "stream_start": OTHER,  # draft
    "buffer_ack": ACK,
    "seqno_acknowledged": SEQNO_ACK,
    "stream_request": REQUEST,
    **dict.fromkeys(("stream_ok", "stream_not_my_vbucket", "stream_rollback"), ANSWER),  # draft
    "close_stream": CLOSE,
}
_RESPONSES = {REQUEST: ANSWER, CLOSE: CLOSE}  #: kinds of responses by the kind of their request; of all others: SETUP


def opcode(name: str, dialect: Dialect = Dialect.DCP) -> int:
    """Return the opcode of a message."""
    return registry.named(dialect, name).opcode


HELLO, OPEN, ADD_STREAM, CLOSE_STREAM, STREAM_REQUEST, NOOP, CONTROL = map(
    opcode, ("hello", "open", "add_stream", "close_stream", "stream_request", "noop", "control")
)
GET_FAILOVER_LOG, SET_VBUCKET_STATE, SNAPSHOT_MARKER, STREAM_END, BUFFER_ACK = map(
    opcode, ("get_failover_log", "set_vbucket_state", "snapshot_marker", "stream_end", "buffer_ack")
)
MUTATION, DELETION, EXPIRATION, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, SEQNO_ADVANCED = map(
    opcode,
    ("mutation", "deletion", "expiration", "system_event", "prepare", "commit", "abort", "seqno_advanced"),
)
CACHE_TRANSFER, SEQNO_ACKNOWLEDGED, OSO_SNAPSHOT = map(opcode, ("cache_transfer", "seqno_acknowledged", "oso_snapshot"))


def _kind_table() -> NDArray[np.int8]:
    """Return kinds by numbering, response or not, opcode, and in the draft subtype."""
    table = np.zeros((3, 2, 256, 256), np.int8)
    for numbering, dialect in ((PLAIN, Dialect.DCP), (PROTO, Dialect.PROTO)):
        for message in registry.MESSAGES:
            if message.dialect is dialect:
                kind = _KINDS.get(message.name, SETUP)
                table[numbering, 0, message.opcode] = kind
                table[numbering, 1, message.opcode] = _RESPONSES.get(kind, SETUP)
    for message in registry.MESSAGES:
        if message.dialect is Dialect.DRAFT and message is not registry.DRAFT_FAILOVER_LOG:
            pushed = int(message.push is not None)
            table[DRAFT, pushed, message.opcode, list(message.subtypes)] = _KINDS.get(message.name, SETUP)
    table[PLAIN, :, HELLO] = SETUP
    return table


KIND_OF = _kind_table()


def _by_opcode(*opcodes: int) -> NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(opcodes)] = True
    return table


#: Messages about one document: with a key, as the rules mean "mut".
DOCUMENT = _by_opcode(MUTATION, DELETION, EXPIRATION, PREPARE, COMMIT, ABORT)
#: Of these, those whose rev seqno and CAS are the document's.
REVISED = _by_opcode(MUTATION, DELETION, EXPIRATION, PREPARE)
#: Prepares and what completes them are a name space of their own: a key may be once in each of a snapshot.
SYNC = _by_opcode(PREPARE, COMMIT, ABORT)
PREPARED = _by_opcode(PREPARE, ABORT)
