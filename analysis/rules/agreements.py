"""CON-05, 06, 07: what is used was agreed upon, and what was agreed upon is kept to."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.feature_uses import FEATURE_USES
from analysis.context.requests.state import bit
from analysis.rules import message_words
from analysis.rules.conditions import SYNC_REPLICATION, stream_flags, unsure
from analysis.rules.expressions import NEVER, col
from analysis.rules.model import LOST_SINCE_ANSWER, NOT_REQUESTED, SEARCHED, Check, Excuse, Rule, Severity, Unknown
from dissector.spec import enums

_USE = {number: use.words for number, use in enumerate(FEATURE_USES, 1)}
_EXPECTED = {number: use.expected for number, use in enumerate(FEATURE_USES, 1)}
_USE_WORDS = {"use": {number: f"{_USE[number]}; {_EXPECTED[number]}" for number in _USE}}
_XATTR = enums.DATATYPES.bit("xattr")
_VALUES = (kinds.MUTATION, kinds.DELETION, kinds.EXPIRATION, kinds.PREPARE)
_NO_VALUE = bit("open_no_value") | bit("open_no_value_with_underlying_datatype")
_XATTRS = bit("open_include_xattrs")
_UNSURE = Unknown("setup", col.maybe_agreed)
#: Opens are no matter of chance: where one was captured its flags are known, unless it was cut or refused.
_OPEN_UNSURE = unsure("open_no_value", "open_no_value_with_underlying_datatype", "open_include_xattrs")
_DOCUMENT = col.opcode.one_of(_VALUES) & ~col.response & ~col.is_upr & ~col.draft

RULES: tuple[Rule, ...] = (
    Rule(
        "CON-05",
        Severity.ERROR,
        "what is used was agreed upon",
        "Messages, forms of messages and statuses that came with later releases are used only on connections that have "
        "asked for them and been granted them: by a control, a HELLO feature, a flag of the open or of the stream "
        f"request. These are: {', '.join(use.name.replace('_', ' ') for use in FEATURE_USES)}, and cache transfer.",
        (
            Check(
                "unagreed_uses",
                NEVER,
                "{use}",
                when=~col.refused,
                unknown=(SEARCHED, _UNSURE),
                facts=("use", "opcode"),
                evidence=("open",),
                root="use",
                name="agreement",
                words=_USE_WORDS,
            ),
            Check(
                "stream",
                col.flags.has(stream_flags("cache_transfer")),
                "{opcode} on a stream that did not ask for it; the stream request must have cache_transfer (0x100)",
                when=col.kind.equals(kinds.CACHE),
                unknown=(*NOT_REQUESTED, LOST_SINCE_ANSWER),
                facts=("opcode", "flags"),
                evidence=("request",),
                root="serial",
                name="cache transfer",
                words={"opcode": message_words.MESSAGES},
            ),
            Check(
                "items",
                col.filtered.true(),
                "a seqno advanced to a replica that takes part in sync writes, which gets every item; it must get none",
                when=col.opcode.equals(kinds.SEQNO_ADVANCED) & SYNC_REPLICATION,
                unknown=(*NOT_REQUESTED, LOST_SINCE_ANSWER),
                facts=("by_seqno", "vbucket"),
                evidence=("request",),
                root="serial",
                name="replica",
                next_step="look at what seqno {by_seqno} is on other connections: the replica passes over an item that "
                "it must have, and will differ from the active",
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("everything was asked for and granted", "modern"),
            Excuse("consumers with collections demand deletions with times whatever the open says", "server-consumer"),
            Excuse("expirations of 18 bytes are as old as the protocol", "old-expirations"),
            Excuse("without flag 0x20 deletions keep their old form", "expiry-without-times"),
        ),
        source="DcpProducer::control",
        bugs=("MB-40095",),
        limits="that keys have a collection id shows only in how they are read, and a stream id in a request's value "
        "is refused by the server",
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == hello or name == open or name "
        "== control'` shows what was asked for and granted: the receiver of frame {frame} may not be able to read it",
    ),
    Rule(
        "CON-06",
        Severity.ERROR,
        "values and xattrs come only where the open wants them",
        "On a connection opened without values (flags 0x08 and 0x40) no message has a document: its value is empty, or "
        "with flag 0x04 nothing but xattrs. Without flag 0x04 no value has xattrs.",
        (
            Check(
                "messages",
                col.value_length.equals(0) | (col.agreed.has(_XATTRS) & col.datatype.has(_XATTR)),
                "{opcode} with a value of {value_length} bytes and datatype {datatype} on a connection that was opened "
                "without values; it must be empty, or xattrs alone where the open wants them",
                when=col.agreed.has(_NO_VALUE) & _DOCUMENT,
                unknown=(SEARCHED, _OPEN_UNSURE),
                facts=("opcode", "value_length", "datatype"),
                root="opcode",
                name="value",
                words={"opcode": message_words.MESSAGES, "datatype": message_words.DATATYPES},
            ),
            Check(
                "messages",
                col.agreed.has(_XATTRS) | col.value_length.equals(0),
                "{opcode} with datatype {datatype} on a connection that was opened without include_xattrs (0x04); its "
                "value must have no xattrs",
                when=col.datatype.has(_XATTR) & _DOCUMENT & col.agreed.has(bit("open_producer")),
                unknown=(SEARCHED, _OPEN_UNSURE),
                facts=("opcode", "value_length", "datatype"),
                root="opcode",
                name="xattrs",
                words={"opcode": message_words.MESSAGES, "datatype": message_words.DATATYPES},
            ),
        ),
        dialects=("dcp",),
        since="5.0",
        excuses=(
            Excuse("with flag 0x40 the datatype is that of the stored document", "kept-datatype"),
            Excuse("with flag 0x04 the xattrs come", "no-value-xattrs"),
            Excuse("a cache transfer has all values", "cache-transfer"),
        ),
        source="mutation: datatype; open flags",
        limits="whether a value that has xattrs has a document behind them; legs of a relay to a consumer",
        next_step="look at the open's flags, and at whether the connection is a second one of the same client: a value "
        "that nobody asked for is one that its receiver may take for something else",
    ),
    Rule(
        "CON-07",
        Severity.WARNING,
        "what was refused is not used",
        "Once a control was refused nobody uses what it stands for, until it is asked for again and granted.",
        (
            Check(
                "unagreed_uses",
                NEVER,
                "{use}, and it was refused",
                when=col.refused,
                unknown=(SEARCHED, _UNSURE),
                facts=("use", "opcode"),
                evidence=("refusal",),
                root="use",
                words=_USE_WORDS,
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("a control may be tried again with another value", "control-retried"),
            Excuse("a refused feature is done without", "control-refused"),
        ),
        source="DcpConsumer::stepControlNegotiation",
        bugs=("MB-29441",),
        limits="controls that no message depends on: priorities, and intervals of no-ops",
        next_step="look at the status of the refusal: after not_supported (0x83) the two releases differ, after "
        "invalid_arguments (0x04) the value was wrong; whoever sent frame {frame} has taken neither for an answer",
    ),
)
