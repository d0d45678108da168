"""Eras, roles and agreements as terms: what rules ask about the connection before they judge a message of it.

All of it is evidence from the capture. A capture can show that a server is at least of some release, never that it is
older: a rule that begins with a release is silent until a message proves the release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.context.codes import UnknownReason
from analysis.context.connection_facts import release
from analysis.context.requests.state import AGREEMENTS, bit
from analysis.rules.expressions import Term, col
from analysis.rules.model import Unknown
from dissector.spec import enums
from dissector.spec.controls import CONTROL_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Features of HELLO, with the release that no server which grants them is older than. Collections were shown early.
_FEATURES = {"hello_xattr": release(5), "hello_collections": release(6, 5)}
_SINCE: Mapping[str, int] = {
    **{key.name: release(key.since.major, key.since.minor) for key in CONTROL_KEYS if key.since is not None},
    **_FEATURES,
}


#: Items of streams of keys alone may have CAS 0: those read from disk.
KEY_ONLY: Term = col.agreed.has(bit("open_no_value")) & ~col.agreed.has(
    bit("open_include_xattrs") | bit("open_include_deleted_user_xattrs")
)


def introduced_since(major: int, minor: int = 0) -> int:
    """Return the agreements, a bit each, that no server before a release makes."""
    wanted = release(major, minor)
    return sum(bit(name) for name in AGREEMENTS if _SINCE.get(name, 0) >= wanted)


def at_least(major: int, minor: int = 0) -> Term:
    """Return a term: the producer's release is this one or a later one, by what it said and what it agreed to."""
    found = (col.since >= release(major, minor)) | col.agreed.has(introduced_since(major, minor))
    return found.named(f"release ≥ {major}.{minor}")


def stream_flags(*names: str) -> int:
    """Return flags of stream requests by name."""
    return sum(enums.STREAM_FLAGS.bit(name) for name in names)


def marker_flags(*names: str) -> int:
    """Return flags of snapshot markers by name."""
    return sum(enums.MARKER_FLAGS.bit(name) for name in names)


def agreed(*names: str) -> Term:
    """Return a term: all of these were agreed upon."""
    found = col.agreed.has(bit(names[0]))
    for name in names[1:]:
        found &= col.agreed.has(bit(name))
    return found.named(" and ".join(names) + " agreed", atomic=len(names) == 1)


def unsure(*names: str) -> Unknown:
    """Return the reason that it is not known whether these were agreed upon: their request or answer may be lost."""
    return Unknown("setup", maybe(*names))


def maybe(*names: str) -> Term:
    """Return a term: one of these may have been agreed upon without being captured."""
    return col.unsure.has(sum(bit(name) for name in names)).named(f"{' or '.join(names)} unsure", atomic=True)


def undecided(why: Term) -> tuple[Unknown, ...]:
    """Return the reasons that a column of the context gives."""
    return tuple(Unknown(each.name.lower().replace("_", "-"), why.equals(each)) for each in UnknownReason if each)


SYNC_REPLICATION = agreed("enable_sync_writes", "consumer_name")

_ACTIVE = (
    ((col.flags >= 0) & col.flags.has(stream_flags("takeover", "active_vbucket_only")))
    | SYNC_REPLICATION
    | at_least(7, 2)
)
#: The producer's vbucket is active for certain: the request wanted no other one, or a replica takes part in its sync
#: writes. Later releases do not merge snapshots, whatever the vbucket is (MB-53523).
ACTIVE = _ACTIVE.named("source is active")

_PARTIAL = col.filtered.true() | col.agreed.has(bit("open_skip_deletes_in_backfill"))
PARTIAL = _PARTIAL.named("stream is filtered")  #: items may be missing on purpose

#: Something that could have been agreed upon may have been lost.
NEGOTIATION_UNKNOWN = Unknown("setup", col.unsure.differs(0))
#: Why the context itself could not decide about a row.
UNDECIDED = undecided(col.unknown)
