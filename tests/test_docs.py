"""The hand-written pages: every link leads somewhere, and every file, folder and class that they name is there."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from analysis import codegen as analysis_codegen
from dissector import codegen
from tests.support.paths import ROOT

GENERATED = {*codegen.FILES, *analysis_codegen.FILES}
PAGES = sorted(
    path
    for path in chain(
        ROOT.glob("*.md"), (ROOT / "docs").glob("*.md"), (ROOT / "lua").glob("*.md"), (ROOT / "bench").glob("*.md")
    )
    if str(path.relative_to(ROOT)) not in GENERATED
)
#: Pages that describe the code: the classes that they name exist.
ABOUT_CODE = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"]
#: A path of the repository: it begins with one of its folders, or is one of the files beside them.
FOLDERS = ("analysis", "bench", "captures", "dissector", "docs", "lua", "tests", "uprscope")
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*{{}},-]*|[\w.-]+\.(?:md|toml|txt|yaml)|Makefile|LICENSE")
_CLASS = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+")
#: Classes of libraries that pages name.
_FOREIGN = {"RecordBatch"}


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def slug(heading: str) -> str:
    """Return the anchor that a heading gets: lower case, without marks, dashes for spaces."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return frozenset([*map(slug, headings), *re.findall(r'<a id="([^"]+)">', text)])


@cache
def classes() -> frozenset[str]:
    sources = (path.read_text(encoding="utf-8") for name in ("dissector", "analysis", "uprscope")
               for path in (ROOT / name).rglob("*.py"))  # fmt: skip
    return frozenset(name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE))


def paths_in(page: Path) -> list[str]:
    """Return what a page names in backticks that looks like a path of the repository."""
    return [code for code in _CODE.findall(prose(page)) if _PATH.fullmatch(code)]


def found(name: str, page: Path) -> bool:
    """Tell whether something is there: from the root, or from the page's own folder."""
    if any(mark in name for mark in "*{"):
        return bool(list(ROOT.glob(re.sub(r"\{[^}]*\}", "*", name))))
    return (ROOT / name).exists() or (page.parent / name).exists()


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if re.match(r"\w+://|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_paths_exist(page: Path) -> None:
    missing = [name for name in paths_in(page) if not found(name, page)]
    assert not missing


@pytest.mark.parametrize("page", ABOUT_CODE, ids=named)
def test_classes_exist(page: Path) -> None:
    words = {word for code in _CODE.findall(prose(page)) for word in [code.partition(".")[0]] if _CLASS.fullmatch(word)}
    assert words
    assert words - _FOREIGN <= classes()


def test_limits_are_those_of_the_code() -> None:
    """In the table of limits, every name stands in the file of its row."""
    rows = [
        row.split("|")[1:-1]
        for row in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()
        if re.match(r"\| `(dissector|analysis)/[\w/]+\.py` \|", row)
    ]
    assert len(rows) > 8
    for where, what, limit in rows:
        source = (ROOT / where.strip(" `")).read_text(encoding="utf-8")
        for name in _CODE.findall(what + limit):
            assert re.search(rf"\b{name}\b", source), (where, name)


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / target).resolve() for target in _LINK.findall(index)}
    pages = {*PAGES, *(ROOT / name for name in GENERATED if name.endswith(".md"))}
    assert {named(page) for page in pages} - {"docs/README.md"} <= {
        named(path) for path in linked if path.is_relative_to(ROOT)
    }


def test_paths_are_recognised() -> None:
    page = ROOT / "docs" / "architecture.md"
    assert "dissector/tcp/limits.py" in paths_in(page)
    assert not found("dissector/tcp/nothing.py", page)
    assert found("dissector/spec/dcp*.py", page)
    assert slug("FRM-01: the lengths of a `frame` add up") == "frm-01-the-lengths-of-a-frame-add-up"
