"""What each message is: data of a stream, marker, end, flow-control ack, or part of the set-up. From the spec's names.

One table for all who read batches of frames; it knows opcodes and dialects, and no state.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from dissector.frames.batch import DRAFT, PLAIN, PROTO
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MessageKind(IntEnum):
    """What a message is to its stream or connection.

    Messages of a vbucket's stream are those from DATA to OTHER; all after them belong to the connection.
    """

    NONE = 0  #: no message of UPR
    DATA = 1  #: with a seqno
    MARKER = 2  #: snapshot marker
    SNAPSHOT_END = 3  #: of the draft
    END = 4  #: stream end
    OSO = 5  #: start or end of an out-of-order snapshot
    STATE = 6  #: set vbucket state
    CACHE = 7  #: cache transfer, and its end
    OTHER = 8  #: flush, and the draft's stream start
    ACK = 9  #: buffer ack
    SEQNO_ACK = 10  #: seqno acknowledged
    SETUP = 11  #: requests and answers


#: As plain integers: numpy compares arrays of small integers with these without widening them.
NONE, DATA, MARKER, SNAPSHOT_END, END, OSO, STATE, CACHE, OTHER, ACK, SEQNO_ACK, SETUP = map(int, MessageKind)
FIRST_OF_STREAM, LAST_OF_STREAM = DATA, OTHER

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
}
_LIFECYCLE = ("stream_request", "close_stream", "stream_ok", "stream_not_my_vbucket", "stream_rollback")


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
CACHE_TRANSFER, CACHE_TRANSFER_END, SEQNO_ACKNOWLEDGED, OSO_SNAPSHOT = map(
    opcode, ("cache_transfer", "cache_transfer_end", "seqno_acknowledged", "oso_snapshot")
)


_NAMED = frozenset(message.name for message in registry.MESSAGES if message.dialect is not Dialect.MEMCACHED)


def kind_named(name: str) -> MessageKind:
    """Return the kind of a message by its name, which all dialects share; HELLO sets connections up as well."""
    if name in _KINDS:
        return MessageKind(_KINDS[name])
    return MessageKind.SETUP if name in _NAMED or name == "hello" else MessageKind.NONE


def _kind_table() -> NDArray[np.int8]:
    """Return kinds by numbering, response or not, opcode, and in the draft subtype."""
    table = np.zeros((3, 2, 256, 256), np.int8)
    for numbering, dialect in ((PLAIN, Dialect.DCP), (PROTO, Dialect.PROTO)):
        for message in registry.MESSAGES:
            if message.dialect is dialect:
                table[numbering, 0, message.opcode] = _KINDS.get(message.name, SETUP)
                table[numbering, 1, message.opcode] = SETUP
    for message in registry.MESSAGES:
        if message.dialect is Dialect.DRAFT and message is not registry.DRAFT_FAILOVER_LOG:
            pushed = int(message.push is not None)
            table[DRAFT, pushed, message.opcode, list(message.subtypes)] = _KINDS.get(message.name, SETUP)
    table[PLAIN, :, HELLO] = SETUP
    return table


def _lifecycle_table() -> NDArray[np.bool_]:
    table = np.zeros((3, 2, 256, 256), bool)
    for message in registry.MESSAGES:
        if message.name not in _LIFECYCLE:
            continue
        if message.dialect is Dialect.DRAFT:
            table[DRAFT, int(message.push is not None), message.opcode, list(message.subtypes)] = True
        elif message.dialect in (Dialect.DCP, Dialect.PROTO):
            table[PROTO if message.dialect is Dialect.PROTO else PLAIN, :, message.opcode] = True
    return table


KIND_OF = _kind_table()
#: Of the set-up messages, those that begin and close streams: stream requests and closes, and the answers to them.
IS_LIFECYCLE = _lifecycle_table()


def _by_opcode(*opcodes: int) -> NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(opcodes)] = True
    return table


#: Messages of UPR and DCP, answers included; HELLO is everybody's.
IS_UPR = KIND_OF[PLAIN, 0, :, 0] != NONE
IS_UPR[HELLO] = False
#: Messages about one document: with a key, as the rules mean "mut".
DOCUMENT = _by_opcode(MUTATION, DELETION, EXPIRATION, PREPARE, COMMIT, ABORT)
#: Of these, those whose rev seqno and CAS are the document's.
REVISED = _by_opcode(MUTATION, DELETION, EXPIRATION, PREPARE)
#: Prepares and what completes them are a name space of their own: a key may be once in each of a snapshot.
SYNC = _by_opcode(PREPARE, COMMIT, ABORT)
PREPARED = _by_opcode(PREPARE, ABORT)
