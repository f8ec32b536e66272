"""From a partition's log into a machine: read and decoded in a thread, replayed on the loop, a little at a time."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Executor
from odradek.broker.coordinators.machine import Machine
from odradek.records.batch import NO_PRODUCER_ID, BatchHeader, check_crc, parse_batches
from odradek.records.control import EndTransactionMarker, decode_control
from odradek.records.decode import decode_batch, keys_and_values, records_payload
from odradek.storage.log.partition_log import PartitionLog

SLICE_BYTES: Final = 256 << 10
# Records that are replayed before others have their turn on the loop.
REPLAYED_IN_A_ROW: Final = 500

Decode = Callable[[bytes | None, bytes | None], Any]


class Loaded(NamedTuple):
    """One record, decoded; or the marker that ends a transaction."""

    offset: int
    producer_id: int
    content: Any


class Slice(NamedTuple):
    loaded: list[Loaded]
    next_offset: int


async def replay_log(
    log: PartitionLog,
    end_offset: int,
    machine: Machine[Any, Any, Any],
    *,
    decode: Decode,
    now_ms: Callable[[], int],
    executor: Executor,
) -> int:
    """How many records there were. Raises what the disk and the records give reason for."""
    offset = log.log_start_offset
    count = 0
    while offset < end_offset:
        try:
            some = await executor.run(lambda at=offset: read_slice(log, decode, at, end_offset))  # type: ignore[misc]
        except KafkaError as error:
            if error.code is not ErrorCode.offset_out_of_range or log.log_start_offset <= offset:
                raise
            # The log begins later by now, and what is gone is of no use any more.
            offset = log.log_start_offset
            continue
        for start in range(0, len(some.loaded), REPLAYED_IN_A_ROW):
            _replay(some.loaded[start : start + REPLAYED_IN_A_ROW], machine, now_ms())
            await asyncio.sleep(0)
        count += len(some.loaded)
        offset = some.next_offset
    return count


def _replay(loaded: Iterable[Loaded], machine: Machine[Any, Any, Any], now_ms: int) -> None:
    for offset, producer_id, content in loaded:
        if isinstance(content, EndTransactionMarker):
            machine.replay_marker(producer_id, commits=content.committed, offset=offset)
        else:
            machine.replay(content, offset, now_ms, producer_id)


def read_slice(log: PartitionLog, decode: Decode, offset: int, end_offset: int) -> Slice:
    """What lies from `offset` on. Raises KafkaError where the log does not begin so early any more."""
    read = log.read(offset, SLICE_BYTES, end_offset_exclusive=end_offset)
    data = read.data
    batches = parse_batches(data)
    loaded: list[Loaded] = []
    for batch in batches:
        check_crc(data, batch)
        loaded += _contents(data, batch, decode, offset)
    # Where nothing was found, all that lay below the end was compacted away.
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
