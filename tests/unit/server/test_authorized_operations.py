"""The bit fields of authorized operations."""

import pytest

from odradek.core.security.access import UNRESTRICTED
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.authorized_operations import authorized_operations
from tests.unit.fake_access import FakeAccess


@pytest.mark.parametrize(
    ("resource_type", "all_bits"),
    [(ResourceType.TOPIC, 3576), (ResourceType.GROUP, 3400), (ResourceType.CLUSTER, 8096)],
)
def test_all_bits_without_authorizer_and_for_all_grants(resource_type: ResourceType, all_bits: int) -> None:
    assert authorized_operations(UNRESTRICTED, resource_type, "any") == all_bits
    access = FakeAccess(*((operation, resource_type, "any") for operation in Operation))
    assert authorized_operations(access, resource_type, "any") == all_bits


def test_one_bit_for_each_allowed_operation() -> None:
    access = FakeAccess(
        (Operation.READ, ResourceType.TOPIC, "orders"),
        (Operation.DESCRIBE, ResourceType.TOPIC, "orders"),
        (Operation.WRITE, ResourceType.TOPIC, "other"),
    )
    assert authorized_operations(access, ResourceType.TOPIC, "orders") == 1 << 3 | 1 << 8
    assert authorized_operations(access, ResourceType.CLUSTER, CLUSTER_NAME) == 0


def test_denied_operations_are_not_logged() -> None:
    access = FakeAccess()
    authorized_operations(access, ResourceType.GROUP, "payments")
    assert {one.operation for one in access.requests} == {
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
    assert access.logged_denials() == []
