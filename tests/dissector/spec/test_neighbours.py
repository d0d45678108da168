"""The neighbours that are known by name: none is an unknown opcode beside UPR, and none of their secrets is shown.

Numbers and names are those of kv_engine's ``ClientOpcode`` and of the table in Wireshark's own dissector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dissector.codec.decoder import decode
from dissector.explain.lookup import lookup
from dissector.frames.reader import FrameReader
from dissector.options import ReadOptions
from dissector.spec import registry
from dissector.spec.model import Body, Dialect
from dissector.tcp.header_check import is_legal
from tests.support.plugin import listed, messages
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, pcap, read_rows, request, response
from uprscope.cli import main

if TYPE_CHECKING:
    from pathlib import Path

NEIGHBOURS = {
    0x2A: "set_bucket_throttle_properties",
    0x2B: "set_bucket_data_limit_exceeded",
    0x2C: "set_node_throttle_properties",
    0x2D: "set_active_encryption_keys",
    0x2E: "prune_encryption_keys",
    0x30: "rget",
    0x31: "rset",
    0x32: "rsetq",
    0x33: "rappend",
    0x34: "rappendq",
    0x35: "rprepend",
    0x36: "rprependq",
    0x37: "rdelete",
    0x38: "rdeleteq",
    0x39: "rincr",
    0x3A: "rincrq",
    0x3B: "rdecr",
    0x3C: "rdecrq",
    0x49: "get_ex",
    0x4A: "get_ex_replica",
    0x70: "get_fusion_storage_snapshot",
    0x71: "release_fusion_storage_snapshot",
    0x72: "mount_fusion_vbucket",
    0x73: "unmount_fusion_vbucket",
    0x74: "sync_fusion_logstore",
    0x75: "start_fusion_uploader",
    0x76: "stop_fusion_uploader",
    0x77: "delete_fusion_namespace",
    0x78: "get_fusion_namespaces",
    0x84: "set_chronicle_auth_token",
    0x85: "create_bucket",
    0x88: "expand_bucket",
    0x8A: "pause_bucket",
    0x8B: "resume_bucket",
    0x8C: "validate_bucket_config",
    0x90: "start_replication",
    0x98: "restore_file",
    0x99: "restore_abort",
    0x9A: "restore_complete",
    0x9B: "online_update_start",
    0x9C: "online_update_complete",
    0x9D: "online_update_revert",
    0x9E: "deregister_tap_client",
    0x9F: "reset_replication_chain",
    0xA6: "snapshot_vb_states",
    0xA7: "vbucket_batch_count",
    0xAF: "ifconfig",
    0xB0: "change_vb_filter",
    0xC1: "set_drift_counter_state",
    0xC2: "get_adjusted_time",
    0xD3: "subdoc_replace_body_with_xattr",
    0xDA: "range_scan_create",
    0xDB: "range_scan_continue",
    0xDC: "range_scan_cancel",
    0xE0: "prepare_snapshot",
    0xE1: "release_snapshot",
    0xE2: "download_snapshot",
    0xE3: "get_file_fragment",
    0xF6: "update_external_user_permissions",
    0xF7: "rbac_refresh",
    0xF8: "auth_provider",
    0xFB: "drop_privilege",
    0xFC: "adjust_timeofday",
    0xFD: "ewouldblock_ctl",
}
#: Those whose values hold keys (2d, 85, 8c), passwords (af, e2) or tokens (70, 71, 77, 78, 84, 85, 8c).
SECRET = {0x2D, 0x70, 0x71, 0x77, 0x78, 0x84, 0x85, 0x8C, 0xAF, 0xE2}
#: In no server, and in no table of Wireshark's.
UNKNOWN = (0x4B, 0x6E, 0x79, 0x7F, 0xD5, 0xE4, 0xFF)
PASSWORD = b'{"password":"hunter2-hunter2"}'
SUCCESS, UNKNOWN_COMMAND = 0x00, 0x81


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A connection of UPR on which a client asks for everything that its server may know."""
    talk = Conversation().open()
    talk.send(CLIENT, request(0x50, bytes(4) + b"\0\0\0\1", b"name", opaque=1))
    talk.send(SERVER, response(0x50, opaque=1))
    for opcode in NEIGHBOURS:
        talk.send(CLIENT, request(opcode, b"", b"key", PASSWORD, opaque=opcode))
        status = UNKNOWN_COMMAND if opcode % 2 else SUCCESS
        talk.send(SERVER, response(opcode, status, PASSWORD, opaque=opcode))
    path = tmp_path_factory.mktemp("neighbours") / "a.pcap"
    path.write_bytes(pcap(talk.close(CLIENT).packets))
    return path


@pytest.mark.parametrize(("opcode", "name"), NEIGHBOURS.items(), ids=NEIGHBOURS.values())
def test_a_neighbour_is_known_in_every_dialect(opcode: int, name: str) -> None:
    for dialect in Dialect:
        known = registry.message(dialect, opcode)
        assert known is not None
        assert (known.name, known.dialect) == (name, Dialect.MEMCACHED)
    for question in (f"0x{opcode:02x}", name, f"PROTOCOL_BINARY_CMD_{name.upper()}"):
        (result,) = lookup([question])
        assert known in [thing.subject for answer in result.answers for thing in answer.things]
    for extras in (b"", bytes(8), bytes(24)):
        for frame in (request(opcode, extras, b"key", b"value"), response(opcode, SUCCESS, b"value", extras)):
            assert decode(Dialect.DCP, frame.data).defect_ids() == ()
            assert is_legal(frame.data)  # found again after a loss


@pytest.mark.parametrize("opcode", UNKNOWN)
def test_what_nobody_knows_stays_unknown(opcode: int) -> None:
    for dialect in Dialect:
        assert registry.message(dialect, opcode) is None
    for frame in (request(opcode), response(opcode)):
        assert "unknown-opcode" in decode(Dialect.DCP, frame.data).defect_ids()
        assert not is_legal(frame.data)


def test_neighbours_stand_beside_upr(capture: Path) -> None:
    rows = read_rows(capture, FrameReader)
    names = [name for name in NEIGHBOURS.values() for _ in range(2)]
    assert [row["name"] for row in rows] == ["open", "open", *names]
    assert {row["dialect"] for row in rows} == {"dcp"}
    assert [row for row in rows if row["defects"]] == []
    assert main(["check", str(capture), "--no-pager"]) == 0


@pytest.mark.parametrize("opcode", sorted(NEIGHBOURS))
@pytest.mark.parametrize("status", [None, SUCCESS, UNKNOWN_COMMAND])
def test_only_values_that_may_hold_secrets_are_withheld(opcode: int, status: int | None) -> None:
    """Answers too: a server may repeat what it was given."""
    frame = request(opcode, b"", b"key", PASSWORD) if status is None else response(opcode, status, PASSWORD)
    for dialect in Dialect:
        decoded = decode(dialect, frame.data)
        assert decoded.value.withheld == (opcode in SECRET)
        assert (b"hunter2" in repr(decoded).encode()) == (opcode not in SECRET)
        assert decoded.value.length == len(PASSWORD)
        assert (decoded.value.kind is Body.SECRET) == (opcode in SECRET)
        assert decode(dialect, frame.data, withhold_secrets=False).value.raw == PASSWORD


def test_rows_keep_no_secret(capture: Path) -> None:
    for withheld in (True, False):
        rows = read_rows(capture, FrameReader, ReadOptions(values=True, withhold_secrets=withheld))
        shown = {row["opcode"] for row in rows if "hunter2" in str(row)}
        assert shown == (set(NEIGHBOURS) - SECRET if withheld else set(NEIGHBOURS))


@pytest.mark.usefixtures("wireshark")
def test_the_plugin_knows_them_and_keeps_their_secrets(capture: Path) -> None:
    found = [each for packet in messages(capture).values() for each in packet]
    assert [each["upr.name"] for each in found[2:]] == [name for name in NEIGHBOURS.values() for _ in range(2)]
    for each in found[2:]:
        secret = int(each["upr.opcode"], 0) in SECRET
        assert bool(listed(each.get("upr.withheld"))) == secret
        assert (PASSWORD.hex() in str(each).replace(":", "") or "hunter2" in str(each)) == (not secret)
