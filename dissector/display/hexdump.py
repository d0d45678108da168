"""Bytes as hexadecimal digits and characters, sixteen to a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH = 16


def hexdump(data: bytes, *, hidden: Sequence[tuple[int, int]] = (), start: int = 0) -> Iterator[str]:
    """Yield lines; bytes in ``hidden`` spans (start, end) are shown as ``..``: they are secrets."""
    for at in range(0, len(data), _WIDTH):
        row = data[at : at + _WIDTH]
        covered = [any(low <= at + index < high for low, high in hidden) for index in range(len(row))]
        digits = [".." if secret else f"{byte:02x}" for byte, secret in zip(row, covered, strict=True)]
        characters = "".join(
            chr(byte) if 0x20 <= byte < 0x7F and not secret else "." for byte, secret in zip(row, covered, strict=True)
        )
        left, right = " ".join(digits[:8]), " ".join(digits[8:])
        yield f"{start + at:06x}  {left:<23}  {right:<23}  {characters}"
