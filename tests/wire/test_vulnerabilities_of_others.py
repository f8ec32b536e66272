"""One test for each published vulnerability of other brokers, clients and libraries that Odradek could have as well.

docs/explanation/threat-model.md has the list.
"""

import base64
import json
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from joserfc.jwk import ECKey, KeySet
from kio.schema.errors import ErrorCode

from odradek.config.listeners import parse_http_address
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from odradek.local.start_node import parse_config
from odradek.wire.sasl.exchange import SaslError
from odradek.wire.sasl.oauth import InvalidToken
from odradek.wire.sasl.scram_client import ScramClient
from odradek.wire.sasl.tokens import TOKEN_BYTES_MAX, TokenRules, parse_keys, verify_token
from tests.apis import Api, versions
from tests.raw_wire import ConnectionClosed, RawConnection, encode_request
from tests.record_batches import batch
from tests.secured_node import log_in
from tests.wire.hostile_node import AUTHORIZER, HostileNode, hostile_node
from tests.wire.plain_requests import TOPIC_RESOURCE, alter_configs, create_topic, produce_batch, until
from tests.wire.sasl_model import AUTHENTICATE, HANDSHAKE


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileNode]:
    with hostile_node(tmp_path_factory.mktemp("others"), AUTHORIZER) as node:
        yield node
        assert node.is_running
        node.assert_nothing_leaked()


@pytest.fixture
def bob(node: HostileNode) -> Iterator[RawConnection]:
    """A user without permissions, unless a test grants them."""
    with log_in(RawConnection(node.sasl_port), "bob", "b") as connection:
        yield connection


# Before and after authentication


def test_no_request_is_served_before_authentication(node: HostileNode) -> None:
    """CVE-2026-57967, CVE-2026-67593 (ActiveMQ Artemis): commands were carried out before authentication."""
    with node.connect() as admin:
        assert create_topic(admin, "kept") is ErrorCode.none
        deletion = {"topic_names": ["kept"], "topics": [{"name": "kept"}], "timeout": 1000}
        for api in Api:
            if api in (Api.API_VERSIONS, HANDSHAKE):
                continue
            with RawConnection(node.sasl_port) as connection:
                connection.send_bytes(encode_request(api, max(versions(api)), 1, deletion))
                with pytest.raises(ConnectionClosed):
                    connection.receive()
        # The handshake makes no difference.
        with RawConnection(node.sasl_port) as connection:
            connection.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
            connection.send(Api.DELETE_TOPICS, 5, deletion)
            with pytest.raises(ConnectionClosed):
                connection.receive()
        assert admin.request(Api.METADATA, 8, {"topics": [{"name": "kept"}]}).topics[0].error_code is ErrorCode.none


def test_connection_ends_with_its_token(node: HostileNode) -> None:
    """CVE-2023-31007 (Pulsar): a client stayed connected after its authentication data had expired."""
    lifetime_s = 2
    with RawConnection(node.sasl_port) as connection:
        connection.request(HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"})
        message = f"n,,\x01auth=Bearer {node.token(exp=int(time.time()) + lifetime_s)}\x01\x01".encode()
        response = connection.request(AUTHENTICATE, 2, {"auth_bytes": message})
        assert response.error_code is ErrorCode.none
        assert 0 < response.session_lifetime.total_seconds() <= lifetime_s
        served = 0
        with pytest.raises(ConnectionClosed):
            for _ in range(1000):
                connection.request(Api.METADATA, 1, {"topics": []})
                served += 1
                time.sleep(0.02)
        assert served > 0


def test_delegation_token_is_worthless_after_its_end(node: HostileNode) -> None:
    """Without a number: the login is recorded, and sent again after the token has expired."""
    token_id, password = node.create_token(lifetime_ms=1)
    time.sleep(0.05)
    client = ScramClient("SCRAM-SHA-256", token_id, password, "nonce", has_token=True)
    with RawConnection(node.sasl_port) as connection:
        connection.request(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
        challenge = connection.request(AUTHENTICATE, 2, {"auth_bytes": client.first()}).auth_bytes
        # As in Kafka, the login may succeed until the token is removed, but its session is over.
        connection.request(AUTHENTICATE, 2, {"auth_bytes": client.final(bytes(challenge))})
        with pytest.raises(ConnectionClosed):
            connection.request(Api.METADATA, 1, {"topics": []})


# Authorization


def test_transactions_need_permissions(bob: RawConnection) -> None:
    """CVE-2023-50976 (Redpanda): requests of the transactions API were not authorized."""
    producer = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    offsets = {**producer, "group_id": "g", "topics": []}
    denied = ErrorCode.transactional_id_authorization_failed
    for api, version, fields in (
        (Api.INIT_PRODUCER_ID, 4, {"transactional_id": "t", "transaction_timeout": 1000, "producer_id": -1}),
        (Api.ADD_OFFSETS_TO_TXN, 3, offsets),
        (Api.END_TXN, 3, {**producer, "committed": True}),
    ):
        assert bob.request(api, version, fields).error_code is denied, api
    (described,) = bob.request(Api.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["t"]}).transaction_states
    assert described.error_code is denied
    assert bob.request(Api.LIST_TRANSACTIONS, 0, {}).transaction_states == ()
    partitions = [{"name": "x", "partition_index": 0, "partitions": [0], "topic": "x"}]
    response = bob.request(Api.ADD_PARTITIONS_TO_TXN, 3, {**producer, "v3_and_below_topics": partitions})
    assert response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code is denied
    response = bob.request(
        Api.WRITE_TXN_MARKERS, 1, {"markers": [{"producer_id": 1, "topics": [{"name": "x", "partition_indexes": [0]}]}]}
    )
    assert response.markers[0].topics[0].partitions[0].error_code is ErrorCode.cluster_authorization_failed


def test_read_and_write_allow_no_administration(node: HostileNode, bob: RawConnection) -> None:
    """CVE-2024-29834 (Pulsar): users with permission to produce or consume could administer topics."""
    with node.connect() as admin:
        assert create_topic(admin, "used") is ErrorCode.none
        acls = [
            {
                "resource_type": int(ResourceType.TOPIC),
                "resource_name": "used",
                "resource_pattern_type": int(PatternType.LITERAL),
                "principal": "User:bob",
                "host": "*",
                "operation": int(operation),
                "permission_type": int(Permission.ALLOW),
            }
            for operation in (Operation.READ, Operation.WRITE)
        ]
        admin.request(Api.CREATE_ACLS, 3, {"creations": acls})
    until(lambda: produce_batch(bob, "used", batch()).error is not ErrorCode.topic_authorization_failed)
    denied = ErrorCode.topic_authorization_failed
    assert alter_configs(bob, TOPIC_RESOURCE, "used", {"retention.ms": "1"})[0] is denied
    (deleted,) = bob.request(Api.DELETE_TOPICS, 5, {"topic_names": ["used"], "timeout": 1000}).responses
    (grown,) = bob.request(Api.CREATE_PARTITIONS, 3, {"topics": [{"name": "used", "count": 5}]}).results
    removal = {"name": "used", "partitions": [{"partition_index": 0, "offset": 0}]}
    (truncated,) = bob.request(Api.DELETE_RECORDS, 2, {"topics": [removal], "timeout": 1000}).topics
    assert {deleted.error_code, grown.error_code, truncated.partitions[0].error_code} == {denied}
    response = bob.request(Api.CREATE_ACLS, 3, {"creations": acls})
    assert {one.error_code for one in response.results} == {ErrorCode.cluster_authorization_failed}


# Endpoints of administration


def test_http_endpoint_is_off_unless_it_is_configured(node: HostileNode) -> None:
    """CVE-2026-82266 (Redpanda), CVE-2026-123270 (Redpanda Connect): the admin API was open on all addresses."""
    lines = [line for line in node.config_file.read_text().splitlines() if not line.startswith("http.address")]
    assert parse_config("\n".join(lines), "server.properties").http_address is None
    address = parse_http_address("9644")
    assert address is not None
    assert address.host == "127.0.0.1"
    # With an authorizer, every path but health needs a permission.
    assert status(node, b"GET /healthz HTTP/1.1") == 200
    for path in (b"/metrics", b"/v1/traffic", b"/v1/leases", b"/v1/rebalances"):
        assert status(node, b"GET " + path + b" HTTP/1.1") in (401, 403)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "//metrics",
            "/x/metrics",
            "/metrics/",
            "/metrics/x",
            "/healthz/metrics",
            "/healthz/../metrics",
            "/./metrics",
        ),
        *("/%6detrics", "/metrics%00", "/metrics;a=b", "/metrics?x", "/metrics#x", "/METRICS", "/v1//traffic"),
        *(
            "/v1/traffic/",
            "/v1/healthz/traffic",
            "/v1/leases/../traffic",
            "http://x/healthz/../metrics",
            "*",
            "/healthz/",
        ),
        *("/..%2f..%2fetc/passwd", "/v1/../../etc/passwd", "/readyz/..;/metrics", "/healthz\\..\\metrics"),
    ],
)
def test_no_form_of_a_path_avoids_authorization(node: HostileNode, path: str) -> None:
    """CVE-2026-105949 (Cruise Control): a further segment in the path avoided the authentication."""
    for method in ("GET", "POST", "DELETE", "OPTIONS", "TRACE", "get"):
        found = status(node, f"{method} {path} HTTP/1.1".encode())
        assert found in (400, 401, 403, 404, 405), (method, found)


def status(node: HostileNode, request_line: bytes, rest: bytes = b"Host: x\r\nConnection: close\r\n\r\n") -> int:
    return int(exchange(node, request_line + b"\r\n" + rest).split(b" ", 2)[1])


def exchange(node: HostileNode, sent: bytes) -> bytes:
    """Everything that the node responds before it closes the connection."""
    with socket.create_connection(("127.0.0.1", node.http_port), timeout=20) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(
            b"Transfer-Encoding: chunked\r\n\r\n1\r\nxGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n0\r\n\r\n",
            id="CVE-2025-43859: a chunk without an end",
        ),
        pytest.param(
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
            id="both lengths",
        ),
        pytest.param(b"Content-Length: 0\r\nContent-Length: 4\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", id="two lengths"),
        pytest.param(b"Content-Length: +0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", id="signed length"),
        pytest.param(
            b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", id="coding"
        ),
        pytest.param(b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", id="space"),
        pytest.param(b"X: y\rGET /healthz HTTP/1.1\r\n\r\n", id="bare carriage return"),
        pytest.param(b"X: y\x00z\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", id="zero byte"),
    ],
)
def test_requests_cannot_be_hidden_in_others(node: HostileNode, hidden: bytes) -> None:
    """CVE-2025-43859 (h11), and other ambiguous requests: the connection ends without a second response."""
    received = exchange(node, b"POST /v1/leases HTTP/1.1\r\nHost: x\r\n" + hidden)
    assert received.count(b"HTTP/1.1 ") == 1
    assert int(received.split(b" ", 2)[1]) in (400, 401, 403, 413, 501)
    assert b"ok\n" not in received


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: x=y", "a\nX: y", "\r\n\r\nHTTP/1.1 200 OK", "<script>", "ü"])
def test_values_of_requests_cannot_become_headers(node: HostileNode, name: str) -> None:
    """Without a number: names of topics and users appear in errors, but only in a JSON body."""
    quoted = "".join(f"%{byte:02x}" for byte in name.encode())
    basic = base64.b64encode(f"{name}:password".encode())
    for headers in (b"", b"Authorization: Basic " + basic + b"\r\n"):
        for path in (f"/v1/leases?topic={quoted}&partition=0&duration_ms=1", f"/v1/leases/{quoted}", f"/{quoted}"):
            request = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode() + headers + b"\r\n"
            head, _, body = exchange(node, request).partition(b"\r\n\r\n")
            names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
            assert names <= {b"content-type", b"content-length", b"connection", b"www-authenticate", b"allow"}
            assert b"\r\n" not in body
            assert b"text/html" not in head


# Clients and libraries


@pytest.mark.parametrize("iterations", ["1000001", "2147483647", "9" * 5000, "-1", "0", "4095"])
def test_iterations_that_a_broker_requests_are_limited(iterations: str) -> None:
    """CVE-2026-10143 (kafka-python): a broker could make a client compute millions of iterations."""
    client = ScramClient("SCRAM-SHA-256", "alice", "password", "nonce")
    client.first()
    begun = time.process_time()
    with pytest.raises(SaslError):
        client.final(f"r=nonce-of-the-broker,s=c2FsdA==,i={iterations}".encode())
    assert time.process_time() - begun < 0.5


KEY = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})
RULES = TokenRules(None, (), 30, "sub", "scope")


def reject(token: str) -> str:
    keys = parse_keys(json.dumps(KeySet([KEY]).as_dict(private=False)).encode())
    with pytest.raises(InvalidToken) as raised:
        verify_token(token, keys, RULES, time.time())
    return str(raised.value)


def part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


CLAIMS = part(b'{"sub":"admin","iat":0,"exp":99999999999}')


def test_long_tokens_are_rejected_before_they_are_divided() -> None:
    """CVE-2026-119284 (joserfc): tokens were divided, and so copied, before their size was checked."""
    assert reject("." * (TOKEN_BYTES_MAX + 1)) == "the token is too long"


def test_tokens_with_symmetric_signatures_are_rejected() -> None:
    """CVE-2026-49852 (joserfc): a signature with an empty secret was valid."""
    header = part(b'{"alg":"HS256","kid":"one"}')
    assert reject(f"{header}.{CLAIMS}.{part(bytes(32))}") == "the token's algorithm is not allowed"
    with pytest.raises(ValueError, match="no public key"):
        parse_keys(b'{"keys":[{"kty":"oct","k":"","kid":"one"}]}')


def test_tokens_in_json_are_rejected() -> None:
    """CVE-2026-102946 (joserfc): a token in JSON with an empty list of signatures was valid."""
    reject(json.dumps({"payload": CLAIMS, "signatures": []}))


def test_compressed_data_is_not_read_before_authentication(node: HostileNode) -> None:
    """CVE-2026-27571 (NATS): a client could send a compression bomb before authentication."""
    before = node.resident_bytes
    with RawConnection(node.sasl_port) as connection:
        connection.send_bytes(struct.pack(">i", 16_384) + bytes(16_384))
        with pytest.raises(ConnectionClosed):
            connection.receive()
    with pytest.raises(ConnectionClosed), RawConnection(node.sasl_port) as connection:
        connection.send(Api.PRODUCE, 9, {"acks": -1, "topic_data": []})
        connection.receive()
    assert node.resident_bytes - before < 8 << 20
