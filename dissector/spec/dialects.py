"""The dialects: when each was spoken, and what sets it apart."""

from __future__ import annotations

from typing import NamedTuple

from dissector.spec.model import Dialect


class DialectSpec(NamedTuple):
    """What a dialect is."""

    dialect: Dialect
    period: str
    doc: str
    changes: tuple[str, ...] = ()  #: what changed while it was spoken


#: The likeliest to be met in a capture comes first.
DIALECTS: tuple[DialectSpec, ...] = (
    DialectSpec(
        Dialect.DCP,
        "since 3.0 (2014)",
        "The protocol as shipped, under its later name. Opcodes 0x50 to 0x67; the snapshot marker announces a range "
        "of seqnos and precedes the changes.",
    ),
    DialectSpec(
        Dialect.UPR,
        "2013-09 to 2014-05",
        "The specification of January to June 2014 and the servers built before 3.0. The same opcodes as dcp; the "
        "marker has no range and follows its changes, and consumers answer what they receive though the documents "
        "say that they should not.",
        (
            "2013-10-30: an open has 8 bytes of extras, before it had 4",
            "2013-12-11: extended metadata; mutations grow from 28 bytes of extras to 30, deletions from 16 to 18",
            "2014-01-21: nru; mutations have 31 bytes of extras",
            "2014-03-12: no-op, buffer ack and control are new",
            (
                "2014-04-28: snapshots have a range (MB-10640): stream requests grow from 40 bytes of extras to 48, "
                "markers from none to 20"
            ),
            "2014-05-12: a marker's type is still a number, 0 memory and 1 disk; later they are bits",
        ),
    ),
    DialectSpec(
        Dialect.DRAFT,
        "August 2013",
        "The first draft: opcodes 0x01 to 0x05, which collide with SET to INCREMENT, with a subtype in the "
        "datatype's place and responses used as pushes. A stream is an ok, a stream start, changes between "
        "snapshot starts and ends, and a stream end. Believed only on positive evidence.",
    ),
    DialectSpec(
        Dialect.PROTO,
        "September and October 2013",
        "A numbering between draft and upr that lived in the source tree for some weeks. Never released and never "
        "detected: it is decoded on request only.",
    ),
    DialectSpec(
        Dialect.MEMCACHED,
        "always",
        "The host protocol: the commands that share a connection or a capture with UPR. A connection without a sign "
        "of UPR is this.",
    ),
)
DIALECT_ORDER: dict[Dialect, int] = {spec.dialect: place for place, spec in enumerate(DIALECTS)}
