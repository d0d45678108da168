"""``uprscope report``: what is on the page, that everything foreign is escaped, and where it may be read from."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.report import sections
from analysis.report.findings import time_of
from dissector.extras import install_command
from tests.support import drawn_captures
from tests.support.paths import CAPTURES, ROOT
from tests.support.tcp_by_hand import BASE_NS, CLIENT, SERVER, STEP_NS, request, response
from uprscope import cli


class Reading(HTMLParser):
    """Takes a page apart: elements with their attributes, texts, and whether all that is opened is closed."""

    VOID = frozenset(("meta", "img", "input", "source", "br"))

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.inside.setdefault(self.open[-1] if self.open else "", []).append(data)
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def report(output: Path, *words: object, status: int = 0) -> Reading:
    assert cli.main(["report", *map(str, words), "-o", str(output)]) == status
    return Reading(output.read_text(encoding="utf-8"))


def finding_ids(page: Reading) -> list[str | None]:
    return [each["id"] for each in page.named("details") if each["class"] == "finding"]


def rows_of(html: str, table: str) -> list[list[str]]:
    body = html.partition(f'id="{table}"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>") if row.strip()]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in rows]


def test_what_is_on_the_page(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap", (1, 4, 3, 5))
    page = report(tmp_path / "a.html", capture)
    html = (tmp_path / "a.html").read_text()
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert {"rules", "findings", "connections", "streams", "pictures", "quality", "made"} <= set(identifiers)
    for attributes in page.named("a"):
        target = attributes["href"] or ""
        assert target.startswith("#")
        assert target[1:] in identifiers
    # Its no-op was not agreed upon, either.
    (unagreed, first, *_) = rows_of(html, "rules-table")
    assert unagreed[:4] == ["CON-05", "✗ violated", "error", "1"]
    assert first[:4] == ["SEQ-01", "✗ violated", "error", "3"]  # three items have one before them
    assert [row[2:4] for row in rows_of(html, "connections-table")] == [["10.0.0.2:11210", "plain"]]
    (stream,) = rows_of(html, "streams-table")
    assert stream[:3] == ["1", "plain", "7"]
    assert "Seqno 3 comes after 4 in the same stream; seqnos must increase." in page.text
    assert "frame.number in {10, 11}" in page.text  # handshake 3, set-up 4, marker, then the second and third item
    assert "Nothing is missing" in page.text
    # Screen readers have a text for every picture and column.
    alts = [attributes.get("alt") or "" for attributes in page.named("img")]
    assert all(alts)
    # It says what is seen. SEQ-01 is about the stream, the two other findings are not.
    assert any("1 stream, 4 items, 1 snapshot, 1 finding marked, a.pcap" in alt for alt in alts)
    assert all(attributes.get("scope") == "col" for attributes in page.named("th"))


def test_the_head_says_whose_capture_it_is(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap")
    page = report(tmp_path / "a.html", capture, "--no-pictures")
    assert ("".join(page.inside["title"]), "".join(page.inside["h1"])) == ("a.pcap - uprscope", "a.pcap")
    facts = dict(zip(page.inside["dt"], page.inside["dd"], strict=True))
    # Three packets of the handshake come before the first of eleven messages, one in each packet.
    first, last = (time_of(BASE_NS + packet * STEP_NS)[:-3] for packet in (3, 13))
    assert facts["time"] == f"{first} to {last[11:]} UTC, {10 * STEP_NS / 1000:.3g} µs"
    assert facts["traffic"].startswith("11 messages, ")
    assert facts["servers"].startswith("10.0.0.2:11210 (1 connection: dcp")
    shutil.copy(capture, tmp_path / "b.pcap")
    page = report(tmp_path / "a.html", capture, tmp_path / "b.pcap", "--no-pictures")
    assert page.inside["h1"] == ["a.pcap and 1 more"]


def test_severities_differ_in_shape(tmp_path: Path) -> None:
    """A rule whose violations are all mild is not shown as an error."""
    capture = CAPTURES / "25_stream_id_v705.pcap"  # its FRM-01 is a known defect of the server: a warning
    report(tmp_path / "a.html", capture, "--no-pictures")
    verdicts = {row[0]: row[1:3] for row in rows_of((tmp_path / "a.html").read_text(), "rules-table")}
    assert verdicts["FRM-01"] == ["▲ violated", "warning"]
    assert verdicts["OPQ-08"] == ["● violated", "info"]
    assert verdicts["FRM-02"] == ["✓ holds", "error"]


def test_nothing_to_judge_is_neither_good_nor_bad(tmp_path: Path) -> None:
    said = [(CLIENT, request(0x10, b"", opaque=8)), (SERVER, response(0x10, opaque=8))] * 4
    memcached = drawn_captures.written(tmp_path / "a.pcap", *said)
    for capture, verdict in ((memcached, "empty"), (CAPTURES / "06_replication_takeover.pcap", "good")):
        page = report(tmp_path / "a.html", capture, "--no-pictures")
        classes = [each.get("class") or "" for each in page.named("p")]
        assert [each for each in classes if "verdict" in each] == [f"verdict {verdict}"]


def test_it_fetches_nothing_and_runs_only_its_own(tmp_path: Path) -> None:
    capture = drawn_captures.hostile(tmp_path / "a.pcap")
    page = report(tmp_path / "a.html", capture)
    (policy,) = [each["content"] or "" for each in page.named("meta") if "http-equiv" in each]
    for kind in ("script", "style"):
        (content,) = ["".join(page.inside[kind])]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    assert len(page.named("script")) == 1
    assert not {tag for tag, _ in page.elements} & {"link", "iframe", "object", "embed", "base", "form", "svg"}
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "srcset"):
            assert (attributes.get(name) or "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
    for found in page.named("img"):
        svg = base64.b64decode((found["src"] or "").partition(",")[2])
        assert b"<script" not in svg
        assert not re.findall(rb'(?:href|src)="(?!#|data:)', svg)


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    capture = drawn_captures.hostile(tmp_path / "<b>&amp;\u202e.pcap")
    page = report(tmp_path / "a.html", capture, "--no-pictures")
    html = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<script>window.pwned=1</script>" in page.text
    assert "<b>&amp;\\u202e.pcap" in page.text
    assert "pwned" not in "".join(page.inside["script"])
    assert not set(html) & set("\u202e\u200b\u2066\ufeff\x1b\x00\x07")
    assert page.named("figure") == []


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap", (1, 4, 3, 5))
    pages = []
    for _ in range(2):
        report(tmp_path / "a.html", capture)
        pages.append((tmp_path / "a.html").read_bytes())
    assert pages[0] == pages[1]


def test_losses_and_what_they_leave_undecided(tmp_path: Path) -> None:
    page = report(tmp_path / "a.html", ROOT / "captures" / "07b_midconnection.pcap", "--no-pictures")
    assert "What could not be decided, and why" in page.text
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(drawn_captures.plain(tmp_path / "a.pcap").read_bytes()[:-30])
    page = report(tmp_path / "cut.html", cut, "--no-pictures", status=3)
    assert "the file ends" in page.text


def test_limits_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seqnos = tuple(number for pair in range(10, 40, 3) for number in (pair + 2, pair + 1))
    capture = drawn_captures.plain(tmp_path / "a.pcap", seqnos)
    monkeypatch.setattr(sections, "MOST_ROWS", 0)
    page = report(tmp_path / "a.html", capture, "--no-pictures", "--limit", "2")
    assert [each["class"] for each in page.named("details")].count("finding") >= 2
    assert "more of SEQ-01 are not told here" in page.text
    assert "1 more streams are not listed here" in page.text


def test_from_rows_and_from_an_archive(tmp_path: Path) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap", (1, 4, 3, 5))
    archive = tmp_path / "archive"
    for name in ("frames", "findings"):
        (archive / name / "part=1").mkdir(parents=True)
    rows, findings = archive / "frames" / "part=1" / "a.parquet", archive / "findings" / "part=1" / "b.parquet"
    assert cli.main(["dissect", str(capture), "--format", "parquet", "-o", str(rows)]) == 0
    assert cli.main(["check", str(capture), "--severity", "info", "--format", "parquet", "-o", str(findings)]) == 1
    (archive / "frames" / "_SUCCESS.parquet").write_bytes(b"no data")
    whole = report(tmp_path / "whole.html", capture, "--no-pictures")
    from_rows = report(tmp_path / "rows.html", rows, "--no-pictures")
    from_archive = report(tmp_path / "archive.html", "--archive", archive, "--no-pictures")
    names = finding_ids(whole)
    assert names == finding_ids(from_rows) == finding_ids(from_archive)
    transcripts = [page.inside["pre"] for page in (whole, from_rows, from_archive)]
    assert transcripts[0] == transcripts[1] == transcripts[2]
    tables = [
        rows_of((tmp_path / f"{name}.html").read_text(), "streams-table") for name in ("whole", "rows", "archive")
    ]
    assert tables[0] == tables[1] == tables[2]
    assert "The archive has" in from_archive.text
    assert [page.inside["h1"] for page in (from_rows, from_archive)] == [["a.parquet"], ["archive"]]
    connections = [
        rows_of((tmp_path / f"{name}.html").read_text(), "connections-table") for name in ("rows", "archive")
    ]
    assert connections[0] == connections[1] != []
    shutil.rmtree(archive / "findings")
    again = report(tmp_path / "checked.html", "--archive", archive, "--no-pictures")
    assert finding_ids(again) == names


def test_rings_of_an_archive_are_kept_apart(tmp_path: Path) -> None:
    """Each ring counts its frames from 1: a finding must not be shown with frames of another ring."""
    archive = tmp_path / "archive"
    for ring, seqnos in (("one", (1, 4, 3, 5)), ("two", (10, 40, 30, 50))):
        (tmp_path / ring).mkdir()
        capture = drawn_captures.plain(tmp_path / ring / "a.pcap", seqnos, name=ring.encode())
        for name, command in (("frames", "dissect"), ("findings", "check")):
            (archive / name / f"ring={ring}").mkdir(parents=True)
            output = archive / name / f"ring={ring}" / "a.parquet"
            cli.main([command, str(capture), "--format", "parquet", "-o", str(output)])
    page = report(tmp_path / "a.html", "--archive", archive, "--no-pictures")
    shown = [text for text in page.inside["pre"] if "by_seqno" in text]
    assert ["by_seqno=3 " in text for text in shown] == ["by_seqno=30 " not in text for text in shown]
    assert {"by_seqno=4 " in text for text in shown} == {True, False}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "{tmp}/x.html"], "give captures, or --archive"),
        (["{capture}", "--archive", "{tmp}", "-o", "{tmp}/x.html"], "give captures, or --archive"),
        (["--archive", "{tmp}", "-o", "{tmp}/x.html"], "no archive"),
        (["{tmp}/nothing.pcap", "-o", "{tmp}/x.html"], "nothing.pcap"),
        (["{capture}"], "required: -o"),
        (["{capture}", "-o", "{tmp}/no/x.html"], "cannot be written"),
    ],
)
def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap")
    filled = [word.replace("{tmp}", str(tmp_path)).replace("{capture}", str(capture)) for word in words]
    assert cli.main(["report", *filled, "--no-pictures"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pcap"]


@pytest.mark.parametrize("pictures", [["--no-pictures"], []])
def test_without_jinja(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, pictures: list[str]
) -> None:
    capture = drawn_captures.plain(tmp_path / "a.pcap")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert cli.main(["report", str(capture), "-o", str(tmp_path / "a.html"), *pictures]) == 2
    wanted = ["jinja2"] if pictures else ["jinja2", "matplotlib"]
    said = f"uprscope: a report needs Jinja2, which is not here: {install_command(*wanted)}\n"
    assert capsys.readouterr() == ("", said)
    assert not (tmp_path / "a.html").exists()


def test_a_capture_without_frames(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(drawn_captures.plain(tmp_path / "b.pcap").read_bytes()[:24])
    page = report(tmp_path / "a.html", tmp_path / "a.pcap")
    assert "No message of UPR or DCP, so nothing was checked. Seen instead: nothing." in page.text
    assert "Not drawn: seqno" in page.text


def test_times_beyond_the_calendar() -> None:
    assert time_of(1_700_000_000_123_456_789) == "2023-11-14 22:13:20.123456789"
    assert time_of(10**30) == f"{10**30} ns"
