"""`odradek txn` with real producers, compared with kafka-transactions."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.kafka.apache_kafka import KafkaTools
from tests.node_process import NodeProcess
from tests.raw_wire import RawConnection
from tests.record_batches import TRANSACTIONAL, TestRecord, batch
from tests.wire.cli_call import Cli
from tests.wire.plain_requests import BROKER_RESOURCE, alter_configs, produce_fields, until

VERIFICATION = "transaction.partition.verification.enable"
STRAY_PRODUCER_ID = 4711


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


@pytest.fixture
def payments(broker: NodeProcess, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    return topic


@pytest.fixture
def producer(broker: NodeProcess, topic: str) -> Producer:
    """A producer whose transactional ID is the name of the topic."""
    made = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "linger.ms": 0})
    made.init_transactions(60)
    return made


@pytest.fixture
def unverified(broker: NodeProcess) -> Iterator[RawConnection]:
    """A connection to a broker that does not verify transactional batches."""
    with RawConnection(broker.port) as connection:
        assert alter_configs(connection, BROKER_RESOURCE, "", {VERIFICATION: "false"})[0] is ErrorCode.none
        yield connection
        assert alter_configs(connection, BROKER_RESOURCE, "", {VERIFICATION: None})[0] is ErrorCode.none


def listed(cli: Cli, *arguments: str) -> dict[str, Any]:
    return {one["transactional_id"]: one for one in cli.ok("txn", "list", *arguments, "--format", "json").json}


def described(cli: Cli, name: str) -> Any:
    (found,) = cli.ok("txn", "describe", name, "--format", "json").json
    return found


def producers(cli: Cli, topic: str, partition: int = 0) -> Any:
    return cli.ok("txn", "producers", "--topic", topic, "--partition", str(partition), "--format", "json").json


def rows(printed: str) -> list[dict[str, str]]:
    heading, *lines = [line.split("\t") for line in printed.splitlines() if line.strip()]
    names = [name.strip() for name in heading]
    return [dict(zip(names, (cell.strip() for cell in line), strict=True)) for line in lines]


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(message.value())
    assert message is not None
    consumer.close()
    return found


def test_a_transaction_from_begin_to_commit_matches_kafkas_tool(
    cli: Cli, tools: KafkaTools, broker: NodeProcess, payments: str, producer: Producer
) -> None:
    new = described(cli, payments)
    assert (new["state"], new["started_ms"], new["open_for_ms"], new["partitions"]) == ("Empty", None, None, [])

    producer.begin_transaction()
    producer.produce(payments, b"first", partition=1)
    producer.produce(payments, b"second", partition=0)
    assert producer.flush(30) == 0

    ongoing = described(cli, payments)
    (theirs,) = rows(tools.transactions("describe", "--transactional-id", payments))
    assert (
        str(ongoing["coordinator"]["node"]),
        ongoing["transactional_id"],
        str(ongoing["producer_id"]),
        str(ongoing["producer_epoch"]),
        ongoing["state"],
        str(ongoing["timeout_ms"]),
        str(ongoing["started_ms"]),
    ) == (
        theirs["CoordinatorId"],
        theirs["TransactionalId"],
        theirs["ProducerId"],
        theirs["ProducerEpoch"],
        theirs["TransactionState"],
        theirs["TransactionTimeoutMs"],
        theirs["CurrentTransactionStartTimeMs"],
    )
    assert (ongoing["state"], ongoing["partitions"]) == (
        "Ongoing",
        [{"topic": payments, "partition": 0}, {"topic": payments, "partition": 1}],
    )
    assert 0 <= ongoing["open_for_ms"] < 60_000
    assert f"{payments}:0,1" in cli.ok("txn", "describe", "--transactional-id", payments).output.decode()

    (writes,) = producers(cli, payments)
    (theirs,) = rows(tools.transactions("describe-producers", "--topic", payments, "--partition", "0"))
    assert [
        str(-1 if value is None else value)
        for value in (
            writes["producer_id"],
            writes["producer_epoch"],
            writes["coordinator_epoch"],
            writes["last_sequence"],
            writes["last_timestamp_ms"],
            writes["start_offset"],
        )
    ] == [
        theirs[name]
        for name in (
            "ProducerId",
            "ProducerEpoch",
            "LatestCoordinatorEpoch",
            "LastSequence",
            "LastTimestamp",
            "CurrentTransactionStartOffset",
        )
    ]
    assert writes["start_offset"] == 0
    assert cli.ok("txn", "producers", "-t", payments, "--partition", "0").output

    # It has not been idle for long enough, and its coordinator knows it.
    hanging = ("txn", "find-hanging", "--topic", payments, "--format", "json")
    assert cli.ok(*hanging).json == cli.ok(*hanging, "--max-transaction-timeout", "0").json == []
    assert "No hanging transactions." in cli.ok(*hanging[:-2]).messages

    producer.commit_transaction(60)
    until(lambda: described(cli, payments)["state"] == "CompleteCommit", 30)
    assert described(cli, payments)["open_for_ms"] is None
    assert producers(cli, payments)[0]["start_offset"] is None


def test_list_with_filters(cli: Cli, tools: KafkaTools, payments: str, producer: Producer) -> None:
    assert listed(cli)[payments]["state"] == "Empty"
    theirs = {one["TransactionalId"]: one for one in rows(tools.transactions("list"))}
    assert {
        name: (str(one["coordinator"]), str(one["producer_id"]), one["state"]) for name, one in listed(cli).items()
    } == {name: (one["Coordinator"], one["ProducerId"], one["TransactionState"]) for name, one in theirs.items()}

    assert payments not in listed(cli, "--state", "ongoing,prepareabort")
    assert payments in listed(cli, "--state", "Empty")
    assert payments not in listed(cli, "--transactional-id-pattern", "no-such-.*")
    assert payments in listed(cli, "--transactional-id-pattern", f"{payments[:5]}.*")
    producer.begin_transaction()
    producer.produce(payments, b"value", partition=0)
    assert producer.flush(30) == 0
    assert payments in listed(cli, "--duration-filter", "0")
    assert payments not in listed(cli, "--duration-filter", "3600000")
    assert payments.encode() in cli.ok("txn", "list").output
    assert "No matching transactions." in cli.ok("txn", "list", "--duration-filter", "3600000").messages
    producer.abort_transaction(60)


def is_stored(response: Any) -> bool:
    error = response.responses[0].partition_responses[0].error_code
    assert error in (ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas)
    return error is ErrorCode.none


def test_a_hanging_transaction_is_found_and_aborted(
    cli: Cli, tools: KafkaTools, broker: NodeProcess, payments: str, unverified: RawConnection
) -> None:
    old_ms = int(time.time() * 1000) - 3_600_000
    for number, value in enumerate((b"lost", b"lost as well")):
        stray = batch(
            TestRecord(value),
            timestamp=old_ms,
            attributes=TRANSACTIONAL,
            producer_id=STRAY_PRODUCER_ID,
            producer_epoch=0,
            base_sequence=number,
        )
        request = {**produce_fields(payments, stray), "transactional_id": "unknown-to-the-coordinator"}
        # Apache Kafka's broker may not know yet that it leads the new partition.
        until(lambda request=request: is_stored(unverified.request(Api.PRODUCE, 9, request)))
    plain = batch(TestRecord(b"kept"), timestamp=old_ms)
    assert unverified.request(Api.PRODUCE, 9, produce_fields(payments, plain)).responses
    assert read_committed(broker.bootstrap, payments) == []

    for scope in (("--topic", payments), ("--topic", payments, "--partition", "0"), ("--broker-id", "1"), ()):
        found = cli.ok("txn", "find-hanging", *scope, "--format", "json").json
        (hanging,) = [one for one in found if one["topic"] == payments]
        assert (hanging["partition"], hanging["start_offset"], hanging["producer_id"]) == (0, 0, STRAY_PRODUCER_ID)
    (theirs,) = rows(tools.transactions("find-hanging", "--topic", payments))
    assert (theirs["Topic"], theirs["Partition"], theirs["StartOffset"]) == (payments, "0", "0")
    assert (
        cli.ok("txn", "find-hanging", "-t", payments, "--max-transaction-timeout", "120", "--format", "json").json == []
    )
    assert str(STRAY_PRODUCER_ID).encode() in cli.ok("txn", "find-hanging", "-t", payments).output

    where = ("txn", "abort", "--topic", payments, "--partition", "0")
    assert "starts at offset" in cli.error_line(*where, "--start-offset", "1")
    assert "--producer-id with --producer-epoch and --coordinator-epoch" in cli.error_line(
        *where, "--producer-id", "4711"
    )
    assert f"Aborted the transaction of producer {STRAY_PRODUCER_ID}" in cli.ok(*where, "--start-offset", "0").messages
    assert read_committed(broker.bootstrap, payments) == [b"kept"]
    assert cli.ok("txn", "find-hanging", "-t", payments, "--format", "json").json == []
    assert "starts at offset" in cli.error_line(*where, "--start-offset", "0")


def test_abort_with_a_wrong_producer_epoch_is_rejected(cli: Cli, payments: str, producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce(payments, b"value", partition=0)
    assert producer.flush(30) == 0
    (before,) = producers(cli, payments)
    cli.ok("txn", "abort", "--transactional-id", payments)
    until(lambda: producers(cli, payments)[0]["start_offset"] is None, 30)
    stale = ("--producer-id", str(before["producer_id"]), "--producer-epoch", "0", "--coordinator-epoch", "-1")
    said = cli.error_line("txn", "abort", "--topic", payments, "--partition", "0", *stale, "-y")
    assert "INVALID_PRODUCER_EPOCH" in said


@pytest.mark.parametrize(
    "command", [("abort", "--transactional-id"), ("forceTerminateTransaction", "--transactionalId")]
)
def test_abort_by_transactional_id_fences_the_producer(
    cli: Cli, broker: NodeProcess, payments: str, producer: Producer, command: tuple[str, str]
) -> None:
    producer.begin_transaction()
    producer.produce(payments, b"value", partition=0)
    assert producer.flush(30) == 0
    assert (
        f"Aborted the transaction of {payments} and fenced its producer."
        in cli.ok("txn", *command, payments, "-y").messages
    )
    until(lambda: producers(cli, payments)[0]["start_offset"] is None, 30)
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(60)
    assert read_committed(broker.bootstrap, payments) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("describe",), "Specify one or more transactional IDs"),
        (("describe", "no-such-id"), "Transactional ID 'no-such-id' does not exist"),
        (("abort", "--transactional-id", "no-such-id"), "Transactional ID 'no-such-id' does not exist"),
        (("abort", "--transactional-id", "x", "--topic", "y"), "Remove --topic and --partition"),
        (("abort",), "Specify --topic, --partition and --start-offset"),
        (("abort", "--topic", "x"), "Specify --topic, --partition and --start-offset"),
        (("abort", "--topic", "no-such-topic", "--partition", "0", "--start-offset", "0"), "does not exist"),
        (("abort", "--topic", "x", "--partition", "-1"), "--partition"),
        (("list", "--state", "asleep"), "--state: unknown value 'asleep'"),
        (("list", "--transactional-id-pattern", "("), "INVALID_REGULAR_EXPRESSION"),
        (("producers", "--topic", "no-such-topic", "--partition", "0"), "does not exist"),
        (("producers",), "--topic"),
        (("find-hanging", "--partition", "0"), "--partition requires --topic"),
        (("find-hanging", "--topic", "no-such-topic"), "does not exist"),
        (("list", "-b", "127.0.0.1:1"), "Check --bootstrap"),
    ],
)
def test_errors_are_one_line(cli: Cli, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in cli.error_line("txn", *arguments)


def test_unknown_partition_and_partition_without_producers(cli: Cli, payments: str) -> None:
    assert "has no partition 7" in cli.error_line("txn", "producers", "--topic", payments, "--partition", "7")
    assert "has no active producers" in cli.ok("txn", "producers", "--topic", payments, "--partition", "1").messages
