"""ssl.principal.mapping.rules. The expected names are those of Kafka's own class; tests/kafka compares them."""

import pytest

from odradek.core.security.java_expressions import InvalidRule, NoMatchingRule
from odradek.core.security.principal_mapping import PrincipalMapping


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=service,OU=ServiceUsers,O=x", "service"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=other,OU=x", "CN=other,OU=x"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", "CN=A,OU=B,O=c,L=d,ST=e,C=f", "a@b"),
        ("RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U", "cn=a,ou=b,dc=c,dc=d", "A@B"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "O=x,cn=a.b,OU=y", "A.B"),
        (r"RULE:^CN=([^,\/]+)\/.*$/$1\/x/", "CN=a/b", "a/x"),
        ("RULE:.*/X/", "CN=a", "XX"),
        ("RULE:(a|ab)/<$1>/", "ab", "<a>b"),
        ("RULE:CN=(.*)/$1@$2/", "CN=a", "a@$2"),
        ("RULE:CN=(.*)/$12/", "CN=a", "a2"),
        ("RULE:CN=(.*)/$0!/", "CN=a", "CN=a!"),
        ("RULE:CN=(.*)/$1/,DEFAULT", "CN=a\rb", "CN=a\rb"),
        ("RULE:(?s)CN=(.*)/$1/,DEFAULT", "CN=a\rb", "a\rb"),
        (r"RULE:CN=([.]|\.)/$1/,DEFAULT", "CN=.", "."),
        (" , ,DEFAULT", "CN=a", "CN=a"),
    ],
)
def test_rules(rules: str, subject: str, name: str) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


def test_no_rule_matches() -> None:
    with pytest.raises(NoMatchingRule, match="No rules apply to CN=a, rules RULE:x/y/"):
        PrincipalMapping("RULE:x/y/").name_of("CN=a")


def test_reference_to_a_group_without_any_group() -> None:
    with pytest.raises(NoMatchingRule, match="No group 1"):
        PrincipalMapping("RULE:CN=a/$1/").name_of("CN=a")


@pytest.mark.parametrize(
    "rules", ["default", "DEFAUL", "RULE:", "RULE:a/b", "RULE:a/b/LU", "RULE:(/x/", "RULE:(?=a)/x/"]
)
def test_invalid_rules(rules: str) -> None:
    with pytest.raises(InvalidRule, match="Invalid rule: `"):
        PrincipalMapping(rules)


def test_hostile_subject_costs_linear_time() -> None:
    mapping = PrincipalMapping("RULE:(a+)+b/x/,DEFAULT")
    assert mapping.name_of("a" * 50_000 + "c").endswith("c")
