"""The page about findings, ``docs/findings.md``: every column of their rows, and the comments on packets."""

from __future__ import annotations

from analysis.annotate.comment import PacketComment
from analysis.check.checker import MAX_FINDINGS
from analysis.check.export import COLUMNS
from dissector.capture.pcapng_writer import LONGEST_COMMENT
from dissector.codegen.markdown import code, escape, table

_EXAMPLE = PacketComment(
    rule="SEQ-01",
    severity="error",
    role="guilty",
    message="mutation vb 2 seqno 2",
    sentence="seqno 2 comes after 2 in the same stream; seqnos must increase. At fault: proxy. Next: `uprscope plot "
    "CAPTURE seqno --connection e27da4dc7e5cb631 -o seqno.png` shows whether one item is out of place or the stream "
    "starts over; a replica drops the item ('Erroneous (out of sequence)' in its memcached.log), so compare the "
    "document on both nodes.",
    finding="SEQ-01-06a74178",
    packets=(("guilty", 102), ("last", 100)),
)

_INTRODUCTION = f"""\
# Findings as rows

<!-- Generated from analysis/check/export.py by `make docs`. -->

`uprscope check CAPTURE...` writes findings: violations of [the rules](rules.md), each with the frames that prove it.
`--format ndjson|csv|parquet` writes one row per finding, `--format json` a document with `findings` and, for every
rule, how often it was checked and how that went, `--format junit` a test case per rule.

* A finding has the same `id` in every run over the same traffic: it is made of the rule, the connection and the byte
  of the stream where the guilty frame begins, not of packet numbers. `--baseline` and `uprscope slice` go by it.
* Columns without a value are left out of JSON. In JSON `facts` is an object, in CSV `frames` and `facts` are words like
  `guilty=69`.
* Findings that go back to the same cause are one finding with `echoes`. Of one rule at most {MAX_FINDINGS:,} are
  listed; stderr says how many were counted only.
* `--live` writes each finding as soon as it is proven, once, and no limit applies. `echoes` are those up to then, and
  `fault` is what is known by then.

"""

_COMMENTS = f"""
## Findings as comments on packets

`uprscope check CAPTURE... --annotate copy.pcapng` writes, beside its usual output, a copy of the captures in which
packets have comments (`opt_comment` of pcapng). Wireshark shows them, and filters by them:
`frame.comment contains "SEQ-01"`. There is one comment for every frame that proves a finding, on the packet in which
the frame ends; or on the one in which it begins, if bytes of the frame are missing:

```
{_EXAMPLE}
```

* In front of the bracket, for people: the rule, how bad it is, what the frame is to the finding (`guilty`, or the name
  of the evidence), the message, and why the rule is broken; on the guilty frame also who is at fault and what to look
  at next. Keys of documents are not in it, and commands say CAPTURE where `check` names the file.
* In the bracket, for programs: the finding's id, and the packets of all its frames, the guilty one first. The last
  word is a check of everything before it, from the comment's first byte up to the `; ` in front of the check:
  `h = 5381`, and for each byte of the UTF-8 text `h = (h * 33 + byte) mod 2^32`, as 8 hexadecimal digits. It tells
  these comments from others that look alike, were cut, or were edited by hand.
* A comment has at most {LONGEST_COMMENT:,} bytes. A longer sentence is cut, and ends in `…`.
* The copy is pcapng, whatever the captures are: several follow one another as sections, and packets are counted
  through. Blocks and options of pcapng captures stay as they are, in their order; only a Simple Packet Block that gets
  a comment becomes an Enhanced one, with the time of the packet before it. What could not be read is not in the copy.
  Comments of an earlier check are left out, and stderr says how many there were.
"""


def render() -> str:
    """Return the page."""
    rows = [[code(column.name), escape(str(column.type)), escape(column.doc)] for column in COLUMNS]
    return _INTRODUCTION + table(["column", "type", "meaning"], rows) + "\n" + _COMMENTS
