"""InitProducerId, deduplication by sequence numbers, and DescribeProducers."""

import time
from typing import Any

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, fetch_fields, produce_fields, scenario
from tests.record_batches import TRANSACTIONAL, TestRecord, batch

LAST_SEQUENCE = 2**31 - 1


@scenario
def init_producer_id(talk: Conversation) -> None:
    talk.new_producer()
    plain = {"transactional_id": None, "transaction_timeout": 60_000}
    talk.request_each_version("a new producer", Api.INIT_PRODUCER_ID, plain)
    for label, others in (
        ("a timeout of zero", {"transaction_timeout": 0}),
        ("a negative timeout", {"transaction_timeout": -1}),
        ("an id without epoch", {"producer_id": 5}),
        ("an epoch without id", {"producer_epoch": 5}),
        ("an id and an epoch", {"producer_id": 5, "producer_epoch": 0}),
        ("a negative id", {"producer_id": -2, "producer_epoch": 0}),
        ("an empty transactional id", {"transactional_id": ""}),
    ):
        talk.request(label, Api.INIT_PRODUCER_ID, {**plain, **others})


class _Producer:
    """Sends batches of one producer id with any sequence number and epoch."""

    def __init__(self, talk: Conversation, topic: str) -> None:
        self._talk = talk
        self._topic = topic
        self.id, self.epoch = talk.new_producer()

    def send(self, label: str, sequence: int, *, records: int = 1, epoch: int | None = None, **others: Any) -> None:
        data = batch(
            *[TestRecord(b"%d" % (sequence + number)) for number in range(records)],
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            **others,
        )
        self._talk.request(label, Api.PRODUCE, produce_fields(self._topic, data), version=9)


@scenario
def sequences(talk: Conversation) -> None:
    talk.create_topic("sequences")
    producer = _Producer(talk, "sequences")
    producer.send("sequence 0", 0)
    producer.send("sequence 0 again", 0)
    producer.send("a gap", 5)
    producer.send("sequence 1, three records", 1, records=3)
    producer.send("the same three records", 1, records=3)
    producer.send("only two of them", 1, records=2)
    producer.send("the last of them", 3)
    for sequence in range(4, 10):
        producer.send(f"sequence {sequence}", sequence)
    producer.send("sequence 5, the oldest of the last five", 5)
    producer.send("sequence 4, older than the last five", 4)
    producer.send("sequence 0, long forgotten", 0)
    producer.send("a step back and over", 8, records=3)
    talk.request("what was kept", Api.FETCH, fetch_fields("sequences"), version=12)


@scenario
def sequences_at_the_start(talk: Conversation) -> None:
    talk.create_topic("starts")
    _Producer(talk, "starts").send("a producer that starts at 7", 7)
    _Producer(talk, "starts").send("a producer without sequence", -1)
    _Producer(talk, "starts").send("a sequence of -2", -2)
    _Producer(talk, "starts").send("an epoch of -1", 0, epoch=-1)
    _Producer(talk, "starts").send("an epoch the producer does not have", 0, epoch=3)
    _Producer(talk, "starts").send("a transactional batch", 0, attributes=TRANSACTIONAL)
    wrapping = _Producer(talk, "starts")
    wrapping.send("the last sequence", LAST_SEQUENCE)
    wrapping.send("and then zero", 0)
    wrapping.send("and one", 1)
    wrapping.send("the last sequence again", LAST_SEQUENCE)
    over = _Producer(talk, "starts")
    over.send("two before the end", LAST_SEQUENCE - 1, records=4)
    over.send("after the wrap", 2)
    talk.request("what was kept", Api.FETCH, fetch_fields("starts"), version=12)


@scenario
def producer_epochs(talk: Conversation) -> None:
    talk.create_topic("fenced")
    producer = _Producer(talk, "fenced")
    producer.send("epoch 0", 0)
    producer.send("epoch 2 with a sequence that goes on", 1, epoch=2)
    producer.send("epoch 2 from zero", 0, epoch=2)
    producer.send("epoch 1, too late", 1, epoch=1)
    producer.send("epoch 0, too late", 1, epoch=0)
    producer.send("epoch 2 goes on", 1, epoch=2)
    for version in (3, 7, 8, 10):
        data = batch(TestRecord(), producer_id=producer.id, producer_epoch=1, base_sequence=2)
        talk.request("an old epoch", Api.PRODUCE, produce_fields("fenced", data), version=version)


@scenario
def describe_producers(talk: Conversation) -> None:
    talk.create_topic("described", partitions=2)
    producer = _Producer(talk, "described")
    api = Api.DESCRIBE_PRODUCERS

    def about(topic: str, *partitions: int) -> dict[str, Any]:
        return {"topics": [{"name": topic, "partition_indexes": partitions}]}

    talk.request("nobody yet", api, about("described", 0, 1))
    now_ms = int(time.time() * 1000)
    producer.send("one record", 0, timestamp=now_ms)
    producer.send("three more", 1, records=3, timestamp=now_ms)
    talk.request("one producer", api, about("described", 0, 1))
    _Producer(talk, "described").send("a record of long ago", 0)
    talk.request("its producer has expired already", api, about("described", 0))
    talk.request("a topic that is not there", api, about("nowhere", 0))
    talk.request("a partition that is not there", api, about("described", 0, 9))
    talk.request("an illegal topic name", api, about("no/slash", 0))
    talk.request("no topic", api, {"topics": []})
