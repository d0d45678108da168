"""Templates escape every value, whatever their author writes."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from jinja2 import TemplateAssertionError, UndefinedError
from markupsafe import Markup

from analysis.report import rendering
from tests.support.drawn_captures import HOSTILE

TEMPLATES = {
    each.name: each.read_text("utf-8")
    for each in (files("analysis.report") / "templates").iterdir()
    if each.name.endswith(".j2")
}
#: Every way to write a value that Jinja has, with some that are meant to leave it as it is.
WAYS = (
    "{{ value }}",
    '<p title="{{ value }}"></p>',
    "{{ value ~ value }}",
    "{{ 'a' + value }}",
    "{{ [value] }}",
    "{{ {'a': value} }}",
    "{{ '%s' % value }}",
    "{{ '{}'.format(value) }}",
    "{{ value if value else '' }}",
    "{% for each in [value] %}{{ each }}{% endfor %}",
    "{% set other = value %}{{ other }}",
    "{% set other %}{{ value }}{% endset %}{{ other }}",
    "{% macro made(text) %}<b>{{ text }}</b>{% endmacro %}{{ made(value) }}",
    "{% macro made(text) %}<b>{{ text }}</b>{% endmacro %}{{ made(value) ~ value }}",
    "{% macro made() %}<b></b>{% endmacro %}{{ made() + value }}",
    "{% macro made() %}<b>%s</b>{% endmacro %}{{ made() % value }}",
    "{% macro made() %}<b>{}</b>{% endmacro %}{{ made().format(value) }}",
    "{% macro made() %}<b></b>{% endmacro %}{{ made().join([value, value]) }}",
    "{% macro made(text) %}{{ text }}{% endmacro %}{{ made(value).unescape() }}",
    "{% macro made() %}{{ caller() }}{% endmacro %}{% call made() %}{{ value }}{% endcall %}",
    "{% autoescape false %}{{ value }}{% endautoescape %}",
    "{% autoescape false %}{{ value ~ value }}{% endautoescape %}",
    "{% autoescape false %}{% set other %}{{ value }}{% endset %}{{ other }}{% endautoescape %}",
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [text.decode("utf-8", "surrogateescape") for text in HOSTILE])
def test_a_template_cannot_forget_to_escape(way: str, value: str) -> None:
    html = rendering.environment().from_string(way).render(value=value)
    assert html.isprintable()
    assert set(re.findall(r"<[^>]*>?", re.sub(r'"[^"]*"', '""', html))) <= {"<b>", "</b>", '<p title="">', "</p>"}
    if "title" not in way:
        assert not set(html) & set("\"'")


@pytest.mark.parametrize("name", ["safe", "e", "join", "replace", "xmlattr", "tojson"])
def test_there_are_no_filters(name: str) -> None:
    """Some of them return markup, and ``safe`` makes markup of anything."""
    with pytest.raises(TemplateAssertionError, match="No filter named"):
        rendering.environment().from_string(f"{{{{ value|{name} }}}}")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("<&>", "&lt;&amp;&gt;"),
        ("\"'", "&#34;&#39;"),
        ("\u202ea\u200b", r"\u202ea\u200b"),
        ("\x00\x1b\n\u2028", r"\x00\x1b\n\u2028"),
        (7, "7"),
        (Markup("<b>\n\u202e</b>"), "<b>\n\\u202e</b>"),  # lines of markup stay lines
    ],
)
def test_what_is_shown(value: object, shown: str) -> None:
    assert rendering.environment().from_string("{{ value }}").render(value=value) == shown


def test_a_name_that_is_not_there_is_an_error() -> None:
    for text in ("{{ value }}", "{% if value %}{% endif %}", "{{ other.value }}"):
        with pytest.raises(UndefinedError):
            rendering.environment().from_string(text).render(other=3)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_quote_attributes(name: str) -> None:
    """Escaping does not help without quotes around the value. Elements that run or fetch have values of ours only."""
    text = TEMPLATES[name]
    assert not re.search(r"=\s*[{']", re.sub(r"{[%#].*?[%#]}", "", text, flags=re.DOTALL))
    assert not re.search(r"\son\w+\s*=|\sstyle\s*=", text)
    assert set(re.findall(r"<(?:script|style)[^/]*/", text)) <= {"<script>{{ script }}</", "<style>{{ style }}</"}
    assert set(re.findall(r'\b(?:href|src|srcset)="[^"]*"', text)) <= {
        *('href="#top"', 'href="#{{ section.id }}"', 'href="#{{ cell.link }}"'),
        *('src="{{ picture.light }}"', 'srcset="{{ picture.dark }}"'),
    }
