"""What was spoken before the first release: UPR of May 2014 as recorded, and the draft of August 2013 as written.

Each function writes conversations of one dialect; must not know rules or faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bucket import Bucket
from dissector.generate.conversation import CLIENT, SERVER
from dissector.generate.frame import Frame
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.setup import early, new_conversation
from dissector.generate.stream import pack_log
from dissector.spec import enums
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Stream

_NO_END = (1 << 64) - 1
_STATE_CHANGED = enums.DRAFT_END_REASONS.number("state_changed")


def closed_by_marker(stream: Stream, last: int) -> None:
    """Send items up to a seqno and the marker that closes them: it came after them, without a range."""
    stream.items(stream.last + 1, last, holes=0.1)
    stream.marker(0, 0)


def _early_upr(chance: random.Random, _size: Size) -> list[Conversation]:
    session = early(chance, "upr-basic", window=10_000)
    for vbucket in range(3):
        session.failover_log(vbucket)
    finite = session.stream(0, 0, 14)
    closed_by_marker(finite, 14)
    finite.end()
    streams = [session.stream(vbucket) for vbucket in (1, 2)]
    for last in (9, 15, 22):
        for stream in streams:
            closed_by_marker(stream, last)
    session.ack()
    streams[0].close()
    return [session.conversation]


class _Draft:
    """The draft's producer: every message of its is a push, and names the vbucket where others have a status."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self.chance = chance
        self.conversation = new_conversation(name=name)
        self.bucket = Bucket()

    def ask(self, name: str, number: int, vbucket: int, **attributes: object) -> None:
        """Send a request; its number is the stream's from then on."""
        self.conversation.send(CLIENT, self._frame(name, number, vbucket, attributes))

    def push(self, name: str, number: int, vbucket: int, **attributes: object) -> None:
        """Send a message of the producer's."""
        self.conversation.send(SERVER, self._frame(name, number, vbucket, attributes))

    def _frame(self, name: str, number: int, vbucket: int, attributes: dict[str, object]) -> Frame:
        opaque = number.to_bytes(4, "big")
        return Frame(Dialect.DRAFT, name, opaque=opaque, vbucket=vbucket, **attributes)  # type: ignore[arg-type]

    def failover_log(self, number: int, vbucket: int) -> None:
        """Ask for a failover log."""
        self.ask("get_failover_log", number, vbucket)
        self.push("failover_log", number, vbucket, value=pack_log(self.bucket.vbucket(vbucket).log))

    def request(self, number: int, vbucket: int, start: int = 0, uuid: int = 0) -> None:
        """Ask for a stream."""
        fields = {"start_seqno": start, "end_seqno": _NO_END, "vbucket_uuid": uuid, "high_seqno": start}
        self.ask("stream_request", number, vbucket, fields=fields, key=b"replication_%d" % vbucket)

    def begin(self, number: int, vbucket: int) -> None:
        """Grant a stream."""
        self.push("stream_ok", number, vbucket)
        self.push("stream_start", number, vbucket)

    def snapshot(self, number: int, vbucket: int, first: int, last: int) -> None:
        """Send a snapshot between its start and its end."""
        self.push("snapshot_start", number, vbucket)
        for seqno in range(first, last + 1):
            key = b"key-%d" % seqno
            name = self.chance.choice(("mutation", "mutation", "mutation", "deletion", "expiration"))
            rev, cas = self.bucket.vbucket(vbucket).version(seqno, 0, key)
            value = b"value-%d" % seqno if name == "mutation" else b""
            fields = {"by_seqno": seqno, "rev_seqno": rev}
            self.push(name, number, vbucket, fields=fields, key=key, value=value, cas=cas)
        self.push("snapshot_end", number, vbucket)


def _draft(chance: random.Random, _size: Size) -> list[Conversation]:
    draft = _Draft(chance, "draft")
    draft.failover_log(1, 12)
    draft.request(0x2D, 12)
    draft.begin(0x2D, 12)
    draft.snapshot(0x2D, 12, 1, 12)
    draft.request(0x2E, 13)
    draft.push("stream_not_my_vbucket", 0x2E, 13)
    # Its history went another way, so it goes back and asks anew under another number.
    draft.request(0x2F, 14, 90, 0x3C58A)
    draft.push("stream_rollback", 0x2F, 14, fields={"rollback_seqno": 40})
    draft.request(0x30, 14, 40, draft.bucket.vbucket(14).uuid)
    draft.begin(0x30, 14)
    draft.snapshot(0x30, 14, 41, 52)
    draft.snapshot(0x2D, 12, 13, 19)
    draft.push("flush", 0x2D, 12)
    draft.push("stream_end", 0x2D, 12)
    draft.push("stream_end", 0x30, 14, subtype=_STATE_CHANGED)
    return [draft.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "early-upr",
        "UPR before the first release: markers behind their items, and every message answered",
        _early_upr,
        "upr",
        "May 2014",
        (
            ("SNP-01", "the marker comes behind the items that it closes, and has no range"),
            ("SNP-02", "the marker has no range"),
            ("SNP-05", "keys are unique between two markers"),
            ("OPQ-03", "the consumer answers every message of a stream"),
            ("OPQ-11", "the answers to items are no refusals"),
        ),
    ),
    Scenario("draft", "the draft of August 2013: all of its messages", _draft, "draft", "never released"),
)
