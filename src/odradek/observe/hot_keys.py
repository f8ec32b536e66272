"""Samples the hot keys of the partitions that this broker leads.

Sampling costs producers nothing: periodically, a few random batches of the new records are read again from the page
cache, and their keys are added to the partition's sketch. The number of samples grows with the traffic, and is bounded
for partitions, batches and records.
"""

import base64
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Executor, Random
from odradek.instruments.hot_keys import KEY_BYTES_MAX, KeySketch, Seen, Share
from odradek.records.batch import parse_batches
from odradek.records.decode import iterate_records, records_payload
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.partition import Partition

INTERVAL_MS: Final = 5_000
LANE: Final = "hot keys"
PARTITIONS_MAX: Final = 100
"""Sketches kept, and partitions sampled per round: those with the most new records."""
BATCHES_PER_SAMPLE: Final = 100
"""One of this many batches is sampled."""
SAMPLES_MAX: Final = 8
"""Batches of one partition per round."""
RECORDS_MAX: Final = 64
"""The first records of a batch."""
BATCH_BYTES_MAX: Final = 1 << 20
"""Larger batches are skipped: decoding them costs too much."""
KEYS_SHOWN_MAX: Final = 5


class _Range(NamedTuple):
    """The records written to a partition since the last round."""

    name: TopicPartition
    log: PartitionLog
    start: int
    end: int
    batches: int


class HotKeys:
    def __init__(self, partitions: Callable[[], Iterable[Partition]], executor: Executor, random: Random) -> None:
        self._partitions: Final = partitions
        self._executor: Final = executor
        self._random: Final = random
        self._sketches: dict[TopicPartition, KeySketch] = {}
        # The high watermark and the number of batches of each partition in the last round.
        self._last_round: dict[TopicPartition, tuple[int, int]] = {}

    async def sample(self, seconds: float) -> None:
        """Runs one round, `seconds` after the last one."""
        for sketch in self._sketches.values():
            sketch.fade(seconds)
        busiest = sorted(self._new_ranges(), key=lambda one: one.start - one.end)[:PARTITIONS_MAX]
        for one in busiest:
            offsets = [one.start + self._random.randrange(one.end - one.start) for _ in range(_samples(one.batches))]
            seen = await self._executor.run(lambda one=one, at=offsets: _read(one, at), lane=LANE)  # type: ignore[misc]
            if seen:
                self._sketches.setdefault(one.name, KeySketch()).add(seen)
        self._drop_sketches()

    def _new_ranges(self) -> list[_Range]:
        """The new records of the partitions that this broker leads."""
        known, self._last_round = self._last_round, {}
        found: list[_Range] = []
        for partition in self._partitions():
            name = partition.name
            if not partition.is_leader or partition.unavailable is not None:
                continue
            end, batches = partition.high_watermark, partition.traffic.appends
            self._last_round[name] = end, batches
            # The first round samples nothing: old records are not current traffic.
            last_end, last_batches = known.get(name, (end, batches))
            if end > last_end and batches > last_batches:
                found.append(_Range(name, partition.log, last_end, end, batches - last_batches))
        return found

    def _drop_sketches(self) -> None:
        """Drops sketches of partitions led elsewhere, empty ones, and the lightest above the limit."""
        kept = [(name, one) for name, one in self._sketches.items() if name in self._last_round and not one.is_empty]
        kept.sort(key=lambda one: -one[1].by_bytes.total)
        self._sketches = dict(kept[:PARTITIONS_MAX])

    def describe(self, name: TopicPartition) -> dict[str, Any]:
        """The hot keys of a partition and their shares, for JSON; empty without samples."""
        sketch = self._sketches.get(name)
        if sketch is None:
            return {}
        return {
            "hot_keys": {
                "by_records": [_describe_share(one) for one in sketch.by_records.top(KEYS_SHOWN_MAX)],
                "by_bytes": [_describe_share(one) for one in sketch.by_bytes.top(KEYS_SHOWN_MAX)],
            }
        }


def _samples(batches: int) -> int:
    return min(SAMPLES_MAX, 1 + batches // BATCHES_PER_SAMPLE)


def _read(one: _Range, offsets: list[int]) -> list[Seen]:
    """Samples the batches at these offsets. Large batches are hit more often, so each of their records counts less."""
    seen: list[Seen] = []
    for offset in offsets:
        try:
            read = one.log.read_cached(offset, 1, end_offset_exclusive=one.end)
            # Records that are not in the page cache are not worth a disk read.
            if read is None or len(read.data) > BATCH_BYTES_MAX:
                continue
            header = parse_batches(read.data)[0]
            if header.is_control:
                continue
            payload = records_payload(read.data, header, BATCH_BYTES_MAX)
            records = list(islice(iterate_records(payload, header), RECORDS_MAX))
        except (KafkaError, IndexError):
            # Deleted, compacted or damaged: other batches will do.
            continue
        stands_for = (one.end - one.start) / len(offsets) / max(1, len(records))
        for record in records:
            key = record.key if record.key is None else bytes(record.key[:KEY_BYTES_MAX])
            seen.append(Seen(key, len(record.key or b"") + len(record.value or b""), stands_for))
    return seen


def _describe_share(share: Share) -> dict[str, Any]:
    shown: dict[str, Any] = {"share": round(share.share, 4)}
    if share.key is None:
        return shown | {"key": None}
    try:
        return shown | {"key": share.key.decode()}
    except UnicodeDecodeError:
        return shown | {"key_base64": base64.b64encode(share.key).decode()}
