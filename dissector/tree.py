"""A frame as a tree: every byte accounted for, with its offset, its digits and what it means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dissector.spec import registry
from dissector.spec.headers import header_form
from dissector.spec.model import Body, Enumeration, Field, Flags, Role
from dissector.terminal import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.message import Decoded, FieldValue, Record
    from dissector.terminal import Terminal

_DIGITS = 8  #: bytes whose digits are shown in a line
_NAME = 22
_PREVIEW = 400
_MAX_RECORDS = 64


def tree(decoded: Decoded, data: bytes, row: dict[str, Any], terminal: Terminal) -> Iterator[str]:
    """Yield the lines of a frame's tree. ``data`` are its bytes, ``row`` says where it came from."""
    spec = decoded.spec
    constant = f" ({spec.constant})" if spec is not None else ""
    kind = "reply" if row["response"] else "request"
    yield terminal.title(f"Frame {row['frame']}: {decoded.name}{constant} {kind}, {decoded.dialect}, {len(data)} bytes")
    packets = _span(row["packet_first"], row["packet_last"])
    arrow = terminal.encode("→")
    yield f"  {row['src']}:{row['sport']} {arrow} {row['dst']}:{row['dport']}, connection {row['connection']}"
    yield f"  packets {packets} of {safe_text(row['capture'])}, {_time(row['time_ns'])}"
    acked = "nothing" if row["acked_offset"] is None else f"{row['acked_offset']:,}"
    yield f"  bytes {row['start_offset']:,} to {row['end_offset']:,} of its direction; had acknowledged {acked}"
    for name, text in (("gap", "lost before it"), ("skipped", "passed over before it"), ("missing", "missing in it")):
        if row[name]:
            yield terminal.warning(f"  {row[name]:,} bytes {text}")
    yield from _header(decoded, data, terminal)
    yield from _framing(decoded, data, terminal)
    yield from _body(decoded, data, terminal)
    if decoded.defects:
        yield terminal.heading("  Defects")
        for defect in decoded.defects:
            yield terminal.warning(f"    {defect.spec.severity}: {defect.id}: {safe_text(defect.detail)}")


def _header(decoded: Decoded, data: bytes, terminal: Terminal) -> Iterator[str]:
    header = decoded.header
    if header is None:
        return
    yield terminal.heading("  Header")
    form = header_form(header.magic, draft=decoded.subtype is not None)
    if form is None:
        yield _line(data, 0, min(len(data), 24), "bytes", "unknown magic", terminal)
        return
    for offset, field in form.places:
        number = int.from_bytes(data[offset : offset + field.size], "big")
        yield _line(data, offset, field.size, field.name, _header_text(decoded, field, number), terminal)


def _header_text(decoded: Decoded, field: Field, number: int) -> str:
    if field.name == "magic":
        magic = registry.MAGICS.get(number)
        return f"0x{number:02x} {magic.name if magic is not None else 'unknown'}"
    if field.name == "opcode":
        return f"0x{number:02x} {decoded.name}"
    if field.role is Role.OPAQUE:
        swapped = int.from_bytes(number.to_bytes(4, "big"), "little")
        return f"0x{number:08x} (little-endian {swapped})"
    if field.name == "status":
        return f"0x{number:04x} {registry.status_name(number) or 'unknown'}"
    return number_text(field, number)


def _framing(decoded: Decoded, data: bytes, terminal: Terminal) -> Iterator[str]:
    if not decoded.frame_infos:
        return
    yield terminal.heading("  Framing extras")
    for info in decoded.frame_infos:
        name = info.spec.name if info.spec is not None else f"id {info.id}"
        if not info.fields:
            yield _line(data, info.offset, len(info.data), name, safe_text(info.data), terminal)
        for entry in info.fields:
            yield _field(entry, data, terminal)


def _body(decoded: Decoded, data: bytes, terminal: Terminal) -> Iterator[str]:
    value = decoded.value
    extras_end = decoded.extras_offset + len(decoded.extras)
    in_extras = [entry for entry in decoded.fields if entry.offset < extras_end]
    in_value = [entry for entry in decoded.fields if entry.offset >= extras_end]
    if decoded.extras:
        layout = f" ({decoded.layout.name})" if decoded.layout is not None else ""
        yield terminal.heading(f"  Extras, {len(decoded.extras)} bytes{layout}")
        for entry in in_extras:
            yield _field(entry, data, terminal)
        known = sum(entry.spec.size for entry in in_extras)
        if known < len(decoded.extras):
            start = decoded.extras_offset + known
            yield _line(data, start, len(decoded.extras) - known, "bytes", "not described", terminal)
    if decoded.key:
        yield terminal.heading(f"  Key, {len(decoded.key)} bytes")
        prefix = len(decoded.key) - len(decoded.document_key)
        if decoded.collection_id is not None:
            yield _line(data, decoded.key_offset, prefix, "collection_id", f"0x{decoded.collection_id:x}", terminal)
        start = decoded.key_offset + prefix
        yield _line(data, start, len(decoded.document_key), "key", safe_text(decoded.document_key), terminal)
    if value.length:
        yield terminal.heading(f"  Value, {value.length} bytes ({value.kind})")
        if value.redacted:
            yield "    withheld (--show-secrets)"
            return
        for entry in in_value:
            yield _field(entry, data, terminal)
        yield from _value(decoded, terminal)


def _value(decoded: Decoded, terminal: Terminal) -> Iterator[str]:
    value = decoded.value
    for number, record in enumerate(value.records[:_MAX_RECORDS]):
        yield f"    [{number}] {_record(record)}"
    if len(value.records) > _MAX_RECORDS:
        yield f"    and {len(value.records) - _MAX_RECORDS} more"
    if value.inflated is not None:
        yield f"    snappy: {len(value.raw):,} bytes expand to {len(value.inflated):,}"
    for name, content in value.xattrs:
        yield f"    xattr {terminal.name(safe_text(name))} = {_short(content)}"
    if not value.records and not any(entry.offset >= value.offset for entry in decoded.fields) and value.document:
        label = "JSON" if value.is_json else "text" if value.kind in (Body.TEXT, Body.JSON) else "document"
        yield f"    {label}: {_short(_compact(value.document) if value.is_json else value.document)}"
    for entry in value.metadata:
        yield f"    metadata {entry.id} = {entry.data.hex(' ')}"


def _compact(document: bytes) -> bytes:
    """Write JSON on one line, if it is small enough to be worth it."""
    if len(document) > 1 << 16:
        return document
    try:
        return json.dumps(json.loads(document), ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return document


def _record(record: Record) -> str:
    parts = [f"{entry.name}={number_text(entry.spec, entry.value)}" for entry in record.fields]
    if record.key:
        parts.append(f"key={_short(record.key)}")
    return "  ".join(parts)


def _field(entry: FieldValue, data: bytes, terminal: Terminal) -> str:
    return _line(data, entry.offset, entry.spec.size, entry.name, number_text(entry.spec, entry.value), terminal)


def number_text(field: Field, number: int) -> str:
    """Write a field's number, and what it stands for."""
    names = field.names
    if isinstance(names, Enumeration):
        member = names.member(number)
        return f"{number} {member.name}" if member is not None else f"{number} (unknown)"
    if isinstance(names, Flags):
        rest = names.unknown(number)
        known = "|".join((*names.names(number), *([hex(rest)] if rest else [])))
        return f"0x{number:x} {known}".rstrip()
    if field.role is Role.IDENTIFIER or field.raw:
        return f"0x{number:0{2 * field.size}x}"
    if field.role is Role.SEQNO and number == (1 << 64) - 1:
        return "no end"
    return str(number)


def _line(data: bytes, offset: int, size: int, name: str, text: str, terminal: Terminal) -> str:
    digits = data[offset : offset + min(size, _DIGITS)].hex(" ")
    if size > _DIGITS:
        digits += terminal.encode(" …")
    return f"    {offset:04x}  {terminal.dim(f'{digits:<26}')} {name:<{_NAME}} {text}"


def _short(data: bytes) -> str:
    text = safe_text(data[:_PREVIEW])
    return text if len(data) <= _PREVIEW else f"{text} ... ({len(data):,} bytes)"


def _span(first: int, last: int) -> str:
    return str(last) if first == last else f"{first} to {last}"


def _time(time_ns: int) -> str:
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415 - only trees show it

    seconds, rest = divmod(time_ns, 10**9)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{time_ns} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def hidden_spans(decoded: Decoded) -> list[tuple[int, int]]:
    """Return the bytes of a frame that are not to be shown."""
    value = decoded.value
    return [(value.offset, value.offset + value.length)] if value.redacted else []
