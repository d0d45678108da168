"""One direction of a connection: segments in, bytes once and in order or gaps out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.tcp.limits import SEGMENT_OVERHEAD
from dissector.tcp.reassembly import Chunk, Gap, HalfConnection, unwrap

WRAP = 1 << 32
GIB = 1 << 30

# In the tables a segment is (offset, bytes) or (offset, bytes, length on the wire); what comes out is (offset, bytes)
# or (offset, length of a gap); None between segments asks for a flush there.
In = tuple[int, bytes] | tuple[int, bytes, int] | None
Out = tuple[int, bytes] | tuple[int, int]


def run(direction: HalfConnection, segments: list[In]) -> list[Out]:
    """Feed segments, each in a packet of its own; return what comes out."""
    out: list[Out] = []
    for number, segment in enumerate(segments):
        if segment is None:
            events = direction.flush()
        else:
            length = segment[2] if len(segment) == 3 else len(segment[1])
            events = direction.feed(segment[0], length, segment[1], number, number * 10, None)
        out += [(each.offset, each.length) if isinstance(each, Gap) else (each.offset, each.data) for each in events]
    return out


@dataclass(frozen=True)
class Case:
    """Segments in, what comes out, what is left and counted."""

    name: str
    segments: list[In]
    out: list[Out]
    repeated: int = 0
    conflicting: int = 0
    held: list[tuple[int, bytes]] = field(default_factory=list)


CASES = [
    # The six cases of the module's drawing, after "abc" in order.
    Case("old", [(0, b"abc"), (0, b"ab")], [(0, b"abc")], repeated=2),
    Case("old and new", [(0, b"abc"), (1, b"bcde")], [(0, b"abc"), (3, b"de")], repeated=2),
    Case("next", [(0, b"abc"), (3, b"def")], [(0, b"abc"), (3, b"def")]),
    Case("ahead", [(0, b"abc"), (5, b"fg")], [(0, b"abc")], held=[(5, b"fg")]),
    Case(
        "ahead, overlaps what is held on both sides",
        [(0, b"abc"), (5, b"fg"), (4, b"efgh")],
        [(0, b"abc")],
        repeated=2,
        held=[(4, b"e"), (5, b"fg"), (7, b"h")],
    ),
    Case("ahead, inside what is held", [(4, b"efgh"), (5, b"fg")], [], repeated=2, held=[(4, b"efgh")]),
    # Retransmission.
    Case("the same again", [(0, b"abc"), (0, b"abc"), (3, b"d")], [(0, b"abc"), (3, b"d")], repeated=3),
    Case("keep-alive with a byte", [(0, b"abc"), (2, b"\0"), (3, b"d")], [(0, b"abc"), (3, b"d")], repeated=1),
    Case("keep-alive without", [(0, b"abc"), (2, b""), (3, b"d")], [(0, b"abc"), (3, b"d")]),
    Case("larger the second time", [(0, b"ab"), (0, b"abcd")], [(0, b"ab"), (2, b"cd")], repeated=2),
    Case("far back", [(0, b"abc"), (-GIB, b"xyz")], [(0, b"abc")], repeated=3),
    # What was delivered is gone and cannot be compared; what is held can.
    Case("other bytes, too late to tell", [(0, b"abc"), (0, b"xyz")], [(0, b"abc")], repeated=3),
    Case(
        "other bytes while the first are held",
        [(1, b"bcd"), (0, b"aXcYe")],
        [(0, b"a"), (1, b"bcd"), (4, b"e")],
        repeated=3,
        conflicting=2,
    ),
    # Holes fill in any order.
    Case("filled from the end", [(2, b"c"), (1, b"b"), (0, b"a")], [(0, b"a"), (1, b"b"), (2, b"c")]),
    Case(
        "filled in the middle",
        [(3, b"d"), (1, b"b"), (2, b"c"), (0, b"a")],
        [(i, b"abcd"[i : i + 1]) for i in range(4)],
    ),
    Case(
        "filled by one over two", [(1, b"b"), (3, b"d"), (0, b"abcde")], [(i, b"abcde"[i : i + 1]) for i in range(5)], 2
    ),
    Case(
        "not filled beyond the next hole", [(1, b"b"), (3, b"d"), (0, b"a")], [(0, b"a"), (1, b"b")], held=[(3, b"d")]
    ),
    # Holes that do not fill.
    Case("one gap", [(0, b"a"), (3, b"d"), None], [(0, b"a"), (1, 2), (3, b"d")]),
    Case("two gaps", [(2, b"c"), (5, b"f"), None, (6, b"g")], [(0, 2), (2, b"c"), (3, 2), (5, b"f"), (6, b"g")]),
    Case("too late for a gap", [(2, b"c"), None, (0, b"abcd")], [(0, 2), (2, b"c"), (3, b"d")], repeated=3),
    Case("nothing held, nothing lost", [(0, b"a"), None, (1, b"b")], [(0, b"a"), (1, b"b")]),
    # Snap lengths: the rest of the segment is a gap, known at once.
    Case("cut", [(0, b"ab", 5), (5, b"f")], [(0, b"ab"), (2, 3), (5, b"f")]),
    Case("cut to nothing", [(0, b"", 5), (5, b"f")], [(0, 5), (5, b"f")]),
    Case("cut while held", [(2, b"cd", 4), (0, b"ab")], [(0, b"ab"), (2, b"cd"), (4, 2)]),
    Case("cut, then whole: the first copy wins", [(0, b"ab", 4), (0, b"abcd")], [(0, b"ab"), (2, 2)], repeated=4),
    Case("cut while held, then whole", [(1, b"b", 3), (0, b"abcd")], [(0, b"a"), (1, b"b"), (2, 2)], repeated=3),
    Case("repeated part is all that is left of a cut", [(0, b"abc"), (1, b"b", 4)], [(0, b"abc"), (3, 2)], repeated=2),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases(case: Case) -> None:
    direction = HalfConnection()
    out = run(direction, case.segments)
    assert out == case.out
    assert direction.bytes_repeated == case.repeated
    assert direction.bytes_conflicting == case.conflicting
    assert [(held.offset, held.data) for held in direction.held] == case.held
    assert direction.held_cost == sum(len(data) + SEGMENT_OVERHEAD for _, data in case.held)
    gaps = [what for _, what in out if isinstance(what, int)]
    assert (direction.gaps, direction.bytes_lost) == (len(gaps), sum(gaps))
    assert direction.bytes_delivered == sum(len(what) for _, what in out if isinstance(what, bytes))


def test_a_chunk_names_its_packet() -> None:
    direction = HalfConnection()
    assert direction.feed(2, 2, b"cd", 7, 70, 11) == []
    assert direction.feed(0, 3, b"abc", 8, 80, 12) == [Chunk(0, b"ab", 8, 80, 12), Chunk(2, b"cd", 7, 70, 11)]


def test_give_up_takes_one_hole_at_a_time() -> None:
    direction = HalfConnection()
    assert run(direction, [(2, b"c"), (3, b"d"), (6, b"g"), (9, b"j")]) == []
    assert direction.give_up() == [Gap(0, 2), Chunk(2, b"c", 0, 0, None), Chunk(3, b"d", 1, 10, None)]
    assert direction.give_up() == [Gap(4, 2), Chunk(6, b"g", 2, 20, None)]
    assert direction.flush() == [Gap(7, 2), Chunk(9, b"j", 3, 30, None)]
    assert direction.flush() == []
    assert (direction.next, direction.held_cost, direction.bytes_lost) == (10, 0, 6)


@pytest.mark.parametrize(
    ("number", "near", "distance"),
    [
        (5, 5, 0),
        (6, 5, 1),
        (4, 5, -1),
        (0, WRAP - 1, 1),
        (WRAP - 1, 0, -1),
        (3, WRAP - 4, 7),
        # 1 GiB back is the furthest; one more is taken for 3 GiB forward, less one.
        (0, GIB, -GIB),
        (WRAP - GIB, 0, -GIB),
        (WRAP - GIB - 1, 0, 3 * GIB - 1),
        (0, GIB + 1, 3 * GIB - 1),
        (3 * GIB - 1, 0, 3 * GIB - 1),
    ],
)
def test_unwrap(number: int, near: int, distance: int) -> None:
    assert unwrap(number, near) == distance


def test_offsets_go_on_beyond_the_wrap() -> None:
    direction = HalfConnection()
    direction.open(WRAP - 3)  # offset 0 is sequence number 2^32 - 2
    offsets = [direction.offset_of(seq) for seq in (WRAP - 2, WRAP - 1, 0, 1)]
    assert offsets == [0, 1, 2, 3]
    assert run(direction, [(direction.offset_of(0), b"cd"), (direction.offset_of(WRAP - 2), b"ab")]) == [
        (0, b"ab"),
        (2, b"cd"),
    ]


def test_offsets_go_on_beyond_many_wraps() -> None:
    """Six gaps of almost 2 GiB pass 2^32 twice; the offset counts on while the sequence number starts again."""
    direction = HalfConnection()
    direction.open(99)
    step = 2 * GIB - 1
    for turn in range(1, 7):
        offset = direction.offset_of((100 + turn * step) % WRAP)
        assert offset == turn * step
        assert direction.feed(offset, 1, b"x", turn, 0, None) == []
        direction.flush()
    assert direction.bytes_lost == 6 * step - 5  # one byte after each of them but the last is there


def test_without_a_syn_the_first_byte_seen_is_offset_0() -> None:
    direction = HalfConnection()
    assert direction.offset_of(WRAP - 1) == 0
    assert direction.offset_of(5) == 6
    assert direction.offset_of(WRAP - 2) == -1


def test_a_syn_belongs_or_does_not() -> None:
    fresh = HalfConnection()
    assert fresh.opened_by(7, 0)
    fresh.open(WRAP - 1)
    assert fresh.base == 0
    assert fresh.opened_by(WRAP - 1, 0)
    assert not fresh.opened_by(0, 0)
    late = HalfConnection()
    late.offset_of(8)  # data before its SYN
    assert late.opened_by(7, 0)
    assert not late.opened_by(8, 0)


def test_acknowledgements_unwrap() -> None:
    """An acknowledgement is an offset of the other direction, however often its number wraps, and may step back."""
    one, other = HalfConnection(), HalfConnection()
    other.open(WRAP - 11)
    assert one.acknowledge(WRAP - 10, other) == 0
    assert one.acknowledge(WRAP - 1, other) == 9
    assert one.acknowledge(5, other) == 15
    assert one.acknowledge(WRAP - 1, other) == 9  # an older packet came late
    assert one.acknowledge(0, other) == 10
    position = 10
    for _ in range(5):
        position += 2 * GIB - 1
        assert one.acknowledge((WRAP - 10 + position) % WRAP, other) == position


def test_an_acknowledgement_never_lies_before_offset_0() -> None:
    one, other = HalfConnection(), HalfConnection()
    assert one.acknowledge(1000, other) == 0  # nothing seen of the other direction: this is its offset 0
    assert other.offset_of(1000) == 0
    assert one.acknowledge(900, other) == 0
    assert one.acknowledge(1010, other) == 10


# -------------------------------------------------------------------------------------------------------- properties

Cut = tuple[int, int, int, int]  # start, length on the wire, bytes captured, what its bytes are changed by


@st.composite
def cuts(draw: st.DrawFn, *, snap: bool, flips: bool, holes: bool) -> tuple[bytes, list[Cut]]:
    """Draw a byte string and segments of it in any order, overlapping and repeated; all of it unless ``holes``."""
    text = bytes(draw(st.lists(st.integers(0, 255), min_size=1, max_size=60)))
    borders = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=8))})
    spans = list(pairwise(borders))
    if holes:
        kept = draw(st.lists(st.booleans(), min_size=len(spans), max_size=len(spans)))
        spans = [span for span, keep in zip(spans, kept, strict=True) if keep]
    extra = draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, 20)), max_size=8 if not holes else 2))
    spans += [(start, min(start + length, len(text))) for start, length in extra]
    out: list[Cut] = []
    for start, end in draw(st.permutations(spans)):
        captured = draw(st.integers(0, end - start)) if snap else end - start
        out.append((start, end - start, captured, draw(st.sampled_from([0, 0, 0xFF])) if flips else 0))
    return text, out


def oracle(text: bytes, segments: list[Cut]) -> dict[int, int | None]:
    """First copies, byte by byte: None where the first segment that held the place had been cut before it."""
    copies: dict[int, int | None] = {}
    for start, length, captured, flip in segments:
        for index in range(length):
            copies.setdefault(start + index, text[start + index] ^ flip if index < captured else None)
    return copies


def check(text: bytes, segments: list[Cut], first_seq: int) -> None:
    """Feed segments by sequence number; compare every byte and every gap with the oracle."""
    direction = HalfConnection()
    direction.open((first_seq - 1) % WRAP)
    events: list[Chunk | Gap] = []
    for number, (start, length, captured, flip) in enumerate(segments):
        data = bytes(byte ^ flip for byte in text[start : start + captured])
        offset = direction.offset_of((first_seq + start) % WRAP)
        assert offset == start
        events += direction.feed(offset, length, data, number, number, None)
    events += direction.flush()
    copies = oracle(text, segments)
    found: dict[int, int | None] = {}
    position = 0
    for event in events:
        assert event.offset == position  # each byte or gap once, in order
        values = [None] * event.length if isinstance(event, Gap) else list(event.data)
        assert values
        found.update(enumerate(values, position))
        position += len(values)
    end = max(copies, default=-1) + 1
    assert found == {offset: copies.get(offset) for offset in range(end)}
    assert direction.held_cost == 0
    assert direction.bytes_repeated == sum(length for _, length, _, _ in segments) - len(copies)


@given(cuts(snap=False, flips=False, holes=False), st.sampled_from([0, 1000, WRAP - 1, WRAP - 30]))
def test_segments_that_cover_a_string_deliver_it(drawn: tuple[bytes, list[Cut]], first_seq: int) -> None:
    text, segments = drawn
    assert oracle(text, segments) == dict(enumerate(text))
    check(text, segments, first_seq)


@given(cuts(snap=False, flips=True, holes=True), st.sampled_from([0, WRAP - 20]))
def test_first_copies_win_and_holes_are_gaps(drawn: tuple[bytes, list[Cut]], first_seq: int) -> None:
    check(*drawn, first_seq)


@given(cuts(snap=True, flips=True, holes=True), st.sampled_from([0, WRAP - 20]))
def test_snap_lengths_are_gaps(drawn: tuple[bytes, list[Cut]], first_seq: int) -> None:
    check(*drawn, first_seq)
