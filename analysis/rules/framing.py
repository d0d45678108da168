"""FRM-01 to FRM-08: headers, and the parts that messages must have and must not have."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.requests.state import AGREEMENTS, bit
from analysis.rules import message_words
from analysis.rules.conditions import KEY_ONLY, NEGOTIATION_UNKNOWN, at_least
from analysis.rules.defect_checks import by_defects, by_dialect_forms, dialect_unknown, flag, unframed_bytes
from analysis.rules.expressions import col
from analysis.rules.model import SEARCHED, Check, Excuse, Rule, Severity, Unknown
from dissector.spec import enums
from dissector.spec.registry import HEADER_SIZE

_W = Severity.WARNING
_HELLO = sum(bit(name) for name in AGREEMENTS if name.startswith("hello_"))
_FLEXIBLE = tuple(magic.value for magic in enums.MAGICS if magic.flexible)
_FRAMED = _HELLO | bit("enable_stream_id")  #: either makes flexible framing possible
_STREAM_FLAGS = sum(flag.value for flag in enums.STREAM_FLAGS.members)
_UNNAMED_FLAGS = col.stream_flags.has(0xFFFFFFFF & ~_STREAM_FLAGS).named("stream_flags has a bit without a name")
#: As on streams of keys alone: what the open said must be known to judge it.
_BARE = col.cas.equals(0) & col.value_length.equals(0)
_NO_CAS = col.warning_frm_07.equals(flag("cas-zero"))
_ASKS = (kinds.STREAM_REQUEST, kinds.ADD_STREAM)
_VALIDATORS = "request validators of the servers"
_WORDS = {"form": message_words.FORMS, "magic": message_words.MAGICS}
#: Peers since 5.0 may be newer than this program. Before, all flags are known; but that must have been captured.
_MAYBE_NEWER = col.agreed.has(_HELLO) | at_least(5) | NEGOTIATION_UNKNOWN.when

RULES: tuple[Rule, ...] = (
    Rule(
        "FRM-01",
        Severity.ERROR,
        "the lengths of a frame add up",
        "Framing extras, extras and key are not longer than the total body, and the next frame starts right behind it.",
        (
            by_defects("FRM-01"),
            by_defects("FRM-01", _W),
            unframed_bytes(
                col.skipped < HEADER_SIZE,
                "{skipped} bytes lie between this frame and the next, which are too few for a frame",
                "behind",
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse(
                "7.0 servers write framing length 0 in deletions with a stream id: a warning of its own",
                "framed-deletions",
            ),
        ),
        source=_VALIDATORS,
        limits="right after a loss the same bytes could be the rest of a frame that was not captured",
        next_step="look at the bytes of frame {frame} and after it: the sender's lengths and what it wrote disagree",
    ),
    Rule(
        "FRM-02",
        Severity.ERROR,
        "magic and opcode are known",
        "The first byte is a magic and the opcode one of the dialect; flexible framing (0x08, 0x18) is for servers "
        "since 6.5, which use it only with those who have said HELLO or have asked for stream ids.",
        (
            by_defects("FRM-02"),
            unframed_bytes(
                col.skipped >= HEADER_SIZE,
                "{skipped} bytes before this frame are none: no known magic where a frame should start",
                "before",
            ),
            Check(
                "messages",
                col.agreed.has(_FRAMED),
                "{form} with magic {magic} on a connection without HELLO and without stream ids, which has 0x80 and "
                "0x81",
                when=col.magic.one_of(_FLEXIBLE) & ~col.draft,
                unknown=(SEARCHED, NEGOTIATION_UNKNOWN),
                facts=("magic", "opcode"),
                spoken=("form",),
                root="magic",
                name="flexible",
                words=_WORDS,
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        since="6.5 for flexible framing",
        excuses=(Excuse("other protocols on the port are none of UPR's business", "other-protocols"),),
        source=_VALIDATORS,
        limits="releases are not on the wire: only what was agreed upon tells that a peer may use flexible framing",
        next_step="look at the bytes before and in frame {frame}: either its sender is newer than this program,"
        " or it wrote something that is no message",
    ),
    Rule(
        "FRM-03",
        Severity.ERROR,
        "extras have a known layout",
        "The extras length, and that of each object in the framing extras, is one that the message has in its dialect.",
        (
            by_defects("FRM-03"),
            by_dialect_forms(),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("errors may have no extras where successes have some", "error-replies"),
            Excuse("a refused add stream may have no extras", "relay-refused"),
        ),
        source=_VALIDATORS,
        limits="messages that upr or dcp alone has, where nothing else tells which of them is spoken",
        next_step="compare the extras of frame {frame} with the layouts in the protocol reference: its sender "
        "and its receiver may be of releases that do not understand each other",
    ),
    Rule(
        "FRM-04",
        Severity.ERROR,
        "keys are where they belong",
        "Messages that are about a document, a name or a parameter have a key, and no others.",
        (by_defects("FRM-04"),),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("a system event may have no key", "system-events"),
            Excuse("a dropped collection's event has no key", "collections"),
        ),
        source=_VALIDATORS,
        bugs=("MB-34122",),
        next_step="look at the header of frame {frame}: its key length is wrong, or the message is another one "
        "than its opcode says",
    ),
    Rule(
        "FRM-05",
        Severity.ERROR,
        "values are where they belong",
        "Messages have a value exactly where they may, of a length that its fields make up.",
        (
            by_defects("FRM-05"),
            by_defects(
                "FRM-05",
                column="error_frm_14",
                when=col.opcode.differs(kinds.CACHE_TRANSFER) & (col.error_frm_14 > 0),
                name="entries",
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("deletions may have a value since 5.0", "deletion-values"),
            Excuse("errors may have a text", "error-replies"),
        ),
        source=_VALIDATORS,
        next_step="look at the value of frame {frame}, and whether its receiver refused it",
    ),
    Rule(
        "FRM-06",
        Severity.ERROR,
        "datatypes exist, and fit the message",
        "A datatype is at most 7; deletions have 0, 2, 4, 5, 6 or 7; markers, stream ends, controls, acks and states "
        "have 0.",
        (by_defects("FRM-06"),),
        excuses=(
            Excuse("an open may have JSON since 6.5", "open-with-json"),
            Excuse("datatypes 2, 5 and 7 of deletions were accepted mistakes of producers", "deletion-values"),
        ),
        source=_VALIDATORS,
        bugs=("MB-29040", "MB-31141"),
        next_step="look up the document of frame {frame} at its sender: consumers refuse or misread such a datatype",
    ),
    Rule(
        "FRM-07",
        _W,
        "a CAS is where it belongs",
        "Seqno acknowledged, commit, abort and cache transfers have CAS 0; prepares and, since 4.5, mutations do not.",
        (
            by_defects(
                "FRM-07",
                _W,
                when=~(_NO_CAS & KEY_ONLY),
                unknown=(Unknown("setup", _NO_CAS & _BARE & NEGOTIATION_UNKNOWN.when),),
            ),
            Check(
                "messages",
                col.cas.differs(0),
                "a mutation with CAS 0, from a server of 4.5 or later, which gives every document a CAS",
                when=col.opcode.equals(kinds.MUTATION)
                & at_least(4, 5)
                & ~(col.response | col.draft | col.is_upr | KEY_ONLY),
                unknown=(SEARCHED, Unknown("setup", _BARE & NEGOTIATION_UNKNOWN.when)),
                facts=("cas", "since"),
                root="opcode",
                name="mutation",
            ),
        ),
        since="4.5 for mutations",
        excuses=(
            Excuse("before 4.5 a mutation may have CAS 0", "old-cas"),
            Excuse("streams of keys alone (open flag 0x08 without xattrs) have CAS 0 for all from disk", "key-only"),
        ),
        source=_VALIDATORS,
        bugs=("MB-17517",),
        next_step="look up the CAS of the document of frame {frame} at its sender: a wrong one breaks conflict "
        "resolution wherever it is replicated to",
        limits="mutations of connections whose messages do not show that the server is of 4.5 or later; streams of "
        "keys alone (open flag 0x08 without xattrs), whose items come from disk with CAS 0",
    ),
    Rule(
        "FRM-08",
        _W,
        "what is reserved is 0",
        "Reserved fields are 0, and no flag is set that has no name (open, stream request, marker, frame info).",
        (
            by_defects(
                "FRM-08",
                _W,
                unknown=(Unknown("setup", col.warning_frm_08.equals(flag("unknown-flag-bits")) & _MAYBE_NEWER),),
            ),
            Check(
                "messages",
                ~_UNNAMED_FLAGS,
                f"{{form}} with stream flags {{stream_flags:#x}}; {message_words.named_bits(enums.STREAM_FLAGS)}",
                when=col.opcode.one_of(_ASKS) & ~(col.response | col.is_upr | col.draft),
                unknown=(
                    SEARCHED,
                    *dialect_unknown("FRM-08", _UNNAMED_FLAGS),
                    Unknown("gap", (col.missing > 0) & ~_UNNAMED_FLAGS),
                    Unknown("setup", _UNNAMED_FLAGS & _MAYBE_NEWER),
                ),
                facts=("opcode", "stream_flags"),
                spoken=("form",),
                root="stream_flags",
                name="stream flags",
                words={"form": message_words.FORMS},
            ),
        ),
        excuses=(Excuse("a newer server or client than this program may use more flags", "newer-server"),),
        source=_VALIDATORS,
        bugs=("MB-55678",),
        limits="flags without a name between peers since 5.0: they may be newer than this program",
        next_step="find out the release of the sender of frame {frame}: what is reserved today may mean "
        "something to a later one",
    ),
)
