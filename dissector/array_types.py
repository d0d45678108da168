"""Short names for the numpy arrays that the whole project passes around.

For annotations: import this module under ``TYPE_CHECKING``, so that it costs nothing at run time. An array holds one
element per packet, segment, frame or row unless its user says otherwise.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
"""The bytes of a buffer, or small codes."""
Ints: TypeAlias = NDArray[np.int32]
"""Indexes into short tables: flows, interfaces, link types, Arrow dictionaries."""
Longs: TypeAlias = NDArray[np.int64]
"""Offsets, lengths, times, seqnos, row numbers."""
Words: TypeAlias = NDArray[np.uint32]
"""32-bit words as on the wire: TCP sequence numbers, checksummed words."""
Mask: TypeAlias = NDArray[np.bool_]
"""Which elements of another array are meant."""
Structs: TypeAlias = NDArray[np.void]
"""Fixed-size structures: headers read in place by a numpy layout."""
