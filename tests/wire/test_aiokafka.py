"""aiokafka: the client of asyncio programs."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError, for_code

from tests.node_process import NodeProcess

TIMEOUT_S = 20.0
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def create(broker: NodeProcess, topic: str, **configs: str) -> None:
    async with _admin(broker) as admin:
        new = NewTopic(topic, 1, 1, topic_configs={key.replace("_", "."): value for key, value in configs.items()})
        _raise_errors(await admin.create_topics([new]))


def _admin(broker: NodeProcess) -> Any:
    class _Admin:
        async def __aenter__(self) -> AIOKafkaAdminClient:
            self.client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
            await self.client.start()
            return self.client

        async def __aexit__(self, *_: object) -> None:
            await self.client.close()

    return _Admin()


def _raise_errors(response: Any) -> None:
    """aiokafka returns the response without checking its errors."""
    for _, code, *message in getattr(response, "topic_errors", None) or response.topic_error_codes:
        if code:
            raise for_code(code)(*message)


async def consume(broker: NodeProcess, topic: str, count: int) -> list[Any]:
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        return [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_codec_and_acks(broker: NodeProcess, topic: str, codec: str | None, acks: int | str) -> None:
    async def work() -> None:
        await create(broker, topic)
        values = [b"value %d " % number * 20 for number in range(100)]
        settings = {"acks": acks, "compression_type": codec, "linger_ms": 5}
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **settings) as producer:
            await asyncio.gather(*[await producer.send(topic, value, key=b"k") for value in values])
        assert [record.value for record in await consume(broker, topic, 100)] == values

    run(work())


def test_idempotent_producer(broker: NodeProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True) as producer:
            sent = [await producer.send(topic, b"%d" % number) for number in range(500)]
            offsets = [(await future).offset for future in sent]
        assert offsets == list(range(500))

    run(work())


def test_headers_and_timestamps(broker: NodeProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        headers = [("h", b"1"), ("h", b"2")]
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(topic, b"v", timestamp_ms=1_600_000_000_000, headers=headers)
        (record,) = await consume(broker, topic, 1)
        assert (record.timestamp, list(record.headers)) == (1_600_000_000_000, headers)

    run(work())


def test_too_large_message_is_rejected(broker: NodeProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic, max_message_bytes="1000")
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 5000)

    run(work())


def test_offsets(broker: NodeProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"%d" % number, timestamp_ms=1_000_000 + number * 10)
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            assert await consumer.end_offsets([partition]) == {partition: 10}
            assert (await consumer.offsets_for_times({partition: 1_000_045}))[partition].offset == 5
            consumer.seek(partition, 999)
            with pytest.raises(OffsetOutOfRangeError):
                await asyncio.wait_for(consumer.getone(), TIMEOUT_S)

    run(work())


def test_admin(broker: NodeProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        with pytest.raises(TopicAlreadyExistsError):
            await create(broker, topic)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(10):
                await producer.send_and_wait(topic, b"v", partition=0)
        async with _admin(broker) as admin:
            assert topic in await admin.list_topics()
            await admin.create_partitions({topic: NewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            partition = TopicPartition(topic, 0)
            assert await admin.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "12345"})
            await admin.alter_configs([resource])
            (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            assert "retention.ms" in str(response)
            _raise_errors(await admin.delete_topics([topic]))
            assert topic not in await admin.list_topics()

    run(work())
