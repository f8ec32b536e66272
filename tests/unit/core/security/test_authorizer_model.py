"""The authorizer beside a model that follows Kafka's rules entry by entry, without any index."""

from collections.abc import Collection
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.principal import USER, Principal
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.authorizer import Authorizer
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType

NAMES = ("*", "a", "aa", "ab", "aab", "abc", "b", "ba", "c", "hardcode")
"""With prefixes of each other."""
PRINCIPALS = ("User:a", "User:b", "User:*")
HOSTS = ("*", "h1", "h2")
OPERATIONS = [operation for operation in Operation if operation >= Operation.ALL]
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)

entries = st.builds(
    AccessControlEntry,
    st.sampled_from([one.value for one in TYPES]),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL.value, PatternType.PREFIXED.value]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([operation.value for operation in OPERATIONS]),
    st.sampled_from([Permission.DENY.value, Permission.ALLOW.value, Permission.ALLOW.value]),
)
changes = st.lists(st.tuples(st.integers(0, 30), st.one_of(st.none(), entries)), max_size=12)
"""Of the entries by number; None deletes one."""
checks = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from(["h1", "h2"]),
    st.sampled_from([operation for operation in OPERATIONS if operation is not Operation.ALL]),
    st.sampled_from(TYPES),
    st.sampled_from([*NAMES, "aaa", "abcd", "d", ""]),
)

IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


class Model:
    def __init__(self, acls: Collection[AccessControlEntry], default: bool) -> None:
        self.acls = acls
        self.default = default

    def allows(self, user: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        covering = [one for one in self.acls if one.resource_type == kind and self._covers(one, name)]
        if not covering:
            return self.default
        matching = [one for one in covering if self._concerns(one, user, host)]
        exact = {operation, Operation.ALL}
        if any(one.permission_type == Permission.DENY and one.operation in exact for one in matching):
            return False
        allowing = exact | IMPLIED.get(operation, set())
        return any(one.permission_type == Permission.ALLOW and one.operation in allowing for one in matching)

    def allows_any(self, user: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        if self.allows(user, host, operation, kind, "hardcode"):
            return True
        exact = [
            one
            for one in self.acls
            if one.resource_type == kind
            and self._concerns(one, user, host)
            and one.operation in (operation, Operation.ALL)
        ]
        denying = [one for one in exact if one.permission_type == Permission.DENY]
        allowing = [one for one in exact if one.permission_type == Permission.ALLOW]
        if any(self._is_wildcard(one) for one in denying):
            return False
        return any(self._is_wildcard(one) or not self._is_dominated(one, denying) for one in allowing)

    @staticmethod
    def _is_wildcard(one: AccessControlEntry) -> bool:
        return one.pattern_type == PatternType.LITERAL and one.resource_name == "*"

    @staticmethod
    def _is_dominated(one: AccessControlEntry, denying: list[AccessControlEntry]) -> bool:
        return any(
            one.resource_name.startswith(deny.resource_name)
            if deny.pattern_type == PatternType.PREFIXED
            else (one.pattern_type, one.resource_name) == (deny.pattern_type, deny.resource_name)
            for deny in denying
        )

    @staticmethod
    def _covers(one: AccessControlEntry, name: str) -> bool:
        if one.pattern_type == PatternType.PREFIXED:
            return name.startswith(one.resource_name)
        return one.resource_name in ("*", name)

    @staticmethod
    def _concerns(one: AccessControlEntry, user: str, host: str) -> bool:
        return one.principal in (f"User:{user}", "User:*") and one.host in ("*", host)


@settings(max_examples=300, deadline=None)
@given(st.lists(changes, min_size=1, max_size=4), st.booleans(), st.lists(checks, min_size=1, max_size=8))
def test_every_decision_is_that_of_the_model(
    steps: list[list[tuple[int, AccessControlEntry | None]]],
    default: bool,
    wanted: list[tuple[str, str, Operation, ResourceType, str]],
) -> None:
    authorizer = Authorizer(frozenset(), allows_without_acl=default)
    authorizer.set_ready()
    acls: dict[UUID, AccessControlEntry] = {}
    for step in steps:
        after = dict(acls)
        for number, entry in step:
            after.pop(UUID(int=number), None)
            if entry is not None:
                after[UUID(int=number)] = entry
        authorizer.update(after, {UUID(int=number) for number, _ in step})
        acls = after
        model = Model(acls.values(), default)
        for user, host, operation, kind, name in wanted:
            access = authorizer.access_of(Principal(USER, user), host)
            expected = model.allows(user, host, operation, kind, name)
            assert access.allows(operation, kind, name) is expected
            assert access.allows(operation, kind, name) is expected
            assert access.allows_any(operation, kind) is model.allows_any(user, host, operation, kind)
    loaded = Authorizer(frozenset(), allows_without_acl=default)
    loaded.load(acls)
    for check in wanted:
        user, *rest = check
        assert loaded_decision(loaded, user, *rest) is Model(acls.values(), default).allows(*check)


def loaded_decision(
    loaded: Authorizer, user: str, host: str, operation: Operation, kind: ResourceType, name: str
) -> bool:
    loaded.set_ready()
    return loaded.decide(f"User:{user}", host, operation, kind, name).allowed
