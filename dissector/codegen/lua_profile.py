"""A Wireshark profile for the plugin: columns, colors, filter buttons and graphs for what is asked for most.

Knows Wireshark's file formats and the plugin's field names, not where profiles are kept. Each file is written
in the form that Wireshark 4.0 and all later versions read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD = "# Written by uprscope lua --profile\n"
#: Wireshark fills this file in as the window is used: it is written once, and what is in it then stays.
KEPT = "recent"


class Color(NamedTuple):
    """A coloring rule."""

    name: str
    filter: str
    back: str  #: #RRGGBB
    front: str


class ProfileColumn(NamedTuple):
    """A column of the packet list."""

    title: str
    format: str  #: Wireshark's sign for it, or the field that it shows
    width: int  #: in pixels
    which: int = 0  #: which of a packet's messages: 0 is all of them, 1 the first


class Graph(NamedTuple):
    """A line of Statistics, I/O Graphs: the largest value of a field in each interval."""

    name: str
    field: str
    color: str
    style: str
    ticked: bool = True  #: shown when the window opens


def _one_of(*names: str) -> str:
    return f"upr.name in {{{', '.join(_text(name) for name in names)}}}"


def _text(word: str) -> str:
    return f'"{word}"'


_STREAMS = _one_of(
    *("add_stream", "stream_request", "stream_end", "close_stream", "set_vbucket_state"),
    *("stream_start", "stream_ok", "stream_rollback", "stream_not_my_vbucket"),  # of the draft
)
_SNAPSHOTS = _one_of("snapshot_marker", "oso_snapshot", "seqno_advanced", "snapshot_start", "snapshot_end")
_CHANGES = _one_of(
    *("mutation", "deletion", "expiration", "prepare", "commit", "abort"),
    *("system_event", "flush", "cache_transfer", "cache_transfer_end"),
)
_SET_UP = _one_of(
    *("hello", "sasl_list_mechs", "sasl_auth", "sasl_step", "select_bucket"),
    *("open", "control", "get_failover_log", "failover_log"),
)

#: The first match wins. Each rule sets both colors, so that a dark theme shows the same as a light one.
COLORS: tuple[Color, ...] = (
    Color("UPR violation", 'upr.severity == "error"', "#b3261e", "#ffffff"),
    Color("UPR warning", 'upr.severity == "warning"', "#ffd54f", "#2b1b00"),
    Color("UPR skipped bytes", "upr.unsynced", "#bdbdbd", "#1f1f1f"),
    Color("UPR refusal", "upr.status > 0", "#ffc9b5", "#4a1500"),
    Color("UPR stream begins or ends", _STREAMS, "#b3d4fc", "#0b2545"),
    Color("UPR flow control", _one_of("buffer_ack", "seqno_acknowledged"), "#c3e8c5", "#10351a"),
    Color("UPR snapshot", _SNAPSHOTS, "#e1d5f5", "#2a1548"),
    Color("UPR change", _CHANGES, "#f2f6fb", "#12181f"),
    Color("UPR answer", "upr.response", "#d5efec", "#0f2f2c"),
    Color("UPR set-up", _SET_UP, "#f3e9d2", "#3a2a00"),
    Color("UPR", "upr", "#eeeeee", "#12181f"),
)
#: Label and filter.
BUTTONS: tuple[tuple[str, str], ...] = (
    ("Violations", 'upr.severity in {"error", "warning"}'),
    ("Streams", _STREAMS),
    ("Refusals", "upr.status > 0"),
    ("Full window", "upr.outstanding >= upr.window"),
    ("Slow answers", "upr.response_time > 100"),
    ("Skipped", "upr.unsynced"),
)
COLUMNS: tuple[ProfileColumn, ...] = (
    ProfileColumn("No.", "%m", 55),
    ProfileColumn("Time", "%t", 85),
    ProfileColumn("Source", "%s", 110),
    ProfileColumn("Destination", "%d", 110),
    ProfileColumn("Protocol", "%p", 85),
    ProfileColumn("Length", "%L", 60),
    ProfileColumn("vbucket", "upr.vbucket", 65),
    ProfileColumn("seqno", "upr.by_seqno", 90),
    ProfileColumn("opaque", "upr.opaque", 95, which=1),
    ProfileColumn("stream", "upr.stream", 60, which=1),
    ProfileColumn("window", "upr.window", 80, which=1),
    ProfileColumn("Info", "%i", 500),
)
#: All graphs share an axis. Seqnos and bytes have no scale in common: next to the one, the other is a flat line.
GRAPHS: tuple[Graph, ...] = (
    Graph("Outstanding bytes", "upr.outstanding", "#d1495b", "Line"),
    Graph("Window", "upr.window", "#2e86ab", "Step Line"),
    Graph("Seqno", "upr.by_seqno", "#3b8132", "Line", ticked=False),
)


def render() -> dict[str, str]:
    """Return the profile's files by name."""
    files = {
        "colorfilters": "".join(map(_color_line, COLORS)),
        "dfilter_buttons": "".join(_record("TRUE", label, rule, "") for label, rule in BUTTONS),
        "io_graphs": "".join(map(_graph_line, GRAPHS)),
        "preferences": f"{_columns()}upr.checks: TRUE\n",
        KEPT: _widths(),
    }
    return {name: _HEAD + text for name, text in files.items()}


def _color_line(color: Color) -> str:
    return f"@{color.name}@{color.filter}@{_sixteen_bits(color.back)}{_sixteen_bits(color.front)}\n"


def _sixteen_bits(color: str) -> str:
    """Return a color as Wireshark writes it, with 16 bits for each part: #ff8000 is [65535,32896,0]."""
    parts = (int(color[at : at + 2], 16) * 0x101 for at in (1, 3, 5))
    return f"[{','.join(map(str, parts))}]"


def _graph_line(graph: Graph) -> str:
    """Return a graph as 4.0 writes it; 4.6 has one field more, which it sets by itself."""
    shown = "Enabled" if graph.ticked else "Disabled"
    return _record(shown, graph.name, "", graph.color, graph.style, "MAX(Y Field)", graph.field, "None", "1")


def _record(*fields: str) -> str:
    """Return a line of Wireshark's tables, where quotes inside a field are written in hexadecimal."""
    return ",".join(_text(field.replace('"', "\\x22")) for field in fields) + "\n"


def _columns() -> str:
    return "gui.column.format:\n" + _pairs((each.title, _sign(each)) for each in COLUMNS)


def _widths() -> str:
    return "column.width:\n" + _pairs((_shown(each), str(each.width)) for each in COLUMNS)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return ",\n".join(f"\t{_text(first)}, {_text(second)}" for first, second in pairs) + "\n"


def _shown(column: ProfileColumn) -> str:
    return column.format if column.format.startswith("%") else f"%Cus:{column.format}"


def _sign(column: ProfileColumn) -> str:
    """Return a column's format; R has numbers shown by their names where they have one."""
    shown = _shown(column)
    return shown if shown == column.format else f"{shown}:{column.which}:R"
