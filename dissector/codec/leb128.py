"""Collection ids: unsigned LEB128 numbers of at most 32 bits, canonical form only."""

_MAX_BYTES = 5


def read(data: bytes) -> tuple[int, int]:
    """Read a number; return it and its size in bytes, which is 0 when it is malformed or not canonical."""
    number = 0
    for index, byte in enumerate(data[:_MAX_BYTES]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            canonical = (byte != 0 or index == 0) and number < 1 << 32
            return (number, index + 1) if canonical else (0, 0)
    return 0, 0


def pack(number: int) -> bytes:
    """Write a number."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
