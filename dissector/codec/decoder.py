"""The decoder: a total function from dialect and bytes to a decoded message.

It reads what the header's lengths delimit, never what the opcode implies, and reports every broken rule as a defect
with a stable id. No bytes make it raise. All numbers of the protocol come from the spec.
"""

from __future__ import annotations

from dataclasses import replace

from dissector.codec import leb128, values
from dissector.codec.event_values import EventValue, read_event
from dissector.codec.framing_extras import read_frame_infos
from dissector.codec.message import Decoded, Defect, FieldValue, Header, Value
from dissector.codec.part_checks import check_header, check_parts, check_strays, fitting_layout, nearest_layout
from dissector.codec.values import check_names
from dissector.spec import draft, enums, headers, registry
from dissector.spec.model import (
    Body,
    Dialect,
    KeyRole,
    Layout,
    Message,
    MessageType,
    Presence,
    Shape,
)

_STREAM_ID_TAG, _STREAM_ID_SIZE = headers.STREAM_ID_TAG, headers.STREAM_ID_SIZE
_OVERSTATED = draft.OVERSTATED  # E-12
_ERROR_ANSWER = Shape(layouts=(), key=Presence.MAY, value=Presence.MAY, body=Body.TEXT)


def decode(
    dialect: Dialect,
    data: bytes,
    *,
    collections: bool = False,
    request_subtype: int | None = None,
    withhold_secrets: bool = True,
    inspect: bool = True,
    inflate_limit: int = values.INFLATE_LIMIT,
) -> Decoded:
    """Decode the frame at the start of ``data``.

    ``data`` may end early (a defect) or hold more than the frame: the rest is only looked at to tell a wrong length.
    ``collections`` says that HELLO collections was granted, so that document keys start with a collection id.
    ``request_subtype`` is the draft request that this response answers, where it is known (E-13).
    ``withhold_secrets`` withholds log-ins, keys and tokens.
    ``inspect`` looks into documents: expands snappy, reads xattrs, checks JSON.
    """
    if len(data) < registry.HEADER_SIZE:
        detail = f"{len(data)} bytes, a header has {registry.HEADER_SIZE}"
        return Decoded(dialect, len(data), defects=(Defect("truncated-header", detail),))
    return _Reader(dialect, data, collections, request_subtype, withhold_secrets, inspect, inflate_limit).read()


class _Reader:
    """Decodes one frame to a :class:`Decoded`; made for one call."""

    def __init__(
        self,
        dialect: Dialect,
        data: bytes,
        collections: bool,
        request_subtype: int | None,
        withhold_secrets: bool,
        inspect: bool,
        inflate_limit: int,
    ) -> None:
        self.dialect = dialect
        self.header = Header.parse(data)
        self.length = min(self.header.frame_length, len(data))
        self.frame = bytes(data[: self.length])
        self.rest = data[self.header.frame_length :]
        self.whole = len(data) >= self.header.frame_length
        self.collections = collections
        self.request_subtype = request_subtype
        self.withhold_secrets = withhold_secrets
        self.inspect = inspect
        self.inflate_limit = inflate_limit
        self.defects: list[Defect] = []
        self.fields: list[FieldValue] = []

    def report(self, defect: str, detail: str) -> None:
        """Note a defect."""
        self.defects.append(Defect(defect, detail))

    def read(self) -> Decoded:
        """Read the whole frame."""
        header = self.header
        magic = header.known_magic
        if magic is None:
            self.report("unknown-magic", f"0x{header.magic:02x}")
        direction = magic.direction if magic is not None else None
        drafted = (
            self.dialect is Dialect.DRAFT
            and header.opcode in registry.DRAFT_OPCODES
            and magic is not None
            and not magic.flexible
            and not magic.server_push
        )
        response = direction is MessageType.RESPONSE
        status = header.vbucket_or_status if response and not drafted else None
        spec, shape = self._find(drafted, response, status)

        framing, extras, key, body = self._lengths(spec, shape)
        framing_end = registry.HEADER_SIZE + framing
        extras_end = framing_end + extras
        key_end = extras_end + key
        value_length = body - framing - extras - key

        infos = read_frame_infos(
            self.frame[registry.HEADER_SIZE : framing_end], direction, self.report, whole=self.whole
        )
        extras_bytes = self.frame[framing_end:extras_end]
        layout = self._layout(spec, shape, extras_bytes, framing_end, extras, value_length, status)
        if shape is not None and shape is not _ERROR_ANSWER:
            check_parts(shape, layout, key, value_length, self.report)
            check_header(shape, header, self.report, drafted=drafted)
        elif not drafted and enums.DATATYPES.unknown(header.datatype):
            self.report("datatype-invalid", f"0x{header.datatype:02x}")
        if status is not None and registry.status_name(status) is None:
            self.report("status-unknown", f"0x{status:04x}")
        key_bytes = self.frame[extras_end:key_end]
        collection_id, document_key = self._key(shape, key_bytes, key)
        raw = self.frame[key_end : registry.HEADER_SIZE + body]
        value = self._value(spec, shape, layout, key_bytes, key, raw, key_end, value_length)
        if self.rest:
            check_strays(self.header, spec, self.rest, self.report, response=response)
        return Decoded(
            dialect=self.dialect,
            length=self.length,
            header=header,
            spec=spec,
            layout=layout,
            direction=direction,
            vbucket=header.vbucket_or_status if drafted or not response else None,
            status=status,
            subtype=header.datatype if drafted else None,
            frame_infos=infos,
            extras=extras_bytes,
            extras_offset=framing_end,
            fields=tuple(self.fields),
            key=key_bytes,
            key_offset=extras_end,
            collection_id=collection_id,
            document_key=document_key,
            value=value,
            defects=tuple(self.defects),
        )

    def _find(self, drafted: bool, response: bool, status: int | None) -> tuple[Message | None, Shape | None]:
        """Find the message and the shape that its form must have."""
        header = self.header
        if drafted:
            return self._find_drafted(response)
        magic = header.known_magic
        spec = registry.message(self.dialect, header.opcode, server_push=magic is not None and magic.server_push)
        if spec is None:
            self.report("unknown-opcode", f"0x{header.opcode:02x} in {self.dialect}")
            return None, None
        if magic is None:
            return spec, None
        if not response:
            return spec, spec.request
        return spec, spec.response(status or 0) or _ERROR_ANSWER

    def _find_drafted(self, response: bool) -> tuple[Message | None, Shape | None]:
        header = self.header
        spec = registry.drafted(header.opcode, header.datatype)
        if spec is None:
            self.report("unknown-subtype", f"0x{header.opcode:02x}/{header.datatype}")
            return None, None
        answers_log = (
            self.request_subtype in registry.drafted_log_request().subtypes
            if self.request_subtype is not None
            else header.body_length > 0
        )
        log = registry.DRAFT_FAILOVER_LOG
        if response and (spec.opcode, spec.subtypes) == (log.opcode, log.subtypes) and answers_log:
            spec = log  # E-13
        shape = spec.push if response else spec.request
        if shape is None:
            self.report("wrong-direction", f"{spec.name} with magic 0x{header.magic:02x}")
        return spec, shape

    def _lengths(self, spec: Message | None, shape: Shape | None) -> tuple[int, int, int, int]:
        """Return the sizes of framing extras, extras, key and whole body, cut to what the body can hold."""
        header = self.header
        body = header.body_length
        framing, extras, key = header.framing_length, header.extras_length, header.key_length
        missing = header.frame_length - self.length
        if missing == _OVERSTATED and any(
            layout.note == "extras-overstated" and layout.extras_size == extras
            for layout in (shape.layouts if shape is not None else ())
        ):
            self.report("extras-overstated", f"the header counts {_OVERSTATED} bytes that are not there")
            self.whole = True
            extras -= _OVERSTATED
            body -= _OVERSTATED
        elif missing:
            self.report("truncated-frame", f"{missing} of {header.frame_length} bytes are missing")
        if body > registry.MAX_BODY:
            self.report("body-too-large", f"{body} bytes")
        if self._stream_id_unannounced(spec):
            self.report("framing-length-omitted", "0x22 and a stream id precede the extras, the header says 0 bytes")
            framing = _STREAM_ID_SIZE
        if framing + extras + key > body:
            self.report("lengths-exceed-body", f"framing {framing} + extras {extras} + key {key} > total body {body}")
            framing = min(framing, body)
            extras = min(extras, body - framing)
            key = min(key, body - framing - extras)
        return framing, extras, key, body

    def _stream_id_unannounced(self, spec: Message | None) -> bool:
        """Recognise the frames that 7.0 sends with a stream id that the header does not count (E-41)."""
        header = self.header
        if not header.flexible or header.framing_length or spec is None or "E-41" not in spec.errata:
            return False
        surplus = header.body_length - header.extras_length - header.key_length
        # Without a value there are exactly 3 bytes too many; with one, only a datatype explains the others.
        fits = surplus == _STREAM_ID_SIZE or (surplus > _STREAM_ID_SIZE and header.datatype != 0)
        start = registry.HEADER_SIZE
        return fits and self.frame[start : start + 1] == bytes([_STREAM_ID_TAG])

    def _layout(
        self,
        spec: Message | None,
        shape: Shape | None,
        extras: bytes,
        offset: int,
        size: int,
        value_length: int,
        status: int | None,
    ) -> Layout | None:
        """Choose the layout by extras length and version byte, and read the extras by it."""
        if spec is None or shape is None:
            return None
        if shape is _ERROR_ANSWER:
            # Refusals keep the success form's extras (add stream) or have none; neither is judged.
            success = spec.response(enums.SUCCESS)
            layouts = tuple(entry for entry in success.layouts if entry.extras_size) if success is not None else ()
            layout = fitting_layout(layouts, extras, size, value_length)
            if layout is not None:
                self.fields.extend(values.read_fields(layout.extras, extras, offset))
            return layout
        if not shape.layouts:
            return None
        layout = fitting_layout(shape.layouts, extras, size, value_length)
        if layout is None and any(entry.version is not None and entry.extras_size == size for entry in shape.layouts):
            self._unknown_version(shape.layouts, extras, size, offset)
            return None
        if layout is None:
            layout = fitting_layout(registry.sibling_layouts(spec, status), extras, size, value_length)
            if layout is not None:
                self.report("layout-of-other-dialect", f"{spec.name} with {size} bytes of extras: {layout.name}")
        if layout is None:
            self._unknown_length(spec, shape, extras, size, offset)
            return None
        if layout.note is not None:
            self.report(layout.note, layout.name)
        found = values.read_fields(layout.extras, extras, offset)
        self.fields.extend(found)
        check_names(found, self.report)
        return layout

    def _unknown_version(self, layouts: tuple[Layout, ...], extras: bytes, size: int, offset: int) -> None:
        known = next(entry for entry in layouts if entry.version is not None and entry.extras_size == size)
        self.fields.extend(values.read_fields(known.extras, extras, offset))
        if extras:
            self.report("marker-version-unknown", f"version {extras[-1]}")

    def _unknown_length(self, spec: Message, shape: Shape, extras: bytes, size: int, offset: int) -> None:
        if size == 0 and shape.extras is Presence.MUST:
            self.report("extras-missing", f"{spec.name} has none")
            return
        if shape.extras is Presence.MUST_NOT:
            self.report("extras-unexpected", f"{spec.name} has {size} bytes")
            return
        self.report("extras-length-unknown", f"{spec.name} has {size} bytes")
        nearest = nearest_layout(shape.layouts, size)
        if nearest is not None:
            self.fields.extend(values.read_fields(nearest.extras, extras, offset))

    def _key(self, shape: Shape | None, key: bytes, length: int) -> tuple[int | None, bytes]:
        """Split the collection id off a document key."""
        if shape is None or shape.key_role is not KeyRole.DOCUMENT or not length:
            return None, key
        limit = registry.MAX_KEY if self.collections else registry.MAX_KEY - 1
        if length > limit:
            self.report("key-too-long", f"{length} bytes")
        if not self.collections or len(key) < length:
            return None, key
        collection, size = leb128.read(key)
        if size == 0:
            self.report("collection-id-invalid", f"the key starts with {key[:6].hex()}")
            return None, key
        if size == len(key):
            self.report("key-empty", f"the key is the collection id 0x{collection:x} alone")
        return collection, key[size:]

    def _value(
        self,
        spec: Message | None,
        shape: Shape | None,
        layout: Layout | None,
        key: bytes,
        key_length: int,
        raw: bytes,
        offset: int,
        length: int,
    ) -> Value:
        if spec is not None and spec.request is not None and spec.request.body is Body.SECRET and self.withhold_secrets:
            return Value(Body.SECRET, offset, length, withheld=True)
        whole = len(raw) == length
        kind = shape.body if shape is not None else Body.BYTES
        if layout is not None and layout.value:
            found = values.read_fields(layout.value, raw, offset)
            self.fields.extend(found)
            check_names(found, self.report)
        event = EventValue()
        if kind is Body.SYSTEM_EVENT:
            limit = self.inflate_limit
            event = read_event(self.fields, key_length, raw, offset, self.report, whole=whole, limit=limit)
            self.fields.extend(event.fields)
        if shape is not None and shape.key_role is KeyRole.PARAMETER and whole:
            values.check_control(key, raw, self.report)
        nmeta = next((entry.value for entry in self.fields if entry.name == "nmeta"), 0)
        read = values.read_value(
            kind,
            raw,
            offset,
            self.report,
            datatype=self.header.datatype,
            nmeta=nmeta,
            whole=whole,
            inspect=self.inspect,
            inflate_limit=self.inflate_limit,
            json_keys=shape.json_keys if shape is not None else (),
        )
        return replace(read, length=length, table=event.table)
