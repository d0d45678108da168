"""What a frame proves about dialect and release, as tables by opcode, extras length and marker version; and its weight.

Derived from the spec's fingerprints and layouts, once, for everything that judges connections: the detector frame by
frame, the connection summary, the rules' context and the pre-scan of a split capture by columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dissector.spec import fingerprints, registry
from dissector.spec.model import Body, Dialect

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from dissector.array_types import Longs, Mask
    from dissector.spec.model import Release

#: A lead of so many pieces of evidence is not made up for any more.
_CERTAIN = 2
_STREAM_REQUEST = registry.named(Dialect.DCP, "stream_request").opcode
_UPR_MESSAGES = [message for message in registry.MESSAGES if message.dialect is Dialect.DCP]
HELLO = registry.named(Dialect.DCP, "hello").opcode


def _sizes(dialect: Dialect) -> set[tuple[int, int]]:
    return {
        (message.opcode, layout.extras_size)
        for message in registry.MESSAGES
        if message.dialect is dialect and message.request is not None
        for layout in message.request.layouts
    }


_DRAFT_MESSAGES = [message for message in registry.MESSAGES if message.dialect is Dialect.DRAFT]
#: Requests of the draft: opcode, subtype, extras length.
_DRAFT_REQUESTS = frozenset(
    (message.opcode, subtype, layout.extras_size)
    for message in _DRAFT_MESSAGES
    if message.request is not None
    for subtype in message.subtypes
    for layout in message.request.layouts
)


def _draft_pushes() -> dict[tuple[int, int], Container[int]]:
    """Return the sizes of values that pushes of the draft have, without items and those of subtype 0."""
    found: dict[tuple[int, int], Container[int]] = {}
    for message in _DRAFT_MESSAGES:
        if message.push is not None and not message.seqno:
            sizes = {0, *(layout.value_size for layout in message.push.layouts)}
            logs = range(0, registry.MAX_BODY, _LOG_ENTRY)
            values = logs if message.push.body is Body.FAILOVER_LOG else sizes
            found.update({(message.opcode, subtype): values for subtype in message.subtypes if subtype})
    return found


_LOG_ENTRY = 16  #: bytes of an entry of a failover log
_DRAFT_PUSHES = _draft_pushes()
#: Requests (opcode, extras length) that have the size of a UPR message, in upr or in dcp.
UPR_REQUESTS = frozenset(
    (message.opcode, layout.extras_size)
    for message in _UPR_MESSAGES
    if message.request is not None
    for layout in (*message.request.layouts, *registry.sibling_layouts(message, None))
)
#: The last index of :data:`SINCE`: requests that are no versioned snapshot markers.
NO_VERSION = 3


def opcode_table(opcodes: Iterable[int]) -> Mask:
    """Return, by opcode, which are among these."""
    table = np.zeros(256, bool)
    table[[*opcodes]] = True
    return table


def request_table(requests: Iterable[tuple[int, int]]) -> Mask:
    """Return, by opcode and extras length, which requests are among these."""
    table = np.zeros((256, 256), bool)
    for opcode, extras in requests:
        table[opcode, extras] = True
    return table


def release_number(release: Release | None) -> int:
    """Return a release as a number that compares: 6.5 is 605; None is 0."""
    return 0 if release is None else release.major * 100 + release.minor


def _since() -> Longs:
    table = np.zeros((256, 256, NO_VERSION + 1), np.int64)
    for form in fingerprints.FORMS:
        if form.dialect is Dialect.DCP:
            version = slice(None) if form.version is None else form.version
            table[form.opcode, form.extras, version] = release_number(form.since)
    return table


#: By opcode and extras length: requests of the size of a UPR message.
IS_UPR_REQUEST = request_table(UPR_REQUESTS)
#: By opcode and extras length: requests that decide a dialect.
HAS_FINGERPRINT = request_table((form.opcode, form.extras) for form in fingerprints.FORMS)
#: By opcode and extras length: requests that upr has in this size, and dcp does not.
IS_UPR_ALONE = request_table(_sizes(Dialect.UPR) - _sizes(Dialect.DCP))
#: By opcode: frames that can be evidence of a dialect, or change what is negotiated.
IS_EVIDENCE = opcode_table([*(message.opcode for message in _UPR_MESSAGES), *registry.DRAFT_OPCODES, HELLO])
#: By opcode: messages of the draft, or of the key-value commands that have the same numbers.
IS_DRAFT_OPCODE = opcode_table(registry.DRAFT_OPCODES)
#: By opcode and extras length: frames that say something of a connection that is UPR already.
SAYS_MORE = HAS_FINGERPRINT | IS_DRAFT_OPCODE[:, None] | opcode_table([HELLO])[:, None]
#: By opcode, extras length and marker version (or :data:`NO_VERSION`): number of the first release to send this in dcp.
SINCE = _since()


def is_draft_form(*, request: bool, opcode: int, subtype: int, extras: int, key: int, value: int) -> bool:
    """Tell whether a frame has a form that the draft has and no key-value command, but may be a broken one of those.

    The draft's stream start is not among them: the answer to a REPLACE is the same. Nor are items, which prove it.
    """
    if request:
        is_set = extras == fingerprints.SET_EXTRAS and key > 0
        return (opcode, subtype, extras) in _DRAFT_REQUESTS and not is_set
    # Refusals of key-value commands may have a datatype too, that of their text.
    return not extras and not key and value in _DRAFT_PUSHES.get((opcode, subtype), ())


@dataclass(slots=True)
class DialectTally:
    """The evidence of one connection for upr and for dcp, weighed: both have the same opcodes, in other forms.

    The dialect with more evidence leads, and dcp in a tie. A producer decides what it speaks: each of its
    messages counts, while all stream requests of one form count once, for a producer may refuse them. Servers that know
    HELLO are later than upr.
    """

    hello: bool = False
    leader: Dialect | None = None
    _counts: dict[Dialect, int] = field(default_factory=lambda: {Dialect.UPR: 0, Dialect.DCP: 0})
    _asked: set[Dialect] = field(default_factory=set)

    def add(self, opcode: int, dialect: Dialect) -> None:
        """Take a request that only one dialect has in this form."""
        if opcode == _STREAM_REQUEST:
            if dialect in self._asked:
                return
            self._asked.add(dialect)
        self._counts[dialect] += 1
        self.leader = Dialect.DCP if self._lead(Dialect.DCP) >= 0 else Dialect.UPR

    @property
    def dialect(self) -> Dialect | None:
        """Return the dialect that the evidence speaks for; None: there is none, or none but HELLO."""
        return Dialect.DCP if self.hello and self.leader is not None else self.leader

    @property
    def final(self) -> bool:
        """Tell whether no later evidence can change the dialect."""
        return self.hello or (self.leader is not None and self._lead(self.leader) >= _CERTAIN)

    @property
    def settled(self) -> Dialect | None:
        """Return the dialect if it is beyond doubt: then a message in a form of the other one is a broken one.

        A producer's messages decide, and stream requests only where those say nothing: a client may ask in a form that
        the producer does not know. Everything that was released speaks dcp, so that one message more of it is enough;
        builds of upr are so rare that one message may rather be a broken one, unless requests agree with it.
        """
        lead = self._sent(Dialect.DCP) - self._sent(Dialect.UPR)
        if self.hello or lead > 0 or (lead == 0 and self._asked == {Dialect.DCP}):
            return Dialect.DCP
        if -lead >= _CERTAIN or (lead < 0 and self._asked == {Dialect.UPR}):
            return Dialect.UPR
        return None

    @property
    def settled_for_good(self) -> bool:
        """Tell whether no later evidence can change what is settled."""
        return self.hello or abs(self._sent(Dialect.DCP) - self._sent(Dialect.UPR)) >= _CERTAIN

    def _sent(self, dialect: Dialect) -> int:
        """Return how many messages speak for a dialect, stream requests aside."""
        return self._counts[dialect] - (dialect in self._asked)

    def _lead(self, dialect: Dialect) -> int:
        other = Dialect.UPR if dialect is Dialect.DCP else Dialect.DCP
        return self._counts[dialect] - self._counts[other]
