"""Requests that wait for their answers: an answer belongs to the oldest request of its opcode and opaque.

Knows keys and their order; what a request is, and what its answer means, is for the caller to say.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, KeysView

Request = TypeVar("Request")
#: Direction of the request, opcode and opaque; some of them may go without saying, others may be added.
Key = tuple[int, ...]


class PendingRequests(Generic[Request]):
    """Requests by their keys, first in, first out.

    Answers that wait for requests which the capture has too late are kept in the same way.
    """

    def __init__(self, limit: int | None = None) -> None:
        """Make room for so many requests; a hostile capture must not fill the memory."""
        self._limit = limit
        self._requests: OrderedDict[int, tuple[Key, Request]] = OrderedDict()  #: by serial number, oldest first
        self._serials: dict[Key, deque[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many requests are waiting."""
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """Go through all requests, oldest first."""
        return (request for _, request in self._requests.values())

    def __contains__(self, key: Key) -> bool:
        """Tell whether a request of this key is waiting."""
        return key in self._serials

    @property
    def is_full(self) -> bool:
        """Tell whether there is no room for another request."""
        return self._limit is not None and len(self._requests) >= self._limit

    @property
    def keys(self) -> KeysView[Key]:
        """Return the keys under which requests are waiting."""
        return self._serials.keys()

    def by_key(self) -> Iterator[Request]:
        """Go through all requests, key by key: the key that has been in use longest first."""
        return (self._requests[serial][1] for serials in self._serials.values() for serial in serials)

    def add(self, key: Key, request: Request) -> bool:
        """Let a request wait; tell whether there was room."""
        if self.is_full:
            return False
        self._count += 1
        self._requests[self._count] = key, request
        self._serials.setdefault(key, deque()).append(self._count)
        return True

    def replace(self, key: Key, request: Request) -> bool:
        """Let a request wait instead of those of its key; tell whether there was room."""
        if self.is_full:
            return False
        self.drop(key)
        return self.add(key, request)

    def first(self, key: Key) -> Request | None:
        """Return the oldest request of a key; it goes on waiting."""
        serials = self._serials.get(key)
        return self._requests[serials[0]][1] if serials else None

    def take(self, key: Key) -> Request | None:
        """Return the oldest request of a key, which is what an answer belongs to; it waits no longer."""
        serials = self._serials.get(key)
        if not serials:
            return None
        _, request = self._requests.pop(serials.popleft())
        if not serials:
            del self._serials[key]
        return request

    def drop(self, key: Key) -> None:
        """Forget the requests of a key."""
        for serial in self._serials.pop(key, ()):
            del self._requests[serial]

    def drop_oldest(self) -> None:
        """Forget the request that has been waiting longest."""
        key, _ = next(iter(self._requests.values()))
        self.take(key)
