"""CreateAcls and DeleteAcls on the active controller."""

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller import acls as acls_module
from odradek.core.controller import bounded_records
from odradek.core.metadata.records import RemoveAccessControlEntryRecord
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from tests.unit.core.controller.cluster import Cluster
from tests.unit.core.security.acl_samples import acl

READ, WRITE = Operation.READ, Operation.WRITE
EVERYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def create(cluster: Cluster, *entries: AccessControlEntry) -> list[KafkaError | None]:
    return list(cluster.take(cluster.controller.create_acls(entries)))


def stored(cluster: Cluster) -> set[AccessControlEntry]:
    return set(cluster.image.access_control_entries.values())


def test_created_acls_are_in_the_image(cluster: Cluster) -> None:
    one, other = acl("a", READ), acl("b", WRITE, pattern_type=PatternType.PREFIXED)
    assert create(cluster, one, other) == [None, None]
    assert stored(cluster) == {one, other}
    assert all(entry_id.version == 4 for entry_id in cluster.image.access_control_entries)


def test_existing_and_repeated_acls_succeed_without_record(cluster: Cluster) -> None:
    one, other = acl("a", READ), acl("b", READ)
    create(cluster, one)
    result = cluster.controller.create_acls([one, other, other])
    assert list(result.response) == [None, None, None]
    assert len(result.records) == 1
    cluster.take(result)
    cluster.take(cluster.controller.delete_acls([EVERYTHING]))
    assert len(cluster.controller.create_acls([one, one]).records) == 1


def replaced(entry: AccessControlEntry, **fields: object) -> AccessControlEntry:
    values = {name: getattr(entry, name) for name in entry.__slots__}  # type: ignore[attr-defined]
    return AccessControlEntry(**(values | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"pattern_type": 99}, "Invalid patternType UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission_type": 99}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the "
            "principal name)",
        ),
    ],
)
def test_invalid_acls_fail_alone(cluster: Cluster, fields: dict[str, object], message: str) -> None:
    valid = acl("a", READ)
    error, success = create(cluster, replaced(valid, **fields), valid)
    assert success is None
    assert error is not None
    assert (error.code, error.message) == (ErrorCode.invalid_request, message)
    assert stored(cluster) == {valid}


def test_an_operation_needs_no_valid_resource_type(cluster: Cluster) -> None:
    assert create(cluster, acl("a", WRITE, resource_type=ResourceType.GROUP)) == [None]


def test_too_many_new_acls_fail_together(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_records, "RECORDS_MAX", 3)
    assert create(cluster, *(acl(str(number), READ) for number in range(3))) == [None, None, None]
    with pytest.raises(KafkaError, match="Unable to perform excessively large batch operation") as raised:
        cluster.controller.create_acls([acl(str(number), READ) for number in range(10, 14)])
    assert raised.value.code is ErrorCode.policy_violation


def test_delete_returns_what_each_filter_matches(cluster: Cluster) -> None:
    one, other, kept = acl("a", READ), acl("a", WRITE), acl("b", READ)
    create(cluster, one, other, kept)
    by_name, by_operation = (
        EVERYTHING._replace(resource_name="a"),
        EVERYTHING._replace(resource_name="a", operation=WRITE),
    )
    result = cluster.controller.delete_acls([by_name, by_operation, EVERYTHING._replace(resource_name="c")])
    assert [set(one) for one in result.response if not isinstance(one, KafkaError)] == [{one, other}, {other}, set()]
    assert len(result.records) == 2
    assert all(isinstance(record, RemoveAccessControlEntryRecord) for record in result.records)
    cluster.take(result)
    assert stored(cluster) == {kept}


def test_delete_of_one_exact_acl(cluster: Cluster) -> None:
    one, other = acl("a", READ), acl("a", READ, principal="User:bob")
    create(cluster, one, other)
    exact = AclFilter(ResourceType.TOPIC, "a", PatternType.LITERAL, "User:bob", "*", READ, Permission.ALLOW)
    assert cluster.take(cluster.controller.delete_acls([exact])) == [[other]]
    assert cluster.take(cluster.controller.delete_acls([exact])) == [[]]
    assert stored(cluster) == {one}


def test_unknown_filters_fail_alone(cluster: Cluster) -> None:
    create(cluster, acl("a", READ))
    unknown_pattern, unknown_entry = EVERYTHING._replace(pattern_type=99), EVERYTHING._replace(operation=99)
    first, second, deleted = cluster.take(cluster.controller.delete_acls([unknown_pattern, unknown_entry, EVERYTHING]))
    assert isinstance(first, KafkaError)
    assert isinstance(second, KafkaError)
    assert (first.code, first.message) == (ErrorCode.invalid_request, "Unknown patternFilter.")
    assert second.message == "Unknown entryFilter."
    assert deleted == [acl("a", READ)]


def test_too_many_deletions_fail_together(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls_module, "RECORDS_MAX", 3)
    create(cluster, *(acl(str(number), READ) for number in range(4)))
    with pytest.raises(KafkaError, match="Cannot remove more than 3 acls in a single delete operation") as raised:
        cluster.controller.delete_acls([EVERYTHING])
    assert raised.value.code is ErrorCode.invalid_request
    assert len(stored(cluster)) == 4
