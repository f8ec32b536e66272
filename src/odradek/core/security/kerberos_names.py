"""`sasl.kerberos.principal.to.local.rules`: from a Kerberos principal to the name of a principal.

As in Kafka, the first rule that applies decides, and its result must be neither a path nor have a realm. Expressions
have RE2's syntax.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from odradek.core.security.java_expressions import InvalidRule, NoMatchingRule, compile_expression, replace_matches

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>\d*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?",
    re.ASCII,
)
_PARAMETER: Final = re.compile(r"\$(\d*)", re.ASCII)
_NOT_SIMPLE: Final = re.compile("[/@]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    is_default: bool = False
    components: int = 0
    format: str = ""
    match: Any = None
    """None: any text."""
    old: Any = None
    """None: no replacement."""
    new: str = ""
    replaces_all: bool = False
    case: str | None = None

    def apply(self, components: Sequence[str], default_realm: str) -> str | None:
        """`components` starts with the realm."""
        found = self._find(components, default_realm)
        if found is None:
            return None
        if _NOT_SIMPLE.search(found):
            raise NoMatchingRule(f"a rule of sasl.kerberos.principal.to.local.rules results in {found}")
        if self.case == "L":
            return found.lower()
        return found.upper() if self.case == "U" else found

    def _find(self, components: Sequence[str], default_realm: str) -> str | None:
        if self.is_default:
            return components[1] if components[0] == default_realm else None
        if len(components) - 1 != self.components:
            return None
        base = _replace_parameters(self.format, components)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.old is None:
            return base
        return replace_matches(self.old, base, self.new, count=None if self.replaces_all else 1)


class KerberosNames:
    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Raises InvalidRule."""
        self._rules: Final = [_parse_rule(rule) for rule in rules]
        self._default_realm: Final = default_realm

    def name_of(self, principal: str) -> str:
        """Raises NoMatchingRule."""
        found = _NAME.fullmatch(principal)
        if found is None:
            if "@" in principal:
                raise NoMatchingRule(f"{principal} is not the name of a Kerberos principal")
            return principal
        service, host, realm = found.groups()
        components = (realm, service) if host is None else (realm, service, host)
        for rule in self._rules:
            name = rule.apply(components, self._default_realm)
            if name is not None:
                return name
        raise NoMatchingRule(f"no rule of sasl.kerberos.principal.to.local.rules applies to {principal}")


def _parse_rule(rule: str) -> _Rule:
    found = _RULE.match(rule)
    if found is None:
        raise InvalidRule(f"Invalid rule: {rule}")
    if found.end() != len(rule):
        raise InvalidRule(f"Invalid rule: `{rule}`, unmatched substring: `{rule[found.end() :]}`")
    if found["default"] is not None:
        return _Rule(is_default=True)
    if not found["count"]:
        raise InvalidRule(f"Invalid rule: `{rule}`, the number of components is missing")
    return _Rule(
        components=int(found["count"]),
        format=found["format"],
        match=None if found["match"] is None else compile_expression(found["match"]),
        old=None if found["old"] is None else compile_expression(found["old"]),
        new=found["new"] or "",
        replaces_all=found["all"] is not None,
        case=found["case"],
    )


def _replace_parameters(text: str, components: Sequence[str]) -> str:
    def component(found: re.Match[str]) -> str:
        if not found[1] or int(found[1]) >= len(components):
            raise NoMatchingRule(f"a rule of sasl.kerberos.principal.to.local.rules has no component {found[0]}")
        return components[int(found[1])]

    return _PARAMETER.sub(component, text)
