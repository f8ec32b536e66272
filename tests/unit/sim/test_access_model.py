"""The model of ACLs, credentials and quotas that decisions of nodes are compared with."""

from uuid import UUID

import pytest

from odradek.core.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from odradek.core.metadata.records.settings import QuotaEntity
from odradek.core.security.resources import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from odradek.sim.checkers.access_model import Rules, SecurityState, SecurityStates
from odradek.sim.quorum_history import CommittedBatch, LogBatch
from odradek.sim.security_history import Check

RULES = Rules(frozenset({"admin"}), allows_without_acl=False)
HOST = "10.0.0.1"
READ = Check(Operation.READ, ResourceType.TOPIC, "orders-eu")


def entry(
    number: int = 1,
    *,
    name: str = "orders-eu",
    pattern: PatternType = PatternType.LITERAL,
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:alice",
    host: str = "*",
    resource_type: ResourceType = ResourceType.TOPIC,
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=number),
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def batch(offset: int, seconds: float, *records: MetadataRecord) -> CommittedBatch:
    return CommittedBatch(
        batch=LogBatch(offset, offset, 1, 0),
        leader="node1",
        appended_seconds=seconds,
        seen_seconds=seconds,
        committed_in=1,
        security=records,
    )


def quota(value: float, *, user: str | None = "alice", remove: bool = False) -> ClientQuotaRecord:
    entity = (QuotaEntity(entity_type="user", entity_name=user),)
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


def allows(*entries: AccessControlEntryRecord, user: str = "alice", check: Check = READ, rules: Rules = RULES) -> bool:
    return SecurityState(acls=entries).allows(rules, user, HOST, check)


class TestAcls:
    def test_super_user_is_allowed_everything(self) -> None:
        assert allows(entry(permission=Permission.DENY, principal="User:*"), user="admin")

    def test_without_an_entry_about_the_resource_the_default_applies(self) -> None:
        other = entry(name="payments")
        assert not allows(other)
        assert allows(other, rules=Rules(frozenset(), allows_without_acl=True))
        assert not allows(entry(principal="User:bob"), rules=Rules(frozenset(), allows_without_acl=True))

    @pytest.mark.parametrize(
        ("name", "pattern", "matches"),
        [
            ("orders-eu", PatternType.LITERAL, True),
            ("orders", PatternType.LITERAL, False),
            ("*", PatternType.LITERAL, True),
            ("orders", PatternType.PREFIXED, True),
            ("orders-eu", PatternType.PREFIXED, True),
            ("orders-eu-1", PatternType.PREFIXED, False),
            ("*", PatternType.PREFIXED, False),
        ],
    )
    def test_patterns(self, name: str, pattern: PatternType, matches: bool) -> None:
        assert allows(entry(name=name, pattern=pattern)) is matches

    def test_one_matching_deny_wins(self) -> None:
        allow = entry(1, operation=Operation.ALL)
        for pattern, name in (
            (PatternType.LITERAL, "*"),
            (PatternType.PREFIXED, "o"),
            (PatternType.LITERAL, READ.name),
        ):
            assert not allows(allow, entry(2, name=name, pattern=pattern, permission=Permission.DENY))
        assert allows(allow, entry(2, permission=Permission.DENY, operation=Operation.WRITE))
        assert allows(allow, entry(2, permission=Permission.DENY, host="10.0.0.2"))

    def test_principal_and_host(self) -> None:
        assert allows(entry(principal="User:*", host=HOST))
        assert not allows(entry(host="10.0.0.2"))
        assert not allows(entry(principal="User:bob"))

    @pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
    def test_allow_implies_describe_and_deny_does_not(self, operation: Operation) -> None:
        describe = READ._replace(operation=Operation.DESCRIBE)
        assert allows(entry(operation=operation), check=describe)
        allowed = entry(1, operation=Operation.DESCRIBE)
        assert allows(allowed, entry(2, operation=operation, permission=Permission.DENY), check=describe)

    def test_types_of_resources_are_apart(self) -> None:
        assert not allows(entry(resource_type=ResourceType.GROUP))
        check = Check(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        everything = entry(resource_type=ResourceType.CLUSTER, name=CLUSTER_NAME, operation=Operation.ALL)
        assert allows(everything, check=check)


class TestStates:
    def test_states_between_an_applied_offset_and_the_end_of_a_request(self) -> None:
        states = SecurityStates(
            [
                batch(5, 1.0, entry(1)),
                batch(6, 1.5),
                batch(8, 2.0, entry(2), entry(3)),
                batch(9, 3.0, RemoveAccessControlEntryRecord(id=UUID(int=1))),
            ]
        )

        def counts(floor: int, ended: float) -> list[int]:
            return [len(state.acls) for state in states.between(floor, ended)]

        assert counts(-1, 0.5) == [0]
        assert counts(-1, 9.0) == [0, 1, 3, 2]
        assert counts(7, 1.9) == [1]
        assert counts(7, 2.0) == [1, 3]
        assert counts(8, 2.0) == [3]
        assert counts(20, 2.0) == [2]

    def test_credentials(self) -> None:
        def credential(salt: bytes) -> UserScramCredentialRecord:
            return UserScramCredentialRecord(
                name="alice", mechanism=1, salt=salt, stored_key=b"", server_key=b"", iterations=4096
            )

        removed = RemoveUserScramCredentialRecord(name="alice", mechanism=1)
        states = SecurityStates([batch(1, 1, credential(b"a")), batch(2, 2, credential(b"b")), batch(3, 3, removed)])
        assert [one.salt_of("alice") for one in states.between(-1, 9)] == [None, b"a", b"b", None]
        assert states.between(-1, 9)[1].salt_of("bob") is None

    def test_quotas(self) -> None:
        def quota_of(*records: ClientQuotaRecord, key: str = "producer_byte_rate") -> float | None:
            (state,) = SecurityStates([batch(1, 1, *records)]).between(1, 9)
            return state.quota_of(key, "alice")

        own, default = quota(1.0), quota(2.0, user=None)
        assert quota_of(own) == 1.0
        assert quota_of(default) == 2.0
        assert quota_of(own, default) == 1.0
        assert quota_of(quota(1.0, user="bob")) is None
        assert quota_of(own, key="consumer_byte_rate") is None
        assert quota_of(own, default, quota(1.0, remove=True)) == 2.0
