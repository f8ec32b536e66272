"""Every client with every kind of credentials, on one node. docs/how-to/tls-and-sasl.md publishes the table."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.wire.login_clients import (
    VALUE,
    Exchange,
    aiokafka_exchange,
    cli_exchange,
    confluent_exchange,
    java_exchange,
    kafka_python_exchange,
    kafkajs_exchange,
    kcat_exchange,
)
from tests.wire.logins import (
    AIOKAFKA,
    CERTIFICATE,
    CLIENTS,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    KCAT,
    KINDS,
    OAUTH,
    ODRADEK,
    PLAIN,
    SCRAM_256,
    SCRAM_512,
    TOKEN,
    UNSUPPORTED,
    LoginFailed,
    LoginNode,
    login_node,
)

_SCRAM = "invalid credentials with SASL mechanism SCRAM"
_REJECTED: Final = {
    PLAIN: "Invalid username or password",
    SCRAM_256: _SCRAM,
    SCRAM_512: _SCRAM,
    TOKEN: _SCRAM,
    OAUTH: "invalid_token",
    CERTIFICATE: "certificate|ssl|SSL",
}
_REPORTED: Final = {
    # They close the connection when the broker sends the status of a rejected token.
    (AIOKAFKA, OAUTH): "Connection at .* closed",
    (KAFKAJS, OAUTH): "Closed connection",
    (AIOKAFKA, CERTIFICATE): "Connection at .* closed",
    # It drops a response that arrives together with the end of the connection.
    **{(KAFKA_PYTHON, kind): f"{_REJECTED[kind]}|socket disconnected" for kind in KINDS},
    (JAVA, CERTIFICATE): "Failed to process post-handshake messages",
}
"""Where a client does not pass on the broker's reason."""
IN_TEST_TIER: Final = (
    (AIOKAFKA, SCRAM_512),
    (KAFKA_PYTHON, OAUTH),
    (KAFKAJS, SCRAM_256),
    (KCAT, CERTIFICATE),
    (ODRADEK, OAUTH),
)
"""`test_sasl.py` has those of Java and of confluent-kafka."""

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginNode]:
    with login_node(tmp_path_factory.mktemp("logins")) as node:
        yield node


@pytest.fixture
def exchange(client: str, request: pytest.FixtureRequest) -> Exchange:
    match client:
        case "java":
            return java_exchange(request.getfixturevalue("apache_kafka_libs"))
        case "kafkajs":
            return kafkajs_exchange(request.getfixturevalue("kafkajs"))
        case "kcat":
            request.getfixturevalue("kcat")
            return kcat_exchange
        case "odradek":
            return cli_exchange(request.getfixturevalue("capsys"))
    return {
        "confluent-kafka": confluent_exchange,
        "aiokafka": aiokafka_exchange,
        "kafka-python": kafka_python_exchange,
    }[client]


@pytest.fixture
def topic() -> str:
    return f"logins-{next(_numbers)}"


def cells(supported: bool) -> list[Any]:
    return [
        pytest.param(client, kind, marks=() if (client, kind) in IN_TEST_TIER else pytest.mark.tier("proof"))
        for client in CLIENTS
        for kind in KINDS
        if ((client, kind) not in UNSUPPORTED) == supported
    ]


@pytest.mark.parametrize(("client", "kind"), cells(supported=True))
def test_client_authenticates_and_is_rejected_with_wrong_credentials(
    node: LoginNode, exchange: Exchange, topic: str, client: str, kind: str
) -> None:
    assert exchange(node.login(kind), topic) == VALUE
    wrong = node.wrong_login(kind)
    with pytest.raises(LoginFailed) as rejected:
        exchange(wrong, topic)
    text = str(rejected.value)
    assert re.search(_REPORTED.get((client, kind), _REJECTED[kind]), text), text
    for secret in (wrong.password, wrong.token):
        assert not secret or secret == "wrong" or secret not in text


@pytest.mark.parametrize(("client", "kind"), cells(supported=False))
def test_broker_rejects_what_a_client_without_support_sends(
    node: LoginNode, exchange: Exchange, topic: str, client: str, kind: str
) -> None:
    with pytest.raises(LoginFailed) as rejected:
        exchange(replace(node.login(kind), is_valid=False), topic)
    assert re.search(_REPORTED.get((client, kind), _REJECTED[kind]), str(rejected.value)), rejected.value
