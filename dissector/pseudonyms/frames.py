"""Frames with pseudonyms in place of user data: as long as they were, and as right or as wrong.

What is kept is what is known to be the protocol's: headers, extras, numbers, words of negotiations. Of everything else
the bytes are replaced, and of messages that are not described all of them. docs/sharing.md is this for people.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dissector.codec import leb128
from dissector.codec.decoder import decode
from dissector.codec.values import inflate, silent
from dissector.pseudonyms.documents import JSON, document_of, plain_of
from dissector.spec import enums, registry, value_kinds
from dissector.spec.model import Body, Dialect, KeyRole, MessageType, size_of

if TYPE_CHECKING:
    from dissector.codec.message import Decoded, Record
    from dissector.pseudonyms.permutation import Pseudonyms
    from dissector.spec.model import Shape

#: Values that are numbers of the protocol and nothing else.
_NUMBERS = frozenset((Body.FAILOVER_LOG, Body.FEATURES, Body.VBUCKET_SEQNOS))
#: Messages whose keys and values are words of the protocol.
_PLAIN_WORDS = frozenset(("version", "sasl_list_mechs"))
#: Messages whose key names a user's client, a bucket or a connection.
_NAMING = frozenset(("hello", "open", "select_bucket", "stream_request"))
_LOG_IN = frozenset(("sasl_auth", "sasl_step"))
_NAME_PARAMETER = b"consumer_name"
#: What a question for counters may say without naming anything, and what an answer may.
_STAT = re.compile(rb"[a-z][a-z_-]*( [0-9]{1,4})?")
_COUNTER = re.compile(rb"-?[0-9]{1,20}(\.[0-9]{1,9})?|true|false")
_JSON_ID = re.compile(rb"[0-9a-fA-FxX]{0,32}")
_JSON_TEXT = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?')


def replaced(pseudonyms: Pseudonyms, dialect: Dialect, data: bytes, *, collections: bool) -> bytes:
    """Return what stands in for a frame, of which the end may be missing."""
    decoded = decode(dialect, data, collections=collections, withhold_secrets=False)
    if decoded.header is None:
        return bytes(len(data))
    frame = _FrameRewriter(pseudonyms, decoded, data, collections=collections)
    made = frame.made()
    if made == data:
        return made
    again = decode(dialect, made, collections=collections, withhold_secrets=False)
    if again.defect_ids() == decoded.defect_ids():
        return made
    blank = frame.blank()
    other = decode(dialect, blank, collections=collections, withhold_secrets=False)
    return blank if other.defect_ids() == decoded.defect_ids() else made


class _FrameRewriter:
    """Rewrites one frame; made for one call."""

    def __init__(self, pseudonyms: Pseudonyms, decoded: Decoded, data: bytes, *, collections: bool) -> None:
        self._pseudonyms = pseudonyms
        self._decoded = decoded
        self._data = data
        self._collections = collections
        self._shape = _shape_of(decoded)
        spec = decoded.spec
        self._name = spec.name if spec is not None else ""
        #: Of a command beside the replication whose parts are not described.
        self._opaque = spec is not None and spec.dialect is Dialect.MEMCACHED and decoded.layout is None
        self._key_end = decoded.key_offset + len(decoded.key)

    def made(self) -> bytes:
        """Return the frame with everything replaced."""
        decoded, out = self._decoded, bytearray(self._data)
        if decoded.spec is None:
            out[registry.HEADER_SIZE :] = bytes(len(out) - registry.HEADER_SIZE)
            return bytes(out)
        for info in decoded.frame_infos:
            if not info.fields:
                out[info.offset : info.offset + len(info.data)] = bytes(len(info.data))
        known = () if self._opaque else [entry for entry in decoded.fields if entry.offset < decoded.key_offset]
        out[decoded.extras_offset : decoded.key_offset] = bytes(decoded.key_offset - decoded.extras_offset)
        for entry in known:
            end = entry.offset + entry.spec.size
            out[entry.offset : end] = self._data[entry.offset : end]
        out[decoded.key_offset : self._key_end] = self._key()
        value = self._data[self._key_end :]
        if value:
            out[self._key_end :] = self._value(value)
        return bytes(out)

    def blank(self) -> bytes:
        """Return the frame with the key replaced and a value of zeros."""
        made = bytearray(self.made())
        start = self._key_end + self._fixed_size()
        made[start:] = bytes(max(len(made) - start, 0))
        return bytes(made)

    def _fixed_size(self) -> int:
        layout = self._decoded.layout
        return size_of(layout.value) if layout is not None else 0

    # ------------------------------------------------------------------------------------------------------- the key

    def _key(self) -> bytes:
        key, shape = self._decoded.key, self._shape
        whole = self._decoded.header is not None and len(key) == self._decoded.header.key_length
        if not key or self._name in _LOG_IN | _PLAIN_WORDS:
            return key
        if not whole:
            return bytes(len(key))
        if shape is not None and shape.key_role is KeyRole.PARAMETER:
            return key
        if self._name in _NAMING:
            return self._pseudonyms.of(key) if self._pseudonyms.names else key
        if self._name == "stat":
            known = _STAT.fullmatch(key) or (self._response and not self._pseudonyms.names)
            return key if known else self._pseudonyms.of(key)
        if self._opaque and self._collections:  # most likely that of a document
            prefix = leb128.read(key)[1]
            return key[:prefix] + self._pseudonyms.of(key[prefix:])
        return self._document_key(key, self._decoded.collection_id)

    @property
    def _response(self) -> bool:
        return self._decoded.direction is MessageType.RESPONSE

    def _document_key(self, key: bytes, collection_id: int | None) -> bytes:
        """Return the pseudonym of a key behind its collection id; a malformed id stays."""
        prefix = len(leb128.pack(collection_id)) if collection_id is not None else 0
        if "collection-id-invalid" in self._decoded.defect_ids():
            ends = (place + 1 for place, byte in enumerate(key[:5]) if byte < 0x80)
            prefix = next(ends, 5)
        return key[:prefix] + self._pseudonyms.of(key[prefix:])

    # ----------------------------------------------------------------------------------------------------- the value

    def _value(self, value: bytes) -> bytes:
        decoded, shape = self._decoded, self._shape
        kind = decoded.value.kind
        fixed = self._fixed_size()
        if kind is Body.SECRET:
            return bytes(len(value))
        if kind in _NUMBERS:
            size = sum(field.size for field in value_kinds.RECORDS[kind])
            return value[: len(value) // size * size].ljust(len(value), b"\0")
        if self._name in _PLAIN_WORDS and decoded.status == enums.SUCCESS:
            return value
        if kind is Body.SYSTEM_EVENT:
            return self._event(value)
        if decoded.header is None or len(value) < decoded.value.length:  # a part of it says nothing of its form
            return value[:fixed] + self._pseudonyms.filler(value[fixed:])
        if kind is Body.DOCUMENT:
            return self._document(value, decoded.header.datatype)
        if kind is Body.CACHE_TRANSFER:
            return self._records(value)
        if shape is not None and shape.key_role is KeyRole.PARAMETER and not self._response:
            return value if self._is_plain_control(decoded.key, value) else self._pseudonyms.of(value)
        if self._name == "stat" and _COUNTER.fullmatch(value):
            return value
        if kind is Body.JSON:
            return self._json(value)
        return value[:fixed] + plain_of(self._pseudonyms, value[fixed:], json=value[:1] in (b"{", b"[", b'"'))

    def _is_plain_control(self, key: bytes, value: bytes) -> bool:
        """Tell whether a control's value is a word or a number of the protocol; without ``names``, a name, too."""
        if key == _NAME_PARAMETER:
            return not self._pseudonyms.names
        return key.decode("latin-1") in registry.CONTROL_BY_NAME or _COUNTER.fullmatch(value) is not None

    def _document(self, value: bytes, datatype: int) -> bytes:
        raw = self._decoded.value.raw
        tail = value[len(raw) :]
        made = document_of(self._pseudonyms, raw, datatype, json=self._decoded.value.is_json)
        return made + (tail if self._decoded.value.metadata else bytes(len(tail)))

    def _json(self, value: bytes) -> bytes:
        """Replace texts that are no ids in JSON whose keys the protocol declares; other JSON as a whole."""
        if not self._decoded.value.is_json:
            return plain_of(self._pseudonyms, value, json=False)
        known = {key.encode() for key in _names_in(self._shape)}
        out = bytearray(value)
        for match in _JSON_TEXT.finditer(value):
            text = match[1]
            if match[2]:
                if text not in known:
                    return plain_of(self._pseudonyms, value, json=True)
            elif self._pseudonyms.names if self._name == "open" else not _JSON_ID.fullmatch(text):
                same = text.isascii() and b"\\" not in text
                out[match.start(1) : match.end(1)] = self._word(text) if same else self._pseudonyms.filler(text)
        return bytes(out)

    def _word(self, text: bytes) -> bytes:
        """Return a pseudonym that needs no escapes in JSON."""
        made = self._pseudonyms.of(text)
        return made if not {b'"'[0], b"\\"[0]} & set(made) else self._pseudonyms.filler(text)

    def _records(self, value: bytes) -> bytes:
        """Replace keys and values of records; what is behind the last whole one is blanked."""
        out, position = bytearray(len(value)), 0
        for record in self._decoded.value.records:
            head = sum(entry.spec.size for entry in record.fields)
            if not record.key:  # the last one, which does not fit
                out[position : position + head] = value[position : position + head]
                break
            parts = (value[position : position + head], self._record_key(record), self._record_value(record))
            joined = b"".join(parts)
            out[position : position + len(joined)] = joined
            position += len(joined)
        return bytes(out)

    def _record_key(self, record: Record) -> bytes:
        prefix = len(record.key) - len(record.document_key)
        return record.key[:prefix] + self._pseudonyms.of(record.document_key)

    def _record_value(self, record: Record) -> bytes:
        return document_of(self._pseudonyms, record.value, record["datatype"], json=bool(record["datatype"] & JSON))

    def _event(self, value: bytes) -> bytes:
        """Replace the names in a table; numbers stay. A compressed one holds them as they are, or is blanked."""
        table = self._decoded.value.table
        if table is None:
            known = sum(entry.spec.size for entry in self._decoded.fields if entry.offset >= self._key_end)
            return value[:known] + bytes(len(value) - known)
        out = value
        for entry in table.entries:
            text = entry.value
            if isinstance(text, bytes) and text:
                out = out.replace(text, self._pseudonyms.of(text))
        left = inflate(out, silent, registry.MAX_BODY) if table.compressed else out
        texts = [entry.value for entry in table.entries if isinstance(entry.value, bytes) and entry.value]
        return out if left is not None and not any(text in left for text in texts) else bytes(len(value))


def _shape_of(decoded: Decoded) -> Shape | None:
    """Return the shape by which a message was read."""
    spec = decoded.spec
    if spec is None or decoded.direction is None:
        return None
    if decoded.dialect is Dialect.DRAFT and decoded.subtype is not None:
        return spec.push if decoded.direction is MessageType.RESPONSE else spec.request
    return spec.request if decoded.direction is MessageType.REQUEST else spec.response(decoded.status or 0)


def _names_in(shape: Shape | None) -> set[str]:
    """Return the names of all members that a JSON value can have."""
    names: set[str] = set()
    waiting = list(shape.json_keys) if shape is not None else []
    while waiting:
        key = waiting.pop()
        names.add(key.name)
        waiting += key.members
    return names
