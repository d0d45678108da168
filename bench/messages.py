"""The few frames that busy replication is made of: packed by hand for speed, checked against the project's encoder."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
from truth import MUTATION

from dissector.codec.encoder import encode, pack_records
from dissector.spec import registry
from dissector.spec.fields import FAILOVER_ENTRY
from dissector.spec.model import Dialect

Numbers = npt.NDArray[np.int64]

OPEN, STREAM_REQUEST, SNAPSHOT_MARKER, BUFFER_ACK, CONTROL = 0x50, 0x53, 0x56, 0x5D, 0x5E
REQUEST, RESPONSE = 0x80, 0x81
NO_END = (1 << 64) - 1

_HEADER = struct.Struct(">BBHBBHIIQ")
_MUTATION = np.dtype(
    [
        ("magic", "u1"),
        ("opcode", "u1"),
        ("key_length", ">u2"),
        ("extras_length", "u1"),
        ("datatype", "u1"),
        ("vbucket", ">u2"),
        ("body_length", ">u4"),
        ("opaque", ">u4"),
        ("cas", ">u8"),
        ("by_seqno", ">u8"),
        ("rev_seqno", ">u8"),
        ("item_flags", ">u4"),
        ("expiration", ">u4"),
        ("lock_time", ">u4"),
        ("metadata_size", ">u2"),
        ("nru", "u1"),
    ]
)
MUTATION_HEAD_BYTES = _MUTATION.itemsize
_MUTATION_EXTRAS = MUTATION_HEAD_BYTES - _HEADER.size
_ITEM_FLAGS = 0x02000006
FIRST_CAS = 0x1500_0000_0000_0000


def open_request(name: bytes, opaque: int) -> bytes:
    """A consumer opens a connection; the receiver becomes the producer."""
    extras = struct.pack(">II", 0, 1)
    return _HEADER.pack(REQUEST, OPEN, len(name), 8, 0, 0, 8 + len(name), opaque, 0) + extras + name


def control_request(key: bytes, value: bytes, opaque: int) -> bytes:
    """A consumer sets a parameter of the connection."""
    return _HEADER.pack(REQUEST, CONTROL, len(key), 0, 0, 0, len(key) + len(value), opaque, 0) + key + value


def empty_response(opcode: int, opaque: int) -> bytes:
    """Success, and nothing to say."""
    return _HEADER.pack(RESPONSE, opcode, 0, 0, 0, 0, 0, opaque, 0)


def stream_request(vbucket: int, opaque: int, uuid: int) -> bytes:
    """A consumer asks for a vbucket from its beginning."""
    return _HEADER.pack(REQUEST, STREAM_REQUEST, 0, 48, 0, vbucket, 48, opaque, 0) + struct.pack(
        ">IIQQQQQ", 0, 0, 0, NO_END, uuid, 0, 0
    )


def stream_response(opaque: int, log: list[tuple[int, int]]) -> bytes:
    """The producer agrees, and sends its failover log of uuids and seqnos."""
    body = b"".join(struct.pack(">QQ", uuid, seqno) for uuid, seqno in log)
    return _HEADER.pack(RESPONSE, STREAM_REQUEST, 0, 0, 0, 0, len(body), opaque, 0) + body


def snapshot_marker(vbucket: int, opaque: int, start: int, end: int) -> bytes:
    """A snapshot in memory begins."""
    return _HEADER.pack(REQUEST, SNAPSHOT_MARKER, 0, 20, 0, vbucket, 20, opaque, 0) + struct.pack(">QQI", start, end, 1)


def buffer_ack(count: int) -> bytes:
    """A consumer gives bytes back."""
    return _HEADER.pack(REQUEST, BUFFER_ACK, 0, 4, 0, 0, 4, 0, 0) + struct.pack(">I", count)


def mutation_heads(
    vbucket: Numbers, opaque: Numbers, seqno: Numbers, key_length: Numbers, value_length: Numbers, cas: Numbers
) -> npt.NDArray[np.void]:
    """Headers and extras of mutations; keys and values go behind each."""
    heads = np.zeros(len(seqno), _MUTATION)
    heads["magic"], heads["opcode"], heads["extras_length"] = REQUEST, MUTATION, _MUTATION_EXTRAS
    heads["key_length"], heads["vbucket"], heads["opaque"] = key_length, vbucket, opaque
    heads["body_length"] = key_length + value_length + _MUTATION_EXTRAS
    heads["cas"], heads["by_seqno"], heads["rev_seqno"], heads["item_flags"] = cas, seqno, 1, _ITEM_FLAGS
    return heads


def self_check() -> None:
    """Hold one frame of each kind against the project's encoder."""
    known = {name: registry.named(Dialect.DCP, name) for name in ("open", "control", "stream_request", "mutation")}
    marker, ack = (registry.named(Dialect.DCP, name) for name in ("snapshot_marker", "buffer_ack"))
    opaque, log = bytes((0, 0, 1, 2)), [(1 << 63 | 7, 40), (5, 0)]
    entries = pack_records(FAILOVER_ENTRY, [{"vbucket_uuid": uuid, "seqno": seqno} for uuid, seqno in log])
    asked = {"end_seqno": NO_END, "vbucket_uuid": 7}
    marked = {"snap_start_seqno": 4, "snap_end_seqno": 9, "snapshot_type": 1}
    changed = {"by_seqno": 70_000, "rev_seqno": 1, "item_flags": _ITEM_FLAGS}
    one = [np.array([number]) for number in (513, 258, 70_000, 3, 5, FIRST_CAS)]
    cases = {
        "open": (open_request(b"name", 258), encode(known["open"], {"open_flags": 1}, key=b"name", opaque=opaque)),
        "control": (
            control_request(b"key", b"1", 258),
            encode(known["control"], key=b"key", value=b"1", opaque=opaque),
        ),
        "response": (empty_response(OPEN, 258), encode(known["open"], response=True, opaque=opaque)),
        "stream request": (
            stream_request(513, 258, 7),
            encode(known["stream_request"], asked, vbucket=513, opaque=opaque),
        ),
        "stream response": (
            stream_response(258, log),
            encode(known["stream_request"], response=True, value=entries, opaque=opaque),
        ),
        "marker": (snapshot_marker(513, 258, 4, 9), encode(marker, marked, vbucket=513, opaque=opaque)),
        "mutation": (
            mutation_heads(*one).tobytes() + b"keyvalue",
            encode(known["mutation"], changed, key=b"key", value=b"value", vbucket=513, opaque=opaque, cas=FIRST_CAS),
        ),
        "buffer ack": (buffer_ack(77), encode(ack, {"buffer_bytes": 77})),
    }
    for name, (made, expected) in cases.items():
        if made != expected:
            raise RuntimeError(f"{name}: the generator makes {made.hex()}, the encoder {expected.hex()}")
