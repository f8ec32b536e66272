"""The keys behind the traffic of the partitions that this broker leads.

Nobody who produces waits for it: now and then a few batches of what was written since are read again, at random, from
where they still are in memory, and their keys go into the partition's sketch. How many depends on how much was written,
and is bounded: for partitions, batches and records alike.
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
"""Sketches that are kept, and partitions looked at in one go: those with the most new records."""
BATCHES_PER_SAMPLE: Final = 100
"""Of so many batches written one is looked at."""
SAMPLES_MAX: Final = 8
"""Batches of one partition in one go."""
RECORDS_MAX: Final = 64
"""Of one batch, its first."""
BATCH_BYTES_MAX: Final = 1 << 20
"""Larger ones are passed over, compressed or not: what they cost is not worth it."""
SHOWN: Final = 5


class _Range(NamedTuple):
    """What was written to a partition since it was last looked at."""

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
        # Where each partition ended, and how many batches it had taken, when it was last looked at.
        self._looked_at: dict[TopicPartition, tuple[int, int]] = {}

    async def look(self, seconds: float) -> None:
        """So much time has passed since the last look."""
        for sketch in self._sketches.values():
            sketch.fade(seconds)
        busiest = sorted(self._new_ranges(), key=lambda one: one.start - one.end)[:PARTITIONS_MAX]
        for one in busiest:
            offsets = [one.start + self._random.randrange(one.end - one.start) for _ in range(_samples(one.batches))]
            seen = await self._executor.run(lambda one=one, at=offsets: _read(one, at), lane=LANE)  # type: ignore[misc]
            if seen:
                self._sketches.setdefault(one.name, KeySketch()).add(seen)
        self._forget()

    def _new_ranges(self) -> list[_Range]:
        """Of the partitions that are led here."""
        known, self._looked_at = self._looked_at, {}
        found: list[_Range] = []
        for partition in self._partitions():
            name = partition.name
            if not partition.is_leader or partition.unavailable is not None:
                continue
            end, batches = partition.high_watermark, partition.traffic.appends
            self._looked_at[name] = end, batches
            # The first look finds nothing new: what was written long ago is no traffic.
            last_end, last_batches = known.get(name, (end, batches))
            if end > last_end and batches > last_batches:
                found.append(_Range(name, partition.log, last_end, end, batches - last_batches))
        return found

    def _forget(self) -> None:
        """Whatever is not led here any more, has faded, or is one too many."""
        kept = [(name, one) for name, one in self._sketches.items() if name in self._looked_at and not one.is_empty]
        kept.sort(key=lambda one: -one[1].by_bytes.total)
        self._sketches = dict(kept[:PARTITIONS_MAX])

    def shown(self, name: TopicPartition) -> dict[str, Any]:
        """As JSON: the heaviest keys of a partition, with their shares; nothing where nothing was seen."""
        sketch = self._sketches.get(name)
        if sketch is None:
            return {}
        return {
            "hot_keys": {
                "by_records": [_shown(one) for one in sketch.by_records.top(SHOWN)],
                "by_bytes": [_shown(one) for one in sketch.by_bytes.top(SHOWN)],
            }
        }


def _samples(batches: int) -> int:
    return min(SAMPLES_MAX, 1 + batches // BATCHES_PER_SAMPLE)


def _read(one: _Range, offsets: list[int]) -> list[Seen]:
    """The batches at these offsets. A batch of many records is met as often as that: each of them stands for fewer."""
    seen: list[Seen] = []
    for offset in offsets:
        try:
            read = one.log.read_cached(offset, 1, end_offset_exclusive=one.end)
            # What memory does not hold any more is not worth a wait for the disk.
            if read is None or len(read.data) > BATCH_BYTES_MAX:
                continue
            header = parse_batches(read.data)[0]
            if header.is_control:
                continue
            payload = records_payload(read.data, header, BATCH_BYTES_MAX)
            records = list(islice(iterate_records(payload, header), RECORDS_MAX))
        except (KafkaError, IndexError):
            # Deleted, compacted away or damaged: whoever reads it is told, and there are other batches.
            continue
        stands_for = (one.end - one.start) / len(offsets) / max(1, len(records))
        for record in records:
            key = record.key if record.key is None else bytes(record.key[:KEY_BYTES_MAX])
            seen.append(Seen(key, len(record.key or b"") + len(record.value or b""), stands_for))
    return seen


def _shown(share: Share) -> dict[str, Any]:
    shown: dict[str, Any] = {"share": round(share.share, 4)}
    if share.key is None:
        return shown | {"key": None}
    try:
        return shown | {"key": share.key.decode()}
    except UnicodeDecodeError:
        return shown | {"key_base64": base64.b64encode(share.key).decode()}
