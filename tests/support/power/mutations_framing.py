"""Violations of FRM-01 to 05, 14 and 15: lengths, magics, opcodes and layouts of single messages."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import answers, asks, in_streams, kind, plain
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

ITEM = (m.MUTATION, m.DELETION, m.EXPIRATION)


def _next(talk: Talk, message: Message) -> list[Message]:
    """The message and the next one of its side: where lengths are wrong, either may be where it shows."""
    after = talk.behind(message, message.side)
    return [message, after[0]] if after else []


# --- FRM-01 --------------------------------------------------------------------------------------------------------


@kind("FRM-01", where=in_streams(*ITEM))
def key_longer_than_body(_: Talk, message: Message) -> Message | None:
    """The key length exceeds what the body has."""
    if message.magic in m.FLEXIBLE and len(message.body) > 250:
        return None
    message.overrides["key"] = len(message.body) + 1
    return message if len(message.body) < 60_000 else None


@kind("FRM-01", where=in_streams(m.MARKER, m.STREAM_END))
def extras_longer_than_body(_: Talk, message: Message) -> Message:
    """The extras length exceeds the body."""
    message.overrides["extras"] = len(message.body) + 9
    return message


@kind("FRM-01", "FRM-02", where=in_streams(*ITEM))
def stray_bytes(talk: Talk, message: Message) -> list[Message]:
    """A few bytes between two messages that belong to none."""
    message.tail = bytes(7)
    return _next(talk, message)


@kind("FRM-01", "FRM-02", where=in_streams(m.MUTATION))
def body_too_short(talk: Talk, message: Message) -> list[Message]:
    """The total body leaves out the value's last bytes, which then lie between two messages."""
    if len(message.value) < 12:
        return []
    message.overrides["body"] = len(message.body) - 5
    return _next(talk, message)


@kind("FRM-01", "FRM-02", where=in_streams(m.MUTATION))
def body_too_long(talk: Talk, message: Message) -> list[Message]:
    """The total body reaches into the next message."""
    message.overrides["body"] = len(message.body) + 5
    after = talk.behind(message, message.side)
    return [message, *after[:2]] if len(after) > 1 else []  # the next one cannot be read: the one behind it shows it


@kind("FRM-01", "FRM-02", where=answers(m.STREAM_REQUEST))
def stray_failover_log(talk: Talk, message: Message) -> list[Message]:
    """A granted stream whose body length leaves out the failover log."""
    if not message.value or message.magic in m.FLEXIBLE:
        return []
    message.overrides["body"] = 0
    return _next(talk, message)


@kind("FRM-01", where=in_streams(m.MUTATION, m.MARKER))
def framing_longer_than_body(_: Talk, message: Message) -> Message | None:
    """The framing length exceeds the body."""
    if message.magic != 0x08:
        return None
    message.overrides["framing"] = 255
    return message if len(message.body) < 255 else None


# --- FRM-02 --------------------------------------------------------------------------------------------------------


@kind("FRM-02", where=in_streams(*ITEM))
def unknown_opcode(_: Talk, message: Message) -> Message:
    """An opcode that no release has."""
    message.opcode = 0x6F
    return message


@kind("FRM-02", where=asks(m.NOOP, m.CONTROL))
def unknown_opcode_of_request(_: Talk, message: Message) -> Message:
    """A request with an opcode between those of UPR and those of others."""
    message.opcode = 0x7C
    return message


@kind("FRM-02", "FRM-01", where=in_streams(*ITEM))
def unknown_magic(talk: Talk, message: Message) -> list[Message]:
    """A first byte that is no magic."""
    message.magic = 0x90
    return _next(talk, message)


@kind("FRM-02", where=in_streams(*ITEM, m.MARKER))
def flexible_before_its_time(talk: Talk, message: Message) -> Message | None:
    """Flexible framing on a connection without HELLO and without stream ids."""
    if talk.modern or talk.agreed(b"enable_stream_id") or len(message.key) > 250:
        return None
    message.magic = 0x08
    return message


# --- FRM-03 --------------------------------------------------------------------------------------------------------


@kind("FRM-03", where=in_streams(m.MUTATION))
def short_mutation(_: Talk, message: Message) -> Message:
    """A mutation without its last byte of extras."""
    message.extras = message.extras[:-2]
    return message


@kind("FRM-03", where=in_streams(m.DELETION, m.EXPIRATION))
def long_deletion(_: Talk, message: Message) -> Message:
    """A deletion with extras of no release."""
    message.extras += bytes(2)
    return message


@kind("FRM-03", where=in_streams(m.MARKER))
def long_marker(_: Talk, message: Message) -> Message | None:
    """A marker with two bytes of extras more than it has."""
    if len(message.extras) != 20:
        return None
    message.extras += bytes(2)
    return message


@kind("FRM-03", "FRM-05", where=asks(m.ACK))
def ack_as_value(talk: Talk, message: Message) -> Message | None:
    """A buffer ack with its count as a value, as in May 2014, on a connection of later releases."""
    if talk.early:
        return None
    message.value, message.extras = message.extras, b""
    message.kept = True
    return message


@kind("FRM-03", where=asks(m.STREAM_REQUEST))
def old_stream_request(talk: Talk, message: Message) -> Message | None:
    """A stream request of 40 bytes between others of 48."""
    if talk.early or len(message.extras) != 48:
        return None
    message.extras = message.extras[:40]
    return message


@kind("FRM-03", where=in_streams(m.STREAM_END))
def end_without_extras(_: Talk, message: Message) -> Message:
    """A stream end without a reason."""
    message.extras = b""
    return message


@kind("FRM-03", where=asks(m.OPEN))
def short_open(_: Talk, message: Message) -> Message:
    """An open with flags alone."""
    message.extras = message.extras[4:]
    return message


@kind("FRM-03", where=in_streams(m.PREPARE, m.COMMIT, m.ABORT, m.ADVANCED, m.EVENT, m.OSO))
def short_extras(_: Talk, message: Message) -> Message:
    """A later message without the last byte of its extras."""
    message.extras = message.extras[:-1]
    return message


@kind("FRM-03", where=asks(m.STATE))
def long_state(_: Talk, message: Message) -> Message:
    """A vbucket state of four bytes."""
    message.extras = bytes(3) + message.extras
    return message


# --- FRM-04 --------------------------------------------------------------------------------------------------------


@kind("FRM-04", where=in_streams(m.MUTATION, m.PREPARE))
def mutation_without_key(_: Talk, message: Message) -> Message:
    """A document without a key."""
    message.key = b""
    return message


@kind("FRM-04", where=in_streams(m.DELETION, m.EXPIRATION, m.COMMIT, m.ABORT))
def deletion_without_key(_: Talk, message: Message) -> Message:
    """A deletion, a commit or an abort without a key."""
    message.key = b""
    return message


@kind("FRM-04", where=in_streams(m.STREAM_END, m.MARKER, m.ADVANCED))
def key_where_none_belongs(_: Talk, message: Message) -> Message:
    """A marker, a seqno advanced or a stream end with a key."""
    message.key = b"key"
    return message


@kind("FRM-04", where=asks(m.STREAM_REQUEST, m.NOOP, m.ACK, m.CLOSE_STREAM, m.FAILOVER_LOG))
def request_with_key(_: Talk, message: Message) -> Message:
    """A request that is about no name, with one."""
    message.key = b"name"
    return message


@kind("FRM-04", where=asks(m.CONTROL, m.OPEN))
def request_without_key(_: Talk, message: Message) -> Message:
    """A control or an open without a name."""
    message.key = b""
    return message


# --- FRM-05 --------------------------------------------------------------------------------------------------------


@kind("FRM-05", where=plain(m.MARKER))
def marker_with_value(_: Talk, message: Message) -> Message | None:
    """A short marker with a value."""
    if message.value:
        return None
    message.value = bytes(8)
    return message


@kind("FRM-05", where=in_streams(m.STREAM_END, m.ADVANCED, m.COMMIT, m.ABORT, m.OSO))
def value_where_none_belongs(_: Talk, message: Message) -> Message:
    """A message of a stream with a value that it never has."""
    message.value = b"value"
    return message


@kind("FRM-05", where=asks(m.NOOP, m.ACK, m.CLOSE_STREAM, m.FAILOVER_LOG))
def request_with_value(talk: Talk, message: Message) -> Message | None:
    """A request with a value that it never has."""
    if talk.early and message.opcode == m.ACK:
        return None
    message.value = b"value"
    return message


@kind("FRM-05", "FRM-14", where=answers(m.STREAM_REQUEST, m.FAILOVER_LOG))
def cut_failover_log(_: Talk, message: Message) -> Message | None:
    """A failover log whose last entry is not whole."""
    if not message.value:
        return None
    message.value = message.value[:-3]
    return message


@kind("FRM-05", where=asks(m.CONTROL))
def control_without_value(_: Talk, message: Message) -> Message:
    """A control parameter without its value."""
    message.value = b""
    return message


# --- FRM-14 --------------------------------------------------------------------------------------------------------


def _transfers(talk: Talk) -> list[Message]:
    return [each for each in in_streams(m.CACHE)(talk) if len(each.value) > 48]


@kind("FRM-14", where=_transfers)
def cut_record(_: Talk, message: Message) -> Message:
    """Cached records of which the last lacks its end."""
    message.value = message.value[:-2]
    return message


@kind("FRM-14", where=_transfers)
def record_without_key(_: Talk, message: Message) -> Message:
    """A cached record whose key is empty, with its bytes counted to the value."""
    key = int.from_bytes(message.value[36:38])
    length = int.from_bytes(message.value[24:28]) + key
    head = message.value[:24] + length.to_bytes(4) + message.value[28:36] + bytes(2)
    message.value = head + message.value[38:]
    return message


@kind("FRM-14", where=_transfers)
def record_with_wrong_length(_: Talk, message: Message) -> Message:
    """A cached record whose value length reaches beyond the message."""
    message.value = message.value[:24] + (len(message.value) + 50).to_bytes(4) + message.value[28:]
    return message


# --- FRM-15 --------------------------------------------------------------------------------------------------------


@kind("FRM-15", where=asks(m.STREAM_REQUEST, m.FAILOVER_LOG))
def vbucket_beyond_cluster(_: Talk, message: Message) -> Message:
    """A request for a vbucket that no cluster has."""
    message.number = 4711
    return message


@kind("FRM-15", "OPQ-04", where=in_streams(m.MUTATION, m.DELETION))
def item_of_vbucket_beyond_cluster(_: Talk, message: Message) -> Message:
    """An item of a vbucket that no cluster has."""
    message.number = 1024
    return message
