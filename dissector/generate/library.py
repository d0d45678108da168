"""The captures that are kept in the repository: which there are, what is in each, and the commands that make them.

``captures/index.toml`` lists all of them. Recordings of real servers are entered there by hand; what is made to order
derives from the scenarios, the faults, the bugs and the table below, and :mod:`uprscope.make_captures` makes it all
anew. Knows the commands, and runs none.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "captures"
INDEX = "index.toml"
MADE = "# ---- From here on everything is written by `make captures`.\n"

#: Name, what is done to the packets, and the options that do it; each on a scenario that has enough of them.
_ROUGH: tuple[tuple[str, str, str], ...] = (
    ("rough.pcapng", "segments of any size, reordered, overlapping, sent again, recorded twice; nothing is lost",
     "basic --mss 40-1448 --reorder 0.2 --overlap 0.2 --retransmit 0.2 --duplicate 0.1"),
    ("tiny-segments.pcapng", "segments of 1 to 40 bytes", "rollback --mss 1-40"),
    ("huge-segments.pcapng", "segments of up to 65,495 bytes", "multiplex --mss 65495"),
    ("lossy.pcapng", "one packet with data in ten is missing", "basic --mss 536 --loss 0.1"),
    ("snaplen.pcap", "packets cut after 128 bytes", "basic --snaplen 128"),
    ("late.pcapng", "the recorder started behind 12 messages of the connection", "basic --skip-messages 12"),
    ("late-packets.pcap", "the recorder started in the middle of a message", "basic --mss 300 --skip-packets 21"),
    ("server-only.pcapng", "only what the server sent was recorded", "basic --only server"),
    ("ipv6-vlan.pcap", "IPv6 in a VLAN", "basic --ip 6 --link vlan"),
    ("cooked-nanoseconds.pcap", "link type LINUX_SLL2, time stamps in nanoseconds", "basic --link sll2 --nanoseconds"),
    ("two-interfaces.pcapng", "each side recorded on an interface of its own, of different link types",
     "basic --interfaces 2"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """A capture of the library."""

    file: str  #: below captures/
    title: str
    holds: str  #: what is in it
    wrong: str = ""  #: what is wrong with it
    server: str = ""  #: of a recording: the release it was
    command: str = ""  #: of a synthetic one: what made it
    rules: tuple[str, ...] = ()  #: the rules that it breaks, the one it is about first
    packets: tuple[int, ...] = ()  #: those with the messages that prove it
    excuses: tuple[str, ...] = ()  #: what looks broken, and is not

    @property
    def synthetic(self) -> bool:
        """Tell whether it was made."""
        return bool(self.command)

    def words(self, folder: Path) -> list[str]:
        """Return the words after ``uprscope`` of its command line, with the output in another folder."""
        words = shlex.split(self.command)[1:]
        return [str(folder / self.file) if word == f"{FOLDER}/{self.file}" else word for word in words]


def read(root: Path = ROOT) -> list[LibraryEntry]:
    """Return all entries of the index; none where there is no index, as in an installed package."""
    try:
        found = tomllib.loads((root / FOLDER / INDEX).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [_entry(table) for table in found["capture"]]


def _entry(table: dict[str, Any]) -> LibraryEntry:
    values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in table.items()}
    return LibraryEntry(**values)


def _command(rest: str, file: str) -> str:
    return f"uprscope generate {rest} -o {FOLDER}/{file}"


def planned() -> Iterator[LibraryEntry]:
    """Yield the synthetic captures that there should be, except for what only making them can tell."""
    from dissector.generate.bugs import BUGS  # noqa: PLC0415 - readers of the index need none of them
    from dissector.generate.faults import FAULTS  # noqa: PLC0415
    from dissector.generate.scenarios import SCENARIOS  # noqa: PLC0415

    for scenario in SCENARIOS:
        file = f"clean/{scenario.name}.pcapng"
        holds = f"{scenario.dialect}, {scenario.era}"
        excuses = tuple(f"{rule}: {because}" for rule, because in scenario.excuses)
        yield LibraryEntry(file, scenario.title, holds, command=_command(scenario.name, file), excuses=excuses)
    for fault in FAULTS:
        name = f"{fault.rule}-{fault.variant}" if fault.variant else fault.rule
        wish = f"{fault.rule}/{fault.variant}" if fault.variant else fault.rule
        file = f"broken/{name.replace(' ', '-')}.pcapng"
        command = _command(f"--break {shlex.quote(wish)}", file)
        yield LibraryEntry(
            file, fault.title, f"{fault.scenario}, with one fault", command=command, rules=(fault.rule, *fault.implies)
        )
    for bug in BUGS:
        if bug.capture:
            holds = f"{bug.dialect}, {bug.era}"
            command = _command(f"--bug {bug.name}", bug.capture)
            yield LibraryEntry(bug.capture, bug.title, holds, command=command, rules=bug.rules)
    for name, title, options in _ROUGH:
        file = f"rough/{name}"
        yield LibraryEntry(file, title, f"the scenario {options.split()[0]}", command=_command(options, file))


def written(entry: LibraryEntry) -> str:
    """Write an entry as TOML."""
    lines = ["[[capture]]"]
    for each in fields(entry):
        value = getattr(entry, each.name)
        if value:
            shown = list(value) if isinstance(value, tuple) else value
            lines.append(f"{each.name} = {json.dumps(shown, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
