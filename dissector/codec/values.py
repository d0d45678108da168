"""Values of messages: documents (snappy, xattrs, JSON), records, extended metadata.

Every reader here is total: it returns what it could read and reports defects through a callback, and never raises,
whatever the bytes. Sizes that come from the capture are checked before memory is taken for them.
"""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING, Any

from dissector.codec import leb128
from dissector.codec.message import FieldValue, Metadata, Record, Value
from dissector.spec import enums, fields, registry, value_kinds
from dissector.spec.model import Body, Enumeration, Flags, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.spec.model import Field, JsonKey

    DefectSink = Callable[[str, str], None]  #: defect id, detail

#: What a compressed value may expand to: no more than a frame could carry.
INFLATE_LIMIT = registry.MAX_BODY

_JSON, _SNAPPY, _XATTR = (enums.DATATYPES.bit(name) for name in ("json", "snappy", "xattr"))
_U32 = struct.Struct(">I")


def read_fields(declared: tuple[Field, ...], data: bytes, offset: int) -> tuple[FieldValue, ...]:
    """Read as many of the declared fields as the data holds whole; ``offset`` is the data's place in the frame."""
    values = []
    position = 0
    for spec in declared:
        raw = data[position : position + spec.size]
        if len(raw) < spec.size:
            break
        values.append(FieldValue(spec, int.from_bytes(raw, "big"), offset + position))
        position += spec.size
    return tuple(values)


def check_names(found: tuple[FieldValue, ...], report: DefectSink) -> None:
    """Report numbers without a meaning, unknown flags, and reserved fields that hold something."""
    for entry in found:
        names = entry.spec.names
        if entry.spec.reserved and entry.value:
            report("reserved-not-zero", f"{entry.name} is 0x{entry.value:x}")
        elif isinstance(names, Enumeration) and names.member(entry.value) is None:
            report("enum-out-of-range", f"{entry.name} is {entry.value}")
        elif isinstance(names, Flags) and names.unknown(entry.value) and not names.lenient:
            report("unknown-flag-bits", f"{entry.name} has 0x{names.unknown(entry.value):x}")


def read_value(
    kind: Body,
    raw: bytes,
    offset: int,
    report: DefectSink,
    *,
    datatype: int = 0,
    nmeta: int = 0,
    whole: bool = True,
    inspect: bool = True,
    inflate_limit: int = INFLATE_LIMIT,
    json_keys: tuple[JsonKey, ...] = (),
) -> Value:
    """Read a value of this kind. ``whole`` is False when bytes of it are missing: then its content is not judged.

    Without ``inspect`` documents are not looked into.
    """
    length = len(raw)
    if kind is Body.DOCUMENT:
        return _document(raw, offset, report, datatype, nmeta, whole, inspect, inflate_limit)
    records: tuple[Record, ...] = ()
    is_json = False
    if kind in value_kinds.RECORDS:
        records = _list(value_kinds.RECORDS[kind], raw, offset, report if whole else silent)
    elif kind is Body.CACHE_TRANSFER:
        records = _cache_records(raw, offset, report if whole else silent)
    elif kind is Body.JSON and raw and whole:
        is_json, held = _json(raw)
        if not is_json:
            report("json-invalid", "the value is not JSON")
        _check_numbers(json_keys, held, report)
    return Value(kind, offset, length, raw, document=raw, is_json=is_json, records=records)


def document_defects(raw: bytes, datatype: int) -> list[str]:
    """Look into a whole document without extended metadata; return the ids of what is wrong with it."""
    found: list[str] = []

    def report(defect: str, _detail: str) -> None:
        found.append(defect)

    _document(raw, 0, report, datatype, 0, whole=True, inspect=True, inflate_limit=INFLATE_LIMIT)
    return found


def silent(_id: str, _detail: str) -> None:
    """Report nothing: what follows is cut short, and that has been said."""


def _document(
    raw: bytes,
    offset: int,
    report: DefectSink,
    datatype: int,
    nmeta: int,
    whole: bool,
    inspect: bool,
    inflate_limit: int,
) -> Value:
    length = len(raw)
    metadata: tuple[Metadata, ...] = ()
    if nmeta and whole:
        if nmeta > length:
            report("nmeta-exceeds-value", f"nmeta is {nmeta}, the value has {length} bytes")
        else:
            metadata = _metadata(raw[length - nmeta :], report)
            raw = raw[: length - nmeta]
    if not raw or not whole or not inspect:
        # An empty value with a datatype is what the open flag no_value_with_underlying_datatype gives.
        return Value(Body.DOCUMENT, offset, length, raw, document=raw, metadata=metadata)
    plain, inflated = raw, None
    if datatype & _SNAPPY:
        inflated = inflate(raw, report, inflate_limit)
        if inflated is None:
            return Value(Body.DOCUMENT, offset, length, raw, document=b"", metadata=metadata)
        plain = inflated
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    if datatype & _XATTR:
        xattrs, plain = read_xattrs(plain, report)
    is_json = bool(datatype & _JSON) and bool(plain) and _json(plain)[0]
    if datatype & _JSON and plain and not is_json:
        report("json-invalid", "the datatype says JSON, the document is none")
    return Value(
        Body.DOCUMENT,
        offset,
        length,
        raw,
        inflated=inflated,
        xattrs=xattrs,
        document=plain,
        is_json=is_json,
        metadata=metadata,
    )


def inflate(raw: bytes, report: DefectSink, limit: int) -> bytes | None:
    """Expand a raw snappy block, looking at its own length first: a few bytes can claim 4 GiB."""
    size, shift, position = 0, 0, 0
    while True:
        if position >= len(raw) or shift > 28:
            report("snappy-invalid", "the length in front is malformed")
            return None
        byte = raw[position]
        size |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        report("snappy-too-large", f"expands to {size} bytes, the limit is {limit}")
        return None
    # No element of the format makes more than 64 bytes of 2 (a copy: tag and offset), so a larger claim is a lie.
    if size > 32 * len(raw):
        report("snappy-invalid", f"{len(raw)} bytes cannot expand to {size}")
        return None
    import cramjam  # noqa: PLC0415 - only captures with compressed values pay for the import

    try:
        data = bytes(cramjam.snappy.decompress_raw(raw))
    except cramjam.DecompressionError as error:
        report("snappy-invalid", str(error) or "not a snappy block")
        return None
    if len(data) != size:
        report("snappy-invalid", f"expands to {len(data)} bytes, says {size}")
        return None
    return data


def read_xattrs(plain: bytes, report: DefectSink) -> tuple[tuple[tuple[bytes, bytes], ...], bytes]:
    """Split a value into its xattr pairs and the document: u32 total, then (u32 length, name, 0, value, 0)*."""
    total = _U32.unpack_from(plain)[0] if len(plain) >= _U32.size else -1
    end = _U32.size + total
    if total < 0 or end > len(plain):
        report("xattr-invalid", f"the section's length is {total}, the value has {len(plain)} bytes")
        return (), plain
    pairs = []
    position = _U32.size
    while position < end:
        size = _U32.unpack_from(plain, position)[0] if position + _U32.size <= end else -1
        position += _U32.size
        pair = plain[position : position + max(size, 0)]
        name, separator, rest = pair.partition(b"\0")
        if size < 0 or position + size > end or not separator or not rest.endswith(b"\0"):
            report("xattr-invalid", f"the pair at byte {position - _U32.size} of the value does not add up")
            break
        pairs.append((name, rest[:-1]))
        position += size
    return tuple(pairs), plain[end:]


def _reject(constant: str) -> None:
    raise ValueError(constant)


def _json(data: bytes) -> tuple[bool, Any]:
    """Tell whether bytes are JSON, and return what they hold as far as that could be read."""
    import orjson  # noqa: PLC0415 - only readings that inspect documents pay for the import

    try:
        return True, orjson.loads(data)
    except ValueError:
        pass  # it is stricter than the standard library, which decides: lone surrogates, huge numbers, deep nesting
    try:
        return True, json.loads(data, parse_constant=_reject)
    except ValueError:
        return False, None
    except RecursionError:
        return True, None  # nested beyond what is worth checking; nothing wrong was found


def _check_numbers(keys: tuple[JsonKey, ...], held: Any, report: DefectSink) -> None:
    """Report numbers in a JSON object that its receiver cannot keep."""
    for key in keys:
        number = held.get(key.name) if key.most is not None and isinstance(held, dict) else None
        if isinstance(number, int | float) and key.most is not None and number > key.most:
            report("json-number-too-large", f"{key.name} is {number}, at most {key.most} can be kept")


def _list(entry: tuple[Field, ...], raw: bytes, offset: int, report: DefectSink) -> tuple[Record, ...]:
    size = size_of(entry)
    if len(raw) % size:
        report("records-malformed", f"{len(raw)} bytes are no multiple of {size}")
    whole = len(raw) - len(raw) % size
    return tuple(
        Record(read_fields(entry, raw[start : start + size], offset + start)) for start in range(0, whole, size)
    )


def _cache_records(raw: bytes, offset: int, report: DefectSink) -> tuple[Record, ...]:
    head = size_of(fields.CACHE_RECORD)
    records = []
    position = 0
    while position < len(raw):
        values = read_fields(fields.CACHE_RECORD, raw[position : position + head], offset + position)
        record = Record(values)
        if len(values) < len(fields.CACHE_RECORD):
            report("records-malformed", f"the record at byte {position} is cut short")
            break
        key_end = position + head + record["key_length"]
        value_end = key_end + record["value_length"]
        if value_end > len(raw) or not fields.CACHE_KEY_MIN <= record["key_length"] <= registry.MAX_KEY:
            report("records-malformed", f"the record at byte {position} does not fit")
            break
        key = raw[position + head : key_end]
        collection, size = leb128.read(key)  # size 0: it is malformed
        records.append(Record(values, key, raw[key_end:value_end], collection if size else None, key[size:]))
        position = value_end
    return tuple(records)


def _metadata(block: bytes, report: DefectSink) -> tuple[Metadata, ...]:
    """Read the extended metadata: a version byte, then (u8 id, u16 length, bytes)*."""
    entries = []
    if not block or block[0] != fields.METADATA_VERSION:
        report("nmeta-invalid", f"version {block[:1].hex() or 'missing'}")
        return ()
    position, head = 1, size_of(fields.METADATA_ENTRY)
    while position < len(block):
        values = read_fields(fields.METADATA_ENTRY, block[position : position + head], position)
        end = position + head + (values[1].value if len(values) == len(fields.METADATA_ENTRY) else len(block))
        if end > len(block):
            report("nmeta-invalid", f"the entry at byte {position} of the block does not fit")
            break
        entries.append(Metadata(values[0].value, block[position + head : end]))
        position = end
    return tuple(entries)


def check_control(key: bytes, value: bytes, report: DefectSink) -> None:
    """Note a control key that no release knows, or a value that its key does not take."""
    name = key.decode("utf-8", "replace")
    known = registry.CONTROL_BY_NAME.get(name)
    if known is None:
        report("control-key-unknown", f"{name[:60]!r}")
    elif not re.fullmatch(known.pattern, value.decode("utf-8", "replace")):
        report("control-value-invalid", f"{name} = {value[:60]!r}, expected {known.values}")
