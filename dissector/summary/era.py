"""The era of a connection: the releases that fit the forms of its requests, each form once, in order of appearance.

:mod:`dissector.codec.dialect` decides the same frame by frame; a test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dissector.codec.dialect import narrowed
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
    """The releases that can have sent what was seen, which depends on the dialect that all of it together shows."""

    _forms: dict[fingerprints.Fingerprint, None] = field(default_factory=dict)
    _oldest: Release | None = None  #: by what belongs to no dialect's form

    def add(self, form: RequestForm) -> None:
        """Take a form of a request that was not seen before."""
        for known in fingerprints.fingerprints_of(form.opcode, form.extras, form.marker_version):
            self._forms.setdefault(known)
        if form.flexible:
            self.at_least(fingerprints.FLEXIBLE_SINCE)

    def at_least(self, since: Release) -> None:
        """Take what one message proves that no form of a request stands for."""
        self._oldest, _ = narrowed((self._oldest, None), since, None)

    def releases(self, spoken: Dialect | None) -> tuple[Release | None, Release | None]:
        """Return the oldest and the newest release that fit the messages of the dialect that is spoken."""
        era: tuple[Release | None, Release | None] = (self._oldest, None)
        for form in self._forms:
            if form.dialect is spoken:
                era = narrowed(era, form.since, form.until)
        return era

    def contradictions(self, spoken: Dialect | None) -> list[str]:
        """Return the messages of another dialect."""
        found: dict[str, None] = {}
        for form in self._forms:
            if form.dialect is not spoken:
                message = registry.message(Dialect.DCP, form.opcode)
                name = message.name if message is not None else f"0x{form.opcode:02x}"
                found[f"{form.dialect}: {name} with {form.extras} bytes of extras"] = None
        return list(found)

    def text(self, dialect: Dialect, spoken: Dialect | None) -> str | None:
        """Write the era; None: nothing shows it."""
        since, until = self.releases(spoken)
        if since is None:
            return _FIRST_RELEASE if dialect in (Dialect.DRAFT, Dialect.PROTO, Dialect.UPR) else None
        newest = str(since)
        if until is None or until < since:
            return f"{newest}+" if newest[0].isdigit() else newest
        return newest if until == since else f"{newest} to {until}"

    def against(self, spoken: Dialect | None) -> list[str]:
        """Return everything that does not fit together."""
        since, until = self.releases(spoken)
        if since is None or until is None or since <= until:
            return self.contradictions(spoken)
        return [*self.contradictions(spoken), f"messages that only {until} and before sent, and some of {since}"]
