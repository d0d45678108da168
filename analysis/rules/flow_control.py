"""FLC: flow control. Bytes that were sent, that arrived, and that were given back, as each side knew them."""

from __future__ import annotations

from analysis.context.clock import SKEW_NS
from analysis.context.codes import UnknownReason
from analysis.context.flow_control.buffer_size import UNKNOWN_WINDOW
from analysis.context.flow_control.consumer import LATE_NS
from analysis.context.flow_control.producer import QUIET_NS
from analysis.context.flow_control.rows import DRIFTS
from analysis.rules.expressions import Term, col, constant
from analysis.rules.model import Check, Excuse, Fault, Rule, Severity, Unknown
from dissector.spec.registry import HEADER_SIZE

STALL_NS = 60 * 10**9  #: a window that is full for longer than this is a stall (FLC-03)
_NOOP_BYTES = constant(HEADER_SIZE).named("header_size")

_REASONS = {
    "start": UnknownReason.START,
    "limit": UnknownReason.LIMIT,
    "one-sided": UnknownReason.ONE_SIDED,
    "gap": UnknownReason.GAP,
}


def _unless(decided: Term) -> tuple[Unknown, ...]:
    """Return why rows can't be decided, unless the bounds of their sums decide.

    Nothing decides where the other side was not captured, or where sums were given up.
    """
    always = (UnknownReason.LIMIT, UnknownReason.ONE_SIDED)
    return tuple(
        Unknown(name, col.unknown.equals(reason) if reason in always else col.unknown.equals(reason) & ~decided)
        for name, reason in _REASONS.items()
    )


def _stepped(decided: Term) -> Unknown:
    """Return that the clock was set, unless enough time had passed anyway."""
    return Unknown("clock", col.stepped.true() & ~decided)


_WINDOW = (col.window > 0) | col.window.equals(UNKNOWN_WINDOW)
_NOOPS_COUNTED = (col.excess > 0) & (
    col.excess.equals(col.noops_since * _NOOP_BYTES) | col.excess.equals(col.noops * _NOOP_BYTES)
)
_LOSSES = (
    "after a loss, or a message that has no name, the sums are known within bounds: such bytes may have counted or"
    " not, and lost acks may have given back everything or nothing. What both bounds agree on is decided; acks, "
    "and messages that show that there was room, narrow the bounds again. Without the connection's beginning, or "
    "where a control may have been lost, nothing is decided before the next connection_buffer_size whose answer "
    "was seen"
)
_CLOCK = "time by which the capture's clock was set does not count"
_FLOW = "uprscope dissect {capture} --follow {connection} --filter 'flow_bytes > 0 or name == \"buffer_ack\"'"
_KINDS = {
    number: f"{each} for each of {{drift_count}} messages: {name}" for number, (name, each) in enumerate(DRIFTS, 1)
}

RULES: tuple[Rule, ...] = (
    Rule(
        "FLC-01",
        Severity.ERROR,
        "no more is given back than has arrived",
        "The bytes of all acks together are never more than the counted bytes of the messages that had reached the "
        "consumer. What is too much is forgotten, as servers do, so that later acks are judged for themselves.",
        (
            Check(
                "acks",
                col.excess.equals(0) | _NOOPS_COUNTED,
                "{bytes} bytes are given back, and only {due} had arrived and were not given back yet: {excess} too "
                "many",
                when=_WINDOW,
                unknown=_unless((col.bytes <= col.due_least) | (col.excess > 0)),
                facts=("bytes", "due", "excess", "window"),
                evidence=("oldest",),
                root="over_root",
                fault=Fault.CONSUMER,
            ),
        ),
        excuses=(
            Excuse("messages of a cache transfer count with their whole frame", "cache-transfer-window"),
            Excuse("since 4.5 bytes that were sent before the first window count", "late-window"),
            Excuse("up to 4.1 counting begins with the window", "late-window-3x"),
            Excuse("acks cross messages on their way: only what had arrived is given back", "ack-in-flight"),
            Excuse("a prepare counts two bytes more than it has", "large-documents"),
            Excuse("bytes that were sent while the window was switched off", "window-off"),
            Excuse("the early dialect does not count what it had held back", "early-upr-window"),
        ),
        source="BufferLog::release warns; older servers clamp silently",
        bugs=("MB-72321", "MB-60468", "MB-42506"),
        limits=f"{_LOSSES}; a surplus that is smaller than what the consumer still holds does not show",
        next_step=f"look in {_FLOW} whether an ack before frame {{frame}} is repeated, or counts messages of a "
        "closed stream twice; later servers note such acks in memcached.log",
    ),
    Rule(
        "FLC-02",
        Severity.ERROR,
        "nothing is sent at a full window",
        "A counted message is sent only while less than the window is outstanding, counted with the acks that had "
        "reached the producer. So the window is exceeded by at most one message.",
        (
            Check(
                "sent",
                col.outstanding < col.full,
                "{outstanding} bytes are outstanding in a window of {window}, so that nothing may be sent, and more "
                "is sent",
                unknown=_unless((col.outstanding >= col.full) | (col.outstanding_most < col.full)),
                facts=("outstanding", "window"),
                evidence=("ack",),
                root="root",
                fault=Fault.PRODUCER,
            ),
        ),
        excuses=(
            Excuse("only acks that the producer had received make room", "ack-in-flight"),
            Excuse("a window may shrink below what is outstanding, and grown it needs no ack", "window-resize"),
            Excuse("size 0 switches flow control off", "window-off"),
            Excuse("up to 4.1 bytes that were sent before the window take nothing from it", "late-window-3x"),
            Excuse("the last message may overshoot the window by its whole size", "large-documents"),
            Excuse(
                "the early dialect sends one message more than fits, and one uncounted after each stall",
                "early-upr-window",
            ),
        ),
        source="BufferLog::insert",
        bugs=("MB-11298",),
        limits=f"{_LOSSES}; where eras count differently, the way that accuses least is taken",
        next_step=f"look in {_FLOW} which ack the producer took for granted before frame {{frame}}, and compare with "
        "unacked_bytes and max_buffer_bytes of its dcp stats",
    ),
    Rule(
        "FLC-03",
        Severity.WARNING,
        "a full window is not left alone for long",
        "A producer whose window is full gets bytes back, or a larger window, within 60 seconds.",
        (
            Check(
                "stalls",
                col.waited_ns <= STALL_NS,
                "{outstanding} bytes are outstanding in a window of {window}, and nothing is given back for "
                "{waited_s} s, where 60 are the most",
                unknown=(
                    *_unless((col.outstanding >= col.window) | (col.waited_ns <= STALL_NS)),
                    _stepped(col.waited_ns > STALL_NS),
                    Unknown("clock", (col.waited_ns > STALL_NS) & (col.waited_ns <= STALL_NS + SKEW_NS)),
                ),
                facts=("outstanding", "window", "waited_s"),
                evidence=("last",),
                root="root",
                fault=Fault.CONSUMER,
            ),
        ),
        excuses=(Excuse("a producer that has nothing to send is silent, but its window is not full", "idle-window"),),
        source="producers of later releases give up after 720 s",
        bugs=("MB-63439", "MB-56275", "MB-18661", "MB-16159"),
        limits=f"{_LOSSES}; {_CLOCK}; stalls that end with a larger window, and those of the early dialect, are not "
        "timed",
        next_step="look in the consumer's memcached.log at the time of frame {frame} for what kept it from "
        "processing: a full disk queue, memory at the high watermark, a blocked thread",
    ),
    Rule(
        "FLC-04",
        Severity.WARNING,
        "everything is given back in the end",
        "When the producer rests for more than 10 seconds and is not held up by the window, little is left that is not "
        "given back later either: less than a fifth of the window, or than the consumer's smallest ack; of a consumer "
        "that never gives anything back, less than half of the window.",
        (
            Check(
                "idle_producers",
                (col.leftover < col.allowance) | (col.drift > 0),
                "{leftover} bytes of a window of {window} are never given back, though the producer rests for "
                "{quiet_s} s; less than {allowance} may be left",
                when=(col.quiet_ns > QUIET_NS) | col.stepped.true(),
                unknown=(
                    *_unless((col.leftover >= col.allowance) | (col.leftover_most < col.allowance)),
                    _stepped((col.quiet_ns > QUIET_NS) | (col.leftover_most < col.allowance)),
                ),
                facts=("leftover", "window", "quiet_s", "allowance"),
                evidence=("last",),
                fault=Fault.CONSUMER,
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("consumers may keep less than a fifth of the window", "idle-window"),
            Excuse("up to 4.1 bytes that were sent before the window are not given back", "late-window-3x"),
            Excuse("size 0 forgets what was outstanding", "window-off"),
        ),
        source="flow control of server consumers: acks at a fifth of the window, or after 5 s",
        bugs=("MB-56275", "MB-60438"),
        limits=f"{_LOSSES}; {_CLOCK}; what a capture ends too early for is not missed",
        next_step=f"look in {_FLOW} which messages were not given back: those of a stream that ended, was closed or "
        "rolled back, or those that the consumer refused; unacked_bytes of the producer's dcp stats stays that high",
    ),
    Rule(
        "FLC-05",
        Severity.WARNING,
        "consumers count messages as producers do",
        "What is left in the end is not explained by a constant for each message of a kind, at the last acks as well: "
        "such a consumer counts these messages short, and the window shrinks until nothing fits.",
        (
            Check(
                "idle_producers",
                col.drift.equals(0),
                "{leftover} bytes are never given back: {drift}",
                when=(col.quiet_ns > QUIET_NS) & (col.leftover_most > 0),
                unknown=_unless(col.drift > 0),
                facts=("leftover", "window", "drift", "drift_count"),
                evidence=("last",),
                words={"drift": _KINDS},
                fault=Fault.CONSUMER,
            ),
        ),
        dialects=("dcp",),
        source="sizes that were once miscounted: prepares by 2, stream ends with a stream id by 3, markers V2.1 by 8, "
        "mutations by 1",
        bugs=("MB-46634", "MB-42506", "MB-50995"),
        limits=f"{_LOSSES}; it takes three such messages, and two acks that show it where what is left may be the last "
        "messages; after a loss only what is left since then tells",
        next_step="look up the consumer's release: it counts this kind of message short, and until it is upgraded "
        "only a new connection gives the window back",
    ),
    Rule(
        "FLC-06",
        Severity.WARNING,
        "bytes are given back only where there is a window",
        "A consumer that sends acks has set connection_buffer_size before, and it was not refused.",
        (
            Check(
                "acks",
                col.wanted.true(),
                "{bytes} bytes are given back, and no connection_buffer_size was set, or it was refused",
                when=~col.malformed.true(),
                unknown=tuple(
                    Unknown(name, col.request_unknown.equals(reason) & ~col.wanted.true())
                    for name, reason in _REASONS.items()
                ),
                facts=("bytes",),
                root="unwanted_root",
                fault=Fault.CONSUMER,
            ),
        ),
        source="servers ignore such acks",
        limits="where the connection's beginning was not captured, or bytes of the consumer were lost that are enough "
        "for such a request, a request that is not there is unknown",
        next_step="look with uprscope dissect {capture} --follow {connection} --filter 'name == \"control\"' for the "
        "request that should have set the window, and correct the consumer's set-up: the producer ignores the ack",
    ),
    Rule(
        "FLC-07",
        Severity.INFO,
        "acks give something back",
        "An ack of 0 bytes is legal, and useless.",
        (
            Check(
                "acks",
                col.bytes > 0,
                "0 bytes are given back, and {due} were due",
                when=~col.malformed.true(),
                facts=("bytes", "due"),
                root="zero_root",
                fault=Fault.CONSUMER,
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("an ack of 0 bytes is legal: this is for information", "odd-acks"),),
        source="consumers of some releases send them",
        bugs=("MB-59474",),
        next_step="nothing needs to be done; if there are many of them, look at what the consumer does between frame "
        "{frame} and its next ack",
    ),
    Rule(
        "FLC-08",
        Severity.ERROR,
        "no-ops do not count",
        "A consumer that gives back exactly 24 bytes too many for each no-op counts what producers do not count.",
        (
            Check(
                "acks",
                ~_NOOPS_COUNTED,
                "{bytes} bytes are given back and {due} had arrived: the {excess} bytes too many are 24 for each no-op "
                "since the last ack, or for each of all {noops}",
                when=(col.window > 0) & (col.excess > 0),
                unknown=_unless(col.due.equals(col.due_least) | _NOOPS_COUNTED),
                facts=("bytes", "due", "excess", "noops_since", "noops"),
                evidence=("oldest",),
                root="over_root",
                fault=Fault.CONSUMER,
            ),
        ),
        source="flow control: no-ops, controls and answers are not counted",
        bugs=("MB-46365",),
        limits=f"{_LOSSES}; it shows only where the consumer gives back everything else",
        next_step="look up the consumer's release or client library: it must leave out no-ops when it adds up what "
        "it got before frame {frame}",
    ),
    Rule(
        "FLC-09",
        Severity.INFO,
        "bytes are given back soon",
        "A message is given back within 10 seconds; acks that take longer slow rebalances down.",
        (
            Check(
                "acks",
                col.latency_ns <= LATE_NS,
                "a message is given back {latency_s} s after it had arrived, and 10 s are enough",
                when=(col.window > 0) & ((col.latency_ns > 0) | col.stepped.true()),
                unknown=(*_unless(col.latency_ns > LATE_NS), _stepped(col.latency_ns > LATE_NS)),
                facts=("bytes", "latency_s"),
                evidence=("oldest",),
                root="late_root",
                fault=Fault.CONSUMER,
            ),
        ),
        excuses=(Excuse("consumers give bytes back in batches, after 5 seconds at the latest", "odd-acks"),),
        source="ack latency",
        limits=f"{_LOSSES}; {_CLOCK}; bytes are taken to be given back in the order they came",
        next_step="look in the consumer's memcached.log at the {latency_s} s before frame {frame} for slow disk "
        "writes, memory pressure, or acks that wait for a larger batch",
    ),
)
