"""Filters of DescribeAcls and DeleteAcls."""

import pytest

from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from tests.unit.core.security.acl_samples import acl

EVERYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
READ = Operation.READ
LITERAL, PREFIXED = acl("foobar", READ), acl("foo", READ, pattern_type=PatternType.PREFIXED)
WILDCARD, GROUP = acl("*", READ), acl("foobar", READ, resource_type=ResourceType.GROUP)
ALL = (LITERAL, PREFIXED, WILDCARD, GROUP)


def matching(one: AclFilter) -> list[AccessControlEntry]:
    return [entry for entry in ALL if one.matches(entry)]


def test_any_and_null_match_everything() -> None:
    assert matching(EVERYTHING) == list(ALL)
    assert matching(EVERYTHING._replace(pattern_type=PatternType.MATCH)) == list(ALL)


@pytest.mark.parametrize(
    ("pattern_type", "name", "expected"),
    [
        (PatternType.ANY, "foobar", [LITERAL]),
        (PatternType.LITERAL, "foobar", [LITERAL]),
        (PatternType.LITERAL, None, [LITERAL, WILDCARD]),
        (PatternType.LITERAL, "*", [WILDCARD]),
        (PatternType.PREFIXED, "foobar", []),
        (PatternType.PREFIXED, "foo", [PREFIXED]),
        (PatternType.PREFIXED, None, [PREFIXED]),
        (PatternType.MATCH, "foobar", [LITERAL, PREFIXED, WILDCARD]),
        (PatternType.MATCH, "foo", [PREFIXED, WILDCARD]),
        (PatternType.MATCH, "fo", [WILDCARD]),
    ],
)
def test_patterns_of_topics(pattern_type: PatternType, name: str | None, expected: list[AccessControlEntry]) -> None:
    topics = EVERYTHING._replace(resource_type=ResourceType.TOPIC)
    assert matching(topics._replace(pattern_type=pattern_type, resource_name=name)) == expected


@pytest.mark.parametrize(
    "other",
    [
        {"resource_type": ResourceType.USER},
        {"principal": "User:*"},
        {"host": "10.0.0.1"},
        {"operation": Operation.ALL},
        {"permission_type": Permission.DENY},
    ],
    ids=lambda other: next(iter(other)),
)
def test_every_field_must_be_equal(other: dict[str, object]) -> None:
    assert matching(EVERYTHING._replace(**other)) == []


def test_filter_without_any_and_null_matches_one_entry() -> None:
    exact = AclFilter(
        LITERAL.resource_type,
        LITERAL.resource_name,
        LITERAL.pattern_type,
        LITERAL.principal,
        LITERAL.host,
        LITERAL.operation,
        LITERAL.permission_type,
    )
    assert exact.only_match == LITERAL
    for indefinite in (
        exact._replace(resource_type=ResourceType.ANY),
        exact._replace(resource_name=None),
        exact._replace(pattern_type=PatternType.MATCH),
        exact._replace(principal=None),
        exact._replace(host=None),
        exact._replace(operation=Operation.ANY),
        exact._replace(permission_type=Permission.ANY),
    ):
        assert indefinite.only_match is None


def test_unknown_codes() -> None:
    assert not EVERYTHING.has_unknown_pattern
    assert not EVERYTHING.has_unknown_entry
    assert EVERYTHING._replace(resource_type=99).has_unknown_pattern
    assert EVERYTHING._replace(pattern_type=99).has_unknown_pattern
    assert EVERYTHING._replace(operation=99).has_unknown_entry
    assert EVERYTHING._replace(permission_type=0).has_unknown_entry
