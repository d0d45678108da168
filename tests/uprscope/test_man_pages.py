"""The man pages: fresh, whole, and right for those who show them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from uprscope import cli, man_pages

FOLDER = ROOT / man_pages.FOLDER


def test_the_committed_pages_are_not_stale() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert kept == man_pages.pages(), "run python -m uprscope.man_pages"


def test_every_command_has_one_and_every_option_is_in_it() -> None:
    pages = man_pages.pages()
    assert set(pages) == {"uprscope.1", *(f"uprscope-{command.name}.1" for command in cli.COMMANDS)}
    _, parsers = cli.whole_parser()
    for name, parser in parsers.items():
        told = set(re.findall(r"\\fB((?:\\-)+[\w\\-]+)\\fR", pages[f"uprscope-{name}.1"]))
        assert told == {option.replace("-", r"\-") for option in parser._option_string_actions}
        assert rf"\fBuprscope\-{name}\fR(1)" in pages["uprscope.1"]


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        ("--max-x", r"\-\-max\-x"),
        (r"a \ b", r"a \e b"),
        (".TH is no macro", r"\&.TH is no macro"),
        ("'quoted'", r"\&\(aqquoted\(aq"),
        ("`a` ^ ~", r"\(gaa\(ga \(ha \(ti"),
        ("→ is from", r"\[u2192] is from"),
    ],
)
def test_roff_shows_text_as_it_is(text: str, roff: str) -> None:
    assert man_pages.escape(text) == roff


def test_the_command_names_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert man_pages.main([str(tmp_path), "--check"]) == 1
    assert "uprscope.1 is stale: run python -m uprscope.man_pages" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert man_pages.main([str(tmp_path)]) == 0
    assert man_pages.main([str(tmp_path), "--check"]) == 0


def test_mandoc_has_no_complaint() -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *sorted(map(str, FOLDER.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    others = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert others == []


def test_what_man_shows_is_what_was_written() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c", str(FOLDER / "uprscope-dissect.1")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    shown = re.sub(r".\x08", "", done.stdout)
    assert "uprscope dissect capture.pcap --filter 'opcode == mutation and vbucket == 5'" in shown
    assert "-o, --output FILE" in shown
