"""Apache Kafka's StandardAuthorizer and Odradek's authorizer decide alike, for random ACLs and checks."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.principal import Principal
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.authorizer import Authorizer
from odradek.core.security.hosts import acl_host
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from tests.kafka.java_program import JavaProgram

pytestmark = pytest.mark.kafka

ROUNDS = 2000
ACLS_MAX = 30
CHECKS = 60
NAMES = ("*", "a", "aa", "ab", "aab", "abc", "b", "ba", "hardcode", "é", "é\U0001f600", "\U0001f600", "\uffee")
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a", "User:a:b")
HOSTS = ("*", "10.0.0.1", "0:0:0:0:0:0:0:1", "::1", "2001:db8:0:0:0:0:0:a")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "::1", "2001:db8::a", "::ffff:10.0.0.1")
CLIENTS = (("User", "a"), ("User", "b"), ("Group", "a"), ("User", "a:b"), ("User", "root"))
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
OPERATIONS = [operation for operation in Operation if operation >= Operation.ALL]


@pytest.fixture(scope="module")
def kafkas_authorizer(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "StandardAcls") as program:
        yield program


def _entry(choice: random.Random) -> AccessControlEntry:
    return AccessControlEntry(
        choice.choice(TYPES).value,
        choice.choice(NAMES),
        choice.choice((PatternType.LITERAL, PatternType.PREFIXED)).value,
        choice.choice(PRINCIPALS),
        choice.choice(("*", choice.choice(HOSTS))),
        choice.choice(OPERATIONS).value,
        choice.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)).value,
    )


def _fields(number: int, one: AccessControlEntry) -> list[Any]:
    pattern = [one.resource_type, one.resource_name, one.pattern_type]
    return [number, *pattern, one.principal, one.host, one.operation, one.permission_type]


def _check(choice: random.Random) -> list[Any]:
    operation = choice.choice([one for one in OPERATIONS if one is not Operation.ALL])
    name = choice.choice((*NAMES, "abcd", "c", "é\U0001f600x"))
    return [*choice.choice(CLIENTS), choice.choice(ADDRESSES), operation.value, choice.choice(TYPES).value, name]


@pytest.mark.parametrize("seed", range(4))
def test_decisions_equal_kafkas(kafkas_authorizer: JavaProgram, seed: int) -> None:
    choice = random.Random(seed)
    allowed_count = 0
    for _ in range(ROUNDS // 4):
        # Kafka has each ACL once.
        entries = dict(enumerate(dict.fromkeys(_entry(choice) for _ in range(choice.randint(0, ACLS_MAX)))))
        snapshot = {number: one for number, one in entries.items() if choice.random() < 0.7}
        removed = [number for number in snapshot if choice.random() < 0.3]
        added = {number: one for number, one in entries.items() if number not in snapshot}
        checks = [_check(choice) for _ in range(CHECKS)]
        default = choice.random() < 0.3
        (line,) = kafkas_authorizer.request(
            json.dumps(
                {
                    "super": "User:root",
                    "default": default,
                    "snapshot": [_fields(*one) for one in snapshot.items()],
                    "removed": removed,
                    "added": [_fields(*one) for one in added.items()],
                    "checks": checks,
                }
            )
        )
        authorizer = Authorizer({"User:root"}, allows_without_acl=default)
        authorizer.load({UUID(int=number): one for number, one in snapshot.items()})
        after = {UUID(int=number): one for number, one in entries.items() if number not in removed}
        authorizer.update(after, [UUID(int=number) for number in (*removed, *added)])
        authorizer.set_ready()
        ours = [_decide(authorizer, check) for check in checks]
        assert ours == json.loads(line), (entries, removed)
        allowed_count += sum(one[1] for one in ours)
    assert allowed_count > ROUNDS


def _decide(authorizer: Authorizer, check: list[Any]) -> list[Any]:
    kind, user, address, operation, resource_type, name = check
    access = authorizer.access_of(Principal(kind, user), address)
    resource = ResourceType(resource_type)
    return [
        acl_host(address),
        access.allows(Operation(operation), resource, name),
        access.allows_any(Operation(operation), resource),
    ]
