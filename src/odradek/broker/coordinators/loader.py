"""Loads a partition's log into a shard: a worker reads it, the loop decodes and replays a few records at a time."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from odradek.base.errors import ErrorCode, KafkaError, WorkerFailed
from odradek.base.ports import Pool, Workers
from odradek.broker.coordinators.loading_program import (
    LoadedMarker,
    LoadedRecord,
    LoadRequest,
    decode_entries,
)
from odradek.broker.coordinators.shard import CoordinatorShard
from odradek.storage.log.reading import floor_slot
from odradek.storage.partition.partition import Partition

logger = logging.getLogger(__name__)

# Records that are replayed before the loop runs other callbacks.
RECORDS_PER_TURN_MAX: Final = 200

Decode = Callable[[bytes | None, bytes | None], Any]


class LogLoader:
    def __init__(
        self,
        partition: Partition,
        shard: CoordinatorShard[Any, Any, Any],
        *,
        decode: Decode,
        now_ms: Callable[[], int],
        workers: Workers,
    ) -> None:
        self._partition: Final = partition
        self._shard: Final = shard
        self._decode: Final = decode
        self._now_ms: Final = now_ms
        self._workers: Final = workers
        self._uses_processes = True
        # From here on nothing was replayed yet; None while a window is incomplete.
        self._next_offset: int | None = partition.log.log_start_offset
        self.records = 0

    async def load(self, end_offset: int) -> None:
        """Raises the errors of the disk, of the records and of the decoders, and WorkerFailed."""
        request = self._new_request(end_offset)
        while request.start_offset < end_offset:
            try:
                await self._replay_all(request)
                return
            except FileNotFoundError:
                # Without another job of the partition, so that no segment is being replaced.
                current = await self._partition.run_exclusively(lambda: self._new_request(end_offset))
                if self._partition.log.is_deleted:
                    raise KafkaError(ErrorCode.not_leader_or_follower) from None
                if current == request:
                    raise
                request = current
            except WorkerFailed as error:
                if self._next_offset is None or not self._uses_processes:
                    raise
                logger.warning("Loading %s in a thread: %s", self._partition.name, error)
                self._uses_processes = False
                request = self._new_request(end_offset)

    def _new_request(self, end_offset: int) -> LoadRequest:
        log = self._partition.log
        assert self._next_offset is not None
        start_offset = max(self._next_offset, log.log_start_offset)
        segments = log.segments
        files = [(one.base_offset, one.size) for one in segments[floor_slot(segments, start_offset) :]]
        return LoadRequest(log.directory, files, start_offset, end_offset)

    async def _replay_all(self, request: LoadRequest) -> None:
        input_bytes = request.input_bytes if self._uses_processes else 0
        task = self._workers.start(Pool.LOADING, request.to_message(), input_bytes=input_bytes)
        try:
            while (message := await task.next()) is not None:
                self._next_offset = None
                entries = decode_entries(message.data)
                while turn := tuple(islice(entries, RECORDS_PER_TURN_MAX)):
                    self._replay(turn)
                    await asyncio.sleep(0)
                self._next_offset = message.fields["next_offset"]
        finally:
            task.close()

    def _replay(self, entries: Sequence[LoadedRecord | LoadedMarker]) -> None:
        shard, now_ms = self._shard, self._now_ms()
        for entry in entries:
            if isinstance(entry, LoadedMarker):
                shard.replay_marker(entry.producer_id, commits=entry.commits, offset=entry.offset)
                continue
            content = self._decode(entry.key, entry.value)
            if content is not None:
                shard.replay(content, entry.offset, now_ms, entry.producer_id)
        self.records += len(entries)
