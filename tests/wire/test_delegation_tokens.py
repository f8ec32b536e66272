"""Delegation tokens over SASL, with Kafka's own tools and the command line."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from tests.apis import Api
from tests.kafka.apache_kafka import REFERENCE, ApacheKafka, KafkaTools, ToolFailed
from tests.node_process import NodeProcess, free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.cli_call import Cli
from tests.wire.plain_requests import until

USERS = {"alice": "secret of alice", "bob": "secret of bob", "carol": "secret of carol"}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
DAY_MS = 86_400_000

Properties = Callable[..., Path]


class Secured:
    """A node with a SASL listener for clients, besides its PLAINTEXT listener."""

    def __init__(self, node: NodeProcess) -> None:
        (self.port,) = free_ports(1)
        self.node = node
        controller = f"CONTROLLER://127.0.0.1:{node.controller_port}"
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        node.properties |= {
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},SASL_PLAINTEXT://127.0.0.1:{self.port},{controller}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} {users};",
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_SCRAM};",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
            "delegation.token.secret.key": "the secret of the cluster",
            "delegation.token.expiry.check.interval.ms": "1000",
        }

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


BOTH = ["odradek", pytest.param("kafka", marks=REFERENCE)]


@pytest.fixture(scope="module", params=BOTH)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with _running(request, tmp_path_factory.mktemp(request.param), {}) as secured:
        yield secured


@pytest.fixture(params=BOTH)
def authorized(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    """With an authorizer. Clients of the PLAINTEXT listener are super users."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with _running(request, tmp_path, properties) as secured:
        yield secured


@contextmanager
def _running(request: pytest.FixtureRequest, directory: Path, properties: dict[str, str]) -> Iterator[Secured]:
    node: NodeProcess = (
        OdradekProcess(directory, properties=properties)
        if request.param == "odradek"
        else ApacheKafka(request.getfixturevalue("apache_kafka_libs"), directory, properties=properties)
    )
    secured = Secured(node)
    try:
        node.start()
        yield secured
    finally:
        node.remove()


@pytest.fixture
def cli(secured: Secured, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    monkeypatch.delenv("ODRADEK_PASSWORD", raising=False)
    return Cli(monkeypatch, capfdbinary, secured.bootstrap)


@pytest.fixture
def properties(tmp_path: Path) -> Properties:
    def write(user: str, password: str | None = None, *, mechanism: str = "PLAIN", token: bool = False) -> Path:
        """Client properties of a user. With `token`, the user is a token ID, and the password its HMAC."""
        module = _PLAIN if mechanism == "PLAIN" else _SCRAM
        login = f'username="{user}" password="{password or USERS[user]}"' + (' tokenauth="true"' if token else "")
        file = tmp_path / f"{user}.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={module} {login};\n"
        )
        return file

    return write


def listed(cli: Cli, file: Path) -> list[Any]:
    found: list[Any] = cli.ok("token", "list", "--command-config", str(file), "--format", "json").json
    return found


def test_kafkas_tools_create_use_and_expire_a_token(
    secured: Secured, apache_kafka_libs: Path, properties: Properties
) -> None:
    tools = KafkaTools(apache_kafka_libs, secured.bootstrap)
    alice, bob, carol = map(properties, USERS)
    created = tools.delegation_tokens(
        alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    match = re.search(r"^(\S{22}) +(\S{88}) +User:alice +User:alice +\[User:bob\]", created, re.MULTILINE)
    assert match, created
    token_id, hmac = match[1], match[2]

    def seen_by(file: Path, owner: str) -> bool:
        return token_id in tools.delegation_tokens(file, "--describe", "--owner-principal", owner)

    until(lambda: seen_by(bob, "User:bob"))
    with_token = properties(token_id, hmac, mechanism="SCRAM-SHA-256", token=True)
    listing = ("--command-config", str(with_token), "--list")
    assert tools.topics(*listing).strip() == ""
    with pytest.raises(ToolFailed, match="UnsupportedByAuthenticationException"):
        tools.delegation_tokens(with_token, "--create", "--max-life-time-period", "-1")

    renewal = ("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation" in tools.delegation_tokens(bob, *renewal)
    with pytest.raises(ToolFailed, match="DelegationTokenOwnerMismatchException"):
        tools.delegation_tokens(carol, *renewal)
    expiration = ("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in tools.delegation_tokens(alice, *expiration)
    with pytest.raises(ToolFailed, match="DelegationTokenNotFoundException"):
        tools.delegation_tokens(alice, *expiration)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_command_line_manages_tokens(cli: Cli, properties: Properties, mechanism: str) -> None:
    alice, bob = str(properties("alice")), str(properties("bob"))
    before_ms = time.time() * 1000
    token = cli.ok(
        "token", "create", "--renewer", "User:bob", "--max-lifetime", "P2D", "--command-config", alice,
        "--format", "json",
    ).json  # fmt: skip
    token_id = token["token_id"]
    assert (token["owner"], token["requester"], token["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
    assert token["ends_ms"] - token["issued_ms"] == 2 * DAY_MS
    assert token["expires_ms"] - token["issued_ms"] == DAY_MS
    assert abs(token["issued_ms"] - before_ms) < 60_000

    until(lambda: token_id in [one["token_id"] for one in listed(cli, Path(bob))])
    shown = cli.ok("token", "list", "--command-config", bob).output.decode()
    assert token_id in shown
    assert token["hmac"] not in shown
    assert token["hmac"] in cli.ok("token", "list", "--command-config", bob, "--show-hmac").output.decode()

    with_token = properties(token_id, token["hmac"], mechanism=mechanism, token=True)
    until(lambda: cli("topic", "list", "--command-config", str(with_token)).code == 0)
    assert "not with a delegation token" in cli.error_line("token", "list", "--command-config", str(with_token))

    assert "Renewed token" in cli.ok("token", "renew", token_id, "--period", "PT1H", "--command-config", bob).messages
    assert "expires at" in cli.ok("token", "expire", token_id, "--after", "PT1S", "--command-config", bob).messages
    until(lambda: token_id not in [one["token_id"] for one in listed(cli, Path(alice))], 30)
    assert "does not exist" in cli.error_line("token", "renew", token_id, "--command-config", alice)


def test_token_for_another_owner(cli: Cli, properties: Properties) -> None:
    alice, carol = str(properties("alice")), str(properties("carol"))
    token = cli.ok(
        "token", "create", "--owner", "User:carol", "--command-config", alice, "--format", "json"
    ).json  # fmt: skip
    assert (token["owner"], token["requester"]) == ("User:carol", "User:alice")
    until(lambda: token["token_id"] in [one["token_id"] for one in listed(cli, Path(carol))])
    # Without an authorizer everyone sees all tokens, but only owners and renewers may change them.
    assert "OWNER_MISMATCH" in cli.error_line("token", "renew", token["token_id"], "--command-config", alice)
    removed = cli.ok("token", "expire", token["token_id"], "--command-config", carol)
    assert removed.messages == f"Removed token {token['token_id']}.\n"


def test_tokens_require_an_authenticated_connection(secured: Secured, cli: Cli) -> None:
    plain = ("--bootstrap", secured.node.bootstrap)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in cli.error_line("token", "create", *plain)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in cli.error_line("token", "list", *plain)


def test_command_line_errors(cli: Cli) -> None:
    assert "'alice' is not a principal" in cli.error_line("token", "create", "--owner", "alice")
    assert "not an ISO 8601 duration" in cli.error_line("token", "create", "--max-lifetime", "1h")
    assert "is not positive" in cli.error_line("token", "renew", "x", "--period", "PT0S")


def test_users_log_in_with_their_passwords(cli: Cli, secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_PASSWORD", "first password")
    plain = ("--bootstrap", secured.node.bootstrap)
    cli.ok("user", "add", "dave", *plain)
    until(lambda: cli("user", "test", "dave").code == 0)
    assert cli.ok("user", "test", "dave").messages == "User dave authenticated with SCRAM-SHA-512.\n"
    assert "Check the user name, the password and --mechanism" in cli.error_line(
        "user", "test", "dave", "--mechanism", "SCRAM-SHA-256"
    )
    monkeypatch.setenv("ODRADEK_PASSWORD", "second password")
    assert "Cannot authenticate" in cli.error_line("user", "test", "dave")
    cli.ok("user", "add", "dave", *plain)
    until(lambda: cli("user", "test", "dave").code == 0)
    cli.ok("user", "remove", "dave", *plain)
    until(lambda: cli("user", "test", "dave").code == 2)


CREATE, RENEW, EXPIRE, DESCRIBE = (
    Api.CREATE_DELEGATION_TOKEN,
    Api.RENEW_DELEGATION_TOKEN,
    Api.EXPIRE_DELEGATION_TOKEN,
    Api.DESCRIBE_DELEGATION_TOKEN,
)
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


@contextmanager
def authenticated(secured: Secured, user: str) -> Iterator[RawConnection]:
    with RawConnection(secured.port) as connection:
        connection.request(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        login = f"\0{user}\0{USERS[user]}".encode()
        response = connection.request(SASL_AUTHENTICATE, 2, {"auth_bytes": login})
        assert response.error_code is ErrorCode.none
        yield connection


def test_responses_to_invalid_requests(secured: Secured) -> None:
    with authenticated(secured, "alice") as alice:
        group = {"principal_type": "Group", "principal_name": "admins"}
        response = alice.request(CREATE, 3, {"renewers": [group], "max_lifetime": -1})
        assert (response.error_code, response.issue_timestamp) == (ErrorCode.invalid_principal_type, -1)
        assert (response.principal_name, response.token_requester_principal_name) == ("alice", "alice")
        response = alice.request(CREATE, 3, {"owner_principal_name": "bob", "owner_principal_type": None})
        assert (response.error_code, response.principal_name) == (ErrorCode.unknown_server_error, "ANONYMOUS")
        assert response.issue_timestamp == -1
        for hmac in (b"", b"unknown"):
            response = alice.request(RENEW, 2, {"hmac": hmac, "renew_period": -1})
            assert (response.error_code, response.expiry_timestamp) == (ErrorCode.delegation_token_not_found, 0)
            response = alice.request(EXPIRE, 2, {"hmac": hmac, "expiry_time_period": -1})
            assert (response.error_code, response.expiry_timestamp) == (ErrorCode.delegation_token_not_found, 0)
        assert alice.request(DESCRIBE, 3, {"owners": []}).tokens == ()


def test_renewal_and_expiration_of_an_expired_token(secured: Secured) -> None:
    with authenticated(secured, "alice") as alice, authenticated(secured, "bob") as bob:
        created = alice.request(CREATE, 3, {"renewers": [], "max_lifetime": 1})
        assert (created.error_code, created.max_timestamp) == (ErrorCode.none, created.issue_timestamp + 1)

        def code(connection: RawConnection, api: Api, period: int) -> ErrorCode:
            fields = {"hmac": created.hmac, "renew_period": period, "expiry_time_period": period}
            found: ErrorCode = connection.request(api, 2, fields).error_code
            return found

        until(lambda: code(alice, RENEW, -1) is not ErrorCode.none)
        # The sweep may remove the token meanwhile.
        gone = ErrorCode.delegation_token_not_found
        assert code(alice, RENEW, -1) in (ErrorCode.delegation_token_expired, gone)
        assert code(bob, RENEW, -1) in (ErrorCode.delegation_token_expired, gone)
        assert code(bob, EXPIRE, 1000) in (ErrorCode.delegation_token_owner_mismatch, gone)
        assert code(alice, EXPIRE, 1000) in (ErrorCode.delegation_token_expired, gone)
        until(lambda: code(alice, EXPIRE, 1000) is gone)


def test_largest_durations(secured: Secured) -> None:
    with authenticated(secured, "alice") as alice:
        created = alice.request(CREATE, 3, {"renewers": [], "max_lifetime": 2**63 - 1})
        assert created.max_timestamp - created.issue_timestamp == 7 * DAY_MS

        def expire() -> bool:
            response = alice.request(EXPIRE, 2, {"hmac": created.hmac, "expiry_time_period": 2**63 - 1})
            return bool(response.expiry_timestamp == created.max_timestamp)

        until(expire)
        alice.request(EXPIRE, 2, {"hmac": created.hmac, "expiry_time_period": -(2**63)})


def _allow(authorized: Secured, operation: Operation, resource_type: ResourceType, name: str) -> None:
    """For carol."""
    with RawConnection(authorized.node.port) as admin:
        acl = {
            "resource_type": int(resource_type),
            "resource_name": name,
            "resource_pattern_type": int(PatternType.LITERAL),
            "principal": "User:carol",
            "host": "*",
            "operation": int(operation),
            "permission_type": int(Permission.ALLOW),
        }
        (result,) = admin.request(Api.CREATE_ACLS, 3, {"creations": [acl]}).results
        assert result.error_code is ErrorCode.none, result


def test_acls_of_tokens(authorized: Secured) -> None:
    with authenticated(authorized, "alice") as alice, authenticated(authorized, "carol") as carol:
        own = alice.request(CREATE, 3, {"renewers": [], "max_lifetime": -1})
        assert own.error_code is ErrorCode.none

        def seen(connection: RawConnection, *owners: str) -> list[str]:
            named = [{"principal_type": "User", "principal_name": owner} for owner in owners]
            response = connection.request(DESCRIBE, 3, {"owners": named or None})
            assert response.error_code is ErrorCode.none
            return [one.token_id for one in response.tokens]

        until(lambda: seen(alice) == [own.token_id])
        assert not seen(carol)
        assert not seen(carol, "alice")
        _allow(authorized, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, own.token_id)
        until(lambda: seen(carol) == [own.token_id])

        for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob", "max_lifetime": -1}
        denied = carol.request(CREATE, 3, for_bob)
        assert (denied.error_code, denied.principal_name, denied.token_requester_principal_name) == (
            ErrorCode.delegation_token_authorization_failed,
            "bob",
            "carol",
        )
        assert denied.issue_timestamp == -1
        _allow(authorized, Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
        until(lambda: carol.request(CREATE, 3, for_bob).error_code is ErrorCode.none)

        assert alice.request(CREATE, 3, {"renewers": [], "max_lifetime": -1}).error_code is ErrorCode.none
        _allow(authorized, Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice")
        until(lambda: len(seen(carol, "alice")) == 2)


def test_acls_of_scram_users(authorized: Secured) -> None:
    upsertion = {"name": "dave", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
    request = {"deletions": [{"name": "bob", "mechanism": 1}], "upsertions": [upsertion]}
    denied = ErrorCode.cluster_authorization_failed
    alter, describe = Api.ALTER_USER_SCRAM_CREDENTIALS, Api.DESCRIBE_USER_SCRAM_CREDENTIALS
    with authenticated(authorized, "carol") as carol:
        results = carol.request(alter, 0, request).results
        assert [(one.user, one.error_code) for one in results] == [("bob", denied), ("dave", denied)]
        response = carol.request(describe, 0, {"users": [{"name": "dave"}]})
        assert (response.error_code, response.error_message) == (denied, None)
        assert [(one.user, one.error_code, one.error_message) for one in response.results] == [("", denied, None)]

        _allow(authorized, Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")

        def altered() -> set[tuple[str, ErrorCode]]:
            return {(one.user, one.error_code) for one in carol.request(alter, 0, request).results}

        until(lambda: altered() == {("bob", ErrorCode.resource_not_found), ("dave", ErrorCode.none)})
        # ALTER implies DESCRIBE.
        until(lambda: [one.user for one in carol.request(describe, 0, {"users": None}).results] == ["dave"])
