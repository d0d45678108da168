"""A stream of a conversation: its request, the answer, and the messages that the producer sent for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.power import messages as m
from tests.support.power.messages import Message


@dataclass(slots=True)
class Stream:
    """A stream that was granted: its request, the answer, and what the producer sent for it."""

    request: Message
    answer: Message
    messages: list[Message] = field(default_factory=list)

    @property
    def vbucket(self) -> int:
        return self.request.number

    @property
    def items(self) -> list[Message]:
        return [each for each in self.messages if each.opcode in m.DATA and not each.odd]

    @property
    def markers(self) -> list[Message]:
        return [each for each in self.messages if each.opcode == m.MARKER]

    @property
    def end(self) -> Message | None:
        return next((each for each in self.messages if each.opcode == m.STREAM_END), None)

    @property
    def out_of_order(self) -> bool:
        return any(each.opcode == m.OSO for each in self.messages)

    @property
    def messages_have_id(self) -> bool:
        return any(each.stream_id for each in self.messages)

    @property
    def filtered(self) -> bool:
        return any(word in self.request.value for word in (b"collections", b"scope"))

    @property
    def stream_flags(self) -> int:
        return self.request.at(0, 4)

    def snapshots(self) -> list[tuple[Message, list[Message]]]:
        """Each marker with the items behind it, up to the next."""
        found: list[tuple[Message, list[Message]]] = []
        for each in self.messages:
            if each.opcode == m.MARKER:
                found.append((each, []))
            elif each.opcode in m.DATA and found:
                found[-1][1].append(each)
        return found

    def snapshot_of(self, item: Message) -> tuple[Message, list[Message]] | None:
        return next((each for each in self.snapshots() if any(item is other for other in each[1])), None)
