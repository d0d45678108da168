"""A message on its way to the wire: named fields that a fault can still change, and the bytes they give.

Knows the encoder and the declarations; must not know who sends it, or when.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from dissector.codec.encoder import encode, pack_frame_info
from dissector.codec.message import Header
from dissector.spec import registry
from dissector.spec.model import size_of

if TYPE_CHECKING:
    from dissector.spec.model import Dialect, Layout, Message

#: A buffer ack of this many bytes gives back all that arrived: ``conversation.size_buffer_acks`` counts it.
ALL_THAT_ARRIVED = -1
STREAM_ID = 2  #: number of the frame info that names a stream


@dataclass(slots=True, eq=False)
class Frame:
    """One message. Mutable, because faults are changes to a message that would have been right."""

    dialect: Dialect
    name: str  #: as the declarations call it
    fields: dict[str, int] = field(default_factory=dict)
    response: bool = False
    key: bytes = b""
    value: bytes = b""
    opaque: bytes = bytes(4)
    vbucket: int = 0
    status: int = 0
    subtype: int | None = None
    cas: int = 0
    datatype: int = 0
    framing: list[tuple[int, bytes]] | None = None
    layout: str | None = None  #: name of the form; by default the first one that has all of ``fields``
    header: dict[str, int] = field(default_factory=dict)  #: fields of :class:`Header` that say something else
    raw: bytes | None = None  #: goes to the wire instead of everything above

    @property
    def message(self) -> Message:
        """Return the declaration."""
        return _message(self.dialect, self.name)

    @property
    def stream_id(self) -> int | None:
        """Return the stream id of the framing extras."""
        return next((int.from_bytes(data, "big") for number, data in self.framing or () if number == STREAM_ID), None)

    @property
    def seqno(self) -> int | None:
        """Return the message's own seqno, whatever its field is called."""
        name = self.message.seqno
        return None if name is None or self.response else self.fields.get(name)

    @seqno.setter
    def seqno(self, value: int) -> None:
        name = self.message.seqno
        if name is None:
            raise ValueError(f"a {self.name} has no seqno")
        self.fields[name] = value

    @property
    def flow_bytes(self) -> int:
        """Return how much it takes from the flow-control window."""
        flow = self.message.flow
        return flow.counted(self.length) if flow is not None and not self.response else 0

    @property
    def length(self) -> int:
        """Return how many bytes it has, without writing them."""
        if self.raw is not None:
            return len(self.raw)
        names = frozenset(self.fields)
        fixed = _fixed_size(self.dialect, self.name, self.response, self.status, self.layout, names)
        framed = sum(len(pack_frame_info(number, data)) for number, data in self.framing or ())
        return fixed + framed + len(self.key) + len(self.value)

    def copy(self, **changes: object) -> Frame:
        """Return a frame of its own with these attributes changed."""
        fresh = {"fields": dict(self.fields), "header": dict(self.header)}
        return dataclasses.replace(self, **{**fresh, **changes})  # type: ignore[arg-type]

    def encode(self) -> bytes:
        """Return the bytes."""
        if self.raw is not None:
            return self.raw
        data = encode(
            self.message,
            self.fields,
            response=self.response,
            layout=_layout(self.dialect, self.name, self.response, self.status, self.layout, frozenset(self.fields)),
            key=self.key,
            value=self.value,
            opaque=self.opaque,
            vbucket=self.vbucket,
            status=self.status,
            subtype=self.subtype,
            cas=self.cas,
            datatype=self.datatype,
            framing=self.framing,
        )
        if not self.header:
            return data
        size = registry.HEADER_SIZE
        head = Header.parse(data)._replace(**self.header)  # type: ignore[arg-type]
        return head.pack() + data[size:]


@cache
def _message(dialect: Dialect, name: str) -> Message:
    return registry.named(dialect, name)


# The caches go by name: a declaration takes longer to hash than its form to find.


@cache
def _layout(
    dialect: Dialect, name: str, response: bool, status: int, wanted: str | None, names: frozenset[str]
) -> Layout | None:
    """Return the form of this name, or the first one that has a place for every field."""
    layouts = _layouts(dialect, name, response, status)
    for layout in layouts:
        if wanted is not None:
            if layout.name == wanted:
                return layout
        elif names <= {field.name for field in (*layout.extras, *layout.value)}:
            return layout
    if wanted is not None or names:
        raise ValueError(f"{dialect}/{name} has no form {wanted or sorted(names)}")
    return None


def _layouts(dialect: Dialect, name: str, response: bool, status: int) -> tuple[Layout, ...]:
    message = _message(dialect, name)
    shape = message.push or (message.response(status) if response else message.request)
    return shape.layouts if shape is not None else ()


@cache
def _fixed_size(
    dialect: Dialect, name: str, response: bool, status: int, wanted: str | None, names: frozenset[str]
) -> int:
    """Return the size of the header and of all declared fields."""
    layout = _layout(dialect, name, response, status, wanted, names)
    layout = layout or next(iter(_layouts(dialect, name, response, status)), None)
    return registry.HEADER_SIZE + (layout.extras_size + size_of(layout.value) if layout is not None else 0)
