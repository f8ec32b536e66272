"""Two-phase commit (KIP-939): prepared transactions wait for their external coordinator, also across restarts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation
from tests.kafka.side_by_side.transactor import Transactor, state_of, until_coordinated
from tests.odradek_process import OdradekProcess

PROPERTIES = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.max.timeout.ms": "1000",
}
NO_TIMEOUT_MS = 2**31 - 1


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path, properties=PROPERTIES)
    try:
        yield node.start()
    finally:
        node.remove()


def init(talk: Conversation, *, keep_prepared: bool, in_two_phases: bool = True) -> Any:
    fields = {
        "transactional_id": "sink",
        "transaction_timeout": 1_000,
        "enable2_pc": in_two_phases,
        "keep_prepared_txn": keep_prepared,
    }
    return talk.request_quietly(Api.INIT_PRODUCER_ID, fields, version=6)


def end(talk: Conversation, producer: tuple[int, int], *, commits: bool) -> Any:
    fields = {
        "transactional_id": "sink",
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "committed": commits,
    }
    return talk.request_quietly(Api.END_TXN, fields, version=5)


@pytest.mark.parametrize("commits", [True, False])
def test_restarted_producer_ends_its_prepared_transaction(node: OdradekProcess, commits: bool) -> None:
    talk = Conversation(node)
    until_coordinated(talk)
    talk.create_topic("data")
    first = Transactor(talk, "sink")
    response = init(talk, keep_prepared=False)
    first.become(response.producer_id, response.producer_epoch)
    first.send("is prepared", "data")
    (described,) = talk.request_quietly(Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["sink"]}).transaction_states
    assert described.transaction_timeout.total_seconds() * 1000 == NO_TIMEOUT_MS
    node.kill()
    node.start()
    talk = Conversation(node)
    until_transaction_is_loaded(talk)
    kept = init(talk, keep_prepared=True)
    assert kept.error_code is ErrorCode.none
    assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (first.producer_id, first.epoch)
    fenced = end(talk, (first.producer_id, first.epoch), commits=True)
    assert fenced.error_code is ErrorCode.producer_fenced
    ended = end(talk, (kept.producer_id, kept.producer_epoch), commits=commits)
    assert ended.error_code is ErrorCode.none
    talk.until(lambda: state_of(talk, "sink") == ("CompleteCommit" if commits else "CompleteAbort"))
    assert end(talk, (kept.producer_id, kept.producer_epoch), commits=commits).error_code is ErrorCode.none
    second = Transactor(talk, "sink")
    second.become(ended.producer_id, ended.producer_epoch)
    second.send("continues", "data")
    second.end("commits", commits=True)
    talk.until(lambda: state_of(talk, "sink") == "CompleteCommit")


def until_transaction_is_loaded(talk: Conversation) -> None:
    talk.until(lambda: state_of(talk, "sink") == "Ongoing")


def test_init_without_keep_prepared_aborts_the_prepared_transaction(node: OdradekProcess) -> None:
    talk = Conversation(node)
    until_coordinated(talk)
    talk.create_topic("data")
    first = Transactor(talk, "sink")
    response = init(talk, keep_prepared=False)
    first.become(response.producer_id, response.producer_epoch)
    first.send("is prepared", "data")
    assert init(talk, keep_prepared=False).error_code is ErrorCode.concurrent_transactions
    talk.until(lambda: state_of(talk, "sink") == "CompleteAbort")
    assert init(talk, keep_prepared=True).error_code is ErrorCode.none
