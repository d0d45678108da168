"""Values: how each kind is built, and the fields of those that are lists of records."""

from __future__ import annotations

from typing import NamedTuple

from dissector.spec import fields
from dissector.spec.model import Body, Field


class BodySpec(NamedTuple):
    """How a value of one kind is built. ``record`` repeats until the value ends."""

    body: Body
    doc: str
    record: tuple[Field, ...] = ()
    tail: tuple[str, ...] = ()  #: fields of the record that give the sizes of what follows it: key, then value


_ALL: tuple[BodySpec, ...] = (
    BodySpec(Body.BYTES, "Bytes that are not looked into."),
    BodySpec(
        Body.DOCUMENT,
        "The document, encoded as the datatype says. With snappy the whole value is one raw snappy block. With xattr "
        "it then starts with the section's length in 4 bytes and the pairs, each with its length in 4 bytes, a name, "
        "a zero byte, a value and a zero byte; the document follows. The last nmeta bytes, outside all of this, are "
        "extended metadata (4.0 to 4.6, after the control enable_ext_metadata): a version byte 1, then entries of "
        "an id byte, a length in 2 bytes and the data.",
    ),
    BodySpec(
        Body.FAILOVER_LOG,
        "The branches of the vbucket's history, the newest first; seqnos never rise.",
        fields.FAILOVER_ENTRY,
    ),
    BodySpec(Body.TEXT, "Text."),
    BodySpec(Body.JSON, "A JSON object, or nothing. Keys that a server does not know are ignored."),
    BodySpec(
        Body.FEATURES,
        "A list of features: in a request those that the client wants, in the answer those that it gets.",
        fields.FEATURE_ENTRY,
    ),
    BodySpec(Body.VBUCKET_SEQNOS, "A list of vbuckets, by ascending id.", fields.VBUCKET_SEQNO_ENTRY),
    BodySpec(
        Body.CACHE_TRANSFER,
        "Documents; key and value follow the fields of each. Their seqnos are in no order.",
        fields.CACHE_RECORD,
        ("key_length", "value_length"),
    ),
    BodySpec(
        Body.SYSTEM_EVENT, "What the event and its version say: fixed fields, or a FlatBuffers table in version 2."
    ),
    BodySpec(
        Body.SECRET,
        "A log-in, or what holds keys, passwords or tokens. It is withheld from every output unless asked for.",
    ),
)

BODIES: dict[Body, BodySpec] = {spec.body: spec for spec in _ALL}
#: The values that are nothing but records.
RECORDS: dict[Body, tuple[Field, ...]] = {spec.body: spec.record for spec in _ALL if spec.record and not spec.tail}
