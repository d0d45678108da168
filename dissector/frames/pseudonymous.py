"""Frames whose user data is replaced before they become rows. Knows tables of frames; what is replaced it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dissector.frames.decode_plans import DIALECTS
from dissector.pseudonyms.frames import replaced

if TYPE_CHECKING:
    from dissector.frames.look_ahead import NumberedFrames
    from dissector.pseudonyms import Pseudonyms


def pseudonymous(frames: NumberedFrames, pseudonyms: Pseudonyms) -> NumberedFrames:
    """Return the same frames over other bytes."""
    table = frames.table
    stream = bytearray(len(table.stream))
    facts = zip(table.position.tolist(), frames.dialect.tolist(), frames.collections.tolist(), strict=True)
    for index, (start, dialect, collections) in enumerate(facts):
        data = table.data(index)
        stream[start : start + len(data)] = replaced(pseudonyms, DIALECTS[dialect], data, collections=collections)
    return replace(frames, table=replace(table, stream=memoryview(bytes(stream))))
