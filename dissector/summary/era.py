"""The era of a connection: the releases that fit the forms of its requests, each form once, in order of appearance.

:mod:`dissector.codec.dialect` decides the same frame by frame; a test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dissector.spec import fingerprints, registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from dissector.spec.model import Release

_FIRST_RELEASE = "before 3.0"


class RequestForm(NamedTuple):
    """What a request looks like, as far as it depends on the release."""

    opcode: int
    extras: int
    marker_version: int | None
    flexible: bool


@dataclass(slots=True)
class Era:
    """The releases that can have sent what was seen."""

    since: Release | None = None
    until: Release | None = None
    contradictions: list[str] = field(default_factory=list)
    _dialect: Dialect | None = None

    def add(self, form: RequestForm) -> None:
        """Take a form of a request that was not seen before."""
        for known in fingerprints.fingerprints_of(form.opcode, form.extras, form.marker_version):
            self._decide(known)
        if form.flexible:
            self.narrow(fingerprints.FLEXIBLE_SINCE, None)

    def narrow(self, since: Release | None, until: Release | None) -> None:
        """Narrow the releases down by what one message proves."""
        if since is not None and (self.since is None or since > self.since):
            self.since = since
        if until is not None and (self.until is None or until < self.until):
            self.until = until

    def _decide(self, form: fingerprints.Fingerprint) -> None:
        if self._dialect is None:
            self._dialect = form.dialect
        elif form.dialect is not self._dialect:
            message = registry.message(Dialect.DCP, form.opcode)
            name = message.name if message is not None else f"0x{form.opcode:02x}"
            says = f"{form.dialect}: {name} with {form.extras} bytes of extras"
            if says not in self.contradictions:
                self.contradictions.append(says)
            return
        self.narrow(form.since, form.until)

    def text(self, dialect: Dialect) -> str | None:
        """Write the era; None: nothing shows it."""
        if self.since is None:
            return _FIRST_RELEASE if dialect in (Dialect.DRAFT, Dialect.PROTO, Dialect.UPR) else None
        newest = str(self.since)
        if self.until is None or self.until < self.since:
            return f"{newest}+" if newest[0].isdigit() else newest
        return newest if self.until == self.since else f"{newest} to {self.until}"

    def against(self) -> list[str]:
        """Return everything that does not fit together."""
        if self.since is None or self.until is None or self.since <= self.until:
            return list(self.contradictions)
        return [*self.contradictions, f"messages that only {self.until} and before sent, and some of {self.since}"]
