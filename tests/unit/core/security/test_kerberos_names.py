"""Rules from Kerberos principals to names, as in Kafka."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.security.java_expressions import InvalidRule, NoMatchingRule
from odradek.core.security.kerberos_names import KerberosNames

REALM = "EXAMPLE.COM"


def name_of(principal: str, *rules: str) -> str:
    return KerberosNames(rules, REALM).name_of(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "name"),
    [
        ("ann@EXAMPLE.COM", ["DEFAULT"], "ann"),
        ("kafka/host@EXAMPLE.COM", ["DEFAULT"], "kafka"),
        ("ann", ["DEFAULT"], "ann"),
        ("ann/host", [], "ann/host"),
        ("ann@OTHER", ["RULE:[1:$1_$0]", "DEFAULT"], "ann_OTHER"),
        ("ann/admin@OTHER", ["RULE:[1:$1]", "RULE:[2:$2]"], "admin"),
        ("app.orders/h@OTHER", ["RULE:[2:$1](app\\..*)s/app\\.(.*)/$1/"], "orders"),
        ("a-b-c@OTHER", ["RULE:[1:$1]s/-/_/"], "a_b-c"),
        ("a-b-c@OTHER", ["RULE:[1:$1]s/-/_/g"], "a_b_c"),
        ("AnN@OTHER", ["RULE:[1:$1]/L"], "ann"),
        ("AnN@OTHER", ["RULE:[1:$1](.*)s/N$/X/g/U"], "ANX"),
        ("ann@OTHER", ["RULE:[1:$1](bob)", "RULE:[1:none]"], "none"),
    ],
)
def test_first_rule_that_applies_decides(principal: str, rules: list[str], name: str) -> None:
    assert name_of(principal, *rules) == name


@pytest.mark.parametrize(
    ("principal", "rules", "problem"),
    [
        ("ann@OTHER", ["DEFAULT"], "no rule of sasl.kerberos.principal.to.local.rules applies to ann@OTHER"),
        ("a/b/c@EXAMPLE.COM", ["DEFAULT"], "is not the name of a Kerberos principal"),
        ("ann@OTHER", ["RULE:[1:$1@$0]"], "results in ann@OTHER"),
        ("ann/b@OTHER", ["RULE:[2:$1/$2]"], "results in ann/b"),
        ("ann@OTHER", ["RULE:[1:$2]"], "has no component"),
        ("ann@OTHER", ["RULE:[1:$x]"], "has no component"),
    ],
)
def test_principals_without_a_name(principal: str, rules: list[str], problem: str) -> None:
    with pytest.raises(NoMatchingRule, match=problem):
        name_of(principal, *rules)


@pytest.mark.parametrize(
    "rule",
    [
        *("default", "DEFAULT/L", "rule:[1:$1]", "RULE:[1:$1/L", "RULE:[1:$1]/l", "RULE:[1:$1]/L/U", ""),
        *("RULE:[2:$1](a.*)s/a/b/L/g", "RULE:[:$1]", "RULE:[1:$1](()", "RULE:[1:$1]s/(/x/", "RULE:[1:$1](?=a)"),
    ],
)
def test_invalid_rules_are_rejected(rule: str) -> None:
    with pytest.raises(InvalidRule):
        name_of("ann@OTHER", rule)


@given(st.text(alphabet="ab/@.$"), st.text(alphabet="RULE:[1]($0/sgLU)ab*"))
def test_any_principal_has_a_name_or_none(principal: str, rule: str) -> None:
    with contextlib.suppress(InvalidRule, NoMatchingRule):
        name_of(principal, "RULE:[1:$1](a.*)s/a/b/g/L", rule, "DEFAULT")
