"""Reads with read_committed, during the copying and after its end."""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.cluster.real_cluster import wait_for

Values = list[list[bytes]]
"""Values by partition, in order of their offsets."""
_SHOWN: Final = 5


class Reader(threading.Thread):
    """Reads committed records of all partitions from their beginning."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name=f"reader of {topic}", daemon=True)
        self.found: Final[Values] = [[] for _ in range(partitions)]
        self._consumer: Final = _new_consumer(bootstrap, "read_committed")
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        self._stop_event: Final = threading.Event()

    @property
    def count(self) -> int:
        return sum(map(len, self.found))

    def run(self) -> None:
        while not self._stop_event.is_set():
            for message in self._consumer.consume(1000, 0.1):
                partition, value = message.partition(), message.value()
                if message.error() is None and partition is not None and value is not None:
                    self.found[partition].append(value)
        self._consumer.close()

    def stop(self) -> None:
        self._stop_event.set()
        if self.is_alive():
            self.join()


def read_committed(bootstrap: str, topic: str, partitions: int, seconds_max: float) -> Values:
    """Waits until no transaction is open, then reads everything."""
    all_partitions = [TopicPartition(topic, number, 0) for number in range(partitions)]

    def has_no_open_transactions() -> bool:
        stable = _ends(bootstrap, all_partitions, "read_committed")
        return stable is not None and stable == _ends(bootstrap, all_partitions, "read_uncommitted")

    wait_for(f"the ends of all transactions in {topic}", has_no_open_transactions, seconds_max)
    consumer = _new_consumer(bootstrap, "read_committed")
    consumer.assign(all_partitions)
    found: Values = [[] for _ in range(partitions)]
    ended: set[int] = set()

    def has_read_all() -> bool:
        for message in consumer.consume(1000, 0.2):
            error, partition, value = message.error(), message.partition(), message.value()
            if error is None and partition is not None and value is not None:
                found[partition].append(value)
            elif error is not None and error.code() == KafkaError._PARTITION_EOF and partition is not None:
                ended.add(partition)
        return len(ended) == partitions

    try:
        wait_for(f"the end of {topic}", has_read_all, seconds_max)
        return found
    finally:
        consumer.close()


def differences(reader: str, expected: Values, found: Values) -> list[str]:
    """Describes missing, surplus and reordered records; empty if output equals input."""
    result: list[str] = []
    for number, found_values in enumerate(found):
        expected_values = expected[number] if number < len(expected) else []
        if found_values == expected_values:
            continue
        missing, surplus = Counter(expected_values), Counter(found_values)
        missing.subtract(found_values)
        surplus.subtract(expected_values)
        where = f"{reader}, partition {number}"
        absent, extra = list((+missing).elements()), list((+surplus).elements())
        result += [f"{where}: {len(absent)} missing: {_shown(absent)}"] if absent else []
        result += [f"{where}: {len(extra)} too many: {_shown(extra)}"] if extra else []
        if not absent and not extra:
            place = next(at for at, one in enumerate(found_values) if one != expected_values[at])
            result.append(f"{where}: out of order from record {place}: {_shown(found_values[place:])}")
    return result


def _shown(values: Sequence[bytes]) -> str:
    return ", ".join(value.decode(errors="replace") for value in values[:_SHOWN]) + (
        ", …" if len(values) > _SHOWN else ""
    )


def _new_consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "log_level": 0,
        }
    )


def _ends(bootstrap: str, partitions: list[TopicPartition], isolation: str) -> list[int] | None:
    """None while a partition has no leader."""
    # A new consumer each time, because librdkafka caches missing leaders.
    consumer = _new_consumer(bootstrap, isolation)
    try:
        return [consumer.get_watermark_offsets(one, 10)[1] for one in partitions]
    except KafkaException:
        return None
    finally:
        consumer.close()
