"""``--redact``: nothing of the user's is left, and everything else is as it was."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.check.inspection import check
from dissector.capture import Input
from dissector.codec.decoder import decode
from dissector.frames.reader import FrameReader
from dissector.frames.reference_reader import ReferenceReader
from dissector.options import ReadOptions
from dissector.pseudonyms import Pseudonyms
from dissector.pseudonyms.permutation import secret_of
from dissector.spec.model import Dialect
from tests.support import hostile
from uprscope import cli

#: Collections, xattrs, snappy, tables of events, records, extended metadata, the draft; troubles of TCP and damage.
CAPTURES = [
    "captures/22_novalue_v705.pcap",
    "captures/11_ext_metadata.pcap",
    "captures/04_rollback_errors.pcap",
    "captures/07a_snaplen96.pcap",
    "captures/12_any_cooked.pcap",
    "captures/rough/rough.pcapng",
    "captures/rough/lossy.pcapng",
    "captures/rough/ipv6-vlan.pcap",
    *(f"captures/clean/{name}.pcapng" for name in ("collections", "event-tables", "cache-transfer", "draft")),
    *(f"captures/clean/{name}.pcapng" for name in ("deletion-values", "other-protocols", "with-meta", "multiplex")),
    *(f"captures/bugs/MB-{number}.pcapng" for number in (54967, 55590, 22241)),
    *(f"captures/broken/FRM-10-{name}.pcapng" for name in ("json", "snappy", "xattr", "xattr-pair", "table")),
    "captures/broken/FRM-09-canonical.pcapng",
    "captures/broken/FRM-14-tiling.pcapng",
    "captures/broken/SEQ-08-twice.pcapng",
]
CONTENT = {"key", "key_bytes", "key_hash", "value", "value_hash", "text", "cache_records"}
PLACE = {"capture", "capture_first", "packet_first", "packet_last"}
#: Messages whose keys and values are words and numbers of the protocol.
PROTOCOL = {"control", "sasl_list_mechs", "version", "snapshot_marker", "stat", "seqno_acknowledged"}
#: Shorter ones may come up by accident.
WORD = re.compile(rb"[A-Za-z][A-Za-z0-9_:.-]{5,}")
KEY = "a text of more than sixteen characters"


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


def redacted(capture: str | Path, target: Path, *options: str) -> Path:
    assert cli.main(["slice", str(capture), "--all", "-o", str(target), *(options or ("--redact-names",))]) in (0, 3)
    return target


def frames(capture: str | Path) -> Iterator[tuple[dict[str, object], bytes]]:
    for batch, table in FrameReader([Input.of(str(capture))], ReadOptions()).tables():
        for index, row in enumerate(batch.to_pylist()):
            yield row, table.data(index)


def texts_of(capture: str | Path) -> set[bytes]:
    """Return keys, values, names and the words in them."""
    found: set[bytes] = set()
    for row, data in frames(capture):
        collections = row["collection_id"] is not None and row["event"] is None
        decoded = decode(Dialect(str(row["dialect"])), data, collections=collections, withhold_secrets=False)
        value, name = decoded.value, str(row["name"])
        if name in PROTOCOL or row["dialect"] is None:
            continue
        if name in {"sasl_auth", "sasl_step"}:
            found.add(value.raw)
            continue
        found |= {decoded.document_key, value.document}
        found |= {part for pair in value.xattrs for part in pair}
        found |= {part for record in value.records for part in (record.document_key, record.value)}
        entries = value.table.entries if value.table is not None else ()
        found |= {entry.value for entry in entries if isinstance(entry.value, bytes)}
        if not row["response"] and name not in {"stream_request", "system_event"}:
            found |= {word for text in (value.document, value.raw) for word in WORD.findall(text)}
    return {text for text in found if WORD.search(text)}


def haystack(capture: Path) -> bytes:
    """Return everything in a capture, expanded too."""
    parts = [capture.read_bytes()]
    for row, data in frames(capture):
        decoded = decode(Dialect(str(row["dialect"])), data, withhold_secrets=False)
        parts += [part for part in (decoded.value.inflated,) if part]
    return b"\0".join(parts)


@pytest.mark.parametrize("capture", CAPTURES)
def test_nothing_is_left_and_the_rest_is_the_same(capture: str, tmp_path: Path) -> None:
    made = redacted(capture, tmp_path / "made.pcapng")
    inside = haystack(made)
    texts = {text for text in texts_of(capture) if not re.fullmatch(rb'\{"(collections|scope|sid|uid|cts)".*', text)}
    assert not {text for text in texts if text in inside}
    assert [finding.id for finding in check(capture).findings] == [finding.id for finding in check(made).findings]
    before, after = [row for row, _ in frames(capture)], [row for row, _ in frames(made)]
    assert len(before) == len(after)
    left_out = "other-protocols" in capture  # packets that came between others
    for one, other in zip(before, after, strict=True):
        for name in one.keys() - CONTENT - (PLACE if left_out else {"capture", "capture_first"}):
            assert one[name] == other[name], name
        assert (one["key"] is None, one["value_hash"] is None) == (other["key"] is None, other["value_hash"] is None)
    for name in ("key", "value_hash"):
        pairs = {(one[name], other[name]) for one, other in zip(before, after, strict=True)}
        ones, others = ({pair[place] for pair in pairs} for place in (0, 1))
        assert len(ones) == len(others) == len(pairs) or name == "value_hash"


def test_the_search_finds_what_is_there() -> None:
    """It finds the texts of captures that are not redacted."""
    for capture in ("captures/clean/collections.pcapng", "captures/clean/event-tables.pcapng", CAPTURES[0]):
        texts = texts_of(capture)
        inside = haystack(Path(capture))
        assert len(texts) >= 5
        assert all(text in inside for text in texts)


@pytest.mark.parametrize("capture", ["captures/rough/rough.pcapng", "captures/clean/cache-transfer.pcapng"])
@pytest.mark.parametrize("option", ["--redact", "--redact-addresses"])
def test_rows_and_slices_with_one_key_are_alike(
    capture: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    options = (option, "--redact-key", str(key))
    made = redacted(capture, tmp_path / "made.pcapng", *options)
    found = []
    for command in ([capture, *options], [str(made)]):
        capsys.readouterr()
        assert cli.main(["dissect", *command, "--format", "ndjson", "--values"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        found.append([{name: value for name, value in row.items() if name not in PLACE} for row in rows])
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("capture", ["captures/04_rollback_errors.pcap", "captures/clean/draft.pcapng"])
def test_both_readers_replace_alike(capture: str) -> None:
    options = ReadOptions(values=True, pseudonyms=Pseudonyms(secret_of(KEY.encode()), names=True, addresses=True))
    rows = [
        [row for batch in reader([Input.of(capture)], options) for row in batch.to_pylist()]
        for reader in (ReferenceReader, FrameReader)
    ]
    assert rows[0] == rows[1]


def test_trees_and_dumps_show_replaced_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    capture = "captures/clean/collections.pcapng"
    for options in ("-V", "-x"):
        shown = {}
        for redact in ((), ("--redact",)):
            assert cli.main(["dissect", capture, options, "--no-pager", *redact]) == 0
            shown[redact] = capsys.readouterr().out
        keys = {row["key"] for row, _ in frames(capture) if row["name"] == "system_event" and row["key"]}
        assert keys
        for key in keys:
            assert key in shown[()]
            assert key not in shown["--redact",]


def test_a_finding_is_shown_by_a_redacted_slice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = "captures/broken/SEQ-01-backwards.pcapng"
    finding = next(each.id for each in check(capture).findings if each.rule == "SEQ-01")
    for option in ("--redact", "--redact-addresses"):
        made = tmp_path / f"{option}.pcapng"
        assert cli.main(["slice", capture, "--finding", finding, option, "-o", str(made)]) == 0
        assert "packets are redacted" in capsys.readouterr().err
        # Ids are hashes of addresses: whoever has one can try addresses.
        assert (finding.encode() in made.read_bytes()) == (option == "--redact")
        rules = [(each.rule, each.title) for each in check(made).findings]
        assert ("SEQ-01", next(each.title for each in check(capture).findings if each.id == finding)) in rules
        assert (finding in {each.id for each in check(made).findings}) == (option == "--redact")


def test_addresses_are_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = "captures/clean/collections.pcapng"
    made = redacted(capture, tmp_path / "made.pcapng", "--redact-addresses")
    before, after = [row for row, _ in frames(capture)], [row for row, _ in frames(made)]
    assert {row["sport"] for row in before} == {row["sport"] for row in after}
    hosts = {str(row["src"]) for row in before}
    assert not hosts & {str(row["src"]) for row in after}
    assert len(hosts) == len({row["src"] for row in after})
    inside = made.read_bytes()
    assert not any(bytes(map(int, host.split("."))) in inside for host in hosts)
    capsys.readouterr()
    assert cli.main(["connections", capture, "--redact-addresses", "--format", "ndjson"]) == 0
    assert not any(host in capsys.readouterr().out for host in hosts)


@pytest.mark.tool("tshark")
@pytest.mark.parametrize("capture", ["captures/rough/ipv6-vlan.pcap", "captures/rough/rough.pcapng"])
def test_no_checksum_becomes_wrong(capture: str, tmp_path: Path) -> None:
    """Those of the generated captures are right."""
    made = redacted(capture, tmp_path / "made.pcapng", "--redact-addresses")
    options = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    wrong = "tcp.checksum.status != Good or ip.checksum.status == Bad or _ws.malformed"
    command = ["tshark", "-r", str(made), *options, "-Y", wrong]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""


@pytest.mark.parametrize("level", ["container", "packet", "tcp", "frame"])
def test_hostile_captures(level: str, tmp_path: Path) -> None:
    """No traceback, whatever comes; and what was read before is read again."""
    for seed in range(4):
        for number, data in enumerate(hostile.case_of(level, seed).captures):
            path = tmp_path / f"{seed}-{number}.pcap"
            path.write_bytes(data)
            target = tmp_path / "made.pcapng"
            status = cli.main(["slice", str(path), "--all", "--redact-addresses", "-o", str(target)])
            assert status in (0, 2, 3)
            assert cli.main(["slice", str(path), "--all", "-o", str(target)]) in (0, 2, 3)


@pytest.mark.parametrize(
    ("level", "seed"), [("tcp", 10), ("tcp", 35), ("tcp", 54), ("frame", 11), ("frame", 40), ("packet", 35)]
)
def test_hostile_captures_have_the_same_frames(level: str, seed: int, tmp_path: Path) -> None:
    """Of ports that are used again without a word, of what begins as a frame and is none, of headers cut off."""
    captures = [tmp_path / f"{number}.pcap" for number in range(len(hostile.case_of(level, seed).captures))]
    for path, data in zip(captures, hostile.case_of(level, seed).captures, strict=True):
        path.write_bytes(data)
    made = tmp_path / "made.pcapng"
    assert cli.main(["slice", *map(str, captures), "--all", "--redact", "-o", str(made)]) in (0, 3)
    names = ["name", "connection", "start_offset", "end_offset"]
    found = [
        [[row[name] for name in names] for batch in FrameReader(inputs, ReadOptions()) for row in batch.to_pylist()]
        for inputs in ([Input.of(str(path)) for path in captures], [Input.of(str(made))])
    ]
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--redact-key", "captures/README.md"), "--redact-key is for --redact"),
        (("--redact", "--redact-key", "no such file"), "no such file: No such file or directory"),
        (("--redact", "--redact-key", "{short}"), "a secret has at least 16 characters"),
    ],
)
def test_mistakes(options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = tmp_path / "short"
    short.write_text("abc")
    arguments = [option.format(short=short) for option in options]
    assert cli.main(["dissect", "captures/clean/basic.pcapng", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_rows_have_no_bytes_to_replace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.parquet"
    assert cli.main(["dissect", "captures/clean/basic.pcapng", "-o", str(rows)]) == 0
    for command in ("dissect", "check", "connections"):
        assert cli.main([command, str(rows), "--redact"]) == 2
        assert "--redact needs the capture" in capsys.readouterr().err
