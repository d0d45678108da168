"""Which frames to show: by filter, by connection, by vbucket. Knows columns of frames, and no output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from dissector.errors import UsageError
from dissector.frames.connection_numbers import ConnectionNumbers, is_id, is_number, no_such_connection, place_of
from dissector.frames.pairing import PendingRequests
from dissector.frames.vbuckets_seen import VbucketsSeen
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dissector.array_types import Mask
    from dissector.filters import Filter


#: Requests that may still be answered; beyond this many the oldest are forgotten.
_MAX_PENDING = 1 << 16
#: Commands that are about a vbucket: those of streams, not those that set a connection up.
_ABOUT_A_VBUCKET = np.zeros(256, bool)
_ABOUT_A_VBUCKET[
    [
        message.opcode
        for message in registry.MESSAGES
        if message.dialect is Dialect.DCP and message.name not in ("open", "control", "noop", "buffer_ack")
    ]
] = True


class FrameSelector:
    """Selects frames, batch after batch."""

    def __init__(
        self,
        chosen: Filter | None,
        follow: str | None,
        vbucket: int | None,
        numbering: ConnectionNumbers | None = None,
    ) -> None:
        self._filter = chosen
        self._follow = follow.lower() if follow is not None else None
        self._vbuckets = VbucketsSeen()
        self._vbucket = vbucket
        self._numbering = numbering or ConnectionNumbers()
        self._pending: PendingRequests[None] = PendingRequests(
            _MAX_PENDING
        )  #: by connection, direction, opcode, opaque
        if self._follow is not None and not is_number(self._follow) and not is_id(self._follow):
            raise UsageError(f"--follow {follow}: give a connection's number in the listing, or its id of 16 digits")

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that frames are selected by."""
        needed = {"connection"} if self._follow is not None else set[str]()
        if self._vbucket is not None:
            needed |= {
                "connection",
                "vbucket",
                "response",
                "opcode",
                "opaque",
                "direction",
                "subtype",
                "acked_offset",
                "end_offset",
            }
        return frozenset(needed) | (self._filter.columns if self._filter is not None else frozenset())

    @property
    def is_selective(self) -> bool:
        """Tell whether frames may be left out."""
        return self._filter is not None or self._follow is not None or self._vbucket is not None

    @property
    def unknown(self) -> str | None:
        """Say, after all frames, that the connection or the vbucket that was asked for has not come up."""
        if self._follow is not None and (missing := no_such_connection(self._follow, self._numbering.names)):
            return missing
        if self._vbucket is None:
            return None
        return self._vbuckets.missing(self._vbucket, f"connection {self._follow}" if self._follow else "")

    def follow(self, connection: str) -> None:
        """Follow the connection of this id from now on."""
        self._follow = connection

    def pass_over(self, batch: pa.RecordBatch) -> None:
        """Number the connections of a batch of which no row is wanted."""
        self._numbering.see(batch)

    def forget(self, connection: str) -> None:
        """Forget a connection that is over, unless it is the one to follow: that it came must be known at the end."""
        if connection != self._follow:
            self._numbering.forget(connection)

    def indexes(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the selected rows of a batch."""
        self._numbering.see(batch)
        mask = np.ones(batch.num_rows, bool)
        if self._follow is not None:
            mask &= self._followed(batch)
        if self._vbucket is not None:
            mask &= self._of_vbucket(batch, mask)
        if self._filter is not None:
            mask &= self._filter.mask(batch).to_numpy(zero_copy_only=False)
        return np.flatnonzero(mask)

    def _followed(self, batch: pa.RecordBatch) -> Mask:
        ids = self._numbering.names
        place = place_of(self._follow or "", ids)
        wanted = ids[place] if place >= 0 else ""
        mask: Mask = pc.equal(batch.column("connection"), wanted).to_numpy(zero_copy_only=False)
        return mask

    def _of_vbucket(self, batch: pa.RecordBatch, followed: Mask) -> Mask:
        """Select a vbucket's frames. Answers have no vbucket of their own: they have that of their request."""
        vbucket = batch.column("vbucket").fill_null(-1).to_numpy()
        response = batch.column("response").to_numpy(zero_copy_only=False)
        opcode, opaque = batch.column("opcode").to_numpy(), batch.column("opaque").to_numpy()
        drafted = batch.column("subtype").is_valid().to_numpy(zero_copy_only=False)
        about = _ABOUT_A_VBUCKET[opcode] | drafted
        self._vbuckets.see(vbucket[about & followed])
        mask: Mask = (vbucket == self._vbucket) & about
        direction, ids = batch.column("direction").to_numpy(), batch.column("connection")
        pending, numbers = self._pending, self._numbering.numbers
        # Only frames with the opcode and opaque of a selected request can be its answer, or use its opaque again.
        code = opcode.astype(np.int64) << 32 | opaque
        requested = np.r_[code[mask & ~response], np.array([key[2] << 32 | key[3] for key in pending.keys], np.int64)]
        for index in np.flatnonzero(_ABOUT_A_VBUCKET[opcode] & np.isin(code, requested)).tolist():
            connection, side = numbers[ids[index].as_py()], int(direction[index])
            message = int(opcode[index]), int(opaque[index])
            key = (connection, side, *message)
            if response[index]:
                # Streams answer several times under one opaque (markers, state changes), so requests are kept.
                mask[index] |= (connection, 1 - side, *message) in pending
            elif not mask[index]:
                pending.drop(key)  # the opaque is another vbucket's now
            elif key not in pending:
                if pending.is_full:
                    pending.drop_oldest()
                pending.add(key, None)
        return mask
