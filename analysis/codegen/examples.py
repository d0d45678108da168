"""Examples of broken rules, ``analysis/check/examples.json``: what a check says of the library's broken captures.

For each rule the first capture that was made to break it, and in which it is found; a rule without one has no example.
"""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.check.inspection import inspect
from analysis.check.rule_docs import ordered
from analysis.check.text_report import lines_of
from analysis.check.transcript import read
from dissector.capture import Input
from dissector.generate import library
from dissector.options import ReadOptions
from dissector.terminal.style import Terminal

if TYPE_CHECKING:
    from analysis.rules import Rule

_WIDEST = 150  #: columns of a line
_BROKEN = "broken/"


def render() -> str:
    """Return the file."""
    return json.dumps(examples(), indent=1, ensure_ascii=False) + "\n"


@cache
def examples() -> dict[str, dict[str, Any]]:
    """Return an example for each rule that has one."""
    entries: dict[str, list[library.LibraryEntry]] = {}
    for entry in library.read():
        if entry.file.startswith(_BROKEN) and entry.rules:
            entries.setdefault(entry.rules[0], []).append(entry)
    made = ((rule.id, _example(rule, entries.get(rule.id, []))) for rule in ordered())
    return {name: example for name, example in made if example is not None}


def _example(rule: Rule, entries: list[library.LibraryEntry]) -> dict[str, Any] | None:
    for entry in entries:
        found = _shown(rule, entry)
        if found is not None:
            wish = _wish(entry)
            return {
                "fault": entry.title,
                "capture": f"{library.FOLDER}/{entry.file}",
                "command": f"uprscope generate --break {shlex.quote(wish)} -o broken.pcapng",
                "variants": [_wish(each) for each in entries],
                **found,
            }
    return None


def _wish(entry: library.LibraryEntry) -> str:
    words = shlex.split(entry.command)
    return words[words.index("--break") + 1]


def _shown(rule: Rule, entry: library.LibraryEntry) -> dict[str, Any] | None:
    path = Path(library.ROOT, library.FOLDER, entry.file)
    inputs = [Input(entry.file, path)]
    findings = inspect(inputs, (rule,), ReadOptions()).findings
    if not findings:
        return None
    first = findings[0]
    transcript = read(inputs, ReadOptions(), findings[:1])
    width = max(len(frame.role) for frame in first.frames[1:]) if first.frames[1:] else 0
    lines = [_cut(line.rstrip()) for line in lines_of(first, transcript, Terminal(), width)]
    return {"sentence": first.sentence, "lines": lines}


def _cut(line: str) -> str:
    return line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…"
