"""A new transaction waits only shortly for the end of the previous one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.apis import transaction_verification
from odradek.broker.apis.transaction_verification import TransactionVerifier
from odradek.host.clock import SystemClock
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.broker.transactions_port import HostedTransactions

NAME = TopicPartition("t", 0)


class Ending(HostedTransactions):
    """A transaction that ends after a number of requests."""

    def __init__(self, requests: int) -> None:
        super().__init__()
        self.left = requests

    def add_or_verify_partitions(self, *_: Any, **__: Any) -> DeferredResponse:
        self.left -= 1
        return DeferredResponse.from_result({NAME: ErrorCode.concurrent_transactions if self.left else ErrorCode.none})


class StoppedClock(SystemClock):
    """A clock that only advances in pauses, however slow the computer is."""

    def monotonic(self) -> float:
        return 1.0


def pauses_ms(directory: Path, monkeypatch: pytest.MonkeyPatch, requests: int) -> list[float]:
    broker = FakeBroker(directory)
    broker.add_topic("t", 1)
    broker.transactions = Ending(requests)
    broker.clock = StoppedClock()
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(round(seconds * 1000, 3))

    async def verify() -> ErrorCode:
        verifier = TransactionVerifier(broker, "x", adds=True, knows_abortable=True)
        partition = broker.partition("t", 0)
        assert partition is not None
        verifier.begin(partition, 7, 0, 0)
        return await verifier.error_of(NAME)

    with monkeypatch.context() as patched:
        patched.setattr(transaction_verification.asyncio, "sleep", pause)
        assert asyncio.run(verify()) is ErrorCode.none
    return pauses


def test_verification_is_retried_with_increasing_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pauses_ms(tmp_path / "none", monkeypatch, 1) == []
    assert pauses_ms(tmp_path / "some", monkeypatch, 8) == [1, 2, 4, 8, 16, 20, 20]


class EndingHere(Ending):
    """Of an end of which its coordinator says when it is over."""

    def __init__(self) -> None:
        super().__init__(2)
        self.over: asyncio.Future[None] | None = None

    def completion_of(self, transactional_id: str) -> asyncio.Future[None]:
        self.over = asyncio.get_running_loop().create_future()
        return self.over


def test_verification_waits_for_the_completion_on_the_same_broker(tmp_path: Path) -> None:
    broker = FakeBroker(tmp_path)
    broker.add_topic("t", 1)
    broker.transactions = ending = EndingHere()
    broker.clock = StoppedClock()

    async def verify() -> ErrorCode:
        verifier = TransactionVerifier(broker, "x", adds=True, knows_abortable=True)
        partition = broker.partition("t", 0)
        assert partition is not None
        verifier.begin(partition, 7, 0, 0)
        verification = asyncio.ensure_future(verifier.error_of(NAME))
        while ending.over is None:
            await asyncio.sleep(0)
        # It sends no requests meanwhile.
        for _ in range(10):
            await asyncio.sleep(0)
        assert ending.left == 1
        ending.over.set_result(None)
        return await verification

    assert asyncio.run(verify()) is ErrorCode.none


@pytest.mark.parametrize(("requests", "expected"), [(1, ErrorCode.none), (2, None)])
def test_coordinator_on_this_broker_confirms_without_waiting_unless_the_previous_transaction_is_ending(
    tmp_path: Path, requests: int, expected: ErrorCode | None
) -> None:
    broker = FakeBroker(tmp_path)
    broker.add_topic("t", 1)
    broker.transactions = ending = Ending(requests)
    broker.clock = StoppedClock()
    verifier = TransactionVerifier(broker, "x", adds=True, knows_abortable=True)
    partition = broker.partition("t", 0)
    assert partition is not None
    verifier.begin(partition, 7, 0, 0)
    assert verifier.error_now(NAME) is expected
    if expected is None:
        # It starts from the first response, and pauses before it sends the second request.
        assert asyncio.run(verifier.error_of(NAME)) is ErrorCode.none
    assert ending.left == 0
