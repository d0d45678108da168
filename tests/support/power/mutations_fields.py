"""Violations of FRM-06 to 13: datatypes, CAS, reserved fields, keys, values and numbers of single messages."""

from __future__ import annotations

import re

from tests.support.power import messages as m
from tests.support.power.kinds import Selector, answers, asks, in_streams, kind, plain
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

SNAPPY, XATTR, COLLECTIONS = 0x0A, 0x06, 0x12
KEEPS_DATATYPE = 0x40
_SID = re.compile(rb'("sid"\s*:\s*)(\d+)')


def _without_hello(selector: Selector) -> Selector:
    """Only on connections whose peers cannot be newer than the checker: flags without a name mean something there."""
    return lambda talk: [] if talk.modern else selector(talk)


def _with_collections(talk: Talk) -> list[Message]:
    if COLLECTIONS not in talk.hello:
        return []
    return in_streams(m.MUTATION, m.DELETION, m.EXPIRATION, m.PREPARE, m.COMMIT)(talk)


def _with_values(talk: Talk) -> list[Message]:
    if talk.open_flags & (KEEPS_DATATYPE | 0x08):
        return []
    return [each for each in in_streams(m.MUTATION)(talk) if len(each.value) > 8]


# --- FRM-06 --------------------------------------------------------------------------------------------------------


@kind("FRM-06", where=in_streams(m.MUTATION, m.PREPARE))
def unknown_datatype(_: Talk, message: Message) -> Message:
    """A bit of the datatype that has no meaning."""
    message.datatype |= 0x10
    return message


@kind("FRM-06", where=in_streams(m.DELETION))
def json_deletion(_: Talk, message: Message) -> Message:
    """A deletion with a JSON value and nothing else."""
    message.datatype = 1
    return message


@kind("FRM-06", where=in_streams(m.MARKER, m.STREAM_END))
def typed_marker(_: Talk, message: Message) -> Message:
    """A marker or a stream end with a datatype."""
    message.datatype = 1
    return message


@kind("FRM-06", where=asks(m.CONTROL, m.ACK, m.STATE))
def typed_request(_: Talk, message: Message) -> Message:
    """A control, an ack or a state with a datatype."""
    message.datatype = 2
    return message


# --- FRM-07 --------------------------------------------------------------------------------------------------------


@kind("FRM-07", "SEQ-06", where=in_streams(m.MUTATION))
def mutation_without_cas(talk: Talk, message: Message) -> Message | None:
    """A mutation with CAS 0, from a server that gives every document one."""
    if not talk.modern or talk.open_flags & 0x08:
        return None
    message.cas = 0
    return message


@kind("FRM-07", where=in_streams(m.PREPARE))
def prepare_without_cas(_: Talk, message: Message) -> Message:
    """A prepare with CAS 0."""
    message.cas = 0
    return message


@kind("FRM-07", where=lambda talk: in_streams(m.COMMIT, m.ABORT, m.CACHE, m.CACHE_END)(talk) + talk.asks(m.SEQNO_ACK))
def cas_where_none_belongs(_: Talk, message: Message) -> Message:
    """A commit, an abort, a cache transfer or a seqno acknowledged with a CAS."""
    message.cas = 1_790_000_000_000_000_000
    return message


# --- FRM-08 --------------------------------------------------------------------------------------------------------


@kind("FRM-08", where=asks(m.STREAM_REQUEST))
def reserved_in_stream_request(_: Talk, message: Message) -> Message:
    """Reserved bytes of a stream request that are not 0."""
    message.put(4, 7, 4)
    return message


@kind("FRM-08", where=_without_hello(plain(m.MARKER)))
def unnamed_marker_flag(talk: Talk, message: Message) -> Message | None:
    """A marker's flag without a name, of a server that cannot be newer than the checker."""
    if not message.ranged or talk.early:
        return None
    message.flags |= 0x100
    return message


@kind("FRM-08", where=_without_hello(asks(m.STREAM_REQUEST)))
def unnamed_stream_flag(talk: Talk, message: Message) -> Message | None:
    """A stream request's flag without a name that its receiver granted."""
    answer = talk.answer_to(message)
    if answer is None or answer.number or talk.early:
        return None
    message.put(0, message.at(0, 4) | 0x4000, 4)
    return message


@kind("FRM-08", where=_without_hello(asks(m.OPEN)))
def unnamed_open_flag(talk: Talk, message: Message) -> Message | None:
    """An open's flag without a name that its receiver accepted."""
    answer = talk.answer_to(message)
    if answer is None or answer.number:
        return None
    message.put(4, message.at(4, 4) | 0x8000, 4)
    return message


# --- FRM-09 --------------------------------------------------------------------------------------------------------


@kind("FRM-09", where=_with_collections)
def padded_collection_id(_: Talk, message: Message) -> Message:
    """A collection id with a zero byte too many."""
    message.key = b"\x88\x00" + message.key[1:]
    return message


@kind("FRM-09", where=_with_collections)
def endless_collection_id(_: Talk, message: Message) -> Message:
    """A collection id of six bytes."""
    message.key = b"\xff\xff\xff\xff\xff\x01" + message.key[1:]
    return message


@kind("FRM-09", where=_with_collections)
def collection_id_alone(_: Talk, message: Message) -> Message:
    """A collection id with no key behind it."""
    message.key = message.key[:1]
    return message


@kind("FRM-09", where=_with_collections)
def key_too_long(_: Talk, message: Message) -> Message | None:
    """A key of 252 bytes."""
    message.key = (message.key + b"k" * 252)[:252]
    return message if message.magic not in m.FLEXIBLE else None


# --- FRM-10 --------------------------------------------------------------------------------------------------------


@kind("FRM-10", where=_with_values)
def broken_snappy(talk: Talk, message: Message) -> Message | None:
    """A value that is called compressed and is not."""
    if SNAPPY not in talk.hello:
        return None
    message.datatype = 2
    message.value = b"\xff\xff\xff\xff\xff\xff" + message.value[6:]
    return message


@kind("FRM-10", where=_with_values)
def broken_xattrs(talk: Talk, message: Message) -> Message | None:
    """Xattrs that are longer than the value."""
    if not talk.open_flags & 0x04:
        return None
    message.datatype = 4
    message.value = (len(message.value) + 100).to_bytes(4) + message.value[4:]
    return message


@kind("FRM-10", where=_with_values)
def xattrs_that_do_not_add_up(talk: Talk, message: Message) -> Message | None:
    """A pair of xattrs that reaches beyond their end."""
    if not talk.open_flags & 0x04:
        return None
    message.datatype = 4
    message.value = (12).to_bytes(4) + (40).to_bytes(4) + b"_a\0{}\0\0\0" + message.value
    return message


@kind("FRM-10", where=_with_values)
def broken_json(talk: Talk, message: Message) -> Message | None:
    """A value that is called JSON and is not."""
    if talk.modern and 0x0B not in talk.hello:
        return None
    message.datatype = 1
    message.value = b'{"a": ' + message.value[6:-1] + b"\x01"
    return message


def _with_tables(talk: Talk) -> list[Message]:
    return [each for each in in_streams(m.EVENT)(talk) if each.extras[12:] == b"\x02"]


@kind("FRM-10", where=_with_tables)
def table_outside(_: Talk, message: Message) -> Message:
    """A system event whose value says that its table is behind it."""
    message.value = len(message.value).to_bytes(4, "little") + message.value[4:]
    return message


@kind("FRM-10", where=_with_tables)
def table_cut(_: Talk, message: Message) -> Message:
    """A system event with the first half of its table."""
    message.value = message.value[: len(message.value) // 2]
    return message


@kind("FRM-10", where=_with_tables)
def vtable_outside(_: Talk, message: Message) -> Message:
    """A system event whose table says that its vtable is in front of the value."""
    place = int.from_bytes(message.value[:4], "little")
    message.value = message.value[:place] + (place + 2).to_bytes(4, "little") + message.value[place + 4 :]
    return message


@kind("FRM-10", where=_with_tables)
def compressed_table(_: Talk, message: Message) -> Message:
    """A system event as servers stored it (MB-54967): its table is a snappy block, here one literal."""
    size = len(message.value)
    message.value = bytes([size, 60 << 2, size - 1]) + message.value
    return message


# --- FRM-11 --------------------------------------------------------------------------------------------------------


def _versioned(talk: Talk) -> list[Message]:
    return [each for each in in_streams(m.MARKER)(talk) if len(each.extras) == 1]


@kind("FRM-11", where=_versioned)
def unknown_marker_version(_: Talk, message: Message) -> Message:
    """A marker of a version that does not exist."""
    message.extras = b"\x07"
    return message


@kind("FRM-11", "FRM-05", where=_versioned)
def cut_marker(_: Talk, message: Message) -> Message:
    """A marker whose value lacks its last number."""
    message.value = message.value[:-8]
    return message


@kind("FRM-11", "FRM-05", where=_versioned)
def marker_of_other_version(_: Talk, message: Message) -> Message:
    """A marker whose length is that of another version."""
    message.extras = b"\x02" if message.extras == b"\x00" else b"\x00"
    return message


@kind("FRM-11", where=_versioned)
def withdrawn_marker_version(_: Talk, message: Message) -> Message:
    """A marker of the version that was never sent."""
    message.extras = b"\x01"
    message.value = (message.value + bytes(44))[:44]
    return message


# --- FRM-12 --------------------------------------------------------------------------------------------------------


def _with_nmeta(talk: Talk) -> list[Message]:
    lengths = {m.MUTATION: (28, 31), m.DELETION: (16, 18)}
    return [each for each in in_streams(m.MUTATION, m.DELETION)(talk) if len(each.extras) == lengths[each.opcode][1]]


@kind("FRM-12", where=_with_nmeta)
def metadata_beyond_value(_: Talk, message: Message) -> Message:
    """More extended metadata than there are bytes behind the key."""
    message.put(28 if message.opcode == m.MUTATION else 16, len(message.value) + 9, 2)
    return message


@kind("FRM-12", where=_with_nmeta)
def metadata_of_new_server(talk: Talk, message: Message) -> Message | None:
    """Extended metadata from a server that has none."""
    if not talk.modern:
        return None
    message.value += bytes.fromhex("0102000100")
    message.put(28 if message.opcode == m.MUTATION else 16, 5, 2)
    return message


@kind("FRM-12", where=_with_nmeta)
def malformed_metadata(talk: Talk, message: Message) -> Message | None:
    """Extended metadata of an unknown version, with a length that does not fit."""
    if talk.agreed(b"enable_ext_metadata") is None or not message.at(28 if message.opcode == m.MUTATION else 16, 2):
        return None
    message.value = message.value[:-5] + bytes.fromhex("010200ff00")
    return message


# --- FRM-13 --------------------------------------------------------------------------------------------------------


@kind("FRM-13", where=in_streams(m.STREAM_END))
def unknown_end_reason(_: Talk, message: Message) -> Message:
    """A stream end for a reason that does not exist."""
    message.put(0, 77, 4)
    return message


@kind("FRM-13", where=asks(m.STATE))
def unknown_state(_: Talk, message: Message) -> Message:
    """A vbucket state that does not exist."""
    message.extras = b"\x09"
    return message


@kind("FRM-13", where=in_streams(m.OSO))
def unknown_bracket(_: Talk, message: Message) -> Message:
    """An out-of-order snapshot that neither starts nor ends."""
    message.put(0, 3, 4)
    return message


@kind("FRM-13", where=in_streams(m.EVENT))
def unknown_event(_: Talk, message: Message) -> Message:
    """A system event that does not exist."""
    message.put(8, 99, 4)
    return message


@kind("FRM-13", where=in_streams(m.PREPARE))
def unknown_durability(_: Talk, message: Message) -> Message:
    """A durability level that does not exist."""
    message.put(30, 9, 1)
    return message


def _with_stream_ids(talk: Talk) -> list[Message]:
    return [each for each in asks(m.STREAM_REQUEST)(talk) if _SID.search(each.value)]


@kind("FRM-13", where=_with_stream_ids)
def wide_stream_id(_: Talk, message: Message) -> Message:
    """A stream id of 17 bits, of which the server keeps those that it had."""
    message.value = _SID.sub(lambda found: found[1] + b"%d" % (int(found[2]) + 65536), message.value)
    return message


@kind("FRM-13", where=answers(m.CONTROL, m.NOOP, m.CLOSE_STREAM, m.FAILOVER_LOG))
def unknown_status(_: Talk, message: Message) -> Message:
    """An answer with a status that has no name."""
    message.number = 0x0666
    return message
