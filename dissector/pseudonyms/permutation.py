"""Keyed permutations of texts: each text becomes another one of its length and kind, and different ones stay different.

The kinds are words of letters and digits and ``-_:.``, printable ASCII, and any bytes: a text belongs to the first
that has it, and so does its pseudonym. A permutation is a Feistel network over the digits of a text in the base of its
kind; where it leaves the kind it is applied again until it comes back, which keeps it a permutation. Without the
secret, nobody can tell which text a pseudonym stands for, but by its length, its kind and how often it comes.
"""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from dissector.errors import UsageError

if TYPE_CHECKING:
    from _hashlib import HASHXOF

#: What is replaced: each level all of those before it, too.
LEVELS = ("documents", "names", "addresses")
_SHORTEST_KEY = 16  #: characters
_ROUNDS = 10
_SECRET_BYTES = 32
_REMEMBERED = 1 << 16
#: Of texts that are permuted: what the arithmetic takes grows with the square of it.
_LONGEST = 1 << 9
_LENGTHS = 1 << 8  #: of texts, whose beginnings of rounds are remembered

_DIGITS = string.digits.encode()
_WORD = (string.ascii_letters + string.digits + "-_:.").encode()
_PRINTABLE = bytes(range(0x20, 0x7F))
_ANY = bytes(range(256))
#: What fillers are made of: 32 letters, so that five bits choose one.
_LETTERS = bytes(b"abcdefghijklmnopqrstuvwxyz234567"[byte & 31] for byte in range(256))
_SOME_DIGIT = bytes(_DIGITS[byte % 10] for byte in range(256))
_ALPHABETS = (_WORD, _PRINTABLE, _ANY)
_LETTER_OF = {alphabet: alphabet.ljust(256, b"\0") for alphabet in (_DIGITS, *_ALPHABETS)}
_DIGIT_OF = {alphabet: bytes(max(alphabet.find(byte), 0) for byte in range(256)) for alphabet in (_DIGITS, *_ALPHABETS)}


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """What is to be replaced, and the secret that decides by what."""

    secret: bytes = field(repr=False)
    names: bool = False  #: of users, buckets, connections and agents, too
    addresses: bool = False  #: of hosts, too

    def of(self, text: bytes) -> bytes:
        """Return the pseudonym of a text; of one that is longer than any key, letters."""
        return _pseudonym(self.secret, text) if len(text) <= _LONGEST else self.filler(text)

    def of_number(self, digits: bytes) -> bytes:
        """Return the pseudonym of a decimal number without leading zeros: another one of as many digits."""
        if len(digits) > _LONGEST:
            return _DIGITS[1:2] + self.noise(digits, len(digits) - 1).translate(_SOME_DIGIT)
        return _number(self.secret, digits)

    def filler(self, text: bytes, length: int | None = None) -> bytes:
        """Return letters that depend on a text: equal for equal ones, and as good as never for others."""
        size = len(text) if length is None else length
        return hashlib.shake_256(b"filler" + self.secret + text).digest(size).translate(_LETTERS)

    def shuffled(self, data: bytes) -> bytes:
        """Return other bytes, by a permutation of all of this length."""
        return _permuted(self.secret, data, _ANY)

    def noise(self, data: bytes, length: int) -> bytes:
        """Return bytes that depend on others."""
        return hashlib.shake_256(b"noise" + self.secret + data).digest(length)


def is_number(text: bytes) -> bool:
    """Tell whether a text is a decimal number without leading zeros."""
    return text.isdigit() and (len(text) == 1 or text[0] != _DIGITS[0])


@lru_cache(_REMEMBERED)
def _pseudonym(secret: bytes, text: bytes) -> bytes:
    if not text:
        return text
    place = next(place for place, alphabet in enumerate(_ALPHABETS) if not text.translate(None, alphabet))
    narrower = _ALPHABETS[place - 1] if place else b""
    found = _permuted(secret, text, _ALPHABETS[place])
    while narrower and not found.translate(None, narrower):
        found = _permuted(secret, found, _ALPHABETS[place])
    return found


@lru_cache(_REMEMBERED)
def _number(secret: bytes, digits: bytes) -> bytes:
    found = _permuted(secret, digits, _DIGITS)
    while not is_number(found):
        found = _permuted(secret, found, _DIGITS)
    return found


def _permuted(secret: bytes, text: bytes, alphabet: bytes) -> bytes:
    """Apply the permutation of texts of this length over an alphabet."""
    if len(text) == 1:
        key = _domain(secret, alphabet, 1)
        order = sorted(alphabet, key=lambda byte: hashlib.blake2b(key + bytes((byte,))).digest())
        return bytes((order[alphabet.index(text)],))
    half = len(text) // 2
    left, right = _number_of(text[:half], alphabet), _number_of(text[half:], alphabet)
    for start, size, spread, modulus in _rounds(secret, alphabet, len(text)):
        added = start.copy()
        added.update(right.to_bytes(size, "big"))
        left, right = right, (left + int.from_bytes(added.digest(spread), "big")) % modulus
    return _text_of(left, half, alphabet) + _text_of(right, len(text) - half, alphabet)


@lru_cache(_LENGTHS)
def _rounds(secret: bytes, alphabet: bytes, length: int) -> tuple[tuple[HASHXOF, int, int, int], ...]:
    """Return what the rounds for texts of a length begin with.

    This is the hash that the right half goes into, the bytes of that half, how many come out of the hash, and how many
    left halves there are.
    """
    sizes = (len(alphabet) ** (length // 2), len(alphabet) ** (length - length // 2))
    bytes_of = [(size.bit_length() + 7) // 8 for size in sizes]
    key = _domain(secret, alphabet, length)
    return tuple(
        (hashlib.shake_256(key + bytes((turn,))), bytes_of[1 - turn % 2], bytes_of[turn % 2] + 16, sizes[turn % 2])
        for turn in range(_ROUNDS)
    )


def _domain(secret: bytes, alphabet: bytes, length: int) -> bytes:
    """Return a secret for the texts of one length over one alphabet."""
    return b"".join((secret, len(alphabet).to_bytes(2, "big"), length.to_bytes(4, "big")))


def _number_of(text: bytes, alphabet: bytes) -> int:
    if alphabet is _ANY:
        return int.from_bytes(text, "big")
    number, base = 0, len(alphabet)
    for digit in text.translate(_DIGIT_OF[alphabet]):
        number = number * base + digit
    return number


def _text_of(number: int, length: int, alphabet: bytes) -> bytes:
    if alphabet is _ANY:
        return number.to_bytes(length, "big")
    base = len(alphabet)
    digits = bytearray(length)
    for place in range(length - 1, -1, -1):
        number, digits[place] = divmod(number, base)
    return bytes(digits.translate(_LETTER_OF[alphabet]))


def pseudonyms_of(level: str, key: bytes | None = None, option: str = "key") -> Pseudonyms:
    """Return what replaces user data up to a level; without a ``key``, of which ``option`` speaks, nobody knows it.

    Raises UsageError for a key that is too short, or a level that is none.
    """
    if level not in LEVELS:
        raise UsageError(f"redact: {level!r} is none of {', '.join(LEVELS)}")
    if key is not None and len(key) < _SHORTEST_KEY:
        raise UsageError(f"{option}: a secret has at least {_SHORTEST_KEY} characters")
    secret = new_secret() if key is None else secret_of(key)
    reach = LEVELS.index(level)
    return Pseudonyms(secret, names=reach >= LEVELS.index("names"), addresses=reach >= LEVELS.index("addresses"))


def secret_of(text: bytes) -> bytes:
    """Return the secret that a text stands for: any text will do, a longer one is harder to guess."""
    return hashlib.blake2b(text, digest_size=_SECRET_BYTES).digest()


def without_addresses(pseudonyms: Pseudonyms | None) -> Pseudonyms | None:
    """Return the same pseudonyms for everything but addresses: ids of connections and findings depend on those."""
    return None if pseudonyms is None else replace(pseudonyms, addresses=False)


def new_secret() -> bytes:
    """Return a secret that nobody knows."""
    import secrets  # noqa: PLC0415

    return secrets.token_bytes(_SECRET_BYTES)
