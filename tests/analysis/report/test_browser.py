"""Reports in a real browser: they can be used, nothing of a capture runs in them, and nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import drawn_captures
from tests.support.browser import Browser, Page
from uprscope import cli

# One process has all of them: a browser and three reports are made once.
pytestmark = [pytest.mark.tool("chromium"), pytest.mark.xdist_group("chromium")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of a clean, a broken and a hostile capture."""
    place = tmp_path_factory.mktemp("reports")
    drawn_captures.plain(place / "clean.pcap")
    drawn_captures.plain(place / "broken.pcap", (1, 4, 3, 5, 2))
    drawn_captures.hostile(place / "<img src=x onerror=alert(1)>.pcap")
    for name, capture in (
        ("clean", "clean.pcap"),
        ("broken", "broken.pcap"),
        ("hostile", "<img src=x onerror=alert(1)>.pcap"),
    ):
        assert cli.main(["report", str(place / capture), "-o", str(place / f"{name}.html")]) == 0
    return place


def quiet(page: Page, path: Path) -> None:
    """Assert that nothing was loaded but the page itself, and that the browser has nothing to complain about."""
    assert page.fetched == [path.as_uri()]
    assert page.complaints == []


@pytest.mark.parametrize("name", ["clean", "broken", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_loads_and_fetches_nothing(browser: Browser, folder: Path, name: str, scheme: str) -> None:
    path = folder / f"{name}.html"
    page = browser.open(path, prefers_color_scheme=scheme)
    # Every picture has been decoded, in the colours that were asked for.
    sizes = page.run("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))")
    assert len(sizes) >= 5
    assert min(sizes) > 300
    sources = page.run("[...document.images].map(i => i.currentSrc === i.src)")
    assert set(sources) == {scheme == "light"}
    background = page.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
    quiet(page, path)


def test_nothing_of_a_capture_runs(browser: Browser, folder: Path) -> None:
    path = folder / "hostile.html"
    page = browser.open(path)
    assert page.run("typeof window.pwned") == "undefined"
    assert page.run("document.scripts.length") == 1
    assert page.run("document.querySelectorAll('link, iframe, object, embed, svg, form, base').length") == 0
    handlers = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.name))"
    assert not [name for name in page.run(handlers) if name.startswith("on") or name == "style"]
    # It is all there to be read, with the characters that deceive the eye as codes.
    text = page.run("document.body.textContent")
    assert "<script>window.pwned=1</script>" in text
    assert r"\u202egnp.exe" in text
    assert not set(text) & set("\u202e\u200b\u2066\ufeff\x1b\x00")
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.run("document.querySelectorAll('th button').forEach(b => b.click())")
    page.run("document.querySelectorAll('td, pre').forEach(e => e.dispatchEvent(new Event('mouseover')))")
    assert page.run("typeof window.pwned") == "undefined"
    quiet(page, path)


def test_a_script_that_got_in_would_not_run(browser: Browser, folder: Path, tmp_path: Path) -> None:
    """The page's policy is the second line of defence: it holds where escaping fails."""
    path = tmp_path / "pierced.html"
    html = (folder / "clean.html").read_text()
    bad = '<script>window.pwned=1</script><img src="http://192.0.2.1/x.png" onerror="window.pwned=2">'
    path.write_text(html.replace("<main", f"{bad}<main", 1))
    page = browser.open(path)
    assert page.run("typeof window.pwned") == "undefined"
    assert "Content Security Policy" in " ".join(page.complaints)


def test_sorting_and_filtering(browser: Browser, folder: Path) -> None:
    page = browser.open(folder / "broken.html")
    assert page.texts("#rules-table tbody td:first-child") == ["CON-05", "SEQ-01", "NOP-05"]
    page.run("document.querySelector('#rules-table th button').click()")  # unfolds the rules that hold
    page.run("document.querySelector('#rules-table th button').click()")
    rules = page.texts("#rules-table tbody td:first-child")
    assert len(rules) > 80
    page.run("document.querySelector('#rules-table th button').focus()")
    page.press("Enter", 13)
    assert page.texts("#rules-table tbody td:first-child") == sorted(rules)
    assert page.run("document.querySelector('#rules-table th').getAttribute('aria-sort')") == "ascending"
    page.press("Enter", 13)
    assert page.texts("#rules-table tbody td:first-child") == sorted(rules, reverse=True)
    # Numbers sort as numbers, and what is empty comes last in both directions.
    for _ in range(2):
        page.run("document.querySelector('#rules-table th:nth-child(4) button').click()")
        shown = [
            int(cell.replace(",", "")) if cell else None for cell in page.texts("#rules-table tbody td:nth-child(4)")
        ]
        there = [number for number in shown if number is not None]
        assert shown[: len(there)] == there
    assert there == sorted(there, reverse=True)
    page.run("document.querySelector('#rules .filter input').focus()")
    page.type("SEQ violated")
    assert page.texts("#rules-table tbody td:first-child") == ["SEQ-01"]
    assert page.texts("#rules .filter [role=status]") == [f"1 of {len(rules)}"]


@pytest.mark.parametrize("script", [True, False])
def test_folded_rows_can_be_unfolded(browser: Browser, folder: Path, script: bool) -> None:
    page = browser.open(folder / "broken.html", script=script)
    page.call("Emulation.setScriptExecutionDisabled", value=False)  # the page's own has not run
    seen = "[...document.querySelectorAll('#rules-table tbody tr')].filter(e => e.checkVisibility()).length"
    assert page.run(seen) == 3
    page.run("document.querySelector('#rules details.more summary').click()")
    assert page.run(seen) == page.run("document.querySelectorAll('#rules-table tbody tr').length") > 80
    page.run("document.querySelector('#rules details.more summary').click()")
    assert page.run(seen) == 3
    if script:  # a filter looks into what is folded away
        page.run("document.querySelector('#rules .filter input').focus()")
        page.type("FRM-02")
        assert page.texts("#rules-table tbody td:first-child") == ["FRM-02"]


def test_amounts_are_on_the_screen(browser: Browser, tmp_path: Path) -> None:
    """Long names, addresses and agents give way."""
    capture = drawn_captures.plain(tmp_path / "a.pcap", name=b"a-name-that-goes-on-and-on-" * 3)
    assert cli.main(["report", str(capture), "-o", str(tmp_path / "a.html"), "--no-pictures"]) == 0
    page = browser.open(tmp_path / "a.html")
    page.call("Emulation.setDeviceMetricsOverride", width=1000, height=800, deviceScaleFactor=1, mobile=False)
    for table, column in (("connections", "bytes ←"), ("streams", "bytes")):
        headings = f"[...document.querySelectorAll('#{table}-table th')]"
        right = page.run(f"{headings}.find(e => e.textContent === '{column}').getBoundingClientRect().right")
        assert 0 < right < 1000
    name = "document.querySelector('#connections-table td[title^=a-name]')"
    assert page.run(f"{name}.scrollWidth > {name}.clientWidth && {name}.title === {name}.textContent") is True


def test_opening_a_finding(browser: Browser, folder: Path) -> None:
    path = folder / "broken.html"
    page = browser.open(path)
    names = page.run("[...document.querySelectorAll('details.finding')].map(d => d.id)")
    assert [name[:6] for name in names] == ["CON-05", "SEQ-01", "SEQ-01", "NOP-05"]
    last = names[2]
    opened = f"document.getElementById('{last}').open"
    assert page.run(opened) is False
    page.run(f"document.querySelector('#{last} summary').focus()")
    page.press("Enter", 13)
    assert page.run(opened) is True
    assert "mutation" in "".join(page.texts(f"#{last} pre"))
    # What cannot be copied here is selected, to be copied by hand.
    page.run(f"document.querySelector('#{last} code.copy + button').click()")
    page.run("new Promise(done => setTimeout(done, 200))")
    assert page.texts(f"#{last} code.copy + button")[0] in ("copied", "selected")
    # A link to a finding opens it.
    page.run(f"{opened} = false; location.hash = '#{last}'; new Promise(done => setTimeout(done, 200))")
    assert page.run(opened) is True
    # One button opens all, and closes them when all are open.
    page.run("document.querySelectorAll('details.finding').forEach(d => d.open = true)")
    page.run("document.querySelector('#findings .filter button').click()")
    assert page.run("[...document.querySelectorAll('details.finding')].some(d => d.open)") is False
    page.run("document.querySelector('#findings .filter button').click()")
    assert page.run("[...document.querySelectorAll('details.finding')].every(d => d.open)") is True
    quiet(page, path)


def test_zooming_with_the_keyboard(browser: Browser, folder: Path) -> None:
    path = folder / "clean.html"
    page = browser.open(path)
    page.run("document.querySelector('#pictures figcaption button').focus()")
    page.press("Enter", 13)
    assert page.run("document.querySelector('dialog').open") is True
    before = page.run("document.querySelector('dialog img').getBoundingClientRect().width")
    page.run("document.querySelector('dialog button').click()")
    assert page.run("document.querySelector('dialog img').getBoundingClientRect().width") > 2 * before
    page.press("Escape", 27)
    assert page.run("document.querySelector('dialog').open") is False
    quiet(page, path)


def test_narrow_windows_scroll_tables_only(browser: Browser, folder: Path) -> None:
    page = browser.open(folder / "broken.html")
    page.call("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=False)
    assert page.run("document.documentElement.scrollWidth") <= 360


def test_reading_without_script(browser: Browser, folder: Path) -> None:
    page = browser.open(folder / "broken.html", script=False)
    tree = page.call("DOM.getDocument", depth=-1)
    html = page.call("DOM.getOuterHTML", nodeId=tree["root"]["nodeId"])["outerHTML"]
    assert "SEQ-01" in html
    # Nothing that only the script can serve is offered.
    assert "<button" not in html.partition("<script>")[0]
    assert "<input" not in html.partition("<script>")[0]


def test_printing_shows_closed_findings(browser: Browser, folder: Path) -> None:
    page = browser.open(folder / "broken.html")
    assert page.run("[...document.querySelectorAll('details.finding')].some(d => !d.open)") is True
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.texts("#rules-table th button")[:2] == ["rule", "verdict"]  # headings are buttons, and printed
    assert page.texts("#rules .filter") == page.texts("button.small") == []
    printed = page.call("Page.printToPDF")
    assert len(printed["data"]) > 20_000
    assert page.run("[...document.querySelectorAll('details.finding')].every(d => d.open)") is True
