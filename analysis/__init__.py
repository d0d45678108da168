"""Frames in context: what a single message cannot show. Imports ``dissector``; never imported by it.

The library in three lines::

    import analysis
    for finding in analysis.check("capture.pcapng").findings:
        print(finding.rule, finding.sentence, finding.display_filter())

``check`` reads captures; ``check_frames`` takes batches of frames from elsewhere, such as a Parquet file. Both give an
:class:`Inspection`: findings, worst first, and for every rule how often it was checked and how that went.
"""

from __future__ import annotations

from analysis.findings import Finding, FrameRef, Tally
from analysis.inspection import Inspection, check, check_frames
from analysis.rules import RULE_BY_ID, RULES, Rule, Severity

__all__ = [
    "RULES",
    "RULE_BY_ID",
    "Finding",
    "FrameRef",
    "Inspection",
    "Rule",
    "Severity",
    "Tally",
    "check",
    "check_frames",
]
