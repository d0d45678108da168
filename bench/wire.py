"""Packets: TCP segments of many connections to a pcap file, fast, out of columns.

Knows Ethernet, IPv4, TCP and pcap; must not know what the segments carry. TCP checksums stay zero, as in captures taken
where the network card computes them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt
from truth import SERVER_PORT

MSS = 1448
FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
CLIENT, SERVER = 0, 1

START_US = 1_700_000_000_000_000
PACKET_US = 2
DISTURB_EVERY = 4000  #: packets from one retransmission and one reordering to the next ones
_FIRST_DISTURBANCE = 300  #: early, so that small captures have them too
_REPEAT_LATER = 5  #: packets between a segment and its retransmission
_LONGEST_RUN = 12  #: packets of one connection in a row
_CLIENTS_PER_ADDRESS = 20_000
_FIRST_PORT = 40_000

Numbers = npt.NDArray[np.int64]

_PACKET = np.dtype(
    [
        ("seconds", "<u4"),
        ("microseconds", "<u4"),
        ("captured", "<u4"),
        ("length", "<u4"),
        ("destination_mac", ">u2", 3),
        ("source_mac", ">u2", 3),
        ("ethertype", ">u2"),
        ("version", ">u2"),
        ("total_length", ">u2"),
        ("identification", ">u2"),
        ("fragment", ">u2"),
        ("time_to_live", "u1"),
        ("protocol", "u1"),
        ("ip_checksum", ">u2"),
        ("source", ">u4"),
        ("destination", ">u4"),
        ("source_port", ">u2"),
        ("destination_port", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("data_offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("tcp_checksum", ">u2"),
        ("urgent", ">u2"),
        ("options", ">u4"),
        ("timestamp", ">u4"),
        ("timestamp_echo", ">u4"),
    ]
)
_RECORD_BYTES, _ETHERNET_BYTES, _IP_BYTES, _TCP_BYTES = 16, 14, 20, 32
_TIMESTAMP_OPTION = 0x0101080A  # two NOPs, kind 8, length 10
_SERVER_ADDRESS = 0x0A000001
_SERVER_MAC, _CLIENT_MAC = (0x0200, 0, 1), (0x0200, 0, 2)
_PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)


@dataclass(slots=True, eq=False)
class Endpoints:
    """A connection as TCP sees it."""

    index: int
    next_seq: list[int]  #: of the client and of the server; they wrap in the packet only
    segments: int = 0  #: sent by the server

    @property
    def address(self) -> int:
        """Return the client's IPv4 address."""
        return 0x0A000101 + self.index // _CLIENTS_PER_ADDRESS

    @property
    def port(self) -> int:
        """Return the client's port."""
        return _FIRST_PORT + self.index % _CLIENTS_PER_ADDRESS

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.address.to_bytes(4, 'big')))}:{self.port}"


#: A packet that was sent and is not yet written: flow (twice the connection's index, plus the sender's side), seq, ack,
#: flags, payload. A plain tuple, as there are millions.
_Packet = tuple[int, int, int, int, bytes]


class Wire:
    """Takes segments connection by connection, and writes them as they would pass a network card."""

    def __init__(
        self, stream: IO[bytes], connections: list[Endpoints], random: np.random.Generator, *, clean: bool
    ) -> None:
        self.packets = 0
        self.retransmitted = 0
        self.reordered = 0
        self._stream = stream
        self._random = random
        self._until_disturbance = None if clean else _FIRST_DISTURBANCE
        self._pending: list[_Packet] = []
        self._templates = _templates(connections)
        self._checksums = _constant_sums(self._templates)
        stream.write(_PCAP_HEADER)

    def packet(self, connection: Endpoints, side: int, flags: int) -> None:
        """Send a packet without data."""
        numbers = connection.next_seq
        ack = numbers[1 - side] if flags & ACK else 0
        self._pending.append((2 * connection.index + side, numbers[side], ack, flags, b""))
        numbers[side] += flags & (SYN | FIN) != 0

    def data(self, connection: Endpoints, side: int, data: bytes) -> None:
        """Send data in as many segments as it takes; the client acknowledges every second one."""
        append, index = self._pending.append, 2 * connection.index
        seq, ack, segments = connection.next_seq[side], connection.next_seq[1 - side], connection.segments
        for start in range(0, len(data), MSS):
            payload = data[start : start + MSS]
            append((index + side, seq, ack, ACK if len(payload) == MSS else PSH | ACK, payload))
            seq += len(payload)
            if side == SERVER:
                segments += 1
                if not segments & 1:
                    append((index + CLIENT, ack, seq, ACK, b""))
        connection.next_seq[side], connection.segments = seq, segments

    def flush(self, *, interleave: bool = False) -> None:
        """Write what was sent; interleaved, the connections (sent one after the other) take turns."""
        if not self._pending:
            return
        *columns, payload = zip(*self._pending, strict=True)
        flow, seq, ack, flags = map(np.array, columns)
        self._pending = []
        order = self._interleaved(flow) if interleave else np.arange(len(flow))
        lengths = np.fromiter(map(len, payload), np.int64, len(flow))
        if interleave and self._until_disturbance is not None:
            self._until_disturbance -= len(order)
            while self._until_disturbance <= 0:
                self._until_disturbance += DISTURB_EVERY
                order = self._disturbed(order, flow, lengths)
        heads = self._heads(flow[order], lengths[order])
        heads["seq"] = seq[order] & 0xFFFFFFFF
        heads["ack"] = ack[order] & 0xFFFFFFFF
        heads["flags"] = flags[order]
        raw, size = heads.tobytes(), _PACKET.itemsize
        parts = [b""] * (2 * len(order))
        parts[0::2] = [raw[start : start + size] for start in range(0, len(raw), size)]
        parts[1::2] = [payload[index] for index in order.tolist()]
        self._stream.write(b"".join(parts))
        self.packets += len(order)

    def _interleaved(self, flow: Numbers) -> Numbers:
        """Let connections take turns in runs of packets, spread over the whole round."""
        connection = flow >> 1
        starts = np.flatnonzero(np.diff(connection, prepend=-1))
        counts = np.diff(starts, append=len(flow))
        runs = self._random.integers(1, _LONGEST_RUN + 1, len(starts))
        phases = self._random.random(len(starts))
        turn = (np.arange(len(flow)) - np.repeat(starts, counts)) // np.repeat(runs, counts)
        moment = (turn + np.repeat(phases, counts)) / np.repeat(-(-counts // runs), counts)
        return np.argsort(moment, kind="stable")

    def _disturbed(self, order: Numbers, flow: Numbers, lengths: Numbers) -> Numbers:
        """Send one segment twice, and another one behind the one that follows it, as lossy networks do."""
        data = np.flatnonzero((flow & 1 == SERVER) & (lengths > 0))
        # No acknowledgement stands between the two: nobody acknowledges what has not arrived.
        pairs = data[:-1][(np.diff(data) == 1) & (flow[data[:-1]] == flow[data[1:]])]
        if len(pairs):
            first = int(self._random.choice(pairs))
            places = np.flatnonzero((order == first) | (order == first + 1))
            order[places] = order[places[::-1]]
            self.reordered += 1
        if len(data):
            again = int(self._random.choice(data))
            place = int(np.flatnonzero(order == again)[0])
            order = np.insert(order, min(place + _REPEAT_LATER, len(order)), again)
            self.retransmitted += 1
        return order

    def _heads(self, flow: Numbers, lengths: Numbers) -> npt.NDArray[np.void]:
        heads = self._templates[flow]
        number = self.packets + np.arange(len(flow))
        clock = START_US + PACKET_US * number
        heads["seconds"] = clock // 1_000_000
        heads["microseconds"] = clock % 1_000_000
        heads["captured"] = heads["length"] = lengths + (_PACKET.itemsize - _RECORD_BYTES)
        total = lengths + (_IP_BYTES + _TCP_BYTES)
        identification = number & 0xFFFF
        heads["total_length"] = total
        heads["identification"] = identification
        words = self._checksums[flow] + total + identification
        words = (words & 0xFFFF) + (words >> 16)
        heads["ip_checksum"] = ~((words & 0xFFFF) + (words >> 16)) & 0xFFFF
        heads["timestamp"] = heads["timestamp_echo"] = clock // 1000 & 0xFFFFFFFF
        return heads


def _templates(connections: list[Endpoints]) -> npt.NDArray[np.void]:
    """Return the headers of both directions of each connection, with everything that never changes."""
    heads = np.zeros(2 * len(connections), _PACKET)
    heads["ethertype"], heads["version"], heads["fragment"] = 0x0800, 0x4500, 0x4000
    heads["time_to_live"], heads["protocol"] = 64, 6
    heads["data_offset"], heads["window"], heads["options"] = _TCP_BYTES // 4 << 4, 0xFFFF, _TIMESTAMP_OPTION
    addresses = [connection.address for connection in connections]
    ports = [connection.port for connection in connections]
    for side, near, far in ((CLIENT, "source", "destination"), (SERVER, "destination", "source")):
        heads[f"{near}_mac"][side::2], heads[f"{far}_mac"][side::2] = _CLIENT_MAC, _SERVER_MAC
        heads[near][side::2], heads[far][side::2] = addresses, _SERVER_ADDRESS
        heads[f"{near}_port"][side::2], heads[f"{far}_port"][side::2] = ports, SERVER_PORT
    return heads


def _constant_sums(templates: npt.NDArray[np.void]) -> Numbers:
    """Add up the words of the IP headers, for their checksums."""
    rows = templates.view(np.uint8).reshape(len(templates), _PACKET.itemsize)
    start = _RECORD_BYTES + _ETHERNET_BYTES
    words = np.ascontiguousarray(rows[:, start : start + _IP_BYTES]).view(">u2")
    sums: Numbers = words.sum(axis=1, dtype=np.int64)
    return sums
