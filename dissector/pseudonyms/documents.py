"""Documents that stand in for others: of the same length, and sound for the same datatype.

Numbers become numbers, other JSON a JSON string, anything else letters; xattrs stay xattrs, and a compressed document
is a snappy block of the same length that expands to such a document. Knows values, not messages.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from dissector.codec import leb128
from dissector.codec.encoder import pack_xattrs
from dissector.codec.values import inflate, read_xattrs, silent
from dissector.pseudonyms.permutation import is_number
from dissector.spec import enums, registry

if TYPE_CHECKING:
    from dissector.pseudonyms.permutation import Pseudonyms

JSON, _SNAPPY, _XATTR = (enums.DATATYPES.bit(name) for name in ("json", "snappy", "xattr"))
_U32 = struct.Struct(">I")
_SYSTEM = b"_"  #: what names of the server's own xattrs begin with
_PAIR = _U32.size + 2  #: bytes of a pair beside its name and value
_EMPTY_JSON = frozenset((b"{}", b"[]", b'""'))
_SHORT_LITERAL = 60  #: bytes of a snappy literal whose tag has one byte


def plain_of(pseudonyms: Pseudonyms, text: bytes, *, json: bool) -> bytes:
    """Return what stands in for a document without xattrs."""
    return _filled(pseudonyms, text, len(text), json=json)


def _filled(pseudonyms: Pseudonyms, text: bytes, length: int, *, json: bool) -> bytes:
    """Return a document of some length that stands in for a text."""
    if length == len(text) and is_number(text):
        return pseudonyms.of_number(text)
    if not json:
        return pseudonyms.filler(text, length)
    if length == len(text) and text in _EMPTY_JSON:
        return text
    if length == 1:
        return b"%d" % (pseudonyms.filler(text, 1)[0] % 10)
    return b'"%s"' % pseudonyms.filler(text, length - 2) if length else b""


def document_of(pseudonyms: Pseudonyms, raw: bytes, datatype: int, *, json: bool) -> bytes:
    """Return what stands in for a value with this datatype; ``json``: whether its document is JSON."""
    if not datatype & _SNAPPY:
        return _expanded(pseudonyms, raw, len(raw), xattrs=bool(datatype & _XATTR), json=json)
    plain = inflate(raw, silent, registry.MAX_BODY)
    if plain is None:
        return b"\xff" * len(raw)  # no length in front: as malformed as it was
    fitting = literal_size(len(raw))
    if fitting is None:
        return b"\xff" * len(raw)
    size, split = fitting
    return literals(_expanded(pseudonyms, plain, size, xattrs=bool(datatype & _XATTR), json=json), split)


def _expanded(pseudonyms: Pseudonyms, plain: bytes, size: int, *, xattrs: bool, json: bool) -> bytes:
    """Return what stands in for an expanded value, ``size`` bytes long."""
    if not xattrs:
        return _filled(pseudonyms, plain, size, json=json)
    found: list[str] = []
    pairs, document = read_xattrs(plain, lambda defect, _: found.append(defect))
    if found:
        return _malformed(pseudonyms, plain, size, json=json)
    if size == len(plain):
        replaced = [(_name(pseudonyms, name), plain_of(pseudonyms, value, json=True)) for name, value in pairs]
        return pack_xattrs(replaced, plain_of(pseudonyms, document, json=json))
    left = size - _U32.size - bool(document)  # for pairs: what may be compressed to a part of its size is cut
    wanted = len(plain) - len(document) - _U32.size if document else left
    section = min(max(wanted, _PAIR), left) if pairs and left >= _PAIR else 0
    if left < 0 or (not document and section != left):
        return pseudonyms.filler(plain, size)
    rest = _filled(pseudonyms, document, left + bool(document) - section, json=json)
    if not section:
        return pack_xattrs((), rest)
    name, value = pairs[0]
    kept = _name(pseudonyms, name)[: max(section - _PAIR - 1, 0)]
    return pack_xattrs([(kept, _filled(pseudonyms, value, section - _PAIR - len(kept), json=True))], rest)


def _name(pseudonyms: Pseudonyms, name: bytes) -> bytes:
    """Return what stands in for the name of an xattr; the server's own keep their first character."""
    own, rest = (name[:1], name[1:]) if name.startswith(_SYSTEM) else (b"", name)
    return own + (pseudonyms.of(rest) if rest.isascii() and rest.decode().isprintable() else pseudonyms.filler(rest))


def _malformed(pseudonyms: Pseudonyms, plain: bytes, size: int, *, json: bool) -> bytes:
    """Return a section whose lengths are as wrong as they were, over letters."""
    total = _U32.unpack_from(plain)[0] if len(plain) >= _U32.size else len(plain)
    end = _U32.size + total
    if end > len(plain) or size != len(plain):
        return _filled(pseudonyms, plain, size, json=json)  # letters are a length beyond any value
    made = bytearray(plain[: _U32.size] + pseudonyms.filler(plain[_U32.size : end]))
    position = _U32.size
    while position + _U32.size <= end:
        made[position : position + _U32.size] = plain[position : position + _U32.size]
        length = _U32.unpack_from(plain, position)[0]
        position += _U32.size
        name, separator, rest = plain[position : position + length].partition(b"\0")
        if position + length > end or not separator or not rest.endswith(b"\0"):
            break
        made[position + len(name)] = made[position + length - 1] = 0
        position += length
    return bytes(made) + plain_of(pseudonyms, plain[end:], json=json)


def literal_size(length: int) -> tuple[int, int] | None:
    """Return how many bytes a snappy block of this length holds in literals, and in how many more than it takes."""
    for split in range(3):
        for size in range(max(length - 12, split), length):
            if _block_length(size, split) == length:
                return size, split
    return None


def _block_length(size: int, split: int) -> int:
    rest = size - split
    tag = 0 if not rest else 1 if rest <= _SHORT_LITERAL else 1 + _bytes_of(rest - 1)
    return len(leb128.pack(size)) + 2 * split + tag + rest


def _bytes_of(number: int) -> int:
    return (number.bit_length() + 7) // 8


def literals(plain: bytes, split: int) -> bytes:
    """Write a snappy block of literals, as few as hold the bytes and ``split`` more of one byte each."""
    out = bytearray(leb128.pack(len(plain)))
    for at in range(split):
        out += b"\0" + plain[at : at + 1]  # the tag of a literal of one byte
    rest = plain[split:]
    if rest:
        last = len(rest) - 1
        if last < _SHORT_LITERAL:
            out.append(last << 2)
        else:
            size = _bytes_of(last)
            out.append((_SHORT_LITERAL - 1 + size) << 2)
            out += last.to_bytes(size, "little")
        out += rest
    return bytes(out)
