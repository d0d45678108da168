"""Frame tables to record batches, column by column.

Frames that a plan finds sound are read all at once; the decoder reads the others one by one, and its results go into
the same columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dissector.arrow import encoded, nulls, numeric, texts
from dissector.codec.values import document_defects
from dissector.frames.decode_plans import DIALECTS, HEADER_SIZE, ROW_BYTES, plans
from dissector.frames.key_value_spans import KeyValueSpans
from dissector.frames.row import content_of, decode_for_row
from dissector.frames.schema import COLUMNS, SCHEMA
from dissector.spec import enums
from dissector.spec.model import Body, MessageType
from dissector.tcp.connections import packet_of
from dissector.tcp.frame_table import NOTHING_ACKED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dissector.array_types import Longs, Mask
    from dissector.frames.decode_plans import Plan
    from dissector.frames.look_ahead import NumberedFrames
    from dissector.frames.row import Row
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection


_HEADER = np.dtype(
    {
        "names": ["magic", "opcode", "key", "extras", "datatype", "number", "body", "opaque", "swapped", "cas"],
        "formats": ["u1", "u1", ">u2", "u1", "u1", ">u2", ">u4", ">u4", "<u4", ">i8"],
        "offsets": [0, 1, 2, 4, 5, 6, 8, 12, 12, 16],
        "itemsize": ROW_BYTES,
    }
)
_LISTS = ("text", "failover_log", "cache_records", "features")
_RESPONSE = np.zeros(256, bool)
_RESPONSE[[magic.value for magic in enums.MAGICS if magic.direction is MessageType.RESPONSE]] = True
_PLAIN = np.zeros(256, bool)
_PLAIN[[magic.value for magic in enums.MAGICS if not magic.flexible and not magic.server_push]] = True
_FLEXIBLE = np.zeros(256, bool)
_FLEXIBLE[[magic.value for magic in enums.MAGICS if magic.flexible]] = True
#: Columns of other types are views of headers: they are copied before they are written to.
_WRITABLE = np.dtype(np.int64).char + np.dtype(np.bool_).char


def batch_of(frames: NumberedFrames, captures: Sequence[str], options: ReadOptions) -> pa.RecordBatch:
    """Lay out frames as rows."""
    return _BatchBuilder(frames, captures, options).build()


class _BatchBuilder:
    """The columns of one batch, while they are filled."""

    def __init__(self, frames: NumberedFrames, captures: Sequence[str], options: ReadOptions) -> None:
        self.table = table = frames.table
        self.size = len(table)
        self.frame_numbers = frames.numbers
        self.dialect = frames.dialect
        self.collections = frames.collections
        self.captures = captures
        self.options = options
        self.numbers: dict[str, Longs] = {}  #: by column; what is in none of them is null throughout
        self.valid: dict[str, Mask] = {}  #: by column; columns without an entry are valid throughout
        self.objects: dict[str, dict[int, Any]] = {name: {} for name in (*_LISTS, "defects")}
        self.names: list[str] = []
        self.name = np.zeros(self.size, np.int64)
        self.without_key = np.zeros(self.size, bool)  #: documents whose keys were not asked for
        source = np.frombuffer(table.stream, np.uint8)
        overlapping = np.ndarray((len(source) - ROW_BYTES + 1,), f"V{ROW_BYTES}", source, 0, (1,))
        self.rows = overlapping[table.position].view(np.uint8).reshape(self.size, ROW_BYTES)
        self.source = source
        self.header = self.rows.reshape(-1).view(_HEADER)

    def build(self) -> pa.RecordBatch:
        """Fill all columns."""
        header, table = self.header, self.table
        self.response = _RESPONSE[header["magic"]]
        key_length = header["key"].astype(np.int64)
        self.framing = np.zeros(self.size, np.int64)
        flexible = _FLEXIBLE[header["magic"]]
        if flexible.any():
            self.framing[flexible] = key_length[flexible] >> 8
            key_length[flexible] &= 0xFF
        self.extras = header["extras"].astype(np.int64)
        self.body = header["body"].astype(np.int64)
        value_length = self.body - self.framing - self.extras - key_length
        key_start = table.position + HEADER_SIZE + self.framing + self.extras
        self.spans = KeyValueSpans(table, self.source, key_start, key_length, value_length)
        self._place()
        self._plain_header()
        left = self._read_by_plans()
        for index in np.flatnonzero(left).tolist():
            self._read_by_decoder(index)
        return self._assemble()

    def _place(self) -> None:
        table, numbers = self.table, self.numbers
        numbers["frame"] = self.frame_numbers
        self.capture_first, numbers["packet_first"] = packet_of(table.packet_first)
        self.capture_last, numbers["packet_last"] = packet_of(table.packet_last)
        numbers["time_ns"] = table.time_ns
        numbers["direction"] = table.side
        numbers["start_offset"] = table.start
        numbers["end_offset"] = table.start + table.length
        numbers["acked_offset"] = table.acked
        if (table.acked == NOTHING_ACKED).any():
            self.valid["acked_offset"] = table.acked != NOTHING_ACKED
        numbers["gap"] = table.gap
        numbers["skipped"] = table.skipped
        numbers["missing"] = table.length - table.available

    def _plain_header(self) -> None:
        header, numbers = self.header, self.numbers
        numbers["magic"] = header["magic"]
        numbers["opcode"] = header["opcode"]
        numbers["response"] = self.response
        numbers["vbucket"] = numbers["status"] = header["number"]
        self.valid["vbucket"], self.valid["status"] = ~self.response, self.response.copy()
        numbers["datatype"] = header["datatype"]
        numbers["framing_length"] = self.framing
        numbers["extras_length"] = self.extras
        numbers["key_length"] = self.spans.key_length
        numbers["value_length"] = self.spans.value_length
        numbers["body_length"] = self.body
        numbers["opaque"] = header["opaque"]
        numbers["opaque_swapped"] = header["swapped"]
        numbers["cas"] = header["cas"]
        numbers["flow_bytes"] = np.zeros(self.size, np.int64)

    def _read_by_plans(self) -> Mask:
        """Read all frames that a plan finds sound; return which ones are left."""
        header, table = self.header, self.table
        left = np.ones(self.size, bool)
        whole = (table.available == table.length) & _PLAIN[header["magic"]] & (self.spans.value_length >= 0)
        whole &= ~self.response | (header["number"] == enums.SUCCESS)
        kind = ((self.dialect * 2 + self.response) << 16) | (header["opcode"].astype(np.int64) << 8) | self.extras
        kinds, codes = encoded(numeric(pa.int64(), kind))
        for number, packed in enumerate(kinds.to_pylist()):
            found = plans(DIALECTS[packed >> 17], bool(packed >> 16 & 1), packed >> 8 & 0xFF, packed & 0xFF)
            for plan in found:
                chosen = np.flatnonzero((codes == number) & whole)
                if plan.layout.version is not None:
                    chosen = chosen[self.rows[chosen, HEADER_SIZE + plan.layout.extras_size - 1] == plan.layout.version]
                left[self._read(plan, chosen)] = False
        return left

    def _read(self, plan: Plan, chosen: Longs) -> Longs:
        """Read those of the chosen frames that are sound; return which they are."""
        good = plan.sound(
            self.spans.key_length[chosen],
            self.spans.value_length[chosen],
            self.header["datatype"][chosen],
            self.header["cas"][chosen],
            self.collections[chosen],
        )
        read = [(place, place.read(self.rows, chosen)) for place in plan.places]
        for place, numbers in read:
            good &= place.sound(numbers)
        ids = sizes = None
        if plan.documents and self.collections[chosen].any():
            ids, sizes, sound = self.spans.collection_ids(chosen, self.collections[chosen])
            good &= sound
        if not good.all():
            chosen = chosen[good]
        for place, numbers in read:
            if place.column is not None:
                self._set(place.column, chosen, numbers if len(numbers) == len(chosen) else numbers[good])
        if ids is not None and sizes is not None:
            prefixed = sizes[good] > 0
            self._set("collection_id", chosen[prefixed], ids[good][prefixed])
            self.spans.prefix[chosen] = sizes[good]
        self.name[chosen] = self._name_code(plan.message.name)
        if plan.documents and not self.options.document_keys:
            self.without_key[chosen] = True
        if plan.flow_surplus is not None:
            self.numbers["flow_bytes"][chosen] = HEADER_SIZE + self.body[chosen] + plan.flow_surplus
        if self.options.inspect and plan.shape.body is Body.DOCUMENT:
            self._inspect(chosen)
        return chosen

    def _inspect(self, chosen: Longs) -> None:
        """Look into documents whose datatype says that they are more than bytes."""
        telling = chosen[(self.header["datatype"][chosen] > 0) & self.spans.value_there[chosen]]
        starts = self.spans.value_start[telling]
        spans = zip(starts.tolist(), (starts + self.spans.value_length[telling]).tolist(), strict=True)
        datatypes = self.header["datatype"][telling].tolist()
        for index, (start, end), datatype in zip(telling.tolist(), spans, datatypes, strict=True):
            defects = document_defects(bytes(self.table.stream[start:end]), datatype)
            if defects:
                self.objects["defects"][index] = defects

    def _read_by_decoder(self, index: int) -> None:
        """Decode one frame, and put the result into the columns."""
        data = self.table.data(index)
        decoded = decode_for_row(
            DIALECTS[self.dialect[index]], data, self.options, collections=bool(self.collections[index])
        )
        row: Row = content_of(decoded, data, int(self.numbers["missing"][index]), self.options)
        # The decoder knows where key and value are; headers may be wrong about it (E-41).
        self.spans.key_start[index] = self.table.position[index] + decoded.key_offset
        self.spans.value_start[index] = self.table.position[index] + decoded.value.offset
        self.name[index] = self._name_code(row.pop("name"))
        self.spans.prefix[index] = len(decoded.key) - len(decoded.document_key)
        row.pop("key")
        self.spans.key_there[index] = row.pop("key_bytes") is not None
        row.pop("key_hash")
        row.pop("value")
        self.spans.value_there[index] = row.pop("value_hash") is not None
        row.pop("dialect")
        for name in self.objects:
            value = row.pop(name, None)
            if value is not None and (name != "defects" or value):
                self.objects[name][index] = value
        for name in ("vbucket", "status", "datatype"):
            value = row.pop(name)
            if value is None:
                self.valid.setdefault(name, np.ones(self.size, bool))[index] = False
            else:
                self._set(name, index, value)
        for name, value in row.items():
            if value is not None:
                self._set(name, index, value)

    def _set(self, name: str, chosen: Longs | int, numbers: Any) -> None:
        """Set numbers of a column, which is made when it is first needed."""
        column = self.numbers.get(name)
        if column is None:
            column = self.numbers[name] = np.zeros(self.size, np.int64)
            self.valid[name] = np.zeros(self.size, bool)
        elif column.dtype.char not in _WRITABLE:
            column = self.numbers[name] = column.astype(np.int64)
        column[chosen] = numbers
        if name in self.valid:
            self.valid[name][chosen] = True

    def _name_code(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _assemble(self) -> pa.RecordBatch:
        special = self._makers()
        wanted = self.options.columns
        columns = [column for column in COLUMNS if wanted is None or column.name in wanted]
        arrays = []
        for column in columns:
            make = special.get(column.name)
            if make is not None:
                arrays.append(make())
            elif column.name in self.numbers:
                arrays.append(numeric(column.type, self.numbers[column.name], self.valid.get(column.name)))
            else:
                arrays.append(nulls(column.type, self.size))
        schema = SCHEMA if wanted is None else pa.schema([SCHEMA.field(column.name) for column in columns])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _makers(self) -> dict[str, Callable[[], pa.Array]]:
        table, entry = self.table, self.table.connection
        flows = [connection.flow(side) for connection, side in self._senders()]
        source_ports = np.array([flow.source_port for flow in flows], np.int32)
        destination_ports = np.array([flow.destination_port for flow in flows], np.int32)
        return {
            "capture": lambda: texts(self.captures, self.capture_last),
            "capture_first": lambda: texts(self.captures, self.capture_first),
            "connection": lambda: texts([connection.id for connection in table.connections], entry),
            "src": lambda: texts([flow.source for flow in flows], entry),
            "dst": lambda: texts([flow.destination for flow in flows], entry),
            "sport": lambda: numeric(pa.int32(), source_ports[entry]),
            "dport": lambda: numeric(pa.int32(), destination_ports[entry]),
            "from_start": lambda: numeric(pa.bool_(), table.from_start),
            "dialect": lambda: texts([dialect.value for dialect in DIALECTS], self.dialect),
            "name": lambda: texts(self.names, self.name),
            "key": lambda: self.spans.key_texts(self.without_key),
            "key_bytes": lambda: self.spans.keys(self.without_key),
            "key_hash": self.spans.key_hashes,
            "value_hash": self.spans.value_hashes,
            "value": lambda: self.spans.values() if self.options.values else nulls(pa.binary(), self.size),
            "defects": self._defects,
            **{name: lambda name=name: self._listed(name) for name in _LISTS},  # type: ignore[misc]
        }

    def _senders(self) -> list[tuple[Connection, int]]:
        sides = np.zeros(len(self.table.connections), np.int64)
        sides[self.table.connection] = self.table.side
        return list(zip(self.table.connections, sides.tolist(), strict=True))

    def _listed(self, name: str) -> pa.Array:
        found = self.objects[name]
        kind = SCHEMA.field(name).type
        if not found:
            return nulls(kind, self.size)
        return pa.array([found.get(index) for index in range(self.size)], kind)

    def _defects(self) -> pa.Array:
        found = self.objects["defects"]
        if not found:
            offsets = numeric(pa.int32(), np.zeros(self.size + 1, np.int32))
            return pa.ListArray.from_arrays(offsets, pa.array([], pa.string()), type=SCHEMA.field("defects").type)
        return pa.array([found.get(index, []) for index in range(self.size)], SCHEMA.field("defects").type)
