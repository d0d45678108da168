"""Where the protocol's documents contradict themselves, each other or the servers, and what this decoder does.

``draft`` is the draft of 2013, ``spec`` the transport specification of January 2014, ``proposal`` the stream request
proposal of March 2014, ``flow`` the no-op, ack and control document of June 2014, ``state`` the one on vbucket states.
Ids such as 000-09 number the example packets of those documents.
"""

from __future__ import annotations

from dissector.spec.model import Erratum

ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "E-01",
        "spec and proposal, stream request response (000-09, 003-02)",
        "The response must not have extras, yet the examples carry the rollback seqno in 8 bytes of them. Servers send "
        "no extras and an 8-byte value.",
        "Both are read; the form in extras is noted.",
    ),
    Erratum(
        "E-02",
        "spec and proposal, stream request success (000-11, 003-04)",
        "The total body is 0 in the bytes and 0x40 in the text, and 64 bytes follow.",
        "The header wins; following bytes that are no header but divide into 16-byte pairs are reported.",
    ),
    Erratum(
        "E-03",
        "proposal, stream request (003-01)",
        "The layout ends at byte 48 but is said to have 40, and the header repeats 40.",
        "40 bytes are the old layout, 48 the new one; 8 stray bytes behind a 40-byte request are reported.",
    ),
    Erratum(
        "E-04",
        "proposal (003-01)",
        "The snapshot start is 0 in the text and 0xffeedd in the bytes.",
        "Bytes win.",
    ),
    Erratum(
        "E-05",
        "proposal (003-03)",
        "The retry example and the prose still have the high seqno that the same section replaced.",
        "As E-03: the extras length decides.",
    ),
    Erratum("E-06", "stream request", "40 bytes in the spec, 48 in the proposal and as shipped.", "By extras length."),
    Erratum(
        "E-07",
        "mutation (000-14)",
        "30 bytes without nru in the spec, 31 as shipped; later documents draw one more byte, the collection length, "
        "and still total 31.",
        "By extras length.",
    ),
    Erratum(
        "E-08",
        "snapshot marker (000-13)",
        "Must not have extras in the spec; must have 20 or 1 as shipped.",
        "No extras: a marker without a range, so nothing is checked against its range.",
    ),
    Erratum(
        "E-09",
        "stream end",
        "State changed is 1 in the spec and 2 as shipped; in the draft ok is 1 and state changed 2.",
        "Each dialect has its own table; the meaning of upr's 1 in dcp is told with it.",
    ),
    Erratum(
        "E-10",
        "set vbucket state (000-18, 002-01)",
        "Documents and senders up to 4.1.0 say 2 pending, 3 replica; receivers always read 2 replica, 3 pending, so "
        "that a takeover's pending landed as replica (MB-16292). The fix was taken back in 3.x (MB-17391).",
        "The documents' table for upr, the receivers' for dcp, with the other reading beside it.",
    ),
    Erratum(
        "E-11",
        "set vbucket state",
        "The client should not reply, and the reply is described. Shipped producers wait for it.",
        "A reply is expected.",
    ),
    Erratum(
        "E-12",
        "draft, stream request and items (001-02, 001-11, 001-12, 001-13)",
        "The extras length is 40 or 36 for fields of 32 or 28 bytes, the total body 8 too large, and the text puts the "
        "key 8 bytes before where the header has it.",
        "Both lengths mean the same fields; the 8 bytes are padding if the frame really has them.",
    ),
    Erratum(
        "E-13",
        "draft, responses (001-07)",
        "Type 2 is both not my vbucket and the failover log.",
        "The request that it answers decides, else a body makes it the failover log.",
    ),
    Erratum(
        "E-14",
        "draft (001-05, 001-07)",
        "The total body is 0, and 8 or 32 body bytes follow.",
        "As E-02; 8 bytes are a rollback seqno.",
    ),
    Erratum("E-15", "draft (001-05)", "The rollback seqno is said to be at bytes 14 to 31.", "It is at 24 to 31."),
    Erratum(
        "E-16",
        "draft (001-02)",
        "Total body 0x36 is annotated 56 (it is 54), and the end seqno 2^64 (it is 2^64-1).",
        "Annotations are ignored.",
    ),
    Erratum(
        "E-17",
        "draft (001-07, 001-08, 001-14, 001-15)",
        "The failover log response is titled rollback, flush is labelled expiration, begin and start, close and end "
        "are mixed.",
        "One name each.",
    ),
    Erratum(
        "E-18",
        "draft, header",
        "Responses carry the vbucket where memcached has a status.",
        "The draft decoder shows no status.",
    ),
    Erratum(
        "E-19",
        "flow (004-01)",
        "A no-op of 28 bytes is drawn for a 24-byte frame; its opaque is 5 in the text and 0 in the bytes.",
        "The header wins: 24 bytes, and the stray ones are reported. The example's answer has opaque 5, so it answers "
        "another request.",
    ),
    Erratum(
        "E-20",
        "flow (004-05)",
        "The control request has the header of a no-op; the text says 0x5e with a 22-byte key and a body of 0x1a.",
        "Decoded by the header; a no-op followed by text is not a control.",
    ),
    Erratum(
        "E-21",
        "flow (004-06)",
        "The control response has opcode 0x5d and opaque 5; the text says 0x5e and 0.",
        "Bytes win.",
    ),
    Erratum(
        "E-22",
        "flow (004-03)",
        "The ack's byte count is a value; shipped servers demand it in the extras. Later documents have extras length "
        "0 in the bytes and 4 in the text.",
        "Both are read; the value form is noted.",
    ),
    Erratum(
        "E-23",
        "flow (004-04)",
        "The ack is answered; no shipped producer answers a good one.",
        "A missing answer is never reported.",
    ),
    Erratum("E-24", "flow, ack errors", "They mention a stream name in the packet; there is none.", "Nothing to do."),
    Erratum(
        "E-25",
        "flow, control keys",
        "stream_buffer_size is listed; every release refuses it.",
        "Known by name.",
    ),
    Erratum(
        "E-26",
        "spec, add stream response",
        "The prose promises a vbucket id in the extras; only the opaque is there, at bytes 24 to 27.",
        "4 bytes are decoded.",
    ),
    Erratum(
        "E-27",
        "spec, add stream response",
        "The opaque used by the stream's messages: little-endian servers reverse its bytes against the header's.",
        "Both readings are shown; a match is raw or reversed, one way per connection.",
    ),
    Erratum(
        "E-28",
        "spec, stream request errors",
        "An unknown uuid gives KEY_ENOENT; the proposal and servers roll back to 0.",
        "Both are legal.",
    ),
    Erratum(
        "E-29",
        "stream request errors",
        "Start must be less than end; servers refuse only a start above the end, and answer one above the high seqno "
        "with a rollback first.",
        "The servers' predicate.",
    ),
    Erratum(
        "E-30",
        "failover logs (000-07, 000-11, 003-04)",
        "Their entries are in no order; servers send the newest first, seqnos never rising.",
        "The examples are decoded as drawn, and their order is not judged.",
    ),
    Erratum(
        "E-31",
        "deletion and expiration examples (000-15, 000-16)",
        "Their CAS is 0; shipped ones carry the CAS.",
        "No defect.",
    ),
    Erratum(
        "E-32",
        "expiration (000-16)",
        "18 bytes with nmeta in the spec, 20 with a delete time as shipped; later documents give the 20-byte form an "
        "extras length of 18.",
        "By extras length.",
    ),
    Erratum(
        "E-33",
        "close stream",
        "No response is described; servers always answer, and since 5.5 may add a stream end.",
        "An answer is expected.",
    ),
    Erratum(
        "E-34",
        "open",
        "A value is forbidden; servers take JSON since 6.5. The sequence number became reserved.",
        "Each dialect has its own rule.",
    ),
    Erratum(
        "E-35",
        "deletion",
        "A value is forbidden, in later documents too; deletions carry xattrs since 5.0.",
        "A value is no defect in dcp.",
    ),
    Erratum(
        "E-36",
        "snapshot",
        "Keys are unique in a snapshot; the flag may_contain_duplicates (7.2) lifts this.",
        "No check where the flag is set.",
    ),
    Erratum("E-37", "draft, terms", "A consumer processes data sent from the consumer.", "A slip of the pen."),
    Erratum(
        "E-38",
        "kv_engine's own documents",
        "18 of 43 example packets are inconsistent: lengths or versions of markers, seqno advanced, out-of-order "
        "brackets, buffer ack, control, expiration, no-op and cache transfer, opcodes of prepare and the control "
        "response, a stream request 8 bytes short, a collection id in front of its scope's.",
        "None of them is a test vector here.",
    ),
    Erratum(
        "E-39",
        "kv_engine's documents, dead connections",
        "A no-op is sent only when nothing else was; the source ignores other traffic.",
        "The source's behaviour.",
    ),
    Erratum(
        "E-40",
        "kv_engine's documents, flow control",
        "Every request counts with its size; a prepare counts 2 bytes more.",
        "Counted as servers do.",
    ),
    Erratum(
        "E-41",
        "recordings of 7.0.5",
        "With a stream id, deletion V2 and expiration have framing length 0 though the stream id precedes the extras.",
        "Recognised by the bytes, decoded with the stream id, reported.",
    ),
    Erratum(
        "E-42",
        "recordings of 7.0.5",
        "A second open, and commands before the open, get status 0x04 and keep the connection; 3.x drops it.",
        "Both are accepted.",
    ),
    Erratum(
        "E-43",
        "recordings of 7.0.5",
        "Stream flag 0x08, which 5.0 refused, 0x40, 0x80 and unknown ones are accepted and ignored.",
        "Shown, no defect.",
    ),
    Erratum(
        "E-44",
        "recordings of 7.0.5",
        "Truncated control keys, a weakness of 3.0 to 4.6, are still accepted.",
        "Noted, as a key that no release knows.",
    ),
)
