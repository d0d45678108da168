"""Literals: what a number, a string or a name means beside a certain field, or why it means nothing there."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from dissector.filters import tokens, tree
from dissector.filters.errors import FilterError, shown, suggestion
from dissector.filters.names import NUMERIC, FieldKind
from dissector.filters.tokens import Token, TokenKind

if TYPE_CHECKING:
    from dissector.filters.names import Constant, FieldInfo

_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2}))?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDENTIFIER = re.compile("0[xX][0-9a-fA-F]{1,16}")  #: as JSON and CSV write it
_INT64 = 1 << 63
_MOST_SECONDS = 10**9 - 1
#: What to write beside a field, by what the field holds.
_WANTED = {
    FieldKind.INTEGER: "a number",
    FieldKind.UNSIGNED: "a number",
    FieldKind.BOOLEAN: "true or false",
    FieldKind.TEXT: 'a string in "..."',
    FieldKind.BYTES: 'a string in "..." or hex:...',
    FieldKind.ADDRESS: "an address",
    FieldKind.TIME: 'a time, as in "2026-11-16T02:10:00Z"',
    FieldKind.SECONDS: "a number, as in 1.5",
    FieldKind.NUMBERS: "a number",
    FieldKind.IDS: "an id",
    FieldKind.NAMES: "a name",
    FieldKind.LOG: "the number of a vbucket uuid",
    FieldKind.RECORDS: 'a key in "..." or hex:...',
}


def wanted(info: FieldInfo) -> str:
    """Say what can stand beside a field."""
    return f"{_WANTED[info.kind]}{' or a name' if info.constants and info.kind in NUMERIC else ''}"


def read(text: str, token: Token, info: FieldInfo) -> tree.Literal:
    """Read a literal as the field means it."""
    if token.kind is TokenKind.WORD:
        return _named(text, token, info)
    kind = info.kind
    if kind is FieldKind.BOOLEAN and token.nanos is None:
        return tree.Boolean(boolean(text, token))
    if kind is FieldKind.SECONDS:
        if token.kind is TokenKind.NUMBER and token.number <= _MOST_SECONDS:
            return tree.Seconds(token.number * tree.SECOND_NS if token.nanos is None else token.nanos)
    elif token.nanos is not None:
        raise FilterError(f"expected {wanted(info)}: only seconds have a fraction", text, token.position)
    elif kind in NUMERIC or kind in {FieldKind.NUMBERS, FieldKind.LOG}:
        if token.kind is TokenKind.NUMBER:
            return tree.Number(token.number)
        if token.kind is TokenKind.STRING and kind is not FieldKind.INTEGER and _IDENTIFIER.fullmatch(token.body):
            return tree.Number(int(token.body, 16))
        if token.kind is TokenKind.STRING and token.body.lower() in info.constants:
            raise FilterError(f"names stand without quotes: {token.body.lower()}", text, token.position)
    elif kind is FieldKind.ADDRESS:
        if token.kind is TokenKind.ADDRESS:
            return tree.Text(token.text)
        if token.kind is TokenKind.STRING:
            return tree.Text(tokens.address(text, string(text, token), token.position))
    elif kind is FieldKind.BYTES and token.kind is TokenKind.STRING:
        return tree.Bytes(tokens.unescape(text, token))
    elif kind in {FieldKind.BYTES, FieldKind.RECORDS} and token.kind is TokenKind.HEX:
        return tree.Bytes(token.data)
    elif token.kind is TokenKind.STRING and kind is FieldKind.TIME:
        return tree.Time(_time(text, string(text, token), token.position))
    elif token.kind is TokenKind.STRING and kind in {FieldKind.TEXT, FieldKind.IDS, FieldKind.NAMES, FieldKind.RECORDS}:
        value = string(text, token)
        if info.closed and value not in info.constants:
            raise _unknown(text, value, token.position, info)
        return tree.Text(value)
    there = "; key_bytes has its bytes" if info.name == "key" and token.kind is TokenKind.HEX else ""
    raise FilterError(f"expected {wanted(info)}: {info.name} is {kind.value}{there}", text, token.position)


def boolean(text: str, token: Token) -> bool:
    """Read true or false, or 1 or 0."""
    if token.kind is TokenKind.NUMBER and token.number in {0, 1}:
        return token.number == 1
    if token.kind is TokenKind.WORD and token.text.lower() in {"true", "false"}:
        return token.text.lower() == "true"
    raise FilterError("expected true or false", text, token.position)


def string(text: str, token: Token) -> str:
    """Read a string that has to be text."""
    try:
        return tokens.unescape(text, token).decode()
    except UnicodeDecodeError:
        raise FilterError("the string is not UTF-8, so no text can be like it", text, token.position) from None


def constant(text: str, token: Token, info: FieldInfo) -> Constant:
    """Look a name up among those that the protocol has for the field's values."""
    found = info.constants.get(token.text.lower())
    if found is None:
        raise _unknown(text, token.text, token.position, info)
    return found


def _named(text: str, token: Token, info: FieldInfo) -> tree.Literal:
    found = constant(text, token, info)
    if info.kind is FieldKind.BOOLEAN:
        return tree.Boolean(bool(found.value))
    if found.high is not None:
        reason = f"{found.name} is a family: write {info.name} in {{{found.name}}}"
        raise FilterError(reason, text, token.position)
    return tree.Text(found.value) if isinstance(found.value, str) else tree.Number(found.value, found.name)


def _unknown(text: str, word: str, position: int, info: FieldInfo) -> FilterError:
    if not info.constants:
        return FilterError(f"{shown(word)}: expected {wanted(info)}, as {info.name} has no names", text, position)
    close = suggestion(word, info.constants)
    hint = f"did you mean {close}?" if close else f"expected {wanted(info)}"
    if info.name == "opcode":
        hint = _elsewhere(word) or hint
    return FilterError(f"{info.name} has no value {shown(word)} ({hint})", text, position)


def _elsewhere(word: str) -> str | None:
    """Point to the column ``name``, where the opcode is not enough to tell messages apart."""
    from dissector.filters.names import fields  # noqa: PLC0415 - only for the hint

    found = fields()["name"].constants.get(word.lower())
    return f"its opcode depends on the dialect: use name == {found.name}" if found is not None else None


def time_ns(text: str) -> int:
    """Read a time that stands alone, as nanoseconds since the epoch."""
    return _time(text, text, 0)


def _time(text: str, value: str, position: int) -> int:
    """Read ISO 8601 as nanoseconds since the epoch; without an offset it is UTC."""
    found = _TIME.fullmatch(value)
    if found is None:
        raise FilterError(f'{shown(value)} is no time: expected e.g. "2026-11-16T02:10:00Z"', text, position)
    day, clock, fraction, sign, hours, minutes = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}").replace(tzinfo=UTC)
        if sign is not None:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            moment = moment.replace(tzinfo=timezone(offset if sign == "+" else -offset))
        since = moment - _EPOCH
    except (ValueError, OverflowError):
        raise FilterError(f"{shown(value)} is on no calendar", text, position) from None
    ns = (since.days * 86400 + since.seconds) * tree.SECOND_NS + int((fraction or "0").ljust(9, "0"))
    if not -_INT64 <= ns < _INT64:
        raise FilterError("the time is outside of what 64 bits of nanoseconds can hold", text, position)
    return ns
