"""One number for a vbucket stream of one direction of a connection, so that columns of streams sort and compare fast.

From the highest bit down: number of the connection, vbucket (16 bits), stream id (16 bits; 0: none), side (1 bit: the
direction that the stream's messages are sent in). The functions take one number or an array of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Numbers = TypeVar("Numbers", int, "NDArray[np.int64]")

_STREAM_ID_SHIFT, _VBUCKET_SHIFT, _CONNECTION_SHIFT = 1, 17, 33
_WORD = 0xFFFF


def stream_key(connection: Numbers, vbucket: Numbers, stream_id: Numbers, side: Numbers) -> Numbers:
    """Return the key of a stream."""
    return connection << _CONNECTION_SHIFT | vbucket << _VBUCKET_SHIFT | stream_id << _STREAM_ID_SHIFT | side


def connection_of(key: Numbers) -> Numbers:
    """Return the number of the connection."""
    return key >> _CONNECTION_SHIFT


def vbucket_of(key: Numbers) -> Numbers:
    """Return the vbucket."""
    return key >> _VBUCKET_SHIFT & _WORD


def stream_id_of(key: Numbers) -> Numbers:
    """Return the stream id; 0: none."""
    return key >> _STREAM_ID_SHIFT & _WORD


def side_of(key: Numbers) -> Numbers:
    """Return the side that sends the stream."""
    return key & 1


def within_connection(key: Numbers) -> Numbers:
    """Return the key without its connection: what tells the streams of one connection apart."""
    return key & ((1 << _CONNECTION_SHIFT) - 1)
