"""From bytes and gaps to frames: the walk, what a gap costs, what is searched for, and what is left alone."""

from __future__ import annotations

import hashlib
import struct
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.tcp.framing import PREFIX_BYTES, Framer, RawFrame, State
from dissector.tcp.header_check import HEADER_SIZE
from dissector.tcp.limits import Limits
from dissector.tcp.reassembly import Chunk, Gap
from tests.support.tcp_by_hand import Message, counted, marker, mutation, noop, request, response, stream_answer

LIMITS = Limits()
Event = bytes | int  # bytes in order, or the length of a gap


def noise(seed: int, size: int) -> bytes:
    """Return bytes without any pattern, the same every time."""
    return hashlib.shake_128(seed.to_bytes(8, "big")).digest(size)


#: Frames with and without key, extras and value; the noise in the values holds no header.
MESSAGES = [
    noop(1),
    stream_answer(9),
    marker(3, 9, 1, 3),
    mutation(3, 9, 1, b"first", noise(1, 30)),
    mutation(3, 9, 2, b"second"),
    response(0x5D, 4, b"Invalid arguments"),
    mutation(3, 9, 3, b"third", noise(2, 70)),
    counted(0x55, bytes(4), vbucket=3),
]
STREAM = b"".join(message.data for message in MESSAGES)
ENDS = list(accumulate(len(message.data) for message in MESSAGES))
SPANS = list(zip([0, *ENDS[:-1]], ENDS, strict=True))


class Run:
    """A framer that was fed; each piece of data is a packet of its own, numbered from 1."""

    def __init__(
        self, *events: Event, state: State = State.TRIAL, forced: bool = False, limits: Limits = LIMITS
    ) -> None:
        self.framer = Framer(limits, state, forced=forced)
        self.frames: list[RawFrame] = []
        self.position = self.packet = 0
        self.feed(*events)

    def feed(self, *events: Event) -> Run:
        for event in events:
            if isinstance(event, int):
                self.framer.gap(Gap(self.position, event), self.frames)
                self.position += event
            else:
                self.packet += 1
                chunk = Chunk(self.position, event, self.packet, self.packet * 10, self.packet * 100)
                self.framer.data(chunk, self.frames)
                self.position += len(event)
        return self

    def finish(self) -> list[RawFrame]:
        self.framer.finish(self.frames)
        return self.frames

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        return [(frame.start, frame.end, frame.missing) for frame in self.frames]


def places(frames: list[RawFrame]) -> list[tuple[int, int, bytes, int, int, int]]:
    """Return everything that must not depend on how the bytes came in packets."""
    return [(frame.start, frame.end, frame.data, frame.missing, frame.gap, frame.skipped) for frame in frames]


def whole(spans: list[tuple[int, int]] = SPANS, text: bytes = STREAM) -> list[tuple[int, int, bytes, int, int, int]]:
    return [(start, end, text[start:end], 0, 0, 0) for start, end in spans]


@pytest.mark.parametrize("state", [State.TRIAL, State.SEARCH])
@pytest.mark.parametrize("size", [1, 2, 7, 23, 24, 25, len(STREAM)])
def test_any_chunks_give_the_same_frames(state: State, size: int) -> None:
    run = Run(*(STREAM[at : at + size] for at in range(0, len(STREAM), size)), state=state)
    assert places(run.finish()) == whole()
    for frame in run.frames:
        assert frame.packet_first == frame.start // size + 1
        assert frame.packet_last == (frame.end - 1) // size + 1
        assert frame.time_ns == frame.packet_last * 10
        assert frame.acked == frame.packet_first * 100
    assert (run.framer.frames, run.framer.bytes_skipped) == (len(MESSAGES), 0)


def test_frames_come_out_as_soon_as_they_are_whole() -> None:
    run = Run()
    for at in range(len(STREAM)):
        run.feed(STREAM[at : at + 1])
        assert len(run.frames) == sum(end <= at + 1 for end in ENDS)
        assert len(run.framer.buffer) == at + 1 - max((end for end in ENDS if end <= at + 1), default=0)


def test_packets_of_a_frame_that_came_out_of_order() -> None:
    """The lowest and the highest packet number count, and the packet of the first byte for the acknowledgement."""
    framer, frames = Framer(LIMITS, State.TRIAL), list[RawFrame]()
    data = MESSAGES[3].data
    for start, end, packet in ((0, 30, 5), (30, 40, 2), (40, 60, 8), (60, len(data), 6)):
        framer.data(Chunk(start, data[start:end], packet, packet * 10, packet * 100), frames)
    assert [(each.packet_first, each.packet_last, each.time_ns, each.acked) for each in frames] == [(2, 8, 80, 500)]


def test_packets_of_a_frame_with_a_gap_that_came_out_of_order() -> None:
    framer, frames = Framer(LIMITS, State.TRIAL), list[RawFrame]()
    data = MESSAGES[3].data
    framer.data(Chunk(0, data[:30], 5, 50, 500), frames)
    framer.gap(Gap(30, 10), frames)
    framer.data(Chunk(40, data[40:60], 2, 20, 200), frames)
    framer.data(Chunk(60, data[60:], 8, 80, 800), frames)
    assert [(each.packet_first, each.packet_last, each.time_ns, each.acked) for each in frames] == [(2, 8, 80, 500)]


# --------------------------------------------------------------------------------------------------------------- gaps


def check_gap(frames: list[RawFrame], start: int, length: int, spans: list[tuple[int, int]], text: bytes) -> None:
    """Every frame that the gap spared is there; of the others, at most their beginning; nothing else."""
    position = 0
    found = set()
    for frame in frames:
        assert (frame.start, frame.end) in spans
        assert frame.start == position + frame.gap + frame.skipped  # everything between is accounted for
        touched = frame.start < start + length and start < frame.end
        assert (frame.missing > 0) == touched
        assert frame.data == text[frame.start : frame.start + len(frame.data)]
        assert len(frame.data) + frame.missing == frame.end - frame.start
        assert not touched or frame.start + HEADER_SIZE <= start == frame.start + len(frame.data)
        found.add((frame.start, frame.end))
        position = frame.end
    spared = {(first, last) for first, last in spans if last <= start or first >= start + length}
    readable = {(first, last) for first, last in spans if first + HEADER_SIZE <= start < last}
    assert found == spared | readable


@pytest.mark.parametrize("state", [State.TRIAL, State.SEARCH])
@pytest.mark.parametrize("length", [1, 5, 24, 60, 130])
def test_a_gap_costs_the_frames_that_it_touches(state: State, length: int) -> None:
    for start in range(len(STREAM) - length + 1):
        events: list[Event] = [STREAM[:start], length, STREAM[start + length :]]
        run = Run(*(event for event in events if event), state=state)
        check_gap(run.finish(), start, length, SPANS, STREAM)


@pytest.mark.parametrize("state", [State.TRIAL, State.SEARCH])
def test_the_end_of_a_capture_costs_the_last_frame(state: State) -> None:
    """A frame that was cut by the end is there if its header is."""
    for end in range(1, len(STREAM)):
        run = Run(STREAM[:end], state=state)
        check_gap(run.finish(), end, len(STREAM) - end, [span for span in SPANS if span[0] < end], STREAM)


def test_a_start_in_the_middle_finds_every_whole_frame() -> None:
    for start in range(ENDS[-2]):
        run = Run(STREAM[start:], state=State.SEARCH)
        expected = [(first - start, last - start) for first, last in SPANS if first >= start]
        assert [(frame.start, frame.end) for frame in run.finish()] == expected
        assert run.frames[0].skipped == expected[0][0]
        assert run.framer.bytes_skipped == expected[0][0]


@st.composite
def broken_streams(draw: st.DrawFn) -> tuple[list[Event], list[Event]]:
    """Draw a stream of frames with gaps, once in large chunks and once cut at will."""
    picked = draw(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=12))
    text = b"".join(message.data for message in picked)
    cuts = draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(1, 80)), max_size=4))
    large: list[Event] = []
    small: list[Event] = []
    position = 0
    for start, length in sorted(cuts):
        if start > position:
            large.append(text[position:start])
            inner = sorted({position, start, *draw(st.lists(st.integers(position, start), max_size=5))})
            small += [text[one:two] for one, two in pairwise(inner)]
        gap = min(start + length, len(text)) - max(start, position)
        if gap > 0:
            large.append(gap)
            small.append(gap)
            position = max(position, start) + gap
    rest = text[position:]
    return [*large, rest], [*small, *(rest[at : at + 1] for at in range(len(rest)))]


@given(broken_streams(), st.sampled_from([State.TRIAL, State.SEARCH]))
def test_chunks_do_not_matter_around_gaps(streams: tuple[list[Event], list[Event]], state: State) -> None:
    large, small = (Run(*(event for event in events if event), state=state) for events in streams)
    assert places(large.finish()) == places(small.finish())
    assert large.framer.bytes_skipped == small.framer.bytes_skipped


def test_a_snap_length_leaves_headers_at_the_start_of_packets() -> None:
    """Of each packet 30 bytes are there: enough for its first header, and for short frames as a whole."""
    for kept in range(HEADER_SIZE, 60):
        events: list[Event] = []
        for message in MESSAGES:
            events += [message.data[:kept], max(len(message.data) - kept, 0)]
        run = Run(*(event for event in events if event), state=State.SEARCH)
        run.finish()
        expected = [(start, end, max(end - start - kept, 0)) for start, end in SPANS]
        assert run.spans == expected


@pytest.mark.parametrize("before", [[], [STREAM, 100]], ids=["at the start", "after a gap"])
def test_a_cut_header_at_the_start_of_a_packet_is_believed_unconfirmed(before: list[Event]) -> None:
    frame = MESSAGES[6].data
    run = Run(*before, frame[:40], len(frame) - 40, state=State.SEARCH)
    start = (len(STREAM) + 100) * bool(before)
    assert run.spans[len(run.spans) - 1 :] == [(start, start + len(frame), len(frame) - 40)]
    assert len(Run(*before, b"?" + frame[:40], 50, state=State.SEARCH).frames) == len(before) // 2 * len(MESSAGES)


def test_the_end_of_a_frame_is_known_through_a_gap() -> None:
    """What follows need not be confirmed, nor even be legal; but after a gap that goes further it must."""
    frame, odd = MESSAGES[3].data, request(0xD5, bytes(50)).data
    for lost in (10, len(frame) - 30):  # the gap ends in the frame, or with it
        run = Run(frame[:30], lost, frame[30 + lost :] + odd)
        assert run.spans == [(0, len(frame), len(frame) - 30), (len(frame), len(frame + odd), 0)]
    assert len(Run(frame[:30], len(frame) - 29, odd[1:] + odd).finish()) == 1


# ---------------------------------------------------------------------------------------------------- other protocols

HTTP = b"POST /pools/default HTTP/1.1\r\nHost: node\r\nContent-Length: 900\r\n\r\n" + b"a=b&" * 225
TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise(5, 506) + b"\x17\x03\x03\x40\x00" + noise(6, 1 << 14)
RANDOM = noise(7, 1 << 16)
ALMOST = b"\x80\x57" + noise(8, 4000)  # starts like a mutation, but its lengths do not fit
FOREIGN = {"HTTP": HTTP, "TLS": TLS, "random": RANDOM, "almost": ALMOST}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("size", [1, 100, 1448])
def test_other_protocols_are_left_alone(text: bytes, size: int) -> None:
    run = Run(*(text[at : at + size] for at in range(0, min(len(text), 200 * size), size)))
    assert (run.framer.state, len(run.framer.buffer)) == (State.IGNORE, 0)
    run.feed(b"".join(message.data for message in MESSAGES), 5, b"x")
    assert run.finish() == []


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_other_protocols_seen_from_the_middle_on_have_no_frames(text: bytes) -> None:
    run = Run(state=State.SEARCH)
    for at in range(0, len(text), 1448):
        run.feed(text[at : at + 1448])
        assert len(run.framer.buffer) < HEADER_SIZE  # nothing to wait for
    assert run.finish() == []
    assert run.framer.bytes_skipped == len(text)


def test_a_forced_port_is_searched_whatever_it_starts_with() -> None:
    run = Run(HTTP, STREAM, forced=True)
    assert [(frame.start, frame.end) for frame in run.finish()] == [
        (start + len(HTTP), end + len(HTTP)) for start, end in SPANS
    ]
    assert run.frames[0].skipped == len(HTTP)


def test_a_search_ends_where_its_limit_does() -> None:
    limits = Limits(search_bytes=10_000)
    chunks = [RANDOM[at : at + 1000] for at in range(0, 12_000, 1000)]
    assert Run(*chunks[:10], STREAM, state=State.SEARCH, limits=limits).finish()
    assert Run(*chunks, STREAM, state=State.SEARCH, limits=limits).finish() == []
    assert Run(*chunks, STREAM, state=State.SEARCH, limits=limits, forced=True).finish()
    # Where frames have been seen it is memcached, and the search goes on for ever.
    assert len(Run(STREAM, 7, *chunks, STREAM, state=State.SEARCH, limits=limits).finish()) == 2 * len(MESSAGES)


@pytest.mark.parametrize("opcode", [0xD5, 0x53])
def test_a_broken_first_frame_is_believed_with_its_successor(opcode: int) -> None:
    """An unknown opcode, or extras of an unknown size, at the start of a connection seen from its SYN on."""
    first = request(opcode, bytes(50)).data
    assert not Run(first).frames  # it has to wait for the next header
    assert len(Run(first + STREAM).frames) == 1 + len(MESSAGES)
    assert len(Run(first).finish()) == 1
    assert Run(first + HTTP).finish() == []
    # Cut by a gap before the next header came: neither believed nor taken for another protocol.
    run = Run(first[:-10], 10, STREAM)
    assert [frame.start for frame in run.finish()] == [start + len(first) for start, _ in SPANS]


# ------------------------------------------------------------------------------------------------------------- limits


def with_value(size: int) -> Message:
    return mutation(3, 9, 1, b"large", noise(9, size))


@pytest.mark.parametrize("state", [State.TRIAL, State.SEARCH, State.WALK])
def test_a_frame_larger_than_the_limit_is_not_believed(state: State) -> None:
    exact, large = with_value(500).data, with_value(501).data
    limits = Limits(frame_bytes=len(exact))
    run = Run(exact + large + STREAM, state=state, limits=limits)
    assert [frame.start for frame in run.finish()] == [0, *(start + len(exact + large) for start, _ in SPANS)]
    assert run.frames[1].skipped == len(large)
    run = Run(large + STREAM, state=state, limits=limits)
    assert [frame.start for frame in run.finish()] == [start + len(large) for start, _ in SPANS]
    run = Run(large[:100], len(large) - 100, STREAM, state=state, limits=limits)
    assert [frame.start for frame in run.finish()] == [start + len(large) for start, _ in SPANS]


@pytest.mark.parametrize("held", [HEADER_SIZE, PREFIX_BYTES - 1, PREFIX_BYTES, 5000])
def test_shedding_an_unfinished_frame_keeps_its_beginning(held: int) -> None:
    large = with_value(9000).data
    run = Run(large[:held])
    run.framer.drop_buffer()
    assert len(run.framer.buffer) == 0
    run.feed(large[held : held + 50], 100, large[held + 150 :], STREAM).finish()
    kept = min(held, PREFIX_BYTES)
    assert run.spans[0] == (0, len(large), len(large) - kept)
    assert run.frames[0].data == large[:kept]
    assert [(start - len(large), missing) for start, _, missing in run.spans[1:]] == [(start, 0) for start, _ in SPANS]
    assert run.framer.bytes_skipped == 0


def test_shedding_less_than_a_header_changes_nothing() -> None:
    run = Run(STREAM[:10])
    run.framer.state = State.WALK
    run.framer.drop_buffer()
    assert places(run.feed(STREAM[10:]).finish()) == whole()


@pytest.mark.parametrize("state", [State.SEARCH, State.TRIAL])
def test_shedding_what_is_searched_loses_it_and_goes_on(state: State) -> None:
    """A header that claims a large frame and is not confirmed yet: it can be noise, so nothing is kept of it."""
    claim = request(0xD5 if state is State.TRIAL else 0x57, bytes(31), b"k", noise(10, 9000)).data
    run = Run(claim[:4000], state=state)
    assert len(run.framer.buffer) == 4000
    run.framer.drop_buffer()
    assert (len(run.framer.buffer), run.framer.bytes_skipped) == (0, 4000)
    run.feed(claim[4000:], STREAM)
    assert [frame.start for frame in run.finish()] == [start + len(claim) for start, _ in SPANS]
    assert run.frames[0].skipped == len(claim)


def test_what_is_in_step() -> None:
    """Only a walk with nothing pending may be taken over by the fast path."""
    assert not Run().framer.in_step
    assert Run(STREAM).framer.in_step
    assert Run(STREAM[:-1]).framer.in_step
    assert not Run(STREAM, 3).framer.in_step
    assert not Run(HTTP).framer.in_step


def test_values_that_look_like_frames_are_not_frames() -> None:
    """A document may be a recording of this very protocol: the walk does not look into values."""
    nested = mutation(3, 9, 1, b"pcap", STREAM).data
    text = nested + STREAM
    spans = [(0, len(nested)), *((start + len(nested), end + len(nested)) for start, end in SPANS)]
    assert places(Run(text).finish()) == whole(spans, text)
    assert struct.unpack_from(">I", nested, 8)[0] == len(nested) - HEADER_SIZE
    # A gap in the value does not lead into it either.
    run = Run(text[:70], 5, text[75:])
    assert [(frame.start, frame.end) for frame in run.finish()] == spans
