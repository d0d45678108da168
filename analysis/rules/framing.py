"""FRM-01 to FRM-08: headers, and the parts that messages must have and must not have."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.connection_facts import release
from analysis.context.requests.state import AGREEMENTS, bit
from analysis.rules.defect_checks import OPCODES, by_defects, flag, unframed_bytes
from analysis.rules.expressions import col
from analysis.rules.model import UNOPENED, Check, Excuse, Rule, Severity, Unknown
from dissector.spec import enums
from dissector.spec.registry import HEADER_SIZE

_W = Severity.WARNING
_HELLO = sum(bit(name) for name in AGREEMENTS if name.startswith("hello_"))
_FLEXIBLE = tuple(magic.value for magic in enums.MAGICS if magic.flexible)
_FRAMED = _HELLO | bit("enable_stream_id")  #: either makes flexible framing possible
_STREAM_FLAGS = sum(flag.value for flag in enums.STREAM_FLAGS.members)
_UNNAMED_FLAGS = col.stream_flags.has(0xFFFFFFFF & ~_STREAM_FLAGS).named("stream_flags has a bit without a name")
_VALIDATORS = "request validators of the servers"
#: Peers since 5.0 may be newer than this program. Before, the flags are all known.
_MAYBE_NEWER = col.agreed.has(_HELLO) | (col.since >= release(5, 0))

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
        limits="after a loss the same bytes could be the rest of a frame that was not captured",
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
                "{opcode} with magic {magic} on a connection without HELLO and without stream ids: of servers before "
                "6.5",
                when=col.magic.one_of(_FLEXIBLE) & ~col.draft,
                unknown=(UNOPENED, Unknown("gap", col.doubtful)),
                facts=("magic", "opcode"),
                root="magic",
                name="flexible",
                words={"opcode": OPCODES},
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        since="6.5 for flexible framing",
        excuses=(Excuse("other protocols on the port are none of UPR's business", "other-protocols"),),
        source=_VALIDATORS,
        limits="releases are not on the wire: only what was agreed upon tells that a peer may use flexible framing",
    ),
    Rule(
        "FRM-03",
        Severity.ERROR,
        "extras have a known layout",
        "The extras length, and that of each object in the framing extras, is one that the message has in its dialect.",
        (
            by_defects("FRM-03"),
            # The dialect may have shown in a stream request that comes later in the capture, or not at all.
            by_defects("FRM-03", _W, unknown=(Unknown("one-sided", col.peer_not_captured),)),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("errors may have no extras where successes have some", "error-replies"),
            Excuse("a refused add stream may have no extras", "relay-refused"),
        ),
        source=_VALIDATORS,
        limits="a stream request of the other dialect's length that comes first decides the dialect",
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
    ),
    Rule(
        "FRM-07",
        _W,
        "a CAS is where it belongs",
        "Seqno acknowledged, commit, abort and cache transfers have CAS 0; prepares and, since 4.5, mutations do not.",
        (
            by_defects("FRM-07", _W),
            Check(
                "messages",
                col.cas.differs(0),
                "a mutation with CAS 0, from a server of 4.5 or later",
                when=col.opcode.equals(kinds.MUTATION)
                & (col.since >= release(4, 5))
                & ~(col.response | col.draft | col.is_upr),
                facts=("cas", "since"),
                root="opcode",
                name="mutation",
            ),
        ),
        since="4.5 for mutations",
        excuses=(Excuse("before 4.5 a mutation may have CAS 0", "old-cas"),),
        source=_VALIDATORS,
        bugs=("MB-17517",),
        limits="mutations of connections whose messages do not show that the server is of 4.5 or later",
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
                "{opcode} with stream flags {stream_flags}, of which some have no name",
                when=(col.stream_flags >= 0) & ~col.is_upr & ~col.draft,
                unknown=(UNOPENED, Unknown("setup", _UNNAMED_FLAGS & _MAYBE_NEWER)),
                facts=("opcode", "stream_flags"),
                root="stream_flags",
                name="stream flags",
                words={"opcode": OPCODES},
            ),
        ),
        excuses=(Excuse("a newer server or client than this program may use more flags", "newer-server"),),
        source=_VALIDATORS,
        bugs=("MB-55678",),
        limits="flags without a name between peers since 5.0: they may be newer than this program",
    ),
)
