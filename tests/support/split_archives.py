"""Archives made at random, and the single-process way through everything that Spark's tasks do.

Captures are packed with ``struct`` in the open. :func:`decoded_in_splits` goes from files to frames as
``analysis.spark.split`` does, and :func:`decoded_in_parts` as its fallback does (plan, segment rows, sorting,
partitions), in this process; :func:`decoded_at_once` is what they must equal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from analysis.spark.read_options import SourceOptions
from analysis.spark.split.conversations import ORDERED_SCHEMA
from analysis.spark.split.decode_split import fallback_rows, frames_of_split, split_records
from analysis.spark.split.frame_numbers import number_frames, numbered_frames
from analysis.spark.split.plan import Plan, make_plan
from analysis.spark.split.prescan import prescan
from analysis.spark.split.records import CHECKPOINTS, NOTES, NOTES_ORDER, RecordKind
from analysis.spark.split.segment_rows import SEGMENTS, SEGMENTS_ORDER, rows_of_part
from analysis.spark.split.shuffled import PartitionDecoder
from analysis.spark.split.stitch import Stitcher
from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions
from tests.support.tcp_by_hand import (
    CLIENT,
    SERVER,
    Conversation,
    Ends,
    Wire,
    counted,
    duplicate,
    ethernet,
    marker,
    move,
    mutation,
    noop,
    request,
    snap,
    stream_answer,
    time_of,
)


@dataclass(frozen=True)
class Packet:
    """A packet as a capture holds it."""

    data: bytes
    original: int
    time_ns: int


# ------------------------------------------------------------------------------------------------------------ captures


def pcap_file(packets: Sequence[Packet], order: str = "<", *, nanoseconds: bool = True) -> bytes:
    """Write a pcap file."""
    magic, unit = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    out = bytearray(struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262_144, 1))
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, 10**9)
        out += struct.pack(f"{order}IIII", seconds, rest // unit, len(packet.data), packet.original) + packet.data
    return bytes(out)


def block(order: str, kind: int, body: bytes) -> bytes:
    """Frame a pcapng block."""
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def section(order: str = "<", interfaces: int = 1) -> bytes:
    """Begin a pcapng section whose interfaces count nanoseconds."""
    head = block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    return head + interface(order) * interfaces


def interface(order: str = "<") -> bytes:
    """Describe an Ethernet interface."""
    resolution = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    return block(order, 1, struct.pack(f"{order}HHI", 1, 0, 0) + resolution)


def packet_block(packet: Packet, order: str = "<", number: int = 0) -> bytes:
    """Put a packet into an enhanced packet block."""
    high, low = divmod(packet.time_ns, 1 << 32)
    head = struct.pack(f"{order}IIIII", number, high, low, len(packet.data), packet.original)
    return block(order, 6, head + packet.data)


def pcapng_file(packets: Sequence[Packet], order: str = "<", interfaces: int = 1) -> bytes:
    """Write a pcapng file, with a block that no reader needs after every seventh packet."""
    out = bytearray(section(order, interfaces))
    for index, packet in enumerate(packets):
        out += packet_block(packet, order, index % interfaces)
        if index % 7 == 6:
            out += block(order, 5, bytes(12))
    return bytes(out)


def pcapng_with_late_interface(packets: Sequence[Packet]) -> bytes:
    """Write a pcapng file whose second interface is described half way."""
    half = len(packets) // 2
    first, second = packets[:half], packets[half:]
    return (
        section()
        + b"".join(map(packet_block, first))
        + interface()
        + b"".join(packet_block(packet, number=1) for packet in second)
    )


def pcapng_of_two_sections(packets: Sequence[Packet]) -> bytes:
    """Write two sections of different byte order into one file."""
    half = len(packets) // 2
    return pcapng_file(packets[:half]) + pcapng_file(packets[half:], ">", 2)


def pcapng_without_times(packets: Sequence[Packet]) -> bytes:
    """Write a pcapng file in which every third packet is in a simple packet block."""
    out = bytearray(section())
    for index, packet in enumerate(packets):
        simple = index % 3 == 2 and packet.original == len(packet.data)
        out += block("<", 3, struct.pack("<I", packet.original) + packet.data) if simple else packet_block(packet)
    return bytes(out)


WRITERS: dict[str, Callable[[Sequence[Packet]], bytes]] = {
    "pcap": pcap_file,
    "big-endian pcap": lambda packets: pcap_file(packets, ">"),
    "pcap of microseconds": lambda packets: pcap_file(packets, nanoseconds=False),
    "pcapng": pcapng_file,
    "big-endian pcapng": lambda packets: pcapng_file(packets, ">", 2),
    "late interface": pcapng_with_late_interface,
    "two sections": pcapng_of_two_sections,
    "no times": pcapng_without_times,
}


def packed(wires: Sequence[Wire], first: int = 0) -> list[Packet]:
    """Put segments into packets, one after the other in time."""
    return [
        Packet(ethernet(wire)[: len(ethernet(wire)) - wire.cut], len(ethernet(wire)), time_of(first + index))
        for index, wire in enumerate(wires)
    ]


def fragmented(packet: Packet, size: int, number: int) -> list[Packet]:
    """Cut an IPv4 packet into fragments of so many bytes, a multiple of 8."""
    head, payload = packet.data[:34], packet.data[34:]
    splits = []
    for at in range(0, len(payload), size):
        data = payload[at : at + size]
        more = 0x2000 if at + size < len(payload) else 0
        ip = head[14:16] + struct.pack(">HHH", 20 + len(data), number, more | at // 8) + head[22:24] + bytes(2)
        splits.append(Packet(head[:14] + ip + head[26:] + data, 34 + len(data), packet.time_ns))
    return splits


# ------------------------------------------------------------------------------------------------------ random archives


@st.composite
def conversations(draw: st.DrawFn, port: int) -> list[Wire]:
    """A conversation of two ends, whole or from the middle on, with impairments."""
    ends = Ends(
        addresses=draw(st.sampled_from([("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])),
        ports=(port, draw(st.sampled_from([11_210, 9_999]))),
        isns=(draw(st.sampled_from([1_000, 2**32 - 700])), 5_000_000),
    )
    conversation = Conversation(ends)
    if draw(st.booleans()):
        conversation.open()
    mss = draw(st.sampled_from([60, 300, 1448]))
    conversation.send(CLIENT, request(0x50, struct.pack(">II", 0, 1), b"name", opaque=1), mss=mss)
    conversation.send(SERVER, stream_answer(7), mss=mss)
    seqno = 1
    for _ in range(draw(st.integers(1, 6))):
        count = draw(st.integers(1, 6))
        messages = [marker(3, 7, seqno, seqno + count)]
        for _ in range(count):
            value = draw(st.sampled_from([b"", b"v" * 40, _LOOKALIKE, bytes(range(256)) * 3]))
            messages.append(mutation(3, 7, seqno, b"key%d" % seqno, value))
            seqno += 1
        conversation.send(SERVER, *messages, mss=mss)
        if draw(st.booleans()):
            conversation.send(
                CLIENT, counted(0x5D, struct.pack(">I", 400), opaque=9) if draw(st.booleans()) else noop(11)
            )
    if draw(st.booleans()):
        conversation.close(draw(st.sampled_from([CLIENT, SERVER])), draw(st.sampled_from([1, 4])))
    wires = list(conversation.packets)
    for _ in range(draw(st.integers(0, 3))):
        index, to = draw(st.integers(0, len(wires) - 1)), draw(st.integers(0, len(wires) - 1))
        trouble = draw(st.sampled_from(["drop", "move", "duplicate"]))
        if trouble == "drop":
            del wires[index]
        else:
            wires = (move if trouble == "move" else duplicate)(wires, index, to)
        if not wires:
            break
    if draw(st.integers(0, 5)) == 0:
        wires = snap(wires, 90)
    return wires


@st.composite
def archives(draw: st.DrawFn) -> list[bytes]:
    """Rotated captures of several conversations at once, some on ports that were used before."""
    remaining = [draw(conversations(40_000 + draw(st.integers(0, 2)))) for _ in range(draw(st.integers(1, 4)))]
    wires: list[Wire] = []
    while any(remaining):
        wires_left = draw(st.sampled_from([each for each in remaining if each]))
        count = draw(st.integers(1, 8))
        wires += wires_left[:count]
        del wires_left[:count]
    packets: list[Packet] = []
    broken_up = draw(st.integers(0, 3)) == 0
    for number, packet in enumerate(packed(wires)):
        whole = len(packet.data) == packet.original and packet.data[12:14] == b"\x08\x00"
        if broken_up and whole and len(packet.data) > 150 and draw(st.integers(0, 3)) == 0:
            packets += draw(st.permutations(fragmented(packet, draw(st.sampled_from([64, 136])), number)))
        else:
            packets.append(packet)
    cuts = sorted(draw(st.lists(st.integers(0, len(packets)), max_size=3)))
    files = [packets[a:b] for a, b in zip([0, *cuts], [*cuts, len(packets)], strict=True)]
    written = [WRITERS[draw(st.sampled_from(sorted(WRITERS)))](some) for some in files]
    if draw(st.integers(0, 3)) == 0:
        index = draw(st.integers(0, len(written) - 1))
        written[index] = _damaged(draw, written[index])
    return written


def _damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Cut a file's end off, or overwrite some of its bytes."""
    if len(data) < 300:
        return data
    if draw(st.booleans()):
        return data[: draw(st.integers(200, len(data)))]
    at = draw(st.integers(100, len(data) - 20))
    return data[:at] + bytes([draw(st.integers(0, 255))]) * 16 + data[at + 16 :]


# A payload full of what looks like records, to be taken for some.
_LOOKALIKE = b"".join(struct.pack("<IIII", 1_700_000_000, index, 24, 24) + b"x" * 24 for index in range(16))


# -------------------------------------------------------------------------------------------------------- both readings


def write(files: Sequence[bytes], folder: Path) -> list[str]:
    """Write captures under names that do not tell their order."""
    paths = []
    for index, data in enumerate(files):
        path = folder / f"{(index * 7 + 3) % 10}-{index}.cap"
        path.write_bytes(data)
        paths.append(str(path))
    return sorted(paths)


def decoded_at_once(paths: Sequence[str], reading: SourceOptions) -> pa.Table:
    """Read captures with the single-process reader."""
    return pa.Table.from_batches(FrameReader([Input.of(path) for path in paths], reading.options), SCHEMA)


def decoded_in_parts(
    paths: Sequence[str], reading: SourceOptions, *, partitions: int = 1, batch_rows: int = 1000
) -> tuple[pa.Table, Plan]:
    """Read captures as tasks would, one after the other; number the frames over the run."""
    plan = make_plan(paths, reading)
    rows = [
        batch for split in plan.splits for batch in rows_of_part(split.address, split.part, split.capture, partitions)
    ]
    table = (
        pa.Table.from_batches(rows, SEGMENTS).sort_by([(name, "ascending") for name in SEGMENTS_ORDER]).combine_chunks()
    )
    decoder = PartitionDecoder(plan.captures, partitions, reading.options)
    frames = pa.Table.from_batches(decoder.decode(table.to_batches(max_chunksize=batch_rows)), ORDERED_SCHEMA)
    return in_order(frames), plan


@dataclass(frozen=True)
class Stitched:
    """What reading in splits gave, and which conversations fell back."""

    frames: pa.Table
    plan: Plan
    fallback: set[bytes]
    """Conversations that could not be stitched."""
    notes: pa.Table
    checkpoints: pa.Table
    segments: pa.Table
    numbered: pa.Table | None
    """All frames with the numbers that each split by itself gives them; None: some conversations fell back."""

    @property
    def shuffled_bytes(self) -> int:
        """Return the bytes that go from task to task."""
        return sum(each.nbytes for each in (self.notes, self.checkpoints, self.segments))


def decoded_in_splits(
    paths: Sequence[str], reading: SourceOptions, *, partitions: int = 1, batch_rows: int = 1000
) -> Stitched:
    """Read captures as tasks would: prescan, stitching, splits, and the shuffle of what can't be stitched."""
    plan, options = make_plan(paths, reading), reading.options
    prescanned = [
        batch for number, split in enumerate(plan.splits) for batch in prescan(number, split, options, partitions)
    ]
    notes = _sorted(pa.Table.from_batches(prescanned, NOTES), NOTES_ORDER)
    stitched = Stitcher(partitions, options).stitch(notes.to_batches(max_chunksize=batch_rows))
    checkpoints = _sorted(pa.Table.from_batches(stitched, CHECKPOINTS), ("split",))
    frames: list[pa.RecordBatch] = []
    rows: list[pa.RecordBatch] = []
    fallback: set[bytes] = set()
    numbers = []
    for records in split_records(checkpoints.to_batches(max_chunksize=batch_rows)):
        split = plan.splits[records.number]
        numbers.append(records.number)
        fallback |= records.fallback
        rows += fallback_rows(split, records, partitions)
        frames += frames_of_split(split, records, plan.captures, options)
    assert numbers == list(range(len(plan.splits)))
    segments = _sorted(pa.Table.from_batches(rows, SEGMENTS), SEGMENTS_ORDER)
    decoder = PartitionDecoder(plan.captures, partitions, options)
    frames += decoder.decode(segments.to_batches(max_chunksize=batch_rows))
    whole = pa.Table.from_batches(frames, ORDERED_SCHEMA)
    numbered = _numbered(plan, checkpoints, options)
    return Stitched(in_order(whole), plan, fallback, notes, checkpoints, segments, numbered)


def _numbered(plan: Plan, checkpoints: pa.Table, options: ReadOptions) -> pa.Table | None:
    """Decode every split by itself once more, with the numbers of the run."""
    rows = zip(*(checkpoints[name].to_pylist() for name in ("split", "kind", "body")), strict=True)
    if {RecordKind.FALLBACK, RecordKind.FRAGMENT} & set(checkpoints["kind"].to_pylist()):
        return None
    numbers = number_frames(len(plan.splits), rows)
    found = [
        batch
        for records in split_records(checkpoints.to_batches())
        for batch in numbered_frames(plan.splits[records.number], records, numbers, plan.captures, options)
    ]
    table = pa.Table.from_batches(found, SCHEMA).sort_by("frame")
    assert table["frame"].to_pylist() == list(range(1, numbers.frames + 1))
    return table


def _sorted(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in names]).combine_chunks()


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Compare all rows; say which one is the first that differs, as a comparison of all would take minutes to print."""
    for one, other in zip(found.to_pylist(), expected.to_pylist(), strict=False):
        assert one == other
    assert len(found) == len(expected)


def in_order(frames: pa.Table) -> pa.Table:
    """Put frames into the order of the run, number them, and drop what only orders them."""
    frames = frames.sort_by([("released", "ascending"), ("frame", "ascending")])
    numbers = pa.array(range(1, len(frames) + 1), pa.int64())
    return frames.drop(["released", "frame"]).add_column(0, SCHEMA.field("frame"), numbers)
