"""Checks of a frame's parts against the spec: the layout of its extras, the parts it must have, stray bytes after it.

Knows the presence rules of keys and values, the datatype and CAS a message may have, and the bytes that a wrong length
leaves between two frames (E-02, E-03, E-14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.message import Header
from dissector.spec import enums, fields, registry
from dissector.spec.model import CasRule, Presence, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.codec.values import DefectSink
    from dissector.spec.model import Layout, Message, Shape

_LOG_ENTRY = size_of(fields.FAILOVER_ENTRY)


def fitting_layout(layouts: Sequence[Layout], extras: bytes, size: int, value_length: int) -> Layout | None:
    """Return the layout of this extras length, and version where there are versions; the value's size breaks ties.

    A form that is only put up with (E-22) is believed when its value fits exactly.
    """
    fits = [
        layout
        for layout in layouts
        if layout.extras_size == size
        and (layout.version is None or extras[-1:] == bytes([layout.version]))
        and (layout.note is None or not layout.value or layout.version is not None or layout.value_size == value_length)
    ]
    return next((layout for layout in fits if layout.value_size == value_length), fits[0] if fits else None)


def nearest_layout(layouts: Sequence[Layout], size: int) -> Layout | None:
    """Return the longest layout that fits, else the shortest one: its leading fields are the best guess there is."""
    plain = [layout for layout in layouts if layout.extras_size and layout.version is None]
    shorter = [layout for layout in plain if layout.extras_size <= size]
    return max(shorter, key=_extras_size, default=None) or min(plain, key=_extras_size, default=None)


def _extras_size(layout: Layout) -> int:
    return layout.extras_size


def check_parts(shape: Shape, layout: Layout | None, key: int, value: int, report: DefectSink) -> None:
    """Report key and value that are missing, unexpected or of a wrong length; the sizes are the header's."""
    name = layout.name if layout is not None else "message"
    if key and shape.key is Presence.MUST_NOT:
        report("key-unexpected", f"{key} bytes")
    if not key and shape.key is Presence.MUST:
        report("key-missing", "the key length is 0")
    # A layout of another dialect may have a value where this dialect has none.
    if layout is not None and (layout.value or any(entry.value for entry in shape.layouts)):
        expected = layout.value_size
        if value == expected:
            return
        if not expected:
            report("value-unexpected", f"{value} bytes")
        elif not value:
            report("value-missing", f"{name} has {expected} bytes of value")
        else:
            report("value-length", f"{value} bytes, {name} has {expected}")
        return
    if value and shape.value is Presence.MUST_NOT:
        report("value-unexpected", f"{value} bytes")
    if not value and shape.value is Presence.MUST:
        report("value-missing", "the value is empty")


def check_header(shape: Shape, header: Header, report: DefectSink, *, drafted: bool) -> None:
    """Report a datatype or CAS that the message cannot have; the draft has a subtype in place of the datatype."""
    if not drafted:
        if enums.DATATYPES.unknown(header.datatype):
            report("datatype-invalid", f"0x{header.datatype:02x}")
        elif shape.datatypes is not None and header.datatype not in shape.datatypes:
            report("datatype-not-allowed", f"0x{header.datatype:02x}")
    if shape.cas is CasRule.ZERO and header.cas:
        report("cas-not-zero", f"0x{header.cas:016x}")
    if shape.cas is CasRule.NOT_ZERO and not header.cas:
        report("cas-zero", "the CAS is 0")


def check_strays(header: Header, spec: Message | None, rest: bytes, report: DefectSink, *, response: bool) -> None:
    """Report the bytes that follow a frame, unless they can be the next frame's header."""
    if looks_like_header(rest):
        return
    errata = spec.errata if spec is not None else ()
    bodiless_answer = response and header.body_length == 0
    if bodiless_answer and "E-15" in errata and len(rest) == fields.ROLLBACK_SEQNO.size:
        report("stray-rollback-seqno", f"{len(rest)} bytes follow")
    elif bodiless_answer and len(rest) % _LOG_ENTRY == 0 and {"E-02", "E-13", "E-30"} & set(errata):
        report("stray-failover-log", f"{len(rest) // _LOG_ENTRY} entries follow")
    elif spec is not None and not response and "E-03" in errata and _completes(header, spec, len(rest)):
        report("stray-snapshot-end", f"{len(rest)} bytes follow")
    else:
        report("stray-bytes", f"{len(rest)} bytes follow: {rest[:8].hex(' ')}")


def _completes(header: Header, spec: Message, surplus: int) -> bool:
    """Tell whether stray bytes would make the extras those of a longer layout."""
    layouts = spec.request.layouts if spec.request is not None else ()
    wanted = header.extras_length + surplus
    return any(layout.extras_size == wanted for layout in (*layouts, *registry.sibling_layouts(spec, None)))


def looks_like_header(data: bytes) -> bool:
    """Tell whether bytes can be the start of a frame: a magic, and lengths that do not contradict each other."""
    if not data or data[0] not in registry.MAGICS:
        return False
    if len(data) < registry.HEADER_SIZE:
        return True
    header = Header.parse(data)
    parts = header.framing_length + header.extras_length + header.key_length
    return parts <= header.body_length <= registry.MAX_BODY
