"""Pages about the product itself, which messages point to: columns, filters, findings, exit statuses and more.

Those about rows are made of the schema, as those in ``docs/`` are; those written by hand are files of ``docs/``, which
a wheel has beside this module. All are Markdown; how they look is up to who shows them.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: Where a wheel has the pages of ``docs/`` (pyproject.toml), and where a checkout has them.
_FOLDERS = (Path(__file__).parent / "docs", Path(__file__).parents[1] / "docs")
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)\n*")
_TITLE = re.compile(r"\A# (?P<title>.*)\n+")
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?!https?:)(?P<target>[^)#]*)(?:#[^)]*)?\)")
EXIT_STATUSES = (
    (0, "done; check, archive: nothing is violated"),
    (1, "check, archive: a violation that is at least as severe as --severity says"),
    (2, "a mistake in the command, or an input that is of no use: one line on stderr, and nothing is written"),
    (3, "the input was damaged: everything readable was written, and stderr says what was lost"),
    (70, "a bug in uprscope: one line on stderr; with UPRSCOPE_DEBUG=1 a traceback"),
    (130, "interrupted (Ctrl-C)"),
    (141, "who was reading the output has gone, as head does"),
)


@dataclass(frozen=True, slots=True)
class HelpPage:
    """A page, with the words that ask for it, and where its text is: a generator's module, or a file of ``docs/``."""

    names: tuple[str, ...]
    about: str
    source: str

    @property
    def name(self) -> str:
        """Return the first of its names."""
        return self.names[0]


PAGES = (
    HelpPage(
        ("columns",), "the columns of frames, for --fields, --filter and programs", "dissector.codegen.frames_page"
    ),
    HelpPage(("filters", "filter"), "the language of --filter", "filters.md"),
    HelpPage(("connections",), "the columns of uprscope connections", "dissector.codegen.connections_page"),
    HelpPage(
        ("streams",), "those of uprscope connections --streams: the same page", "dissector.codegen.connections_page"
    ),
    HelpPage(("findings",), "what uprscope check writes for programs", "analysis.codegen.findings_page"),
    HelpPage(("stats", "statistics"), "what uprscope stats counts, and its JSON", "stats.md"),
    HelpPage(("sharing", "redaction"), "what --redact replaces for others to see, and what it leaves", "sharing.md"),
    HelpPage(("archive", "spark"), "archives of captures, and their tables", "spark.md"),
    HelpPage(("guide",), "walk-throughs: what to do with a capture", "guide.md"),
    HelpPage(("library",), "uprscope in programs: import uprscope", "library.md"),
    HelpPage(("glossary",), "the words", "glossary.md"),
    HelpPage(("exit-status", "exit-statuses"), "what a command's exit status means", ""),
)
#: Pages of ``docs/`` that are made from declarations, and the words that ask for what they say.
_ASKED_BY = {"frames": "columns", "spark": "archive", "rules": "rules", "bugs": "bugs"}


def page_of(word: str) -> HelpPage | None:
    """Return the page that a word asks for."""
    wanted = word.casefold().replace("_", "-")
    return next((page for page in PAGES if wanted in page.names), None)


def titled_text(page: HelpPage) -> tuple[str, str]:
    """Return a page's title and its text, in which links to other pages are the commands that show them."""
    text = _IMAGE.sub("", _COMMENT.sub("", _markdown(page)))
    found = _TITLE.match(text)
    title = found["title"] if found else page.name
    return title, _LINK.sub(_command, text[found.end() if found else 0 :])


def _markdown(page: HelpPage) -> str:
    if not page.source:
        rows = "\n".join(f"| {status} | {meaning} |" for status, meaning in EXIT_STATUSES)
        return f"# Exit statuses\n\n| status | meaning |\n|---|---|\n{rows}\n"
    if not page.source.endswith(".md"):
        rendered: str = importlib.import_module(page.source).render()
        return rendered
    folder = next(folder for folder in _FOLDERS if (folder / page.source).is_file())
    return (folder / page.source).read_text(encoding="utf-8")


def _command(link: re.Match[str]) -> str:
    """Return what stands for a link to a file, which only a checkout has."""
    name = PurePosixPath(link["target"]).stem
    word = _ASKED_BY.get(name, name)
    if page_of(word) is None and word not in _ASKED_BY.values():
        return f"the page on {name} in the source tree" if link["text"].endswith(".md") else link["text"]
    command = f"`uprscope explain {word}`"
    return command if link["text"].startswith(name) else f"{link['text']} ({command})"
