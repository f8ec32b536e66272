"""One test for each published vulnerability of Apache Kafka's broker since 2023 that concerns a broker like Odradek.

docs/explanation/threat-model.md has the list, with those that concern other software only.
"""

import base64
import contextlib
import hashlib
import hmac
import re
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from odradek.config.jaas import JaasError, parse_login
from odradek.config.sasl_config import SaslConfigError, read_sasl
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from odradek.node.sasl import _read_token
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.sasl.exchange import SaslError
from tests.apis import Api
from tests.loopback_http import QuietHandler, served
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response, encode_request, framed
from tests.record_batches import SNAPPY, batch
from tests.secured_node import log_in
from tests.wire.hostile_node import AUTHORIZER, NEVER_LOGGED, HostileNode, hostile_node
from tests.wire.plain_requests import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    alter_configs,
    create_topic,
    now_ms,
    produce_batch,
    until,
)
from tests.wire.sasl_model import AUTHENTICATE, HANDSHAKE, client_proof, fields_of
from tests.wire.secured_broker import PASSWORD

BROKER_LOGGER_RESOURCE = 8
FETCH_SNAPSHOT, PUSH_TELEMETRY, GET_TELEMETRY_SUBSCRIPTIONS = 59, 72, 71
MODULES = ("com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule")
JAAS = "listener.name.clients.plain.sasl.jaas.config"
MEMORY_GROWTH_MAX = 16 << 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileNode]:
    with hostile_node(tmp_path_factory.mktemp("vulnerable"), AUTHORIZER) as node:
        yield node
        assert node.is_running
        node.assert_nothing_leaked()


@pytest.fixture
def admin(node: HostileNode) -> Iterator[RawConnection]:
    with node.connect() as connection:
        yield connection


@pytest.fixture
def bob(node: HostileNode) -> Iterator[RawConnection]:
    """A user without permissions."""
    with log_in(RawConnection(node.sasl_port), "bob", "b") as connection:
        yield connection


def is_closed(connection: RawConnection) -> bool:
    try:
        connection.receive()
    except ConnectionClosed:
        return True
    return False


# Authentication


@pytest.mark.parametrize("module", MODULES)
def test_login_modules_of_java_are_never_loaded(admin: RawConnection, module: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: who may alter configs names a login module that runs code."""
    login = f'{module} required user.provider.url="ldap://127.0.0.1:1/x";'
    code, message = alter_configs(admin, BROKER_RESOURCE, "1", {JAAS: login})
    assert code is ErrorCode.invalid_request, (code, message)
    with pytest.raises(JaasError, match="cannot load the login module"):
        parse_login(login, "PLAIN")


def scram_first(connection: RawConnection, mechanism: str, nonce: str) -> tuple[str, str]:
    """What the client signs of its first message, and the challenge to it."""
    bare = f"n=alice,r={nonce}"
    connection.request(HANDSHAKE, 1, {"mechanism": mechanism})
    response = connection.request(AUTHENTICATE, 2, {"auth_bytes": f"n,,{bare}".encode()})
    return bare, bytes(response.auth_bytes).decode()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_final_scram_message_must_have_the_nonce_of_the_server(node: HostileNode, mechanism: str) -> None:
    """CVE-2024-56128: the server did not check the nonce of the final message, so a recorded one could be replayed."""
    changes: dict[str, Callable[[str, str], str]] = {
        "the client's part only": lambda ours, whole: ours,
        "the server's part only": lambda ours, whole: whole[len(ours) :],
        "another one of the same length": lambda ours, whole: "x" * len(whole),
        "longer": lambda ours, whole: whole + "x",
    }
    for what, change in changes.items():
        with RawConnection(node.sasl_port) as connection:
            first_bare, challenge = scram_first(connection, mechanism, "client-nonce")
            final_bare = f"c=biws,r={change('client-nonce', fields_of(challenge)['r'])}"
            # The proof is right for the changed nonce.
            proof = client_proof(mechanism, PASSWORD, first_bare, challenge, final_bare)
            response = connection.request(AUTHENTICATE, 2, {"auth_bytes": f"{final_bare},p={proof}".encode()})
            assert response.error_code is ErrorCode.sasl_authentication_failed, what
            assert is_closed(connection)


def test_recorded_scram_messages_prove_nothing_on_their_own_connection(node: HostileNode) -> None:
    """CVE-2024-56128, on one connection: neither after a failure nor after the login is a message accepted again."""
    mechanism = "SCRAM-SHA-256"
    with RawConnection(node.sasl_port) as connection:
        first_bare, challenge = scram_first(connection, mechanism, "nonce")
        final_bare = f"c=biws,r={fields_of(challenge)['r']}"
        final = f"{final_bare},p={client_proof(mechanism, PASSWORD, first_bare, challenge, final_bare)}".encode()
        assert connection.request(AUTHENTICATE, 2, {"auth_bytes": final}).error_code is ErrorCode.none
        response = connection.request(AUTHENTICATE, 2, {"auth_bytes": final})
        assert response.error_code is ErrorCode.illegal_sasl_state
    with RawConnection(node.sasl_port) as connection:
        scram_first(connection, mechanism, "nonce")
        for _ in range(2):
            connection.send(AUTHENTICATE, 2, {"auth_bytes": final})
        assert decode_response(AUTHENTICATE, 2, connection.receive()).error_code is (
            ErrorCode.sasl_authentication_failed
        )
        assert is_closed(connection)


def token_login(node: HostileNode, token: str) -> Any:
    with RawConnection(node.sasl_port) as connection:
        connection.request(HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"})
        message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        return connection.request(AUTHENTICATE, 2, {"auth_bytes": message})


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_tokens_without_a_valid_signature_are_rejected(node: HostileNode) -> None:
    """CVE-2026-33557, CVE-2026-110985: brokers accepted tokens of any issuer without verifying their signature."""
    token = node.token()
    assert token_login(node, token).auth_bytes == b""
    header, claims, signature = token.split(".")
    unsigned = encoded(b'{"alg":"none"}')
    public_key = node.key.as_pem(private=False)
    symmetric = encoded(b'{"alg":"HS256","kid":"one"}')
    with_public_key = f"{symmetric}.{claims}"
    mac = encoded(hmac.digest(public_key, with_public_key.encode(), hashlib.sha256))
    forged = [
        f"{unsigned}.{claims}.",
        f"{unsigned}.{claims}.{signature}",
        f"{header}.{claims}.",
        f"{header}.{encoded(base64.urlsafe_b64decode(claims + '==').replace(b'alice', b'admin'))}.{signature}",
        f"{with_public_key}.{mac}",
        node.token(iss="https://other.example"),
        node.token(aud="elsewhere"),
    ]
    for one in forged:
        assert token_login(node, one).auth_bytes == b'{"status":"invalid_token"}', one


def test_node_does_not_start_without_the_keys_of_tokens(node: HostileNode) -> None:
    """CVE-2026-110985: without a JWKS URL, the broker skipped the verification of signatures silently."""
    texts = {key: value for key, value in node.properties.items() if "jwks" not in key}
    with pytest.raises(SaslConfigError, match="needs the keys of its tokens"):
        read_sasl(texts, "CLIENTS")


def test_urls_of_clients_are_never_requested(node: HostileNode, admin: RawConnection, tmp_path: Path) -> None:
    """CVE-2025-27817: URLs in configs of OAUTHBEARER made a process read files, show them, or send requests."""
    requested: list[str] = []

    class Recording(QuietHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            self.respond(200, b"{}")

        do_POST = do_GET

    secret = tmp_path / "secret"
    secret.write_text("content of the secret file\n")
    with served(Recording) as address:
        for url in (f"http://{address}/", secret.as_uri(), "file:///proc/self/environ"):
            for name in ("jwks", "token"):
                key = f"listener.name.clients.oauthbearer.sasl.oauthbearer.{name}.endpoint.url"
                code, message = alter_configs(admin, BROKER_RESOURCE, "1", {key: url})
                assert "content of the secret" not in str(message)
                assert code is ErrorCode.invalid_request, (code, message)
        # A token with an unknown key makes the node read its keys again.
        token_login(node, node.token())
        assert requested == []
    secret.write_bytes(b"content of the secret \xff")
    with pytest.raises(SaslError) as raised:
        _read_token(secret.as_uri())
    assert "content" not in str(raised.value)
    assert "content of the secret" not in node.output_file.read_text()


# Configs and logs


def test_variables_in_altered_configs_stay_text(node: HostileNode, admin: RawConnection) -> None:
    """CVE-2024-31141: variables of config providers in the configs of a client read files and the environment."""
    assert create_topic(admin, "variables") is ErrorCode.none
    for text in ("${env:PATH}", "${file:/etc/passwd:root}", "${dir:/etc:passwd}", "${directory:/etc:passwd}"):
        name = "leader.replication.throttled.replicas"
        code, message = alter_configs(admin, TOPIC_RESOURCE, "variables", {name: text, "retention.ms": text})
        assert code is not ErrorCode.none
        assert text in str(message) or "retention.ms" in str(message)
        assert "root:" not in str(message)
        code, message = alter_configs(admin, BROKER_RESOURCE, "1", {"config.providers": "file"})
        assert code is not ErrorCode.none, message


def test_debug_logs_have_no_secrets(node: HostileNode, admin: RawConnection) -> None:
    """CVE-2026-33558: at DEBUG, requests and responses were logged with passwords, salted passwords and tokens."""
    levels = dict.fromkeys(("root", "odradek", "kafka.request.logger"), "DEBUG")
    try:
        for name, level in levels.items():
            code, message = alter_configs(admin, BROKER_LOGGER_RESOURCE, "1", {name: level})
            assert code is ErrorCode.none, (name, message)
        secrets = send_secrets(node, admin)
    finally:
        for name in levels:
            alter_configs(admin, BROKER_LOGGER_RESOURCE, "1", {name: "INFO"})
    log = node.output_file.read_text()
    assert "ALTERUSERSCRAMCREDENTIALS" in log, "requests are not logged"
    for secret in secrets:
        for shown in (secret, repr(secret)[2:-1].encode(), base64.b64encode(secret), secret.hex().encode()):
            assert shown.decode(errors="replace") not in log


def send_secrets(node: HostileNode, admin: RawConnection) -> list[bytes]:
    """Each kind of request that has a secret, or gets one in its response. Returns the secrets."""
    salted, in_config = hashlib.sha256(b"salted").digest(), "secret-in-a-config"
    upsertion = {"name": "carol", "mechanism": 1, "iterations": 4096, "salt": b"salt" * 4, "salted_password": salted}
    admin.request(Api.ALTER_USER_SCRAM_CREDENTIALS, 0, {"upsertions": [upsertion]})
    for name in ("listener.name.clients.ssl.keystore.password", "unknown.config", JAAS):
        alter_configs(admin, BROKER_RESOURCE, "1", {name: in_config})
    with node.connect() as other:
        created = other.request(Api.CREATE_DELEGATION_TOKEN, 3, {"renewers": [], "max_lifetime": -1})
        other.request(Api.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})
        other.request(Api.RENEW_DELEGATION_TOKEN, 2, {"hmac": created.hmac, "renew_period": -1})
        other.request(Api.EXPIRE_DELEGATION_TOKEN, 2, {"hmac": created.hmac, "expiry_time_period": -1})
    token = node.token()
    token_login(node, token)
    with pytest.raises(AssertionError):
        log_in(RawConnection(node.sasl_port), "bob", "wrong-password-of-bob")
    scram = RawConnection(node.sasl_port)
    scram_first(scram, "SCRAM-SHA-256", "nonce")
    scram.close()
    passwords = [text.encode() for text in (*NEVER_LOGGED, "wrong-password-of-bob", in_config)]
    return [salted, bytes(created.hmac), token.encode(), *passwords]


# Authorization


def acl(name: str, operation: Operation, permission: Permission, principal: str = "User:bob") -> dict[str, Any]:
    return {
        "resource_type": int(ResourceType.TOPIC),
        "resource_name": name,
        "resource_pattern_type": int(PatternType.LITERAL),
        "principal": principal,
        "host": "*",
        "operation": int(operation),
        "permission_type": int(permission),
    }


def test_acls_of_a_resource_stay_enforced_when_one_is_removed(admin: RawConnection, bob: RawConnection) -> None:
    """CVE-2024-27309: after the removal of one ACL, a resource was treated as if it had a single one: DENY was lost."""
    assert create_topic(admin, "denied") is ErrorCode.none
    creations = [
        acl("denied", Operation.READ, Permission.ALLOW),
        acl("denied", Operation.DESCRIBE, Permission.DENY),
        acl("denied", Operation.WRITE, Permission.ALLOW),
    ]
    response = admin.request(Api.CREATE_ACLS, 3, {"creations": creations})
    assert {one.error_code for one in response.results} == {ErrorCode.none}
    removed = {
        "resource_type_filter": int(ResourceType.TOPIC),
        "resource_name_filter": "denied",
        "pattern_type_filter": int(PatternType.LITERAL),
        "principal_filter": "User:bob",
        "host_filter": "*",
        "operation": int(Operation.WRITE),
        "permission_type": int(Permission.ALLOW),
    }
    (result,) = admin.request(Api.DELETE_ACLS, 3, {"filters": [removed]}).filter_results
    assert len(result.matching_acls) == 1
    until(lambda: produce_batch(bob, "denied", batch()).error is ErrorCode.topic_authorization_failed)
    (topic,) = bob.request(Api.METADATA, 8, {"topics": [{"name": "denied"}]}).topics
    assert topic.error_code is ErrorCode.topic_authorization_failed


def test_consumer_groups_are_described_with_describe_only(bob: RawConnection) -> None:
    """CVE-2026-41115: which permission ConsumerGroupDescribe needs was documented wrongly: it is DESCRIBE."""
    (group,) = bob.request(Api.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["secret-group"]}).groups
    assert group.error_code is ErrorCode.group_authorization_failed
    assert group.members == ()


# Denial of service


def test_empty_requests_between_nodes_do_not_end_the_controller(node: HostileNode) -> None:
    """CVE-2026-83525: a FetchSnapshot without topics, or with a topic without partitions, ended the controller."""
    for topics in ([], [{"name": "__cluster_metadata", "partitions": []}], [{"name": "", "partitions": []}] * 3):
        with node.connect_to_controller() as connection:
            response = connection.request(FETCH_SNAPSHOT, 1, {"replica_id": 1, "max_bytes": 1000, "topics": topics})
            assert response.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("versions_max", [1, pytest.param(100, marks=pytest.mark.tier("proof"))])
def test_empty_requests_of_every_api_do_not_end_the_controller(node: HostileNode, versions_max: int) -> None:
    """CVE-2026-83525, for all requests that a controller serves: all arrays empty, or one topic without partitions."""
    nothing: dict[str, Any] = {}
    topic = {"name": "t", "topic": "t", "topic_name": "t", "partitions": [], "partition_data": []}
    for api in CONTROLLER_APIS.values():
        for version in range(max(api.served_from, api.high + 1 - versions_max), api.high + 1):
            for fields in (nothing, {"topics": [topic], "topic_data": [topic]}):
                with node.connect_to_controller() as connection, contextlib.suppress(ConnectionClosed):
                    connection.request(api.key, version, fields)
    assert node.is_running
    with node.connect() as connection:
        assert create_topic(connection, f"after-empty-requests-{versions_max}") is ErrorCode.none


@pytest.mark.parametrize("api_key", [GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY])
def test_telemetry_is_not_served(node: HostileNode, admin: RawConnection, api_key: int) -> None:
    """CVE-2026-111073: metrics pushed by a client were decompressed without a limit."""
    offered = {one.api_key for one in admin.request(Api.API_VERSIONS, 0).api_keys}
    assert api_key not in offered
    admin.send_bytes(framed(struct.pack(">hhih", api_key, 0, 1, -1) + bytes(100)))
    assert is_closed(admin)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(struct.pack(">i", -1), id="CVE-2023-34455: negative length"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"x", id="CVE-2023-34455, CVE-2023-43642: length beyond the data"),
        pytest.param(struct.pack(">i", 5) + b"\xff\xff\xff\xff\x07", id="CVE-2023-43642: a block that declares 2 GiB"),
        pytest.param(struct.pack(">i", 6) + b"\x01\x0cabcd", id="CVE-2026-90559: more content than declared"),
    ],
)
def test_snappy_streams_with_invalid_lengths_are_rejected(
    node: HostileNode, admin: RawConnection, block: bytes
) -> None:
    """snappy-java allocated memory from unchecked lengths, or wrote past the end of its output."""
    create_topic(admin, "snappy", configs={"cleanup.policy": "compact"})
    before = node.resident_bytes
    stream = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + block
    hostile = batch(codec=SNAPPY, body=stream, record_count=1, last_offset_delta=0, timestamp=now_ms())
    assert produce_batch(admin, "snappy", hostile).error is ErrorCode.unknown_server_error
    assert node.resident_bytes - before < MEMORY_GROWTH_MAX


VARINT_MAX = b"\xff\xff\xff\xff\x0f"
API_VERSIONS_3 = struct.pack(">hhih", Api.API_VERSIONS, 3, 1, -1)


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(API_VERSIONS_3 + VARINT_MAX, id="CVE-2026-111115: tagged fields beyond the request"),
        pytest.param(API_VERSIONS_3 + b"\xc0\x3e" + b"\0\0" * 8000, id="CVE-2026-111115: 8,000 empty tagged fields"),
        pytest.param(
            API_VERSIONS_3 + b"\0\x02x\x02x" + b"\xc0\x3e" + b"\0\0" * 8000, id="CVE-2026-111115: after the body"
        ),
        pytest.param(
            struct.pack(">hhihi", AUTHENTICATE, 0, 1, -1, 2**31 - 1), id="CVE-2026-111108: bytes beyond the request"
        ),
        pytest.param(struct.pack(">hhihi", Api.METADATA, 1, 1, -1, 2**31 - 1), id="CVE-2026-111108: an array"),
    ],
)
def test_counts_beyond_the_request_allocate_nothing_before_authentication(
    node: HostileNode, request_bytes: bytes
) -> None:
    """CVE-2026-111108, CVE-2026-111115: counts in a request made the broker allocate memory, before authentication."""
    before = node.resident_bytes
    connections = [RawConnection(node.sasl_port) for _ in range(20)]
    for connection in connections:
        connection.send_bytes(framed(request_bytes))
    assert all(map(is_closed, connections))
    assert node.resident_bytes - before < MEMORY_GROWTH_MAX


def test_counts_beyond_the_request_allocate_nothing_after_authentication(node: HostileNode) -> None:
    """CVE-2026-111108, CVE-2026-111115: a few megabytes of a request declare millions of elements."""
    before = node.resident_bytes
    million = b"\xc0\x84\x3d"
    for body in (
        API_VERSIONS_3 + million + b"\0\0" * 1_000_000,
        struct.pack(">hhihi", Api.METADATA, 1, 1, -1, 2**31 - 1) + bytes(1000),
        struct.pack(">hhih", Api.METADATA, 12, 1, -1) + b"\0" + VARINT_MAX,
    ):
        with node.connect() as connection:
            connection.send_bytes(framed(body))
            assert is_closed(connection)
    assert node.resident_bytes - before < MEMORY_GROWTH_MAX


# Names in logs


def test_names_in_requests_cannot_forge_lines_of_the_log(node: HostileNode, bob: RawConnection) -> None:
    """Without a number: a denied request was logged with the topic's name as it came, line breaks included."""
    name = "x\n2026-01-01 00:00:00,000 INFO odradek.node: forged"
    bob.send_bytes(
        encode_request(
            Api.PRODUCE, 7, 99, {"topic_data": [{"name": name, "partition_data": [{"index": 0, "records": batch()}]}]}
        )
    )
    with contextlib.suppress(ConnectionClosed):
        bob.receive()
    deadline = time.monotonic() + 20
    while "forged" not in (log := node.output_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not re.search(r"^2026-01-01 .*forged", log, re.MULTILINE)
