"""Flows put together: tails in front of segments, whatever their sizes and wherever the payloads lie."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from dissector.link.segment_block import SegmentBlock
from dissector.tcp.frame_table import SLACK_BYTES
from dissector.tcp.stream_buffer import assemble


def block_of(payloads: list[bytes], *, swapped: bool = False) -> SegmentBlock:
    """Make a block of these payloads, something else before each; swapped: the first lies last, as after fragments."""
    places: dict[int, int] = {}
    buffer = b""
    for index in [*range(1, len(payloads)), 0] if swapped else range(len(payloads)):
        buffer += b"header"
        places[index] = len(buffer)
        buffer += payloads[index]
    count = len(payloads)
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    zeros = np.zeros(count, np.int64)
    return SegmentBlock(
        capture=0,
        buffer=np.frombuffer(buffer + bytes(9), np.uint8),
        number=np.arange(1, count + 1),
        time_ns=zeros,
        keys=(b"",),
        flow=zeros.astype(np.int32),
        seq=zeros.astype(np.uint32),
        ack=zeros.astype(np.uint32),
        flags=zeros.astype(np.uint8),
        payload_offset=np.array([places[index] for index in range(count)], np.int64),
        payload_captured=sizes,
        payload_length=sizes,
    )


@pytest.mark.parametrize("seed", range(60))
def test_every_flow_has_its_tail_and_its_segments(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - sizes, not secrets
    counts = [rng.randrange(1, 5) for _ in range(rng.randrange(1, 6))]
    payloads = [rng.randbytes(rng.randrange(1, 12)) for _ in range(sum(counts))]
    tails = [bytearray(rng.randbytes(rng.choice((0, 1, 5, 200)))) for _ in counts]
    block = block_of(payloads, swapped=bool(seed % 2))
    chosen = list(range(len(payloads)))
    rng.shuffle(chosen)
    found = assemble(block, np.array(chosen, np.int64), np.array(counts, np.int64), tails)
    at = 0
    for flow, count in enumerate(counts):
        expected = bytes(tails[flow]) + b"".join(payloads[index] for index in chosen[at : at + count])
        assert bytes(found.stream[found.begins[flow] : found.ends[flow]]) == expected
        at += count
    # The parts: each ends where the next one begins, segments as long as they are, and a tail where a flow has one.
    sizes = [end - begin for begin, end in pairwise([0, *found.part_ends.tolist()])]
    kept = [size for size, is_segment in zip(sizes, found.is_segment, strict=True) if is_segment]
    assert kept == [len(payloads[index]) for index in chosen]
    assert np.count_nonzero(~found.is_segment) == sum(bool(tail) for tail in tails)
    assert set(found.ends.tolist()) <= set(found.part_ends.tolist())
    slack = bytes(found.stream[found.ends[-1] :])
    assert len(slack) >= SLACK_BYTES
    assert not any(slack)


def test_nothing_to_put_together() -> None:
    found = assemble(block_of([]), np.empty(0, np.int64), np.empty(0, np.int64), [])
    assert len(found.stream) >= SLACK_BYTES
    assert not len(found.part_ends)
