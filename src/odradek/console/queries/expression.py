"""Filter expressions on records: `value.amount > 10 and headers.trace == "7"`.

The parser compiles expressions into closures and never evaluates them as Python. Comparing a missing field is false,
not an error, so that one odd record does not end a search.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from odradek.base.ids import TopicPartition
from odradek.records.record import Record

LENGTH_MAX: Final = 1000
_DEPTH_MAX: Final = 25
# Larger values are matched as text and not parsed as JSON.
_JSON_BYTES_MAX: Final = 1024 * 1024
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|(?P<sign>==|!=|<=|>=|[<>~().\[\]]))""",
    re.VERBOSE,
)
_FIELDS: Final = ("key", "value", "headers", "partition", "offset", "timestamp", "size")
_LITERALS: Final = {"true": True, "false": False, "null": None}


class InvalidExpression(ValueError):
    """The message names the mistake and its position."""


class _Missing:
    """A missing field: equal to nothing, not even to itself."""


_MISSING: Final = _Missing()


class Subject:
    """A record whose fields are parsed on demand."""

    def __init__(self, partition: TopicPartition, record: Record) -> None:
        self.partition: Final = partition
        self.record: Final = record

    def field(self, name: str) -> Any:
        record = self.record
        match name:
            case "key":
                return _Blob(record.key)
            case "value":
                return _Blob(record.value)
            case "headers":
                return {header: _Blob(data) for header, data in record.headers}
            case "partition":
                return self.partition.partition
            case "offset":
                return record.offset
            case "timestamp":
                return record.timestamp
        return len(record.key or b"") + len(record.value or b"")


class _Blob:
    """Bytes that act as text in comparisons with text, and as JSON otherwise."""

    def __init__(self, data: bytes | None) -> None:
        self.data: Final = data

    @cached_property
    def text(self) -> str:
        return (self.data or b"").decode(errors="backslashreplace")

    @cached_property
    def parsed(self) -> Any:
        if self.data is None:
            return None
        if len(self.data) > _JSON_BYTES_MAX:
            return _MISSING
        try:
            return json.loads(self.data)
        except (ValueError, RecursionError):
            return _MISSING


Evaluate = Callable[[Subject], Any]


def parse(text: str) -> Callable[[Subject], bool]:
    """Compiles the expression into a predicate on records. Raises InvalidExpression."""
    if len(text) > LENGTH_MAX:
        raise InvalidExpression(f"An expression may have at most {LENGTH_MAX:,} characters.")
    evaluate = _Parser(text).whole()
    return lambda subject: _is_true(evaluate(subject))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._tokens: Final = _tokens(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Evaluate:
        evaluate = self._either()
        if self._peek() is not None:
            raise self._mistake("unexpected input")
        return evaluate

    def _either(self) -> Evaluate:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InvalidExpression("The expression is nested too deeply.")
        parts = [self._all()]
        while self._accept("name", "or"):
            parts.append(self._all())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else lambda subject: any(_is_true(part(subject)) for part in parts)

    def _all(self) -> Evaluate:
        parts = [self._negation()]
        while self._accept("name", "and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else lambda subject: all(_is_true(part(subject)) for part in parts)

    def _negation(self) -> Evaluate:
        count = 0
        while self._accept("name", "not"):
            count += 1
        evaluate = self._comparison()
        return (lambda subject: not _is_true(evaluate(subject))) if count % 2 else evaluate

    def _comparison(self) -> Evaluate:
        left = self._operand()
        token = self._peek()
        if token is None or token.kind != "sign" or token.text not in _COMPARISONS:
            return left
        self._next += 1
        right, compare = self._operand(), _COMPARISONS[token.text]
        return lambda subject: compare(*_alike(left(subject), right(subject)))

    def _operand(self) -> Evaluate:
        token = self._take()
        match token.kind:
            case "number":
                number = float(token.text) if set(token.text) & set(".eE") else int(token.text)
                return lambda subject: number
            case "string":
                text = _unquote(token.text)
                return lambda subject: text
            case "sign" if token.text == "(":
                inner = self._either()
                self._expect(")")
                return inner
            case "name" if token.text in _LITERALS:
                value = _LITERALS[token.text]
                return lambda subject: value
            case "name" if token.text in _FIELDS:
                return self._path(token.text)
        self._next -= 1
        raise self._mistake(f"expected one of {', '.join(_FIELDS)}, a number or a quoted string")

    def _path(self, field: str) -> Evaluate:
        steps: list[str | int] = []
        while True:
            if self._accept("sign", "."):
                steps.append(self._take("name").text)
            elif self._accept("sign", "["):
                token = self._take()
                if token.kind == "string":
                    steps.append(_unquote(token.text))
                elif token.kind == "number" and token.text.lstrip("-").isdigit():
                    steps.append(int(token.text))
                else:
                    self._next -= 1
                    raise self._mistake("expected a number or a quoted string")
                self._expect("]")
            else:
                return lambda subject: _within(subject.field(field), steps)

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, kind: str | None = None) -> _Token:
        token = self._peek()
        if token is None or (kind is not None and token.kind != kind):
            raise self._mistake("unexpected end of expression" if token is None else "expected a name")
        self._next += 1
        return token

    def _accept(self, kind: str, text: str) -> bool:
        token = self._peek()
        if token is not None and (token.kind, token.text) == (kind, text):
            self._next += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._accept("sign", sign):
            raise self._mistake(f"expected {sign}")

    def _mistake(self, why: str) -> InvalidExpression:
        token = self._peek()
        return _mistake(self._text, len(self._text) if token is None else token.at, why)


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise _mistake(text, start, "unexpected character")
        assert match.lastgroup is not None
        found.append(_Token(match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup)))
        at = match.end()
    if not found:
        raise InvalidExpression("The expression is empty.")
    return found


def _mistake(text: str, at: int, why: str) -> InvalidExpression:
    where = f"at {text[at : at + 20]!r}" if at < len(text) else "at the end"
    return InvalidExpression(f"{where[0].upper()}{where[1:]}: {why}.")


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _within(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(value, _Blob):
            value = value.parsed
        if isinstance(value, dict):
            value = value.get(step if isinstance(step, str) else str(step), _MISSING)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return _MISSING
    return value


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, _Blob) and isinstance(right, _Blob):
        return left.data, right.data
    return _beside(left, right), _beside(right, left)


def _beside(value: Any, other: Any) -> Any:
    if not isinstance(value, _Blob):
        return value
    if isinstance(other, str):
        return _MISSING if value.data is None else value.text
    return value.parsed


def _is_true(value: Any) -> bool:
    """Returns whether the value is present and not false."""
    if isinstance(value, _Blob):
        return value.data is not None
    return not isinstance(value, _Missing) and value is not None and value is not False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, _Missing) or isinstance(right, _Missing):
        return False
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _restrict_to_ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare_if_ordered(left: Any, right: Any) -> bool:
        if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        return False

    return compare_if_ordered


def _contains(left: Any, right: Any) -> bool:
    """Tests for a substring, ignoring case, or for an item of a list."""
    if isinstance(left, str) and isinstance(right, str):
        return right.lower() in left.lower()
    return isinstance(left, list) and any(_equal(one, right) for one in left)


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not isinstance(left, _Missing) and not _equal(left, right),
    "<": _restrict_to_ordered(lambda left, right: left < right),
    "<=": _restrict_to_ordered(lambda left, right: left <= right),
    ">": _restrict_to_ordered(lambda left, right: left > right),
    ">=": _restrict_to_ordered(lambda left, right: left >= right),
    "~": _contains,
}
