"""Java's regular expressions in rules about principals, with RE2's syntax, whose cost is linear.

Lookaround and backreferences, which Java has, are rejected.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

_JAVAS_DOT: Final = r"[^\n\r\x{85}\x{2028}\x{2029}]"
# What must stay as it is: quoted text, escaped characters, and classes of characters.
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
_DOT_MATCHES_ALL: Final = re.compile(r"\(\?[a-zA-Z]*s")
_MEMORY_MAX_BYTES: Final = 1 << 20


class InvalidRule(ValueError):
    pass


class NoMatchingRule(ValueError):
    pass


def compile_expression(expression: str) -> Any:
    # Imported only by nodes with such rules.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX_BYTES
    try:
        return re2.compile(_with_dots_of_java(expression), options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRule(f"Invalid rule: `{expression}` is not a regular expression in RE2's syntax: {text}") from None


def _with_dots_of_java(expression: str) -> str:
    """In Java, a dot matches none of several line terminators; in RE2, it matches all but one of them."""
    if _DOT_MATCHES_ALL.search(expression):
        return expression
    return _TOKEN.sub(lambda found: _JAVAS_DOT if found[0] == "." else found[0], expression)


def replace_matches(expression: Any, subject: str, replacement: str, *, count: int | None = None) -> str:
    """As Java's `Matcher.replaceAll`, or the first `count` matches. Raises NoMatchingRule where that raises."""
    parts: list[str] = []
    end = 0
    for match in islice(_matches(expression, subject), count):
        parts += (subject[end : match.start()], _expand(match, replacement, expression.groups))
        end = match.end()
    return "".join((*parts, subject[end:]))


def _matches(expression: Any, subject: str) -> Iterator[Any]:
    """RE2 may find the empty match at the end twice."""
    last = None
    for match in expression.finditer(subject):
        if match.span() != last:
            yield match
        last = match.span()


def _expand(match: Any, replacement: str, groups: int) -> str:
    """As Java's `Matcher.appendReplacement`. Raises NoMatchingRule where that raises."""
    parts: list[str] = []
    position = 0
    while position < len(replacement):
        char = replacement[position]
        position += 1
        if char == "\\":
            if position == len(replacement):
                raise NoMatchingRule("character to be escaped is missing")
            parts.append(replacement[position])
            position += 1
        elif char == "$":
            group, position = _read_reference(replacement, position, match, groups)
            parts.append(group)
        else:
            parts.append(char)
    return "".join(parts)


def _read_reference(replacement: str, position: int, match: Any, groups: int) -> tuple[str, int]:
    if replacement[position : position + 1] == "{":
        end = replacement.find("}", position)
        try:
            return match.group(replacement[position + 1 : end]) or "", end + 1
        except (IndexError, KeyError):
            raise NoMatchingRule("Illegal group reference") from None
    digits = re.match(r"\d+", replacement[position:], re.ASCII)
    if digits is None:
        raise NoMatchingRule("Illegal group reference")
    index = int(digits[0][0])
    if index > groups:
        raise NoMatchingRule(f"No group {index}")
    used = 1
    while used < len(digits[0]) and (longer := index * 10 + int(digits[0][used])) <= groups:
        index, used = longer, used + 1
    return match.group(index) or "", position + used
