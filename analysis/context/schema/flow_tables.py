"""Tables of flow control: bytes that were sent, that arrived and that were given back, as each side knew them."""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.model import Column, Reference, View, table, truth

_PRODUCER, _CONSUMER = View.PRODUCER, View.CONSUMER
_STEPPED = truth("stepped", "the capture's clock was set meanwhile: the duration is what surely passed", View.EITHER)
_UNKNOWN = Column("unknown", "why the row can't be decided", words=words.UNKNOWN)


def _window(view: View) -> Column:
    return Column("window", "connection_buffer_size in force; -1: none, 0: switched off, -2: not known", view)


SENT = table(
    "sent",
    "every message that counts for flow control, with what was outstanding before it",
    (
        _window(_PRODUCER),
        Column(
            "outstanding",
            "bytes not given back before the message, in the way of counting that fits it; at least, where something "
            "was lost",
            _PRODUCER,
        ),
        Column("outstanding_most", "the same at most", _PRODUCER),
        Column("unacked", "the same if everything counts that was ever sent", _PRODUCER),
        Column("full", "outstanding bytes from which on nothing may be sent", _PRODUCER),
        Column("root", "the first message that overdrew the window, until that is made up for; 0: this one did not"),
        _UNKNOWN,
    ),
    (Reference("ack", "the last ack that had reached the producer"),),
)
STALLS = table(
    "stalls",
    "every time that something came back, or the capture ended, while a producer's window was full",
    (
        _window(_PRODUCER),
        Column("outstanding", "bytes not given back at that time; at least, where something was lost", _PRODUCER),
        Column("waited_ns", "time for which the window had been full", _PRODUCER, words.DURATION_NS),
        Column("waited_s", "the same in seconds", _PRODUCER, words.DURATION_S),
        _STEPPED,
        Column("root", "the last message before the stall"),
        _UNKNOWN,
    ),
    (Reference("last", "the last message before the stall"),),
)
ACKS = table(
    "acks",
    "every buffer ack, with what had been received and given back before it",
    (
        _window(_CONSUMER),
        Column("bytes", "bytes that the ack gives back", View.EITHER),
        Column(
            "due",
            "bytes that had arrived and were not given back yet; at most, where something was lost",
            _CONSUMER,
        ),
        Column("due_least", "the same at least", _CONSUMER),
        Column("excess", "bytes given back beyond those", _CONSUMER),
        truth("wanted", "a window had been asked for, and the consumer had not seen it refused", _CONSUMER),
        truth("malformed", "the ack has no number of bytes", View.EITHER),
        Column("noops", "no-ops that had arrived", _CONSUMER),
        Column("noops_since", "no-ops that had arrived since the ack before", _CONSUMER),
        Column(
            "latency_ns",
            "time for which the oldest message that the ack completes had been there",
            words=words.DURATION_NS,
        ),
        Column("latency_s", "the same in seconds", words=words.DURATION_S),
        _STEPPED,
        Column("over_root", "the connection's first ack of too much; 0: none so far"),
        Column("late_root", "the first in a row of acks that took long; 0: this one did not"),
        Column("zero_root", "the connection's first ack of nothing; 0: none so far"),
        Column("unwanted_root", "the connection's first ack without a window; 0: none so far"),
        Column("request_unknown", "why it is not known whether a window had been asked for", words=words.UNKNOWN),
        _UNKNOWN,
    ),
    (Reference("oldest", "the oldest message that the ack completes"),),
)
IDLE_PRODUCERS = table(
    "idle_producers",
    "every producer's last idle time, or the first one at which much was left that was never given back",
    (
        _window(_PRODUCER),
        Column("leftover", "bytes that are never given back; at least, where something was lost", _CONSUMER),
        Column("leftover_most", "the same at most", _CONSUMER),
        Column("allowance", "bytes of which the consumer may keep less, by the window and by its own acks", _CONSUMER),
        Column("quiet_ns", "time for which the producer sends nothing", _PRODUCER, words.DURATION_NS),
        Column("quiet_s", "the same in seconds", _PRODUCER, words.DURATION_S),
        _STEPPED,
        Column("drift", "the kind of message whose miscount explains what is left", _CONSUMER, words.DRIFT),
        Column("drift_count", "messages of that kind", _CONSUMER),
        _UNKNOWN,
    ),
    (Reference("last", "the producer's last message"),),
)
TABLES = (SENT, STALLS, ACKS, IDLE_PRODUCERS)
