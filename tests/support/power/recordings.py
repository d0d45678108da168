"""Recordings of real servers as conversations: per connection all messages in the order they were captured, with
what their sender had received by then.

Only whole connections are taken: from the handshake on, without a missing byte, and with nothing but messages in both
directions. The truth files beside the recordings tell which connections are DCP and in whose roles.
"""

from __future__ import annotations

import bisect
import functools
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import dpkt

from tests.support.paths import CAPTURES, ROOT
from tests.support.power.drafts import drafts_of
from tests.support.power.messages import Message, parse
from tests.support.power.talks import Talk

#: The recordings of each server generation; the draft is made of those of 3.1.5.
#: Those that were cut, begun late or rewritten are left out.
RELEASES = {
    "315": (
        "01_basic.pcap",
        "02_flow_control.pcap",
        "03_noop.pcap",
        "05_multiplex_close_resume.pcapng",
        "06_replication_takeover.pcap",
        "09_feed_real_consumer.pcap",
        "12_any_cooked.pcap",
        "13_ipv6.pcapng",
    ),
    "upr": ("10_upr_early_dialect.pcap",),
    "412": ("11_ext_metadata.pcap",),
    "705": (
        "21_basic_xattr_snappy_v705.pcap",
        "22_novalue_v705.pcap",
        "23_sync_writes_v705.pcap",
        "24_expiry_opcode_v705.pcap",
        "25_stream_id_v705.pcap",
        "26_collections_v705.pcap",
        "27_replication_takeover_v705.pcap",
    ),
    "draft": (),
    "810": (
        "41_basic_v810m.pcap",
        "43_collections_flatbuffers_v810m.pcap",
        "44_stream_id_v810m.pcap",
        "47_cache_transfer_v810m.pcap",
    ),
}
#: Connections whose client broke rules, by the truth files: violations could not be told from those.
BROKEN = {
    "noop-silent",
    "noop-wrong-opaque",
    "feed-broken",
    "feed-broken-1",
    "feed-bad-failoverlog",
    "upr-48byte",
    "nonoop",
    "badauth",
    "both48",
    "dux-without-xattr",
    "sync-noname",
    "sync-noname2",
    "errors",
    "json-no-control",
    "json-no-hello",
    "sync-then-sid",
    "sid-cts",
}
LONGEST = 4000  #: messages; longer connections are left out


def recordings_folder() -> Path:
    """Where the recordings are: beside the checkout, else the copies that the project has."""
    chosen = os.environ.get("UPRSCOPE_SHARED")
    shared = (Path(chosen) if chosen else ROOT.parent / "shared") / "captures"
    return shared if shared.is_dir() else CAPTURES


@functools.cache
def talks(release: str) -> tuple[Talk, ...]:
    """All conversations of a server generation, the shortest first."""
    found: list[Talk] = []
    if release == "draft":
        found += drafts_of(talks("315"))
    for name in RELEASES[release]:
        path = recordings_folder() / name
        if path.exists():
            found += _talks_of(path)
    for each in found:
        each.remember()
    return tuple(sorted(found, key=lambda talk: (len(talk.messages), talk.name)))


def _truth(path: Path) -> dict[str, object]:
    plain = path.with_suffix("").with_suffix(".truth.json")
    if plain.exists():
        return json.loads(plain.read_text())  # type: ignore[no-any-return]
    return json.loads(gzip.decompress(plain.with_suffix(".json.gz").read_bytes()))  # type: ignore[no-any-return]


def _talks_of(path: Path) -> Iterator[Talk]:
    roles = {}
    for each in _truth(path)["connections"]:  # type: ignore[attr-defined]
        roles[int(each["client"].rpartition(":")[2]), int(each["server"].rpartition(":")[2])] = each
    for ports, packets in _connections(path).items():
        told = roles.get(ports)
        if told is None or told["role"] == "kv" or told["name"] in BROKEN:
            continue
        messages = _messages(packets)
        if messages and len(messages) <= LONGEST:
            talk = Talk(f"{path.stem.partition('.')[0]}/{told['name']}", messages)
            if talk.producer >= 0:
                yield talk


_Packet = tuple[float, int, int, int, int, bytes]  # time, side, sequence number, ack, flags, payload


def _connections(path: Path) -> dict[tuple[int, int], list[_Packet]]:
    """The packets of every connection, by the ports of its client and its server."""
    found: dict[tuple[int, int], list[_Packet]] = {}
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        reader = dpkt.pcapng.Reader(file) if start == b"\n\r\r\n" else dpkt.pcap.Reader(file)
        link = reader.datalink()
        for time, data in reader:
            segment = _segment(link, data)
            if segment is None:
                continue
            ends = segment.sport, segment.dport
            if segment.flags & 0x12 == 0x02:
                found[ends] = []  # a new connection; ports that were used before would start again
            side = 0 if ends in found else 1
            kept = found.get(ends if side == 0 else ends[::-1])
            if kept is not None:
                kept.append((float(time), side, segment.seq, segment.ack, segment.flags, bytes(segment.data)))
    return found


def _segment(link: int, data: bytes) -> dpkt.tcp.TCP | None:
    if link == 276:  # Linux cooked, second form: the protocol comes first
        packet = dpkt.ip.IP(data[20:]) if data[:2] == b"\x08\x00" else dpkt.ip6.IP6(data[20:])
    else:
        packet = dpkt.ethernet.Ethernet(data).data
    segment = getattr(packet, "data", None)
    return segment if isinstance(segment, dpkt.tcp.TCP) else None


def _messages(packets: list[_Packet]) -> list[Message]:
    """Rebuild both directions, cut them into messages, and order those as they were captured."""
    begin = [-1, -1]
    data = [bytearray(), bytearray()]
    arrived: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])  # end offset, packet
    acked: tuple[list[int], list[int]] = ([], [])  # per packet: what its sender had received of the other side
    for index, (_, side, seq, ack, flags, payload) in enumerate(packets):
        if flags & 0x02:
            begin[side] = (seq + 1) & 0xFFFFFFFF
        if begin[side] < 0:
            return []
        for each in (0, 1):
            before = acked[each][-1] if acked[each] else 0
            here = (ack - begin[1 - side]) & 0xFFFFFFFF if side == each and flags & 0x10 and begin[1 - side] >= 0 else 0
            acked[each].append(max(before, here if here < 1 << 31 else 0))
        offset = (seq - begin[side]) & 0xFFFFFFFF
        new = payload[len(data[side]) - offset :] if offset <= len(data[side]) else b""
        if offset > len(data[side]) and offset < 1 << 31 and payload:
            return []  # a hole, or packets out of order: another recording will do
        if new and offset < 1 << 31:
            data[side] += new
            arrived[side].append((len(data[side]), index))
    try:
        cut = [parse(bytes(each)) for each in data]
    except ValueError:
        return []
    placed = []
    ends = [[each for each, _ in cut[side][1:]] + [len(data[side])] for side in (0, 1)]
    for side in (0, 1):
        steps = [end for end, _ in arrived[side]]
        for number, (offset, fields) in enumerate(cut[side]):
            first = arrived[side][bisect.bisect_right(steps, offset)][1]
            last = arrived[side][bisect.bisect_left(steps, ends[side][number])][1]
            heard = bisect.bisect_right(ends[1 - side], acked[side][first])
            placed.append((last, side, number, heard, fields))
    placed.sort(key=lambda each: each[:3])
    uids = {(side, number): uid for uid, (_, side, number, _, _) in enumerate(placed)}
    made = []
    for uid, (packet, side, _, heard, fields) in enumerate(placed):
        known = uids[1 - side, heard - 1] if heard else -1
        *plain, odd = fields
        made.append(Message(uid, side, packets[packet][0], known, *plain, odd=bool(odd)))  # type: ignore[arg-type]
    return made
