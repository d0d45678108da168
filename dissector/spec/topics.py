"""What no single message says: how a conversation goes, who waits for whom, what is counted, how bytes are packed.

Each topic is prose and steps, for ``explain`` and the reference page. Numbers that programs need are constants here.
"""

from __future__ import annotations

from typing import NamedTuple

#: Seconds. The no-op interval of 3.0, and what a producer uses since 3.0.2 when it was never told one.
NOOP_INTERVAL_S = 180
NOOP_INTERVAL_UNSET_S = 20
#: Before 5.0: intervals after which a side without its answer, or without a no-op, drops the connection.
NOOP_PRODUCER_INTERVALS = 1
NOOP_CONSUMER_INTERVALS = 2
#: Since 5.0: seconds without any message after which both sides drop the connection (dcp_idle_timeout).
IDLE_TIMEOUT_S = 360
#: A server consumer gives bytes back when this part of its window is free, or after so many seconds.
ACK_FRACTION = 0.2
ACK_DELAY_S = 5
#: A stream id adds this to what flow control counts: the object in the framing extras.
STREAM_ID_FLOW_BYTES = 3


class Topic(NamedTuple):
    """Something about the protocol as a whole."""

    name: str
    doc: str  #: in one sentence
    paragraphs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()  #: what happens, in this order
    errata: tuple[str, ...] = ()


TOPICS: tuple[Topic, ...] = (
    Topic(
        "conversation",
        "From the open to the end of a stream.",
        (
            (
                "Everything on a connection may overlap: both sides send requests at any time, and the messages of "
                "many streams mix. What belongs to a stream has its opaque and vbucket. Two live streams may share "
                "an opaque; then the vbucket tells them apart, or the stream id."
            ),
            (
                "A server's own consumer waits for the answer to its last control before it asks for a stream. By "
                "its source it sends them one by one; 7.0.5 has been seen to send them in a row. After a rollback it "
                "asks again with the same opaque."
            ),
            "end_seqno is no hard limit: a producer completes the snapshot that holds it, so later changes can come.",
            (
                "After a close the other side may still see answers for the stream. In upr a consumer that was told to "
                "close tells its producer only when the next message for the vbucket arrives."
            ),
        ),
        (
            "an open gives the receiver its role; HELLO and a log-in may come first",
            "controls set the connection up, each is answered",
            "a stream request for each vbucket",
            "success with the failover log, or a rollback, after which the consumer asks again from an earlier seqno",
            "snapshot markers, each followed by its changes",
            "a stream end",
        ),
        ("E-28", "E-29", "E-33"),
    ),
    Topic(
        "takeover of a vbucket",
        "How a stream with the flag takeover hands a vbucket over without losing a change.",
        ("All answers have the opaque of the stream. Markers ask for an answer in this conversation only.",),
        (
            "the consumer asks for a stream with the flag takeover",
            "the producer sends what there is; its markers now have the flag acknowledge",
            "the consumer answers each such marker once the change with the snapshot's last seqno is applied",
            "with no answer outstanding, the producer sends set_vbucket_state pending",
            "the consumer answers, and the producer's own vbucket becomes dead: no new changes can happen",
            "what is left is sent and acknowledged in the same way",
            "the producer sends set_vbucket_state active, and the consumer answers",
            "a stream end with reason ok",
        ),
        ("E-10", "E-11"),
    ),
    Topic(
        "connections between servers",
        "Why roles cannot be told from ports or from who connected.",
        (
            (
                "Inside a cluster ns_server opens two connections, one to the node that produces (open flag "
                "producer) and one to the node that consumes (flag clear), and passes frames on unchanged. The same "
                "stream can so be captured twice with the same opaques, and on the leg to the consumer it is the TCP "
                "server that sends stream requests and the TCP client that sends the changes."
            ),
            (
                "Without the open, the senders tell: whoever sends changes, markers or no-ops is the producer, whoever "
                "sends stream requests, controls or acknowledgements the consumer. An add stream goes to a consumer. A "
                "close stream tells nothing."
            ),
        ),
    ),
    Topic(
        "no-op timing",
        "When no-ops are sent, and when a silent peer is given up.",
        (
            (
                "After enable_noop the producer sends a no-op whenever the interval has passed since its last one "
                "and that one was answered, however busy the connection is. set_noop_interval sets the interval, "
                f"which is {NOOP_INTERVAL_S} seconds in 3.0; since 3.0.2 a producer that was never told uses "
                f"{NOOP_INTERVAL_UNSET_S}. The documents allow 20 to 10800 seconds, and the server wants no less than "
                "the interval of its own connection manager."
            ),
            (
                f"Before 5.0 a producer drops the connection when an answer is missing for more than "
                f"{NOOP_PRODUCER_INTERVALS} interval, a consumer when no no-op came for more than "
                f"{NOOP_CONSUMER_INTERVALS}. Since 5.0 both sides give up after {IDLE_TIMEOUT_S} seconds "
                f"(dcp_idle_timeout) without any message."
            ),
            (
                "3.x and 4.x send no-ops only while there is a stream, 7.0 from the start. An answer with another "
                "opaque is no answer."
            ),
        ),
        errata=("E-19", "E-39"),
    ),
    Topic(
        "flow control",
        "What the consumer's window counts, and when the producer stops.",
        (
            (
                "The control connection_buffer_size gives the window its size. The producer adds up what it sends "
                "and sends on while the sum is below the size, so that one message of any size may go beyond it; at "
                "the size it stops. buffer_ack takes bytes off the sum. The builds before 3.0 stop before the window "
                "would overflow, and after an ack send the message that was held back without counting it."
            ),
            (
                "Counted are requests from producer to consumer, with the length of the whole frame: markers, "
                "changes, system events, seqno advanced, out-of-order brackets, stream ends, vbucket states and "
                f"cache transfers. A prepare counts 2 bytes more than it has, a stream id {STREAM_ID_FLOW_BYTES}. "
                "No-ops, and everything that is an answer or comes from the consumer, are not counted."
            ),
            (
                "Up to 4.1 counting starts when the size is accepted; since 4.5 what was sent before counts too. The "
                "size may be set again at any time, and a larger one starts a stopped producer. In 3.0 size 0 leaves "
                "the window full for good, and text that is no number means 0; later a 0 switches the window off "
                "(seen in 3.1.5) and, since 4.5, sets the sum to 0, though 7.0.5 counts what it sent meanwhile once "
                "there is a size again."
            ),
            (
                "An ack of more than the sum leaves it at 0 in 3.0 to 4.x, without an answer; later servers log it "
                "or drop the connection (MB-42506, MB-60468), though 7.0.5 has been seen to stay silent. An ack of 0 "
                "bytes is legal. Servers ignore an ack's opaque and vbucket: acks of single streams are in the "
                "documents only."
            ),
            (
                f"A server's consumer acknowledges when more than {ACK_FRACTION:.0%} of its window is free again, or "
                f"after {ACK_DELAY_S} seconds. It also gives back what it refused with out_of_range or key_not_found, "
                "but not what it dropped silently or refused with invalid_arguments."
            ),
        ),
        errata=("E-22", "E-23", "E-24", "E-25", "E-40"),
    ),
    Topic(
        "snapshots and seqnos",
        "Which messages move a vbucket on, and in which order they come.",
        (
            (
                "In a stream seqnos rise strictly, with holes, and each change lies in the range of the marker "
                "before it. The next marker comes when the former snapshot has reached its end. In upr the marker "
                "has no range and stands behind its changes."
            ),
            (
                "Out of order by design are the records of a cache transfer, and everything between the two ends of an "
                "out-of-order snapshot. Keys are unique in a snapshot unless its marker says may_contain_duplicates."
            ),
        ),
        errata=("E-08", "E-36"),
    ),
    Topic(
        "opaques",
        "Four bytes that tie answers and streams to requests.",
        (
            (
                "A server copies opaques as they lie in its memory: its own counter 1 is 01 00 00 00 on the wire "
                "where the machine is little-endian. They are compared as bytes and shown in both readings. The one "
                "place that is converted is the stream opaque in the answer to an add stream, which therefore is "
                "reversed against the stream's messages."
            ),
        ),
        errata=("E-27",),
    ),
    Topic(
        "document keys",
        "Keys with and without a collection id.",
        (
            (
                "With HELLO collections a document key starts with its collection id, an unsigned LEB128 number in "
                "its shortest form, 1 to 5 bytes, which counts towards the key length of at most 251. Without it the "
                "key is that of a document in the default collection, of at most 250 bytes. The keys of system "
                "events and controls and the names of connections have no id in front."
            ),
        ),
    ),
    Topic(
        "choosing a layout",
        "How a frame is read when several forms are possible.",
        (
            (
                "Only the header's lengths say where the parts of a frame are, never the opcode. Dialect, opcode and "
                "extras length choose the layout, and a version byte where there is one. With a length that no "
                "layout has, the longest known prefix of the nearest one is shown and the length reported. A value "
                "on a message that must not have one is shown and reported; on a refusal it is only shown."
            ),
        ),
        errata=("E-03", "E-06", "E-07", "E-08", "E-32"),
    ),
)
