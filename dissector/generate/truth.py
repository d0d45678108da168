"""What is true of a capture that was made: every message that was sent, where it is, and what is wrong with it.

Knows what was said and what was written; must not ask a decoder. Written as JSON, one message a line.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import IO, TYPE_CHECKING, Any

from dissector.spec import registry
from dissector.spec.model import Dialect, MessageType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dissector.generate.conversation import Conversation
    from dissector.generate.recipe import Made
    from dissector.generate.segments import Sent
    from dissector.generate.to_capture import Written

Facts = dict[str, Any]
SIDES = ("client", "server")
_RESPONSES = frozenset(magic.value for magic in registry.MAGICS.values() if magic.direction is MessageType.RESPONSE)


def tell(made: Made, written: Written) -> Facts:
    """Return the truth about connections, messages and broken rules."""
    places = _Places(written)
    messages: list[Facts] = []
    numbers: dict[int, int] = {}
    for sent in (each for connection in written.sent for each in connection):
        numbers[id(sent.emission)] = len(messages) + 1
        messages.append({"message": len(messages) + 1, **_message(sent), **places.of(sent)})
    return {
        "connections": [
            {**connection_facts(index, conversation), **_captured(index, written)}
            for index, conversation in enumerate(made.conversations)
        ],
        "broken": list(_broken(made, numbers, messages)),
        "messages": messages,
    }


def connection_facts(index: int, conversation: Conversation) -> Facts:
    """Return who talks."""
    facts: Facts = {
        "connection": index + 1,
        "client": f"{conversation.client}:{conversation.client_port}",
        "server": f"{conversation.server}:{conversation.server_port}",
    }
    return {**facts, "notes": conversation.notes} if conversation.notes else facts


def _message(sent: Sent) -> Facts:
    frame, data = sent.emission.frame, sent.data
    facts: Facts = {
        "connection": sent.connection + 1,
        "side": SIDES[sent.emission.side],
        "offset": sent.offset,
        "size": len(data),
        "acked": sent.heard,
        "name": frame.name,
        "response": frame.response,
    }
    if len(data) >= registry.HEADER_SIZE:  # as it is on the wire: a fault may have put something else there
        answered = data[0] in _RESPONSES and frame.dialect is not Dialect.DRAFT
        number = "status" if answered else "vbucket"
        facts |= {"opcode": data[1], "opaque": data[12:16].hex(), number: int.from_bytes(data[6:8], "big")}
    if frame.raw is None:
        facts |= {name: value for name in ("seqno", "stream_id") if (value := getattr(frame, name)) is not None}
    return facts


class _Places:
    """Where messages are in the capture."""

    def __init__(self, written: Written) -> None:
        self._packets: dict[int, list[int]] = {}
        self._missing: dict[int, int] = {}
        by_flow: dict[int, list[Sent]] = {}
        for connection in written.sent:
            for sent in connection:
                by_flow.setdefault(sent.flow, []).append(sent)
        starts = {flow: [each.offset for each in sent] for flow, sent in by_flow.items()}
        covered: dict[int, list[tuple[int, int]]] = {}
        for number, (segment, size) in enumerate(zip(written.packets, written.payloads, strict=True), 1):
            if not size:
                continue
            covered.setdefault(segment.flow, []).append((segment.offset, segment.offset + size))
            begins = starts[segment.flow]
            for index in range(bisect_right(begins, segment.offset) - 1, len(begins)):
                sent = by_flow[segment.flow][index]
                if sent.offset >= segment.offset + size:
                    break
                if sent.end > segment.offset:
                    self._packets.setdefault(id(sent.emission), []).append(number)
        for flow, messages in by_flow.items():
            for sent, missing in zip(messages, _gaps(messages, covered.get(flow, [])), strict=True):
                self._missing[id(sent.emission)] = missing

    def of(self, sent: Sent) -> Facts:
        """Return the packets that a message is in, and how many of its bytes are in none."""
        key = id(sent.emission)
        facts: Facts = {"packets": self._packets.get(key, [])}
        return {**facts, "missing": self._missing[key]} if self._missing[key] else facts


def _gaps(messages: Sequence[Sent], spans: list[tuple[int, int]]) -> Iterator[int]:
    """Yield how many bytes of each message are in no span. Both are in the order of offsets once sorted."""
    merged: list[list[int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    begins = [start for start, _ in merged]
    for sent in messages:
        found = 0
        for start, end in merged[max(0, bisect_right(begins, sent.offset) - 1) :]:
            if start >= sent.end:
                break
            found += max(0, min(end, sent.end) - max(start, sent.offset))
        yield len(sent.data) - found


def _captured(index: int, written: Written) -> Facts:
    """Tell where the capture of each direction begins, where it begins late: readers count offsets from there."""
    first: dict[int, int] = {}
    for segment in written.packets:
        first.setdefault(segment.flow, segment.offset)
    begins = {name: first.get(2 * index + side) for side, name in enumerate(SIDES)}
    return {} if all(offset == -1 for offset in begins.values()) else {"captured_from": begins}


def _broken(made: Made, numbers: Mapping[int, int], messages: Sequence[Facts]) -> Iterator[Facts]:
    for fault, broken in made.broken:
        # A message that a later fault took away is nowhere.
        guilty = [numbers[id(emission)] for emission in broken.emissions if id(emission) in numbers]
        yield {
            "rule": broken.rule,
            "variant": broken.variant,
            "title": fault.title,
            "because": broken.because,
            "implies": list(fault.implies),
            "connection": made.conversations.index(broken.conversation) + 1,
            "messages": guilty,
            "packets": sorted({packet for number in guilty for packet in messages[number - 1]["packets"]}),
        }


def dump(facts: Facts, stream: IO[bytes]) -> None:
    """Write the truth; lists have one entry a line, so that people can read them and grep can find them."""
    blocks = []
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n".join(f"  {json.dumps(entry)}" for entry in value)
            blocks.append(f"{json.dumps(name)}: [\n{lines}\n ]")
        else:
            blocks.append(f"{json.dumps(name)}: {json.dumps(value)}")
    stream.write(("{\n " + ",\n ".join(blocks) + "\n}\n").encode())
