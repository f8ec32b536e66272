"""confluent-kafka with exactly the permissions that its clients need, and with one less."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.core.security.resources import Operation, ResourceType
from tests.odradek_process import OdradekProcess
from tests.secured_node import PASSWORD, USER, Permissions, SecuredNode
from tests.unit.fake_access import Grant

TIMEOUT_S = 20.0
WRITE_OUT: Grant = (Operation.WRITE, ResourceType.TOPIC, "out")
READ_IN: Grant = (Operation.READ, ResourceType.TOPIC, "in")
READ_GROUP: Grant = (Operation.READ, ResourceType.GROUP, "group")
WRITE_TRANSACTION: Grant = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transaction")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    node = SecuredNode(OdradekProcess(tmp_path_factory.mktemp("authorized")))
    try:
        node.node.start()
        admin = AdminClient({"bootstrap.servers": node.node.bootstrap})
        for created in admin.create_topics([NewTopic(name, 1, 1) for name in ("in", "out")]).values():
            created.result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": node.node.bootstrap})
        producer.produce("in", b"record")
        assert producer.flush(TIMEOUT_S) == 0
        yield node
    finally:
        node.node.remove()


@pytest.fixture
def grant(node: SecuredNode) -> Iterator[Callable[..., None]]:
    permissions = Permissions(node.node)
    try:
        yield lambda *grants: permissions.grant(grants)
        permissions.grant(())
    finally:
        permissions.close()


@pytest.fixture
def settings(node: SecuredNode) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{node.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def delivery_error(producer: Producer, topic: str) -> int | None:
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    (error,) = errors
    return None if error is None else error.code()


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_producer_needs_write(grant: Callable[..., None], settings: dict[str, Any], is_idempotent: bool) -> None:
    producer = Producer(settings | {"enable.idempotence": is_idempotent})
    grant(WRITE_OUT)
    assert delivery_error(producer, "out") is None
    assert delivery_error(producer, "in") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    grant()
    assert delivery_error(producer, "out") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def first_message(consumer: Consumer) -> bytes | int | None:
    """Its value, or the code of the first error."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            error = message.error()
            return message.value() if error is None else int(error.code())
    return None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (None, b"record"),
        (READ_IN, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        (READ_GROUP, KafkaError.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_consumer_needs_read_of_its_topic_and_group(
    grant: Callable[..., None],
    settings: dict[str, Any],
    protocol: str,
    missing: Grant | None,
    expected: bytes | int,
) -> None:
    # Members of one group cannot use different protocols at the same time.
    group_id = f"group-{protocol}"
    needs = (READ_IN, (*READ_GROUP[:2], group_id))
    grant(*(one for one in needs if missing is None or one[:2] != missing[:2]))
    consumer = Consumer(
        settings
        | {"group.id": group_id, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        | ({"enable.auto.commit": False})
    )
    try:
        consumer.subscribe(["in"])
        assert first_message(consumer) == expected
        if missing is None:
            (committed,) = consumer.commit(asynchronous=False)
            assert (committed.topic, committed.error) == ("in", None)
            grant()
            with pytest.raises(KafkaException):
                consumer.commit(asynchronous=False)
            # Otherwise the next run would find nothing after the committed offset.
            grant(*needs)
            committed.offset = 0
            consumer.commit(offsets=[committed], asynchronous=False)
    finally:
        consumer.close()


def test_transaction_of_consumed_and_produced_records(grant: Callable[..., None], settings: dict[str, Any]) -> None:
    grant(READ_IN, READ_GROUP, WRITE_OUT, WRITE_TRANSACTION)
    consumer = Consumer(settings | {"group.id": "group", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    producer = Producer(settings | {"transactional.id": "transaction"})
    try:
        consumer.subscribe(["in"])
        assert first_message(consumer) == b"record"
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        assert delivery_error(producer, "out") is None
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
        )
        producer.commit_transaction(TIMEOUT_S)
        (committed,) = consumer.committed(consumer.assignment(), timeout=TIMEOUT_S)
        assert committed.offset == 1
    finally:
        consumer.close()


def test_transaction_needs_write_of_its_id(grant: Callable[..., None], settings: dict[str, Any]) -> None:
    grant(WRITE_OUT)
    producer = Producer(settings | {"transactional.id": "transaction"})
    with pytest.raises(KafkaException) as rejection:
        producer.init_transactions(TIMEOUT_S)
    assert rejection.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_transaction_cannot_write_a_denied_topic(grant: Callable[..., None], settings: dict[str, Any]) -> None:
    grant(WRITE_TRANSACTION, WRITE_OUT)
    producer = Producer(settings | {"transactional.id": "transaction"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    assert delivery_error(producer, "in") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    producer.abort_transaction(TIMEOUT_S)
