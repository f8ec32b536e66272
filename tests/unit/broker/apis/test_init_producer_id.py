from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.transactions.commands import ProducerIdentity
from odradek.core.transactions.settings import TransactionSettings
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.broker.transactions_port import HostedTransactions

INIT_PRODUCER_ID = 22


def init_producer_id(broker: FakeBroker, version: int = 5, **fields: Any) -> tuple[ErrorCode, int, int]:
    defaults = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    response = broker.request(INIT_PRODUCER_ID, version, **(defaults | fields))
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_request_gets_a_new_producer_id(broker: FakeBroker, version: int) -> None:
    assert [init_producer_id(broker, version) for _ in range(2)] == [(ErrorCode.none, 0, 0), (ErrorCode.none, 1, 0)]


def test_idempotent_producer_with_an_id_gets_another(broker: FakeBroker) -> None:
    assert init_producer_id(broker, producer_id=500, producer_epoch=32767) == (ErrorCode.none, 0, 0)


@pytest.mark.parametrize("transaction_timeout", [0, -5])
def test_timeout_of_an_idempotent_producer_is_ignored(broker: FakeBroker, transaction_timeout: int) -> None:
    assert init_producer_id(broker, transaction_timeout=transaction_timeout)[0] is ErrorCode.none


@pytest.mark.parametrize(
    "fields", [{"producer_id": 5}, {"producer_epoch": 1}, {"transactional_id": "x", "producer_id": 5}]
)
def test_producer_id_without_an_epoch_is_rejected(broker: FakeBroker, fields: dict[str, Any]) -> None:
    assert init_producer_id(broker, 3, **fields) == (ErrorCode.invalid_request, -1, -1)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "expected"),
    [
        ("", 60_000, ErrorCode.invalid_request),
        ("x", 0, ErrorCode.invalid_transaction_timeout),
        ("x", 900_001, ErrorCode.invalid_transaction_timeout),
    ],
)
def test_invalid_transactional_requests_are_rejected(
    broker: FakeBroker, transactional_id: str, timeout_ms: int, expected: ErrorCode
) -> None:
    broker.transactions = HostedTransactions()
    response = init_producer_id(broker, transactional_id=transactional_id, transaction_timeout=timeout_ms)
    assert response == (expected, -1, -1)


@pytest.mark.parametrize("version", range(7))
def test_transactional_producer_gets_an_id_and_an_epoch(broker: FakeBroker, version: int) -> None:
    broker.transactions = HostedTransactions()
    assert init_producer_id(broker, version, transactional_id="x") == (ErrorCode.none, 1000, 0)
    assert init_producer_id(broker, version, transactional_id="x") == (ErrorCode.none, 1000, 1)


@pytest.mark.parametrize(
    ("version", "expected"), [(3, ErrorCode.invalid_producer_epoch), (4, ErrorCode.producer_fenced)]
)
def test_fenced_producer_gets_the_error_of_its_version(broker: FakeBroker, version: int, expected: ErrorCode) -> None:
    broker.transactions = HostedTransactions()
    init_producer_id(broker, transactional_id="x")
    assert init_producer_id(broker, version, transactional_id="x", producer_id=1000, producer_epoch=7) == (
        expected,
        -1,
        -1,
    )


def test_two_phase_commit_keeps_the_transaction(broker: FakeBroker) -> None:
    broker.transactions = HostedTransactions(TransactionSettings(two_phase_commit=True))
    fields = {"transactional_id": "x", "transaction_timeout": 0, "enable2_pc": True, "keep_prepared_txn": True}
    assert init_producer_id(broker, 6, **fields) == (ErrorCode.none, 1000, 0)
    harness = broker.transactions.harness
    harness.add(ProducerIdentity(1000, 0), 3, name="x")
    response = broker.request(INIT_PRODUCER_ID, 6, producer_id=-1, producer_epoch=-1, **fields)
    assert (response.producer_id, response.producer_epoch) == (1000, 1)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (1000, 0)


def test_error_of_the_controller_is_returned(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse() -> int:
        raise KafkaError(ErrorCode.coordinator_load_in_progress)

    monkeypatch.setattr(broker, "next_producer_id", refuse)
    assert init_producer_id(broker) == (ErrorCode.coordinator_load_in_progress, -1, -1)
