"""Finds hot partitions, which receive far more than their share of bytes in, and the reason."""

from dataclasses import dataclass
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.traffic import HotKey
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import inert

# A hot partition exceeds both this multiple of the average and this rate.
_TIMES: Final = 3.0
_LEAST_BYTES_PER_S: Final = 1000.0
# A key with at least this share of its partition explains the heat.
_KEY_SHARE: Final = 0.2
_KEY_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    written: dict[TopicPartition, float]
    """Bytes per second from clients."""
    total: float
    average: float

    def is_hot(self, partition: TopicPartition) -> bool:
        rate = self.written.get(partition, 0.0)
        return rate >= max(_LEAST_BYTES_PER_S, _TIMES * self.average)

    def share(self, partition: TopicPartition) -> float:
        return self.written.get(partition, 0.0) / self.total if self.total else 0.0


def heat_of(snapshot: ClusterSnapshot) -> Heat:
    written: dict[TopicPartition, float] = {}
    for held in snapshot.traffic.rates.values():
        for partition, rates in held.items():
            if rates.bytes_in:
                written[partition] = written.get(partition, 0.0) + rates.bytes_in
    total = sum(written.values())
    count = sum(len(topic.partitions) for topic in snapshot.topics.values() if not topic.is_internal)
    return Heat(written=written, total=total, average=total / count if count else 0.0)


def reason_of(snapshot: ClusterSnapshot, heat: Heat, partition: TopicPartition) -> str:
    """`45 % of all bytes in; key 'x' is 80 % of it`."""
    text = f"{heat.share(partition):.0%} of all bytes in"
    keys = snapshot.traffic.hot_keys.get(partition, ())
    heavy = [one for one in keys if one.share >= _KEY_SHARE]
    return f"{text}; {', '.join(map(_key, heavy[:2]))} of it" if heavy else text


def _key(one: HotKey) -> str:
    if one.key is None:
        return f"records without a key are {one.share:.0%}"
    shown = inert(one.key[:_KEY_CHARACTERS].decode(errors="backslashreplace"))
    return f"key {shown} is {one.share:.0%}"
