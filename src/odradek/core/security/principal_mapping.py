"""`ssl.principal.mapping.rules`: from the subject of a client's certificate to the name of its principal.

The first rule whose expression matches the whole subject applies. As in Kafka, it then replaces every match of the
expression, so that `.*` inserts its replacement twice. Expressions have RE2's syntax, whose cost is linear: lookaround
and backreferences, which Java has, are rejected.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from odradek.core.security.java_expressions import InvalidRule, NoMatchingRule, compile_expression, replace_matches

DEFAULT_RULES: Final = "DEFAULT"

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_BACK_REFERENCE: Final = re.compile(r"\$(\d+)", re.ASCII)


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
        replaced = replace_matches(self.expression, subject, self.replacement)
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
            expression = compile_expression(match[2])
            parsed.append(_Rule(expression, _escape_references(match[4], expression.groups), match[6]))
    return parsed


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
