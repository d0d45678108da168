"""What a frame proves about dialect and release, as tables: by opcode, extras length and marker version.

Derived from the spec's fingerprints and layouts, once, for everything that judges connections: the detector frame by
frame, the connection summary, the rules' context and the pre-scan of a split capture by columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.spec import fingerprints, registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dissector.array_types import Longs, Mask
    from dissector.spec.model import Release

_UPR_MESSAGES = [message for message in registry.MESSAGES if message.dialect is Dialect.DCP]
HELLO = registry.named(Dialect.DCP, "hello").opcode

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
#: By opcode: frames that can be evidence of a dialect, or change what is negotiated.
IS_EVIDENCE = opcode_table([*(message.opcode for message in _UPR_MESSAGES), *registry.DRAFT_OPCODES, HELLO])
#: By opcode: messages of the draft, or of the key-value commands that have the same numbers.
IS_DRAFT_OPCODE = opcode_table(registry.DRAFT_OPCODES)
#: By opcode, extras length and marker version (or :data:`NO_VERSION`): number of the first release to send this in dcp.
SINCE = _since()
