"""What can be wrong with a single frame. Ids are stable; ``rule`` names the framing rule of the catalogue."""

from __future__ import annotations

from dissector.spec.model import DefectSpec, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

DEFECTS: tuple[DefectSpec, ...] = (
    DefectSpec(
        "truncated-header", _E, "less than a header", "Fewer than 24 bytes: no frame can be read.", rule="FRM-01"
    ),
    DefectSpec("truncated-frame", _E, "frame cut short", "The bytes end before the body does.", rule="FRM-01"),
    DefectSpec(
        "lengths-exceed-body",
        _E,
        "parts longer than the body",
        "Framing extras, extras and key together are longer than the total body length.",
        rule="FRM-01",
    ),
    DefectSpec(
        "body-too-large",
        _W,
        "implausible body length",
        "The total body length is more than any server sends (30 MiB).",
        rule="FRM-01",
    ),
    DefectSpec("unknown-magic", _E, "unknown magic", "The first byte is no magic.", rule="FRM-02"),
    DefectSpec("unknown-opcode", _E, "unknown opcode", "The dialect has no such opcode.", rule="FRM-02"),
    DefectSpec("unknown-subtype", _E, "unknown subtype", "The draft's opcode has no such subtype.", rule="FRM-02"),
    DefectSpec(
        "wrong-direction",
        _E,
        "wrong magic for the opcode",
        "The opcode exists, but not with this magic (draft pushes have 0x81).",
        rule="FRM-02",
    ),
    DefectSpec(
        "extras-length-unknown",
        _E,
        "unknown extras length",
        "No layout has this extras length; the longest known prefix is shown.",
        rule="FRM-03",
    ),
    DefectSpec("extras-missing", _E, "extras missing", "The message must have extras.", rule="FRM-03"),
    DefectSpec("extras-unexpected", _E, "unexpected extras", "The message must not have extras.", rule="FRM-03"),
    DefectSpec(
        "layout-of-other-dialect",
        _E,
        "layout of another dialect",
        "The extras length belongs to another dialect's form of this message; decoded by that form.",
        rule="FRM-03",
    ),
    DefectSpec("key-missing", _E, "key missing", "The message must have a key.", rule="FRM-04"),
    DefectSpec("key-unexpected", _E, "unexpected key", "The message must not have a key.", rule="FRM-04"),
    DefectSpec("value-missing", _E, "value missing", "The message must have a value.", rule="FRM-05"),
    DefectSpec("value-unexpected", _E, "unexpected value", "The message must not have a value.", rule="FRM-05"),
    DefectSpec(
        "value-length",
        _E,
        "value of a wrong length",
        "The value is shorter or longer than the fixed fields that make it up.",
        rule="FRM-05",
    ),
    DefectSpec("datatype-invalid", _E, "no such datatype", "The datatype has bits that mean nothing.", rule="FRM-06"),
    DefectSpec(
        "datatype-not-allowed",
        _E,
        "datatype not allowed here",
        "This message cannot have that datatype.",
        rule="FRM-06",
    ),
    DefectSpec("cas-not-zero", _W, "CAS not zero", "This message has no CAS.", rule="FRM-07"),
    DefectSpec("cas-zero", _W, "CAS zero", "This message must have a CAS.", rule="FRM-07"),
    DefectSpec("reserved-not-zero", _W, "reserved field not zero", "A reserved field holds something.", rule="FRM-08"),
    DefectSpec(
        "unknown-flag-bits",
        _W,
        "unknown flag bits",
        "Flags are set that have no name; a newer server may know them.",
        rule="FRM-08",
    ),
    DefectSpec(
        "collection-id-invalid",
        _E,
        "malformed collection id",
        "The key does not start with a collection id: unsigned LEB128, canonical, at most 5 bytes.",
        rule="FRM-09",
    ),
    DefectSpec(
        "key-empty", _E, "no key behind the collection id", "The key ends with the collection id.", rule="FRM-09"
    ),
    DefectSpec(
        "key-too-long", _E, "key too long", "A key has at most 250 bytes, 251 with a collection id.", rule="FRM-09"
    ),
    DefectSpec("snappy-invalid", _W, "not snappy", "The datatype says snappy, the bytes do not.", rule="FRM-10"),
    DefectSpec(
        "snappy-too-large",
        _W,
        "snappy value not expanded",
        "The value says that it expands beyond the limit; it was left compressed.",
        rule="FRM-10",
    ),
    DefectSpec("xattr-invalid", _W, "malformed xattrs", "The xattr section does not add up.", rule="FRM-10"),
    DefectSpec(
        "json-invalid", _W, "not JSON", "The datatype or the message says JSON, the bytes do not.", rule="FRM-10"
    ),
    DefectSpec(
        "event-table-invalid",
        _W,
        "not a FlatBuffers table",
        "The value of a system event of version 2 cannot be read as its table: an offset or a size leads outside.",
        rule="FRM-10",
    ),
    DefectSpec(
        "event-table-compressed",
        _W,
        "compressed FlatBuffers table",
        "The value of a system event of version 2 is a snappy block: consumers expect the table itself. It is read "
        "decompressed.",
        rule="FRM-10",
    ),
    DefectSpec(
        "marker-version-unknown",
        _E,
        "unknown marker version",
        "No snapshot marker has this version byte.",
        rule="FRM-11",
    ),
    DefectSpec(
        "marker-version-withdrawn",
        _W,
        "withdrawn marker version",
        "V2.1 was defined for 7.0 to 7.6, never sent, and removed.",
        rule="FRM-11",
    ),
    DefectSpec(
        "nmeta-exceeds-value",
        _E,
        "metadata longer than the value",
        "nmeta is larger than the bytes behind the key.",
        rule="FRM-12",
    ),
    DefectSpec(
        "nmeta-invalid",
        _W,
        "malformed extended metadata",
        "The block does not have its version or adds up wrongly.",
        rule="FRM-12",
    ),
    DefectSpec(
        "enum-out-of-range",
        _E,
        "number without a meaning",
        "A field has a value that its table does not.",
        rule="FRM-13",
    ),
    DefectSpec("status-unknown", _W, "unknown status", "The response's status has no name.", rule="FRM-13"),
    DefectSpec(
        "event-version-unknown",
        _W,
        "unknown system event version",
        "The event has no value of this version.",
        rule="FRM-13",
    ),
    DefectSpec(
        "json-number-too-large",
        _W,
        "number in JSON too large",
        "A number in the JSON value is larger than its receiver can keep: of a stream id servers keep 16 bits.",
        rule="FRM-13",
    ),
    DefectSpec(
        "records-malformed",
        _E,
        "records that do not tile the value",
        "The value does not divide into whole records.",
        rule="FRM-14",
    ),
    DefectSpec(
        "framing-malformed",
        _E,
        "malformed framing extras",
        "The objects in the framing extras do not add up.",
        rule="FRM-01",
    ),
    DefectSpec(
        "frame-info-unknown", _W, "unknown frame info", "No object of the framing extras has this id.", rule="FRM-08"
    ),
    DefectSpec(
        "frame-info-length", _E, "frame info of a wrong length", "The object cannot have this length.", rule="FRM-03"
    ),
    DefectSpec(
        "frame-info-repeated", _E, "frame info repeated", "An object may appear once in a frame.", rule="FRM-03"
    ),
    DefectSpec(
        "control-key-unknown",
        _N,
        "unknown control key",
        "No release knows this key; it may be a prefix (E-44).",
        "E-44",
    ),
    DefectSpec("control-value-invalid", _N, "odd control value", "The key's values look different."),
    DefectSpec(
        "rollback-in-extras",
        _N,
        "rollback seqno in the extras",
        "The documents draw it there; servers send it as the value.",
        "E-01",
    ),
    DefectSpec(
        "ack-count-in-value",
        _N,
        "byte count in the value",
        "The documents and servers before 3.0 put it there; since 3.0 it is in the extras.",
        "E-22",
    ),
    DefectSpec(
        "extras-overstated",
        _N,
        "extras length 8 too large",
        "The draft draws lengths that count 8 bytes more than the fields it lists.",
        "E-12",
    ),
    DefectSpec(
        "stray-failover-log",
        _E,
        "body length 0 with a failover log",
        "The header announces no body, but bytes follow that are no header and divide into failover log entries.",
        "E-02",
        "FRM-01",
    ),
    DefectSpec(
        "stray-rollback-seqno",
        _E,
        "body length 0 with a rollback seqno",
        "The header announces no body, but 8 bytes follow that are no header.",
        "E-14",
        "FRM-01",
    ),
    DefectSpec(
        "stray-snapshot-end",
        _E,
        "stream request 8 bytes short",
        "The header announces the 40-byte form, but 8 more bytes follow that are no header.",
        "E-03",
        "FRM-01",
    ),
    DefectSpec(
        "stray-bytes",
        _E,
        "bytes that are no header",
        "What follows the frame is no header: the length was wrong, or bytes were put between.",
        "E-19",
        "FRM-01",
    ),
    DefectSpec(
        "framing-length-omitted",
        _W,
        "framing length 0 with a stream id",
        "A server defect (7.0): a stream id precedes the extras, the header says framing length 0. Decoded with it.",
        "E-41",
        "FRM-01",
    ),
)
