"""Captures that the property is tried with: recordings and made captures, whole and connection by connection.

Names: ``01_basic`` is a recording, ``01_basic#2`` its third connection, ``clean/basic`` a made capture of the library,
``basic@7`` the scenario made anew with seed 7.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from dissector.generate.scenarios import SCENARIOS
from tests.support import checking
from tests.support.paths import CAPTURES, ROOT
from tests.support.soundness import captures
from tests.support.soundness.messages import Message
from tests.support.soundness.packets import Packets, by_connection
from tests.support.soundness.verdicts import Judgement, judge, known_messages

SHARED = Path(os.environ.get("UPRSCOPE_SHARED") or ROOT.parent / "shared") / "captures"
_LARGEST_WHOLE = 3000  #: packets of a capture that is tried with all its connections together


@dataclass(frozen=True)
class Source:
    """A capture, or one connection of it."""

    name: str

    @cached_property
    def packets(self) -> Packets:
        """Return its packets."""
        base, _, connection = self.name.partition("#")
        found = _packets(base)
        return by_connection(found)[int(connection)] if connection else found

    @cached_property
    def messages(self) -> dict[int, list[Message]]:
        """Return the messages of its connections."""
        return known_messages(self.packets)

    @cached_property
    def whole(self) -> Judgement:
        """Return what the checker says of it as it is."""
        return judge(self.packets, self.messages)

    @cached_property
    def watched(self) -> frozenset[str]:
        """Return the rules that it breaks."""
        return frozenset(each.rule for each in self.whole.violations)


@cache
def paths() -> dict[str, Path]:
    """Return every capture that there is a file of: those of the library, and the reference material where it is."""
    found = {}
    for folder in (SHARED, CAPTURES):
        for path in sorted(folder.glob("*.pcap*")) if folder.is_dir() else ():
            found.setdefault(path.stem, path)
    for kind in ("clean", "broken", "bugs", "rough"):
        for path in sorted((CAPTURES / kind).glob("*.pcap*")):
            found[f"{kind}/{path.stem}"] = path
    return found


@cache
def _packets(name: str) -> Packets:
    scenario, _, seed = name.partition("@")
    if seed:
        return captures.read_bytes(checking.captured(checking.clean(scenario, int(seed)), seed=int(seed)))
    return captures.read(paths()[name])


def names(*, kinds: tuple[str, ...] = ("recording", "clean", "broken"), seed: int | None = None) -> list[str]:
    """Return the names of captures, split into connections; of small ones with several the whole one, too."""
    bases = [name for name in paths() if _kind(name) in kinds]
    if seed is not None:
        bases += [f"{each.name}@{seed}" for each in SCENARIOS]
    return [name for base in bases for name in parts(base)]


def _kind(name: str) -> str:
    return name.split("/", maxsplit=1)[0] if "/" in name else "recording"


@cache
def parts(base: str) -> tuple[str, ...]:
    """Return the names of a capture's connections, and its own where it is small and has several."""
    packets = _packets(base)
    split = [f"{base}#{number}" for number, each in by_connection(packets).items() if any(one.length for one in each)]
    if len(split) == 1:
        return (base,)
    return (*split, base) if len(packets) <= _LARGEST_WHOLE else tuple(split)
