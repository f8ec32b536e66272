"""`__transaction_state` is handed from one broker to the other, which continues its transactions."""

from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from tests.apis import Api
from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.kafka.side_by_side.conversation import Conversation
from tests.kafka.side_by_side.transactor import Transactor, state_of, until_coordinated
from tests.node_process import KEEPS_OLD_RECORDS, NodeProcess
from tests.odradek_process import OdradekProcess

NAMES = ("idle", "open", "done", "aborted", "old")
LONGEST_TIMEOUT_MS = 900_000
"""Long enough that no open transaction is aborted while the other broker starts."""


@pytest.fixture
def kafka(apache_kafka_libs: Path, tmp_path: Path) -> ApacheKafka:
    return ApacheKafka(apache_kafka_libs, tmp_path, properties=KEEPS_OLD_RECORDS)


@pytest.fixture
def odradek(tmp_path: Path) -> OdradekProcess:
    return OdradekProcess(tmp_path, properties=KEEPS_OLD_RECORDS)


@pytest.fixture
def tools(kafka: ApacheKafka, apache_kafka_libs: Path) -> KafkaTools:
    return KafkaTools(apache_kafka_libs, kafka.bootstrap)


def write(node: NodeProcess) -> dict[str, tuple[int, int]]:
    """Create transactional IDs in several states. Returns their producer IDs and epochs."""
    talk = Conversation(node)
    until_coordinated(talk)
    talk.create_topic("data", partitions=2)
    producers = {name: Transactor(talk, name, is_old=name == "old") for name in NAMES}
    for one in producers.values():
        one.init(timeout_ms=LONGEST_TIMEOUT_MS)
    producers["open"].send("writes", "data", 1)
    for name, commits in (("done", True), ("aborted", False)):
        producers[name].send("writes", "data")
        producers[name].end("ends", commits=commits)
        producers[name].until("CompleteCommit" if commits else "CompleteAbort")
    producers["old"].add("adds", {"data": [0]})
    producers["old"].send("writes", "data")
    return {name: (one.producer_id, one.epoch) for name, one in producers.items()}


def described(node: NodeProcess) -> Any:
    talk = Conversation(node)

    def states() -> list[Any]:
        fields = {"transactional_ids": list(NAMES)}
        return list(talk.request_quietly(Api.DESCRIBE_TRANSACTIONS, fields).transaction_states)

    # Each has its own coordinator, which is available once its partition has been loaded.
    talk.until(lambda: {one.error_code for one in states()} == {ErrorCode.none})
    return sorted(states(), key=lambda one: one.transactional_id)


@pytest.mark.parametrize("first", ["odradek", pytest.param("kafka", marks=pytest.mark.tier("proof"))])
def test_transactions_continue_on_the_other_broker(first: str, kafka: ApacheKafka, odradek: OdradekProcess) -> None:
    before, after = (kafka, odradek) if first == "kafka" else (odradek, kafka)
    before.start()
    try:
        producers = write(before)
        expected = described(before)
    finally:
        before.stop()
    after.start()
    try:
        assert described(after) == expected
        talk = Conversation(after)
        for name, version in (("open", 5), ("old", 3)):
            producer_id, epoch = producers[name]
            fields = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch, "committed": True}
            assert talk.request_quietly(Api.END_TXN, fields, version=version).error_code is ErrorCode.none
            talk.until(lambda name=name: state_of(talk, name) == "CompleteCommit")  # type: ignore[misc]
        # No transaction is open any more: the other broker has written the markers to the partitions too.
        for partition in (0, 1):
            assert _stable(talk, partition) == _end(talk, partition)
        again = Transactor(talk, "done")
        again.init(producer_id=producers["done"][0], producer_epoch=producers["done"][1])
        assert (again.producer_id, again.epoch) == (producers["done"][0], producers["done"][1] + 1)
    finally:
        after.remove()


def _offset(talk: Conversation, partition: int, isolation_level: int) -> int:
    partition_query = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": "data", "partitions": [partition_query]}]
    fields = {"replica_id": -1, "isolation_level": isolation_level, "topics": topics}
    response = talk.request_quietly(Api.LIST_OFFSETS, fields, version=6)
    return int(response.topics[0].partitions[0].offset)


def _stable(talk: Conversation, partition: int) -> int:
    return _offset(talk, partition, 1)


def _end(talk: Conversation, partition: int) -> int:
    return _offset(talk, partition, 0)


def test_kafka_dump_log_reads_the_transaction_log(odradek: OdradekProcess, tools: KafkaTools) -> None:
    odradek.start()
    try:
        write(odradek)
    finally:
        odradek.stop()
    files = sorted(odradek.log_dirs[0].glob("__transaction_state-*/*.log"))
    dumped = tools.dump_log(*files, arguments=("--transaction-log-decoder",))
    for name in NAMES:
        assert f'"transactionalId":"{name}"' in dumped
    assert '"clientTransactionVersion":2' in dumped
