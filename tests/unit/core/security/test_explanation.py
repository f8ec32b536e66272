"""Explanations of decisions: the rule that decides, and changes that would allow."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.authorizer import Authorizer, Decision, Reason
from odradek.core.security.explanation import ANY_HOST, AccessCheck, Explanation, explain
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from tests.unit.core.security.acl_samples import HOST, acl, numbered
from tests.unit.core.security.test_authorizer_model import NAMES, OPERATIONS, TYPES, entries

READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
DENY = Permission.DENY
PREFIXED = PatternType.PREFIXED

checks = st.builds(
    AccessCheck,
    st.sampled_from(["User:a", "User:b", "User:root"]),
    st.sampled_from([ANY_HOST, "h1", "h2"]),
    st.sampled_from([operation for operation in OPERATIONS if operation is not Operation.ALL]),
    st.sampled_from(TYPES),
    st.sampled_from([*NAMES, "aaa", "abcd", "d"]),
)


def decide(check: AccessCheck, acls: list[AccessControlEntry], *, default: bool) -> Decision:
    authorizer = Authorizer({"User:root"}, allows_without_acl=default)
    authorizer.load(numbered(*acls))
    authorizer.set_ready()
    return authorizer.decide(*check)


@settings(max_examples=500, deadline=None)
@given(st.lists(entries, max_size=25, unique=True), st.booleans(), st.lists(checks, min_size=1, max_size=8))
def test_explanations_agree_with_the_authorizer_and_their_changes_allow(
    acls: list[AccessControlEntry], default: bool, wanted: list[AccessCheck]
) -> None:
    for check in wanted:
        explanation = explain(check, acls, {"User:root"}, allows_without_acl=default)
        assert explanation.decision == decide(check, acls, default=default)
        if explanation.decision.allowed:
            assert (explanation.denying, explanation.missing) == ((), None)
            continue
        assert explanation.denying or explanation.missing
        changed = [one for one in acls if one not in explanation.denying]
        if explanation.missing is not None:
            assert not decide(check, changed, default=default).allowed
            changed.append(explanation.missing)
        assert decide(check, changed, default=default).allowed
        for kept in explanation.denying:
            # Each of them denies, so that none is removed in vain.
            assert not decide(check, [*changed, kept], default=default).allowed


@settings(max_examples=200, deadline=None)
@given(st.lists(entries, max_size=25), checks)
def test_an_unnamed_host_is_decided_by_the_acls_for_all_hosts(
    acls: list[AccessControlEntry], check: AccessCheck
) -> None:
    unnamed = check._replace(host="10.9.9.9")
    expected = decide(unnamed, acls, default=False).allowed
    assert decide(check._replace(host=ANY_HOST), acls, default=False).allowed is expected


def explained(check: AccessCheck, *acls: AccessControlEntry, default: bool = False) -> Explanation:
    return explain(check, acls, {"User:root"}, allows_without_acl=default)


CHECK = AccessCheck("User:alice", HOST, READ, ResourceType.TOPIC, "team-a")


def test_super_users_are_named_before_acls() -> None:
    explanation = explained(CHECK._replace(principal="User:root"), acl("*", Operation.ALL, DENY, principal="User:*"))
    assert explanation.decision.reason is Reason.SUPER_USER


def test_implied_operations_are_named() -> None:
    check = CHECK._replace(operation=DESCRIBE)
    assert explained(check, acl("team-a", READ)).implied_by is READ
    assert explained(check, acl("team-a", DESCRIBE)).implied_by is None
    assert explained(check, acl("team-a", Operation.ALL)).implied_by is None
    assert explained(check, acl("team-a", DESCRIBE, DENY)).implied_by is None


def test_the_default_decides_without_acls() -> None:
    assert explained(CHECK, default=True).decision == Decision(True, Reason.NO_ENTRY)
    assert explained(CHECK).decision == Decision(False, Reason.NO_ENTRY)


def test_missing_acl_is_for_the_operation_on_the_resource_from_all_hosts() -> None:
    assert explained(CHECK).missing == acl("team-a", READ)
    assert explained(CHECK, acl("team-a", WRITE)).missing == acl("team-a", READ)


def test_every_deny_that_matches_is_named() -> None:
    allow = acl("team-", READ, pattern_type=PREFIXED)
    denying = [
        acl("team-a", READ, DENY),
        acl("te", Operation.ALL, DENY, pattern_type=PREFIXED),
        acl("*", READ, DENY, principal="User:*", host=HOST),
    ]
    others = [acl("team-a", WRITE, DENY), acl("*", READ, DENY, host="10.0.0.9"), acl("team-b", READ, DENY)]
    explanation = explained(CHECK, allow, *others, *denying)
    assert set(explanation.denying) == set(denying)
    assert explanation.missing is None
    assert explained(CHECK, *denying).missing == acl("team-a", READ)


def test_repeated_entries_count_once() -> None:
    deny = acl("team-a", READ, DENY)
    assert explained(CHECK, deny, replace(deny)).denying == (deny,)
