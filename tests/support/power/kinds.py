"""Kinds of violations: a name, the rules that may report it, where it can be seeded, and the edit that seeds it.

An edit gets a copy of a conversation and one of the messages that its selector chose. It returns the messages that a
finding may call guilty, or nothing where the edit would break no rule there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.support.power import messages as m
from tests.support.power.messages import Message
from tests.support.power.streams import Stream
from tests.support.power.talks import Talk

Selector = Callable[[Talk], Iterable[Message]]
Edit = Callable[[Talk, Message], "Message | list[Message] | None"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break a rule."""

    rules: tuple[str, ...]  #: the first is the one that is meant; any of them may report it
    name: str
    where: Selector
    edit: Edit

    @property
    def rule(self) -> str:
        return self.rules[0]

    @property
    def group(self) -> str:
        return self.rule[:3]

    @property
    def title(self) -> str:
        return f"{self.rule}/{self.name}"

    def seed(self, talk: Talk, message: Message) -> list[Message]:
        """Break the rule in a conversation at a message; return the guilty ones, or none where it does not fit."""
        guilty = self.edit(talk, message)
        if guilty is None:
            return []
        return guilty if isinstance(guilty, list) else [guilty]


KINDS: dict[str, Kind] = {}


def kind(*rules: str, where: Selector) -> Callable[[Edit], Edit]:
    """Enter an edit as a kind of violation."""

    def enter(edit: Edit) -> Edit:
        made = Kind(rules, edit.__name__, where, edit)
        assert made.title not in KINDS, f"two kinds {made.title}"
        KINDS[made.title] = made
        return edit

    return enter


# --- selectors -----------------------------------------------------------------------------------------------------


def asks(*opcodes: int) -> Selector:
    """Requests of some kinds, of either side."""
    return lambda talk: talk.asks(*opcodes)


def answers(*opcodes: int) -> Selector:
    """Successful answers of some kinds."""
    return lambda talk: [each for each in talk.answers(*opcodes) if not each.number]


def in_streams(*opcodes: int) -> Selector:
    """Messages of granted streams."""

    def select(talk: Talk) -> list[Message]:
        return [
            each for stream in talk.streams() for each in stream.messages if each.opcode in opcodes and not each.odd
        ]

    return select


def plain(*opcodes: int) -> Selector:
    """Messages of granted streams that have nothing out of order."""

    def select(talk: Talk) -> list[Message]:
        streams = [each for each in talk.streams() if not each.out_of_order]
        return [each for stream in streams for each in stream.messages if each.opcode in opcodes and not each.odd]

    return select


def ranged(talk: Talk) -> list[Message]:
    """Markers with a range, of streams without anything out of order."""
    return [each for each in plain(m.MARKER)(talk) if each.ranged]


def later_markers(talk: Talk) -> list[Message]:
    """Markers with a range that are not the first of their stream."""
    found = []
    for stream in talk.streams():
        if not stream.out_of_order:
            found += [each for each in stream.markers[1:] if each.ranged]
    return found


def stream_of(talk: Talk, message: Message) -> Stream:
    """The stream of a message that a selector took from one."""
    stream = talk.stream_of(message)
    assert stream is not None
    return stream


def needs_request(talk: Talk, message: Message) -> None:
    """Say that a violation shows only to who knows what was asked for: the source may be a replica, or filter."""
    stream = stream_of(talk, message)
    talk.needs(*talk.asks(m.OPEN), stream.request, stream.answer)
