"""Reads the records of a topic that a read_committed consumer sees."""

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.wire.plain_requests import until

TIMEOUT_S = 40.0


def committed_records(bootstrap: str, topic: str, partitions: int) -> list[list[bytes]]:
    """The values of each partition, up to the first transaction that is still open."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "committed-records",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    ended: set[int] = set()

    def is_at_the_end() -> bool:
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                found[message.partition()].append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return len(ended) == partitions

    try:
        until(is_at_the_end, TIMEOUT_S, what=f"the end of {topic}")
        return found
    finally:
        consumer.close()
