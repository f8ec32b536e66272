from dataclasses import replace
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.metadata.image import ScramCredential
from odradek.core.metadata.persistent_map import PersistentMap
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.fake_access import FakeAccess

DESCRIBE_USER_SCRAM_CREDENTIALS = 50
SHA_256, SHA_512 = 1, 2


def credential(iterations: int) -> ScramCredential:
    return ScramCredential(b"salt", b"tops3cret", b"tops3cret", iterations)


@pytest.fixture
def with_users(broker: FakeBroker) -> FakeBroker:
    credentials = {
        ("alice", SHA_512): credential(8192),
        ("bob", SHA_256): credential(16384),
        ("alice", SHA_256): credential(4096),
    }
    broker.image = replace(broker.image, scram_credentials=PersistentMap(credentials.items()))
    return broker


def describe(broker: FakeBroker, *users: str) -> Any:
    return broker.request(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": user} for user in users])


def results(response: Any) -> dict[str, Any]:
    assert response.error_code is ErrorCode.none
    return {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos] or one.error_code
        for one in response.results
    }


def test_users_have_their_mechanisms_and_iterations(with_users: FakeBroker) -> None:
    assert results(describe(with_users, "alice")) == {"alice": [(SHA_256, 4096), (SHA_512, 8192)]}


def test_no_users_lists_all(with_users: FakeBroker) -> None:
    expected = {"alice": [(SHA_256, 4096), (SHA_512, 8192)], "bob": [(SHA_256, 16384)]}
    assert results(describe(with_users)) == expected
    assert results(with_users.request(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)) == expected


def test_unknown_user_is_not_found(with_users: FakeBroker) -> None:
    (result,) = describe(with_users, "nobody").results
    assert (result.user, result.error_code, result.error_message, result.credential_infos) == (
        "nobody",
        ErrorCode.resource_not_found,
        "Attempt to describe a user credential that does not exist: nobody",
        (),
    )


def test_repeated_user_is_rejected(with_users: FakeBroker) -> None:
    first, second = describe(with_users, "alice", "bob", "alice").results
    assert (first.user, first.error_code, first.error_message) == (
        "alice",
        ErrorCode.duplicate_resource,
        "Cannot describe SCRAM credentials for the same user twice in a single request: alice",
    )
    assert (second.user, second.error_code) == ("bob", ErrorCode.none)


def test_keys_are_not_described(with_users: FakeBroker) -> None:
    assert "tops3cret" not in repr(describe(with_users))


def test_denied_description_names_no_user(with_users: FakeBroker) -> None:
    with_users.access = FakeAccess()
    response = describe(with_users, "alice", "bob")
    assert (response.error_code, response.error_message) == (ErrorCode.cluster_authorization_failed, None)
    assert [(one.user, one.error_code) for one in response.results] == [
        ("", ErrorCode.cluster_authorization_failed)
    ] * 2
    assert with_users.request(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results == ()
