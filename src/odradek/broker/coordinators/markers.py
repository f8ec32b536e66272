"""Markers on their way from a transaction coordinator to the leaders of partitions, until each has written them.

There is no giving up: a transaction that is decided has to be told to all its partitions, whoever leads them, and to
none that is gone. Only the coordinator's own end ends it; the next one begins again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.base.backoff import backoff_seconds
from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_LEADER, TopicPartition, partitions_by_topic
from odradek.base.ports import Random
from odradek.broker.coordinators.broker_lanes import BrokerLanes, BrokerPeers
from odradek.core.metadata.image import ClusterImage
from odradek.core.transactions.commands import Markers
from odradek.server.peer import PeerError
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

TRANSACTIONS_PER_REQUEST_MAX: Final = 500
BACKOFF_SECONDS_MAX: Final = 1.0
FAILURES_BETWEEN_WARNINGS: Final = 30

# Somebody has gone on from there: another coordinator, or the same producer in a later epoch. Everything else may pass.
_REPLACED: Final = frozenset((ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced))
# No leader of this partition takes transactions, so nothing can be open there.
_WITHOUT_TRANSACTIONS: Final = frozenset((ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version))


WriteHere = Callable[[Markers], Awaitable[Mapping[TopicPartition, ErrorCode]]]


class _Sending(NamedTuple):
    markers: Markers
    """With those partitions that have one leader in common."""
    is_wanted: Callable[[], bool]
    told: Callable[[frozenset[TopicPartition]], None]
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
        self._lanes: Final = BrokerLanes[_Sending](self._send, TRANSACTIONS_PER_REQUEST_MAX)
        self._later: Final[set[asyncio.TimerHandle]] = set()

    def send(
        self, markers: Markers, is_wanted: Callable[[], bool], told: Callable[[frozenset[TopicPartition]], None]
    ) -> None:
        """`told` hears of the partitions as they have written it, or are gone, while it `is_wanted`."""
        self._enqueue(_Sending(markers, is_wanted, told))

    def stop(self) -> None:
        self._lanes.stop()
        for timer in self._later:
            timer.cancel()

    def _enqueue(self, sending: _Sending) -> None:
        if not sending.is_wanted():
            return
        by_leader: dict[int, set[TopicPartition]] = {}
        gone: set[TopicPartition] = set()
        for name in sorted(sending.markers.partitions):
            topic = self._image().topics_by_name.get(name.topic)
            partition = None if topic is None else topic.partitions.get(name.partition)
            if partition is None:
                gone.add(name)
            else:
                by_leader.setdefault(partition.leader, set()).add(name)
        for leader, names in by_leader.items():
            some = sending._replace(markers=sending.markers._replace(partitions=frozenset(names)))
            if leader == NO_LEADER:
                self._retry(some, names)
            else:
                self._lanes.add(leader, some)
        if gone:
            sending.told(frozenset(gone))

    def _retry(self, sending: _Sending, names: set[TopicPartition]) -> None:
        failures = sending.failures + 1
        if failures % FAILURES_BETWEEN_WARNINGS == 0:
            partitions = ", ".join(map(str, sorted(names)))
            logger.warning(
                "the end of transaction %s is still to be told to %s", sending.markers.transactional_id, partitions
            )
        again = sending._replace(markers=sending.markers._replace(partitions=frozenset(names)), failures=failures)

        def enqueue() -> None:
            self._later.discard(timer)
            self._enqueue(again)

        delay_seconds = backoff_seconds(failures, BACKOFF_SECONDS_MAX, self._random)
        timer = asyncio.get_running_loop().call_later(delay_seconds, enqueue)
        self._later.add(timer)

    async def _send(self, broker_id: int, sendings: list[_Sending]) -> None:
        wanted = [one for one in sendings if one.is_wanted()]
        if not wanted:
            return
        answers: Sequence[Mapping[TopicPartition, ErrorCode]]
        try:
            if broker_id == self._node_id:
                answers = await asyncio.gather(*(self._write_here(one.markers) for one in wanted))
            else:
                answers = await self._ask(broker_id, wanted)
        except Exception:
            # A fault of ours: no transaction may stay open for it.
            logger.exception("broker %d could not be told how transactions end", broker_id)
            answers = [{} for _ in wanted]
        for sending, errors in zip(wanted, answers, strict=True):
            self._answered(sending, errors)

    async def _ask(self, broker_id: int, sendings: Sequence[_Sending]) -> list[Mapping[TopicPartition, ErrorCode]]:
        try:
            response = await self._peers.ask(
                broker_id, ApiKey.WRITE_TXN_MARKERS, lambda chosen: _request(chosen, [one.markers for one in sendings])
            )
        except PeerError as error:
            logger.info("broker %d could not be told how transactions end: %s", broker_id, error)
            return [dict.fromkeys(one.markers.partitions, ErrorCode.network_exception) for one in sendings]
        by_producer = {
            one.producer_id: {
                TopicPartition(topic.name, partition.partition_index): partition.error_code
                for topic in one.topics
                for partition in topic.partitions
            }
            for one in response.markers
        }
        return [by_producer.get(one.markers.producer_id, {}) for one in sendings]

    def _answered(self, sending: _Sending, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        written: set[TopicPartition] = set()
        again: set[TopicPartition] = set()
        for name in sending.markers.partitions:
            code = errors.get(name, ErrorCode.network_exception)
            if code is ErrorCode.none or code in _WITHOUT_TRANSACTIONS:
                written.add(name)
            elif code in _REPLACED:
                logger.warning(
                    "the end of transaction %s is refused by %s (%s), and not told it again",
                    sending.markers.transactional_id,
                    name,
                    code.name.upper(),
                )
            else:
                again.add(name)
        if again:
            self._retry(sending, again)
        if written and sending.is_wanted():
            sending.told(frozenset(written))


def _request(chosen: Schema, markers: Sequence[Markers]) -> Message:
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
