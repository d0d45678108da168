"""The framing extras of flexible frames: a list of small objects in front of the extras."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.message import FieldValue, FrameInfoValue
from dissector.codec.values import check_names, read_fields
from dissector.spec import headers, registry

if TYPE_CHECKING:
    from dissector.codec.values import DefectSink
    from dissector.spec.model import MessageType


def read_frame_infos(
    block: bytes, direction: MessageType | None, report: DefectSink, *, whole: bool
) -> tuple[FrameInfoValue, ...]:
    """Read ``id << 4 | length`` and its data, again and again; a nibble of 15 goes on in the next byte.

    ``whole`` is False when the frame is cut short: then an object that does not fit has been accounted for.
    """
    infos: list[FrameInfoValue] = []
    position = 0
    while position < len(block):
        start = position
        number, size = block[position] >> 4, block[position] & headers.FRAME_INFO_ESCAPE
        position += 1
        if number == headers.FRAME_INFO_ESCAPE and position < len(block):
            number += block[position]
            position += 1
        if size == headers.FRAME_INFO_ESCAPE and position < len(block):
            size += block[position]
            position += 1
        data = block[position : position + size]
        if len(data) < size:
            if whole:
                report("framing-malformed", f"the object at byte {start} has {len(data)} of {size} bytes")
            break
        if any(info.id == number for info in infos):
            report("frame-info-repeated", f"id {number}")
        infos.append(_info(number, data, registry.HEADER_SIZE + position, direction, report))
        position += size
    return tuple(infos)


def _info(number: int, data: bytes, offset: int, direction: MessageType | None, report: DefectSink) -> FrameInfoValue:
    spec = registry.FRAME_INFO_BY_ID.get((direction, number)) if direction is not None else None
    found: tuple[FieldValue, ...] = ()
    if spec is None:
        report("frame-info-unknown", f"id {number}")
    elif spec.sizes is not None and len(data) not in spec.sizes:
        report("frame-info-length", f"{spec.name} has {len(data)} bytes")
    else:
        found = read_fields(spec.fields, data, offset)
        check_names(found, report)
    return FrameInfoValue(number, spec, data, found, offset)
