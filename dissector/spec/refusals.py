"""How receivers say no: the statuses that several messages share, each with its reason."""

from __future__ import annotations

from dissector.spec.model import Refusal

#: A consumer is silent about what it takes, and answers what it does not with one of these.
STREAM_MESSAGE: tuple[Refusal, ...] = (
    Refusal(0x01, "the consumer has no stream for the vbucket"),
    Refusal(0x02, "the opaque is not that of the vbucket's stream"),
    Refusal(0x04, "malformed, or not expected in this state of the stream"),
    Refusal(0x07, "the vbucket is not on this node, or takes no changes in its state"),
    Refusal(0x0A, "as key_not_found, once v7_dcp_status_codes was accepted"),
    Refusal(0x0B, "as key_exists, once v7_dcp_status_codes was accepted"),
    Refusal(0x22, "the seqno is not above the last one, or outside the snapshot"),
    Refusal(0x82, "the consumer has no memory left"),
    Refusal(0x86, "the consumer cannot take it now"),
)

#: Messages that carry a document can also be refused for what is in it.
DOCUMENT: tuple[Refusal, ...] = (
    *STREAM_MESSAGE,
    Refusal(0x87, "the xattrs are malformed"),
    Refusal(0x88, "the consumer does not have the key's collection"),
)

#: Seen from a 7.0 server, which does not take these two as a consumer.
UNKNOWN_TO_CONSUMER = Refusal(0x81, "servers before the feature, and 7.0 ones too, do not take it as consumers")

ANOTHER_ROLE = "the receiver does not have the role that the message is for"
