"""Which parts a message has to have: the presence rules, held against the sizes and numbers of a header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.spec import enums
from dissector.spec.model import CasRule, Presence

if TYPE_CHECKING:
    from dissector.codec.message import Header
    from dissector.codec.values import DefectSink
    from dissector.spec.model import Layout, Shape


def check_parts(shape: Shape, layout: Layout | None, key: int, value: int, report: DefectSink) -> None:
    """Report key and value that are missing, unexpected or of a wrong length; the sizes are the header's."""
    name = layout.name if layout is not None else "message"
    if key and shape.key is Presence.MUST_NOT:
        report("key-unexpected", f"{key} bytes")
    if not key and shape.key is Presence.MUST:
        report("key-missing", "the key length is 0")
    fixed = layout is not None and any(entry.value for entry in shape.layouts)
    if fixed and layout is not None:
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
