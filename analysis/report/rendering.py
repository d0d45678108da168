"""Templates to HTML: one Jinja environment, in which every value is escaped, and what a page needs besides.

Text of a capture is hostile. Besides markup, control characters, characters without a shape and those that turn the
direction of writing around are shown as their codes. The environment does this to all values; templates have no
filters, so none can mark text as safe. Knows HTML; must not know frames.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dissector.terminal.style import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE, _FOLDER = "analysis.report", "templates"


@functools.cache
def environment() -> Environment:
    """Return the environment of all templates."""
    made = Environment(
        loader=PackageLoader(_PACKAGE, _FOLDER),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Some of Jinja's filters return markup that has not passed ``shown``, and ``safe`` is one of them.
    made.filters.clear()
    return made


def shown(value: object) -> Markup:
    """Escape a value before it is written: Jinja calls this for every expression of a template.

    Markup is the output of a macro, or a style or script of :func:`page`; its lines stay lines. Text joined to markup
    within a template has become markup too, so invisible characters are escaped in both.
    """
    if isinstance(value, Markup):
        return Markup("\n".join(one_line(line) for line in value.split("\n")))  # noqa: S704 - escaped already
    return escape(one_line(str(value)))


def page(values: Mapping[str, object]) -> str:
    """Return the page with these values. Nothing runs in it, and nothing is loaded, but the style and the script."""
    style, script = _own("page.css"), _own("page.js")
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
    return environment().get_template("page.html.j2").render(values, style=style, script=script, policy=policy)


def _own(name: str) -> Markup:
    """Return a file of the package, which goes into the page as it is."""
    return Markup((files(_PACKAGE) / _FOLDER / name).read_text("utf-8"))  # noqa: S704 - ours


def fingerprint(content: str) -> str:
    """Return how a Content-Security-Policy names a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def data_url(kind: str, data: bytes) -> str:
    """Return data as an address."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
