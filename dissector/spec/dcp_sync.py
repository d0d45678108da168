"""The dialect ``dcp``: sync writes (prepare, commit, abort and their acknowledgement) and the transfer of caches."""

from __future__ import annotations

from dissector.spec import enums, fields
from dissector.spec.model import (
    UNRELEASED,
    Body,
    CasRule,
    Dialect,
    Field,
    FlowSize,
    KeyRole,
    Layout,
    Message,
    Party,
    Presence,
    Refusal,
    Release,
    Reply,
    Shape,
    UInt,
)
from dissector.spec.refusals import DOCUMENT, STREAM_MESSAGE

_EMPTY = ((enums.SUCCESS, Shape(datatypes=(0,))),)
_PREPARED_SEQNO = fields.seqno("prepared_seqno", "seqno of the prepare")


def _completion_refusals(*specific: Refusal) -> tuple[Refusal, ...]:
    """Put what these messages are refused for in place of the general reasons for the same statuses."""
    own = {refusal.status for refusal in specific}
    return (*specific, *(refusal for refusal in STREAM_MESSAGE if refusal.status not in own))


MESSAGES: tuple[Message, ...] = (
    Message(
        Dialect.DCP,
        0x60,
        "prepare",
        "DCP_PREPARE",
        Party.PRODUCER,
        Party.CONSUMER,
        "A sync write that waits until enough replicas have it. Sent to connections with enable_sync_writes; a "
        "commit or an abort of the same key follows. A backfill sends prepares with the changes that they became, "
        "not with commits.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "prepare",
                    extras=(
                        *fields.MUTATION_28,
                        fields.NRU,
                        Field("deleted", UInt.U8, "1: the prepared change is a deletion", enums.BOOLEAN),
                        Field("durability_level", UInt.U8, "what the write waits for", enums.DURABILITY_LEVELS),
                    ),
                ),
            ),
            key=Presence.MUST,
            value=Presence.MAY,
            body=Body.DOCUMENT,
            key_role=KeyRole.DOCUMENT,
            cas=CasRule.NOT_ZERO,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(
            2, "the whole frame and 2 bytes more: 57 bytes, key and value (MB-46634, kept for compatibility)"
        ),
        seqno="by_seqno",
        refusals=DOCUMENT,
        since=Release(6, 5),
        errata=("E-38", "E-40"),
    ),
    Message(
        Dialect.DCP,
        0x61,
        "seqno_acknowledged",
        "DCP_SEQNO_ACKNOWLEDGED",
        Party.CONSUMER,
        Party.PRODUCER,
        "A replica has prepared everything up to a seqno. Also sent for the end of a disk snapshot that holds no "
        "prepare.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "seqno acknowledged", extras=(fields.seqno("prepared_seqno", "highest seqno that is prepared"),)
                ),
            ),
            datatypes=(0,),
            cas=CasRule.ZERO,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        refusals=(
            Refusal(0x04, "sync replication is off on the connection, or it has no consumer name"),
            Refusal(0x07, "the vbucket is not there"),
        ),
        since=Release(6, 5),
    ),
    Message(
        Dialect.DCP,
        0x62,
        "commit",
        "DCP_COMMIT",
        Party.PRODUCER,
        Party.CONSUMER,
        "A prepared sync write is done: the prepare of this key takes effect. Connections without sync writes get a "
        "mutation or deletion instead.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "commit",
                    extras=(
                        _PREPARED_SEQNO,
                        fields.seqno("commit_seqno", "seqno of the commit: this message's by_seqno"),
                    ),
                ),
            ),
            key=Presence.MUST,
            key_role=KeyRole.DOCUMENT,
            datatypes=(0,),
            cas=CasRule.ZERO,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 40 bytes and the key"),
        seqno="commit_seqno",
        refusals=_completion_refusals(
            Refusal(0x01, "there is no prepare of the key (or no stream); the producer then drops the connection"),
        ),
        since=Release(6, 5),
    ),
    Message(
        Dialect.DCP,
        0x63,
        "abort",
        "DCP_ABORT",
        Party.PRODUCER,
        Party.CONSUMER,
        "A prepared sync write is given up. From a backfill it comes without its prepare.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "abort",
                    extras=(
                        _PREPARED_SEQNO,
                        fields.seqno("abort_seqno", "seqno of the abort: this message's by_seqno"),
                    ),
                ),
            ),
            key=Presence.MUST,
            key_role=KeyRole.DOCUMENT,
            datatypes=(0,),
            cas=CasRule.ZERO,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 40 bytes and the key"),
        seqno="abort_seqno",
        refusals=_completion_refusals(
            Refusal(0x01, "there is no prepare of the key (or no stream); the producer then drops the connection"),
            Refusal(0x04, "malformed, or no prepare of the key and the snapshot is one from memory"),
            Refusal(None, "prepare and abort of one key in the same snapshot (7.0)"),
        ),
        since=Release(6, 5),
    ),
    Message(
        Dialect.DCP,
        0x66,
        "cache_transfer",
        "DCP_CACHE_TRANSFER",
        Party.PRODUCER,
        Party.CONSUMER,
        "Documents of the producer's cache, in no order and outside snapshots. A consumer without memory answers "
        "out_of_memory, which ends the transfer.",
        "kv_engine",
        request=Shape(value=Presence.MUST, body=Body.CACHE_TRANSFER, datatypes=(0,), cas=CasRule.ZERO),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 24 bytes and the records"),
        refusals=(Refusal(0x82, "the consumer has no memory left: the producer stops the transfer"),),
        since=UNRELEASED,
        errata=("E-38",),
    ),
    Message(
        Dialect.DCP,
        0x67,
        "cache_transfer_end",
        "DCP_CACHE_TRANSFER_END",
        Party.PRODUCER,
        Party.CONSUMER,
        "No more documents of the cache will come; the stream goes on with its first snapshot.",
        "kv_engine",
        request=Shape(datatypes=(0,), cas=CasRule.ZERO),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 24 bytes"),
        since=UNRELEASED,
    ),
)
