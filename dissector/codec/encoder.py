"""The encoder: messages to bytes, from the same declarations that the decoder reads.

It writes what it is told, wrong things too: traffic with faults is made by passing other lengths or fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.message import Header
from dissector.spec import headers, registry
from dissector.spec.model import Dialect, MessageType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dissector.spec.model import Field, Layout, Message, Shape


def encode(
    message: Message,
    fields: Mapping[str, int] | None = None,
    *,
    response: bool = False,
    layout: Layout | None = None,
    key: bytes = b"",
    value: bytes = b"",
    opaque: bytes = bytes(4),
    vbucket: int = 0,
    status: int = 0,
    subtype: int | None = None,
    cas: int = 0,
    datatype: int = 0,
    framing: Sequence[tuple[int, bytes]] | None = None,
) -> bytes:
    """Write one frame.

    Fields that are not given are zero; a layout's version is filled in. ``layout`` defaults to the first one of the
    message. ``framing`` (ids and data of frame infos, an empty list included) makes a flexible frame.
    """
    drafted = message.dialect is Dialect.DRAFT
    shape = _shape(message, response, status)
    layout = layout or (shape.layouts[0] if shape is not None and shape.layouts else None)
    numbers = dict(fields or {})
    if layout is not None and layout.version is not None:
        numbers.setdefault(layout.extras[-1].name, layout.version)
    extras = pack_fields(layout.extras, numbers) if layout is not None else b""
    value = (pack_fields(layout.value, numbers) if layout is not None else b"") + value
    block = b"".join(pack_frame_info(number, data) for number, data in framing) if framing is not None else b""
    header = Header(
        magic=_magic(message, response, framing is not None),
        opcode=message.opcode,
        key_word=len(block) << 8 | len(key) if framing is not None else len(key),
        extras_length=len(extras),
        datatype=(subtype if subtype is not None else message.subtypes[0]) if drafted else datatype,
        vbucket_or_status=vbucket if drafted or not response else status,
        body_length=len(block) + len(extras) + len(key) + len(value),
        opaque=opaque,
        cas=cas,
    )
    return header.pack() + block + extras + key + value


def _shape(message: Message, response: bool, status: int) -> Shape | None:
    if message.push is not None:
        return message.push
    return message.response(status) if response else message.request


def _magic(message: Message, response: bool, flexible: bool) -> int:
    direction = MessageType.RESPONSE if response or message.push is not None else MessageType.REQUEST
    return next(
        magic.value
        for magic in registry.MAGICS.values()
        if (magic.direction, magic.flexible, magic.server_push) == (direction, flexible, message.server_push)
    )


def pack_fields(declared: tuple[Field, ...], numbers: Mapping[str, int]) -> bytes:
    """Write declared fields; those without a number are zero."""
    return b"".join(numbers.get(field.name, 0).to_bytes(field.size, "big") for field in declared)


def pack_frame_info(number: int, data: bytes) -> bytes:
    """Write one object of the framing extras; ids and sizes from 15 on take a byte of their own."""
    head = min(number, headers.FRAME_INFO_ESCAPE) << headers.FRAME_INFO_ID_SHIFT | min(
        len(data), headers.FRAME_INFO_ESCAPE
    )
    more = [rest - headers.FRAME_INFO_ESCAPE for rest in (number, len(data)) if rest >= headers.FRAME_INFO_ESCAPE]
    return bytes([head, *more]) + data


def pack_xattrs(pairs: Sequence[tuple[bytes, bytes]], document: bytes = b"") -> bytes:
    """Write an xattr section and the document after it."""
    section = b"".join(
        (len(name) + len(value) + 2).to_bytes(4, "big") + name + b"\0" + value + b"\0" for name, value in pairs
    )
    return len(section).to_bytes(4, "big") + section + document


def pack_records(entry: tuple[Field, ...], rows: Sequence[Mapping[str, int]]) -> bytes:
    """Write a list of records such as a failover log."""
    return b"".join(pack_fields(entry, row) for row in rows)


def pack_metadata(version: int, entries: Sequence[tuple[int, bytes]]) -> bytes:
    """Write an extended metadata block."""
    return bytes([version]) + b"".join(
        bytes([number]) + len(data).to_bytes(2, "big") + data for number, data in entries
    )
