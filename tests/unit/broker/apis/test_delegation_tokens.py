"""The APIs of delegation tokens on brokers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.metadata.image import DelegationToken
from odradek.core.metadata.persistent_map import PersistentMap
from odradek.core.security.delegation_tokens import token_hmac
from odradek.core.security.resources import Operation, ResourceType
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.fake_access import FakeAccess

CREATE, RENEW, EXPIRE, DESCRIBE = 38, 39, 40, 41
SECRET = "a secret of the cluster"
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
NOT_ALLOWED = ErrorCode.delegation_token_request_not_allowed


def token(owner: str, requester: str, *renewers: str) -> DelegationToken:
    names = tuple(f"User:{name}" for name in renewers)
    return DelegationToken(f"User:{owner}", f"User:{requester}", names, 1000, 2**62, 3000)


TOKENS = {
    "of-alice": token("alice", "alice"),
    "requested-by-alice": token("bob", "alice"),
    "renewed-by-alice": token("bob", "bob", "carol", "alice"),
    "of-bob": token("bob", "bob"),
    "of-carol": token("carol", "carol"),
}


class Forwarding:
    """Responds to every forwarded request as the controller does without tokens."""

    def __init__(self) -> None:
        self.requests: list[tuple[Principal, int]] = []

    async def forward(self, client: Any, api_key: int, version: int, request: Any) -> Any:
        self.requests.append((client.principal, api_key))
        messages = schema(api_key, version)
        return raw_wire.build(messages.response_type, {"error_code": ErrorCode.unsupported_version, "hmac": b""})


@pytest.fixture
def broker(tmp_path: Path) -> FakeBroker:
    broker = FakeBroker(tmp_path, {"delegation.token.secret.key": SECRET})
    broker.image = replace(broker.image, delegation_tokens=PersistentMap(TOKENS.items()))
    broker.controller = Forwarding()  # type: ignore[assignment]
    return broker


def send(
    broker: FakeBroker,
    api_key: int,
    version: int,
    *,
    principal: Principal = ALICE,
    protocol: str = "SASL_PLAINTEXT",
    **fields: Any,
) -> Any:
    return broker.request(api_key, version, principal=principal, security_protocol=protocol, **fields)


def describe(broker: FakeBroker, owners: list[str] | None = None, principal: Principal = ALICE) -> set[str]:
    named = None if owners is None else [{"principal_type": "User", "principal_name": name} for name in owners]
    response = send(broker, DESCRIBE, 3, principal=principal, owners=named)
    assert response.error_code is ErrorCode.none
    return {one.token_id for one in response.tokens}


@pytest.mark.parametrize(
    ("principal", "protocol"),
    [
        (ALICE._replace(token_authenticated=True), "SASL_SSL"),
        (ALICE, "PLAINTEXT"),
        (ANONYMOUS, "SSL"),
    ],
)
def test_connections_that_may_not_manage_tokens(broker: FakeBroker, principal: Principal, protocol: str) -> None:
    options: dict[str, Any] = {"principal": principal, "protocol": protocol}
    created = send(broker, CREATE, 3, max_lifetime=-1, **options)
    assert (created.error_code, created.principal_name, created.max_timestamp) == (NOT_ALLOWED, principal.name, -1)
    renewed = send(broker, RENEW, 2, hmac=b"", renew_period=-1, **options)
    assert (renewed.error_code, renewed.expiry_timestamp) == (NOT_ALLOWED, -1)
    expired = send(broker, EXPIRE, 2, hmac=b"", expiry_time_period=-1, **options)
    assert (expired.error_code, expired.expiry_timestamp) == (NOT_ALLOWED, -1)
    described = send(broker, DESCRIBE, 3, owners=None, **options)
    assert (described.error_code, described.tokens) == (NOT_ALLOWED, ())
    assert not broker.controller.requests


def test_allowed_requests_are_forwarded_with_their_principal(broker: FakeBroker) -> None:
    send(broker, CREATE, 3, max_lifetime=-1)
    send(broker, RENEW, 2, hmac=b"", renew_period=-1)
    send(broker, EXPIRE, 2, hmac=b"", expiry_time_period=-1)
    requests: Any = broker.controller.requests
    assert requests == [(ALICE, CREATE), (ALICE, RENEW), (ALICE, EXPIRE)]


def test_token_of_another_owner_requires_create_tokens(broker: FakeBroker) -> None:
    for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob", "max_lifetime": -1}
    broker.access = access = FakeAccess()
    denied = send(broker, CREATE, 3, **for_bob)
    assert (denied.error_code, denied.principal_name, denied.token_requester_principal_name) == (
        ErrorCode.delegation_token_authorization_failed,
        "bob",
        "alice",
    )
    assert access.grants_requested() == [(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")]
    assert not broker.controller.requests
    broker.access = FakeAccess(*access.grants_requested())
    send(broker, CREATE, 3, **for_bob)
    assert len(broker.controller.requests) == 1


def test_renewers_must_be_users(broker: FakeBroker) -> None:
    group = [{"principal_type": "Group", "principal_name": "admins"}]
    response = send(broker, CREATE, 3, max_lifetime=-1, renewers=group)
    assert (response.error_code, response.issue_timestamp) == (ErrorCode.invalid_principal_type, -1)
    assert not broker.controller.requests


def test_owner_without_a_type_is_rejected(broker: FakeBroker) -> None:
    response = send(broker, CREATE, 3, max_lifetime=-1, owner_principal_type=None, owner_principal_name="bob")
    assert response.error_code is ErrorCode.unknown_server_error


@pytest.mark.parametrize("version", [1, 2, 3])
def test_description_has_all_of_a_token(broker: FakeBroker, version: int) -> None:
    response = send(broker, DESCRIBE, version, owners=None)
    (described,) = [one for one in response.tokens if one.token_id == "renewed-by-alice"]
    assert (described.principal_type, described.principal_name) == ("User", "bob")
    if version >= 3:
        assert (described.token_requester_principal_type, described.token_requester_principal_name) == ("User", "bob")
    assert (described.issue_timestamp, described.max_timestamp, described.expiry_timestamp) == (1000, 2**62, 3000)
    assert described.hmac == token_hmac(SECRET, "renewed-by-alice")
    assert [(one.principal_type, one.principal_name) for one in described.renewers] == [
        ("User", "carol"),
        ("User", "alice"),
    ]


def test_everything_is_described_without_an_authorizer(broker: FakeBroker) -> None:
    assert describe(broker) == set(TOKENS)


def test_own_tokens_are_described_without_acls(broker: FakeBroker) -> None:
    broker.access = FakeAccess()
    assert describe(broker) == {"of-alice", "requested-by-alice", "renewed-by-alice"}
    assert describe(broker, principal=Principal("User", "nobody")) == set()


def test_tokens_of_others_require_describe_on_token_or_owner(broker: FakeBroker) -> None:
    dave = Principal("User", "dave")
    broker.access = FakeAccess((Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "of-carol"))
    assert describe(broker, principal=dave) == {"of-carol"}
    broker.access = FakeAccess((Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"))
    assert describe(broker, principal=dave) == {"requested-by-alice", "renewed-by-alice", "of-bob"}


def test_owners_filter_by_owner_requester_and_renewer(broker: FakeBroker) -> None:
    assert describe(broker, ["carol"]) == {"of-carol", "renewed-by-alice"}
    assert describe(broker, ["carol", "alice"]) == set(TOKENS) - {"of-bob"}
    assert describe(broker, ["dave"]) == set()
    broker.access = FakeAccess()
    assert describe(broker, ["carol"]) == {"renewed-by-alice"}


def test_empty_list_of_owners_describes_nothing(broker: FakeBroker) -> None:
    assert describe(broker, []) == set()


def test_description_without_a_secret_is_disabled(tmp_path: Path) -> None:
    response = send(FakeBroker(tmp_path / "other"), DESCRIBE, 3, owners=None)
    assert (response.error_code, response.tokens) == (ErrorCode.delegation_token_auth_disabled, ())
