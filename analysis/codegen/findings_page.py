"""The page about findings as rows, ``docs/findings.md``: every column, its type and its meaning."""

from __future__ import annotations

from analysis.checker import MAX_FINDINGS
from analysis.formats import COLUMNS
from dissector.codegen.markdown import code, escape, table

_INTRODUCTION = f"""\
# Findings as rows

<!-- Generated from analysis/formats.py by `make docs`. -->

`uprscope check CAPTURE...` writes findings: violations of [the rules](rules.md), each with the frames that prove it.
`--format ndjson|csv|parquet` writes one row per finding, `--format json` a document with `findings` and, for every
rule, how often it was checked and how that went, `--format junit` a test case per rule.

* A finding has the same `id` in every run over the same traffic: it is made of the rule, the connection and the byte
  of the stream where the guilty frame begins, not of packet numbers. `--baseline` and `uprscope slice` go by it.
* Columns without a value are left out of JSON. In JSON `facts` is an object, in CSV `frames` and `facts` are words like
  `guilty=69`.
* Findings that go back to the same cause are one finding with `echoes`. Of one rule at most {MAX_FINDINGS:,} are
  listed; stderr says how many were counted only.

"""


def render() -> str:
    """Return the page."""
    rows = [[code(column.name), escape(str(column.type)), escape(column.doc)] for column in COLUMNS]
    return _INTRODUCTION + table(["column", "type", "meaning"], rows) + "\n"
