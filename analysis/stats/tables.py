"""Statistics as tables and sentences for people, the worst first; text on a terminal and the report show the same.

Knows what a table is; must not know what shows it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dissector.display.table import TextColumn, foreign, number, own
from dissector.spec.model import Dialect
from dissector.summary.rows import iso_time
from dissector.terminal.amounts import amount, count, duration
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from analysis.stats.durations import Distribution
    from analysis.stats.statistics import ConnectionStatistics, Statistics

    Row = dict[str, Any]

_SECOND_NS = 10**9
_MOST_SERVERS = 3
_MOST_STREAMS = 6  #: streams without an end that are named
_WHY_PASSED_OVER = "deduplicated, filtered or purged"
_TIME = slice(11, 19)  #: of ISO 8601: hours, minutes, seconds


@dataclass(frozen=True, slots=True)
class StatisticsTable:
    """A table, its rows in the order of interest."""

    title: str
    columns: Sequence[TextColumn]
    rows: Sequence[Row]
    sums: tuple[str, ...]  #: what is added up of the rows that are not shown

    def shortened(self, most: int) -> Sequence[Row]:
        """Return the first rows, and one that stands for all others."""
        if len(self.rows) <= most:
            return self.rows
        left = self.rows[most - 1 :]
        more: Row = {"name": f"… and {len(left):,} more"}
        more |= {name: sum(row.get(name) or 0 for row in left) for name in self.sums}
        return [*self.rows[: most - 1], more]


def _span(name: str) -> Callable[[Row], str]:
    """Show a duration; nothing for 0."""
    return lambda row: duration(row[name]) if row.get(name) else ""


def _bytes(name: str) -> Callable[[Row], str]:
    return lambda row: amount(row[name]) if row.get(name) else ""


_LATENCY = (
    TextColumn("p50", _span("p50_ns"), right=True),
    TextColumn("p99", _span("p99_ns"), right=True),
    TextColumn("max", _span("max_ns"), right=True),
)
_OPCODE_COLUMNS = (
    TextColumn("messages", own("name")),
    TextColumn("number", number("messages"), right=True),
    TextColumn("share", lambda row: f"{row['share']:.1%}", right=True),
    TextColumn("bytes", number("bytes"), right=True),
    TextColumn("share of bytes", lambda row: f"{row['share_of_bytes']:.1%}", right=True, drop=1),
)
_CONNECTION_COLUMNS = (
    TextColumn("conn", own("number"), right=True),
    TextColumn("connections", foreign("name"), narrowest=20),
    TextColumn("dialect", own("dialect"), drop=2),
    TextColumn("messages", number("messages"), right=True),
    TextColumn("bytes", _bytes("bytes"), right=True),
    TextColumn("lost", _bytes("bytes_lost"), right=True),
    TextColumn("unread", _bytes("bytes_skipped"), right=True),
    TextColumn("no-ops", number("noops", quiet=True), right=True),
    TextColumn("missed", number("noops_unanswered", quiet=True), right=True),
    TextColumn("silence", _span("longest_silence_ns"), right=True),
    TextColumn("ended", own("ended"), drop=1),
)
_FLOW_COLUMNS = (
    TextColumn("conn", own("number"), right=True),
    TextColumn("flow control", foreign("name"), narrowest=12),
    TextColumn("window", number("window_bytes", quiet=True), right=True),
    TextColumn("stalls", number("stalls", quiet=True), right=True),
    TextColumn("stalled", _span("total_ns"), right=True),
    TextColumn("longest", _span("longest_ns"), right=True),
    TextColumn("acks", number("count", quiet=True), right=True, drop=1),
    *(dataclasses.replace(column, heading=f"ack {column.heading}") for column in _LATENCY),
)
_ANSWER_COLUMNS = (
    TextColumn("answers", own("name")),
    TextColumn("number", number("count"), right=True),
    *_LATENCY,
    TextColumn("unanswered", number("unanswered", quiet=True), right=True),
    TextColumn("unsure", number("unsure", quiet=True), right=True),
)


def tables(found: Statistics) -> tuple[StatisticsTable, ...]:
    """Return the tables that have rows."""
    every = (
        StatisticsTable("Messages", _OPCODE_COLUMNS, _opcodes(found), _SHARES),
        StatisticsTable("Connections", _CONNECTION_COLUMNS, _connections(found), _TRAFFIC),
        StatisticsTable("Flow control", _FLOW_COLUMNS, _flow(found), ("stalls", "total_ns", "count")),
        StatisticsTable("Answers", _ANSWER_COLUMNS, _answers(found), ("count", "unanswered", "unsure")),
    )
    return tuple(table for table in every if table.rows)


_SHARES = ("messages", "share", "bytes", "share_of_bytes")
_TRAFFIC = ("messages", "bytes", "bytes_lost", "bytes_skipped", "noops", "noops_unanswered")


def _opcodes(found: Statistics) -> list[Row]:
    return [
        {
            "name": safe_text(each.name) + (" reply" if each.response and each.dialect != Dialect.DRAFT else ""),
            "messages": each.messages,
            "share": each.messages / found.messages,
            "bytes": each.bytes,
            "share_of_bytes": each.bytes / max(found.bytes, 1),
        }
        for each in found.opcodes
    ]


def _connections(found: Statistics) -> list[Row]:
    """Return connections: those that lost most first, then those with the most bytes."""
    order = sorted(found.connections, key=lambda each: (-each.bytes_lost - each.bytes_skipped, -each.bytes))
    return [
        {
            **_named(each),
            **{name: getattr(each, name) for name in ("dialect", "messages", "bytes", "bytes_lost", "bytes_skipped")},
            **{name: getattr(each.liveness, name) for name in ("noops", "noops_unanswered", "longest_silence_ns")},
            "ended": each.ended,
        }
        for each in order
    ]


def _flow(found: Statistics) -> list[Row]:
    """Return the connections with flow control, those that stood still longest first."""
    some = [each for each in found.connections if each.stalls.count or each.acks is not None]
    some.sort(key=lambda each: (-each.stalls.total_ns, -each.stalls.count, -(each.acks.max_ns if each.acks else 0)))
    return [
        {
            **_named(each),
            **_latency(each.acks),
            "window_bytes": each.stalls.window_bytes,
            "stalls": each.stalls.count,
            "total_ns": each.stalls.total_ns,
            "longest_ns": each.stalls.longest_ns,
        }
        for each in some
    ]


def _answers(found: Statistics) -> list[Row]:
    """Return the requests by opcode, those that took longest in all first."""
    rows = [
        {"name": each.name, "unanswered": each.unanswered, "unsure": each.unsure, "count": 0, **_latency(each.answers)}
        for each in found.requests
    ]
    return sorted(rows, key=lambda row: (-row["unanswered"], -row.get("p99_ns", 0)))


def _named(each: ConnectionStatistics) -> Row:
    return {"number": each.number, "name": each.name or each.client}


def _latency(found: Distribution | None) -> Row:
    return dataclasses.asdict(found) if found is not None else {}


def facts(found: Statistics) -> Iterator[tuple[str, str]]:
    """Yield what stands above the tables and below them: a heading, and a sentence."""
    if found.seen_instead is not None:
        yield "no UPR or DCP", f"seen instead: {found.seen_instead}"
    if found.time is None:
        yield "loss", _losses(found)
        return
    first, last = (iso_time(each)[:-4].replace("T", " ") for each in (found.time.first_ns, found.time.last_ns))
    same_day = first[:10] == last[:10]
    yield "time", f"{first} to {last[11:] if same_day else last} UTC, {duration(found.time.duration_ns)}"
    yield "traffic", _traffic(found)
    yield "servers", _servers(found)
    yield "streams", _streams(found)
    if found.streams.snapshots or found.streams.items:
        yield "snapshots", _snapshots(found)
    yield "flow control", _stalls(found)
    yield "unanswered", _unanswered(found)
    yield "loss", _losses(found)


def _losses(found: Statistics) -> str:
    return "; ".join(safe_text(each) for each in found.losses.sentences) or "nothing is missing"


def _traffic(found: Statistics) -> str:
    text = f"{count(found.messages, 'message')}, {amount(found.bytes)}, {count(len(found.connections), 'connection')}"
    seconds = found.time.duration_ns / _SECOND_NS if found.time is not None else 0
    if seconds:
        text += f"; {_rounded(found.messages / seconds)} messages/s, {amount(found.bytes / seconds)}/s"
    if found.busiest is not None:
        at, also = (_clock(each) for each in (found.busiest.messages_at_s, found.busiest.bytes_at_s))
        most = f"{count(found.busiest.messages, 'message')} at {at}"
        text += f"; at most {most} and {amount(found.busiest.bytes)} at {also} in a second"
    return text


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _clock(seconds: int) -> str:
    return iso_time(seconds * _SECOND_NS)[_TIME]


def _servers(found: Statistics) -> str:
    parts = []
    for each in found.servers[:_MOST_SERVERS]:
        spoken = ", ".join((*each.dialects, *(f"release {era}" for era in each.eras)))
        parts.append(f"{each.address} ({count(each.connections, 'connection')}: {spoken})")
    left = len(found.servers) - _MOST_SERVERS
    return "; ".join([*parts, *([f"{left:,} more"] if left > 0 else [])]) or "none"


def _streams(found: Statistics) -> str:
    each = found.streams
    if not each.requests + each.not_captured:
        return "none"
    parts = [f"{each.requests:,} requested, {each.granted:,} granted"]
    if each.not_captured:
        parts.append(f"{count(each.not_captured, 'stream')} begun before the capture")
    if each.rollbacks:
        far = f", at most {each.farthest_rollback:,} seqnos back" if each.farthest_rollback else ""
        parts.append(f"{count(each.rollbacks, 'rollback')}{far}")
    if each.refused:
        parts.append(f"refused: {_listed(each.refused)}")
    if each.unanswered:
        parts.append(f"{count(each.unanswered, 'request')} without an answer")
    if each.ended:
        parts.append(f"ended: {_listed(each.ended)}")
    if each.open:
        parts.append(f"{each.open:,} never ended ({_open(found)})")
    return "; ".join(parts)


def _open(found: Statistics) -> str:
    """Name some streams, connection by connection."""
    named: dict[int, list[str]] = {}
    for each in found.streams.some_open[:_MOST_STREAMS]:
        named.setdefault(each.connection, []).append("not known" if each.vbucket is None else str(each.vbucket))
    parts = [
        f"connection {number}: vbucket{'s' if len(vbuckets) > 1 else ''} {', '.join(vbuckets)}"
        for number, vbuckets in named.items()
    ]
    if found.streams.open > _MOST_STREAMS:
        parts.append("…")
    return ", ".join(parts)


def _listed(numbers: Any) -> str:
    return ", ".join(f"{safe_text(name)} {number:,}" for name, number in numbers.items())


def _snapshots(found: Statistics) -> str:
    each = found.streams
    text = f"{each.snapshots:,} with {count(each.items, 'item')}"
    if each.covered_seqnos:
        share = each.without_item / each.covered_seqnos
        passed = f"{each.without_item:,} of {each.covered_seqnos:,} seqnos ({share:.1%}) without an item: "
        why = "deduplicated, filtered, purged or not captured" if found.losses.bytes_lost else _WHY_PASSED_OVER
        text += f"; {passed}{why}" if each.without_item else "; no seqno is passed over"
    return text


def _stalls(found: Statistics) -> str:
    stalls = found.stalls
    if not stalls.count:
        return "no stalls"
    unsure = f", of which {stalls.unsure:,} may be none" if stalls.unsure else ""
    together = " together" if stalls.count > 1 else ""
    text = f"{count(stalls.count, 'stall')} of {duration(stalls.total_ns)}{together}{unsure}"
    if stalls.count > 1:
        text += f", the longest {duration(stalls.longest_ns)}"
    return f"{text}; {stalls.unended:,} without an end" if stalls.unended else text


def _unanswered(found: Statistics) -> str:
    missing = sum(each.unanswered for each in found.requests)
    unsure = sum(each.unsure for each in found.requests)
    if not missing:
        return "no request"
    text = count(missing, "request")
    if not unsure:
        return text
    whose = "its answer" if missing == 1 else "their answers" if unsure == missing else f"the answers of {unsure:,}"
    return f"{text}; {whose} may be missing from the capture, or had no time to come"
