"""What ``uprscope explain`` says about the product itself: the pages of :mod:`uprscope.pages`, as text and as data.

The command looks this module up by its name, as it does those about rules and bugs.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from dissector.terminal.text_page import Page
from uprscope.pages import PAGES, page_of, titled_text

if TYPE_CHECKING:
    from dissector.terminal.style import Terminal

    Facts = dict[str, Any]


def names() -> list[str]:
    """Return everything that can be asked."""
    return [name for page in PAGES for name in page.names]


def facts(name: str) -> Facts:
    """Answer as data."""
    page = page_of(name)
    if page is None:
        return {"query": name, "answers": []}
    title, text = titled_text(page)
    return {"query": name, "answers": [{"kind": "page", "name": page.name, "title": title, "text": text}]}


def text(name: str, terminal: Terminal) -> str:
    """Answer as text."""
    page = Page(terminal)
    found = page_of(name)
    if found is not None:
        title, markdown = titled_text(found)
        page.title(title)
        page.drawing(_rendered(markdown, terminal))
    return page.text()


def listing(terminal: Terminal) -> str:
    """List the pages."""
    page = Page(terminal)
    page.paragraph("And about uprscope itself, as messages cite it:")
    page.gap()
    page.table([(each.name, each.about) for each in PAGES])
    return page.text()


def _rendered(markdown: str, terminal: Terminal) -> list[str]:
    """Lay Markdown out in lines."""
    from rich.console import Console  # noqa: PLC0415 - takes longer to load than most questions take to answer
    from rich.markdown import Markdown  # noqa: PLC0415
    from rich.theme import Theme  # noqa: PLC0415

    console = Console(
        file=io.StringIO(),
        width=terminal.width,
        force_terminal=terminal.color,
        color_system="standard" if terminal.color else None,
        legacy_windows=False,
        theme=Theme({"markdown.code": "cyan"}),
    )
    with console.capture() as capture:
        console.print(Markdown(markdown, hyperlinks=False, code_theme="ansi_dark", justify="left"))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    # Tables and code have an empty line of their own around them: one is enough.
    return [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
