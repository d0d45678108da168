"""What each message is to the context: the names of :mod:`dissector.frames.message_kinds`.

The context takes all set-up messages as one kind, and those of the prototype as none: no rule speaks of them.
"""

from __future__ import annotations

import numpy as np

from dissector.frames import message_kinds
from dissector.frames.batch import PROTO
from dissector.frames.message_kinds import *  # noqa: F403 - the same names, under the context's roof

DESK, CLOSING = message_kinds.SETUP, message_kinds.SNAPSHOT_END
KIND_OF = np.minimum(message_kinds.KIND_OF, DESK)
KIND_OF[PROTO] = message_kinds.NONE
