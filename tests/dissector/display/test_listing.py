"""The list: one line for each message in the room there is, and what matters most is still there."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from dissector.capture import expand
from dissector.display.list_layout import ListForm, Overflow, fitting
from dissector.display.listing import Listing, columns_to_show
from dissector.display.times import BY_NAME, TimeColumn
from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.frames.reader import FrameReader
from dissector.options import ReadOptions
from dissector.spec import registry
from dissector.terminal.alignment import display_width
from dissector.terminal.style import Terminal
from tests.support.paths import CAPTURES

if TYPE_CHECKING:
    import pyarrow as pa

WIDTHS = (40, 60, 80, 100, 160)
#: Errors and controls; lost bytes; the early dialect; collections and stream ids; the draft's layouts are in none.
NAMES = ("04_rollback_errors.pcap", "07a_snaplen96.pcap", "10_upr_early_dialect.pcap", "25_stream_id_v705.pcap")
ESCAPES = re.compile("\x1b\\[[0-9;]*m")


@cache
def batches(name: str) -> list[pa.RecordBatch]:
    return list(FrameReader(expand([str(CAPTURES / name)]), ReadOptions()))


def numbering(name: str) -> ConnectionNumbers:
    numbers = ConnectionNumbers()
    for batch in batches(name):
        numbers.see(batch)
    return numbers


def lines(name: str, form: ListForm, terminal: Terminal | None = None) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the rows of a recording, each with its lines."""
    numbers = numbering(name)
    listing, times = Listing(terminal or Terminal(), numbers, form), TimeColumn(form.time, numbers)
    return [(row, listing.lines(row, times.text(row["time_ns"]))) for each in batches(name) for row in each.to_pylist()]


def chopped(width: int) -> ListForm:
    return ListForm(width, Overflow.CHOP)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_one_line_for_each_message(name: str, width: int) -> None:
    form = chopped(width)
    assert display_width(Listing(Terminal(), numbering(name), form).heading()) <= width
    for row, (line,) in lines(name, form):
        assert display_width(line) <= width
        assert line.split()[0] == str(row["frame"])
        assert row["name"] in line


def test_columns_go_as_room_gets_short() -> None:
    heads = {width: fitting(ListForm(width)).heading(ListForm().time).split() for width in (None, *WIDTHS)}
    least = ["frame", "message", "what", "it", "says"]
    assert (
        heads[None] == heads[160] == ["frame", "seconds", "conn", "message", "vbucket", "opaque", "what", "it", "says"]
    )
    assert heads[100] == ["frame", "seconds", "conn", "message", "vb", "opaque", "what", "it", "says"]
    assert heads[80] == ["frame", "seconds", "conn", "message", "vb", "what", "it", "says"]
    assert heads[60] == ["frame", "conn", "message", "vb", "what", "it", "says"]
    assert heads[40] == least


def test_a_time_that_was_asked_for_stays() -> None:
    form = ListForm(80, time=BY_NAME["ad"], droppable=("connection",))
    assert " ".join(fitting(form).heading(form.time).split()) == "frame local date and time message vb what it says"
    assert fitting(form).start == 7 + 27 + 2 + 19 + 5 + 1
    assert all(fitting(ListForm(room, form.overflow, form.time, form.droppable)).time for room in WIDTHS)


@pytest.mark.parametrize("name", [name for name in NAMES if "snaplen" not in name])
def test_controls_statuses_and_rollbacks_can_be_seen_at_80_columns(name: str) -> None:
    seen = 0
    for row, (line,) in lines(name, chopped(80)):
        if row["name"] == "control" and row["text"] is not None and not row["response"]:
            seen += 1
            assert line.endswith(f"={row['text']}")
        if row["status"]:
            seen += 1
            assert str(registry.status_name(row["status"])) in line
        if row["rollback_seqno"] is not None:
            assert line.endswith(f"seqno={row['rollback_seqno']}")
        if row["by_seqno"] is not None and not row["defects"]:
            assert f"seqno={row['by_seqno']}  " in line or line.endswith(f"seqno={row['by_seqno']}")
    assert seen > 2


def test_what_is_lost_stands_first() -> None:
    found = 0
    for row, (line,) in lines("07a_snaplen96.pcap", chopped(80)):
        wrong = [*(each for each in row["defects"] if registry.DEFECT_BY_ID[each].severity.value == "error")]
        wrong += [f"{name}={row[name]}" for name in ("gap", "skipped", "missing") if row[name]]
        if wrong:
            found += 1
            says = line[fitting(chopped(80)).start :]
            assert says.startswith(f"[{' '.join(wrong)}]"[:20])
    assert found > 100


@pytest.mark.parametrize("overflow", [Overflow.CHOP, Overflow.WRAP, Overflow.WHOLE])
def test_colours_change_no_text(overflow: Overflow) -> None:
    form = ListForm(60, overflow)
    for name in NAMES[:2]:
        plain = [line for _, each in lines(name, form) for line in each]
        styled = [line for _, each in lines(name, form, Terminal(color=True)) for line in each]
        assert plain != styled
        assert plain == [ESCAPES.sub("", line).rstrip() for line in styled]
        assert all("\x1b" not in ESCAPES.sub("", line) for line in styled)


@pytest.mark.parametrize("width", [40, 80])
def test_wrapped_lines_lose_nothing(width: int) -> None:
    for name in NAMES:
        wide = fitting(ListForm()).start
        for (_, (whole,)), (_, found) in zip(
            lines(name, ListForm()), lines(name, ListForm(width, Overflow.WRAP)), strict=True
        ):
            assert all(display_width(line) <= width for line in found)
            assert "".join(found).replace(" ", "").endswith(whole[wide:].replace(" ", ""))


def test_wide_characters_take_two_places() -> None:
    rows = [row for batch in batches(NAMES[0]) for row in batch.to_pylist() if row["name"] == "mutation"]
    form = chopped(80)
    listing = Listing(Terminal(), numbering(NAMES[0]), form)
    (line,) = listing.lines(rows[0] | {"key": "漢" * 40}, "0.0")
    # 29 places: seqno=1 and its gutter take 9, key= 4, the ellipsis 1; of the other 15 a wide character leaves one.
    assert line.endswith("seqno=1  key=" + "漢" * 7 + "…")
    assert display_width(line) == 79


def test_without_unicode_the_ellipsis_is_three_dots() -> None:
    found = [line for _, (line,) in lines(NAMES[0], chopped(80), Terminal(unicode=False))]
    assert all(line.isascii() and len(line) <= 80 for line in found)
    assert sum(line.endswith("...") for line in found) > 10


def test_a_row_has_the_same_line_without_the_columns_that_are_empty() -> None:
    numbers = numbering(NAMES[3])
    listing, times = Listing(Terminal(), numbers), TimeColumn(BY_NAME["r"], numbers)
    for batch in batches(NAMES[3]):
        less = batch.select(columns_to_show(batch)).to_pylist()
        assert len(less[0]) < 50
        for row, few in zip(batch.to_pylist(), less, strict=True):
            text = times.text(row["time_ns"])
            assert listing.lines(row, text) == listing.lines(few, text)


def test_kinds_of_messages_differ_in_colour() -> None:
    painted: dict[str, str] = {}
    for name in NAMES:
        for row, (line,) in lines(name, ListForm(), Terminal(color=True)):
            if not row["response"]:
                painted[row["name"]] = "".join(ESCAPES.findall(line)[:1])
    kinds = ("stream_request", "snapshot_marker", "mutation", "deletion", "stream_end", "noop")
    assert len({painted[each] for each in kinds}) == len(kinds)
    assert painted["noop"] == painted["buffer_ack"]
    assert painted["open"] == painted["control"] == painted["stream_request"]
