"""The grammar of filters: tokens to a tree. Mistakes of type are found here too, where their place is known.

docs/filters.md has the grammar. Nesting is bounded, and so is the text: the parser and everything that walks a tree
may recurse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dissector.filters import literals, tree, wireshark_names
from dissector.filters.errors import FilterError, shown, suggestion
from dissector.filters.names import LISTS, NUMERIC, ORDERED, STRINGS, FieldKind, fields
from dissector.filters.tokens import Token, TokenKind, tokenize

if TYPE_CHECKING:
    from dissector.filters.names import FieldInfo

MAX_DEPTH = 64  #: of parentheses and nots inside each other
EQUALITY = ("==", "!=")
ORDERINGS = ("<", "<=", ">", ">=")
PARTS = ("contains", "startswith", "endswith")
_VALUES = frozenset((TokenKind.WORD, TokenKind.NUMBER, TokenKind.STRING, TokenKind.HEX, TokenKind.ADDRESS))
#: Fields that can be compared with each other though they are not of one kind.
_ALIKE = (NUMERIC, STRINGS - {FieldKind.BYTES})
_EXAMPLE = "e.g. opcode == mutation"


def parse(text: str) -> tree.Expression:
    """Read a filter."""
    return _Parser(text).filter()


class _Parser:
    """Reads one text; knows how far it has come."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fields = fields()
        self._tokens = [self._understood(token) for token in tokenize(text)]
        self._index = 0
        self._depth = 0

    def filter(self) -> tree.Expression:
        """Read the whole text."""
        if self._peek().kind is TokenKind.END:
            raise self._error(f"the filter is empty: expected a condition, {_EXAMPLE}", self._peek())
        expression = self._or()
        if self._peek().kind is not TokenKind.END:
            raise self._unexpected('"and", "or" or the end')
        return expression

    def _understood(self, token: Token) -> Token:
        """Give a name of Wireshark's its meaning; no other word has a dot in it."""
        if token.kind is not TokenKind.WORD or "." not in token.text:
            return token
        found = wireshark_names.meaning(token.text, self._fields)
        if found is not None:
            return replace(token, field=found.field, flag=found.flag)
        close = suggestion(token.text, wireshark_names.known(self._fields))
        hint = wireshark_names.why_not(token.text) or (f"did you mean {close}?" if close else "text stands in quotes")
        raise self._error(f"no field {shown(token.text)} ({hint})", token)

    # Looking at tokens.

    def _peek(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._tokens[self._index]
        self._index += 1
        return token

    def _at(self, *words: str) -> bool:
        return self._peek().kind in {TokenKind.SIGN, TokenKind.KEYWORD} and self._peek().text in words

    def _expect(self, sign: str) -> None:
        if not self._at(sign):
            raise self._unexpected(sign)
        self._take()

    def _error(self, reason: str, token: Token) -> FilterError:
        return FilterError(reason, self._text, token.position)

    def _unexpected(self, expected: str) -> FilterError:
        token = self._peek()
        found = "the filter ends" if token.kind is TokenKind.END else f"found {shown(token.text)}"
        return self._error(f"expected {expected}, but {found}", token)

    # Boolean operators.

    def _or(self) -> tree.Expression:
        parts = [self._and()]
        while self._at("or"):
            self._take()
            parts.append(self._and())
        return either(parts)

    def _and(self) -> tree.Expression:
        parts = [self._not()]
        while self._at("and"):
            self._take()
            parts.append(self._not())
        return both(parts)

    def _not(self) -> tree.Expression:
        if not self._at("not", "("):
            return self._test()
        opening = self._take()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", opening)
        if opening.text == "not":
            expression: tree.Expression = tree.Not(self._not())
        else:
            expression = self._or()
            self._expect(")")
        self._depth -= 1
        return expression

    # Tests of a field.

    def _test(self) -> tree.Expression:
        if self._at("exists"):
            self._take()
            if self._peek().kind is not TokenKind.WORD:
                raise self._unexpected("a field")
            return tree.Present(tree.FieldRef(self._field(self._take()).name))
        if self._peek().kind not in _VALUES:
            raise self._unexpected(f"a condition, {_EXAMPLE}")
        first = self._take()
        if first.flag:
            return self._flag(first)
        if self._at(*EQUALITY, *ORDERINGS):
            return self._entry(first) if self._asks_for_entry(first) else self._compare(first)
        if first.text in wireshark_names.PROTOCOLS:
            return tree.Present(tree.FieldRef(wireshark_names.ALWAYS_THERE))
        if first.kind is not TokenKind.WORD:
            raise self._unexpected("a comparison (== != < <= > >=)")
        info = self._field(first)
        field = tree.FieldRef(info.name)
        if self._at("in"):
            return self._member(field, info)
        if self._at(*PARTS) and first.field and info.kind in LISTS:
            raise self._error(f"{first.text} is a list here: compare a whole entry, with == or !=", self._peek())
        if self._at(*PARTS):
            return self._part(field, info)
        if self._at("matches"):
            return self._matches(field, info)
        if self._at("has", "&"):
            return self._bits(field, info)
        if self._at("not"):
            raise self._error(f"not stands in front: not {info.name} ...", self._peek())
        if self._peek().kind in _VALUES:
            raise self._unexpected("an operator")
        return tree.Truth(field) if info.kind is FieldKind.BOOLEAN else tree.Present(field)

    def _field(self, token: Token) -> FieldInfo:
        info = self._fields.get(token.name)
        if token.flag:
            raise self._error(f"{token.text} is a flag: it stands alone, or on the left of == and !=", token)
        if info is None:
            close = suggestion(token.text, self._fields)
            hint = f"did you mean {close}?" if close else "uprscope explain columns lists them"
            raise self._error(f"no field {shown(token.text)} ({hint})", token)
        return info

    def _flag(self, token: Token) -> tree.Expression:
        """Read a test of one bit. Alone it asks, as in Wireshark, whether the message has the field of the bit."""
        field = tree.FieldRef(token.field)
        found = self._fields[token.field].constants[token.flag]
        present = tree.Present(field)
        if self._at(*ORDERINGS, "in", *PARTS, "matches", "has", "&"):
            raise self._error(f"{token.text} is a flag: it stands alone, or with == or !=", self._peek())
        if not self._at(*EQUALITY):
            return present
        sign = self._take()
        is_set = tree.Bits(field, "has", (tree.Number(int(found.value), found.name),))
        if literals.boolean(self._text, self._value()) is (sign.text == "=="):
            return is_set
        return both([present, tree.Not(is_set)])

    def _asks_for_entry(self, token: Token) -> bool:
        """Tell whether a name of Wireshark's stands for a list: there the field is in the message several times."""
        return bool(token.field) and self._fields[token.field].kind in LISTS and self._at(*EQUALITY)

    def _entry(self, token: Token) -> tree.Expression:
        sign, info = self._take(), self._field(token)
        field = tree.FieldRef(info.name)
        one = tree.PartOf(field, "contains", literals.read(self._text, self._value(), info))
        return one if sign.text == "==" else both([tree.Present(field), tree.Not(one)])

    def _value(self) -> Token:
        if self._peek().kind not in _VALUES:
            raise self._unexpected("a value")
        return self._take()

    def _compare(self, first: Token) -> tree.Compare:
        signs, values = [self._take()], [first, self._value()]
        if self._at(*EQUALITY, *ORDERINGS):
            signs.append(self._take())
            if signs[0].text not in ORDERINGS or signs[0].text[0] != signs[1].text[0]:
                raise self._error("only < and <=, or > and >=, can follow each other", signs[1])
            values.append(self._value())
            if self._at(*EQUALITY, *ORDERINGS):
                raise self._unexpected('"and", "or" or the end')
        at = self._asked(values)
        info = self._field(values[at])
        if at == 1 and first.kind is TokenKind.WORD and first.text.lower() not in info.constants:
            self._field(first)  # a mistyped field, rather than an unknown value of the other one
        for sign in signs:
            self._check_operator(sign, info)
        operands = [
            tree.FieldRef(info.name) if index == at else self._operand(token, info)
            for index, token in enumerate(values)
        ]
        return tree.Compare(tuple(operands), tuple(sign.text for sign in signs))

    def _asked(self, values: list[Token]) -> int:
        """Find the field that a comparison is about: the one in the middle, else the left one."""
        order = (1,) if len(values) == 3 else (0, 1)
        words = [index for index in order if values[index].kind is TokenKind.WORD]
        if not words:
            reason = "one side has to be a field" if len(values) == 2 else "a field has to be in the middle"
            raise self._error(reason, values[order[0]])
        return next((index for index in words if values[index].name in self._fields), words[0])

    def _operand(self, token: Token, info: FieldInfo) -> tree.Operand:
        """Read what a field is compared with: a name of one of its values comes before a field's."""
        other = self._fields.get(token.name) if token.kind is TokenKind.WORD else None
        if other is None or token.text.lower() in info.constants:
            return literals.read(self._text, token, info)
        if other.kind is not info.kind and not any({info.kind, other.kind} <= alike for alike in _ALIKE):
            raise self._error(f"{info.name} is {info.kind.value}, {other.name} is {other.kind.value}", token)
        return tree.FieldRef(other.name)

    def _check_operator(self, sign: Token, info: FieldInfo) -> None:
        if info.kind in LISTS:
            raise self._error(f"{info.name} is {info.kind.value}: ask whether it contains one", sign)
        if sign.text in ORDERINGS and info.kind not in ORDERED:
            raise self._error(f"{info.name} is {info.kind.value}: only == and != compare it", sign)

    def _member(self, field: tree.FieldRef, info: FieldInfo) -> tree.InList:
        operator = self._take()
        if info.kind in LISTS or info.kind is FieldKind.BOOLEAN:
            hint = "ask whether it contains one" if info.kind in LISTS else "it stands alone, or with =="
            raise self._error(f"{info.name} is {info.kind.value}: {hint}", operator)
        self._expect("{")
        items = [self._item(info)]
        while self._at(",") or self._peek().kind in _VALUES:  # Wireshark's older form has spaces only
            if self._at(","):
                self._take()
            items.append(self._item(info))
        if not self._at("}"):
            raise self._unexpected(", or }")
        self._take()
        return tree.InList(field, tuple(items))

    def _item(self, info: FieldInfo) -> tree.Literal | tree.Range:
        token = self._value()
        if not self._at(".."):
            return self._family(token, info) or literals.read(self._text, token, info)
        low = literals.read(self._text, token, info)
        dots = self._take()
        if info.kind not in NUMERIC | {FieldKind.TIME, FieldKind.SECONDS}:
            raise self._error(f"{info.name} is {info.kind.value}: ranges are for numbers and times", dots)
        high = literals.read(self._text, self._value(), info)
        if _place(low) > _place(high):
            raise self._error("the range ends before it begins", token)
        return tree.Range(low, high)

    def _family(self, token: Token, info: FieldInfo) -> tree.Range | None:
        found = info.constants.get(token.text.lower()) if token.kind is TokenKind.WORD else None
        if found is None or found.high is None or isinstance(found.value, str):
            return None
        return tree.Range(tree.Number(found.value), tree.Number(found.high))

    def _part(self, field: tree.FieldRef, info: FieldInfo) -> tree.PartOf:
        operator = self._take()
        if info.kind not in STRINGS and not (info.kind in LISTS and operator.text == "contains"):
            where = "text, bytes and lists" if operator.text == "contains" else "text and bytes"
            raise self._error(f"{info.name} is {info.kind.value}: {operator.text} is for {where}", operator)
        token = self._value()
        if info.kind in {FieldKind.BYTES, *LISTS}:
            return tree.PartOf(field, operator.text, literals.read(self._text, token, info))
        if token.kind is not TokenKind.STRING:  # a part of a name or an address is none
            raise self._error('expected a string in "..."', token)
        return tree.PartOf(field, operator.text, tree.Text(literals.string(self._text, token)))

    def _matches(self, field: tree.FieldRef, info: FieldInfo) -> tree.Matches:
        operator = self._take()
        if info.kind not in STRINGS:
            raise self._error(f"{info.name} is {info.kind.value}: matches is for text and bytes", operator)
        if self._peek().kind is not TokenKind.STRING:
            raise self._unexpected('a regular expression in "..."')
        token = self._take()
        trouble = _pattern_trouble(token.body)
        if trouble is not None:
            raise self._error(trouble, token)
        return tree.Matches(field, token.body)

    def _bits(self, field: tree.FieldRef, info: FieldInfo) -> tree.Bits:
        operator = self._take()
        if info.kind not in NUMERIC:
            raise self._error(f"{info.name} is {info.kind.value}: {operator.text} is for numbers", operator)
        bits = [self._bit(info)]
        while self._at("|"):
            self._take()
            bits.append(self._bit(info))
        if self._at(*EQUALITY, *ORDERINGS):
            reason = f"{operator.text} is a test already ({info.name} has 6 asks for both bits, & 6 for any)"
            raise self._error(reason, self._peek())
        return tree.Bits(field, operator.text, tuple(bits))

    def _bit(self, info: FieldInfo) -> tree.Number:
        token = self._value()
        if token.kind is TokenKind.WORD and info.constants and not info.flags:
            raise self._error(f"the names of {info.name} are values, not bits: compare with ==", token)
        bit = literals.read(self._text, token, info)
        if not isinstance(bit, tree.Number):  # pragma: no cover - numbers are all that numeric fields take
            raise self._error("expected bits", token)
        if bit.value == 0:
            raise self._error("0 has no bits to ask for", token)
        return bit


def both(parts: list[tree.Expression]) -> tree.Expression:
    """Join conditions that all have to hold; conditions joined alike become one list."""
    flat = [each for part in parts for each in (part.parts if isinstance(part, tree.And) else (part,))]
    return flat[0] if len(flat) == 1 else tree.And(tuple(flat))


def either(parts: list[tree.Expression]) -> tree.Expression:
    """Join conditions of which one has to hold."""
    flat = [each for part in parts for each in (part.parts if isinstance(part, tree.Or) else (part,))]
    return flat[0] if len(flat) == 1 else tree.Or(tuple(flat))


def _place(literal: tree.Literal) -> int:
    match literal:
        case tree.Number():
            return literal.value
        case tree.Time() | tree.Seconds():
            return literal.ns
        case _:  # pragma: no cover - no other kind has ranges
            raise TypeError(literal)


def _pattern_trouble(pattern: str) -> str | None:
    """Ask RE2 about a pattern."""
    from dissector.filters.evaluate import pattern_trouble  # noqa: PLC0415 - brings pyarrow along

    try:
        pattern.encode()
    except UnicodeEncodeError:
        return r"the pattern is not UTF-8 (a byte can be written as \xNN)"
    return pattern_trouble(pattern)
