"""Pictures by what they show: the numbers handed to the axes, how many marks, what is written beside them."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import plots
from analysis.check.checker import Checker
from analysis.check.transcript import around, numbered
from analysis.plots import theme
from analysis.plots.figure import FigureContext, duration
from analysis.plots.figure_set import FigureSet
from analysis.plots.frame_source import FrameSource
from analysis.plots.ladder import Ladder, label_of
from dissector.capture import expand
from dissector.options import ReadOptions
from tests.support import drawn_captures
from tests.support.drawn_captures import OPAQUE, VBUCKET, ack, opening, streaming, written
from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import (
    BASE_NS,
    CLIENT,
    SERVER,
    STEP_NS,
    Conversation,
    Ends,
    drop,
    marker,
    mutation,
    noop,
    pcap,
    request,
    response,
)

pytest.importorskip("matplotlib")
HANDSHAKE = 3  #: packets before the first message


def source(*paths: Path, chunk: int | None = None) -> FrameSource:
    options = ReadOptions() if chunk is None else ReadOptions(chunk_bytes=chunk)
    return FrameSource(expand([str(path) for path in paths]), options)


def figure_set(kind: str, *paths: Path, checked: bool = False, chunk: int | None = None) -> FigureSet:
    made = FigureSet([plots.kind_of(kind)], Checker() if checked else None)
    made.read(source(*paths, chunk=chunk))
    return made


def figure(kind: str, *paths: Path, **options: Any) -> Any:
    made = figure_set(kind, *paths, **options)
    plot = made.plots[kind]
    assert plot.why_empty() is None
    with theme.drawing(theme.LIGHT):
        return plot.draw(FigureContext(theme.LIGHT, made.names, "capture", made.findings))


def texts(drawing: Any) -> str:
    """Return everything that is written beside the axes."""
    return "\n".join(text.get_text() for text in drawing.texts)


def legend(drawing: Any) -> list[str]:
    found = [*drawing.legends, *(axes.get_legend() for axes in drawing.axes)]
    return [text.get_text() for each in found if each is not None for text in each.get_texts()]


def at_ms(packet: int, since: int = 0) -> float:
    """Return where a packet is on an axis of milliseconds that begins with another one."""
    return (packet - since) * STEP_NS / 1e6


def test_seqno_has_a_line_a_band_and_marks(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap", (1, 4, 3, 5))
    drawing = figure("seqno", capture, checked=True)
    (axes,) = drawing.axes
    lines = [line for line in axes.lines if line.get_label().startswith("vbucket")]
    assert [line.get_label() for line in lines] == ["vbucket 7 (1 plain)"]
    assert lines[0].get_ydata().tolist() == [1, 4, 3, 5]
    assert legend(drawing) == ["vbucket 7 (1 plain)", "current snapshot", "error"]
    (marks,) = [each for each in axes.collections if each.get_label() == "error"]
    assert marks.get_offsets()[:, 1].tolist() == [3]
    band = axes.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (0, 5)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("by_seqno", "time since 2023-11-14 22:13:20 UTC [µs]")
    assert "1 stream, 4 items, 1 snapshot, 1 finding marked" in texts(drawing)


def test_a_snapshot_ends_with_its_stream(tmp_path: Path) -> None:
    said = [*opening(b"over"), *streaming(), (SERVER, marker(VBUCKET, OPAQUE, 0, 9))]
    said += [(SERVER, mutation(VBUCKET, OPAQUE, 9, b"k"))]
    ended = len(said)
    said += [(SERVER, request(0x55, struct.pack(">I", 0), vbucket=VBUCKET, opaque=OPAQUE))]
    said += [*streaming(8, 99), (SERVER, marker(8, 99, 0, 3)), (SERVER, mutation(8, 99, 3, b"k"))]
    drawing = figure("seqno", written(tmp_path / "a.pcap", *said))
    bands = [each.get_paths()[0].get_extents() for each in drawing.axes[0].collections[:2]]
    begun = 6  # the axis begins with the first marker, after open, response, request and response
    since = at_ms(ended, begun - 2) * 1000
    assert bands[0].x1 == pytest.approx(since, abs=2.1)  # two bins
    assert (bands[0].y1, bands[1].y1) == (9, 3)
    assert bands[1].x0 > bands[0].x1


def test_seqno_of_many_streams(tmp_path: Path) -> None:
    said = opening(b"many")
    for number in range(60):
        said += streaming(number, 100 + number)
    for seqno in range(1, 4):
        said += [(SERVER, mutation(number, 100 + number, seqno, b"k")) for number in range(60)]
    drawing = figure("seqno", written(tmp_path / "a.pcap", *said))
    axes, bar = drawing.axes
    (lines,) = [each for each in axes.collections if len(each.get_paths()) == 60]
    assert lines.get_array().tolist() == list(range(60))
    assert bar.get_ylabel() == "vbucket"
    assert legend(drawing) == ["p10 of the streams", "p50 of the streams", "p90 of the streams"]
    assert "60 streams, 180 items" in texts(drawing)


def test_flow_is_a_running_sum(tmp_path: Path) -> None:
    big = mutation(VBUCKET, OPAQUE, 1, b"k", b"x" * 400)
    size = len(big.data)
    window = 2 * size
    said = [*opening(b"flow", window), *streaming()]
    before = len(said)
    said += [(SERVER, big), (SERVER, big), (CLIENT, ack(size)), (SERVER, big), (CLIENT, ack(10 * size))]
    made = figure_set("flow", written(tmp_path / "a.pcap", *said))
    flow: Any = made.plots["flow"]
    (lane,) = flow.shown_lanes()
    there = flow.bins["last"][lane]
    assert there[there >= 0].tolist() == [0, size, 2 * size, size, 2 * size, 0]  # an ack gives back what there is
    assert flow.bins["window"][lane].max() == window
    state = flow.states[0]
    first = BASE_NS + (HANDSHAKE + before) * STEP_NS
    # Full after the second message, and again after the third, until the next ack each time.
    assert sorted(state.stalls) == [(first + k * STEP_NS, first + (k + 1) * STEP_NS) for k in (1, 3)]
    with theme.drawing(theme.LIGHT):
        drawing = flow.draw(FigureContext(theme.LIGHT, made.names))
    (axes,) = drawing.axes
    assert max(axes.lines[0].get_ydata()) == 2 * size
    assert np.nanmax(axes.lines[1].get_ydata()) == window
    assert legend(drawing) == ["not acknowledged", "window", "stall"]
    assert "1 connection, 2 stalls of 2 µs together" in texts(drawing)


def test_snapshots_are_shaded_where_few_streams_are(tmp_path: Path) -> None:
    for streams, shades, ticks in ((3, 3, 0), (4, 0, 4)):
        said = opening(b"some")
        for number in range(streams):
            said += [*streaming(number, 100 + number), (SERVER, marker(number, 100 + number, 0, 9))]
            said += [(SERVER, mutation(number, 100 + number, 9, b"k"))]
        (axes,) = figure("seqno", written(tmp_path / "a.pcap", *said)).axes
        ranges = [each for each in axes.collections if each.get_label() == "" or each.get_label().startswith("_")]
        segments = [each.get_segments() for each in ranges if hasattr(each, "get_segments")]
        assert (len(ranges) - len(segments), len(segments)) == (shades, ticks)
        assert all([ends[:, 1].tolist() for ends in each] == [[0, 9]] for each in segments)
        assert legend(axes.figure)[-1] == ("current snapshot" if shades else "range of a snapshot")


def test_shades_end_with_their_connection(tmp_path: Path) -> None:
    over, other = Conversation().open(), Conversation(Ends(ports=(40_001, 11_210))).open()
    for side, message in [*opening(b"over"), *streaming(), (SERVER, marker(VBUCKET, OPAQUE, 0, 9))]:
        over.send(side, message)
    over.close(SERVER)
    for side, message in [*opening(b"other"), *streaming(8, 9), *[(SERVER, mutation(8, 9, 1, b"k"))] * 60]:
        other.send(side, message)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*over.packets, *other.packets]))
    band = figure("seqno", path).axes[0].collections[0].get_paths()[0].get_extents()
    assert band.x0 == 0
    assert band.x1 * 1e3 == pytest.approx(STEP_NS, abs=2100)  # from the marker to the FIN after it, and two bins


@pytest.mark.parametrize(("closed", "later"), [(True, 1), (False, 8)])
def test_a_stall_goes_on_until_its_connection_ends(tmp_path: Path, closed: bool, later: int) -> None:
    big = mutation(VBUCKET, OPAQUE, 1, b"k", b"x" * 400)
    full, other = Conversation().open(), Conversation(Ends(ports=(40_001, 11_210))).open()
    for side, message in [*opening(b"full", len(big.data)), *streaming(), (SERVER, big)]:
        full.send(side, message)
    if closed:
        full.close(CLIENT)
    for side, message in [*opening(b"none"), *streaming(8, 9), (SERVER, mutation(8, 9, 1, b"k"))]:
        other.send(side, message)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*full.packets, *other.packets]))
    made = figure_set("flow", path)
    flow: Any = made.plots["flow"]
    sent = 3 + 4 + 2  # handshake, open and control, stream request: the next packet fills the window
    end = sent + later  # its FIN; without one the last packet of all: handshake, open, stream request and item
    assert flow.states[0].stalls == [(BASE_NS + sent * STEP_NS, BASE_NS + end * STEP_NS)]
    with theme.drawing(theme.LIGHT):
        drawing = flow.draw(FigureContext(theme.LIGHT, made.names))
    above, below = drawing.axes
    first = BASE_NS + (3 + 2) * STEP_NS  # the axis begins with the control, which sets the window
    assert above.lines[0].get_xdata()[-1] * 1e3 == pytest.approx(BASE_NS + end * STEP_NS - first)
    stalled = duration(later * STEP_NS)
    assert above.get_title(loc="left") == (
        f"connection 1 full: 1 stall, {stalled}, the last one without an end ({stalled})"
    )
    assert below.get_title(loc="left").endswith("none: no connection_buffer_size was asked for: flow control is off")


def test_a_stall_is_cut_where_the_picture_ends(tmp_path: Path) -> None:
    big = mutation(VBUCKET, OPAQUE, 1, b"k", b"x" * 400)
    said = [*opening(b"full", len(big.data)), *streaming(), (SERVER, big), *[(SERVER, noop(8))] * 9]
    made = FigureSet([plots.kind_of("flow")])
    full = 4 + 2  # messages before the one that fills the window, each in a packet of its own
    made.select("1", None, 0, (full + 5) * STEP_NS)
    made.read(source(written(tmp_path / "a.pcap", *said)))
    flow: Any = made.plots["flow"]
    first = BASE_NS + HANDSHAKE * STEP_NS
    assert flow.states[0].stalls == [(first + full * STEP_NS, first + (full + 5) * STEP_NS)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([*opening(b"off", 9), (CLIENT, request(0x5E, b"", b"connection_buffer_size", b"0"))], "switched off"),
        ([], "its set-up is not in the capture"),
    ],
)
def test_why_there_is_no_window(tmp_path: Path, said: list[Any], why: str) -> None:
    said = [*said, *streaming(), (SERVER, mutation(VBUCKET, OPAQUE, 1, b"k"))]
    drawing = figure("flow", written(tmp_path / "a.pcap", *said))
    assert why in drawing.axes[0].get_title(loc="left")


@pytest.mark.parametrize("kind", [kind.name for kind in plots.KINDS])
def test_cuts_do_not_matter(kind: str) -> None:
    capture = CAPTURES / "02_flow_control.pcap"
    pictures = []
    for chunk in (None, 4096):
        made = figure_set(kind, capture, chunk=chunk)
        if made.plots[kind].why_empty() is not None:
            return
        with theme.drawing(theme.LIGHT):
            stream = io.BytesIO()
            theme.save(made.plots[kind].draw(FigureContext(theme.LIGHT, made.names)), stream, "svg")
        pictures.append(stream.getvalue())
    assert pictures[0] == pictures[1]


def test_rates_add_up(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap", tuple(range(1, 11)))
    drawing = figure("rates", capture)
    above, below = drawing.axes
    assert "mutation (10)" in legend(drawing)
    assert "17 messages" in texts(drawing)
    frames = 0.0
    for patch in above.patches:
        values, edges, baseline = patch.get_data()
        frames += float(((values - baseline) * np.diff(edges)).sum()) / 1e6  # per second, on an axis of microseconds
    assert frames == pytest.approx(17)
    assert (above.get_ylabel(), below.get_ylabel()) == ("messages per second", "bytes per second")


def test_plain_memcached_has_a_scale_of_its_own(tmp_path: Path) -> None:
    said = [*opening(b"busy"), *streaming(), (SERVER, mutation(VBUCKET, OPAQUE, 1, b"k"))]
    said += [(CLIENT, request(0x10, b"", opaque=8)), *[(SERVER, response(0x10, opaque=8))] * 900]
    drawing = figure("rates", written(tmp_path / "a.pcap", *said))
    above, _, beside = drawing.axes
    assert "5 messages, 901 of plain memcached" in texts(drawing)
    assert [text.get_text() for text in beside.get_legend().get_texts()] == ["stat (1)", "stat reply (900)"]
    assert above.get_ylim()[1] < beside.get_ylim()[1]
    # Where nothing else is said, it has the whole picture.
    said = [(CLIENT, request(0x10, b"", opaque=8)), (SERVER, response(0x10, opaque=8))]
    drawing = figure("rates", written(tmp_path / "b.pcap", *said))
    assert len(drawing.axes) == 2
    assert "2 messages, a bar" in texts(drawing)


def test_heatmap_counts_items(tmp_path: Path) -> None:
    said = opening(b"heat")
    for number in (3, 900):
        said += streaming(number, number)
    said += [(SERVER, mutation(vbucket, vbucket, seqno, b"k")) for vbucket in (3, 900) for seqno in range(1, 6)]
    drawing = figure("heatmap", written(tmp_path / "a.pcap", *said))
    axes, bar = drawing.axes
    (mesh,) = axes.collections
    assert mesh.get_array().sum(axis=1).tolist() == [5, 5]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "900"]
    assert bar.get_ylabel().startswith("items in ")


def test_latency_of_answers_and_acks(tmp_path: Path) -> None:
    item = mutation(VBUCKET, OPAQUE, 1, b"k", b"x" * 100)
    said = [*opening(b"late", 10_000), *streaming(), (SERVER, marker(VBUCKET, OPAQUE, 0, 1)), (SERVER, item)]
    said += [(CLIENT, ack(len(said[-2][1].data) + len(item.data)))]
    made = figure_set("latency", written(tmp_path / "a.pcap", *said))
    latencies: Any = made.plots["latency"]
    # open, control and stream request: the next packet is the answer.
    assert {opcode: int(counts.sum()) for opcode, counts in latencies.answers.items()} == {0x50: 1, 0x5E: 1, 0x53: 1}
    assert {latencies.answer_times.of(opcode).p99_ns for opcode in latencies.answers} == {STEP_NS}
    assert {number: int(counts.sum()) for number, counts in latencies.acks.items()} == {0: 1}
    with theme.drawing(theme.LIGHT):
        drawing = latencies.draw(FigureContext(theme.LIGHT, made.names))
    assert len(drawing.axes) == 2
    assert [axes.get_xscale() for axes in drawing.axes] == ["log", "log"]
    assert "3 answers, 1 ack" in texts(drawing)
    took = duration(STEP_NS)
    assert f"open (1)\np50 {took}, p99 {took}, max {took}" in legend(drawing)


def test_liveness_shows_every_noop(tmp_path: Path) -> None:
    said = [*opening(b"alive"), (CLIENT, request(0x5E, b"", b"set_noop_interval", b"20", opaque=3))]
    said += [
        (SERVER, response(0x5E, opaque=3)),
        (SERVER, noop(8)),
        (CLIENT, response(0x5C, opaque=8)),
        (SERVER, noop(9)),
    ]
    drawing = figure("liveness", written(tmp_path / "a.pcap", *said))
    (axes,) = drawing.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1 alive\nno-op every 20 s"]
    marks = {line.get_label(): len(line.get_xdata()) for line in axes.lines}
    assert marks == {"no-op": 2, "its answer": 1}
    assert "2 no-ops, 1 answered" in texts(drawing)


def test_gaps_show_what_is_lost(tmp_path: Path) -> None:
    conversation = Conversation().open()
    for side, message in [*opening(b"gap"), *streaming()]:
        conversation.send(side, message)
    for seqno in range(1, 9):
        conversation.send(SERVER, mutation(VBUCKET, OPAQUE, seqno, b"k", b"x" * 200))
    lost = conversation.packets[-5]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(drop(conversation.packets, len(conversation.packets) - 5)))
    drawing = figure("gaps", path)
    above, below = drawing.axes
    assert [label.get_text() for label in above.get_yticklabels()] == ["1 gap, server"]
    assert below.lines[0].get_ydata()[-1] == len(lost.data)
    assert f"1 hole, {len(lost.data):,} bytes lost" in texts(drawing)
    there = sum(len(packet.data) for packet in conversation.packets if packet.side == SERVER) - len(lost.data)
    numbers = [text.get_text() for text in above.texts]
    share = f"{len(lost.data) / (len(lost.data) + there):.1%}"
    assert numbers == ["holes", "1", "bytes lost", f"{len(lost.data)}", "of all", share, "messages cut", "0"]


def test_messages_that_a_gap_cuts_short(tmp_path: Path) -> None:
    """One packet is lost; the rest of its message cannot be read either."""
    conversation = Conversation().open()
    for side, message in [*opening(b"cut"), *streaming()]:
        conversation.send(side, message)
    before = len(conversation.packets)
    item = mutation(VBUCKET, OPAQUE, 1, b"k", b"x" * 3000)
    conversation.send(SERVER, item, mss=1000)
    conversation.send(SERVER, mutation(VBUCKET, OPAQUE, 2, b"k"))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(drop(conversation.packets, before + 1)))
    drawing = figure("gaps", path)
    assert "1 message cut short" in texts(drawing)
    assert "1,000 bytes lost" in texts(drawing)
    # Without its beginning nothing else is missing, which the picture's absence tells.
    path.write_bytes(pcap(conversation.packets[before:]))
    why = figure_set("gaps", path).plots["gaps"].why_empty()
    assert why == "no bytes are missing between frames, but 1 connection began before the capture"


def test_some_of_the_frames(tmp_path: Path) -> None:
    said = [*opening(b"two"), *streaming(1, 11), *streaming(2, 22)]
    said += [(SERVER, mutation(vbucket, vbucket * 11, seqno, b"k")) for seqno in range(1, 9) for vbucket in (1, 2)]
    capture = written(tmp_path / "a.pcap", *said)
    for choice, items in (
        ((None, None), 16),
        (("1", None), 16),
        ((None, 2), 8),
        ((None, None, 0, (6 + 4 - 1) * STEP_NS), 4),  # set-up and four items: time is since the first frame
        ((None, None, (6 + 4) * STEP_NS, None), 12),
    ):
        made = FigureSet([plots.kind_of("heatmap")])
        made.select(*choice)
        made.read(source(capture))
        shown: Any = made.plots["heatmap"]
        assert int(shown.bins["items"].sum()) == items


def test_a_crowded_moment_is_pointed_out(tmp_path: Path) -> None:
    made = figure_set("seqno", drawn_captures.plain(tmp_path / "a.pcap"))
    context = FigureContext(theme.LIGHT, made.names, start_ns=BASE_NS)
    weights, starts = np.ones(64, np.int64), BASE_NS + np.arange(64) * 10**9
    assert context.zoom_hint(weights, starts, 10**9) == []
    weights[40:42] = 1000
    assert context.zoom_hint(weights, starts, 10**9) == ["most of it at 38-42 s (--time)"]
    assert FigureContext(theme.LIGHT, made.names).zoom_hint(weights, starts, 10**9) == []


def test_latency_of_one_connection() -> None:
    capture = CAPTURES / "02_flow_control.pcap"
    whole: Any = figure_set("latency", capture).plots["latency"]
    made = FigureSet([plots.kind_of("latency")])
    made.select("2", None)
    made.read(source(capture))
    one: Any = made.plots["latency"]
    assert [int(counts.sum()) for counts in one.acks.values()] == [int(whole.acks[1].sum())]
    with theme.drawing(theme.LIGHT):
        drawing = one.draw(FigureContext(theme.LIGHT, made.names))
    assert [text.partition(" (")[0] for text in legend(drawing) if "connection" in text] == ["connection 2 fc-auto"]


def test_nothing_to_draw(tmp_path: Path) -> None:
    capture = written(tmp_path / "a.pcap", *opening(b"short"))
    for kind in ("seqno", "flow", "heatmap", "liveness", "gaps"):
        assert figure_set(kind, capture).plots[kind].why_empty()


def arrows(drawing: Any) -> int:
    (axes,) = drawing.axes
    return sum(getattr(text, "arrow_patch", None) is not None for text in axes.texts)


def test_a_ladder_of_frames(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap")
    made = figure_set("rates", capture)
    transcript = numbered(source(capture).open(), 3, 6)
    rows = [transcript.rows[number] for number in sorted(transcript.rows)]
    assert [row["frame"] for row in rows] == [3, 4, 5, 6]
    ladder = Ladder(transcript, rows)
    with theme.drawing(theme.DARK):
        drawing = ladder.draw(FigureContext(theme.DARK, made.names))
    assert arrows(drawing) == 4
    written_there = [text.get_text() for text in drawing.axes[0].texts]
    assert "stream_request  vb 7  opaque 00000040  snapshot 0..0  from 0 to no end" in written_there
    assert "mutation  vb 7  opaque 00000040  seqno 1  key-1" in written_there
    assert "10.0.0.1:40000" in written_there


def test_a_ladder_around_a_finding(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap", (*range(1, 40), 20, *range(40, 60)))
    made = figure_set("seqno", capture, checked=True)
    (finding,) = [each for each in made.findings if each.rule == "SEQ-01"]
    transcript = around(source(capture, chunk=4096).open(), [finding], 4, 3)
    rows = transcript.of(finding)
    guilty = finding.guilty.frame
    assert {row["frame"] for row in rows} == {
        *range(guilty - 4, guilty + 4),
        *(frame.frame for frame in finding.frames),
    }
    ladder = Ladder(transcript, rows, finding)
    with theme.drawing(theme.LIGHT):
        drawing = ladder.draw(FigureContext(theme.LIGHT, made.names))
    marked = [text.get_text() for text in drawing.axes[0].texts if "[guilty]" in text.get_text()]
    assert [text.split("  ")[3] for text in marked] == ["seqno 20"]
    assert finding.id in texts(drawing)


@pytest.mark.parametrize("form", theme.FORMATS)
def test_the_same_bytes_every_time(tmp_path: Path, form: str) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap")
    made = figure_set("seqno", capture)
    pictures = []
    for _ in range(2):
        with theme.drawing(theme.DARK):
            stream = io.BytesIO()
            theme.save(made.plots["seqno"].draw(FigureContext(theme.DARK, made.names)), stream, form)
        pictures.append(stream.getvalue())
    assert pictures[0] == pictures[1]
    assert b"Matplotlib" not in pictures[0]


@pytest.mark.parametrize("kind", ["seqno", "latency"])
def test_hostile_names_are_text(tmp_path: Path, kind: str) -> None:
    """Neither formulas nor characters that no font has: warnings are errors here."""
    for place, name in enumerate(drawn_captures.HOSTILE):
        capture = drawn_captures.plain(tmp_path / f"{place}.pcap", name=name)
        if kind != "seqno" and place not in (7, 8):
            continue
        made = figure_set(kind, capture)
        with theme.drawing(theme.LIGHT):
            drawing = made.plots[kind].draw(FigureContext(theme.LIGHT, made.names, str(name)))
            theme.save(drawing, io.BytesIO(), "png")
        assert all(text.isascii() for text in legend(drawing) if "p50" not in text)


def test_hostile_keys_on_a_ladder(tmp_path: Path) -> None:
    capture = drawn_captures.hostile(tmp_path / "a.pcap")
    made = figure_set("rates", capture)
    transcript = numbered(source(capture).open(), 1, 40)
    rows = [transcript.rows[number] for number in sorted(transcript.rows)]
    assert all(label_of(row).isascii() for row in rows)
    with theme.drawing(theme.LIGHT):
        theme.save(Ladder(transcript, rows).draw(FigureContext(theme.LIGHT, made.names)), io.BytesIO(), "png")


def test_dark_is_light_in_other_colours() -> None:
    light = theme.LIGHT
    assert len({light.paper, light.ink, light.quiet, light.faint, light.error, light.warning, *light.series}) == 13
    assert theme.darkened(b"fill: #0072b2; stroke: #123456") == b"fill: #56b4e9; stroke: #123456"


def test_lengths_of_time() -> None:
    assert [duration(number) for number in (5, 1500, 2.5e6, 3e9, 90e9, 7.2e12)] == [
        *("5 ns", "1.5 µs", "2.5 ms", "3 s", "1.5 min", "2 h")
    ]
