"""The verbs of a stream: announce a snapshot, send items, confirm, close, end.

Knows what a well-behaved producer and consumer of each era put into the messages of a stream; must not know rules or
faults. A :class:`Stream` writes into the session it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.codec.encoder import pack_records
from dissector.codec.leb128 import pack as leb128
from dissector.generate.frame import STREAM_ID, Frame
from dissector.spec import enums
from dissector.spec.fields import FAILOVER_ENTRY
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.generate.conversation import Emission
    from dissector.generate.session import Session

MEMORY, DISK, CHECKPOINT, ACK, HISTORY, MAY_DUPLICATE = map(
    enums.MARKER_FLAGS.bit, ("memory", "disk", "checkpoint", "acknowledge", "history", "may_contain_duplicates")
)
REASON_OK, REASON_CLOSED, REASON_STATE = map(enums.END_REASONS.number, ("ok", "closed", "state_changed"))
SUCCESS, ROLLBACK = map(enums.STATUSES.number, ("success", "rollback"))
JSON = enums.DATATYPES.bit("json")
_DELETED_AT = 1_699_990_000


@dataclass(slots=True, eq=False)
class Stream:
    """A vbucket's stream on a session."""

    session: Session
    vbucket: int
    opaque: bytes
    start: int
    end_seqno: int
    stream_id: int | None = None
    last: int = 0  #: seqno of the last item
    snap_end: int = 0  #: end of the last marker
    taken: set[bytes] = field(default_factory=set)  #: keys of the current snapshot
    snap_start: int = 0  #: where the request says that its snapshot starts; the first marker starts there

    def frame(self, name: str, **attributes: object) -> Frame:
        """Make a frame of this stream."""
        framing = None if self.stream_id is None else [(STREAM_ID, self.stream_id.to_bytes(2, "big"))]
        return self.session.frame(
            name, **{"vbucket": self.vbucket, "opaque": self.opaque, "framing": framing, **attributes}
        )

    def produce(self, name: str, **attributes: object) -> Emission:
        """Send a message of the producer's; early consumers answer each one."""
        sent = self.session.send(self.session.producer, self.frame(name, **attributes))
        if self.session.answering:
            answer = self.session.frame(name, response=True, opaque=self.opaque)
            self.session.send(self.session.consumer, answer)
        return sent

    def _answer(self, name: str, **attributes: object) -> Emission:
        frame = self.session.frame(name, response=True, opaque=self.opaque, **attributes)
        return self.session.send(self.session.producer, frame)

    def accept(self, log: Sequence[tuple[int, int]] = ()) -> Emission:
        """Answer the request with success and a failover log."""
        known = log or self.session.bucket.vbucket(self.vbucket).log
        return self._answer("stream_request", value=pack_log(known))

    def refuse(self, status: int, text: bytes = b"") -> Emission:
        """Answer the request with an error."""
        return self._answer("stream_request", status=status, value=text)

    def roll_back(self, seqno: int) -> Emission:
        """Answer the request with a rollback."""
        return self._answer("stream_request", status=ROLLBACK, fields={"rollback_seqno": seqno})

    def marker(self, start: int, end: int, flags: int = MEMORY, **more: int) -> Emission:
        """Announce a snapshot; ``more`` are fields of the later forms, such as ``max_visible_seqno``."""
        self.snap_end = end
        self.taken.clear()
        fields = {} if self.session.dialect is Dialect.UPR else {"snap_start_seqno": start, "snap_end_seqno": end}
        if fields:
            fields |= {"snapshot_type": flags, **more}
        return self.produce("snapshot_marker", fields=fields)

    def key(self, name: bytes, collection: int = 0) -> bytes:
        """Return a key as it is on this session's wire."""
        return leb128(collection) + name if self.session.collections else name

    def _item(
        self, name: str, seqno: int, key: bytes, collection: int, own: dict[str, int], **attributes: object
    ) -> Emission:
        self.last = seqno
        revised, cas = self.session.bucket.vbucket(self.vbucket).version(seqno, collection, key)
        fields = {"by_seqno": seqno, "rev_seqno": revised, **own}
        attributes["cas"] = fields.pop("cas", cas)
        return self.produce(name, fields=fields, key=self.key(key, collection), **attributes)

    def mutation(
        self, seqno: int, key: bytes, value: bytes = b"{}", *, collection: int = 0, datatype: int = 0, **own: int
    ) -> Emission:
        """Send a mutation."""
        if self.session.dialect is Dialect.UPR:
            own = {"nru": 1, **own}  # the last builds of the early dialect had the 31-byte form
        return self._item("mutation", seqno, key, collection, own, value=value, datatype=datatype)

    def deletion(
        self, seqno: int, key: bytes, *, collection: int = 0, value: bytes = b"", datatype: int = 0, **own: int
    ) -> Emission:
        """Send a deletion: 21 bytes of extras where delete times were agreed upon, or collections."""
        if self.session.delete_times or self.session.collections:
            own = {"delete_time": _DELETED_AT, **own}
        return self._item("deletion", seqno, key, collection, own, value=value, datatype=datatype)

    def expiration(self, seqno: int, key: bytes, *, collection: int = 0, **own: int) -> Emission:
        """Send an expiration."""
        if self.session.delete_times or self.session.collections:
            own = {"delete_time": _DELETED_AT, **own}
        return self._item("expiration", seqno, key, collection, own)

    def prepare(self, seqno: int, key: bytes, value: bytes = b"{}", *, collection: int = 0, **own: int) -> Emission:
        """Send a prepare."""
        return self._item("prepare", seqno, key, collection, {"durability_level": 1, **own}, value=value)

    def complete(self, name: str, seqno: int, prepared: int, key: bytes, *, collection: int = 0) -> Emission:
        """Send a ``commit`` or an ``abort``."""
        self.last = seqno
        fields = {"prepared_seqno": prepared, f"{name}_seqno": seqno}
        return self.produce(name, fields=fields, key=self.key(key, collection))

    def advance(self, seqno: int) -> Emission:
        """Send a seqno advanced."""
        self.last = seqno
        return self.produce("seqno_advanced", fields={"by_seqno": seqno})

    def event(self, seqno: int, event: int, version: int = 0, key: bytes = b"", value: bytes = b"") -> Emission:
        """Send a system event."""
        self.last = seqno
        fields = {"by_seqno": seqno, "event": event, "event_version": version}
        return self.produce("system_event", fields=fields, key=key, value=value)

    def bracket(self, flags: int) -> Emission:
        """Begin (1) or end (2) an out-of-order snapshot."""
        return self.produce("oso_snapshot", fields={"oso_flags": flags})

    def acknowledge(self, seqno: int, *, unheard: int = 0) -> Emission:
        """Tell the producer which prepares are on this replica."""
        frame = self.frame("seqno_acknowledged", fields={"prepared_seqno": seqno})
        return self.session.send(self.session.consumer, frame, unheard=unheard)

    def state(self, state: int) -> Emission:
        """Set the vbucket's state on the other side, and have it confirmed."""
        return self.session.ask(self.session.producer, self.frame("set_vbucket_state", fields={"vbucket_state": state}))

    def confirm_marker(self) -> Emission:
        """Confirm a marker that asked for it."""
        frame = self.session.frame("snapshot_marker", response=True, opaque=self.opaque)
        return self.session.send(self.session.consumer, frame)

    def reject(self, name: str, status: int, *, unheard: int = 0) -> Emission:
        """Refuse a message of the producer's, as the consumer."""
        frame = self.session.frame(name, response=True, opaque=self.opaque, status=status)
        return self.session.send(self.session.consumer, frame, unheard=unheard)

    def close(self, *, unheard: int = 0, status: int = SUCCESS) -> Emission:
        """Close the stream, as the consumer."""
        asked = self.ask_close(unheard=unheard)
        self.answer_close(status)
        return asked

    def ask_close(self, *, unheard: int = 0) -> Emission:
        """Ask to close the stream, as the consumer."""
        return self.session.send(self.session.consumer, self.frame("close_stream"), unheard=unheard)

    def answer_close(self, status: int = SUCCESS) -> Emission:
        """Answer the consumer's close."""
        return self._answer("close_stream", status=status)

    def end(self, reason: int = REASON_OK) -> Emission:
        """End the stream, as the producer."""
        return self.produce("stream_end", fields={"end_reason": reason})

    def snapshot(
        self,
        first: int,
        last: int,
        flags: int = MEMORY,
        *,
        start: int | None = None,
        prefix: bytes = b"key",
        **more: int,
    ) -> list[Emission]:
        """Send a marker and one mutation for each seqno; return all of them."""
        sent = [self.marker(first if start is None else start, last, flags, **more)]
        return sent + [self.mutation(seqno, b"%s-%d" % (prefix, seqno)) for seqno in range(first, last + 1)]

    def follow(
        self,
        last: int,
        flags: int = MEMORY,
        *,
        holes: float = 0.0,
        deleted: float = 0.1,
        **more: int,
    ) -> list[Emission]:
        """Send the next snapshot, up to a seqno, with what the bucket has there; return all of it.

        The first marker of a stream starts at the requested snapshot start, every other one after the last (SNP-07).
        """
        begin = self.snap_start if self.snap_end < self.snap_start else self.snap_end + 1
        return [self.marker(begin, last, flags, **more), *self.items(self.last + 1, last, holes, deleted)]

    def items(self, first: int, last: int, holes: float = 0.0, deleted: float = 0.1) -> list[Emission]:
        """Send what the bucket has in a range of seqnos: the newest version of each key."""
        vbucket = self.session.bucket.vbucket(self.vbucket)
        sent = []
        for seqno in vbucket.write(self.session.chance, first, last, self.taken, holes, deleted):
            document = vbucket.documents[seqno]
            if document is None:
                continue
            self.session.keep_alive()
            self.taken.add(document.key)
            if document.deleted:
                sent.append(self.deletion(seqno, document.key))
            else:
                datatype = JSON if self.session.dialect is Dialect.DCP else 0
                sent.append(self.mutation(seqno, document.key, document.value, datatype=datatype))
        return sent


def pack_log(log: Sequence[tuple[int, int]]) -> bytes:
    """Write a failover log."""
    return pack_records(FAILOVER_ENTRY, [{"vbucket_uuid": uuid, "seqno": seqno} for uuid, seqno in log])
