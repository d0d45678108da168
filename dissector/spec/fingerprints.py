"""Evidence in frames of the dialect, the release and the program that sent them; limits of a believable header."""

from __future__ import annotations

from typing import NamedTuple

from dissector.spec.model import UNRELEASED, Dialect, Release


class Fingerprint(NamedTuple):
    """A request of one extras length (and version byte), and what it proves."""

    opcode: int
    extras: int
    dialect: Dialect
    version: int | None = None
    since: Release | None = None
    until: Release | None = None


#: The dialect with more of these is spoken; those that disagree are contradictions. The 31-byte mutation decides
#: nothing: it was sent from 2014-01-21 on, before the marker had a range and after.
FORMS: tuple[Fingerprint, ...] = (
    Fingerprint(0x53, 40, Dialect.UPR),
    Fingerprint(0x56, 0, Dialect.UPR),
    Fingerprint(0x57, 28, Dialect.UPR),
    Fingerprint(0x57, 30, Dialect.UPR),
    Fingerprint(0x53, 48, Dialect.DCP, since=Release(3)),
    Fingerprint(0x56, 20, Dialect.DCP, since=Release(3)),
    Fingerprint(0x56, 1, Dialect.DCP, 0, Release(6, 5)),
    Fingerprint(0x56, 1, Dialect.DCP, 1, Release(7), Release(7, 6)),
    Fingerprint(0x56, 1, Dialect.DCP, 2, Release(8)),
    Fingerprint(0x57, 32, Dialect.DCP, since=Release(5), until=Release(6)),
    Fingerprint(0x58, 19, Dialect.DCP, since=Release(5), until=Release(6)),
    Fingerprint(0x58, 21, Dialect.DCP, since=Release(5, 5)),
    Fingerprint(0x59, 20, Dialect.DCP, since=Release(6, 5)),
    Fingerprint(0x60, 31, Dialect.DCP, since=Release(6, 5)),
    Fingerprint(0x61, 8, Dialect.DCP, since=Release(6, 5)),
    Fingerprint(0x62, 16, Dialect.DCP, since=Release(6, 5)),
    Fingerprint(0x63, 16, Dialect.DCP, since=Release(6, 5)),
    Fingerprint(0x64, 8, Dialect.DCP, since=Release(7)),
    Fingerprint(0x65, 4, Dialect.DCP, since=Release(7)),
    Fingerprint(0x66, 0, Dialect.DCP, since=UNRELEASED),
    Fingerprint(0x67, 0, Dialect.DCP, since=UNRELEASED),
)

_BY_REQUEST = {
    request: tuple(form for form in FORMS if (form.opcode, form.extras) == request)
    for request in {(form.opcode, form.extras) for form in FORMS}
}


def fingerprints_of(opcode: int, extras: int, version: int | None) -> list[Fingerprint]:
    """Return what a request of this opcode and extras length proves; ``version`` is its first byte of extras."""
    return [form for form in _BY_REQUEST.get((opcode, extras), ()) if form.version in (None, version)]


#: One well-formed request of these opcodes makes a connection UPR; of any other a second frame is needed.
DECISIVE_OPCODES = frozenset((0x50, 0x53, 0x56, 0x57))

#: Flexible framing came with this release.
FLEXIBLE_SINCE = Release(6, 5)
#: The open flag include_delete_times came with this release.
DELETE_TIMES_SINCE = Release(5, 5)

#: Servers number their no-ops from here, little-endian.
NOOP_COUNTERS: tuple[tuple[int, int, str], ...] = (
    (1_000_000, 1_999_999, "no-op opaque of a 3.0.0 server"),
    (10_000_000, 19_999_999, "no-op opaque of a server later than 3.0.0"),
)

#: couchbase/gomemcached starts the opaques of its opens with these bytes.
GOMEMCACHED_OPEN = bytes.fromhex("beaf")

#: A kv_engine consumer sends its controls in this order.
KV_ENGINE_CONTROLS = (b"enable_noop", b"set_noop_interval", b"set_priority", b"supports_cursor_dropping_vulcan")

#: A SET has this extras length and a key; the draft's requests do not (they share the opcode 0x01).
SET_EXTRAS = 8
#: The draft's answers, and its stream messages: no DELETE response has a key.
DRAFT_RESPONSE, DRAFT_STREAM_MESSAGE = 0x02, 0x04

# Resynchronisation: what a header must be to be believed where none is known to start.

#: No server sends more: 20 MiB of document, 1 MiB of xattrs, and room for what is to come.
MAX_BODY = 30 * 1024 * 1024
#: Vbuckets of a bucket; a request for a higher one is no header. Tests of the servers use up to 65536.
DEFAULT_VBUCKETS = 1024
#: Headers in a row that are believed: two would do, but values may be captures of memcached traffic themselves.
CONFIRM_HEADERS = 3
#: More than any response has: refusals may carry what the tables do not list.
MAX_ANSWER_EXTRAS = 24
