"""The rules of Kafka's StandardAuthorizer, one by one."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.principal import USER, Principal
from odradek.core.security import authorizer as authorizer_module
from odradek.core.security.access import AuthorizerNotReady
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.authorizer import Authorizer, Denial, Reason
from odradek.core.security.resources import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tests.unit.core.security.acl_samples import ALICE, BOB, HOST, acl, numbered

TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
DENY = Permission.DENY
PREFIXED = PatternType.PREFIXED


def ready(*entries: AccessControlEntry, super_users: Iterable[str] = (), default: bool = False) -> Authorizer:
    authorizer = Authorizer(frozenset(super_users), allows_without_acl=default)
    authorizer.load(numbered(*entries))
    authorizer.set_ready()
    return authorizer


def allowed(
    authorizer: Authorizer, operation: Operation, name: str, *, who: Principal = ALICE, host: str = HOST
) -> bool:
    """The same with the first check and with the kept result."""
    access = authorizer.access_of(who, host)
    first = access.allows(operation, TOPIC, name)
    assert access.allows(operation, TOPIC, name) is first
    return first


def allowed_any(authorizer: Authorizer, operation: Operation = WRITE, who: Principal = ALICE) -> bool:
    return authorizer.access_of(who, HOST).allows_any(operation, TOPIC)


def test_without_acls_everything_is_denied() -> None:
    assert not allowed(ready(), READ, "a")


def test_literal_acl_allows_only_its_name_principal_and_operation() -> None:
    authorizer = ready(acl("a", READ))
    assert allowed(authorizer, READ, "a")
    assert not allowed(authorizer, READ, "A")
    assert not allowed(authorizer, READ, "ab")
    assert not allowed(authorizer, WRITE, "a")
    assert not allowed(authorizer, READ, "a", who=BOB)
    assert not authorizer.access_of(ALICE, HOST).allows(READ, ResourceType.GROUP, "a")


def test_prefixed_acl_allows_every_name_that_starts_with_it() -> None:
    authorizer = ready(acl("team-", READ, pattern_type=PREFIXED))
    assert allowed(authorizer, READ, "team-")
    assert allowed(authorizer, READ, "team-a")
    assert not allowed(authorizer, READ, "team")


def test_wildcard_name_allows_every_name_and_is_literal_in_a_prefix() -> None:
    assert allowed(ready(acl("*", READ)), READ, "any")
    prefixed = ready(acl("*", READ, pattern_type=PREFIXED))
    assert not allowed(prefixed, READ, "any")
    assert allowed(prefixed, READ, "*any")


@pytest.mark.parametrize(
    "denying",
    [acl("topic", READ, DENY), acl("to", READ, DENY, pattern_type=PREFIXED), acl("*", READ, DENY)],
    ids=["literal", "prefixed", "wildcard"],
)
@pytest.mark.parametrize(
    "allowing",
    [acl("topic", READ), acl("topi", READ, pattern_type=PREFIXED), acl("*", READ)],
    ids=["literal", "prefixed", "wildcard"],
)
def test_deny_wins_over_allow(denying: AccessControlEntry, allowing: AccessControlEntry) -> None:
    assert not allowed(ready(denying, allowing), READ, "topic")
    assert not allowed(ready(allowing, denying), READ, "topic")


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER, ALL])
def test_allow_implies_describe(operation: Operation) -> None:
    assert allowed(ready(acl("a", operation)), DESCRIBE, "a")


def test_alter_configs_implies_describe_configs_only() -> None:
    authorizer = ready(acl("a", Operation.ALTER_CONFIGS))
    assert allowed(authorizer, Operation.DESCRIBE_CONFIGS, "a")
    assert not allowed(authorizer, DESCRIBE, "a")
    assert not allowed(ready(acl("a", Operation.CREATE)), DESCRIBE, "a")


def test_deny_implies_nothing_but_all_denies_everything() -> None:
    assert allowed(ready(acl("a", READ, DENY), acl("a", ALL)), DESCRIBE, "a")
    assert allowed(ready(acl("a", DESCRIBE, DENY), acl("a", READ)), READ, "a")
    assert not allowed(ready(acl("a", ALL, DENY), acl("a", ALL)), Operation.CREATE, "a")


def test_user_wildcard_matches_principals_of_every_type() -> None:
    authorizer = ready(acl("a", READ, principal="User:*"))
    assert allowed(authorizer, READ, "a", who=BOB)
    assert allowed(authorizer, READ, "a", who=Principal("Group", "admins"))
    assert not allowed(ready(acl("a", READ, principal="Group:*")), READ, "a", who=Principal("Group", "admins"))


def test_host_must_be_equal_or_any() -> None:
    authorizer = ready(acl("a", READ, host=HOST))
    assert allowed(authorizer, READ, "a")
    assert not allowed(authorizer, READ, "a", host="10.0.0.10")


def test_ipv6_hosts_match_as_java_prints_them() -> None:
    authorizer = ready(acl("a", READ, host="0:0:0:0:0:0:0:1"), acl("b", READ, host="::1"))
    assert allowed(authorizer, READ, "a", host="::1")
    assert not allowed(authorizer, READ, "b", host="::1")


def test_default_applies_only_to_resources_without_any_acl() -> None:
    authorizer = ready(
        acl("a", READ, principal="User:bob"),
        acl("team-", READ, principal="User:bob", pattern_type=PREFIXED),
        default=True,
    )
    assert allowed(authorizer, WRITE, "other")
    assert not allowed(authorizer, WRITE, "a")
    assert not allowed(authorizer, WRITE, "team-1")
    assert not allowed(ready(acl("*", READ, principal="User:bob"), default=True), WRITE, "other")


def test_super_user_ignores_deny_and_loading() -> None:
    authorizer = Authorizer(frozenset({"User:alice"}))
    assert allowed(authorizer, READ, "a")
    assert allowed_any(authorizer)
    authorizer.load(numbered(acl("*", ALL, DENY, principal="User:*")))
    authorizer.set_ready()
    assert allowed(authorizer, READ, "a")
    assert allowed_any(authorizer)


def test_before_the_acls_are_loaded_others_get_a_retriable_error() -> None:
    authorizer = Authorizer(frozenset(), allows_without_acl=True)
    with pytest.raises(AuthorizerNotReady) as raised:
        allowed(authorizer, READ, "a")
    assert raised.value.code is ErrorCode.unknown_server_error
    authorizer.set_ready()
    assert allowed(authorizer, READ, "a")


def test_connected_clients_see_changes_with_the_next_check() -> None:
    authorizer = ready()
    access = authorizer.access_of(ALICE, HOST)
    assert not access.allows(READ, TOPIC, "a")
    authorizer.update(numbered(acl("a", READ)), [UUID(int=1)])
    assert access.allows(READ, TOPIC, "a")
    authorizer.update(numbered(acl("a", READ), acl("a", READ, DENY)), [UUID(int=2)])
    assert not access.allows(READ, TOPIC, "a")
    authorizer.update({}, [UUID(int=1), UUID(int=2)])
    assert access.explain(READ, TOPIC, "a").reason is Reason.NO_ENTRY


def test_clients_of_one_principal_and_host_share_their_results() -> None:
    authorizer = ready(acl("a", READ))
    assert authorizer.access_of(ALICE, "::1") is authorizer.access_of(ALICE, "0:0:0:0:0:0:0:1")
    assert authorizer.access_of(ALICE, HOST) is not authorizer.access_of(ALICE, "10.0.0.2")
    with_token = ALICE._replace(token_authenticated=True)
    both = authorizer.access_of(ALICE, HOST), authorizer.access_of(with_token, HOST)
    assert all(one.allows(READ, TOPIC, "a") for one in both)
    authorizer.update({}, [UUID(int=1)])
    assert not any(one.allows(READ, TOPIC, "a") for one in both)


def test_kept_results_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "RESULTS_MAX", 10)
    authorizer = ready(acl("*", READ))
    clients = [authorizer.access_of(Principal(USER, str(number)), HOST) for number in range(5)]
    clients.append(authorizer.access_of(ALICE, HOST))
    for number in range(100):
        for client in clients:
            client.allows(READ, TOPIC, f"topic-{number}")
            assert sum(len(one._results) for one in clients) <= 10  # type: ignore[attr-defined]
    long_name = "x" * (authorizer_module.KEPT_NAME_LENGTH_MAX + 1)
    assert clients[-1].allows(READ, TOPIC, long_name)
    assert all((READ, TOPIC, long_name) not in one._results for one in clients)  # type: ignore[attr-defined]


def test_decision_names_the_entry_that_decided() -> None:
    literal, prefixed = acl("team-a", READ), acl("team-", WRITE, DENY, pattern_type=PREFIXED)
    authorizer = ready(literal, prefixed, super_users=["User:root"])

    def decide(operation: Operation, name: str, who: str = "User:alice") -> tuple[bool, Reason, object]:
        return tuple(authorizer.decide(who, HOST, operation, TOPIC, name))  # type: ignore[return-value]

    assert decide(READ, "team-a") == (True, Reason.ENTRY, literal)
    assert decide(WRITE, "team-a") == (False, Reason.ENTRY, prefixed)
    assert decide(Operation.ALTER, "team-a") == (False, Reason.NO_MATCHING_ENTRY, None)
    assert decide(READ, "other") == (False, Reason.NO_ENTRY, None)
    assert decide(READ, "other", "User:root") == (True, Reason.SUPER_USER, None)


def test_rules_are_shown_as_in_kafkas_audit_log() -> None:
    authorizer = ready(acl("a", READ), super_users=["User:root"])
    rules = [authorizer.decide(who, HOST, READ, TOPIC, "a").rule for who in ("User:alice", "User:bob", "User:root")]
    assert rules == [
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=a, patternType=LITERAL, principal=User:alice, "
        "host=*, operation=READ, permissionType=ALLOW])",
        "DefaultDeny",
        "SuperUser",
    ]
    assert ready(default=True).decide("User:bob", HOST, READ, TOPIC, "a").rule == "DefaultAllow"


def test_entries_with_codes_of_later_versions_are_shown() -> None:
    entry = AccessControlEntry(TOPIC, "a", 99, "User:alice", "*", READ, DENY)
    decision = ready(entry).decide("User:alice", HOST, READ, TOPIC, "a")
    assert not decision.allowed
    assert "patternType=UNKNOWN" in decision.rule


def test_only_denials_to_be_logged_are_reported() -> None:
    denials: list[Denial] = []
    authorizer = Authorizer(frozenset({"User:root"}), on_denied=denials.append)
    authorizer.set_ready()
    access = authorizer.access_of(ALICE, HOST)
    access.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    access.allows(READ, TOPIC, "hidden", logs_denial=False)
    access.allows_any(READ, TOPIC)
    authorizer.access_of(Principal(USER, "root"), HOST).allows(READ, TOPIC, "a")
    (denial,) = denials
    assert denial[:5] == (ALICE, HOST, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    assert denial.rule == "DefaultDeny"
    assert (authorizer.counts.allowed, authorizer.counts.denied, authorizer.counts.requests) == (1, 3, 4)


# Any resource of a type


def test_any_resource_is_allowed_by_a_literal_a_prefix_or_a_wildcard() -> None:
    assert allowed_any(ready(acl("a", WRITE)))
    assert allowed_any(ready(acl("a", WRITE, pattern_type=PREFIXED)))
    assert allowed_any(ready(acl("*", ALL)))
    assert not allowed_any(ready(acl("a", READ)))
    assert not allowed_any(ready(acl("a", WRITE)), who=BOB)
    assert not allowed_any(ready(acl("a", WRITE, host="10.0.0.9")))


def test_any_resource_with_the_default_of_allowing() -> None:
    assert allowed_any(ready(default=True))
    assert not allowed_any(ready(acl("*", READ, principal="User:bob"), default=True))


def test_any_resource_is_denied_by_a_wildcard() -> None:
    assert not allowed_any(ready(acl("a", WRITE), acl("*", WRITE, DENY)))
    assert not allowed_any(ready(acl("*", ALL), acl("*", WRITE, DENY)))


def test_any_resource_needs_a_pattern_that_is_not_denied() -> None:
    assert not allowed_any(ready(acl("a", WRITE), acl("a", WRITE, DENY)))
    assert not allowed_any(ready(acl("team-a", WRITE), acl("team-", WRITE, DENY, pattern_type=PREFIXED)))
    assert not allowed_any(
        ready(acl("team", WRITE, pattern_type=PREFIXED), acl("team", ALL, DENY, pattern_type=PREFIXED))
    )
    assert allowed_any(ready(acl("team", WRITE, pattern_type=PREFIXED), acl("team", WRITE, DENY)))
    assert allowed_any(ready(acl("team", WRITE), acl("team-", WRITE, DENY, pattern_type=PREFIXED)))


def test_any_resource_ignores_implied_operations() -> None:
    assert not allowed_any(ready(acl("a", READ)), DESCRIBE)
    # The probe on a name that does not exist considers them.
    assert allowed_any(ready(acl("*", READ)), DESCRIBE)
