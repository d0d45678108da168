"""The public library gives what the command line gives, imports little, and tells mistakes in one line."""

from __future__ import annotations

import inspect
import json
import pydoc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import uprscope
from dissector.frames.derived_columns import ROW_SCHEMA
from tests.support.paths import CAPTURES, ROOT
from uprscope import cli

NOOP = CAPTURES / "03_noop.pcap"
FLOW = CAPTURES / "02_flow_control.pcap"
BROKEN = CAPTURES / "broken" / "FLC-02.pcapng"
LOSSY = CAPTURES / "rough" / "lossy.pcapng"
FUNCTIONS = ("frames", "connections", "streams", "stats", "check", "check_frames", "explain", "decode")
SCREEN = (80, 24)


def rows(*words: str, tmp_path: Path) -> list[dict[str, object]]:
    """Return what the command line writes as Arrow."""
    target = tmp_path / "rows.arrow"
    assert cli.main([*words, "--format", "arrow", "-o", str(target)]) == 0
    with pa.ipc.open_stream(target) as reader:
        return list(reader.read_all().to_pylist())


def fresh(code: str, *, path: str = "") -> str:
    """Run Python in a process of its own."""
    environment = {"PYTHONPATH": f"{ROOT}:{path}", "PATH": ""}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_import_is_light() -> None:
    heavy = '{"numpy", "pyarrow", "analysis", "rich", "shtab", "argparse"}'
    assert fresh(f"import sys, uprscope; print(sorted({heavy} & set(sys.modules)))") == "[]\n"
    assert fresh(f"import sys, uprscope; uprscope.UprscopeError; print(sorted({heavy} & set(sys.modules)))") == "[]\n"


def test_every_public_name_is_there_and_no_other() -> None:
    for name in uprscope.__all__:
        assert getattr(uprscope, name) is not None
        assert name in dir(uprscope)
    with pytest.raises(AttributeError, match="nonsense"):
        uprscope.nonsense  # noqa: B018
    assert issubclass(uprscope.FilterError, uprscope.UprscopeError)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_of_functions_fits_a_screen(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(uprscope, name)))
    taken = sum(max(1, -(-len(line) // SCREEN[0])) for line in text.splitlines())
    assert taken <= SCREEN[1]
    _, _, body = text.partition(" -> ")  # the signature may take several lines, the words must not
    assert all(len(line) <= SCREEN[0] for line in body.splitlines()[1:])
    assert ">>> " in text


@pytest.mark.parametrize("name", ["", "Frames", "Connections", "Streams", "Reading"])
def test_docs_of_classes_fit_a_screen(name: str) -> None:
    doc = inspect.getdoc(getattr(uprscope, name) if name else uprscope)
    assert doc is not None
    assert len(doc.splitlines()) <= SCREEN[1]
    assert max(map(len, doc.splitlines())) <= SCREEN[0] - 4


def test_frames_are_those_of_dissect(tmp_path: Path) -> None:
    assert uprscope.frames(NOOP).to_arrow().to_pylist() == rows("dissect", str(NOOP), tmp_path=tmp_path)
    where, names = "opcode == mutation and vbucket == 1", ["by_seqno", "key", "time_ns"]
    chosen = uprscope.frames(FLOW, names, where=where)
    expected = rows("dissect", str(FLOW), "--filter", where, "--fields", ",".join(names), tmp_path=tmp_path)
    assert expected
    assert chosen.to_arrow().to_pylist() == expected
    assert (chosen.columns, chosen.where) == (names, where)
    assert chosen.schema == pa.schema([ROW_SCHEMA.field(name) for name in names])


def test_frames_are_read_anew_each_time() -> None:
    frames = uprscope.frames([NOOP, str(FLOW)], ["frame"])
    with pytest.raises(uprscope.UsageError, match="nothing was read yet"):
        _ = frames.report
    first, second = (sum(batch.num_rows for batch in frames) for _ in range(2))
    assert first == second == frames.report.frames > 0
    assert all(isinstance(batch, pa.RecordBatch) and batch.schema == frames.schema for batch in frames)
    assert pa.table(frames).num_rows == first  # Arrow's stream interface


def test_options_are_those_of_the_command_line(tmp_path: Path) -> None:
    words = ["dissect", str(FLOW), "--decode-as", "12001=none"]
    assert uprscope.frames(FLOW, decode_as={12001: "none"}).to_arrow().num_rows == 0
    assert rows(*words, tmp_path=tmp_path) == []
    assert uprscope.frames(FLOW, dialect="upr", ports=[12001]).to_arrow()["dialect"].unique().to_pylist() == ["upr"]
    sizes = {"frame_bytes": 100, "search_bytes": 1000}
    limited = uprscope.frames(FLOW, limits=sizes).to_arrow().to_pylist()
    flags = ["--max-frame-bytes", "100", "--max-search-bytes", "1000"]
    assert limited == rows("dissect", str(FLOW), *flags, tmp_path=tmp_path)


def test_values_are_kept_where_they_are_asked_for() -> None:
    where = "opcode == mutation"
    assert uprscope.frames(FLOW, where=where).to_arrow()["value"].null_count > 0
    for frames in (uprscope.frames(FLOW, where=where, values=True), uprscope.frames(FLOW, ["value"], where=where)):
        assert frames.to_arrow()["value"].null_count == 0


def test_connections_and_streams_are_those_of_the_command(tmp_path: Path) -> None:
    assert uprscope.connections(FLOW).to_arrow().to_pylist() == rows("connections", str(FLOW), tmp_path=tmp_path)
    hashed = uprscope.connections(FLOW, hashes=True, everything=True)
    words = ["connections", str(FLOW), "--hash", "--all"]
    assert hashed.to_arrow().to_pylist() == rows(*words, tmp_path=tmp_path)
    streams = uprscope.streams(FLOW)
    assert streams.schema == streams.to_arrow().schema
    assert streams.to_arrow().to_pylist() == rows("connections", str(FLOW), "--streams", tmp_path=tmp_path)
    assert sum(batch.num_rows for batch in streams) == streams.to_arrow().num_rows
    assert streams.notes == []
    assert uprscope.connections(LOSSY).report.losses()


def test_findings_are_those_of_check(tmp_path: Path) -> None:
    target = tmp_path / "findings.json"
    assert cli.main(["check", str(BROKEN), "--format", "json", "-o", str(target)]) == 1
    expected = [finding["id"] for finding in json.loads(target.read_text())["findings"]]
    assert expected
    frames = uprscope.frames(BROKEN)
    inspections = [
        uprscope.check(BROKEN),
        uprscope.check([str(BROKEN)], rules="FLC"),
        uprscope.check(uprscope.frames(BROKEN, ["frame"]), rules=["FLC-02"], severity="error"),
        uprscope.check_frames(frames),
        uprscope.check_frames(frames.to_arrow(), rules="FLC"),
    ]
    assert [[finding.id for finding in each.findings] for each in inspections] == [expected] * len(inspections)
    assert uprscope.check(BROKEN, rules="SEQ").clean
    assert all(isinstance(finding, uprscope.Finding) for finding in inspections[0].findings)


def test_other_libraries() -> None:
    frames = uprscope.frames(NOOP, ["frame", "name"])
    count = frames.to_arrow().num_rows
    assert frames.to_polars().shape == (count, 2)
    assert frames.to_duckdb().query("f", "SELECT count(*) FROM f").fetchall() == [(count,)]
    import duckdb

    with duckdb.connect() as connection:
        assert frames.to_duckdb(connection).aggregate("max(frame)").fetchall() == [(count,)]


@pytest.mark.skipif(not (Path(sys.prefix) / "connect" / "pandas").is_dir(), reason="pandas is not installed")
def test_pandas() -> None:
    code = f"import uprscope; print(uprscope.frames({str(NOOP)!r}, ['frame', 'name']).to_pandas().shape)"
    count = uprscope.frames(NOOP).to_arrow().num_rows
    assert fresh(code, path=str(Path(sys.prefix) / "connect")) == f"({count}, 2)\n"


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_a_library_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(uprscope.UsageError) as caught:
        getattr(uprscope.frames(NOOP), f"to_{name}")()
    assert str(caught.value) == f"to_{name}() needs {name}, which is not installed: pip install {name}"


@pytest.mark.parametrize(
    ("reading", "complaint"),
    [
        ({"ports": 12000}, "ports: expected a list of numbers, such as [12000], not 12000"),
        ({"ports": "12000"}, "ports: expected a list of numbers, such as [12000], not '12000'"),
        ({"decode_as": ["upr"]}, "decode_as: expected ports with dialects, such as {12000: 'upr'}, not ['upr']"),
        ({"limits": 5}, "limits: expected names with numbers, such as {'connections': 1000}, not 5"),
    ],
)
def test_options_of_a_wrong_kind_are_one_line(reading: dict[str, object], complaint: str) -> None:
    with pytest.raises(uprscope.UsageError) as caught:
        uprscope.frames(NOOP, **reading)  # type: ignore[arg-type]
    assert str(caught.value) == complaint


def test_standard_input_is_read_once() -> None:
    code = """
import uprscope
frames = uprscope.frames("-", ["name"])
print(repr(frames))
print(frames.to_arrow().num_rows > 0)
try:
    frames.to_arrow()
except uprscope.InputError as error:
    print(error)
"""
    with NOOP.open("rb") as stream:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, stdin=stream, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "<Frames of standard input: 1 column>",
        "True",
        "standard input: can be read only once (keep the rows with to_arrow())",
    ]


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: uprscope.frames("missing.pcap"), "missing.pcap: no such file or directory"),
    (lambda: uprscope.frames([]), "captures: none given"),
    (lambda: uprscope.frames(b"x.pcap"), "captures: expected a path, not bytes"),  # type: ignore[arg-type]
    (lambda: uprscope.frames(7), "captures: expected a path, or several, not int"),  # type: ignore[arg-type]
    (lambda: uprscope.frames(NOOP, "name"), "columns: expected a list of names, such as ['time_ns', 'name']"),
    (lambda: uprscope.frames(NOOP, ["nam"]), "columns: no column 'nam' (did you mean name?)"),
    (lambda: uprscope.frames(NOOP, ["name", "name"]), "columns: name is there twice"),
    (lambda: uprscope.frames(NOOP, dialect="dpc"), "dialect: 'dpc' is none of draft, upr-proto, upr, dcp, memcached"),
    (lambda: uprscope.frames(NOOP, ports=[0]), "ports: 0 is no number from 1 to 65535"),
    (lambda: uprscope.frames(NOOP, decode_as={1: "x"}), "decode_as: 'x' is none of auto, none, draft"),
    (lambda: uprscope.frames(NOOP, limits={"frames": 1}), "limits: no limit 'frames' (known: out_of_order_bytes"),
    (lambda: uprscope.frames(NOOP, limits={"connections": 0}), "limits: connections: 0 is not a number above 0"),
    (lambda: uprscope.frames(NOOP, port=[1]), "port: no such option (known: separate, ports"),  # type: ignore[call-arg]
    (lambda: uprscope.frames(NOOP, where="vbucket =="), "expected a value, but the filter ends"),
    (lambda: uprscope.check(NOOP, rules="SEQ-99"), "rules: no rule 'SEQ-99'"),
    (lambda: uprscope.check(NOOP, severity="bad"), "severity: 'bad' is none of error, warning, info"),
    (lambda: uprscope.check(uprscope.frames(NOOP, where="response")), "check: Frames are checked as they are read"),
    (
        lambda: uprscope.check_frames(uprscope.frames(NOOP, ["name"])),
        "frames: rules need columns that are not there: acked_offset, ",
    ),
    (uprscope.explain, "explain: expected names or numbers as text"),
    (lambda: uprscope.explain("nonsense"), "nothing is called"),
    (lambda: uprscope.decode("80"), "data: expected bytes, not str"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "line"), MISTAKES, ids=[line for _, line in MISTAKES])
def test_mistakes_are_one_clear_line(call: Callable[[], object], line: str) -> None:
    with pytest.raises(uprscope.UprscopeError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(line)
    assert "\n" not in message or isinstance(caught.value, uprscope.FilterError)


def test_explain_and_decode() -> None:
    assert uprscope.explain("SEQ-01").startswith("rule SEQ-01")
    assert uprscope.explain("mutation").startswith(uprscope.explain("DCP_MUTATION")[:8])
    message = uprscope.decode(bytearray.fromhex("805c" + "00" * 22))
    assert (message.name, message.defects) == ("noop", ())
    assert [defect.id for defect in uprscope.decode(b"").defects] == ["truncated-header"]


def test_a_table_shows_its_first_rows() -> None:
    text = repr(uprscope.frames(NOOP, ["frame", "name", "key"], where="opcode == open"))
    assert text.splitlines()[0] == f"<Frames of {NOOP}: 3 columns, where opcode == open>"
    assert text.splitlines()[1].split() == ["frame", "name", "key"]
    page = uprscope.streams(FLOW)._repr_html_()
    assert page.count("<tr>") == 6
    assert page.endswith("</div>")


def test_nothing_of_a_capture_reaches_a_page_raw(tmp_path: Path) -> None:
    hostile = tmp_path / "<b>.pcap"
    data = NOOP.read_bytes().replace(b"noop-good", b"<i>hi</i>").replace(b"noop-idle", b"\x1b[31midle")
    hostile.write_bytes(data)
    opens = uprscope.frames(hostile, ["name", "key"], where="opcode == open and not response")
    for table in (opens, uprscope.connections(hostile)):
        for shown in (table._repr_html_(), repr(table)):
            assert "\x1b" not in shown
            assert "hex:1b5b33316d" in shown
        assert "<b>" not in table._repr_html_()
        assert "<i>" not in table._repr_html_()
        assert "&lt;i&gt;hi" in table._repr_html_()


def test_a_preview_reads_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uprscope.tables._PREVIEW_BYTES", 80_000)
    nothing = uprscope.frames(FLOW, ["name"], where="opcode == mutation and vbucket == 65535")
    assert repr(nothing).splitlines()[1:] == []
    late = uprscope.frames(FLOW, ["name"], where="frame > 1000")  # of 820 kB
    assert late.to_arrow().num_rows > 0
    assert repr(late).splitlines()[1:] == []


def test_notes_speak_of_the_librarys_own_option(tmp_path: Path) -> None:
    other = tmp_path / "other.pcap"
    assert cli.main(["generate", "basic", "-o", str(other)]) == 0
    table = uprscope.connections([other, FLOW], decode_as={12001: "none"})
    assert len(table.notes) == 1
    assert table.notes[0].endswith("(everything=True lists them)")


def test_a_capture_that_is_gone_can_still_be_shown(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(NOOP.read_bytes())
    frames = uprscope.frames(capture)
    capture.unlink()
    assert repr(frames) == f"<Frames of {capture}: {len(ROW_SCHEMA)} columns>"
    with pytest.raises(uprscope.InputError, match="no such file"):
        frames.to_arrow()


def test_keys_can_be_redacted() -> None:
    def keys(**options: Any) -> list[object]:
        table = uprscope.frames(FLOW, ["key"], where="name == mutation", **options).to_arrow()
        return list(table.column("key").to_pylist())

    plain = keys()
    secret = b"sixteen or more characters"
    redacted = keys(redact="documents", redact_key=secret)
    assert redacted == keys(redact="addresses", redact_key=secret) != keys(redact="documents")
    assert len(set(zip(plain, redacted, strict=True))) == len({*plain}) == len({*redacted})
    assert not {*plain} & {*redacted}
    for options in ({"redact": "all"}, {"redact_key": secret}, {"redact": "names", "redact_key": b"short"}):
        with pytest.raises(uprscope.UprscopeError, match="redact"):
            keys(**options)
