"""FRM-09 to FRM-15: what keys, values and fields of messages say."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.requests.state import bit
from analysis.rules import message_words
from analysis.rules.conditions import NEGOTIATION_UNKNOWN, at_least
from analysis.rules.defect_checks import by_defects
from analysis.rules.expressions import col, constant, either
from analysis.rules.model import SEARCHED, Check, Excuse, Rule, Severity, Unknown
from dissector.spec import enums, registry

_W = Severity.WARNING
_COLLECTIONS = bit("hello_collections")
_EXT_METADATA = bit("enable_ext_metadata")
_KEPT_DATATYPE = bit("open_no_value_with_underlying_datatype")
_SNAPPY = enums.DATATYPES.bit("snappy")
_DOCUMENTS = (
    *(kinds.MUTATION, kinds.DELETION, kinds.EXPIRATION),
    *(kinds.PREPARE, kinds.COMMIT, kinds.ABORT),
)
_DOCUMENT = col.opcode.one_of(_DOCUMENTS) & ~(col.response | col.is_upr | col.draft)
_NO_EVENT = col.opcode.differs(kinds.SYSTEM_EVENT)
_VALIDATORS = "request validators of the servers"
_MARKER_V20, _MARKER_V22 = 36, 52  #: bytes of value

RULES: tuple[Rule, ...] = (
    Rule(
        "FRM-09",
        Severity.ERROR,
        "keys start with a collection id where that was agreed upon",
        "With HELLO collections a document's key has at most 251 bytes and starts with a canonical unsigned LEB128 "
        "number of at most 5 bytes, with at least one byte behind it.",
        (
            by_defects(
                "FRM-09",
                when=col.agreed.has(_COLLECTIONS) | (col.error_frm_09 > 0) | (_DOCUMENT & ~col.opened.true()),
                unknown=(Unknown("setup", ~col.agreed.has(_COLLECTIONS)),),
            ),
        ),
        since="7.0",
        excuses=(Excuse("HELLO was not captured: nothing tells that keys have collection ids", "missing-hello"),),
        source=_VALIDATORS,
        limits="keys of connections whose HELLO was not captured",
        next_step="look at the key of frame {frame}: consumers file such a document under a wrong collection, "
        "or refuse it",
    ),
    Rule(
        "FRM-10",
        _W,
        "values are what their datatype says",
        "Snappy starts with a length and expands to it, xattrs add up within the value, JSON can be read. The value of "
        "a system event of version 2 is a FlatBuffers table, and is not compressed.",
        (
            by_defects(
                "FRM-10",
                _W,
                unknown=(
                    # It leaves no value, or xattrs alone, and those as they are: what it may falsify is snappy.
                    Unknown("setup", col.agreed.has(_KEPT_DATATYPE) & _NO_EVENT),
                    Unknown("setup", col.datatype.has(_SNAPPY) & NEGOTIATION_UNKNOWN.when & _NO_EVENT),
                ),
            ),
        ),
        excuses=(
            Excuse("with open flag 0x40 the datatype describes the stored document, not the value", "kept-datatype"),
        ),
        source=_VALIDATORS,
        bugs=("MB-54967",),
        next_step="read the document or event of frame {frame} at its sender and compare: it is corrupt there, or "
        "was damaged on its way",
        limits="values that are cut, and connections with open flag 0x40",
        inspects=True,
    ),
    Rule(
        "FRM-11",
        Severity.ERROR,
        "a long marker has a known version and its length",
        "A marker with 1 byte of extras has version 0 or 2, and a value of 36 or 52 bytes.",
        (
            by_defects("FRM-11"),
            by_defects("FRM-11", _W),
            Check(
                "messages",
                col.value_length.equals(
                    either(col.marker_version.equals(0), constant(_MARKER_V20), constant(_MARKER_V22))
                ),
                "a marker of version {marker_version} with a value of {value_length} bytes; version 0 has 36, "
                "version 2 has 52",
                when=col.opcode.equals(kinds.SNAPSHOT_MARKER)
                & col.extras_length.equals(1)
                & col.marker_version.one_of((0, 2))
                & ~(col.response | col.draft),
                unknown=(SEARCHED,),
                facts=("marker_version", "value_length"),
                root="marker_version",
                name="length",
            ),
        ),
        since="6.5",
        source="snapshot marker V2",
        bugs=("MB-65564",),
        next_step="compare the releases of both sides: which marker a producer sends was agreed upon with the "
        "control max_marker_version",
    ),
    Rule(
        "FRM-12",
        Severity.ERROR,
        "extended metadata fits, and is not sent since 5.0",
        "nmeta is not more than the bytes behind the key; since 5.0 it is 0.",
        (
            by_defects("FRM-12"),
            by_defects("FRM-12", _W),
            Check(
                "messages",
                col.agreed.has(_EXT_METADATA),
                "nmeta {nmeta} in {form}, from a server of 5.0 or later, where it is 0",
                when=(col.nmeta > 0) & at_least(5),
                unknown=(SEARCHED, NEGOTIATION_UNKNOWN),
                facts=("nmeta", "opcode"),
                spoken=("form",),
                root="opcode",
                name="era",
                words={"form": message_words.FORMS},
            ),
        ),
        excuses=(Excuse("4.x sends it to those who asked with enable_ext_metadata", "ext-metadata"),),
        source="enable_ext_metadata was removed in 5.0",
        limits="connections whose messages do not show that the server is of 5.0 or later",
        next_step="look at the last {nmeta} bytes of frame {frame}: a consumer that does not expect metadata "
        "takes them for the end of the document",
    ),
    Rule(
        "FRM-13",
        Severity.ERROR,
        "numbers have a meaning",
        "End reasons are at most 8, vbucket states 1 to 4, OSO flags 1 or 2, system events 0, 1, 3, 4 or 5, durability "
        "levels 1 to 3; statuses are known. The stream id that a stream request asks for has 16 bits.",
        (by_defects("FRM-13"), by_defects("FRM-13", _W)),
        dialects=("draft", "upr", "dcp"),
        excuses=(Excuse("event 2 existed from 5.0 to 7.1", "system-events"),),
        source=_VALIDATORS,
        next_step="find out the release of the sender of frame {frame}: a later one may have more numbers, an "
        "earlier one sent something else than it meant",
    ),
    Rule(
        "FRM-14",
        Severity.ERROR,
        "cached records tile the value",
        "The records of a cache transfer fill the value exactly; their keys have 2 to 251 bytes.",
        (by_defects("FRM-14", when=col.opcode.equals(kinds.CACHE_TRANSFER) & ~(col.response | col.draft)),),
        source="cache transfer",
        next_step="look at the records in the value of frame {frame}: a consumer can't take in those after the "
        "wrong one",
    ),
    Rule(
        "FRM-15",
        Severity.INFO,
        "vbuckets are those of the cluster",
        f"A vbucket's number is less than {registry.DEFAULT_VBUCKETS}, as many as clusters have.",
        (
            Check(
                "messages",
                col.vbucket < registry.DEFAULT_VBUCKETS,
                f"vbucket {{vbucket}}; clusters have {registry.DEFAULT_VBUCKETS}",
                when=~col.response,
                unknown=(SEARCHED,),
                facts=("vbucket",),
                root="vbucket",
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(Excuse("test clusters have other numbers of vbuckets", "test-cluster"),),
        source="cluster map",
        limits="how many vbuckets a cluster has: 1024 is taken for granted",
        next_step="look up how many vbuckets the bucket has: the cluster map and the statistics of a node tell",
    ),
)
