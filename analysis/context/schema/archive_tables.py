"""Tables that only an archive has: what rules across connections look at. :mod:`analysis.archive.xcn_01` makes them."""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.model import GUILTY, Column, Reference, TableSchema, View

_EITHER = View.EITHER

VERSIONS = TableSchema(
    "versions",
    "every seqno of a vbucket's branch that was seen more than once, in all captures of an archive",
    (
        Column("branch", "uuid of the branch of the vbucket's history, from the failover log; 0: not known", _EITHER),
        Column("vbucket_uuid", "the same", _EITHER),
        Column("by_seqno", "the seqno", _EITHER),
        Column("what", "in what the version differs from another one of the same seqno", words=words.DIFFERENCE),
        *(
            Column(f"{prefix}{name}", f"{doc}{whose}", _EITHER)
            for name, doc in (
                ("rev_seqno", "revision"),
                ("item_flags", "item flags"),
                ("expiration", "expiry"),
                ("durability_level", "durability level"),
            )
            for prefix, whose in (("", ""), ("other_", " of the other version"))
        ),
    ),
    (GUILTY, Reference("other", "the message with the other version")),
)
TABLES = (VERSIONS,)
