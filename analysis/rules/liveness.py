"""NOP-01 to 06: no-ops and their answers, by which both sides know that the other one is still there."""

from __future__ import annotations

from analysis.context.clock import SECOND_NS, SKEW_NS
from analysis.context.requests.state import AGREEMENTS, bit
from analysis.rules.conditions import UNDECIDED, agreed, introduced_since, undecided, unsure
from analysis.rules.expressions import col, constant, either
from analysis.rules.model import Check, Excuse, Fault, Rule, Severity, Unknown

#: Both ends give up a connection on which nothing arrived for so long, since 5.0.
_IDLE_S = 360
#: 3.x wakes a connection that has nothing to send every few seconds only, and looks then whether a no-op is due; and a
#: busy server, or a clock that is set, makes single times long.
_WAKE_UP_S = 30
#: Open flags that servers before 5.0 refuse.
_NEW_FLAGS = (
    "open_include_xattrs",
    "open_no_value",
    "open_include_delete_times",
    "open_no_value_with_underlying_datatype",
)
_SINCE_5 = col.agreed.has(introduced_since(5) | sum(bit(name) for name in AGREEMENTS if name in _NEW_FLAGS)).named(
    "release ≥ 5.0"
)
#: In nanoseconds.
_LIMIT = either(_SINCE_5, constant(_IDLE_S * SECOND_NS).named(f"{_IDLE_S} s"), col.interval_ns).named("limit")
#: The clocks of two directions may be apart, and the way there and back counts for who records at the far end. A time
#: without an answer begins and ends in the producer's direction.
_PATIENCE = either(col.answered.true(), constant(2 * SKEW_NS), constant(SKEW_NS // 10)).named("tolerance")
_INTERVAL_UNSURE = unsure("enable_noop")

RULES: tuple[Rule, ...] = (
    Rule(
        "NOP-01",
        Severity.ERROR,
        "every no-op is answered with its opaque",
        "The consumer answers a no-op before the next one, with the opaque that the no-op has. Producers close the "
        "connection otherwise.",
        (
            Check(
                "noop_answers",
                ~col.wrong.true(),
                "a no-op with opaque {asked_opaque:#010x} is answered with opaque {opaque:#010x}; the answer must have "
                "that of the no-op",
                when=col.answered.true() | col.wrong.true(),
                unknown=tuple(Unknown(each.reason, each.when & col.wrong.true()) for each in UNDECIDED),
                facts=("asked_opaque", "opaque"),
                evidence=("request",),
                name="opaque",
            ),
            Check(
                "noop_answers",
                ~col.passed_over.true(),
                "the no-op with opaque {asked_opaque:#010x} was never answered, and one after it was; each must be "
                "answered before the next",
                when=~col.answered.true() & ~col.wrong.true(),
                unknown=UNDECIDED,
                facts=("asked_opaque",),
                name="skipped",
                fault=Fault.CONSUMER,
                next_step="look at what the consumer did at frame {frame}: a client that answers no-ops between other "
                "work loses one when it is busy, and servers close the connection for that",
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("the connection was closed meanwhile", "closed-meanwhile"),
            Excuse("a relay hands no-ops and answers on as they are", "relay"),
        ),
        source="DcpProducer::handleResponse closes the connection otherwise",
        bugs=("MB-11361", "MB-11778"),
        limits="an answer while no no-op waits: OPQ-01; a no-op that is not answered while the connection goes on: "
        "NOP-02, and OPQ-02 after a minute; one after which nothing comes, for that is what a connection looks like "
        "that was closed",
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == noop'` shows whether all "
        "answers are like this: then the client makes opaques of its own, and this one may be its only answer before "
        "the server closes the connection",
    ),
    Rule(
        "NOP-02",
        Severity.WARNING,
        "no-ops are answered in time",
        "A no-op is answered within the interval that was agreed upon: servers before 5.0 close the connection "
        "otherwise. Since 5.0 they wait 360 seconds.",
        (
            Check(
                "noop_answers",
                col.latency_ns <= _LIMIT + _PATIENCE,
                "a no-op had no answer for {latency_ms} ms ({answered}); it is due within the interval of "
                "{interval_ms} ms, and since 5.0 within 360 seconds",
                when=~col.wrong.true(),
                unknown=(
                    *UNDECIDED,
                    Unknown("setup", _INTERVAL_UNSURE.when & (col.latency_ns > col.interval_ns)),
                ),
                facts=("latency_ms", "interval_ms", "answered"),
                evidence=("request",),
                words={"answered": {0: "none came, though the producer went on", 1: "it came late"}},
                fault=Fault.CONSUMER,
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("since 5.0 an answer may take longer than the interval", "slow-noop-answers"),
            Excuse("an interval that is refused is not in force", "noop-interval-retried"),
            Excuse("what is recorded on the slow side has the way to it twice", "noop-slow-side"),
        ),
        source="dead connections: the producer gives up; since 5.0 dcp_idle_timeout",
        limits="an answer that takes less than two seconds too long, as clocks may be apart; servers of which nothing "
        "shows that they are of 5.0 or later are taken for older ones",
        next_step="`uprscope plot {capture} latency --connection {connection} -o latency.png` shows whether the "
        "consumer was slow all along: one that is busy or stopped reading for longer than the interval is thrown out",
    ),
    Rule(
        "NOP-03",
        Severity.WARNING,
        "no-ops come at their interval",
        "With no-ops on, and a stream there, the producer sends the next one within twice the interval after the last "
        "one was answered. Data does not replace them.",
        (
            Check(
                "noop_gaps",
                col.waited_ns <= col.interval_ns * 2 + constant(_WAKE_UP_S * SECOND_NS).named(f"{_WAKE_UP_S} s"),
                "no no-op for {waited_s} seconds ({came}); with an interval of {interval_ms} ms one is due within "
                "twice that time",
                unknown=(*UNDECIDED, _INTERVAL_UNSURE),
                facts=("waited_s", "interval_ms", "came"),
                evidence=("previous", "due"),
                words={"came": {0: "none came any more, though the producer went on", 1: "then it came"}},
                fault=Fault.PRODUCER,
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("3.x sends none until the connection has a stream", "noop-idle"),
            Excuse("while one waits for its answer, no other is sent", "slow-noop-answers"),
            Excuse("a producer whose window is full still sends them", "noop-while-stalled"),
            Excuse("3.x wakes an idle connection every few seconds only", "noop-short-interval"),
        ),
        source="DcpProducer::maybeSendNoop; documents say that data replaces them, and servers do not do so",
        bugs=("MB-12271",),
        limits="connections without a stream, though 7.x sends no-ops there too; the last silence of a producer",
        next_step="look at how busy the producer was around frame {frame} (memcached.log, slow operations): a "
        "consumer that hears nothing for two intervals may take it for dead, and reconnect",
    ),
    Rule(
        "NOP-04",
        Severity.WARNING,
        "one no-op waits at a time",
        "The producer sends the next no-op only when the answer to the one before has reached it.",
        (
            Check(
                "noops",
                ~col.waiting.true(),
                "a no-op was sent while the one before had no answer; at most one may wait",
                unknown=undecided(col.waiting_unknown),
                facts=("opaque",),
                evidence=("previous",),
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("an answer may be slow: the next no-op waits for it", "slow-noop-answers"),),
        source="DcpProducer::maybeSendNoop",
        next_step="find out which program plays the producer: servers never do this, and a consumer cannot tell from "
        "such no-ops how long its answers take",
    ),
    Rule(
        "NOP-05",
        Severity.INFO,
        "servers number their no-ops",
        "A server's no-ops have opaques that count on by one, as little-endian numbers; the first is 10000001, or "
        "1000001 from 3.0.0.",
        (
            Check(
                "noops",
                col.left_out.equals(0),
                "a no-op has number {number} after {previous_number}; servers count on by one",
                when=col.served.true() & (col.previous_number >= 0),
                unknown=UNDECIDED,
                facts=("number", "previous_number"),
                evidence=("previous",),
                name="next",
            ),
            Check(
                "noops",
                col.left_out.equals(0),
                "the first no-op has number {number}; servers begin with 10000001, or 1000001 in 3.0.0",
                when=col.served.true() & (col.previous_number < 0),
                unknown=UNDECIDED,
                facts=("number",),
                name="first",
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("clients that produce, and relays, choose numbers of their own", "feeding-client"),),
        source="DcpProducer counts from 1000000 in 3.0.0, from 10000000 later",
        limits="numbers that no-ops may have had which were lost",
        next_step="find out what the producer of this connection is: no server of Couchbase numbers its no-ops so, "
        "and a proxy may have dropped or made some",
    ),
    Rule(
        "NOP-06",
        Severity.WARNING,
        "a connection with no-ops is never silent for long",
        "With no-ops on, and a stream there, something is said in one direction or the other at least every 360 "
        "seconds: then both ends give the connection up.",
        (
            Check(
                "silences",
                col.silent_ns <= _IDLE_S * SECOND_NS + _WAKE_UP_S * SECOND_NS,
                "the connection was silent in both directions for {silent_s} seconds before this, with no-ops on; "
                "after 360 seconds both ends give up a connection",
                when=agreed("enable_noop") & col.streamed.true(),
                unknown=(*UNDECIDED, unsure("enable_noop")),
                facts=("silent_s",),
                evidence=("last",),
                fault=Fault.PRODUCER,
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("without no-ops a connection may be silent for as long as it likes", "silent-without-noops"),
            Excuse("3.x sends no no-ops while there is no stream", "noop-idle"),
        ),
        source="dcp_idle_timeout, 360 seconds",
        bugs=("MB-44803", "MB-55260"),
        limits="connections that do not go on: they may have been closed; silences of more than ten minutes of the "
        "whole capture, which are taken for steps of its clock",
        next_step="look in both nodes' memcached.log for this connection: neither gave it up, so their "
        "dcp_idle_timeout may be set to something else, or a device in between kept it open",
    ),
)
