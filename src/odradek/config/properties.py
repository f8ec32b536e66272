"""Parses Java's .properties format, with line numbers. Knows nothing of configs."""

import re
from typing import NamedTuple

_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_UNICODE = re.compile(r"[0-9a-fA-F]{4}")


class Property(NamedTuple):
    key: str
    value: str
    line: int


class MalformedLine(NamedTuple):
    line: int
    reason: str


def parse_properties(text: str) -> tuple[list[Property], list[MalformedLine]]:
    """Every entry in file order, including repeated keys, and the malformed lines."""
    properties: list[Property] = []
    malformed: list[MalformedLine] = []
    for line, content in _logical_lines(text):
        raw_key, raw_value = _split(content)
        try:
            properties.append(Property(_unescape(raw_key), _unescape(raw_value), line))
        except ValueError as error:
            malformed.append(MalformedLine(line, str(error)))
    return properties, malformed


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Non-blank lines, joined at trailing backslashes, with the number of their first line."""
    logical: list[tuple[int, str]] = []
    parts: list[str] = []
    start = 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            # A lone backslash continues nothing: the next line may be a comment.
            if line != "\\" or parts:
                parts.append(line[:-1])
            continue
        logical.append((start, "".join([*parts, line])))
        parts = []
    if parts:
        logical.append((start, "".join(parts)))
    return logical


def _split(content: str) -> tuple[str, str]:
    """The key ends at the first unescaped `=`, `:` or blank; blanks around one separator belong to neither side."""
    position = 0
    while position < len(content) and content[position] not in "=:" + _BLANKS:
        position += 2 if content[position] == "\\" else 1
    rest = content[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return content[:position], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    characters: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if not _UNICODE.fullmatch(digits):
                    raise ValueError(f"\\u must be followed by four hexadecimal digits, not by {digits!r}")
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPED.get(character, character)
        characters.append(character)
    # Characters beyond U+FFFF are two escapes, as in Java.
    return "".join(characters).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
