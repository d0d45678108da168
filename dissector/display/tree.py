"""A frame as a tree: every byte accounted for, with its offset, its digits and what it means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from dissector.spec import fields, registry
from dissector.spec.headers import header_form
from dissector.spec.model import Body, Enumeration, Field, Flags, Role, size_of
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dissector.codec.message import Decoded, FieldValue, Record, TableEntry, Value
    from dissector.terminal.style import Terminal

_DIGITS = 8  #: bytes whose digits are shown in a line
_NAME = 22
_PREVIEW = 400
_MAX_RECORDS = 64
#: Strings of JSON, so that they are passed over, and the whitespace between its parts.
_BETWEEN = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')


class _TreeBytes(NamedTuple):
    """Some bytes of a frame and what they mean. Without a size: more about the bytes before."""

    offset: int
    size: int
    name: str
    text: str
    secret: bool = False


def tree(decoded: Decoded, data: bytes, row: dict[str, Any], terminal: Terminal) -> Iterator[str]:
    """Yield the lines of a frame's tree. ``data`` are its bytes, ``row`` says where it came from."""
    spec = decoded.spec
    constant = f" ({spec.constant})" if spec is not None else ""
    kind = "reply" if row["response"] else "request"
    yield terminal.title(
        f"Frame {row['frame']}: {decoded.name}{constant} {kind}, {decoded.dialect}, {_bytes(len(data))}"
    )
    packets = _span(row["packet_first"], row["packet_last"])
    arrow = terminal.encode("→")
    yield f"  {row['src']}:{row['sport']} {arrow} {row['dst']}:{row['dport']}, connection {row['connection']}"
    yield f"  {packets} of {safe_text(row['capture'])}, {_time(row['time_ns'])}"
    acked = "nothing" if row["acked_offset"] is None else f"{row['acked_offset']:,}"
    place = f"bytes {row['start_offset']:,} to {row['end_offset']:,} of its direction"
    yield f"  {place}; its sender had acknowledged {acked}"
    for name, text in (("gap", "lost before it"), ("skipped", "passed over before it"), ("missing", "missing in it")):
        if row[name]:
            yield terminal.warning(f"  {_bytes(row[name])} {text}")
    yield from _header(decoded, data, terminal)
    yield from _framing(decoded, data, terminal)
    yield from _body(decoded, data, terminal)
    if decoded.defects:
        yield terminal.heading("  Defects")
        for defect in decoded.defects:
            yield terminal.warning(f"    {defect.spec.severity}: {defect.id}: {safe_text(defect.detail)}")


def _header(decoded: Decoded, data: bytes, terminal: Terminal) -> Iterator[str]:
    header = decoded.header
    size = min(len(data), registry.HEADER_SIZE)
    if header is None:
        parts = [_TreeBytes(0, size, "bytes", "too few for a header")] if size else []
    elif (form := header_form(header.magic, draft=decoded.subtype is not None)) is None:
        parts = [_TreeBytes(0, size, "bytes", "unknown magic")]
    else:
        parts = [
            _TreeBytes(offset, field.size, field.name, _header_text(decoded, field, _number(data, offset, field.size)))
            for offset, field in form.places
        ]
    yield from _section("Header", parts, 0, size, data, terminal)


def _number(data: bytes, offset: int, size: int) -> int:
    return int.from_bytes(data[offset : offset + size], "big")


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
    parts = []
    at = registry.HEADER_SIZE
    for info in decoded.frame_infos:
        name = info.spec.name if info.spec is not None else "unknown"
        parts.append(_TreeBytes(at, info.offset - at, "id and length", f"{info.id} {name}, {_bytes(len(info.data))}"))
        if info.fields:
            parts += _field_parts(info.fields)
        elif info.data:
            parts.append(_TreeBytes(info.offset, len(info.data), "data", safe_text(info.data)))
        at = info.offset + len(info.data)
    end = decoded.extras_offset
    size = _bytes(end - registry.HEADER_SIZE)
    yield from _section(f"Framing extras, {size}", parts, registry.HEADER_SIZE, end, data, terminal, cut=_cut(decoded))


def _body(decoded: Decoded, data: bytes, terminal: Terminal) -> Iterator[str]:
    value = decoded.value
    extras_end = decoded.extras_offset + len(decoded.extras)
    in_extras = [entry for entry in decoded.fields if entry.offset < extras_end]
    layout = f" ({decoded.layout.name})" if decoded.layout is not None else ""
    title = f"Extras, {_bytes(len(decoded.extras))}{layout}"
    yield from _section(
        title, _field_parts(in_extras), decoded.extras_offset, extras_end, data, terminal, cut=_cut(decoded)
    )
    key_end = decoded.key_offset + len(decoded.key)
    if decoded.key:
        prefix = len(decoded.key) - len(decoded.document_key)
        at = decoded.key_offset
        parts = [_TreeBytes(at + prefix, len(decoded.document_key), "key", safe_text(decoded.document_key))]
        if decoded.collection_id is not None:
            parts.insert(0, _TreeBytes(at, prefix, "collection_id", f"0x{decoded.collection_id:x}"))
        yield from _section(f"Key, {_bytes(len(decoded.key))}", parts, at, key_end, data, terminal)
    if value.length:
        end = min(value.offset + value.length, len(data))
        in_value = [entry for entry in decoded.fields if entry.offset >= extras_end]
        title = f"Value, {_bytes(value.length)} ({value.kind})"
        if value.withheld:
            withheld = _TreeBytes(value.offset, end - value.offset, "withheld", "--show-secrets shows it", secret=True)
            yield from _section(title, [withheld], value.offset, end, data, terminal)
        else:
            parts = _table(value) if value.table is not None else _field_parts(in_value) or _value(decoded, end)
            yield from _section(title, parts, value.offset, end, data, terminal, cut=_cut(decoded))
    if decoded.header is not None:
        at = max(value.offset + value.length, key_end) if value.length else max(key_end, extras_end)
        yield from _section("Behind the body", [], at, len(data), data, terminal)


def _value(decoded: Decoded, end: int) -> list[_TreeBytes]:
    value = decoded.value
    parts = []
    for number, record in enumerate(value.records[:_MAX_RECORDS]):
        parts.append(_TreeBytes(record.fields[0].offset, _record_size(record), f"[{number}]", _record(record)))
    rest = value.records[_MAX_RECORDS:]
    if rest:
        size = sum(_record_size(record) for record in rest)
        parts.append(_TreeBytes(rest[0].fields[0].offset, size, "records", f"and {len(rest)} more"))
    if parts:
        return parts
    # What is inside the bytes on the wire has no offset of its own: it may have been compressed.
    size = min(len(value.raw), end - value.offset)
    inside = list(_inside(decoded)) if size else []
    for index, (name, text) in enumerate(inside):
        parts.append(_TreeBytes(value.offset, 0 if index else size, name, text))
    at = value.offset + len(value.raw)
    if value.metadata:
        parts.append(_TreeBytes(at, 1, "metadata version", str(fields.METADATA_VERSION)))
        at += 1
    for entry in value.metadata:
        size = size_of(fields.METADATA_ENTRY) + len(entry.data)
        parts.append(_TreeBytes(at, size, f"metadata {entry.id}", entry.data.hex(" ")))
        at += size
    return parts


def _inside(decoded: Decoded) -> Iterator[tuple[str, str]]:
    value = decoded.value
    if value.inflated is not None:
        yield "snappy", f"{_bytes(len(value.raw))} expand to {len(value.inflated):,}"
    for name, content in value.xattrs:
        yield "xattr", f"{safe_text(name)} = {_short(content)}"
    if value.document:
        label = "JSON" if value.is_json else "text" if value.kind in (Body.TEXT, Body.JSON) else "data"
        yield label, _short(_compact(value.document) if value.is_json else value.document)


def _record_size(record: Record) -> int:
    return sum(entry.spec.size for entry in record.fields) + len(record.key) + len(record.value)


def _compact(document: bytes) -> bytes:
    """Put JSON on one line; nothing else is changed, as what is on the wire may be odd."""
    return _BETWEEN.sub(lambda found: found[1] or b" ", document[: 1 << 16]) + document[1 << 16 :]


def _record(record: Record) -> str:
    parts = [f"{entry.name}={number_text(entry.spec, entry.value)}" for entry in record.fields]
    if record.collection_id is not None:
        parts.append(f"collection_id=0x{record.collection_id:x}")
    if record.document_key:
        parts.append(f"key={_short(record.document_key)}")
    return "  ".join(parts)


def _table(value: Value) -> list[_TreeBytes]:
    """Describe a FlatBuffers table in the order of its bytes; what has its default comes last."""
    table = value.table
    if table is None:
        return []
    known = [(entry, _entry_text(entry)) for entry in table.entries]
    if table.compressed:
        whole = _TreeBytes(value.offset, len(value.raw), "snappy", f"a compressed {table.spec.name}")
        return [whole, *(_TreeBytes(value.offset, 0, entry.name, text) for entry, text in known)]
    parts = [
        _TreeBytes(value.offset, 4, "place of the table", f"byte {table.offset - value.offset} of the value"),
        _TreeBytes(table.vtable_offset, table.vtable_size, "vtable", f"places of the slots of {table.spec.name}"),
        _TreeBytes(table.offset, 4, "place of the vtable", f"byte {table.vtable_offset - value.offset} of the value"),
    ]
    for entry, text in known:
        if entry.reference is not None:
            parts.append(_TreeBytes(entry.reference, 4, f"place of {entry.name}", ""))
        if entry.offset is not None:
            parts.append(_TreeBytes(entry.offset, _entry_size(entry), entry.name, text))
    missing = [(entry, text) for entry, text in known if entry.offset is None]
    parts = _apart(sorted(parts))
    return parts + [_TreeBytes(parts[-1].offset, 0, entry.name, f"{text} (default)") for entry, text in missing]


def _apart(parts: list[_TreeBytes]) -> list[_TreeBytes]:
    """Show each byte once: what begins in bytes that were shown says more about them."""
    found = []
    at = 0
    for part in parts:
        found.append(part if part.offset >= at else part._replace(size=0))
        at = max(at, part.offset + part.size)
    return found


def _entry_text(entry: TableEntry) -> str:
    if isinstance(entry.value, bytes):
        return _short(entry.value)
    return number_text(entry.spec, entry.value) if isinstance(entry.spec, Field) else ""


def _entry_size(entry: TableEntry) -> int:
    """Return the bytes of a number, or of a text with its length in front and a zero behind it."""
    return len(entry.value) + 5 if isinstance(entry.value, bytes) else getattr(entry.spec, "size", 0)


def _field_parts(entries: Sequence[FieldValue]) -> list[_TreeBytes]:
    return [
        _TreeBytes(entry.offset, entry.spec.size, entry.name, number_text(entry.spec, entry.value)) for entry in entries
    ]


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


def _section(
    title: str,
    parts: Sequence[_TreeBytes],
    start: int,
    end: int,
    data: bytes,
    terminal: Terminal,
    *,
    cut: bool = False,
) -> Iterator[str]:
    """Yield the lines of a section; bytes that are not described are shown too."""
    end = min(end, len(data))
    if start >= end:
        return
    yield terminal.heading(f"  {title}")
    at = start
    for part in parts:
        if part.size:
            if at < part.offset:
                yield _line(data, _TreeBytes(at, part.offset - at, "bytes", "not described"), terminal)
            at = part.offset + part.size
        yield _line(data, part, terminal)
    if at < end:
        why = "cut short" if cut and end == len(data) else "not described"
        yield _line(data, _TreeBytes(at, end - at, "bytes", why), terminal)


def _line(data: bytes, part: _TreeBytes, terminal: Terminal) -> str:
    offset, digits = "", ""
    if part.size:
        offset = f"{part.offset:04x}"
        shown = data[part.offset : part.offset + min(part.size, _DIGITS)]
        digits = " ".join([".."] * len(shown)) if part.secret else shown.hex(" ")
        if part.size > _DIGITS:
            digits += terminal.encode(" …")
    return f"    {offset:4}  {terminal.dim(f'{digits:<27}')} {part.name:<{_NAME}} {part.text}".rstrip()


def _cut(decoded: Decoded) -> bool:
    return "truncated-frame" in decoded.defect_ids()


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count:,} bytes"


def _short(data: bytes) -> str:
    text = safe_text(data[:_PREVIEW])
    return text if len(data) <= _PREVIEW else f"{text} ... ({len(data):,} bytes)"


def _span(first: int, last: int) -> str:
    return f"packet {last}" if first == last else f"packets {first} to {last}"


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
    return [(value.offset, value.offset + value.length)] if value.withheld else []
