"""Rows as an aligned table for people. Nothing of a capture reaches the terminal raw.

Columns that are empty throughout are not shown. Where there is not enough room, long texts are cut with an ellipsis,
then the columns that matter least are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dissector.display.message_details import show
from dissector.summary.schema import SIDES
from dissector.terminal.alignment import GUTTER, cut, display_width, table_line
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dissector.terminal.style import Terminal

    Row = dict[str, Any]

_HEX = "hex:"
_WIDEST = 40  #: no text of a capture takes more, however much room there is


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of the table."""

    heading: str
    show: Callable[[Row], str]
    right: bool = False
    narrowest: int | None = None  #: it may be cut down to this
    drop: int = 0  #: the higher, the sooner it is left out; 0: never


def foreign(name: str) -> Callable[[Row], str]:
    """Show text that a capture controls."""

    def shown(row: Row) -> str:
        value = row.get(name)
        if value is None:
            return ""
        return safe_text(bytes.fromhex(value[len(_HEX) :]) if value.startswith(_HEX) else value)

    return shown


def own(name: str) -> Callable[[Row], str]:
    """Show a value that no capture controls, as it is."""
    return lambda row: "" if row.get(name) is None else str(row[name])


def number(*names: str, quiet: bool = False) -> Callable[[Row], str]:
    """Show a number, or the sum of several; quiet: nothing for 0."""

    def shown(row: Row) -> str:
        values = [row[name] for name in names if row.get(name) is not None]
        return "" if not values or (quiet and not sum(values)) else f"{sum(values):,}"

    return shown


def field(name: str) -> Callable[[Row], str]:
    """Show a number as listings of frames do, with its name or flags."""
    return lambda row: "" if row.get(name) is None else show(name, row[name])


def seconds(row: Row) -> str:
    """Show a duration."""
    return f"{row['duration_ns'] / 1e9:.6f}"


def _both(name: str) -> tuple[str, str]:
    client, server = (f"{side}_{name}" for side in SIDES)
    return client, server


def address(side: str) -> Callable[[Row], str]:
    """Show address and port of a side."""

    def shown(row: Row) -> str:
        host = f"[{row[side]}]" if ":" in row[side] else row[side]
        return f"{host}:{row[side + '_port']}"

    return shown


def _defects(row: Row) -> str:
    return f"{row['defective_frames']:,} {row['worst_defect']}" if row.get("defective_frames") else ""


CONNECTION_TABLE: tuple[TextColumn, ...] = (
    TextColumn("conn", own("number"), right=True),
    TextColumn("id", own("connection"), drop=8),
    TextColumn("client", address("client")),
    TextColumn("server", address("server")),
    TextColumn("name", foreign("name"), narrowest=12),
    TextColumn("producer", own("producer"), drop=3),
    TextColumn("dialect", own("dialect"), drop=2),
    TextColumn("era", own("era"), drop=4),
    TextColumn("bucket", foreign("bucket"), narrowest=8, drop=6),
    TextColumn("agent", foreign("agent"), narrowest=8, drop=9),
    TextColumn("start", lambda row: row["start"][:-4].replace("T", " "), drop=7),
    TextColumn("seconds", seconds, right=True, drop=5),
    TextColumn("frames →", number("client_frames"), right=True),
    TextColumn("frames ←", number("server_frames"), right=True),
    TextColumn("bytes →", number("client_bytes"), right=True, drop=1),
    TextColumn("bytes ←", number("server_bytes"), right=True, drop=1),
    TextColumn("gaps", number(*_both("gaps"), quiet=True), right=True, drop=2),
    TextColumn("lost", number(*_both("bytes_lost"), quiet=True), right=True),
    TextColumn("repeated", number(*_both("bytes_repeated"), quiet=True), right=True, drop=3),
    TextColumn("conflicting", number(*_both("bytes_conflicting"), quiet=True), right=True, drop=1),
    TextColumn("skipped", number(*_both("bytes_skipped"), quiet=True), right=True, drop=2),
    TextColumn("ended", own("ended"), drop=2),
    TextColumn("defects", _defects, right=True),
)

STREAM_TABLE: tuple[TextColumn, ...] = (
    TextColumn("conn", own("number"), right=True),
    TextColumn("name", foreign("name"), narrowest=12, drop=2),
    TextColumn("vbucket", own("vbucket"), right=True),
    TextColumn("stream", own("stream_id"), right=True),
    TextColumn("opaque", lambda row: f"{row['opaque']:08x}", drop=7),
    TextColumn("request", lambda row: own("request_frame")(row) or "not captured", right=True, drop=3),
    TextColumn("status", own("status")),
    TextColumn("rollback", own("rollback_seqno"), right=True, drop=2),
    TextColumn("start", field("start_seqno"), right=True, drop=4),
    TextColumn("end", field("end_seqno"), right=True, drop=5),
    TextColumn("flags", lambda row: field("stream_flags")(row) if row.get("stream_flags") else "", drop=6),
    TextColumn("uuid", field("vbucket_uuid"), right=True, drop=9),
    TextColumn("first", own("first_seqno"), right=True, drop=1),
    TextColumn("last", own("last_seqno"), right=True),
    TextColumn("snapshots", number("snapshots"), right=True, drop=4),
    TextColumn("items", number("items"), right=True),
    TextColumn("bytes", number("bytes"), right=True, drop=3),
    TextColumn("seconds", seconds, right=True, drop=5),
    TextColumn("ended", own("ended")),
)


def table_lines(
    rows: Sequence[Row], columns: Sequence[TextColumn], terminal: Terminal, room: int | None = None
) -> Iterator[str]:
    """Write the table; ``room`` is the width to keep to, None: any."""
    cells = [[terminal.encode(cut(column.show(row), _WIDEST)) for column in columns] for row in rows]
    headings = [terminal.encode(column.heading) for column in columns]
    widths = [
        max([display_width(heading), *(display_width(row[at]) for row in cells)])
        if any(row[at] for row in cells)
        else 0
        for at, heading in enumerate(headings)
    ]
    _fit(widths, columns, headings, room)
    shown = [at for at, wide in enumerate(widths) if wide]
    used, right = [widths[at] for at in shown], [columns[at].right for at in shown]
    yield terminal.heading(table_line([headings[at] for at in shown], used, right))
    for row, line in zip(rows, cells, strict=True):
        yield table_line([cut(line[at], widths[at]) for at in shown], used, right)
        yield from (terminal.warning(f"{GUTTER}{text}") for text in _against(row))
        yield from (f"{GUTTER}{text}" for text in _hashes(row))


def _fit(widths: list[int], columns: Sequence[TextColumn], headings: Sequence[str], room: int | None) -> None:
    """Narrow columns, then leave some out, until the table fits."""

    def excess() -> int:
        used = [wide for wide in widths if wide]
        return 0 if room is None else sum(used) + len(GUTTER) * (len(used) - 1) - room

    for at, column in enumerate(columns):
        if column.narrowest is not None and excess() > 0 and widths[at]:
            widths[at] = min(widths[at], max(widths[at] - excess(), column.narrowest, len(headings[at])))
    for at in sorted(range(len(columns)), key=lambda at: -columns[at].drop):
        if columns[at].drop and widths[at] and excess() > 0:
            widths[at] = 0


def _against(row: Row) -> list[str]:
    return [f"contradiction: {text}" for text in row.get("contradictions") or ()]


def _hashes(row: Row) -> Iterator[str]:
    for side in SIDES:
        if row.get(f"{side}_sha256") is not None:
            gaps = row[f"{side}_gap_list"]
            listed = " ".join(f"{gap['offset']}+{gap['length']}" for gap in gaps[:8]) + (
                " ..." if len(gaps) > 8 else ""
            )
            said = f", gaps at {listed}" if gaps else ""
            yield f"{side} {row[f'{side}_sha256']} of {row[f'{side}_hashed_bytes']:,} bytes{said}"
