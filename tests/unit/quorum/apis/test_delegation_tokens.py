"""The APIs of delegation tokens on controllers."""

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.security.delegation_tokens import token_hmac
from odradek.core.security.resources import Operation, ResourceType
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.unit.core.controller.cluster import Cluster
from tests.unit.fake_access import FakeAccess
from tests.unit.quorum.fake_controller_node import FakeControllerNode, context_of, fail_with

CREATE, RENEW, EXPIRE = 38, 39, 40
SECRET = "a secret of the cluster"
DAY = 86_400_000
INT64_MAX = 2**63 - 1
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
NOT_ALLOWED = ErrorCode.delegation_token_request_not_allowed


class Requests:
    """Requests of a principal over a SASL listener, directly or through a broker."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = FakeControllerNode()
        self.node.clock.now = 1_700_000_000.0
        self.node.controller.run = lambda command: cluster.take(command(cluster.controller))
        self.principal = ALICE
        self.protocol = "SASL_SSL"
        self.is_forwarded = False

    def send(self, api_key: int, version: int, **fields: Any) -> Any:
        messages = schema(api_key, version)
        context = context_of(api_key, version)._replace(
            principal=self.principal,
            security_protocol=self.protocol,
            access=self.node.access,
            is_forwarded=self.is_forwarded,
        )
        response = self.node.handle(raw_wire.build(messages.request_type, fields), context)
        return messages.read_foreign_response(messages.write(response), 0)

    def create(self, version: int = 3, **fields: Any) -> Any:
        return self.send(CREATE, version, **({"max_lifetime": -1} | fields))


@pytest.fixture
def requests() -> Requests:
    return Requests(Cluster(delegation_token_secret_key=SECRET))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_create_renew_and_expire(requests: Requests, version: int) -> None:
    created = requests.create(version, renewers=[{"principal_type": "User", "principal_name": "bob"}])
    now = requests.node.clock.wall_ms()
    assert created.error_code is ErrorCode.none
    assert (created.principal_type, created.principal_name) == ("User", "alice")
    if version >= 3:
        assert created.token_requester_principal_name == "alice"
    assert (created.issue_timestamp, created.expiry_timestamp, created.max_timestamp) == (now, now + DAY, now + 7 * DAY)
    assert created.hmac == token_hmac(SECRET, created.token_id)
    other = min(version, 2)
    renewed = requests.send(RENEW, other, hmac=created.hmac, renew_period=2000)
    assert (renewed.error_code, renewed.expiry_timestamp) == (ErrorCode.none, now + 2000)
    requests.principal = BOB
    expired = requests.send(EXPIRE, other, hmac=created.hmac, expiry_time_period=-1)
    assert (expired.error_code, expired.expiry_timestamp) == (ErrorCode.none, now)
    assert not requests.cluster.image.delegation_tokens


def test_durations_that_no_timedelta_represents_are_accepted(requests: Requests) -> None:
    created = requests.create(max_lifetime=INT64_MAX)
    assert created.max_timestamp == requests.node.clock.wall_ms() + 7 * DAY
    renewed = requests.send(RENEW, 2, hmac=created.hmac, renew_period=INT64_MAX)
    assert renewed.expiry_timestamp == requests.node.clock.wall_ms() + DAY
    assert requests.send(EXPIRE, 2, hmac=created.hmac, expiry_time_period=-(2**63)).error_code is ErrorCode.none


def test_timestamps_that_no_datetime_represents_are_returned() -> None:
    forever = str(INT64_MAX)
    settings = {"delegation_token_max_lifetime_ms": forever, "delegation_token_expiry_time_ms": forever}
    requests = Requests(Cluster(delegation_token_secret_key=SECRET, **settings))
    created = requests.create()
    assert (created.max_timestamp, created.expiry_timestamp) == (INT64_MAX, INT64_MAX)


@pytest.mark.parametrize(
    ("principal", "protocol", "is_forwarded", "is_allowed"),
    [
        (ALICE, "SASL_PLAINTEXT", False, True),
        (ALICE, "SSL", False, True),
        (ANONYMOUS, "SSL", False, False),
        (ALICE, "PLAINTEXT", False, False),
        (ALICE._replace(token_authenticated=True), "SASL_SSL", False, False),
        (ALICE._replace(token_authenticated=True), "SASL_SSL", True, False),
        # The broker has checked the client's connection; that of the broker does not matter.
        (ALICE, "PLAINTEXT", True, True),
    ],
)
def test_connections_that_may_manage_tokens(
    requests: Requests, principal: Principal, protocol: str, is_forwarded: bool, is_allowed: bool
) -> None:
    requests.principal, requests.protocol, requests.is_forwarded = principal, protocol, is_forwarded
    created = requests.create()
    renewed = requests.send(RENEW, 2, hmac=b"unknown", renew_period=-1)
    expired = requests.send(EXPIRE, 2, hmac=b"unknown", expiry_time_period=-1)
    if is_allowed:
        assert created.error_code is ErrorCode.none
        assert renewed.error_code is expired.error_code is ErrorCode.delegation_token_not_found
        assert (renewed.expiry_timestamp, expired.expiry_timestamp) == (0, 0)
    else:
        assert created.error_code is renewed.error_code is expired.error_code is NOT_ALLOWED
        assert (created.principal_name, created.token_requester_principal_name) == (principal.name, principal.name)
        assert {created.issue_timestamp, created.expiry_timestamp, created.max_timestamp} == {-1}
        assert (renewed.expiry_timestamp, expired.expiry_timestamp) == (-1, -1)
        assert not requests.cluster.image.delegation_tokens


def test_token_of_another_owner_requires_create_tokens(requests: Requests) -> None:
    for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    requests.node.access = access = FakeAccess()
    denied = requests.create(**for_bob)
    assert denied.error_code is ErrorCode.delegation_token_authorization_failed
    assert (denied.principal_name, denied.token_requester_principal_name) == ("bob", "alice")
    assert access.grants_requested() == [(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")]
    requests.node.access = FakeAccess(*access.grants_requested())
    created = requests.create(**for_bob)
    assert created.error_code is ErrorCode.none
    assert (created.principal_name, created.token_requester_principal_name) == ("bob", "alice")
    token = requests.cluster.image.delegation_tokens[created.token_id]
    assert (token.owner, token.requester) == ("User:bob", "User:alice")


@pytest.mark.parametrize("owner", [{}, {"owner_principal_type": "User", "owner_principal_name": ""}])
def test_own_token_requires_no_acl(requests: Requests, owner: dict[str, str]) -> None:
    requests.node.access = access = FakeAccess()
    assert requests.create(**owner).error_code is ErrorCode.none
    named = requests.create(owner_principal_type="User", owner_principal_name="alice")
    assert named.error_code is ErrorCode.none
    assert not access.requests


def test_owner_without_a_type_is_rejected(requests: Requests) -> None:
    response = requests.create(owner_principal_name="bob", owner_principal_type=None)
    assert (response.error_code, response.principal_name) == (ErrorCode.unknown_server_error, "ANONYMOUS")


def test_error_of_the_command_has_no_timestamps(requests: Requests) -> None:
    group = [{"principal_type": "Group", "principal_name": "admins"}]
    response = requests.create(renewers=group)
    assert (response.error_code, response.principal_name) == (ErrorCode.invalid_principal_type, "alice")
    assert {response.issue_timestamp, response.expiry_timestamp, response.max_timestamp} == {0}
    assert (response.token_id, response.hmac) == ("", b"")


def test_error_of_an_inactive_controller(requests: Requests) -> None:
    requests.node.controller.run = fail_with(ErrorCode.not_controller)
    response = requests.create()
    assert (response.error_code, response.principal_name) == (ErrorCode.not_controller, "ANONYMOUS")
    assert response.issue_timestamp == -1
    response = requests.send(RENEW, 2, hmac=b"", renew_period=-1)
    assert (response.error_code, response.expiry_timestamp) == (ErrorCode.not_controller, 0)
