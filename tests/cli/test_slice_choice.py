"""``uprscope slice`` by connection, filter, numbers and time; in both containers; without log-ins."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dissector.capture import CaptureReader, Input
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, mutation, pcap, request, response, stream_answer
from uprscope import cli

FEED = "captures/09_feed_real_consumer.pcap"
PASSWORD = b"\0bob\0hunter2-hunter2"


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


def sliced(target: Path, *arguments: str) -> int:
    return cli.main(["slice", *arguments, "-o", str(target)])


def rows(capsys: pytest.CaptureFixture[str], capture: str | Path, *options: str) -> list[dict[str, object]]:
    capsys.readouterr()
    assert cli.main(["dissect", str(capture), "--format", "ndjson", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def identity(row: dict[str, object]) -> tuple[object, ...]:
    return row["connection"], row["direction"], row["start_offset"], row["end_offset"], row.get("key")


def packets(capture: str | Path) -> list[tuple[int, bytes]]:
    with CaptureReader(Input.of(str(capture))) as reader:
        return [(int(block.time_ns[at]), block.packet(at)) for block in reader for at in range(len(block))]


@pytest.mark.parametrize("name", ["all.pcap", "all.pcapng"])
@pytest.mark.parametrize(
    "capture", [FEED, "captures/rough/cooked-nanoseconds.pcap", "captures/clean/other-protocols.pcapng"]
)
def test_all_packets_as_they_are(name: str, capture: str, tmp_path: Path) -> None:
    assert sliced(tmp_path / name, capture, "--all") == 0
    assert packets(tmp_path / name) == packets(capture)


@pytest.mark.parametrize("capture", [FEED, "captures/clean/basic.pcapng", "captures/rough/rough.pcapng"])
@pytest.mark.parametrize("text", ["name == mutation", "frame in {20..40}", "vbucket == 1 and not response"])
def test_frames_that_a_filter_chooses_can_be_read(
    capture: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = rows(capsys, capture, "--filter", text)
    assert sliced(tmp_path / "few.pcapng", capture, "--filter", text) == 0
    kept = rows(capsys, tmp_path / "few.pcapng")
    assert {*map(identity, wanted)} <= {*map(identity, kept)}
    assert {row["connection"] for row in kept} == {row["connection"] for row in wanted}
    assert "open" in {row["name"] for row in kept}
    assert len(kept) < len(rows(capsys, capture))


def test_one_connection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = rows(capsys, FEED)
    for name in ("2", str(there[0]["connection"])):
        assert sliced(tmp_path / "one.pcapng", FEED, "--connection", name) == 0
        wanted = [row for row in there if row["connection"] == (name if len(name) > 1 else numbered(there)[1])]
        assert [*map(identity, rows(capsys, tmp_path / "one.pcapng"))] == [*map(identity, wanted)]


def numbered(there: list[dict[str, object]]) -> list[object]:
    return list(dict.fromkeys(row["connection"] for row in there))


def test_time_and_numbers_narrow_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = rows(capsys, FEED)
    start = int(str(there[0]["time_ns"]))
    early = [row for row in there if int(str(row["time_ns"])) - start <= 10**9]
    assert 30 < len(early) < len(there)
    options = ("--time", "..1", "--frames", "30-")
    assert sliced(tmp_path / "few.pcapng", FEED, *options) == 0
    kept = {*map(identity, rows(capsys, tmp_path / "few.pcapng"))}
    assert {identity(row) for row in early[29:]} <= kept
    assert not {identity(row) for row in there if row not in early and row["name"] == "mutation"} & kept
    assert sliced(tmp_path / "time.pcapng", FEED, "--time", "0..1", "--connection", "1") == 0
    connection = {identity(row) for row in early if row["connection"] == there[0]["connection"]}
    assert connection == {*map(identity, rows(capsys, tmp_path / "time.pcapng"))}


def test_a_finding_and_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (FEED, "--finding", "SEQ-01-06a74178", "--filter", "status != success")
    assert sliced(tmp_path / "both.pcapng", *arguments) == 0
    assert cli.main(["check", str(tmp_path / "both.pcapng"), "--no-pager"]) == 1
    assert "SEQ-01-06a74178" in capsys.readouterr().out
    wanted = {identity(row) for row in rows(capsys, FEED, "--filter", "status != success")}
    assert wanted <= {*map(identity, rows(capsys, tmp_path / "both.pcapng"))}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "which packets?"),
        (("--all", "--frames", "1"), "--all takes every packet: it does not go with --frames"),
        (("--filter", "vbucket == 60000"), "none of the 149 frames is chosen"),
        (("--connection", "9"), "no connection 9 (connections are 1 to 5)"),
        (("--connection", "1", "--time", "900..901"), "no packet is chosen"),
    ],
)
def test_nothing_to_write(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sliced(tmp_path / "small.pcapng", FEED, *arguments) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "capture", "said"),
    [
        ("small.txt", FEED, "let it end in .pcap or .pcapng"),
        ("small.pcap", "captures/rough/two-interfaces.pcapng", "link types"),
    ],
)
def test_forms_that_do_not_fit(
    name: str, capture: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sliced(tmp_path / name, capture, "--all") == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_capture_is_not_written_over_itself(tmp_path: Path) -> None:
    mine = tmp_path / "mine.pcap"
    mine.write_bytes(Path(FEED).read_bytes())
    assert sliced(mine, str(mine), "--all") == 2
    assert mine.read_bytes() == Path(FEED).read_bytes()


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """A log-in in pieces of 7 bytes, one of them sent again at the end, and a stream."""
    talk = Conversation().open()
    talk.send(CLIENT, request(0x21, key=b"PLAIN", value=PASSWORD), mss=7)
    talk.send(SERVER, response(0x21))
    talk.send(CLIENT, request(0x50, bytes(8), b"name"))
    talk.send(SERVER, response(0x50))
    talk.send(CLIENT, request(0x53, bytes(48), vbucket=1, opaque=9))
    talk.send(SERVER, stream_answer(9), mutation(1, 9, 1, b"a key", PASSWORD))
    path = tmp_path / "login.pcap"
    path.write_bytes(pcap([*talk.packets, *talk.packets[8:10]]))
    return path


def test_log_ins_are_blanked(login: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In every copy, at the same length; the same bytes in a document stay."""
    assert sliced(tmp_path / "small.pcapng", str(login), "--all") == 0
    assert "with log-ins: these are blanked" in capsys.readouterr().err
    before, after = packets(login), packets(tmp_path / "small.pcapng")
    assert [(time, len(data)) for time, data in before] == [(time, len(data)) for time, data in after]
    there, kept = rows(capsys, login), rows(capsys, tmp_path / "small.pcapng")
    assert there == [{**row, "capture": str(login), "capture_first": str(login)} for row in kept]
    shown = rows(capsys, tmp_path / "small.pcapng", "--show-secrets", "--values", "--fields", "name,value")
    assert shown[0] == {"name": "sasl_auth", "value": "hex:" + "00" * len(PASSWORD)}
    changed = [old for (_, old), (_, new) in zip(before, after, strict=True) if old != new]
    joined = b"".join(data[54:] for _, data in after)
    assert len(changed) > 3
    assert joined.count(b"hunter2") == 2  # in the document
    assert sliced(tmp_path / "open.pcapng", str(login), "--all", "--show-secrets") == 0
    assert packets(tmp_path / "open.pcapng") == before


@pytest.mark.tool("tshark")
def test_checksums_stay_right(login: Path, tmp_path: Path) -> None:
    def bad(capture: Path) -> list[str]:
        command = ["tshark", "-r", str(capture), "-o", "tcp.check_checksum:TRUE", "-Y", "tcp.checksum.status != Good"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()

    assert sliced(tmp_path / "small.pcap", str(login), "--all") == 0
    assert bad(login) == bad(tmp_path / "small.pcap") == []


def test_log_ins_in_fragments_are_left_out(login: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their bytes are in several packets; what is in no fragment is copied."""
    data = login.read_bytes()
    head, records = data[:24], []
    for _, packet in packets(login):
        payload = packet[34:]
        pieces = [(payload[at : at + 24], at // 8 | (0x2000 if at + 24 < len(payload) else 0)) for at in (0, 24)]
        for piece, offset in pieces if b"hunter" in packet or b"\0bob" in packet else [(payload, 0)]:
            ip = bytearray(packet[14:34])
            ip[2:4], ip[6:8], ip[10:12] = (20 + len(piece)).to_bytes(2, "big"), offset.to_bytes(2, "big"), b"\0\0"
            records.append(packet[:14] + bytes(ip) + piece)
    order = "little" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else "big"
    sizes = [len(record).to_bytes(4, order) for record in records]
    login.write_bytes(
        head + b"".join(bytes(8) + size * 2 + record for size, record in zip(sizes, records, strict=True))
    )
    assert sliced(tmp_path / "small.pcapng", str(login), "--all") == 0
    assert "fragments of IP" in capsys.readouterr().err
    joined = b"".join(data[34:] for _, data in packets(tmp_path / "small.pcapng"))
    assert not any(part in joined for part in (b"hunt", b"unter"))
