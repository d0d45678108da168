"""Bytes behind a frame that are no header: a length was wrong, and they may be what it left out (E-02, E-03, E-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codec.message import Header
from dissector.spec import fields, registry
from dissector.spec.model import size_of

if TYPE_CHECKING:
    from dissector.codec.values import DefectSink
    from dissector.spec.model import Message

_LOG_ENTRY = size_of(fields.FAILOVER_ENTRY)


def check_strays(header: Header, spec: Message | None, rest: bytes, report: DefectSink, *, response: bool) -> None:
    """Name what follows a frame, unless it can be the next one."""
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
