"""What is typed for Wireshark's display filters means the same here, or is refused with what to type instead."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dissector.capture import expand
from dissector.codegen.lua_fields import FieldList
from dissector.codegen.lua_tables import Tables
from dissector.filters import FilterError, parse, wireshark_names
from dissector.filters.names import fields
from dissector.frames.reader import FrameReader
from dissector.options import ReadOptions
from tests.support.paths import CAPTURES as FOLDER

SAME = {
    "upr.opcode == 0x57": "opcode == 0x57",
    "upr.opcode eq mutation && upr.vbucket ne 3": "opcode == mutation and vbucket != 3",
    "upr.by_seqno gt 1 || upr.by_seqno le 3": "by_seqno > 1 or by_seqno <= 3",
    "!upr.response and upr.vbucket lt 5": "not response and vbucket < 5",
    "upr.vbucket ge 5": "vbucket >= 5",
    'upr.key == "k14" and upr.key_bytes == hex:086b': 'key == "k14" and key_bytes == hex:086b',
    "upr.seconds < 0.5": "seconds < 0.5",
    "upr.vbucket in {1 2, 5..9 12}": "vbucket in {1, 2, 5..9, 12}",
    'upr.text contains "a"': 'text contains "a"',
    'upr.text ~ "^a"': 'text matches "^a"',
    "upr.response == 1": "response == true",
    "upr.response != 0": "response != false",
    "upr.status": "exists status",
    "upr": "exists frame",
    "tcp && upr.key": "exists frame and exists key",
    "upr.start_seqno < upr.snap_start_seqno": "start_seqno < snap_start_seqno",
    "frame.number in {102, 103}": "packet_last in {102, 103}",
    "ip.addr == 10.0.0.1 && ipv6.src != ::1": "addr == 10.0.0.1 and src != ::1",
    "tcp.port == 11210 or tcp.srcport == 1 or tcp.dstport == 2": "port == 11210 or sport == 1 or dport == 2",
    'frame.time_utc >= "2026-11-16 01:29:50"': 'time >= "2026-11-16T01:29:50Z"',
    "upr.open_flags.producer == 1": "open_flags has producer",
    "upr.open_flags.producer == true": "open_flags has producer",
    "upr.open_flags.producer != false": "open_flags has producer",
    "upr.open_flags.producer == 0": "open_flags and not open_flags has producer",
    "upr.open_flags.producer": "exists open_flags",
    "upr.datatype.snappy == 1 and !(upr.key)": "datatype has snappy and not key",
    'upr.defect == "truncated-frame"': "defects contains truncated-frame",
    "upr.defect != truncated-frame": "defects and not defects contains truncated-frame",
    "upr.feature == collections": "features contains collections",
    "upr.failover_log.vbucket_uuid == 0x1234": "failover_log contains 0x1234",
}


@pytest.mark.parametrize("text", SAME)
def test_a_display_filter_means_the_same(text: str) -> None:
    assert parse(text) == parse(SAME[text])
    assert parse(str(parse(text))) == parse(text)


REFUSED = [
    ("upr.vbuckt == 5", "^", "did you mean upr.vbucket?"),
    ("upr.key and tcp.stream == 0", "            ^", "conn those with messages from 1"),
    ("frame.time_relative < 5", "^", "it counts from the first packet"),
    ("upr.response_to == 5", "^", "it has the packet of the request"),
    ("upr.outstanding > 5", "^", "only the plugin keeps it"),
    ("upr.by_seqno == 5 && upr.delta == 1", "                     ^", "-V shows it"),
    ("upr.commit_seqno == 1", "^", "by_seqno has it"),
    ("upr.open_flags.producer > 0", "                        ^", "it stands alone, or with == or !="),
    ("upr.open_flags.producer == 2", "                           ^", "expected true or false"),
    ("1 == upr.open_flags.producer", "     ^", "on the left of == and !="),
    ('upr.record.key contains "k"', "               ^", "compare a whole entry"),
    ("name == foo.bar", "        ^", "text stands in quotes"),
    ("upr == 5", "^", 'no field "upr"'),
    ("vbucket eq", "          ^", "expected a value"),
]


@pytest.mark.parametrize(("text", "mark", "reason"), REFUSED)
def test_a_display_filter_is_refused(text: str, mark: str, reason: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert (" " * caught.value.position + "^", reason in caught.value.reason) == (mark, True), caught.value.reason


def test_every_field_of_the_plugin_is_a_column_or_is_said_to_be_none() -> None:
    plugin = {row["name"] for row in FieldList(Tables()).rows()}
    meant = {name for name in plugin if wireshark_names.meaning(f"upr.{name}", fields()) is not None}
    assert plugin - meant == wireshark_names.WITHOUT_COLUMN.keys()
    assert len(meant) > 90


def test_a_flag_that_is_not_set_is_asked_of_messages_that_have_the_field() -> None:
    """Opens of a recording: a test of a bit speaks of them and of no other message."""
    path = str(FOLDER / "06_replication_takeover.pcap")
    table = pa.Table.from_batches(FrameReader(expand([path]), ReadOptions()))
    flags = table.column("open_flags").to_pylist()
    batch = table.combine_chunks().to_batches()[0]
    assert {each for each in flags if each is not None} >= {0, 1}
    for text, wanted in (("== 1", 1), ("== 0", 0)):
        mask = parse(f"upr.open_flags.producer {text}").mask(batch).to_pylist()
        assert mask == [each is not None and (each & 1) == wanted for each in flags]
