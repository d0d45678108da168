"""Tables about liveness: no-ops, the times between them, their answers, and connections on which nothing is said."""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.message_tables import FACTS
from analysis.context.schema.model import Column, Reference, View, table, truth

_EITHER, _PRODUCER = View.EITHER, View.PRODUCER
_UNKNOWN = Column("unknown", "why the row can't be decided", words=words.UNKNOWN)
_INTERVAL = (
    Column("interval_ns", "the interval that was agreed upon; 180 s if none was", _EITHER, words.DURATION_NS),
    Column("interval_ms", "the same in milliseconds", _EITHER),
)
_AGREED, _UNSURE = (column for column in FACTS if column.name in ("agreed", "unsure"))

NOOPS = table(
    "noops",
    "every no-op",
    (
        Column("opaque", "the no-op's opaque", _EITHER),
        Column("number", "the same, read as servers count: little-endian", _EITHER),
        Column("previous_number", "that of the no-op before; -1: none", _EITHER),
        Column("left_out", "numbers between them; for the first, since those that servers begin with", _EITHER),
        truth("served", "its sender is a server: the connection was opened to have it produce", _EITHER),
        _UNKNOWN,
        truth("waiting", "the no-op before had no answer yet", _PRODUCER),
        Column("waiting_unknown", "why that is not certain", words=words.UNKNOWN),
    ),
    (Reference("previous", "the no-op before"),),
)
NOOP_GAPS = table(
    "noop_gaps",
    "every time from when a no-op was due until it came, or until the producer's last frame",
    (
        truth("came", "the no-op came at last"),
        Column(
            "waited_ns",
            "time since the no-op before was answered; for the first one, since the connection had a stream",
            words=words.DURATION_NS,
        ),
        Column("waited_s", "the same in seconds", words=words.DURATION_S),
        *_INTERVAL,
        _UNSURE,
        _UNKNOWN,
    ),
    (
        Reference("previous", "the no-op before"),
        Reference("due", "its answer; for the first one, the answer that began the stream"),
    ),
)
NOOP_ANSWERS = table(
    "noop_answers",
    "every answer to a no-op, and at the end every no-op without one",
    (
        Column("opaque", "opaque of the answer", _EITHER),
        Column("asked_opaque", "opaque of the no-op", _EITHER),
        truth("answered", "it is the no-op's answer"),
        truth("wrong", "it has another opaque than the no-op that waits"),
        truth("passed_over", "the no-op has no answer, and a later one has"),
        Column("latency_ns", "time to the answer, or to the producer's last frame", words=words.DURATION_NS),
        Column("latency_ms", "the same in milliseconds"),
        *_INTERVAL,
        _AGREED,
        _UNSURE,
        _UNKNOWN,
    ),
    (Reference("request", "the no-op"),),
)
SILENCES = table(
    "silences",
    "every time for which a connection with no-ops was silent in both directions, and then went on",
    (
        Column("silent_ns", "how long it surely was", words=words.DURATION_NS),
        Column("silent_s", "the same in seconds", words=words.DURATION_S),
        _AGREED,
        _UNSURE,
        truth("streamed", "the connection had a stream since no-ops were agreed upon"),
        _UNKNOWN,
    ),
    (Reference("last", "the last frame before"),),
)
TABLES = (NOOPS, NOOP_GAPS, NOOP_ANSWERS, SILENCES)
