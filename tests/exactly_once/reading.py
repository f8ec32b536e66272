"""What committed readers find: while records are copied, and when all is done."""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.cluster.real_cluster import wait_for

Values = list[list[bytes]]
"""By partition, in the order of offsets."""
_SHOWN: Final = 5


class Reader(threading.Thread):
    """Reads all partitions from their beginning, and only what is committed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name=f"reader of {topic}", daemon=True)
        self.found: Final[Values] = [[] for _ in range(partitions)]
        self._consumer: Final = _reading(bootstrap, "read_committed")
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        self._enough: Final = threading.Event()

    @property
    def count(self) -> int:
        return sum(map(len, self.found))

    def run(self) -> None:
        while not self._enough.is_set():
            for message in self._consumer.consume(1000, 0.1):
                partition, value = message.partition(), message.value()
                if message.error() is None and partition is not None and value is not None:
                    self.found[partition].append(value)
        self._consumer.close()

    def stop(self) -> None:
        self._enough.set()
        if self.is_alive():
            self.join()


def read_committed(bootstrap: str, topic: str, partitions: int, seconds_max: float) -> Values:
    """Everything, as soon as no transaction is left open."""
    all_partitions = [TopicPartition(topic, number, 0) for number in range(partitions)]

    def is_nothing_open() -> bool:
        stable = _ends(bootstrap, all_partitions, "read_committed")
        return stable is not None and stable == _ends(bootstrap, all_partitions, "read_uncommitted")

    wait_for(f"the ends of all transactions in {topic}", is_nothing_open, seconds_max)
    consumer = _reading(bootstrap, "read_committed")
    consumer.assign(all_partitions)
    found: Values = [[] for _ in range(partitions)]
    ended: set[int] = set()

    def are_read() -> bool:
        for message in consumer.consume(1000, 0.2):
            error, partition, value = message.error(), message.partition(), message.value()
            if error is None and partition is not None and value is not None:
                found[partition].append(value)
            elif error is not None and error.code() == KafkaError._PARTITION_EOF and partition is not None:
                ended.add(partition)
        return len(ended) == partitions

    try:
        wait_for(f"the end of {topic}", are_read, seconds_max)
        return found
    finally:
        consumer.close()


def differences(reader: str, expected: Values, found: Values) -> list[str]:
    """What is lost, there twice, made up or out of order; nothing where output equals input."""
    said: list[str] = []
    for number, its_found in enumerate(found):
        its_expected = expected[number] if number < len(expected) else []
        if its_found == its_expected:
            continue
        missing, surplus = Counter(its_expected), Counter(its_found)
        missing.subtract(its_found)
        surplus.subtract(its_expected)
        where = f"{reader}, partition {number}"
        lost, repeated = list((+missing).elements()), list((+surplus).elements())
        said += [f"{where}: {len(lost)} lost: {_shown(lost)}"] if lost else []
        said += [f"{where}: {len(repeated)} too many: {_shown(repeated)}"] if repeated else []
        if not lost and not repeated:
            place = next(at for at, one in enumerate(its_found) if one != its_expected[at])
            said.append(f"{where}: out of order from record {place} on: {_shown(its_found[place:])}")
    return said


def _shown(values: Sequence[bytes]) -> str:
    return ", ".join(value.decode(errors="replace") for value in values[:_SHOWN]) + (
        ", …" if len(values) > _SHOWN else ""
    )


def _reading(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "log_level": 0,
        }
    )


def _ends(bootstrap: str, partitions: list[TopicPartition], isolation: str) -> list[int] | None:
    """None while one has no leader."""
    # A new one each time: librdkafka remembers who had no leader.
    consumer = _reading(bootstrap, isolation)
    try:
        return [consumer.get_watermark_offsets(one, 10)[1] for one in partitions]
    except KafkaException:
        return None
    finally:
        consumer.close()
