"""A filter's text as words, numbers, strings and signs. It knows how they are spelled, not what they mean.

A string keeps its escapes: whether they are the filter's or the regular expression's is for the grammar to say.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from enum import Enum

from dissector.filters.errors import FilterError, shown

MAX_LENGTH = 1 << 16  #: characters of a filter
MAX_NUMBER = (1 << 64) - 1

KEYWORDS = frozenset(("and", "or", "not", "in", "contains", "startswith", "endswith", "matches", "has", "exists"))
_SIGNS = {"&&": "and", "||": "or", "!": "not", "~": "matches"}
#: Wireshark's words for operators.
_SPELLED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
#: Signs of other languages.
_MISTAKES = {"=": "==", "<>": "!=", "=>": ">=", "=<": "<=", "=~": "matches"}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", '"': b'"', "'": b"'"}

_SPACE = re.compile(r"[ \t\r\n]+")
_TOKEN = re.compile(
    r"""
      (?P<hex>      hex:[0-9A-Za-z_]* )
    | (?P<address>  [0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9A-Za-z_.])
                  | [0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]* )
    | (?P<number>   [0-9][0-9A-Za-z_]*(?:\.[0-9]+(?![0-9A-Za-z_]|\.[0-9]))? )
    | (?P<word>     [A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*(?:\.[A-Za-z_][A-Za-z0-9_]*)* )
    | (?P<string>   "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
    | (?P<mistake>  =~ | => | =< | <> | =(?!=) )
    | (?P<sign>     && | \|\| | == | != | <= | >= | \.\. | [<>!&|(){},~] )
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"0[xX](?P<hexadecimal>[0-9A-Fa-f]+(?:_[0-9A-Fa-f]+)*)|(?P<decimal>[0-9]+(?:_[0-9]+)*)")
_FRACTION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    KEYWORD = "keyword"
    NUMBER = "number"
    STRING = "string"
    HEX = "hex"
    ADDRESS = "address"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number, string or sign of the text, and where it starts."""

    kind: TokenKind
    text: str  #: as written; keywords in small letters, && || ! ~ as the words that they stand for
    position: int
    number: int = 0
    nanos: int | None = None  #: of a number with a fraction: billionths
    data: bytes = b""
    field: str = ""  #: of a word that Wireshark has: the field that it stands for
    flag: str = ""  #: of that field, if the word stands for a flag

    @property
    def name(self) -> str:
        """Return the field's name that a word is, if it is one."""
        return self.field or self.text

    @property
    def body(self) -> str:
        """Return what stands between a string's quotes."""
        return self.text[1:-1]


def tokenize(text: str) -> list[Token]:
    """Take a filter apart; the last token is its end."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter is longer than {MAX_LENGTH:,} characters", text, MAX_LENGTH)
    tokens = []
    position = 0
    while True:
        space = _SPACE.match(text, position)
        position = space.end() if space else position
        if position == len(text):
            tokens.append(Token(TokenKind.END, "", position))
            return tokens
        found = _TOKEN.match(text, position)
        if found is None:
            raise _stray(text, position)
        tokens.append(_token(text, found))
        position = found.end()


def _token(text: str, found: re.Match[str]) -> Token:
    spelled, position = found.group(), found.start()
    match found.lastgroup:
        case "word":
            small = spelled.lower()
            if small in KEYWORDS:
                return Token(TokenKind.KEYWORD, small, position)
            if small in _SPELLED:
                return Token(TokenKind.SIGN, _SPELLED[small], position)
            return Token(TokenKind.WORD, spelled, position)
        case "number":
            if "." in spelled:
                return Token(TokenKind.NUMBER, spelled, position, nanos=_nanos(text, spelled, position))
            return Token(TokenKind.NUMBER, spelled, position, number=_number(text, spelled, position))
        case "string":
            return Token(TokenKind.STRING, spelled, position)
        case "hex":
            return Token(TokenKind.HEX, spelled, position, data=_hex(text, spelled, position))
        case "address":
            return Token(TokenKind.ADDRESS, address(text, spelled, position), position)
        case "mistake":
            raise FilterError(f"{spelled} is no operator: did you mean {_MISTAKES[spelled]}?", text, position)
        case _:
            sign = _SIGNS.get(spelled)
            return (
                Token(TokenKind.SIGN, spelled, position) if sign is None else Token(TokenKind.KEYWORD, sign, position)
            )


def _stray(text: str, position: int) -> FilterError:
    char = text[position]
    if char in "\"'":
        return FilterError(f"the string has no closing {char}", text, position)
    return FilterError(f"unexpected {shown(char)} (text and times stand in quotes)", text, position)


def _number(text: str, spelled: str, position: int) -> int:
    found = _NUMBER.fullmatch(spelled)
    if found is None:
        raise FilterError(f"{shown(spelled)} is no number (text stands in quotes)", text, position)
    base = 10 if found["hexadecimal"] is None else 16
    digits = (found["hexadecimal"] or found["decimal"]).replace("_", "").lstrip("0") or "0"
    # Before int(), which refuses thousands of digits in its own words.
    if len(digits) > 20 or int(digits, base) > MAX_NUMBER:
        raise FilterError("the number is larger than 64 bits", text, position)
    return int(digits, base)


def _nanos(text: str, spelled: str, position: int) -> int:
    found = _FRACTION.fullmatch(spelled)
    if found is None:
        raise FilterError(f"{shown(spelled)} is no number (at most nine digits on either side)", text, position)
    return int(found[1]) * 1_000_000_000 + int(found[2].ljust(9, "0"))


def _hex(text: str, spelled: str, position: int) -> bytes:
    digits = spelled[4:]
    stray = next((at for at, char in enumerate(digits) if char not in "0123456789abcdefABCDEF"), None)
    if stray is not None:
        raise FilterError(f"{shown(digits[stray])} is no hexadecimal digit", text, position + 4 + stray)
    if not digits or len(digits) % 2:
        raise FilterError("hex: takes two hexadecimal digits for each byte", text, position + len(spelled))
    return bytes.fromhex(digits)


def address(text: str, spelled: str, position: int) -> str:
    """Read an IPv4 or IPv6 address and write it as the rows do."""
    try:
        return str(ipaddress.ip_address(spelled))
    except ValueError:
        raise FilterError(f"{shown(spelled)} is no address", text, position) from None


def unescape(text: str, token: Token) -> bytes:
    r"""Return a string's bytes: UTF-8, but ``\xNN`` is one byte as it is."""
    parts = []
    position = 0
    body = token.body
    for found in _ESCAPE.finditer(body):
        parts.append(_encode(text, token, position, found.start()))
        byte, code, char = found.groups()
        where = token.position + 1 + found.start()
        if byte is not None:
            parts.append(bytes([int(byte, 16)]))
        elif code is not None:
            if 0xD800 <= int(code, 16) <= 0xDFFF:
                raise FilterError(f"\\u{code} is no character", text, where)
            parts.append(chr(int(code, 16)).encode())
        elif char in _ESCAPES:
            parts.append(_ESCAPES[char])
        else:
            raise FilterError(
                rf"no such escape: \{shown(char)[1:-1]} (there are \n \r \t \\ \" \' \xNN \uNNNN)", text, where
            )
        position = found.end()
    parts.append(_encode(text, token, position, len(body)))
    return b"".join(parts)


def _encode(text: str, token: Token, start: int, end: int) -> bytes:
    try:
        return token.body[start:end].encode()
    except UnicodeEncodeError as error:  # what the shell passed on was no UTF-8
        where = token.position + 1 + start + error.start
        raise FilterError(r"the text is not UTF-8 (a byte can be written as \xNN)", text, where) from None
