"""Sends transaction markers from a transaction coordinator to partition leaders, until each leader has written them.

Markers for partitions that this broker leads are written in the next turn of the loop, without a request: before the
producer that has just received its response can begin its next transaction.
It retries without limit: once a transaction is decided, all its partitions that still exist have to get its marker.
Only the unloading of the coordinator stops it; the next coordinator sends the markers again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from odradek.base.backoff import backoff_seconds
from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_LEADER, TopicPartition, partitions_by_topic
from odradek.base.ports import Random
from odradek.broker.coordinators.broker_queues import BrokerPeers, BrokerQueues
from odradek.core.metadata.image import ClusterImage
from odradek.core.transactions.commands import Markers
from odradek.server.peer import PeerError
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

TRANSACTIONS_PER_REQUEST_MAX: Final = 500
# Written on this broker before the loop runs other callbacks.
TRANSACTIONS_PER_TURN_MAX: Final = 64
BACKOFF_SECONDS_MAX: Final = 1.0
FAILURES_BETWEEN_WARNINGS: Final = 30

# Another coordinator, or the same producer in a later epoch, has replaced this marker. All other errors are retried.
_REPLACED: Final = frozenset((ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced))
# The leader supports no transactions, so none can be open in the partition.
_WITHOUT_TRANSACTIONS: Final = frozenset((ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version))


WriteHere = Callable[[Markers], DeferredResponse]
"""Writes markers to partitions that this broker leads. The result is the error code of each partition."""


class _PendingMarkers(NamedTuple):
    markers: Markers
    """For partitions that have the same leader."""
    is_current: Callable[[], bool]
    on_written: Callable[[frozenset[TopicPartition]], None]
    failures: int = 0


class MarkerSender:
    def __init__(
        self,
        node_id: int,
        peers: BrokerPeers,
        *,
        image: Callable[[], ClusterImage],
        random: Random,
        write_here: WriteHere,
    ) -> None:
        self._node_id: Final = node_id
        self._peers: Final = peers
        self._image: Final = image
        self._random: Final = random
        self._write_here: Final = write_here
        self._queues: Final = BrokerQueues[_PendingMarkers](self._send, TRANSACTIONS_PER_REQUEST_MAX)
        self._here: Final[deque[_PendingMarkers]] = deque()
        self._later: Final[set[asyncio.TimerHandle]] = set()

    def send(
        self, markers: Markers, is_current: Callable[[], bool], on_written: Callable[[frozenset[TopicPartition]], None]
    ) -> None:
        """Calls `on_written` with partitions that have written the marker or were deleted, while `is_current()`."""
        self._enqueue(_PendingMarkers(markers, is_current, on_written))

    def stop(self) -> None:
        self._queues.stop()
        self._here.clear()
        for timer in self._later:
            timer.cancel()

    def _enqueue(self, pending: _PendingMarkers) -> None:
        if not pending.is_current():
            return
        by_leader: dict[int, set[TopicPartition]] = {}
        deleted: set[TopicPartition] = set()
        for name in sorted(pending.markers.partitions):
            topic = self._image().topics_by_name.get(name.topic)
            partition = None if topic is None else topic.partitions.get(name.partition)
            if partition is None:
                deleted.add(name)
            else:
                by_leader.setdefault(partition.leader, set()).add(name)
        for leader, names in by_leader.items():
            part = pending._replace(markers=pending.markers._replace(partitions=frozenset(names)))
            if leader == NO_LEADER:
                self._retry(part, names)
            elif leader == self._node_id:
                self._here.append(part)
                if len(self._here) == 1:
                    asyncio.get_running_loop().call_soon(self._write_all_here)
            else:
                self._queues.add(leader, part)
        if deleted:
            pending.on_written(frozenset(deleted))

    def _retry(self, pending: _PendingMarkers, names: set[TopicPartition]) -> None:
        failures = pending.failures + 1
        if failures % FAILURES_BETWEEN_WARNINGS == 0:
            partitions = ", ".join(map(str, sorted(names)))
            logger.warning(
                "Transaction markers not written: transactional id %s, partitions %s, %d attempts",
                pending.markers.transactional_id,
                partitions,
                failures,
            )
        repeated = pending._replace(markers=pending.markers._replace(partitions=frozenset(names)), failures=failures)

        def enqueue() -> None:
            self._later.discard(timer)
            self._enqueue(repeated)

        delay_seconds = backoff_seconds(failures, BACKOFF_SECONDS_MAX, self._random)
        timer = asyncio.get_running_loop().call_later(delay_seconds, enqueue)
        self._later.add(timer)

    def _write_all_here(self) -> None:
        due = [self._here.popleft() for _ in range(min(len(self._here), TRANSACTIONS_PER_TURN_MAX))]
        if self._here:
            asyncio.get_running_loop().call_soon(self._write_all_here)
        for pending in due:
            if not pending.is_current():
                continue
            try:
                written = self._write_here(pending.markers)
            except Exception as error:  # noqa: BLE001 - a bug must not keep transactions open
                written = DeferredResponse()
                written.fail(error)
            written.on_complete(partial(self._on_written_here, pending))

    def _on_written_here(self, pending: _PendingMarkers, written: DeferredResponse) -> None:
        if written.error is not None:
            logger.error("Cannot write transaction markers on this broker", exc_info=written.error)
        self._on_response(pending, written.result or {})

    async def _send(self, broker_id: int, entries: list[_PendingMarkers]) -> None:
        current = [one for one in entries if one.is_current()]
        if not current:
            return
        errors_of: Sequence[Mapping[TopicPartition, ErrorCode]]
        try:
            errors_of = await self._request(broker_id, current)
        except Exception:
            # A bug must not keep transactions open.
            logger.exception("WriteTxnMarkers request to broker %d failed", broker_id)
            errors_of = [{} for _ in current]
        for pending, errors in zip(current, errors_of, strict=True):
            self._on_response(pending, errors)

    async def _request(
        self, broker_id: int, entries: Sequence[_PendingMarkers]
    ) -> list[Mapping[TopicPartition, ErrorCode]]:
        try:
            response = await self._peers.request(
                broker_id,
                ApiKey.WRITE_TXN_MARKERS,
                lambda chosen: _build_request(chosen, [one.markers for one in entries]),
            )
        except PeerError as error:
            logger.info("WriteTxnMarkers request to broker %d failed: %s", broker_id, error)
            return [dict.fromkeys(one.markers.partitions, ErrorCode.network_exception) for one in entries]
        by_producer = {
            one.producer_id: {
                TopicPartition(topic.name, partition.partition_index): partition.error_code
                for topic in one.topics
                for partition in topic.partitions
            }
            for one in response.markers
        }
        return [by_producer.get(one.markers.producer_id, {}) for one in entries]

    def _on_response(self, pending: _PendingMarkers, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        written: set[TopicPartition] = set()
        failed: set[TopicPartition] = set()
        for name in pending.markers.partitions:
            code = errors.get(name, ErrorCode.network_exception)
            if code is ErrorCode.none or code in _WITHOUT_TRANSACTIONS:
                written.add(name)
            elif code in _REPLACED:
                logger.warning(
                    "Transaction marker rejected: transactional id %s, partition %s, error %s. Not retrying.",
                    pending.markers.transactional_id,
                    name,
                    code.name.upper(),
                )
            else:
                failed.add(name)
        if failed:
            self._retry(pending, failed)
        if written and pending.is_current():
            pending.on_written(frozenset(written))


def _build_request(chosen: Schema, markers: Sequence[Markers]) -> Message:
    return chosen.new(
        "WriteTxnMarkersRequest",
        markers=tuple(
            chosen.new(
                "WritableTxnMarker",
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                transaction_result=one.commits,
                topics=tuple(
                    chosen.new("WritableTxnMarkerTopic", name=topic, partition_indexes=indexes)
                    for topic, indexes in partitions_by_topic(one.partitions).items()
                ),
                coordinator_epoch=one.coordinator_epoch,
                transaction_version=one.transaction_version,
            )
            for one in markers
        ),
    )
