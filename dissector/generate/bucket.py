"""What a bucket holds: the versions of its documents and the histories of its vbuckets.

Every connection that shows a version shows the same one: equal vbucket, branch and seqno mean equal key, revision and
CAS (XCN-01). Must not know connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Container, Iterable

#: Captures begin at 1,700,000,000 s; the first version is an hour older. A hybrid clock keeps its low 16 bits free.
_FIRST_CAS = (1_700_000_000 - 3600) * 1_000_000_000 & ~0xFFFF
_TICK = 0x10000  #: the next value of a hybrid clock
_BRANCH_TICKS = 600_000_000_000 & ~0xFFFF  #: a new branch is written ten minutes later
_FIRST_UUID = 0xF00D_0000_0000_0000
_BRANCH_UUID = 0x0000_0001_0000_0000
_KNOWN_KEY_SHARE = 0.3  #: how many writes go to a document that exists already


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a document."""

    key: bytes
    value: bytes
    deleted: bool = False


@dataclass(slots=True, eq=False)
class Vbucket:
    """One vbucket: its failover log, newest entry first, and what was written to it."""

    number: int
    log: list[tuple[int, int]]
    documents: dict[int, Document | None] = field(default_factory=dict)  #: None: replaced before anybody saw it
    keys: list[bytes] = field(default_factory=list)
    revisions: dict[tuple[int, bytes], int] = field(default_factory=dict)
    #: (branch, seqno, collection, key) to revision and CAS
    versions: dict[tuple[int, int, int, bytes], tuple[int, int]] = field(default_factory=dict)

    @property
    def uuid(self) -> int:
        """Return the uuid of the newest branch."""
        return self.log[0][0]

    def fork(self, seqno: int) -> int:
        """Begin a new branch after a seqno, as a failover does; return its uuid."""
        uuid = self.uuid + _BRANCH_UUID
        self.log.insert(0, (uuid, seqno))
        self.documents = {number: each for number, each in self.documents.items() if number <= seqno}
        return uuid

    def version(self, seqno: int, collection: int, key: bytes) -> tuple[int, int]:
        """Return revision and CAS of a version."""
        branch = next((len(self.log) - at for at, (_, begin) in enumerate(self.log) if begin < seqno), 1)
        known = self.versions.get((branch, seqno, collection, key))
        if known is None:
            revised = self.revisions.get((collection, key), 0) + 1
            self.revisions[collection, key] = revised
            known = revised, _FIRST_CAS + branch * _BRANCH_TICKS + seqno * _TICK
            self.versions[branch, seqno, collection, key] = known
        return known

    def write(
        self, chance: random.Random, first: int, last: int, taken: set[bytes], holes: float, deleted: float
    ) -> list[int]:
        """Fill a range of seqnos with versions that it does not have yet; return those with the newest of each key.

        Keys that are ``taken`` get no new version. ``holes`` and ``deleted`` say how many seqnos were replaced before
        anybody saw them, and how many are deletions. The last seqno of the range is always there.
        """
        newest: dict[bytes, int] = {}
        for seqno in range(first, last + 1):
            if seqno not in self.documents:
                hole = seqno != last and chance.random() < holes
                self.documents[seqno] = None if hole else self._fresh(chance, seqno, (taken, newest), deleted)
            document = self.documents[seqno]
            if document is not None:
                newest[document.key] = seqno
        return sorted(newest.values())

    def _fresh(self, chance: random.Random, seqno: int, taken: Iterable[Container[bytes]], deleted: float) -> Document:
        key = chance.choice(self.keys) if self.keys and chance.random() < _KNOWN_KEY_SHARE else b""
        if not key or any(key in keys for keys in taken):
            key = b"user::%d-%d" % (self.number, seqno)
            self.keys.append(key)
        elif chance.random() < deleted:
            return Document(key, b"", deleted=True)
        text = b"x" * chance.randrange(8, 160)
        return Document(key, b'{"vbucket":%d,"seqno":%d,"text":"%s"}' % (self.number, seqno, text))


@dataclass(slots=True, eq=False)
class Bucket:
    """A bucket."""

    vbuckets: dict[int, Vbucket] = field(default_factory=dict)

    def vbucket(self, number: int) -> Vbucket:
        """Return a vbucket."""
        if number not in self.vbuckets:
            self.vbuckets[number] = Vbucket(number, [(_FIRST_UUID + number, 0)])
        return self.vbuckets[number]
