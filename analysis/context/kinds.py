"""What each message is to the context: the names of :mod:`dissector.frames.message_kinds`.

The messages of the prototype have no kind here: no rule speaks of them.
"""

from __future__ import annotations

from dissector.frames import message_kinds
from dissector.frames.batch import PLAIN, PROTO
from dissector.frames.message_kinds import *  # noqa: F403 - the same names, under the context's roof
from dissector.spec import registry
from dissector.spec.model import Dialect

KIND_OF = message_kinds.KIND_OF.copy()
KIND_OF[PROTO] = message_kinds.NONE
#: What comes before the open, beside HELLO: log-in and the choice of a bucket.
BEFORE_OPEN = tuple(
    registry.named(Dialect.MEMCACHED, name).opcode
    for name in ("sasl_list_mechs", "sasl_auth", "sasl_step", "select_bucket")
)
KIND_OF[PLAIN, :, list(BEFORE_OPEN)] = message_kinds.SETUP
