"""Loads a partition's log into a shard: threads read and decode it, the loop replays a few records at a time."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Executor, Pool
from odradek.broker.coordinators.shard import CoordinatorShard
from odradek.records.batch import NO_PRODUCER_ID, BatchHeader, check_crc, parse_batches
from odradek.records.control import EndTransactionMarker, decode_control
from odradek.records.decode import decode_batch, keys_and_values, records_payload
from odradek.storage.log.partition_log import PartitionLog

SLICE_BYTES: Final = 256 << 10
# Records that are replayed before the loop runs other callbacks.
RECORDS_PER_TURN_MAX: Final = 500

Decode = Callable[[bytes | None, bytes | None], Any]


class Loaded(NamedTuple):
    """A decoded record, or the marker that ends a transaction."""

    offset: int
    producer_id: int
    content: Any


class Slice(NamedTuple):
    loaded: list[Loaded]
    next_offset: int


async def replay_log(
    log: PartitionLog,
    end_offset: int,
    shard: CoordinatorShard[Any, Any, Any],
    *,
    decode: Decode,
    now_ms: Callable[[], int],
    executor: Executor,
) -> int:
    """Returns the number of records. Raises the errors of the disk and of the decoders."""
    offset = log.log_start_offset
    count = 0
    while offset < end_offset:
        try:
            part = await executor.run(partial(read_slice, log, decode, offset, end_offset), pool=Pool.LOADING)
        except KafkaError as error:
            if error.code is not ErrorCode.offset_out_of_range or log.log_start_offset <= offset:
                raise
            # The log start offset has advanced meanwhile: deleted records are not needed.
            offset = log.log_start_offset
            continue
        for start in range(0, len(part.loaded), RECORDS_PER_TURN_MAX):
            _replay(part.loaded[start : start + RECORDS_PER_TURN_MAX], shard, now_ms())
            await asyncio.sleep(0)
        count += len(part.loaded)
        offset = part.next_offset
    return count


def _replay(loaded: Iterable[Loaded], shard: CoordinatorShard[Any, Any, Any], now_ms: int) -> None:
    for offset, producer_id, content in loaded:
        if isinstance(content, EndTransactionMarker):
            shard.replay_marker(producer_id, commits=content.committed, offset=offset)
        else:
            shard.replay(content, offset, now_ms, producer_id)


def read_slice(log: PartitionLog, decode: Decode, offset: int, end_offset: int) -> Slice:
    """The records from `offset` on. Raises KafkaError below the log start offset."""
    read = log.read(offset, SLICE_BYTES, end_offset_exclusive=end_offset)
    data = read.data
    batches = parse_batches(data)
    loaded: list[Loaded] = []
    for batch in batches:
        check_crc(data, batch)
        loaded += _contents(data, batch, decode, offset)
    # Where no batch was found, compaction has removed everything below the end offset.
    return Slice(loaded, read.next_offset if batches else max(read.next_offset, end_offset))


def _contents(data: bytes, batch: BatchHeader, decode: Decode, offset: int) -> Iterator[Loaded]:
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
    if batch.is_control:
        for record in decode_batch(data, batch):
            marker = decode_control(record)
            if record.offset >= offset and isinstance(marker, EndTransactionMarker):
                yield Loaded(record.offset, producer_id, marker)
        return
    for at, key, value in keys_and_values(records_payload(data, batch), batch):
        content = decode(key, value)
        if at >= offset and content is not None:
            yield Loaded(at, producer_id, content)
