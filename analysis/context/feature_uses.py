"""Messages that use what both sides must have agreed upon, and whether they have: the one list of such uses.

Most rows have everything agreed upon that their opcode may need; only the others are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context import kinds
from analysis.context.requests.state import bit
from dissector.frames.batch import PLAIN
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs, Mask

    Uses = Callable[[ContextBatch, Longs], Mask]  #: of some rows, those that use it

_SNAPPY = enums.DATATYPES.bit("snappy")
_HISTORY = enums.MARKER_FLAGS.bit("history") | enums.MARKER_FLAGS.bit("may_contain_duplicates")
_V7_STATUSES = [enums.STATUSES.number(name) for name in ("dcp_stream_not_found", "opaque_no_match")]
_VALUES = (kinds.MUTATION, kinds.DELETION, kinds.EXPIRATION, kinds.PREPARE)
_LONG_DELETION, _SHORT_DELETION = 21, 18
_EXPIRATION = 20
_FLATBUFFERS = 2
_MODIFIED = 5
_V2_0, _V2_2 = 0, 2


@dataclass(frozen=True, slots=True)
class FeatureUse:
    """Something that a message can have only if it was agreed upon, or only if something else was not."""

    name: str
    words: str  #: what the message is or has, for sentences
    expected: str  #: what must have been agreed upon, for sentences
    opcodes: tuple[int, ...]  #: of messages that may use it; none: answers
    alternatives: tuple[int, ...] = ()  #: agreements of which all of one must be there
    without: int = 0  #: agreements that must not be there
    uses: Uses | None = None  #: None: all of them do

    @property
    def agreements(self) -> int:
        """Return every agreement that it may need."""
        return int(np.bitwise_or.reduce(self.alternatives)) if self.alternatives else 0

    def allowed(self, agreed: Longs) -> Mask:
        """Tell where it is allowed, by what was agreed upon."""
        if not self.alternatives:
            free: Mask = agreed & self.without == 0
            return free
        found = np.zeros(len(agreed), bool)
        for wanted in self.alternatives:
            found |= agreed & wanted == wanted
        return found

    def maybe_allowed(self, agreed: Longs, unsure: Longs) -> Mask:
        """Tell where it may be allowed, by what may have been agreed upon as well."""
        return self.allowed(agreed & ~unsure) if not self.alternatives else self.allowed(agreed | unsure)


def _has(column: str, value: int) -> Uses:
    return lambda frames, rows: frames.numbers(column)[rows] == value


def _any_bit(column: str, bits: int) -> Uses:
    return lambda frames, rows: np.maximum(frames.numbers(column)[rows], 0) & bits > 0


def _with_stream_id(frames: ContextBatch, rows: Longs) -> Mask:
    found: Mask = frames.numbers("stream_id")[rows] >= 0
    return found


def _bits(*names: str) -> int:
    return sum(bit(name) for name in names)


def _control(name: str) -> str:
    return f"the control {name} must have been granted"


_OF_STREAMS = (
    *(kinds.CLOSE_STREAM, kinds.STREAM_END, kinds.SNAPSHOT_MARKER, kinds.MUTATION, kinds.DELETION, kinds.EXPIRATION),
    *(kinds.SYSTEM_EVENT, kinds.PREPARE, kinds.COMMIT, kinds.ABORT, kinds.SEQNO_ADVANCED, kinds.OSO_SNAPSHOT),
)
_SYNC = "enable_sync_writes"
_TIMES = "open_include_delete_times"

#: Numbered from 1 in the column ``use``.
FEATURE_USES: tuple[FeatureUse, ...] = (
    FeatureUse("noop", "a no-op", _control("enable_noop"), (kinds.NOOP,), (bit("enable_noop"),)),
    FeatureUse(
        "expiration",
        "an expiration",
        "the control enable_expiry_opcode must have been granted, and the open must have include_delete_times (0x20)",
        (kinds.EXPIRATION,),
        (_bits("enable_expiry_opcode", _TIMES),),
        # The form of 3.0 to 6.0, which nobody had to ask for, has other extras.
        uses=_has("extras_length", _EXPIRATION),
    ),
    FeatureUse(
        "deletion_with_time",
        "a deletion with its time (21 bytes of extras)",
        "the open must have include_delete_times (0x20), or HELLO collections must have been granted",
        (kinds.DELETION,),
        (bit(_TIMES), bit("hello_collections")),
        uses=_has("extras_length", _LONG_DELETION),
    ),
    FeatureUse(
        "deletion_without_time",
        "a deletion without its time (18 bytes of extras)",
        "the open has include_delete_times (0x20), so it must have 21",
        (kinds.DELETION,),
        without=bit(_TIMES),
        uses=_has("extras_length", _SHORT_DELETION),
    ),
    FeatureUse(
        "sync_writes",
        "a prepare, commit or abort",
        _control(_SYNC),
        (kinds.PREPARE, kinds.COMMIT, kinds.ABORT),
        (bit(_SYNC),),
    ),
    FeatureUse(
        "seqno_acknowledged",
        "a seqno acknowledged",
        "the controls enable_sync_writes and consumer_name must have been granted",
        (kinds.SEQNO_ACKNOWLEDGED,),
        (_bits(_SYNC, "consumer_name"),),
    ),
    FeatureUse(
        "out_of_order_snapshots",
        "a snapshot out of sequence order",
        _control("enable_out_of_order_snapshots"),
        (kinds.OSO_SNAPSHOT,),
        (bit("enable_out_of_order_snapshots"),),
    ),
    FeatureUse(
        "seqno_advanced",
        "a seqno advanced",
        "HELLO collections must have been granted",
        (kinds.SEQNO_ADVANCED,),
        (bit("hello_collections"),),
    ),
    FeatureUse(
        "marker_2.0",
        "a snapshot marker of version 2.0",
        "the controls enable_sync_writes and consumer_name must have been granted",
        (kinds.SNAPSHOT_MARKER,),
        (_bits(_SYNC, "consumer_name"),),
        uses=_has("marker_version", _V2_0),
    ),
    FeatureUse(
        "marker_2.2",
        "a snapshot marker of version 2.2",
        _control("max_marker_version"),
        (kinds.SNAPSHOT_MARKER,),
        (bit("max_marker_version"),),
        uses=_has("marker_version", _V2_2),
    ),
    FeatureUse(
        "history",
        "a snapshot marker with flags of history",
        _control("change_streams"),
        (kinds.SNAPSHOT_MARKER,),
        (bit("change_streams"),),
        uses=_any_bit("snapshot_type", _HISTORY),
    ),
    FeatureUse(
        "stream_id",
        "a message with a stream id",
        _control("enable_stream_id"),
        _OF_STREAMS,
        (bit("enable_stream_id"),),
        uses=_with_stream_id,
    ),
    FeatureUse(
        "flatbuffers",
        "a system event of version 2",
        _control("flatbuffers_system_events"),
        (kinds.SYSTEM_EVENT,),
        (bit("flatbuffers_system_events"),),
        uses=_has("event_version", _FLATBUFFERS),
    ),
    FeatureUse(
        "collection_modify",
        "a system event collection_modify",
        _control("flatbuffers_system_events"),
        (kinds.SYSTEM_EVENT,),
        (bit("flatbuffers_system_events"),),
        uses=_has("event", _MODIFIED),
    ),
    FeatureUse(
        "snappy",
        "a compressed value",
        "HELLO snappy must have been granted (in 4.5 to 5.0 the control enable_value_compression)",
        _VALUES,
        (bit("hello_snappy"), bit("enable_value_compression")),
        uses=_any_bit("datatype", _SNAPPY),
    ),
    FeatureUse(
        "status_of_7.0",
        "an answer with status dcp_stream_not_found (0x0a) or opaque_no_match (0x0b)",
        _control("v7_dcp_status_codes"),
        (),
        (bit("v7_dcp_status_codes"),),
        uses=lambda frames, rows: np.isin(frames.numbers("status")[rows], _V7_STATUSES),
    ),
)


def _table(of: Callable[[FeatureUse], int]) -> Longs:
    """Return, by whether it is an answer and by opcode, a number that all uses make up."""
    table = np.zeros((2, 256), np.int64)
    for use in FEATURE_USES:
        if use.opcodes:
            table[0, list(use.opcodes)] |= of(use)
        else:
            table[1] |= of(use)
    return table


_NEEDED = _table(lambda use: use.agreements)
_EXCLUDED = _table(lambda use: use.without)


class UnagreedUses(NamedTuple):
    """The rows of a batch that use what was not agreed upon."""

    rows: Longs
    use: Longs  #: number of the first such use that is certain, or of the first
    unsure: Mask  #: it may have been agreed upon without being captured
    refused: Mask  #: a control that would allow it was refused


def unagreed_uses(frames: ContextBatch, facts: dict[str, Longs], spoken: Mask) -> UnagreedUses:
    """Return which of the ``spoken`` rows use what was not agreed upon up to them."""
    response = frames.response.astype(np.int64)
    agreed = facts["agreed"]
    lacking = (_NEEDED[response, frames.opcode] & ~agreed) | (_EXCLUDED[response, frames.opcode] & agreed)
    rows = np.flatnonzero((lacking != 0) & spoken)
    rows = rows[(frames.numbering[rows] == PLAIN) & ~frames.early[rows]]
    agreed, unsure, refused = (facts[name][rows] for name in ("agreed", "unsure", "refused"))
    number, maybe, denied = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    opcode, answer = frames.opcode[rows], frames.response[rows]
    for index, use in reversed([*enumerate(FEATURE_USES, 1)]):
        at = np.flatnonzero(~answer & np.isin(opcode, use.opcodes) if use.opcodes else answer)
        if use.uses is not None and len(at):
            at = at[use.uses(frames, rows[at])]
        at = at[~use.allowed(agreed[at])]
        doubtful = use.maybe_allowed(agreed[at], unsure[at])
        better = ~doubtful | maybe[at] | (number[at] == 0)
        at = at[better]
        number[at], maybe[at] = index, doubtful[better]
        denied[at] = refused[at] & use.agreements & ~agreed[at] != 0
    there = np.flatnonzero(number)
    return UnagreedUses(rows[there], number[there], maybe[there], denied[there])
