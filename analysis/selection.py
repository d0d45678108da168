"""Which rules to check, and which findings to tell of."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.rules import RULES
from analysis.rules.model import Severity
from dissector.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.inspection import Inspection
    from analysis.rules import Rule
    from dissector.capture import Input
    from dissector.run import Options


def rules_of(text: str | None) -> tuple[Rule, ...]:
    """Read a list of rules and groups; None: all."""
    if text is None:
        return RULES
    names = [name.strip().upper() for name in text.split(",") if name.strip()]
    known = {*(rule.id for rule in RULES), *(rule.group for rule in RULES)}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), 1)
            raise UsageError(
                f"--rules: no rule {name!r} ({f'did you mean {close[0]}?' if close else 'docs/rules.md lists them'})"
            )
    if not names:
        raise UsageError("--rules: give at least one rule or group")
    return tuple(rule for rule in RULES if rule.id in names or rule.group in names)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which findings to tell of."""

    severity: str = "info"
    connection: str | None = None  #: number or id
    vbucket: int | None = None

    def choose(
        self, inspection: Inspection, inputs: Sequence[Input], options: Options, known: frozenset[str] = frozenset()
    ) -> None:
        """Take away what was not asked for, and what is ``known``."""
        worst = Severity(self.severity).rank
        connection = self._connection(inputs, options)
        inspection.findings = [
            finding
            for finding in inspection.findings
            if finding.severity.rank <= worst
            and finding.id not in known
            and connection in (None, finding.connection)
            and self.vbucket in (None, finding.vbucket)
        ]

    def _connection(self, inputs: Sequence[Input], options: Options) -> str | None:
        """Return the id of the connection that was asked for."""
        if self.connection is None or not (self.connection.isascii() and self.connection.isdigit()):
            return self.connection
        if len(self.connection) == 16:
            return self.connection
        return numbered(inputs, options, int(self.connection))


def numbered(inputs: Sequence[Input], options: Options, number: int) -> str:
    """Return the id of the connection that has this number in listings."""
    import dataclasses  # noqa: PLC0415 - only for those who give a number

    from dissector.choice import Numbering  # noqa: PLC0415
    from dissector.pipeline import FrameReader  # noqa: PLC0415

    numbering = Numbering()
    for batch in FrameReader(inputs, dataclasses.replace(options, columns=frozenset(("connection", "time_ns")))):
        numbering.see(batch)
        if len(numbering.numbers) >= number:
            break
    for name, each in numbering.numbers.items():
        if each == number:
            return name
    raise UsageError(f"--connection {number}: there are {len(numbering.numbers)} connections")
