"""The functions of the public library. ``import uprscope`` offers them under its own name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.errors import UsageError
from uprscope.reading import Reading, dialect_of, inputs_of, options_of
from uprscope.tables import Connections, Frames, Streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    import pyarrow as pa

    from analysis.check.inspection import Inspection
    from analysis.check.selection import Selection
    from analysis.rules import Rule
    from analysis.stats.statistics import Statistics
    from dissector.codec.message import Decoded
    from uprscope.reading import Captures

_DATA = (bytes, bytearray, memoryview)


def frames(
    captures: Captures, columns: Sequence[str] | None = None, where: str | None = None, **reading: Unpack[Reading]
) -> Frames:
    """Open captures; iterate the frames, or read them into one table.

    captures  a file, directory or pattern, "-" for standard input, or several
    columns   these, in this order (uprscope explain columns); left out: all
    where     frames for which this holds (uprscope explain filters)
    reading   separate, ports, decode_as, dialect, values, redact, limits, ...:
              help(uprscope.Reading)

    >>> frames = uprscope.frames("ring/*.pcap", ["time_ns", "by_seqno"],
    ...                          where="opcode == mutation and vbucket == 5")
    >>> for batch in frames:                     # pyarrow.RecordBatch
    ...     print(batch.num_rows)
    >>> frames.to_polars()                       # all of them at once
    """
    return Frames(inputs_of(captures), options_of(reading), columns, where)


def connections(
    captures: Captures, *, everything: bool = False, hashes: bool = False, **reading: Unpack[Reading]
) -> Connections:
    """Sum captures up: one row per TCP connection (uprscope explain connections).

    captures    a file, directory or pattern, "-" for standard input, or several
    everything  connections without any frame too
    hashes      SHA-256, length and gaps of each direction's bytes (slower)
    reading     separate, ports, decode_as, dialect, limits: see Reading

    >>> for row in uprscope.connections("capture.pcap").to_arrow().to_pylist():
    ...     print(row["number"], row["name"], row["client_frames"])
    """
    return Connections(inputs_of(captures), options_of(reading), everything=everything, hashes=hashes)


def streams(captures: Captures, **reading: Unpack[Reading]) -> Streams:
    """Sum captures up: one row per vbucket stream or refused stream request.

    captures  a file, directory or pattern, "-" for standard input, or several
    reading   separate, ports, decode_as, dialect, limits: see Reading

    ``uprscope explain streams`` has the columns.

    >>> for row in uprscope.streams("capture.pcap").to_arrow().to_pylist():
    ...     print(row["vbucket"], row["status"], row["last_seqno"])
    """
    return Streams(inputs_of(captures), options_of(reading))


def stats(captures: Captures, connection: int | str | None = None, **reading: Unpack[Reading]) -> Statistics:
    """Sum captures up in one value: traffic, latencies, stalls, streams, losses.

    captures    a file, directory or pattern, "-" for standard input, or several
    connection  this one only: its number in listings, or its id
    reading     separate, ports, decode_as, dialect, limits: see Reading

    ``uprscope explain stats`` says what is counted.

    >>> found = uprscope.stats("capture.pcap")
    >>> found.stalls.count, found.acks.p99_ns
    """
    from analysis.stats.collect import collect  # noqa: PLC0415 - the rules' context takes a while to load

    chosen = None if connection is None else str(connection)
    return collect(inputs_of(captures), options_of(reading), connection=chosen)[0]


def check(
    captures: Captures | Frames,
    rules: str | Iterable[str] | None = None,
    severity: str = "warning",
    **reading: Unpack[Reading],
) -> Inspection:
    """Check captures against the protocol's rules (uprscope explain rules).

    captures  a file, directory or pattern, "-", or several; or Frames of them
    rules     rules and groups, such as "SEQ-01" or ["SEQ", "SNP-04"]; else all
    severity  findings at least this bad: "error", "warning" or "info"
    reading   separate, ports, decode_as, dialect, limits: see Reading

    Returns an Inspection: findings (worst first), tallies (one per rule),
    clean, and report (what could not be read).

    >>> for finding in uprscope.check("capture.pcap").findings:
    ...     print(finding.rule, finding.sentence, finding.display_filter())
    """
    from analysis.check.inspection import inspect  # noqa: PLC0415 - the rules take a while to load

    chosen, selection = _chosen(rules, severity)
    if not isinstance(captures, Frames):
        return inspect(inputs_of(captures), chosen, options_of(reading), selection=selection)
    if captures.where is not None or reading:
        raise UsageError("check: Frames are checked as they are read, all of them: give neither where nor options")
    return inspect(captures.readable(), chosen, captures.options, selection=selection)


def check_frames(
    batches: Iterable[pa.RecordBatch] | pa.Table,
    rules: str | Iterable[str] | None = None,
    severity: str = "warning",
) -> Inspection:
    """Check frames that are there already: a pyarrow.Table, or record batches.

    batches   rows of frames in the order of their ``frame`` column, all of them
              and with all columns: rules need whole connections
    rules, severity   as for check

    >>> table = pyarrow.parquet.read_table("frames.parquet")
    >>> uprscope.check_frames(table).clean
    """
    from analysis.check.inspection import check_frames  # noqa: PLC0415 - as above

    chosen, selection = _chosen(rules, severity)
    return check_frames(_complete(batches), rules=chosen, selection=selection)


def _complete(batches: Iterable[pa.RecordBatch] | pa.Table) -> Iterable[pa.RecordBatch]:
    """Yield the batches; raise UsageError where a column that rules need is missing."""
    from analysis.context import COLUMNS  # noqa: PLC0415 - as above

    for batch in batches.to_batches() if hasattr(batches, "to_batches") else batches:
        missing = sorted(COLUMNS - set(batch.schema.names))
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise UsageError(f"frames: rules need columns that are not there: {', '.join(missing[:3])}{more}")
        yield batch


def _chosen(rules: str | Iterable[str] | None, severity: str) -> tuple[tuple[Rule, ...], Selection]:
    from analysis.check.selection import Selection, rules_of  # noqa: PLC0415 - as above
    from analysis.rules.model import Severity  # noqa: PLC0415

    if severity not in list(Severity):
        raise UsageError(f"severity: {severity!r} is none of {', '.join(Severity)}")
    text = rules if rules is None or isinstance(rules, str) else ",".join(rules)
    return rules_of(text, "rules"), Selection(Severity(severity))


def explain(*things: str) -> str:
    """Say what a message, number, erratum, rule or historical bug is, as text.

    things  as ``uprscope explain`` takes them: "mutation", "0x57", "E-22",
            "SEQ-01", a finding's id, "MB-16042", or with the sort of thing
            before it ("status", "0x23")

    >>> print(uprscope.explain("SEQ-01"))
    """
    from dissector.terminal.style import Terminal  # noqa: PLC0415
    from uprscope.cli.explain import answers  # noqa: PLC0415

    if not things or not all(isinstance(thing, str) for thing in things):
        raise UsageError('explain: expected names or numbers as text, such as "mutation" or "0x57"')
    return answers(things, Terminal(color=False))


def decode(data: bytes, dialect: str = "dcp", *, collections: bool = False, show_secrets: bool = False) -> Decoded:
    """Decode the message at the start of ``data``. No bytes make it fail.

    data          a frame: header, extras, key and value
    dialect       draft, upr-proto, upr, dcp or memcached
    collections   document keys start with a collection id
    show_secrets  do not withhold log-ins, keys and tokens

    Returns a Decoded: header, name, fields, key, value, and in ``defects`` what
    is wrong with the frame.

    >>> message = uprscope.decode(bytes.fromhex("805c" + "00" * 22))
    >>> message.name, message.defects
    ('noop', ())
    """
    from dissector.codec.decoder import decode  # noqa: PLC0415

    if not isinstance(data, _DATA):
        raise UsageError(f"data: expected bytes, not {type(data).__name__}")
    return decode(dialect_of(dialect), bytes(data), collections=collections, withhold_secrets=not show_secrets)
