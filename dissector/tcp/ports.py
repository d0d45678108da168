"""``--port`` and ``--decode-as``: ports whose connections are memcached whatever they look like, or never."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dissector.link.flow_key import Flow

AUTO, NONE = "auto", "none"


@dataclass(frozen=True, slots=True)
class Ports:
    """Port numbers to a dialect, to ``auto`` (memcached, find the dialect out) or to ``none`` (leave it alone)."""

    rules: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, ports: Sequence[str] = (), decode_as: Sequence[str] = ()) -> Ports:
        """Read ``--port N`` and ``--decode-as N=DIALECT`` options."""
        rules = dict(DEFAULT_PORTS.rules)
        for text in ports:
            rules[_port(text, "--port")] = AUTO
        allowed = [AUTO, NONE, *Dialect]
        for text in decode_as:
            port, separator, dialect = text.partition("=")
            if not separator or dialect not in allowed:
                raise UsageError(f"--decode-as {text}: expected PORT=DIALECT with one of {', '.join(allowed)}")
            rules[_port(port, "--decode-as")] = dialect
        return cls(rules)

    def _rule(self, flow: Flow) -> str | None:
        """Return the rule of either port; the destination's first, as that of the side that was called."""
        return self.rules.get(flow.destination_port, self.rules.get(flow.source_port))

    def forced(self, flow: Flow) -> bool:
        """Tell whether the user says that a connection is memcached."""
        return self._rule(flow) not in (None, NONE)

    def forbidden(self, flow: Flow) -> bool:
        """Tell whether a connection is to be left alone."""
        return self._rule(flow) == NONE

    def dialect(self, flow: Flow) -> Dialect | None:
        """Return the dialect that the user says a connection speaks."""
        rule = self._rule(flow)
        return Dialect(rule) if rule not in (None, AUTO, NONE) else None


def _port(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise UsageError(f"{option} {text}: a port is a number from 1 to 65535")
    return int(text)


DEFAULT_PORTS = Ports(dict.fromkeys(registry.PORTS, AUTO))
