"""``uprscope dissect`` among hostile files and surroundings: one clear line, the right status, nothing left behind."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissector.frames.reader import FrameReader
from tests.support import hostile, tcp_by_hand
from tests.support.live_feed import heeds_interrupts
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, mutation
from uprscope import cli

NOOPS = next(path for path in hostile.CAPTURES if "03_noop" in path.name)
FORMATS = ("text", "ndjson", "csv", "parquet", "arrow")
_ENV = {
    **{name: value for name, value in os.environ.items() if name not in {"PYTHONUNBUFFERED", "UPRSCOPE_DEBUG"}},
    "PYTHONUTF8": "1",
}
_COMMAND = [sys.executable, "-m", "uprscope", "dissect"]


def run(*args: str | Path, data: bytes | None = None, stdout: int = subprocess.PIPE) -> tuple[int, bytes, str]:
    done = subprocess.run(
        [*_COMMAND, *map(str, args)],
        input=b"" if data is None else data,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=_ENV,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout or b"", done.stderr.decode()


def one_line(said: str, *parts: str) -> None:
    assert said.startswith("uprscope: "), said
    assert said.count("\n") == 1, said
    for part in parts:
        assert part in said


# ------------------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"GET / HTTP/1.1\r\n\r\n" * 20, "not a capture"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 400, "nothing can be read"),
        (b"\xff" * 3, "not a capture"),
    ],
)
def test_what_is_no_capture(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.pcap"
    if content is not None:
        path.write_bytes(content)
    status, out, err = run(path, "-o", tmp_path / "out")
    assert (status, out) == (2, b"")
    one_line(err, str(path), said)
    assert not (tmp_path / "out").exists()


def test_a_directory_without_captures(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    status, out, err = run(tmp_path)
    assert (status, out) == (2, b"")
    one_line(err, "no captures in this directory (1 other file)")


def test_a_name_that_drives_the_terminal(tmp_path: Path) -> None:
    status, _, err = run(tmp_path / "a\x1b[2J\n\u202eb")
    assert status == 2
    one_line(err, "a\\x1b[2J\\n\\u202eb")


def test_a_truncated_capture(tmp_path: Path) -> None:
    linktype, packets = hostile.packets_of(NOOPS)
    whole, last = hostile.write_pcap(linktype, packets[:200]), hostile.write_pcap(linktype, packets[200:201])[24:]
    (tmp_path / "whole.pcap").write_bytes(whole)
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(whole + last[:-1])
    status, expected, err = run(tmp_path / "whole.pcap", "--format", "ndjson", "--fields", "name,packet_last")
    assert (status, err) == (0, "")
    status, out, err = run(cut, "--format", "ndjson", "--fields", "name,packet_last")
    assert (status, out) == (3, expected)
    one_line(err, f"cut.pcap: byte {len(whole)}: the file ends {len(last) - 1} bytes into packet 201")


@pytest.mark.parametrize("harm", ["sum", "middle", "end"])
def test_a_corrupt_gzip(tmp_path: Path, harm: str) -> None:
    data = bytearray(gzip.compress(NOOPS.read_bytes(), mtime=0))
    if harm == "sum":
        data[-8] ^= 1  # the last eight bytes are checksum and length
    elif harm == "middle":
        data[len(data) // 2 :] = b"\xff" * (len(data) // 2)
    else:
        del data[len(data) // 2 :]
    path = tmp_path / "x.pcap.gz"
    path.write_bytes(data)
    status, out, err = run(path, "--format", "ndjson", "--fields", "name")
    assert status == 3
    frames = len(hostile.read(hostile.Case("whole", (NOOPS.read_bytes(),)), FrameReader, 1 << 20).rows)
    assert out.count(b"\n") == frames if harm == "sum" else 10 < out.count(b"\n") < frames
    assert "gzip data is corrupt" in err if harm == "sum" else "gzip data" in err
    assert all(line.startswith("uprscope: ") for line in err.splitlines())


@pytest.mark.parametrize("compressed", [False, True])
def test_standard_input(compressed: bool) -> None:
    data = NOOPS.read_bytes()
    status, out, err = run("-", "--format", "ndjson", data=gzip.compress(data) if compressed else data)
    assert (status, err) == (0, "")
    first = json.loads(out.splitlines()[0])
    assert first["capture"] == "standard input"
    assert run("-", "-")[2] == "uprscope: standard input (-) can be given only once\n"


# ------------------------------------------------------------------------------------------------------------ outputs


@pytest.mark.parametrize("name", ["folder", "nowhere/out", "file/out", "n" * 300])
def test_output_that_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    status, out, err = run(NOOPS, "--format", "ndjson", "-o", tmp_path / name)
    assert (status, out) == (2, b"")
    one_line(err)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk(form: str) -> None:
    status, _, err = run(NOOPS, "--format", form, "-o", "/dev/full")
    assert status == 2
    one_line(err, "No space left on device")
    with Path("/dev/full").open("wb") as full:
        status, _, err = run(NOOPS, "--format", form, stdout=full.fileno())
    assert status == 2
    one_line(err, "No space left on device")


@pytest.mark.parametrize("form", FORMATS)
def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path, form: str) -> None:
    kept = tmp_path / "out"
    kept.write_text("from before")

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))

    done = subprocess.run(
        [*_COMMAND, str(NOOPS), "--format", form, "-o", str(kept)],
        capture_output=True,
        text=True,
        env={**_ENV, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        timeout=60,
        preexec_fn=small_files,
    )
    assert (done.returncode, done.stdout) == (2, "")
    one_line(done.stderr, "File too large")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert kept.read_text() == "from before"


@pytest.mark.parametrize("form", ["text", "ndjson", "csv", "arrow", "parquet"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, form: str) -> None:
    process = subprocess.Popen(
        [*_COMMAND, "-", str(NOOPS), "--format", form, "-o", str(tmp_path / "out")],  # of one pipe it is the end
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_ENV,
        preexec_fn=heeds_interrupts,  # noqa: PLW1509 - no threads here
    )
    assert process.stdin is not None
    process.stdin.write(NOOPS.read_bytes())
    process.stdin.flush()  # and more might come
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(tmp_path.iterdir()), "it never began to write"
    time.sleep(0.5)  # let it come to where it waits for more
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_closed_streams() -> None:
    command = f"'{sys.executable}' -m uprscope dissect '{NOOPS}'"
    done = subprocess.run(
        ["bash", "-c", f"{command} >&-; echo $? >&2"], capture_output=True, text=True, env=_ENV, check=False, timeout=60
    )
    assert done.stderr == "uprscope: standard output is closed\n2\n"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env=_ENV,
        check=False,
        timeout=60,
    )
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert done.returncode in {0, 141}  # it may have written everything before head left
    reading, writing = os.pipe()
    os.close(reading)
    status, _, err = run(NOOPS, stdout=writing)
    os.close(writing)
    assert (status, err) == (141, "")


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_binary_formats_are_not_for_terminals(form: str) -> None:
    master, slave = pty.openpty()
    try:
        status, _, err = run(NOOPS, "--format", form, stdout=slave)
    finally:
        os.close(slave)
        os.close(master)
    assert status == 2
    one_line(err, f"{form} is not for terminals")


# ------------------------------------------------------------------------------------------------------ hostile bytes

_KEYS = (
    b"\x1b[2J\x1b]0;owned\x07",
    b"two\nlines\r\nand \x00",
    "\u202egnp.exe \u2066 \u200b \ufeff".encode(),
    b"\xff\xfe\x80 not UTF-8 \xed\xa0\x80",
    "\x9b31m C1".encode(),
    b'=cmd|" /C calc"!A0,"quoted"',
    b"\\x1b is not ESC",
)
_CONTROL = b"\x1b[31mtext\x9b\n"
_SECRET = "hunter2-hunter2"  # noqa: S105 - nobody's


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """A capture whose keys, control values and log-in are made to do harm."""
    talk = Conversation().open()
    secret = b"\0user\0" + _SECRET.encode()
    talk.send(
        CLIENT, tcp_by_hand.request(0x21, b"", b"PLAIN", secret), tcp_by_hand.request(0x22, b"", b"PLAIN", secret)
    )
    talk.send(SERVER, tcp_by_hand.response(0x21, 0, secret), tcp_by_hand.response(0x21, 0x20, secret))
    talk.send(CLIENT, tcp_by_hand.request(0x50, bytes(4) + b"\0\0\0\1", b"\x1b[31mname"))
    talk.send(CLIENT, tcp_by_hand.request(0x5E, b"", b"set_\x1b[31mpriority", _CONTROL))
    talk.send(SERVER, tcp_by_hand.response(0x53, 0x04, b'{"error":{"context":"\x1b]0;x\x07\n"}}'))
    talk.send(SERVER, *(mutation(0, 1, seqno, key) for seqno, key in enumerate(_KEYS, 1)))
    path = tmp_path / "nasty.pcap"
    path.write_bytes(tcp_by_hand.pcap(talk.close(CLIENT).packets))
    return path


def written(capture: Path, form: str, *options: str) -> bytes:
    out = capture.with_name(f"out.{form}")
    assert cli.main(["dissect", str(capture), "--format", form, "-o", str(out), *options]) == 0
    return out.read_bytes()


def _dangerous(text: str) -> set[str]:
    """Return the characters that steer a terminal or hide others."""
    return {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and char != "\n"}


def test_no_control_character_reaches_text(nasty: Path) -> None:
    text = written(nasty, "text").decode()
    assert _dangerous(text) == set()
    rows = written(nasty, "ndjson").count(b"\n")
    assert text.count("\n") == 1 + rows  # one line each, and the headings
    assert f"key=hex:{_KEYS[0].hex()[:8]}" in text
    assert "key=\\\\x1b is not ESC" in text  # not to be taken for the escape above


def test_ndjson_is_one_sound_object_per_line(nasty: Path) -> None:
    lines = written(nasty, "ndjson").decode().split("\n")[:-1]
    found = [json.loads(line) for line in lines]
    assert not _dangerous("".join(lines)) & {chr(code) for code in range(32)}  # JSON escapes those below space
    keys = [row["key"] for row in found if row["name"] == "mutation"]
    expected = ["hex:" + key.hex() if number < 5 else key.decode() for number, key in enumerate(_KEYS)]
    assert keys == expected


def test_csv_has_a_row_per_frame(nasty: Path) -> None:
    text = written(nasty, "csv").decode()
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(found) == written(nasty, "ndjson").count(b"\n")
    keys = [row["key"] for row in found if row["name"] == "mutation"]
    assert keys[5] == _KEYS[5].decode()
    assert keys[0] == "hex:" + _KEYS[0].hex()


@pytest.mark.parametrize("form", FORMATS)
def test_secrets_are_withheld_unless_asked_for(nasty: Path, form: str) -> None:
    def content(*options: str) -> str:
        data = written(nasty, form, *options)
        if form == "parquet":
            data = repr(pq.read_table(io.BytesIO(data)).to_pylist()).encode()
        elif form == "arrow":
            data = repr(pa.ipc.open_stream(data).read_all().to_pylist()).encode()
        return data.decode(errors="replace")

    hidden, with_values = content(), content("--values")
    shown = content("--values", "--show-secrets")
    for text in (hidden, with_values):
        assert "sasl_auth" in text
        assert _SECRET not in text
        assert _SECRET.encode().hex() not in text
    if form != "text":  # lines for people have no values
        assert _SECRET in shown or _SECRET.encode().hex() in shown
