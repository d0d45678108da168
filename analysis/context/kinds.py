"""What each message is to the context: the names of :mod:`dissector.frames.message_kinds`.

The messages of the prototype have no kind here: no rule speaks of them.
"""

from __future__ import annotations

from dissector.frames import message_kinds
from dissector.frames.batch import PROTO
from dissector.frames.message_kinds import *  # noqa: F403 - the same names, under the context's roof

KIND_OF = message_kinds.KIND_OF.copy()
KIND_OF[PROTO] = message_kinds.NONE
