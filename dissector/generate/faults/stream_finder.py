"""The streams of a script as faults look at them: instances, their snapshots, the items of those.

Knows which message belongs to which stream and snapshot, in every dialect; must not know rules, nor change anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from dissector.generate.session import DISK, HISTORY, MAY_DUPLICATE, MEMORY, REASON_OK, SUCCESS
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

#: Messages of a stream that have a seqno of their own.
DATA = frozenset(("mutation", "deletion", "expiration", "prepare", "commit", "abort", "seqno_advanced", "system_event"))
DOCUMENTS = frozenset(("mutation", "deletion", "expiration"))  #: those that show a version which is visible at once
_OPENING = frozenset(("snapshot_marker", "snapshot_start"))
_OSO_START, _OSO_END = 1, 2

_Found = TypeVar("_Found")


@dataclass(slots=True, eq=False)
class Snapshot:
    """A snapshot: what announces it (in the early dialect: what closes it) and its items."""

    instance: Instance
    marker: Emission
    items: list[Emission] = field(default_factory=list)
    at: int = 0  #: its place in the stream
    closing: Emission | None = None  #: the end of an out-of-order snapshot, or of one of the draft's

    @property
    def start(self) -> int:
        """Return the marker's start."""
        return self.marker.frame.fields.get("snap_start_seqno", 0)

    @property
    def end(self) -> int:
        """Return the marker's end."""
        return self.marker.frame.fields.get("snap_end_seqno", 0)

    @property
    def flags(self) -> int:
        """Return the marker's flags."""
        return self.marker.frame.fields.get("snapshot_type", 0)

    @property
    def ranged(self) -> bool:
        """Tell whether it is an ordinary one, with a start and an end."""
        return "snap_end_seqno" in self.marker.frame.fields

    @property
    def out_of_order(self) -> bool:
        """Tell whether it is an out-of-order snapshot."""
        return self.marker.frame.name == "oso_snapshot"

    @property
    def seqnos(self) -> list[int]:
        """Return the items' seqnos in the order of arrival."""
        return [seqno(item) for item in self.items]

    @property
    def whole(self) -> bool:
        """Tell whether its last item is the one that the marker ends with."""
        return self.ranged and bool(self.items) and seqno(self.items[-1]) == self.end

    @property
    def historical(self) -> bool:
        """Tell whether keys may repeat, or its range that of the one before."""
        return bool(self.flags & (HISTORY | MAY_DUPLICATE))

    @property
    def in_memory(self) -> bool:
        """Tell whether it comes from memory, and only from there."""
        return self.flags & (MEMORY | DISK) == MEMORY

    @property
    def keys(self) -> set[bytes]:
        """Return the keys of its items."""
        return {item.frame.key for item in self.items if item.frame.key}

    @property
    def former(self) -> Snapshot | None:
        """Return the snapshot before it in its stream."""
        return self.instance.snapshots[self.at - 1] if self.at else None

    @property
    def following(self) -> Snapshot | None:
        """Return the snapshot after it in its stream."""
        later = self.instance.snapshots[self.at + 1 : self.at + 2]
        return later[0] if later else None


@dataclass(slots=True, eq=False)
class Instance:
    """A stream from the answer that grants it to its end."""

    conversation: Conversation
    producer: int
    request: Emission
    answer: Emission
    snapshots: list[Snapshot] = field(default_factory=list)
    finish: Emission | None = None  #: the stream end
    close: Emission | None = None  #: the consumer's close
    acknowledged: list[Emission] = field(default_factory=list)  #: seqnos that a replica has
    confirmed: list[Emission] = field(default_factory=list)  #: answers to markers
    alone: bool = True  #: nothing else in the script is about the same vbucket

    @property
    def vbucket(self) -> int:
        """Return its vbucket."""
        return self.request.frame.vbucket

    @property
    def asked(self) -> dict[str, int]:
        """Return what the request asks for."""
        return self.request.frame.fields

    @property
    def items(self) -> list[Emission]:
        """Return all items."""
        return [item for snapshot in self.snapshots for item in snapshot.items]

    @property
    def completed(self) -> bool:
        """Tell whether the producer says that it has sent everything."""
        return self.finish is not None and self.finish.frame.fields.get("end_reason") == REASON_OK

    @property
    def filtered(self) -> bool:
        """Tell whether the request wants a part of the bucket."""
        return bool(self.request.frame.value)


def instances(script: Script) -> list[Instance]:
    """Return all streams that were granted, one connection after the other."""
    found = [instance for conversation in script.conversations for instance in _read(conversation)]
    asked: dict[int, int] = {}
    for _, each in script.all():
        if each.frame.name == "stream_request" and not each.frame.response:
            asked[each.frame.vbucket] = asked.get(each.frame.vbucket, 0) + 1
    for instance in found:
        instance.alone = asked[instance.vbucket] == 1
    return found


def snapshots(script: Script) -> Iterator[Snapshot]:
    """Go through all snapshots."""
    for instance in instances(script):
        yield from instance.snapshots


def ranges(script: Script) -> Iterator[Snapshot]:
    """Go through the ordinary snapshots with items, out-of-order ones and what follows those left out.

    What follows an out-of-order snapshot starts over, so that the rules about starts do not hold there.
    """
    for each in snapshots(script):
        before = each.former
        if each.ranged and each.items and (before is None or before.ranged):
            yield each


def recent(script: Script) -> set[int]:
    """Return the ids of the connections that begin with HELLO: rules of 4.5 and later hold there for certain."""
    return {
        id(conversation)
        for conversation in script.conversations
        if any(each.frame.name == "hello" for each in conversation)
    }


def pick(
    script: Script, options: Iterable[tuple[Emission, _Found]], fits: Callable[[_Found], bool] | None = None
) -> _Found:
    """Return what belongs to the first of these messages from the place on; ``fits`` is for what takes long to ask."""
    table = {id(emission): found for emission, found in reversed(list(options))}
    _, emission = script.find(lambda each: id(each) in table and (fits is None or fits(table[id(each)])))
    return table[id(emission)]


def unshared(script: Script) -> set[int]:
    """Return the ids of the items that the script shows once: another copy would contradict a changed one (XCN-01)."""
    shown: dict[tuple[int, int], list[Emission]] = {}
    copied: set[int] = set()  #: vbuckets whose memory is transferred as well
    for _, each in script.all():
        if each.frame.name == "cache_transfer":
            copied.add(each.frame.vbucket)
        if each.frame.name in DATA and not each.frame.response and each.frame.seqno is not None:
            shown.setdefault((each.frame.vbucket, each.frame.seqno), []).append(each)
    return {id(copies[0]) for (vbucket, _), copies in shown.items() if len(copies) == 1 and vbucket not in copied}


def histories(script: Script) -> dict[tuple[int, bytes], list[Emission]]:
    """Return the messages about each document, by vbucket and key."""
    found: dict[tuple[int, bytes], list[Emission]] = {}
    for _, each in script.all():
        if each.frame.name in DATA and each.frame.key and not each.frame.response:
            found.setdefault((each.frame.vbucket, each.frame.key), []).append(each)
    return found


def seqno(emission: Emission) -> int:
    """Return the seqno of an item."""
    number = emission.frame.seqno
    if number is None:
        raise ValueError(f"a {emission.frame.name} has no seqno")
    return number


def _read(conversation: Conversation) -> list[Instance]:
    """Read one connection."""
    found: list[Instance] = []
    requests: dict[bytes, Emission] = {}
    live: dict[tuple[int, int | None], Instance] = {}
    loose: dict[int, list[Emission]] = {}  #: items of the early dialect, whose marker comes after them
    for emission in conversation:
        frame = emission.frame
        name, place = frame.name, (frame.vbucket, frame.stream_id)
        if name == "stream_request" and not frame.response:
            requests[frame.opaque] = emission
            continue
        if (name == "stream_request" and frame.status == SUCCESS) or name == "stream_ok":
            asked = requests.pop(frame.opaque, None)
            if asked is not None:
                instance = Instance(conversation, emission.side, asked, emission)
                live[asked.frame.vbucket, asked.frame.stream_id] = instance
                found.append(instance)
            continue
        if frame.response:
            if name == "snapshot_marker" and emission.frame.status == SUCCESS:
                for each in live.values():
                    if each.request.frame.opaque == frame.opaque and each.producer != emission.side:
                        each.confirmed.append(emission)
            continue
        known = live.get(place)
        if known is not None:
            _place(known, emission, loose.setdefault(id(known), []))
    return found


def _place(instance: Instance, emission: Emission, loose: list[Emission]) -> None:
    frame, name = emission.frame, emission.frame.name
    if emission.side != instance.producer:
        if name == "seqno_acknowledged":
            instance.acknowledged.append(emission)
        elif name == "close_stream":
            instance.close = emission
        return
    current = instance.snapshots[-1] if instance.snapshots else None
    early = frame.dialect is Dialect.UPR
    if name in DATA:
        if early and "by_seqno" in frame.fields:
            loose.append(emission)
        elif current is not None:
            current.items.append(emission)
    elif name in _OPENING or (name == "oso_snapshot" and frame.fields.get("oso_flags") == _OSO_START):
        instance.snapshots.append(Snapshot(instance, emission, list(loose), len(instance.snapshots)))
        loose.clear()
    elif name == "snapshot_end" or (name == "oso_snapshot" and frame.fields.get("oso_flags") == _OSO_END):
        if current is not None:
            current.closing = emission
    elif name == "stream_end":
        instance.finish = emission
