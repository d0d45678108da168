"""Scenarios read from their encoded bytes, and checks that know no exceptions: whatever they find needs an excuse.

Nothing of the session's own bookkeeping is believed here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache

from dissector.codec.decoder import decode
from dissector.codec.dialect import detect
from dissector.codec.message import Decoded
from dissector.generate.conversation import Conversation
from dissector.generate.scenario import size_all_buffer_acks
from dissector.generate.scenarios import scenario
from dissector.spec.model import Dialect

NOT_UPR = {"kv", "tls"}  #: connections of other protocols, by the name in their notes
DATA = ("mutation", "deletion", "expiration", "prepare", "commit", "abort", "system_event", "seqno_advanced")
ANSWERED = ("open", "add_stream", "close_stream", "stream_request", "get_failover_log", "control", "noop")
NO_END = (1 << 64) - 1
SECOND = 1_000_000_000
FROM_LATEST = 0x40


@dataclass
class Said:
    """One message as it is on the wire."""

    side: int
    data: bytes
    name: str
    decoded: Decoded
    heard: int  #: how many messages of the other side its sender had received
    time_ns: int

    @property
    def response(self) -> bool:
        return self.decoded.header.magic in {0x81, 0x18}

    @property
    def opaque(self) -> bytes:
        return self.decoded.header.opaque

    @property
    def vbucket(self) -> int:
        return self.decoded.header.vbucket_or_status

    @property
    def status(self) -> int:
        return self.decoded.header.vbucket_or_status

    @property
    def numbers(self) -> dict[str, int]:
        return {each.name: each.value for each in self.decoded.fields}


@dataclass
class Told:
    """A conversation, read from its bytes."""

    conversation: Conversation
    dialect: Dialect
    producer: int | None
    said: list[Said]


@cache
def told(name: str, seed: int = 1) -> list[Told]:
    """Write a scenario, encode it and read it again."""
    conversations = scenario(name).conversations(seed)
    size_all_buffer_acks(conversations)
    return [read(conversation, Dialect(scenario(name).dialect)) for conversation in conversations]


def read(conversation: Conversation, dialect: Dialect) -> Told:
    frames = [(emission.side, emission.frame.encode()) for emission in conversation]
    verdict = detect(frames)
    if conversation.notes.get("name") in NOT_UPR:
        dialect = Dialect.MEMCACHED
    said, sent, time_ns, asked = [], [0, 0], conversation.begin_ns, {}
    for emission, (side, data) in zip(conversation, frames, strict=True):
        time_ns += emission.pause_ns
        subtype = asked.get(data[12:16]) if dialect is Dialect.DRAFT else None
        decoded = decode(
            dialect, data, collections=bool(conversation.notes.get("collections", False)), request_subtype=subtype
        )
        if dialect is Dialect.DRAFT and data[0] == 0x80:
            asked[data[12:16]] = data[5]
        heard = sent[1 - side] - emission.unheard
        said.append(Said(side, data, emission.frame.name, decoded, heard, time_ns))
        sent[side] += 1
    return Told(conversation, dialect, verdict.producer, said)


@dataclass
class Instance:
    """A stream as the wire shows it."""

    start: int
    end: int
    snap_start: int
    flags: int
    opaque: bytes
    last: int = 0
    first: int | None = None
    marker: tuple[int, int, int] | None = None
    bracket: bool = False
    bracketed: bool = False
    keys: set[bytes] = field(default_factory=set)
    prepared: dict[bytes, int] = field(default_factory=dict)
    highest_prepare: int = 0
    finished: bool = False
    live: bool = True


class Naive:
    """Checks that know no exceptions; what they find must be excused."""

    def __init__(self, each: Told) -> None:
        self.found: Counter[str] = Counter()
        self.told = each
        self.instances: dict[tuple[int, int], Instance] = {}
        self.asked: dict[bytes, list[tuple[int, int, dict[str, int]]]] = defaultdict(list)
        self.high: dict[tuple[int, int], int] = {}
        self.versions: dict[tuple[int, bytes], tuple[int, int, int]] = {}
        self.waiting: dict[tuple[int, str, bytes], list[int]] = defaultdict(list)
        self.opaques: dict[tuple[int, int], bytes] = {}
        for said in each.said:
            self.see(said)
        for instance in self.instances.values():
            self.finish(instance)
            if instance.live and not instance.finished and instance.end != NO_END:
                self.found["SEQ-03"] += 1
        self.found["OPQ-02"] += sum(len(times) for times in self.waiting.values())

    def see(self, said: Said) -> None:
        self.pair(said)
        stream_id = self.stream_id(said)
        place = (said.vbucket, stream_id)
        if said.name == "stream_request":
            self.request(said)
        elif said.name == "close_stream" and not said.response:
            for known in [each for each in self.instances if each[0] == said.vbucket and stream_id in {0, each[1]}]:
                self.instances[known].live = False
        elif said.name == "seqno_acknowledged":
            if said.numbers["prepared_seqno"] > self.instances[place].highest_prepare:
                self.found["SEQ-10"] += 1
        elif said.response or said.name not in {*DATA, "snapshot_marker", "oso_snapshot", "stream_end"}:
            if said.name == "cache_transfer":
                self.found["SNP-01"] += 1
                self.found["SNP-02"] += 1
        else:
            instance = self.instances[place]
            assert said.opaque == instance.opaque, "OPQ-04"
            assert not instance.finished, "OPQ-06"
            self.stream_message(said, instance, place)

    def pair(self, said: Said) -> None:
        if said.response:
            times = self.waiting.get((1 - said.side, said.name, said.opaque))
            if times and said.time_ns - times.pop(0) > 60 * SECOND:
                self.found["OPQ-02"] += 1
        elif said.name in ANSWERED or (said.name == "snapshot_marker" and said.numbers.get("snapshot_type", 0) & 8):
            self.waiting[said.side, said.name, said.opaque].append(said.time_ns)

    @staticmethod
    def stream_id(said: Said) -> int:
        if said.name == "stream_request":
            found = re.search(rb'"sid":(\d+)', said.data)
            return int(found[1]) if found else 0
        if said.data[0] == 0x08:
            return int.from_bytes(said.data[25:27], "big")
        return 0

    def request(self, said: Said) -> None:
        if not said.response:
            self.asked[said.opaque].append((said.vbucket, self.stream_id(said), said.numbers))
            return
        vbucket, stream_id, numbers = self.asked[said.opaque].pop(0)
        if said.status:
            return
        place = (vbucket, stream_id)
        if place in self.instances:
            assert not self.instances[place].live, "OPQ-07"
            self.finish(self.instances[place])
        if any(each.opaque == said.opaque and each.live for each in self.instances.values()):
            self.found["OPQ-08"] += 1
        if self.opaques.get(place) == said.opaque:
            self.found["OPQ-12"] += 1
        self.opaques[place] = said.opaque
        self.instances[place] = Instance(
            numbers["start_seqno"],
            numbers["end_seqno"],
            numbers.get("snap_start_seqno", 0),
            numbers["stream_flags"],
            said.opaque,
        )

    def finish(self, instance: Instance) -> None:
        """Look whether the current snapshot is complete."""
        if instance.marker is not None and instance.last != instance.marker[1]:
            self.found["SNP-06"] += 1

    def stream_message(self, said: Said, instance: Instance, place: tuple[int, int]) -> None:
        numbers = said.numbers
        if said.name == "snapshot_marker" and "snap_start_seqno" in numbers:
            start, end = numbers["snap_start_seqno"], numbers["snap_end_seqno"]
            assert start <= end, "SNP-03"
            if instance.marker is None:
                if start != instance.start:
                    self.found["SNP-07"] += 1
                if not instance.flags & FROM_LATEST and not instance.bracketed:
                    assert start == instance.snap_start, "SNP-07"
                if start < instance.last:
                    self.found["SNP-04"] += 1
            else:
                self.finish(instance)
                if start != instance.marker[1] + 1:
                    self.found["SNP-04"] += 1
            instance.marker = (start, end, numbers["snapshot_type"])
            instance.keys.clear()
        elif said.name == "snapshot_marker":
            instance.keys.clear()
        elif said.name == "oso_snapshot":
            instance.bracket, instance.bracketed = numbers["oso_flags"] == 1, True
        elif said.name == "stream_end":
            instance.finished, instance.live = True, False
            self.finish(instance)
            if numbers["end_reason"] in {0, 2} and instance.last != instance.end:
                self.found["SEQ-03"] += 1
        else:
            self.item(said, instance, place, numbers)

    def item(self, said: Said, instance: Instance, place: tuple[int, int], numbers: dict[str, int]) -> None:
        name = {"commit": "commit_seqno", "abort": "abort_seqno"}.get(said.name, "by_seqno")
        seqno = numbers[name]
        if instance.marker is None:
            self.found["SNP-01"] += 1
        if instance.marker is None or not instance.marker[0] <= seqno <= instance.marker[1]:
            self.found["SNP-02"] += 1
        assert instance.first is not None or seqno > instance.start, "SEQ-02"
        instance.first = instance.first or seqno
        if seqno <= self.high.get(place, 0):
            self.found["SEQ-01"] += 1
        if not instance.bracket:
            assert seqno > instance.last or instance.marker is None, "SEQ-01"
        self.high[place] = seqno
        instance.last = seqno
        if said.name in {"system_event", "seqno_advanced"}:
            return
        key = said.decoded.key
        if key in instance.keys:
            self.found["SNP-05"] += 1
        instance.keys.add(key)
        if said.name in {"commit", "abort"}:
            if instance.prepared.pop(key, None) != numbers["prepared_seqno"]:
                self.found["SEQ-08"] += 1
            return
        if said.name == "prepare":
            if key in instance.prepared:
                self.found["SEQ-09"] += 1
            instance.prepared[key] = instance.highest_prepare = seqno
        self.version(said, place[0], key, seqno, numbers["rev_seqno"])

    def version(self, said: Said, vbucket: int, key: bytes, seqno: int, rev: int) -> None:
        cas = said.decoded.header.cas
        before, old_rev, old_cas = self.versions.get((vbucket, key), (0, 0, -1))
        if seqno > before:
            self.found["SEQ-04"] += rev <= old_rev
            self.found["SEQ-05"] += cas <= old_cas
            self.versions[vbucket, key] = seqno, rev, cas


def naive(name: str, seed: int = 1) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in told(name, seed):
        if each.dialect in {Dialect.DCP, Dialect.UPR}:
            found += Naive(each).found
    return found
