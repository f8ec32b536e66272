"""Delegation tokens: HMACs, expiry, and which principals may renew or see one."""

from dataclasses import replace

import pytest

from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.metadata.image import DelegationToken
from odradek.core.metadata.persistent_map import PersistentMap
from odradek.core.security.delegation_tokens import (
    INT64_MAX,
    TokensByHmac,
    is_expired,
    is_party,
    may_renew,
    new_timestamps,
    renewed_expiry,
    requests_are_allowed,
    token_hmac,
    token_password,
)

SECRET = "a secret of the cluster"
ALICE, BOB, CAROL, DAVE = (Principal("User", name) for name in ("alice", "bob", "carol", "dave"))
TOKEN = DelegationToken(
    owner="User:alice",
    requester="User:bob",
    renewers=("User:carol",),
    issue_timestamp_ms=1_000,
    max_timestamp_ms=9_000,
    expiration_timestamp_ms=5_000,
)


def test_hmac_is_kafkas() -> None:
    # The result of Kafka's DelegationTokenManager.createHmac("token", "secret").
    expected = (
        "a4866aa82ef1dbfa87a90605b24e7a19089ccc9e2f11127be20836468efd1948"
        "78748391e31f4958868b7d320ac0a540e4bdfa6c130632faa9ca827047d3884f"
    )
    assert token_hmac("secret", "token").hex() == expected


@pytest.mark.parametrize(
    ("principal", "protocol", "is_allowed"),
    [
        (ALICE, "SASL_PLAINTEXT", True),
        (ALICE, "SASL_SSL", True),
        (ALICE, "SSL", True),
        (ANONYMOUS, "SSL", False),
        (ALICE, "PLAINTEXT", False),
        (ANONYMOUS, "PLAINTEXT", False),
        (ALICE._replace(token_authenticated=True), "SASL_SSL", False),
    ],
)
def test_requests_need_an_authenticated_principal_without_token(
    principal: Principal, protocol: str, is_allowed: bool
) -> None:
    assert requests_are_allowed(principal, protocol) is is_allowed


def test_only_owner_and_renewers_may_renew() -> None:
    assert [may_renew(TOKEN, one) for one in (ALICE, BOB, CAROL, DAVE)] == [True, False, True, False]
    assert not may_renew(TOKEN, Principal("Group", "alice"))


def test_the_requester_sees_the_token_too() -> None:
    assert [is_party(TOKEN, one) for one in (ALICE, BOB, CAROL, DAVE)] == [True, True, True, False]


def test_token_expires_after_its_expiry_and_after_its_maximum() -> None:
    assert not is_expired(TOKEN, 5_000)
    assert is_expired(TOKEN, 5_001)
    assert is_expired(replace(TOKEN, expiration_timestamp_ms=20_000), 9_001)


@pytest.mark.parametrize(
    ("requested_ms", "expected"),
    [(-1, (1_700, 1_100)), (0, (1_700, 1_100)), (50, (1_050, 1_050)), (600, (1_600, 1_100)), (9_999, (1_700, 1_100))],
)
def test_new_token_lives_at_most_the_configured_time(requested_ms: int, expected: tuple[int, int]) -> None:
    found = new_timestamps(1_000, max_lifetime_ms=700, requested_ms=requested_ms, renew_period_ms=100)
    assert found == expected


def test_times_do_not_exceed_64_bits() -> None:
    found = new_timestamps(1_000, max_lifetime_ms=INT64_MAX, requested_ms=-1, renew_period_ms=INT64_MAX)
    assert found == (INT64_MAX, INT64_MAX)


@pytest.mark.parametrize(("requested_ms", "expected"), [(-1, 4_100), (0, 4_100), (50, 4_050), (9_999, 4_100)])
def test_renewal_adds_at_most_the_renew_period(requested_ms: int, expected: int) -> None:
    assert renewed_expiry(TOKEN, 4_000, requested_ms=requested_ms, renew_period_ms=100) == expected


def test_renewal_does_not_exceed_the_maximum_timestamp() -> None:
    assert renewed_expiry(TOKEN, 4_000, requested_ms=-1, renew_period_ms=100_000) == TOKEN.max_timestamp_ms


def test_finds_tokens_by_hmac_as_they_come_and_go() -> None:
    finder = TokensByHmac(SECRET)
    first = PersistentMap({"a": TOKEN}.items())
    second = first.with_changes({"b": replace(TOKEN, owner="User:b")})
    assert finder.find(first, token_hmac(SECRET, "a")) == ("a", TOKEN)
    assert finder.find(first, token_hmac(SECRET, "b")) is None
    assert finder.find(second, token_hmac(SECRET, "b")) == ("b", second["b"])
    changed = second.with_changes({"a": replace(TOKEN, owner="User:a")}, removed=["b"])
    assert finder.find(changed, token_hmac(SECRET, "a")) == ("a", changed["a"])
    assert finder.find(changed, token_hmac(SECRET, "b")) is None
    assert finder.find(PersistentMap(), token_hmac(SECRET, "a")) is None
    assert finder.find(first, token_hmac("another secret", "a")) is None
    assert finder.find(first, b"") is None


def test_finds_each_of_many_tokens() -> None:
    finder = TokensByHmac(SECRET)
    tokens: PersistentMap[str, DelegationToken] = PersistentMap()
    for number in range(300):
        tokens = tokens.with_changes({f"t{number}": TOKEN})
        assert finder.find(tokens, token_hmac(SECRET, f"t{number}")) is not None
    for number in range(300):
        assert finder.find(tokens, token_hmac(SECRET, f"t{number}")) == (f"t{number}", TOKEN)
        tokens = tokens.with_changes({}, removed=[f"t{number}"])
        assert finder.find(tokens, token_hmac(SECRET, f"t{number}")) is None


def test_password_is_the_hmac_in_base64() -> None:
    assert len(token_password(SECRET, "a")) == 88
