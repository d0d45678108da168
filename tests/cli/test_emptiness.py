"""Captures without anything to judge: what was seen instead is said, and nothing is called sound."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, Ends, Message, pcap, request, response
from uprscope import cli

TLS = bytes.fromhex("16030100c8010000c40303") + bytes(194)


def spoken(path: Path, *said: tuple[str, bytes, bytes]) -> Path:
    """Write connections: client's and server's ports, and what each side says."""
    packets = []
    for number, (port, asked, answered) in enumerate(said):
        conversation = Conversation(Ends(ports=(40_000 + number, int(port)))).open()
        conversation.send(CLIENT, Message(asked)).send(SERVER, Message(answered))
        packets += conversation.packets
    path.write_bytes(pcap(packets))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = cli.main([str(word) for word in words])
    return status, *capsys.readouterr()


@pytest.mark.parametrize("form", ["text", "json", "ndjson", "csv", "parquet", "junit"])
def test_check_ends_with_2_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    capture = spoken(tmp_path / "a.pcap", ("11207", TLS, TLS), ("11207", TLS, TLS), ("8091", b"GET / HTTP/1.1", b""))
    target = tmp_path / "out"
    status, out, err = run(capsys, "check", capture, "--format", form, "-o", target)
    assert (status, out) == (2, "")
    assert err == (
        f"uprscope: {capture}: no message of UPR or DCP to check; seen instead: TLS on port 11207 (2 connections); "
        "HTTP on port 8091 (1 connection). TLS is not decrypted: capture a port without it, such as 11210\n"
    )
    assert not target.exists()


def test_plain_memcached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conversation = Conversation().open()
    for opaque in range(3):
        conversation.send(CLIENT, request(0x00, key=b"k", opaque=opaque))
        conversation.send(SERVER, response(0x00, value=b"v", opaque=opaque, extras=bytes(4)))
    capture = tmp_path / "a.pcap"
    capture.write_bytes(pcap(conversation.packets))
    status, _, err = run(capsys, "check", capture)
    assert status == 2
    assert err.endswith("no message of UPR or DCP to check; seen instead: plain memcached (6 messages)\n")
    status, out, _ = run(capsys, "stats", capture, "--json")
    assert status == 0
    assert json.loads(out)["seen_instead"] == "plain memcached (6 messages)"


def test_stats_and_dissect_say_what_was_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = spoken(tmp_path / "a.pcap", ("11207", TLS, TLS))
    for command in ("stats", "dissect"):
        status, out, err = run(capsys, command, capture)
        assert status == 0
        assert re.search(r"seen instead: TLS on port\s+11207 \(1 connection\)", f"{out} {err}")


def test_messages_but_none_that_a_rule_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    capture = CAPTURES / "clean" / "basic.pcapng"  # it has no prepares
    status, out, _ = run(capsys, "check", capture, "--rules", "SEQ-09")
    assert status == 0
    assert out.endswith("\n\nNothing to check: there is no message that the rule is about.\n")
    status, out, _ = run(capsys, "check", capture, "--rules", "SEQ-09", "--json")
    assert (status, json.loads(out)["verdict"]) == (0, "nothing to check")
    status, out, _ = run(capsys, "check", capture, "--rules", "SEQ-09,SEQ-01", "--json")
    assert (status, json.loads(out)["verdict"]) == (0, "nothing violated")
    status, out, _ = run(capsys, "check", capture, "--rules", "SEQ-09", "--format", "junit")
    assert 'tests="1" failures="0" errors="0" skipped="1"' in out


def test_a_table_counts_what_its_closing_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """The findings of FRM-01 there are warnings, though the rule is an error: table and total say warning."""
    _, out, _ = run(capsys, "check", CAPTURES / "25_stream_id_v705.pcap", "--json")
    severities = {each["severity"] for each in json.loads(out)["findings"]}
    assert severities == {"warning"}
    _, out, _ = run(capsys, "check", CAPTURES / "25_stream_id_v705.pcap")
    rows = re.findall(r"^([A-Z]{3}-\d\d)  (\w+) +[\d,]+ {2,10}(\d*) {2,9}(\d*)(?: +(\d+) [a-z]+)?$", out, re.MULTILINE)
    assert {rule: severity for rule, severity, *_ in rows} == {"FRM-01": "warning", "OPQ-04": "error"}
    violated, findings, unknown = (sum(int(row[at] or 0) for row in rows) for at in (2, 3, 4))
    assert out.rstrip().rsplit("\n", 1)[1] == (
        f"{findings} findings of {violated} violations: {findings} warnings; {unknown} cases could not be decided."
    )
