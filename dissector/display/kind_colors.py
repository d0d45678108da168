"""Colours of messages in the list: one for each kind, so that a stream's shape can be seen without reading.

Only the eight basic colours and their bright forms, which every theme adjusts to its background, dark or light.
"""

from __future__ import annotations

import functools

from dissector.frames.message_kinds import MessageKind, kind_named

_SETUP = "36"  #: cyan
_MARKER = "35"  #: magenta
_CHANGE = "32"  #: green
_REMOVAL = "94"  #: bright blue
_END = "1;35"  #: bold magenta: a marker's, but for good
_QUIET = "2"  #: dim
_PLAIN = ""

_BY_KIND = {
    MessageKind.NONE: _PLAIN,
    MessageKind.DATA: _CHANGE,
    MessageKind.CACHE: _CHANGE,
    MessageKind.MARKER: _MARKER,
    MessageKind.SNAPSHOT_END: _MARKER,
    MessageKind.OSO: _MARKER,
    MessageKind.END: _END,
    MessageKind.ACK: _QUIET,
    MessageKind.SEQNO_ACK: _QUIET,
}
#: Messages whose kind does not tell all.
_BY_NAME = {
    **dict.fromkeys(("deletion", "expiration", "abort"), _REMOVAL),
    "seqno_advanced": _MARKER,
    "noop": _QUIET,
    **dict.fromkeys(("sasl_list_mechs", "sasl_auth", "sasl_step", "select_bucket"), _SETUP),
}


@functools.cache
def request_color(name: str) -> str:
    """Return the SGR code for a request's name."""
    return _BY_NAME.get(name, _BY_KIND.get(kind_named(name), _SETUP))
