"""HTML: elements, tables, escaping. Whatever is put into an element is escaped; there is no way around it but ``Html``.

Text of a capture is hostile: besides markup, characters that turn the direction of writing around, or that nobody
sees, are shown as their codes. Knows HTML; must not know frames.
"""

from __future__ import annotations

import base64
import hashlib
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dissector.terminal.style import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_VOID = frozenset(("meta", "img", "input", "source", "br"))


class Html(str):
    """Markup that is finished: it goes into the page as it is."""

    __slots__ = ()


def text(value: object) -> Html:
    """Escape text."""
    return value if isinstance(value, Html) else Html(html.escape(one_line(str(value)), quote=True))


def lines(value: Iterable[str]) -> Html:
    """Escape lines, and keep them apart."""
    return Html("\n".join(text(line) for line in value))


def element(name: str, /, *content: object, **attributes: str | bool) -> Html:
    """Make an element. ``class_`` is class, ``data_x`` is data-x; True is an attribute without a value, False none."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{''.join(text(part) for part in content)}</{name}>")


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Put parts together."""
    return Html(text(between).join(text(part) for part in parts))


@dataclass(frozen=True, slots=True)
class Heading:
    """The top of a column."""

    label: str
    right: bool = False  #: numbers
    wrap: bool = False  #: long text

    @property
    def form(self) -> str | bool:
        """Return the class of its cells."""
        return "number" if self.right else "wide" if self.wrap else False


def table(
    name: str, caption: str, headings: Sequence[Heading], rows: Iterable[Sequence[object]], *, fixed: bool = False
) -> Html:
    """Make a table, which the script makes sortable and filterable unless it is fixed."""
    head = joined(element("th", heading.label, scope="col", class_=heading.form) for heading in headings)
    body = joined(
        element(
            "tr",
            *(element("td", cell, class_=heading.form) for heading, cell in zip(headings, row, strict=True)),
        )
        for row in rows
    )
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", head)),
        element("tbody", body),
        id=name,
        class_="fixed" if fixed else "sortable",
    )
    # The region takes the focus, so that it can be scrolled with the keyboard.
    return element("div", whole, class_="scroll", role="region", aria_label=caption, tabindex="0")


def data_url(kind: str, data: bytes) -> str:
    """Return data as an address."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def fingerprint(content: str) -> str:
    """Return how a Content-Security-Policy names a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def document(title: str, style: str, script: str, body: Html) -> str:
    """Return a whole page. Nothing runs in it, and nothing is loaded, but what is named here."""
    policy = "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src {fingerprint(style)}",
            f"script-src {fingerprint(script)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = joined(
        (
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", title),
            Html(f"<style>{style}</style>"),
        )
    )
    # The script comes last: it finds everything there, and nothing waits for it.
    body = Html(f"{body}<script>{script}</script>")
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'
