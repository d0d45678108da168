"""The page about the captures, ``captures/README.md``: a table of each sort, from ``captures/index.toml``."""

from __future__ import annotations

from dissector.codegen.markdown import code, escape, table
from dissector.generate import library

_INTRODUCTION = """\
# Captures

<!-- Generated from captures/index.toml by `make docs`; `make captures` writes the synthetic part of that. -->

## Recordings of real servers

Recordings of real Couchbase servers, made on a loopback interface with a small client that wrote down what it saw.
`NAME.truth.json.gz` is that client's own account of every message (offset, magic, opcode, vbucket or status, opaque,
size, decoded fields): the tests hold uprscope's rows against it, message by message.

Ports: 12000 is the data port and 12001 the UPR/DCP port of the first node, 12100 and 12101 those of a second one."""

_LOG_IN = "The log-in in these recordings is that of a test account that exists nowhere else."

_SYNTHETIC = """\
## Synthetic captures

Made by `uprscope generate`; the commands below give exactly these bytes, and a test holds them to it. With `--truth
FILE` such a command also writes down every message that was sent, where it is in the capture, and what is wrong."""

_SECTIONS = (
    (
        "clean/",
        "### Traffic that behaves",
        "Every rule holds. *Excused* is what looks like a broken rule, and is not: the reason stands behind it.",
    ),
    (
        "broken/",
        "### One broken rule each",
        "The rule gives the file its name. *Proof* are the numbers of the packets with the messages that prove it.",
    ),
    (
        "bugs/",
        "### Historical bugs",
        "[docs/bugs.md](../docs/bugs.md) tells of each. *Proof* are the packets that prove what the first rule finds.",
    ),
    ("rough/", "### Networks and recorders that misbehave", "The traffic itself breaks no rule."),
)


def render() -> str:
    """Return the page."""
    entries = library.read()
    recorded = [
        [code(each.file), escape(each.server), escape(each.holds), escape(each.wrong)]
        for each in entries
        if not each.synthetic
    ]
    parts = [_INTRODUCTION, table(["capture", "server", "what is in it", "broken on purpose?"], recorded), _LOG_IN]
    parts.append(_SYNTHETIC)
    for prefix, title, text in _SECTIONS:
        chosen = [each for each in entries if each.synthetic and each.file.startswith(prefix)]
        if not chosen:
            continue
        parts += [title, text]
        if prefix == "broken/":
            rows = [
                [
                    code(each.file),
                    escape(each.title),
                    escape(each.wrong),
                    ", ".join(map(str, each.packets)),
                    _made(each),
                ]
                for each in chosen
            ]
            parts.append(table(["capture", "what was done", "what is wrong", "proof", "command"], rows))
        elif prefix == "bugs/":
            rows = [
                [
                    code(each.file),
                    escape(each.title),
                    ", ".join(each.rules),
                    escape(each.wrong),
                    ", ".join(map(str, each.packets)),
                    _made(each),
                ]
                for each in chosen
            ]
            parts.append(table(["capture", "what it was", "rules", "what is wrong", "proof", "command"], rows))
        elif prefix == "clean/":
            rows = [
                [code(each.file), escape(each.title), escape(each.holds), escape("; ".join(each.excuses)), _made(each)]
                for each in chosen
            ]
            parts.append(table(["capture", "what is in it", "dialect and releases", "excused", "command"], rows))
        else:
            rows = [[code(each.file), escape(each.title), escape(each.holds), _made(each)] for each in chosen]
            parts.append(table(["capture", "what is in it", "of", "command"], rows))
    return "\n\n".join(parts) + "\n"


def _made(entry: library.LibraryEntry) -> str:
    return code(entry.command.partition(" -o ")[0])
