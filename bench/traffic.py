"""Large synthetic DCP captures, fast: what a producer with busy vbuckets sends to its consumers.

Deterministic by seed, bounded in memory. It holds its frames against the project's encoder before it starts; the rest
of the project has no part in it, so that what it says of a capture is evidence.

    python bench/traffic.py capture.pcap --frames 1000000 --connections 8
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import messages
import numpy as np
import wire
from messages import (
    BUFFER_ACK,
    CONTROL,
    FIRST_CAS,
    MUTATION_HEAD_BYTES,
    OPEN,
    SNAPSHOT_MARKER,
    STREAM_REQUEST,
    buffer_ack,
    control_request,
    empty_response,
    mutation_heads,
    open_request,
    self_check,
    snapshot_marker,
    stream_request,
    stream_response,
)
from truth import MUTATION, Tally, Truth, load, truth_path
from wire import ACK, CLIENT, FIN, MSS, SERVER, SYN, Endpoints, Wire

from dissector.spec import registry

#: What is made at a time bounds the memory: so many frames, or so many per connection if that is more.
_ROUND_FRAMES, _ROUND_SHARE = 4096, 16
_ROUNDS = 8  #: at least, in small captures too
_LONGEST_RUN = 60  #: frames of one vbucket in a row
_VALUE_BYTES = 20, 2000  #: log-uniform between these
_POOL_BYTES = 1 << 16
_SNAPSHOT = 50, 150  #: mutations
_BUFFER_BYTES = 10 << 20
_ACK_BYTES = 100 << 10
_LARGEST_FRAME = 4096  #: never acknowledged before it is whole
_WRAPPING_SEQ = 0xFFFF_0000  #: the first connection's server starts 64 KiB before its numbers wrap
_HELD_BACK = 0.9  #: how often a burst ends with a full segment, and the rest waits for the next one


@dataclass(slots=True, eq=False)
class _Stream:
    """A vbucket's stream on its connection."""

    vbucket: int
    opaque: int
    high_seqno: int = 0
    snapshot_end: int = 0


@dataclass(slots=True, eq=False)
class _Consumer(Endpoints):
    """A connection, with the streams on it."""

    streams: list[_Stream] = field(default_factory=list)
    tail: bytes = b""  #: made, and not yet sent
    unacknowledged: int = 0  #: bytes that the consumer has not given back
    frames: int = 0


def set_up_frames(consumer: _Consumer) -> int:
    """Return how many frames come before the first change: open, control, stream requests, and their answers."""
    return 2 * (2 + len(consumer.streams))


class _Run(NamedTuple):
    """Mutations in a row on one stream, and the marker in front of them."""

    consumer: _Consumer
    stream: _Stream
    first_seqno: int
    mutations: int
    marker: bytes


class _Maker:
    """Makes the frames of one capture, a round at a time."""

    def __init__(self, frames: int, consumers: list[_Consumer], line: Wire, chance: random.Random) -> None:
        self.left = frames  #: yet to be made
        self.tally = Tally()
        self._round_frames = min(max(_ROUND_FRAMES, _ROUND_SHARE * len(consumers)), -(-frames // _ROUNDS))
        self._consumers = consumers
        self._line = line
        self._chance = chance
        self._bulk = np.random.default_rng(chance.getrandbits(64))
        self._pool = "".join(chance.choices('abcdefghij0123456789 "{}:,', k=_POOL_BYTES)).encode()

    def set_up(self, consumer: _Consumer) -> None:
        """Connect, open and ask for every stream."""
        line = self._line
        for side, flags in ((CLIENT, SYN), (SERVER, SYN | ACK), (CLIENT, ACK)):
            line.packet(consumer, side, flags)
        size = b"%d" % _BUFFER_BYTES
        for opcode, request in (
            (OPEN, open_request(b"eq_dcpq:bench-%d" % consumer.index, 1)),
            (CONTROL, control_request(b"connection_buffer_size", size, 2)),
        ):
            line.data(consumer, CLIENT, request)
            line.data(consumer, SERVER, empty_response(opcode, 1 if opcode == OPEN else 2))
            self._count(consumer, opcode, 2)
        requests, responses = [], []
        for stream in consumer.streams:
            log = [(self._chance.getrandbits(64), 0) for _ in range(1 + stream.vbucket % 3)]
            requests.append(stream_request(stream.vbucket, stream.opaque, log[0][0]))
            responses.append(stream_response(stream.opaque, log))
        line.data(consumer, CLIENT, b"".join(requests))
        line.data(consumer, SERVER, b"".join(responses))
        self._count(consumer, STREAM_REQUEST, 2 * len(consumer.streams))
        self.left -= set_up_frames(consumer)

    def round(self) -> None:
        """Make a few thousand frames and send most of their bytes."""
        budget = min(self._round_frames, self.left)
        self.left -= budget
        runs = self._plan(budget)
        parts = self._mutations(runs)
        done = 0
        for consumer, group in itertools.groupby(runs, lambda run: run.consumer):
            pieces = [consumer.tail]
            for run in group:
                if run.marker:
                    pieces.append(run.marker)
                    self._count(consumer, SNAPSHOT_MARKER, 1)
                pieces += parts[3 * done : 3 * (done + run.mutations)]
                done += run.mutations
                self._count(consumer, MUTATION, run.mutations)
            data = b"".join(pieces)
            cut = len(data) - (len(data) % MSS if self._chance.random() < _HELD_BACK else 0)
            consumer.tail = data[cut:]
            self._deliver(consumer, data, cut)
        self._line.flush(interleave=True)

    def finish(self, consumer: _Consumer) -> None:
        """Send what is left and close the connection."""
        self._line.data(consumer, SERVER, consumer.tail)
        for side, flags in ((CLIENT, FIN | ACK), (SERVER, FIN | ACK), (CLIENT, ACK)):
            self._line.packet(consumer, side, flags)

    def _count(self, consumer: _Consumer, opcode: int, count: int) -> None:
        self.tally.by_opcode[opcode] += count
        consumer.frames += count

    def _plan(self, budget: int) -> list[_Run]:
        """Share the frames of a round out to connections and vbuckets."""
        runs: list[_Run] = []
        chance = self._chance.random
        share, rest = divmod(budget, len(self._consumers))
        for consumer in self._consumers:
            left = share + (consumer.index < rest)
            while left:
                stream = consumer.streams[int(chance() * len(consumer.streams))]
                length = min(left, 1 + int(chance() * _LONGEST_RUN))
                left -= length
                while length:
                    marker = b""
                    if stream.high_seqno == stream.snapshot_end:
                        stream.snapshot_end += self._chance.randint(*_SNAPSHOT)
                        # The first one starts where the request did, at 0.
                        first = stream.high_seqno + 1 if stream.high_seqno else 0
                        marker = snapshot_marker(stream.vbucket, stream.opaque, first, stream.snapshot_end)
                        length -= 1
                    count = min(length, stream.snapshot_end - stream.high_seqno)
                    runs.append(_Run(consumer, stream, stream.high_seqno + 1, count, marker))
                    stream.high_seqno += count
                    length -= count
        return runs

    def _mutations(self, runs: list[_Run]) -> list[bytes]:
        """Make the mutations of a round: head, key and value of each in turn."""
        counts = np.array([run.mutations for run in runs])
        total = int(counts.sum())
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        seqno = np.repeat(np.array([run.first_seqno for run in runs]), counts) + within
        vbucket = np.repeat(np.array([run.stream.vbucket for run in runs]), counts)
        opaque = np.repeat(np.array([run.stream.opaque for run in runs]), counts)
        low, high = _VALUE_BYTES
        sizes = (low * (high / low) ** self._bulk.random(total)).astype(np.int64)
        starts = self._bulk.integers(0, _POOL_BYTES - high, total)
        seqnos, vbuckets = seqno.tolist(), vbucket.tolist()
        keys = [b"doc::%d::%d" % pair for pair in zip(vbuckets, seqnos, strict=True)]
        cas = FIRST_CAS + self.tally.by_opcode[MUTATION] + np.arange(total)
        heads = mutation_heads(vbucket, opaque, seqno, np.fromiter(map(len, keys), np.int64, total), sizes, cas)
        raw, size, pool = heads.tobytes(), MUTATION_HEAD_BYTES, self._pool
        parts = [b""] * (3 * total)
        parts[0::3] = [raw[start : start + size] for start in range(0, len(raw), size)]
        parts[1::3] = keys
        spans = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
        parts[2::3] = [pool[start:end] for start, end in spans]
        self.tally.add(keys, seqnos, vbuckets)
        return parts

    def _deliver(self, consumer: _Consumer, data: bytes, end: int) -> None:
        """Send a producer's bytes; the consumer gives them back now and then."""
        start = 0
        while start < end:
            due = _ACK_BYTES + _LARGEST_FRAME - consumer.unacknowledged
            piece = data[start : min(start + -(-due // MSS) * MSS, end)] if self.left else data[start:end]
            self._line.data(consumer, SERVER, piece)
            consumer.unacknowledged += len(piece)
            start += len(piece)
            if len(piece) >= due and self.left:
                self.left -= 1
                consumer.unacknowledged -= _ACK_BYTES
                self._line.data(consumer, CLIENT, buffer_ack(_ACK_BYTES))
                self._count(consumer, BUFFER_ACK, 1)


def parameters(frames: int, connections: int, seed: int, vbuckets: int | None, clean: bool) -> dict[str, object]:
    """Return what makes a capture what it is, this program's own text included."""
    source = b"".join(Path(name).read_bytes() for name in (__file__, messages.__file__, wire.__file__))
    return {
        "frames": frames,
        "connections": connections,
        "seed": seed,
        # Small captures have fewer vbuckets, so that the mix of frames is the same.
        "vbuckets": vbuckets or min(registry.DEFAULT_VBUCKETS, max(connections, frames // 100)),
        "clean": clean,
        "generator": hashlib.blake2b(source, digest_size=8).hexdigest(),
    }


def make_capture(
    path: Path,
    frames: int,
    connections: int = 8,
    seed: int = 1,
    *,
    vbuckets: int | None = None,
    clean: bool = False,
) -> Truth:
    """Write a capture of exactly so many frames and its truth; return the truth. One that is there already is kept."""
    wanted = parameters(frames, connections, seed, vbuckets, clean)
    found = load(path)
    if found is not None and found["parameters"] == wanted:
        return found
    self_check()
    chance = random.Random(seed)
    consumers = _consumers(connections, int(str(wanted["vbuckets"])), chance)
    needed = sum(map(set_up_frames, consumers))
    if frames < needed:
        raise ValueError(f"{frames} frames do not suffice: setting up {connections} connections takes {needed}")
    partial = path.with_suffix(".partial")
    truth_path(path).unlink(missing_ok=True)
    with partial.open("wb", buffering=1 << 22) as stream:
        bulk = np.random.default_rng(seed)
        line = Wire(stream, [*consumers], bulk, clean=clean)
        maker = _Maker(frames, consumers, line, chance)
        for consumer in consumers:
            maker.set_up(consumer)
        line.flush()
        while maker.left:
            maker.round()
        for consumer in consumers:
            maker.finish(consumer)
        line.flush()
    maker.tally.by_connection.update({str(consumer): consumer.frames for consumer in consumers})
    truth: Truth = {
        "parameters": wanted,
        "bytes": partial.stat().st_size,
        "packets": line.packets,
        "retransmitted": line.retransmitted,
        "reordered": line.reordered,
        **maker.tally.truth(),
    }
    partial.replace(path)
    truth_path(path).write_text(json.dumps(truth, indent=1) + "\n")
    return truth


def _consumers(connections: int, vbuckets: int, chance: random.Random) -> list[_Consumer]:
    """Deal the vbuckets out; with more connections than vbuckets, some are read more than once."""
    consumers = []
    for index in range(connections):
        server_seq = chance.getrandbits(32) if index else _WRAPPING_SEQ
        mine = range(index % vbuckets, vbuckets, connections)
        streams = [_Stream(vbucket, 0x1000 + vbucket) for vbucket in mine]
        consumers.append(_Consumer(index, [chance.getrandbits(32), server_seq], streams=streams))
    return consumers


def main() -> None:
    """Make one capture from the command line."""
    parser = argparse.ArgumentParser(description="Make a synthetic DCP capture, and FILE.truth.json beside it.")
    parser.add_argument("capture", type=Path)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--vbuckets", type=int, help="default: 1,024, fewer in small captures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clean", action="store_true", help="no retransmissions, no reordering")
    args = parser.parse_args()
    began = time.perf_counter()
    try:
        truth = make_capture(
            args.capture, args.frames, args.connections, args.seed, vbuckets=args.vbuckets, clean=args.clean
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    seconds = time.perf_counter() - began
    print(
        f"{args.capture}: {truth['frames']:,} frames, {truth['packets']:,} packets, {truth['bytes'] / 1e6:,.1f} MB, "
        f"{truth['frames'] / seconds / 1000:,.0f} kframes/s"
    )


if __name__ == "__main__":
    main()
