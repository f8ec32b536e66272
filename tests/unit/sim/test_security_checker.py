"""The checker of secured clusters accepts what applied metadata explains, and nothing else."""

from typing import Any

from odradek.core.metadata.records import (
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    UserScramCredentialRecord,
)
from odradek.sim.checkers.security import (
    ACCEPTED,
    ALLOWED,
    AUTHENTICATED,
    DENIED,
    FORWARDED,
    LIMITED,
    QUOTAS,
    REJECTED,
    SAME_USER,
    check_security,
)
from odradek.sim.quorum_history import CommittedBatch, QuorumHistory
from odradek.sim.security_history import (
    Decision,
    Intrusion,
    LoginAttempt,
    SecurityHistory,
    TokenCreated,
    TokenLogin,
    Usage,
)
from tests.unit.sim.test_access_model import HOST, READ, RULES, batch, entry, quota

ALLOW_AT_1 = batch(1, 1.0, entry(1))
REMOVED_AT_5 = batch(5, 5.0, RemoveAccessControlEntryRecord(id=entry(1).id))


def broken(history: SecurityHistory, *committed: CommittedBatch, is_complete: bool = True) -> list[str]:
    quorum = QuorumHistory(is_complete=is_complete)
    quorum.committed.extend(committed)
    return [violation.rule for violation in check_security(history, quorum, RULES)]


def decided(is_allowed: bool, *, floor: int, began: float, ended: float, **values: Any) -> SecurityHistory:
    history = SecurityHistory()
    one = Decision(
        user="alice",
        host=HOST,
        node="node1",
        api="Fetch",
        any_of=(READ,),
        is_allowed=is_allowed,
        began=began,
        ended=ended,
        floor=floor,
    )
    history.decisions.append(one)
    return history


class TestDecisions:
    def test_allowed_request_after_the_applied_removal_of_its_permission(self) -> None:
        history = decided(True, floor=5, began=5.1, ended=5.2)
        assert broken(history, ALLOW_AT_1, REMOVED_AT_5) == [DENIED]

    def test_node_that_has_not_applied_a_removal_may_allow(self) -> None:
        history = decided(True, floor=4, began=5.1, ended=5.2)
        assert broken(history, ALLOW_AT_1, REMOVED_AT_5) == []

    def test_request_that_began_before_a_removal_may_have_either_result(self) -> None:
        for is_allowed in (True, False):
            assert broken(decided(is_allowed, floor=4, began=4.9, ended=5.0), ALLOW_AT_1, REMOVED_AT_5) == []

    def test_denied_request_with_an_applied_permission(self) -> None:
        assert broken(decided(False, floor=1, began=1.1, ended=4.9), ALLOW_AT_1, REMOVED_AT_5) == [ALLOWED]
        assert broken(decided(False, floor=0, began=1.1, ended=4.9), ALLOW_AT_1, REMOVED_AT_5) == []

    def test_permission_that_was_not_written_yet(self) -> None:
        assert broken(decided(True, floor=0, began=0.5, ended=0.9), ALLOW_AT_1) == [DENIED]

    def test_without_the_whole_log_nothing_is_known(self) -> None:
        history = decided(True, floor=5, began=5.1, ended=5.2)
        assert broken(history, ALLOW_AT_1, REMOVED_AT_5, is_complete=False) == []


def credential(salt: bytes) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name="alice", mechanism=1, salt=salt, stored_key=b"", server_key=b"", iterations=4096
    )


def logged_in(
    password: str, is_accepted: bool, *, floor: int = 9, user: str = "alice", former: str | None = None
) -> Any:
    history = SecurityHistory(password_of_salt={b"1": "old", b"2": "new"})
    attempt = LoginAttempt(
        user=user,
        password=password,
        node="node1",
        is_accepted=is_accepted,
        began=3.0,
        ended=3.1,
        floor=floor,
        former_user=former,
    )
    history.logins.append(attempt)
    return history


class TestLogins:
    CHANGES = (batch(1, 1.0, credential(b"1")), batch(2, 2.0, credential(b"2")))

    def test_old_password_is_rejected_once_the_change_is_applied(self) -> None:
        assert broken(logged_in("old", True), *self.CHANGES) == [REJECTED]
        assert broken(logged_in("old", False), *self.CHANGES) == []
        for is_accepted in (True, False):
            assert broken(logged_in("old", is_accepted, floor=1), *self.CHANGES) == []

    def test_current_password_is_accepted(self) -> None:
        assert broken(logged_in("new", False), *self.CHANGES) == [ACCEPTED]
        assert broken(logged_in("new", True), *self.CHANGES) == []

    def test_unknown_user_is_rejected(self) -> None:
        assert broken(logged_in("new", True, user="bob"), *self.CHANGES) == [REJECTED]
        assert broken(logged_in("new", False, user="bob"), *self.CHANGES) == []

    def test_reauthentication_keeps_the_user(self) -> None:
        assert broken(logged_in("new", True, former="bob"), *self.CHANGES) == [SAME_USER]
        assert broken(logged_in("new", False, former="bob"), *self.CHANGES) == []
        assert broken(logged_in("old", True, former="alice"), *self.CHANGES) == [REJECTED]


def test_response_to_an_unauthenticated_client() -> None:
    history = SecurityHistory()
    history.intrusions.append(Intrusion(node="node1", what="responds", seconds=1.0))
    assert broken(history) == [AUTHENTICATED]


class TestTokens:
    def record(self, owner: str) -> CommittedBatch:
        token = DelegationTokenRecord(
            owner=owner,
            requester=owner,
            renewers=(),
            issue_timestamp=0,
            max_timestamp=0,
            expiration_timestamp=0,
            token_id="t",
        )
        return batch(3, 3.0, token)

    def test_token_belongs_to_the_client_that_created_it(self) -> None:
        def created(owner: str) -> SecurityHistory:
            history = SecurityHistory()
            history.tokens.append(
                TokenCreated(user="alice", node="node1", owner=owner, requester="alice", token_id="t", seconds=3.0)
            )
            return history

        assert broken(created("alice"), self.record("User:alice")) == []
        assert broken(created("alice"), self.record("User:node1")) == [FORWARDED]
        assert broken(created("ANONYMOUS")) == [FORWARDED]

    def test_login_with_a_token_is_accepted_once_it_is_applied(self) -> None:
        def logged_in(floor: int, *, is_accepted: bool) -> SecurityHistory:
            history = SecurityHistory()
            history.token_logins.append(
                TokenLogin(user="alice", node="node1", token_id="t", is_accepted=is_accepted, ended=4.0, floor=floor)
            )
            return history

        assert broken(logged_in(3, is_accepted=False), self.record("User:alice")) == [ACCEPTED]
        assert broken(logged_in(2, is_accepted=False), self.record("User:alice")) == []
        assert broken(logged_in(3, is_accepted=True), self.record("User:alice")) == []


def usage(
    at: float,
    size: int,
    *,
    run: int = 1,
    throttle_ms: int = 0,
    floor: int = 9,
    key: str | None = "producer_byte_rate",
) -> Usage:
    return Usage(
        user="alice",
        client_id="c",
        node="node1",
        run=run,
        quota_key=key,
        size_bytes=size,
        throttle_ms=throttle_ms,
        began=at,
        ended=at + 0.1,
        floor=floor,
    )


class TestQuotas:
    LIMIT_AT_1 = batch(1, 1.0, quota(100.0))
    REMOVED_AT_5 = batch(5, 5.0, quota(100.0, remove=True))

    def broken(self, *usages: Usage) -> list[str]:
        history = SecurityHistory()
        history.usages.extend(usages)
        return broken(history, self.LIMIT_AT_1, self.REMOVED_AT_5)

    def test_throttled_client_has_a_quota(self) -> None:
        assert self.broken(usage(4.0, 10, throttle_ms=5, floor=1)) == []
        assert self.broken(usage(5.1, 10, throttle_ms=5, floor=4)) == []
        assert self.broken(usage(5.1, 10, throttle_ms=5, floor=5)) == [QUOTAS]
        assert self.broken(usage(4.0, 10, throttle_ms=5, floor=1, key=None)) == [QUOTAS]

    def test_client_that_exceeds_its_quota_is_throttled(self) -> None:
        assert self.broken(usage(2.0, 400, throttle_ms=5, floor=1), usage(4.1, 290, floor=1)) == []
        assert self.broken(usage(2.0, 301, floor=1)) == [LIMITED]
        assert self.broken(usage(2.0, 200, floor=1), usage(2.2, 101, floor=1)) == [LIMITED]
        assert self.broken(usage(2.0, 200, floor=1), usage(2.2, 101, floor=1, run=2)) == []
        # Not in order, so that the first may have been measured later.
        assert self.broken(usage(2.0, 200, floor=1), usage(2.05, 101, floor=1)) == []

    def test_without_a_quota_throughout_nothing_is_limited(self) -> None:
        assert self.broken(usage(2.0, 1000, floor=0)) == []
        assert self.broken(usage(4.5, 200, floor=1), usage(5.1, 200, floor=1)) == []
