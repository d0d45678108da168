"""A message sequence chart: some frames as arrows between the two sides, in the order of the capture.

Knows rows of frames and their roles in a finding; must not know how the frames were selected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.plots.figure import TOP, WIDTH, FigureContext, count, duration
from analysis.plots.theme import label_text
from dissector.display.message_details import show
from dissector.spec import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.check.findings import Finding
    from analysis.check.transcript import Transcript

    Row = dict[str, Any]

MOST = 80  #: arrows of one picture
CONNECTIONS = 3  #: drawn side by side
_WIDER = 5.5  #: inches for each further connection
_STEP = 0.27  #: inches from arrow to arrow
_PAUSE_NS = 1_000_000_000
_WITHOUT_VBUCKET = (
    "open",
    "control",
    "noop",
    "buffer_ack",
    "hello",
    "select_bucket",
)  #: the field exists, but has no meaning


class Ladder:
    """The frames of a transcript as arrows."""

    def __init__(self, transcript: Transcript, rows: Sequence[Row], finding: Finding | None = None) -> None:
        self.rows = list(rows)[:MOST]
        self.left_out = len(rows) - len(self.rows)
        self.names: dict[str, None] = {}
        for row in self.rows:
            self.names.setdefault(row["connection"])
        drawn = list(self.names)[:CONNECTIONS]
        if finding is not None and finding.connection not in drawn:
            drawn[-1:] = [finding.connection]
        self.others = sum(row["connection"] not in drawn for row in self.rows)
        self.rows = [row for row in self.rows if row["connection"] in drawn]
        self._transcript = transcript
        self._column = {name: place for place, name in enumerate(drawn)}
        self._finding = finding
        self._roles = {frame.frame: frame.role for frame in reversed(finding.frames)} if finding else {}

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        return None if self.rows else "there are no such frames"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        lines = self._lines()
        height = 1.75 + _STEP * (len(lines) + 1)
        span = max(len(self._column), 1)
        figure, (axes,) = context.figure(height, width=WIDTH + _WIDER * (span - 1))
        figure.set_layout_engine("none")  # everything is inside the axes: nothing has to be measured
        axes.set_position((0.0, 0.0, 0.99, 1 - TOP / height))
        axes.axis("off")
        axes.set_xlim(-0.24 * span**0.5, span - 0.02)
        axes.set_ylim(len(lines) + 0.6, -2.0)
        self._draw_sides(axes, context, len(lines))
        start = self._transcript.numbering.start_ns or 0
        for place, (row, between) in enumerate(lines):
            if row is None:
                axes.text(0.04, place, between, fontsize=7.5, color=context.theme.quiet, va="center")
                axes.text(-0.02, place, "⋮", fontsize=8, color=context.theme.quiet, va="center", ha="right")
                continue
            time = f"{(row['time_ns'] - start) / 1e9:.6f} s"
            axes.text(-0.02, place, time, fontsize=7, color=context.theme.quiet, va="center", ha="right")
            axes.text(
                -0.16 * span**0.5,
                place,
                f"{row['frame']:,}",
                fontsize=7,
                color=context.theme.quiet,
                va="center",
                ha="right",
            )
            self._draw_arrow(axes, place, row, context)
        axes.text(-0.16 * span**0.5, -0.75, "frame", fontsize=7, color=context.theme.quiet, ha="right")
        axes.text(-0.02, -0.75, "time", fontsize=7, color=context.theme.quiet, ha="right")
        first, last = self.rows[0]["frame"], self.rows[-1]["frame"]
        parts = [f"frames {first:,} to {last:,}"]
        if self.left_out:
            parts.append(f"{self.left_out:,} more are not shown")
        if self.others:
            parts.append(f"{count(self.others, 'frame')} of other connections left out (--connection)")
        title = "Message sequence"
        if self._finding is not None:
            title = f"{self._finding.id}: {self._finding.title}"
            parts.insert(0, label_text(self._finding.sentence, 90))
        context.title(figure, label_text(title, 90), ", ".join(parts))
        return figure

    def _lines(self) -> list[tuple[Row | None, str]]:
        """Return the content of each line: a frame, or a note on what is left out before the next frame."""
        lines: list[tuple[Row | None, str]] = []
        before: dict[str, Row] = {}
        for row in self.rows:
            last = before.get(row["connection"])
            if last is not None:
                between = self._between(last, row)
                if between:
                    lines.append((None, between))
            if row["gap"] or row["skipped"]:
                lost = (row["gap"] or 0) + (row["skipped"] or 0)
                lines.append((None, f"{lost:,} bytes missing here"))
            before[row["connection"]] = row
            lines.append((row, ""))
        return lines

    def _between(self, last: Row, row: Row) -> str:
        place = self._transcript.place
        hidden = place[row["frame"]] - place[last["frame"]] - 1
        pause = row["time_ns"] - last["time_ns"]
        text = count(hidden, "frame") if hidden > 0 else ""
        if pause >= _PAUSE_NS:
            text += f" in {duration(pause)}" if text else f"{duration(pause)} of silence"
        return text

    def _draw_sides(self, axes: Axes, context: FigureContext, lines: int) -> None:
        for name, column in self._column.items():
            row = next(row for row in self.rows if row["connection"] == name)
            ends = [f"{row['src']}:{row['sport']}", f"{row['dst']}:{row['dport']}"]
            number = context.names.number(name)
            label = "" if number is None else context.names.dcp_names.get(number, "")
            listed = self._transcript.numbering.numbers.get(name, 0)
            axes.text(
                column + 0.49, -1.8, label_text(f"connection {listed} {label}", 44), ha="center", fontweight="bold"
            )
            for side, x in enumerate((column + 0.02, column + 0.96)):
                axes.plot([x, x], [-0.5, lines], color=context.theme.quiet, linewidth=1.2)
                who = label_text(ends[side ^ row["direction"]], 30)
                axes.text(x, -1.1, who, fontsize=7.5, ha="left" if side == 0 else "right", va="center")

    def _draw_arrow(self, axes: Axes, place: int, row: Row, context: FigureContext) -> None:
        theme, role = context.theme, self._roles.get(row["frame"])
        color = theme.quiet if row["response"] else theme.series[0]
        if role is not None:
            color = theme.error if role == "guilty" else theme.warning
        column = self._column[row["connection"]]
        ends = [column + 0.025, column + 0.955]
        begin, end = ends[row["direction"]], ends[1 - row["direction"]]
        form = {
            "arrowstyle": "-|>",
            "color": color,
            "linewidth": 1.8 if role else 1.0,
            "linestyle": "--" if row["response"] else "-",
            "shrinkA": 0,
            "shrinkB": 0,
        }
        axes.annotate("", (end, place), (begin, place), arrowprops=form)
        text = label_of(row)
        if role is not None:
            text += f"   [{'guilty' if role == 'guilty' else role.replace('_', ' ')}]"
        axes.text(
            column + 0.49,
            place,
            text if len(self._column) == 1 else label_text(text, 66),
            fontsize=7.5,
            ha="center",
            va="center",
            color=color if role else theme.ink,
            fontweight="bold" if role == "guilty" else "normal",
            bbox={"facecolor": theme.paper, "edgecolor": "none", "pad": 0.8},
        )


def label_of(row: Row) -> str:
    """Return the text on an arrow: the message with its vbucket, opaque and most important numbers."""
    parts = [label_text(row["name"]) + (" reply" if row["response"] and row["dialect"] != "draft" else "")]
    if row["status"]:
        parts.append(registry.status_name(row["status"]) or f"status 0x{row['status']:04x}")
    if row["vbucket"] is not None and row["name"] not in _WITHOUT_VBUCKET:
        parts.append(f"vb {row['vbucket']}")
    parts.append(f"opaque {row['opaque']:08x}")
    if row["by_seqno"] is not None:
        parts.append(f"seqno {row['by_seqno']}")
    if row["snap_end_seqno"] is not None:
        parts.append(f"snapshot {row['snap_start_seqno']}..{row['snap_end_seqno']}")
    if row["start_seqno"] is not None:
        parts.append(f"from {row['start_seqno']} to {show('end_seqno', row['end_seqno'])}")
    if row["buffer_bytes"] is not None:
        parts.append(count(row["buffer_bytes"], "byte"))
    if row["end_reason"] is not None:
        parts.append(show("end_reason", row["end_reason"]))
    if row["key"] is not None:
        parts.append(label_text(row["key"], 24))
    return "  ".join(parts)
