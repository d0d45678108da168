"""Read captures of UPR, Couchbase's replication protocol (DCP since 3.0).

    import uprscope

    frames = uprscope.frames("capture.pcap", ["time_ns", "by_seqno", "key"],
                             where="opcode == mutation and vbucket == 5")
    frames.to_polars()                   # or to_arrow, to_pandas, to_duckdb

    for finding in uprscope.check("capture.pcap").findings:
        print(finding.rule, finding.sentence)

frames       one row per message, with a filter and a choice of columns
connections  one row per TCP connection: names, roles, eras, losses
streams      one row per vbucket stream or refused stream request
stats        one value about a capture: latencies, stalls, streams, losses
check        broken rules of the protocol, with the frames that prove it
check_frames the same for rows that are there already
explain      what a message, a number, an erratum or a rule means
decode       one message from its bytes

A mistake of the caller is an UprscopeError of one clear line. A damaged
capture is no mistake: what is readable is read; ``report`` has the losses.

``uprscope explain library`` has all; ``python -m uprscope`` is the command.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dissector import __version__

if TYPE_CHECKING:
    from analysis.check.findings import Finding as Finding
    from analysis.check.inspection import Inspection as Inspection
    from analysis.rules.model import Severity as Severity
    from analysis.stats.statistics import Statistics as Statistics
    from dissector.codec.message import Decoded as Decoded
    from dissector.errors import InputError as InputError
    from dissector.errors import UprscopeError as UprscopeError
    from dissector.errors import UsageError as UsageError
    from dissector.filters.errors import FilterError as FilterError
    from uprscope.library import check as check
    from uprscope.library import check_frames as check_frames
    from uprscope.library import connections as connections
    from uprscope.library import decode as decode
    from uprscope.library import explain as explain
    from uprscope.library import frames as frames
    from uprscope.library import stats as stats
    from uprscope.library import streams as streams
    from uprscope.reading import Reading as Reading
    from uprscope.tables import Connections as Connections
    from uprscope.tables import Frames as Frames
    from uprscope.tables import Streams as Streams

#: Public names and the modules that have them. A module is imported when one of its names is used: numpy, pyarrow and
#: the rules take longer to load than the command line takes to print its help.
_PUBLIC = {
    "Connections": "uprscope.tables",
    "Decoded": "dissector.codec.message",
    "FilterError": "dissector.filters.errors",
    "Finding": "analysis.check.findings",
    "Frames": "uprscope.tables",
    "InputError": "dissector.errors",
    "Inspection": "analysis.check.inspection",
    "Reading": "uprscope.reading",
    "Severity": "analysis.rules.model",
    "Statistics": "analysis.stats.statistics",
    "Streams": "uprscope.tables",
    "UprscopeError": "dissector.errors",
    "UsageError": "dissector.errors",
    "check": "uprscope.library",
    "check_frames": "uprscope.library",
    "connections": "uprscope.library",
    "decode": "uprscope.library",
    "explain": "uprscope.library",
    "frames": "uprscope.library",
    "stats": "uprscope.library",
    "streams": "uprscope.library",
}
__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604 - the keys are text


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *_PUBLIC})
