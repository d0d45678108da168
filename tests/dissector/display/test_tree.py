"""Trees: every byte of a frame stands in exactly one line, with its own digits, and nothing reaches a terminal raw."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.codec.decoder import decode
from dissector.codec.message import Decoded
from dissector.display.tree import hidden_spans, tree
from dissector.spec.model import Dialect
from dissector.terminal.style import Terminal
from tests.support.paths import DATA

VECTORS: list[dict[str, Any]] = json.loads((DATA / "vectors.json").read_text())
SEEDS: list[dict[str, Any]] = json.loads((DATA / "seed_vectors.json").read_text())
PLAIN = Terminal()
#: A line of bytes: offset, digits, and what they are.
LINE = re.compile(r"    ([0-9a-f]{4,})  ((?:(?:[0-9a-f]{2}|\.\.)(?: |$))+)(… )? *(\S.*)?")
ROW: dict[str, Any] = {
    "frame": 7,
    "response": False,
    "packet_first": 3,
    "packet_last": 3,
    "capture": "a.pcap",
    "src": "10.0.0.1",
    "sport": 1,
    "dst": "10.0.0.2",
    "dport": 2,
    "connection": "0123456789abcdef",
    "time_ns": 1_700_000_000_000_000_001,
    "start_offset": 0,
    "end_offset": 24,
    "acked_offset": None,
    "gap": 0,
    "skipped": 0,
    "missing": 0,
}


def lines_of(decoded: Decoded, data: bytes, **row: Any) -> list[str]:
    return list(tree(decoded, data, {**ROW, **row}, PLAIN))


def check_coverage(lines: list[str], data: bytes, hidden: list[tuple[int, int]]) -> None:
    """Each line goes on where the one before ended: it shows all its bytes, or eight of more than eight."""
    found = [match for line in lines if (match := LINE.fullmatch(line))]
    starts = [int(match[1], 16) for match in found]
    assert starts == sorted(set(starts))
    if not data:
        assert not starts
        return
    assert starts[0] == 0
    secret = {offset for low, high in hidden for offset in range(low, high)}
    for match, start, end in zip(found, starts, [*starts[1:], len(data)], strict=True):
        digits = match[2].split()
        if match[3]:
            assert len(digits) == 8 < end - start, match[0]
        else:
            assert len(digits) == end - start, match[0]
        for offset, shown in enumerate(digits, start):
            assert shown == (".." if offset in secret else f"{data[offset]:02x}"), match[0]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
@pytest.mark.parametrize("withheld", [True, False], ids=["withheld", "shown"])
def test_every_byte_of_every_vector_has_its_line(vector: dict[str, Any], withheld: bool) -> None:
    data = bytes.fromhex(vector["hex"])
    decoded = decode(
        Dialect(vector["dialect"]), data, collections=vector.get("collections", False), withhold_secrets=withheld
    )
    lines = lines_of(decoded, data)
    check_coverage(lines, data, hidden_spans(decoded))
    text = "\n".join(lines)
    for name in vector["fields"]:
        # What has its default in a table, or was compressed, has no bytes of its own.
        place = "[0-9a-f]{4}  [0-9a-f ]+" if "table" not in vector else "(?:[0-9a-f]{4}  [0-9a-f ]+| +)"
        assert re.search(rf"^    {place} {name} ", text, re.MULTILINE), name
    for defect in vector.get("defects", []):
        assert f": {defect}: " in text


@given(st.sampled_from([*VECTORS, *SEEDS]), st.data())
def test_every_byte_of_broken_frames_has_its_line(vector: dict[str, Any], draw: st.DataObject) -> None:
    """Cut anywhere, and with any bytes changed."""
    data = bytearray.fromhex(vector["hex"])
    for _ in range(draw.draw(st.integers(0, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    cut = bytes(data[: draw.draw(st.integers(0, len(data)))])
    decoded = decode(Dialect(vector["dialect"]), cut, collections=draw.draw(st.booleans()))
    lines = lines_of(decoded, cut)
    check_coverage(lines, cut, hidden_spans(decoded))
    assert all(line.isprintable() for line in lines)


def frame(opcode: int, extras: bytes = b"", key: bytes = b"", value: bytes = b"", magic: int = 0x80) -> bytes:
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", magic, opcode, len(key), len(extras), 0, 0, len(body), 0, 0) + body


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        (b"\x1b[2Jkey", r"\x1b[2Jkey"),
        (b"a\nb\rc\td", r"a\nb\rc\td"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\u202egnp.exe".encode(), r"\u202egnp.exe"),
        ("\x9b31m".encode(), r"\u009b31m"),
        (b"back\\slash", r"back\\slash"),
        ("schlüssel".encode(), "schlüssel"),
    ],
)
def test_hostile_names_are_escaped(hostile: bytes, shown: str) -> None:
    mutation = frame(0x57, bytes(31), hostile, b'{"a": "' + hostile + b'"}')
    lines = lines_of(decode(Dialect.DCP, mutation), mutation, capture=hostile.decode("utf-8", "surrogateescape"))
    assert all(line.isprintable() for line in lines)
    assert any(re.fullmatch(rf"    0037 .* key +{re.escape(shown)}", line) for line in lines)
    assert any(line.endswith(f'data                   {{"a": "{shown}"}}') for line in lines)
    assert any(line.startswith(f"  packet 3 of {shown}, ") for line in lines)


def test_a_document_is_shown_as_it_is_on_the_wire() -> None:
    """Twice the same key, numbers as they were written: only the whitespace between the parts is changed."""
    document = b'{"a": 1,\n\t"a": 1E2,  "b \\" c  d": "e  f"}'
    mutation = bytearray(frame(0x57, bytes(31), b"k", document))
    mutation[5] = 1  # JSON
    lines = lines_of(decode(Dialect.DCP, bytes(mutation)), bytes(mutation))
    shown = r'{"a": 1, "a": 1E2, "b \\" c  d": "e  f"}'  # safe_text doubles backslashes
    assert any(line.endswith(f"… {' ' * 2}JSON                   {shown}") for line in lines), lines


def test_a_secret_is_withheld_in_all_its_forms() -> None:
    password = b"\0user\0correct horse"
    data = frame(0x21, key=b"PLAIN", value=password)
    withheld, shown = (
        "\n".join(lines_of(decode(Dialect.MEMCACHED, data, withhold_secrets=hidden), data)) for hidden in (True, False)
    )
    assert "correct" not in withheld
    assert password[:8].hex(" ") not in withheld
    assert "withheld" in withheld
    assert r"\x00user\x00correct horse" in shown
    assert password[:8].hex(" ") in shown


def test_where_a_frame_comes_from() -> None:
    data = frame(0x5C)
    lines = lines_of(
        decode(Dialect.DCP, data), data, packet_first=3, packet_last=12, end_offset=1_024, acked_offset=5_000, gap=1
    )
    assert lines[:5] == [
        "Frame 7: noop (DCP_NOOP) request, dcp, 24 bytes",
        "  10.0.0.1:1 → 10.0.0.2:2, connection 0123456789abcdef",
        "  packets 3 to 12 of a.pcap, 2023-11-14 22:13:20.000000001 UTC",
        "  bytes 0 to 1,024 of its direction; its sender had acknowledged 5,000",
        "  1 byte lost before it",
    ]


def test_a_long_list_of_records_is_cut_but_accounted_for() -> None:
    log = b"".join(struct.pack(">QQ", number, number) for number in range(100))
    data = frame(0x54, value=log, magic=0x81)
    lines = lines_of(decode(Dialect.DCP, data), data, response=True)
    check_coverage(lines, data, [])
    assert sum(" seqno=" in line for line in lines) == 64
    assert lines[-1].endswith("records                and 36 more")


def test_ascii_terminals_get_ascii() -> None:
    mutation = frame(0x57, bytes(31), b"a key that is long")
    lines = tree(decode(Dialect.DCP, mutation), mutation, ROW, Terminal(unicode=False))
    assert all(line.isascii() for line in lines)
