"""Who takes part: how each is started, and how its results are held against the truth.

Must import nothing heavy; see :mod:`truth`.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from truth import MUTATION, Tally, Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The columns that most questions are about.
MAIN = frozenset(
    (
        *("packet_last", "time_ns", "connection", "direction", "magic", "opcode", "datatype", "vbucket", "status"),
        *("opaque", "cas", "extras_length", "body_length", "value_length", "by_seqno", "rev_seqno", "key"),
        *("snap_start_seqno", "snap_end_seqno", "snapshot_type", "buffer_bytes"),
    )
)
READER = "dissector.frames.reader:FrameReader"  #: what turns captures into record batches

_HERE = Path(__file__).parent
_TSHARK_FIELDS = (
    "frame.number",
    "tcp.stream",
    "couchbase.opcode",
    "couchbase.vbucket",
    "couchbase.opaque",
    "couchbase.extras.by_seqno",
    "couchbase.key",
)
_CSV_FIELDS = ("packet_last", "connection", "opcode", "vbucket", "opaque", "by_seqno", "key")
_BLOCK_BYTES = 1 << 20
_BATCH_ROWS = 4096


class FailedError(Exception):
    """A contender did not do its work."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A program that reads captures."""

    name: str  #: for options
    title: str  #: for people
    command: Callable[[Path, Path], list[str]]  #: from the capture and a directory for scratch files
    found: Callable[[Path, Path], Truth]  #: reads a capture and says what was in it
    speaks: bool = False  #: its output while timed is JSON, and is compared too
    missing: str | None = None  #: why it can't take part


def contenders(reader: str) -> tuple[Contender, ...]:
    """Return everybody, those who can't take part included."""
    module = reader.partition(":")[0]
    return (
        Contender("tcpdump", "tcpdump -w /dev/null", _tcpdump, _tcpdump_found, missing=_program("tcpdump")),
        Contender("tshark", "tshark -T fields", _tshark, _tshark_found, missing=_program("tshark")),
        Contender("dpkt", "plain dpkt loop", _dpkt, _dpkt_found, speaks=True, missing=_module("dpkt")),
        Contender(
            "rows",
            "uprscope, frames to Arrow, 21 columns",
            lambda capture, _: _rows(capture, reader),
            lambda capture, _: _json([*_rows(capture, reader), "--tally"]),
            speaks=True,
            missing=_module(module),
        ),
        Contender(
            "all",
            "uprscope, frames to Arrow, all columns",
            lambda capture, _: [*_rows(capture, reader), "--all"],
            lambda capture, _: _json([*_rows(capture, reader), "--all", "--tally"]),
            speaks=True,
            missing=_module(module),
        ),
        Contender("csv", "uprscope, CSV of 7 columns", _csv, _csv_found),
    )


def _program(name: str) -> str | None:
    return None if shutil.which(name) else f"no program {name}"


def _module(name: str) -> str | None:
    try:
        return None if importlib.util.find_spec(name) else f"no module {name}"
    except ModuleNotFoundError as error:
        return str(error)


def _python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, str(_HERE / script), *map(str, arguments)]


@contextlib.contextmanager
def _output(command: list[str]) -> Iterator[IO[bytes]]:
    """Start a command and give its output, which is to be read to its end; see that it ends well."""
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
            yield cast("IO[bytes]", process.stdout)
        if process.returncode:
            errors.seek(0)
            complaints = errors.read().decode(errors="replace").strip().splitlines() or ["no message"]
            raise FailedError(f"exit status {process.returncode}: {complaints[-1]}")


def _json(command: list[str]) -> Truth:
    with _output(command) as output:
        text = output.read()
    found: Truth = json.loads(text)
    return found


def _tcpdump(capture: Path, _: Path) -> list[str]:
    return ["tcpdump", "-r", str(capture), "-w", "/dev/null"]


def _tcpdump_found(capture: Path, _: Path) -> Truth:
    """Count the bytes of its copy: it has all packets if it is as long."""
    with _output(["tcpdump", "-r", str(capture), "-w", "-"]) as output:
        return {"bytes": sum(map(len, iter(lambda: output.read(_BLOCK_BYTES), b"")))}


def _tshark(capture: Path, _: Path) -> list[str]:
    fields = [word for name in _TSHARK_FIELDS for word in ("-e", name)]
    return ["tshark", "-r", str(capture), "-o", "tcp.reassemble_out_of_order:TRUE", "-T", "fields", *fields]


def _tshark_found(capture: Path, scratch: Path) -> Truth:
    """Take its table apart: a line per packet, several frames in one separated by commas."""
    opcode, by_seqno = (_TSHARK_FIELDS.index(name) for name in ("couchbase.opcode", "couchbase.extras.by_seqno"))
    opcodes: Counter[bytes] = Counter()
    seqno_sum = 0
    with _output(_tshark(capture, scratch)) as output:
        for line in output:
            cells = line.rstrip(b"\n").split(b"\t")
            if cells[opcode]:
                opcodes.update(cells[opcode].split(b","))
            if cells[by_seqno]:
                seqno_sum += sum(map(int, cells[by_seqno].split(b",")))
    mutations = sum(count for text, count in opcodes.items() if int(text, 0) == MUTATION)
    return {"mutations": mutations, "seqno_sum": seqno_sum, "frames": opcodes.total()}


def _dpkt(capture: Path, _: Path) -> list[str]:
    return _python("plain_dpkt.py", capture)


def _dpkt_found(capture: Path, scratch: Path) -> Truth:
    return _json([*_dpkt(capture, scratch), "--tally"])


def _rows(capture: Path, reader: str) -> list[str]:
    return _python("rows.py", capture, "--reader", reader)


def _csv(capture: Path, scratch: Path) -> list[str]:
    output = ("-o", str(scratch / "frames.csv"))
    fields = ("--format", "csv", "--fields", ",".join(_CSV_FIELDS))
    return [sys.executable, "-m", "uprscope", "dissect", str(capture), *fields, *output]


def _csv_found(capture: Path, scratch: Path) -> Truth:
    """Read the table back. Connections have ids of their own there, so only their sizes are compared."""
    with _output(_csv(capture, scratch)) as output:
        output.read()
    tally = Tally()
    keys: list[bytes] = []
    seqnos: list[int] = []
    vbuckets: list[int] = []
    with (scratch / "frames.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            opcode = int(row["opcode"])
            tally.by_opcode[opcode] += 1
            tally.by_connection[row["connection"]] += 1
            if opcode == MUTATION:
                keys.append(row["key"].encode())
                seqnos.append(int(row["by_seqno"]))
                vbuckets.append(int(row["vbucket"]))
            if len(keys) == _BATCH_ROWS:
                tally.add(keys, seqnos, vbuckets)
                keys, seqnos, vbuckets = [], [], []
    tally.add(keys, seqnos, vbuckets)
    found = tally.truth()
    found["connection_sizes"] = sorted(found.pop("by_connection").values())
    return found
