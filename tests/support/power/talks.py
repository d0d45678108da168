"""A conversation: the messages of a connection in order, its streams as far as edits need them, and the edits.

An edit keeps what each side had received: messages refer to what they had heard, so what comes in between or goes
away moves no other message before its cause. What a consumer gives back follows the sizes of what it got: an ack
leaves as many bytes open as it did in the recording, unless it is the ack that an edit is about.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from tests.support.power import messages as m
from tests.support.power.messages import Message
from tests.support.power.streams import Stream

LITTLE = 0.00002  #: seconds between two messages that follow each other at once


class Talk:
    """A conversation that can be copied and edited."""

    def __init__(self, name: str, messages: list[Message]) -> None:
        self.name = name
        self.messages = messages
        self.producer = _producer(messages)
        self._streams: list[Stream] | None = None
        self.evidence: set[int] = set()  #: uids of messages without which an edit's violation does not show
        self.open_slack = self._slack()

    def copied(self) -> Talk:
        twin = object.__new__(Talk)
        twin.name, twin.producer, twin.open_slack = self.name, self.producer, self.open_slack
        twin.messages = [each.copied() for each in self.messages]
        twin.evidence, twin._streams = set(), None
        return twin

    def needs(self, *messages: Message | None) -> None:
        """Say that a violation shows only to who has seen some messages, too."""
        self.evidence |= {each.uid for each in messages if each is not None}

    def needs_beginning(self) -> None:
        """Say that a violation shows only to who has seen that something was never asked for or agreed upon."""
        opens = self.asks(m.OPEN)
        asked = [*opens, *self.asks(m.CONTROL)]
        self.needs(*asked, *(self.answer_to(each) for each in asked))

    def needs_window(self) -> None:
        """Say that a violation shows only to who knows the window."""
        sizes = [each for each in self.asks(m.CONTROL) if each.key == b"connection_buffer_size"]
        self.needs(*sizes, *(self.answer_to(each) for each in sizes))

    # --- what there is ---------------------------------------------------------------------------------------------

    @property
    def consumer(self) -> int:
        return 1 - self.producer

    @functools.cached_property
    def early(self) -> bool:
        """Whether this is UPR as of May 2014: stream requests of 40 bytes."""
        asked = self.asks(m.STREAM_REQUEST)
        return bool(asked) and len(asked[0].extras) == 40

    @functools.cached_property
    def modern(self) -> bool:
        """Whether HELLO was said: servers since 5.0."""
        return any(each.opcode == m.HELLO for each in self.messages)

    @functools.cached_property
    def hello(self) -> set[int]:
        """The features that the server agreed to."""
        answers = [each for each in self.messages if each.opcode == m.HELLO and each.response and not each.number]
        value = b"".join(each.value for each in answers)
        return {int.from_bytes(value[at : at + 2]) for at in range(0, len(value), 2)}

    @functools.cached_property
    def open_flags(self) -> int:
        opens = self.asks(m.OPEN)
        return opens[0].at(4, 4) if opens else 0

    def asks(self, *opcodes: int) -> list[Message]:
        """All requests of some kinds."""
        return [each for each in self.messages if each.opcode in opcodes and each.request and not each.odd]

    def answers(self, *opcodes: int) -> list[Message]:
        """All answers of some kinds."""
        return [each for each in self.messages if each.opcode in opcodes and each.response]

    def answer_to(self, request: Message) -> Message | None:
        """The first answer behind a request with its opcode and opaque."""
        after = self.messages[self.index(request) + 1 :]
        same = (each for each in after if each.response and each.side != request.side)
        return next((each for each in same if (each.opcode, each.opaque) == (request.opcode, request.opaque)), None)

    def agreed(self, parameter: bytes) -> bytes | None:
        """The value of a control parameter that was accepted last."""
        found = None
        for each in self.asks(m.CONTROL):
            answer = self.answer_to(each)
            if each.key == parameter and answer is not None and not answer.number:
                found = each.value
        return found

    def index(self, message: Message) -> int:
        return next(at for at, each in enumerate(self.messages) if each.uid == message.uid)

    def place(self, uid: int) -> int:
        """The index of a message by its uid; -1 for none."""
        return next((at for at, each in enumerate(self.messages) if each.uid == uid), -1)

    def by_uid(self, uid: int) -> Message:
        return next(each for each in self.messages if each.uid == uid)

    def remember(self) -> None:
        """Keep the streams in mind: of a recording, which nobody edits."""
        self._streams = self.streams()

    def streams(self) -> list[Stream]:
        """All granted streams, by the order of the answers; messages go to the last one of their vbucket and id."""
        if self._streams is not None:
            return self._streams
        asked: dict[tuple[bytes, int], Message] = {}
        live: dict[tuple[int, int], Stream] = {}
        found: list[Stream] = []
        for each in self.messages:
            if each.opcode == m.STREAM_REQUEST and each.request:
                asked[each.opaque, each.side] = each
            elif each.opcode == m.STREAM_REQUEST and not each.number:
                request = asked.get((each.opaque, 1 - each.side))
                if request is not None:
                    found.append(Stream(request, each))
                    live[request.number, _asked_id(request)] = found[-1]
            elif each.side == self.producer and each.request and each.opcode in m.OF_STREAMS:
                stream = live.get((each.number, each.stream_id))
                if stream is not None:
                    stream.messages.append(each)
        return found

    def stream_of(self, message: Message) -> Stream | None:
        return next((each for each in self.streams() if any(message is other for other in each.messages)), None)

    def behind(self, message: Message, side: int | None = None) -> list[Message]:
        """The messages behind one, of one side or of both."""
        after = self.messages[self.index(message) + 1 :]
        return [each for each in after if side is None or each.side == side]

    def before(self, message: Message, side: int) -> Message | None:
        """The last message before one, of a side."""
        return next((each for each in reversed(self.messages[: self.index(message)]) if each.side == side), None)

    # --- edits -----------------------------------------------------------------------------------------------------

    def new(self, message: Message, **changes: object) -> Message:
        """A copy of a message with a uid of its own, not yet in the conversation."""
        twin = message.copied()
        twin.uid = max(each.uid for each in self.messages) + 1
        twin.tail, twin.odd = b"", False
        for name, value in changes.items():
            setattr(twin, name, value)
        return twin

    def made(self, like: Message, side: int, magic: int, opcode: int, **changes: object) -> Message:
        """A message without a body, of the time of another."""
        blank: dict[str, object] = {"datatype": 0, "number": 0, "opaque": like.opaque, "cas": 0}
        blank |= {"framing": b"", "extras": b"", "key": b"", "value": b"", "overrides": {}, "kept": False}
        return self.new(like, side=side, magic=magic, opcode=opcode, **(blank | changes))

    def put_behind(self, place: Message, message: Message) -> Message:
        """Put a message right behind another; its sender has heard all that its last message before had heard, or,
        where it comes behind a message of the other side, that one."""
        at = self.index(place)
        if place.side == message.side:
            message.heard = place.heard
        else:
            message.heard = place.uid
        message.time = place.time + LITTLE
        self.messages.insert(at + 1, message)
        self._push(at + 1)
        return message

    def put_before(self, place: Message, message: Message) -> Message:
        """Put a message right before another of the same side."""
        at = self.index(place)
        message.heard, message.time = place.heard, place.time
        self.messages.insert(at, message)
        self._push(at)
        return message

    def _push(self, at: int) -> None:
        """See that time does not go back from a place on, and that nobody has heard less than before."""
        for index in range(at + 1, len(self.messages)):
            if self.messages[index].time > self.messages[index - 1].time:
                break
            self.messages[index].time = self.messages[index - 1].time + LITTLE

    def remove(self, message: Message) -> None:
        """Take a message out: who had heard it has heard the one before it."""
        before = self.before(message, message.side)
        for each in self.messages:
            if each.heard == message.uid:
                each.heard = before.uid if before is not None else -1
        del self.messages[self.index(message)]

    def rest(self, place: Message, seconds: float) -> list[Message]:
        """Let time pass behind a message. So that it is no step of a clock, the consumer asks for failover logs all
        along and is answered: always legal, and not counted by flow control."""
        for each in self.behind(place):
            each.time += seconds
        granted = self.streams()[0]
        made: list[Message] = []
        last, begin = place, place.time
        steps = max(int(seconds // 3), 2)
        for step in range(1, steps):
            opaque = b"\x7f\x55" + (len(self.messages) & 0xFFFF).to_bytes(2)
            ask = self.made(last, self.consumer, 0x80, m.FAILOVER_LOG, opaque=opaque, number=granted.vbucket)
            self.put_behind(last, ask)
            ask.time = begin + step * seconds / steps
            answer = self.made(ask, self.producer, 0x81, m.FAILOVER_LOG, value=granted.answer.value)
            last = self.put_behind(ask, answer)
            last.time = ask.time + 0.0004
            made += [ask, answer]
        return made

    def rename(self, stream: Stream, opaque: bytes) -> None:
        """Give a stream another opaque: its request, the answer, its messages and the consumer's replies to them."""
        old = stream.request.opaque
        mine = {each.uid for each in (stream.request, stream.answer, *stream.messages)}
        after = {each.uid for each in self.behind(stream.answer, self.consumer)}
        for each in self.messages:
            reply = each.uid in after and each.opaque == old and (each.response or each.opcode == m.SEQNO_ACK)
            if each.uid in mine or reply:
                each.opaque = opaque

    # --- flow control ----------------------------------------------------------------------------------------------

    def acks(self) -> list[Message]:
        return [each for each in self.asks(m.ACK) if each.side == self.consumer]

    def _received(self) -> Callable[[Message], int]:
        """Counted bytes that had reached the consumer when it sent a message."""
        sums: dict[int, int] = {-1: 0}
        total = 0
        for each in self.messages:
            if each.side == self.producer:
                total += each.size if each.counted else 0
                sums[each.uid] = total
        return lambda message: sums.get(message.heard, 0)

    def _slack(self) -> dict[int, int]:
        received = self._received()
        total = 0
        found = {}
        for each in self.acks():
            total += ack_bytes(each)
            found[each.uid] = received(each) - total
        return found

    def settle(self) -> None:
        """Have every ack leave open what it left open in the recording."""
        received = self._received()
        total = 0
        for each in self.acks():
            if each.uid in self.open_slack and not each.kept:
                wanted = received(each) - self.open_slack[each.uid] - total
                if wanted <= 0:  # an edit left nothing to give back here
                    self.remove(each)
                    continue
                set_ack_bytes(each, wanted)
            total += ack_bytes(each)

    def window(self) -> int:
        """The window that was agreed upon; 0 without one, or where it changed."""
        sizes = [each.value for each in self.asks(m.CONTROL) if each.key == b"connection_buffer_size"]
        agreed = self.agreed(b"connection_buffer_size")
        return int(agreed) if agreed and len(sizes) == 1 and agreed.isdigit() else 0

    def outstanding(self) -> Iterator[tuple[Message, int]]:
        """Each counted message with what was outstanding before it, by the acks that had reached the producer."""
        given = {-1: 0}
        total = 0
        for each in self.messages:
            if each.side == self.consumer:
                total += ack_bytes(each) if each.opcode == m.ACK and each.request else 0
                given[each.uid] = total
        sent = 0
        for each in self.messages:
            if each.side == self.producer and each.counted:
                yield each, sent - given[each.heard]
                sent += each.size


def ack_bytes(ack: Message) -> int:
    return int.from_bytes(ack.extras or ack.value)


def set_ack_bytes(ack: Message, number: int) -> None:
    data = number.to_bytes(4)
    if ack.extras:
        ack.extras = data
    else:
        ack.value = data


def _asked_id(request: Message) -> int:
    """The stream id in a request's JSON, as servers take it: modulo 65536."""
    at = request.value.find(b'"sid"')
    if at < 0:
        return 0
    digits = request.value[at + 5 :].lstrip(b": ")
    end = next((place for place, each in enumerate(digits) if not 48 <= each <= 57), len(digits))
    return int(digits[:end] or b"0") & 0xFFFF


def _producer(messages: list[Message]) -> int:
    """The side that produces, by the open: its flag gives its receiver's role."""
    for each in messages:
        if each.opcode == m.OPEN and each.request and len(each.extras) == 8:
            return 1 - each.side if each.at(4, 4) & 1 else each.side
    return -1
