"""`ssl.principal.mapping.rules`: from the subject of a client's certificate to the name of its principal.

The first rule whose expression matches the whole subject applies. As in Kafka, it then replaces every match of the
expression, so that `.*` inserts its replacement twice. Expressions have RE2's syntax, whose cost is linear: lookaround
and backreferences, which Java has, are rejected.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

DEFAULT_RULES: Final = "DEFAULT"

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_BACK_REFERENCE: Final = re.compile(r"\$(\d+)", re.ASCII)
_JAVAS_DOT: Final = r"[^\n\r\x{85}\x{2028}\x{2029}]"
# What must stay as it is: quoted text, escaped characters, and classes of characters.
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
_DOT_MATCHES_ALL: Final = re.compile(r"\(\?[a-zA-Z]*s")
_MEMORY_MAX_BYTES: Final = 1 << 20


class InvalidRule(ValueError):
    pass


class NoMatchingRule(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class _Rule:
    expression: Any
    """None: the default rule, which keeps the subject."""
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        if self.expression is None:
            return subject
        if self.expression.fullmatch(subject) is None:
            return None
        replaced = _replace_all(self.expression, subject, self.replacement)
        if self.case == "L":
            return replaced.lower()
        return replaced.upper() if self.case == "U" else replaced


class PrincipalMapping:
    def __init__(self, rules: str) -> None:
        """Raises InvalidRule."""
        self._text: Final = rules
        self._rules: Final = tuple(_parse(rules))

    def name_of(self, subject: str) -> str:
        """Raises NoMatchingRule."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        raise NoMatchingRule(f"No rules apply to {subject}, rules {self._text}")


def _parse(rules: str) -> list[_Rule]:
    parsed: list[_Rule] = []
    for found in _SPLITTER.finditer(rules.strip()):
        rule = found[1]
        match = _PARSER.match(rule)
        end = 0 if match is None else match.end()
        if match is None or end != len(rule):
            raise InvalidRule(f"Invalid rule: `{rule}`, unmatched substring: `{rule[end:]}`")
        if match[1] is not None:
            parsed.append(_Rule(None))
        elif match[2] is not None:
            expression = _compile(match[2])
            parsed.append(_Rule(expression, _escape_references(match[4], expression.groups), match[6]))
    return parsed


def _compile(expression: str) -> Any:
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


def _escape_references(replacement: str, groups: int) -> str:
    """Makes references to groups that do not exist literal. Positions are those before any insertion, as in Kafka."""
    if groups == 0:
        return replacement
    value = replacement
    for found in _BACK_REFERENCE.finditer(replacement):
        if found[1].startswith("0"):
            continue
        index = int(found[1])
        while index > groups and index >= 10:
            index //= 10
        if index > groups:
            value = f"{value[: found.start()]}\\{value[found.start() :]}"
    return value


def _replace_all(expression: Any, subject: str, replacement: str) -> str:
    parts: list[str] = []
    end = 0
    for match in expression.finditer(subject):
        parts += (subject[end : match.start()], _expand(match, replacement, expression.groups))
        end = match.end()
    return "".join((*parts, subject[end:]))


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
