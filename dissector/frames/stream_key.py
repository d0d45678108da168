"""One number for a vbucket's stream in one direction of one connection: for dictionaries, and for columns of rows.

    connection . . . | vbucket, 16 bits | stream id, 16 bits | direction, 1 bit

Functions take numbers or arrays of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = TypeVar("Number", int, NDArray[np.int64])

#: Bits of a key below its connection.
KEY_BITS = 33
_VBUCKET_SHIFT = 17
_STREAM_ID_SHIFT = 1
_MASK = 0xFFFF


def stream_key(connection: Number, vbucket: Number, stream_id: Number, side: Number) -> Number:
    """Return the key of a stream; a stream id of 0 stands for none."""
    return connection << KEY_BITS | vbucket << _VBUCKET_SHIFT | stream_id << _STREAM_ID_SHIFT | side


def connection_of(key: Number) -> Number:
    """Return the connection of a key."""
    return key >> KEY_BITS


def vbucket_of(key: Number) -> Number:
    """Return the vbucket of a key."""
    return key >> _VBUCKET_SHIFT & _MASK


def stream_id_of(key: Number) -> Number:
    """Return the stream id of a key; 0 stands for none."""
    return key >> _STREAM_ID_SHIFT & _MASK


def side_of(key: Number) -> Number:
    """Return the direction of a key."""
    return key & 1


def within_connection(key: Number) -> Number:
    """Return the key without its connection."""
    return key & ((1 << KEY_BITS) - 1)
