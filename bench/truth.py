"""What a capture holds, as its maker knows it, and how the results of a contender compare with it.

Knows numbers only: must import nothing heavy, as the peak memory of whoever starts a process counts as that process's.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Truth = dict[str, Any]

MUTATION = 0x57
SERVER_PORT = 11210
_BITS_64 = (1 << 64) - 1


def digest(keys: Iterable[bytes], seqnos: Iterable[int], vbuckets: Iterable[int]) -> int:
    """Return a sum over mutations that does not depend on their order: XXH3 of each key, seeded with seqno and vbucket.

    The sum is taken modulo 2^64, so digests of parts add up to the digest of the whole.
    """
    seeds = [seqno << 16 | vbucket for seqno, vbucket in zip(seqnos, vbuckets, strict=True)]
    return sum(map(xxhash.xxh3_64_intdigest, keys, seeds)) & _BITS_64


@dataclass(slots=True)
class Tally:
    """What was found in a capture, added up as it is read."""

    by_opcode: Counter[int] = field(default_factory=Counter)
    by_connection: Counter[str] = field(default_factory=Counter)  #: by the client's address and port
    seqno_sum: int = 0
    digest: int = 0

    def add(self, keys: list[bytes], seqnos: list[int], vbuckets: list[int]) -> None:
        """Add mutations to the sum and the digest."""
        self.seqno_sum += sum(seqnos)
        self.digest = (self.digest + digest(keys, seqnos, vbuckets)) & _BITS_64

    def truth(self) -> Truth:
        """Return it in the form in which a capture's truth is kept; keys are text, as in JSON."""
        return {
            "frames": self.by_opcode.total(),
            "mutations": self.by_opcode[MUTATION],
            "by_opcode": {str(opcode): count for opcode, count in sorted(self.by_opcode.items())},
            "by_connection": dict(sorted(self.by_connection.items())),
            "seqno_sum": self.seqno_sum,
            "digest": self.digest,
        }


def client(src: str, sport: int, dst: str, dport: int) -> str:
    """Name a connection after the end that is not the server."""
    return f"{dst}:{dport}" if sport == SERVER_PORT else f"{src}:{sport}"


def differences(truth: Truth, found: Truth) -> list[str]:
    """Say where what was found is not the truth; only what was found is compared."""
    expected = {**truth, "connection_sizes": sorted(truth["by_connection"].values())}
    lines = []
    for name, value in found.items():
        want = expected[name]
        if value == want:
            continue
        if isinstance(want, dict):
            parts = [part for part in sorted({*want, *value}) if want.get(part) != value.get(part)]
            shown = ", ".join(f"{part}: {value.get(part)} instead of {want.get(part)}" for part in parts[:3])
            lines.append(f"{name}: {shown}" + (f" and {len(parts) - 3} more" if len(parts) > 3 else ""))
        elif isinstance(want, list):
            lines.append(f"{name}: {len(value)} of them, {len(want)} expected, or of other sizes")
        else:
            lines.append(f"{name}: {value} instead of {want}")
    return lines


def truth_path(capture: Path) -> Path:
    """Return where a capture's truth is kept."""
    return capture.with_suffix(".truth.json")


def load(capture: Path) -> Truth | None:
    """Read a capture's truth, if both are there and complete."""
    try:
        truth: Truth = json.loads(truth_path(capture).read_text())
        return truth if truth["bytes"] == capture.stat().st_size else None
    except (OSError, ValueError, KeyError):
        return None
