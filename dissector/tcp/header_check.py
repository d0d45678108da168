"""Which 24 bytes can be a frame's header: the strict test that resynchronisation stands on.

Strict means more than well-formed: the opcode is known, its extras have a size that one of its layouts has, key and
value are there exactly if they may be, the vbucket or status is one that servers use. Values can hold anything, other
frames included, so a header in the middle of nowhere is believed only together with those that follow it.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from dissector.codec.dialect_evidence import is_draft_form
from dissector.spec import enums, fingerprints, registry
from dissector.spec.model import Dialect, Message, MessageType, Presence, Shape

_HEAD = struct.Struct(">BBHBBHI").unpack_from
HEADER_SIZE = registry.HEADER_SIZE
_MAX_ANSWER_EXTRAS = fingerprints.MAX_ANSWER_EXTRAS
_REQUESTS = bytes(magic.value for magic in enums.MAGICS if magic.direction is MessageType.REQUEST)
_RESPONSES = bytes(magic.value for magic in enums.MAGICS if magic.direction is MessageType.RESPONSE)
_FLEXIBLE = frozenset(magic.value for magic in enums.MAGICS if magic.flexible)
_PUSHES = frozenset(magic.value for magic in enums.MAGICS if magic.server_push)
_MAX_DATATYPE = sum(bit.value for bit in enums.DATATYPES.members)
_TOP_BODY_BYTE = registry.MAX_BODY >> 24
_TOP_VBUCKET_BYTE = (registry.DEFAULT_VBUCKETS - 1) >> 8
_KNOWN_STATUSES = frozenset(member.value for member in enums.STATUSES.members)
MAGICS = frozenset(registry.MAGICS)
PLAIN_MAGICS = MAGICS - _FLEXIBLE - _PUSHES
#: Larger keys are refused by every server.
_MAX_KEY = registry.MAX_KEY


class _Rule(NamedTuple):
    """What a request of one opcode and extras size may look like."""

    key: Presence
    value: Presence


def _request_rules(messages: list[Message]) -> dict[tuple[int, int], list[_Rule]]:
    rules: dict[tuple[int, int], list[_Rule]] = {}
    for message in messages:
        shape = message.request
        if shape is None:
            continue
        for size in _extras_sizes(shape):
            rules.setdefault((message.opcode, size), []).append(_Rule(shape.key, shape.value))
    return rules


def _extras_sizes(shape: Shape) -> set[int]:
    return {layout.extras_size for layout in shape.layouts} or set(range(_MAX_ANSWER_EXTRAS + 1))


_TABLES = [message for message in registry.MESSAGES if message.dialect in (Dialect.UPR, Dialect.DCP, Dialect.MEMCACHED)]
_REQUEST_RULES = _request_rules([message for message in _TABLES if not message.server_push])
_PUSH_RULES = _request_rules([message for message in _TABLES if message.server_push])
_OPCODES = frozenset(message.opcode for message in _TABLES)

_CANDIDATE = re.compile(
    rb"(?s)(?=[%b]....[\x00-%b][\x00-%b].[\x00-%b]|[%b]....[\x00-%b]..[\x00-%b])"
    % (
        re.escape(_REQUESTS),
        re.escape(bytes([_MAX_DATATYPE])),
        re.escape(bytes([_TOP_VBUCKET_BYTE])),
        re.escape(bytes([_TOP_BODY_BYTE])),
        re.escape(_RESPONSES),
        re.escape(bytes([_MAX_DATATYPE])),
        re.escape(bytes([_TOP_BODY_BYTE])),
    )
)


def is_legal(data: bytes | bytearray, at: int = 0) -> bool:
    """Tell whether a strictly legal header starts here; the caller has made sure of 24 bytes."""
    magic, opcode, key_word, extras, datatype, number, body = _HEAD(data, at)
    if magic not in MAGICS or datatype > _MAX_DATATYPE or body > registry.MAX_BODY:
        return False
    framing, key = (key_word >> 8, key_word & 0xFF) if magic in _FLEXIBLE else (0, key_word)
    value = body - framing - extras - key
    if value < 0 or key > _MAX_KEY:
        return False
    if magic in _RESPONSES:
        known = number in _KNOWN_STATUSES or registry.status_name(number) is not None
        return opcode in _OPCODES and extras <= _MAX_ANSWER_EXTRAS and known
    rules = (_PUSH_RULES if magic in _PUSHES else _REQUEST_RULES).get((opcode, extras))
    if rules is None or number >= registry.DEFAULT_VBUCKETS:
        return False
    return any(_allows(rule.key, key) and _allows(rule.value, value) for rule in rules)


def is_draft(data: bytes | bytearray, at: int = 0) -> bool:
    """Tell whether the header of a message starts here that the draft alone has; the caller has made sure of 24 bytes.

    Where a header must be, it is as good as a legal one. Elsewhere it is none: too little of it is strict.
    """
    magic, opcode, key, extras, subtype, number, body = _HEAD(data, at)
    request = magic in _REQUESTS
    if magic not in PLAIN_MAGICS or number >= registry.DEFAULT_VBUCKETS or key > _MAX_KEY:
        return False
    form = is_draft_form(
        request=request, opcode=opcode, subtype=subtype, extras=extras, key=key, value=body - extras - key
    )
    # A request for a stream names it, one for a failover log has nothing; neither has a value.
    return form and (not request or (body == extras + key and (key > 0) == (extras > 0)))


def _allows(presence: Presence, size: int) -> bool:
    return presence is Presence.MAY or (presence is Presence.MUST) == (size > 0)


def is_plausible(data: bytes | bytearray, at: int = 0) -> bool:
    """Tell whether a header here would do at a place where one must be: a magic, and lengths that fit together."""
    magic, _, key_word, extras, _, _, body = _HEAD(data, at)
    if magic not in MAGICS or body > registry.MAX_BODY:
        return False
    parts = extras + (((key_word >> 8) + (key_word & 0xFF)) if magic in _FLEXIBLE else key_word)
    return bool(parts <= body)


def frame_length(data: bytes | bytearray, at: int = 0) -> int:
    """Return the size of the frame whose header starts here."""
    return HEADER_SIZE + int.from_bytes(data[at + 8 : at + 12], "big")


class Search(NamedTuple):
    """Where the next frame starts, or how far the search has come."""

    found: bool
    at: int  #: start of the frame; if not found, everything before this has been ruled out


CONFIRM = fingerprints.CONFIRM_HEADERS


def find_frame(data: bytes | bytearray, start: int, *, final: bool) -> Search:
    """Search for the first header that is legal and followed by legal ones.

    Where the data ends before :data:`CONFIRM` headers are seen, the answer waits for more; with ``final`` (a gap or
    the end follows) a header is believed when its frame is whole and nothing up to the end speaks against it.
    """
    last = len(data) - HEADER_SIZE
    for match in _CANDIDATE.finditer(data, start):
        at = match.start()
        if at > last:
            break
        if not is_legal(data, at):
            continue
        verdict = _chain(data, at, final=final)
        if verdict is True:
            return Search(True, at)
        if verdict is None:
            return Search(False, at)
    if final:
        return Search(False, len(data))
    return Search(False, max(last + 1, start))


def _chain(data: bytes | bytearray, at: int, *, final: bool) -> bool | None:
    """Follow headers from a legal one on; None: not enough bytes to tell."""
    end = len(data)
    position, count = at, 0
    while count < CONFIRM:
        if position + HEADER_SIZE > end:
            break
        if not is_legal(data, position):
            return False
        count += 1
        position += frame_length(data, position)
    else:
        return True
    if not final:
        return None
    if position >= end:
        # The chain runs to the end or beyond it: at least its first frame has to be there whole.
        return count > 1 or position == end
    # Less than a header is left: it must at least start like one.
    return data[position] in MAGICS
