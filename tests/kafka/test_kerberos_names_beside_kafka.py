"""Apache Kafka's rules and Odradek's map the same Kerberos principals to the same names."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.core.security.java_expressions import InvalidRule, NoMatchingRule
from odradek.core.security.kerberos_names import KerberosNames
from tests.kafka.java_program import JavaProgram

pytestmark = pytest.mark.tier("proof")

CASES = 3000
PRINCIPALS = (
    *("ann", "Ann@REALM", "ann@OTHER", "app.X/host@REALM", "app.X/host@OTHER", "ann/admin@REALM", "a/b/c@REALM"),
    *("@REALM", "/@", "ann@", "ann/@REALM", "a@b@c", "TestABC/h@R", "ABC_ABC@REALM", "a-b-c@REALM", ""),
)
FORMATS = ("$1", "$2", "$0", "$1@$0", "$1/$2", "x$1y", "$3", "$", "plain", "$1$1", "$01", "$10")
MATCHES = ("", "(.*)", "(app\\..*)", "(A.*)", "([a-z]+)", "(()", "(a|b)", "(Test.*)")
CHANGES = (
    *("", "s/a/b/", "s/a/b/g", "s/app\\.(.*)/$1/", "s/ABC/XYZ/g", "s/(.)(.)/$2$1/g", "s/-/_/g", "s/a/$9/", "s/a*/x/g"),
    *("s/a/\\$/", "s/@.*//", "s/(/x/", "s/^/p_/", "s/$/_s/g"),
)
ENDS = ("", "", "", "/L", "/U", "L", "/l", "/L/U", "/g")


@pytest.fixture(scope="module")
def kafka(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "KerberosNames") as program:
        yield program


def random_rule(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return rng.choice(["DEFAULT", "DEFAULT", "default", "DEFAULT/L", "RULE:"])
    count = rng.choice(["1", "1", "2", "2", "3", "", "01"])
    return f"RULE:[{count}:{rng.choice(FORMATS)}]{rng.choice(MATCHES)}{rng.choice(CHANGES)}{rng.choice(ENDS)}"


def ours_of(rules: list[str], principal: str) -> str:
    try:
        names = KerberosNames(rules, "REALM")
    except InvalidRule:
        return "invalid"
    try:
        return f"ok {names.name_of(principal)}"
    except NoMatchingRule:
        return "none"


def test_random_rules_and_principals_are_mapped_alike(kafka: JavaProgram) -> None:
    rng = random.Random(21)
    results: Counter[str] = Counter()
    for _ in range(CASES):
        rules = [random_rule(rng) for _ in range(rng.randrange(1, 4))]
        principal = rng.choice(PRINCIPALS)
        (theirs,) = kafka.request(json.dumps({"rules": rules, "principal": principal}))
        assert ours_of(rules, principal) == theirs, (rules, principal)
        results[theirs.partition(" ")[0]] += 1
    assert min(results[kind] for kind in ("ok", "none", "invalid")) > CASES / 20, results
