"""In which of its log dirs this broker keeps a replica, told to the controller.

The controller leaves the choice among several dirs to the broker. It has to know the outcome: when a dir fails, it
looks for new leaders of the replicas that were in it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import ControllerPort
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import ApiKey

logger = logging.getLogger(__name__)

VERSION: Final = 0
RETRY_SECONDS: Final = 1.0
# As many as Kafka puts into one request.
PARTITIONS_PER_REQUEST_MAX: Final = 2250

# The topic's id and the directory's.
_Assignment = tuple[UUID, UUID]


class DirectoryAssignments:
    def __init__(self, controller: ControllerPort, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._controller: Final = controller
        self._node_id: Final = node_id
        self._broker_epoch: Final = broker_epoch
        self._pending: Final[dict[TopicPartition, _Assignment]] = {}
        self._reporting: asyncio.Task[None] | None = None

    async def assign(self, partition: Partition, directory_id: UUID) -> None:
        """Returns once the cluster knows. Raises KafkaError if the controller refuses."""
        self._pending.pop(partition.name, None)
        refused = await self._send({partition.name: (partition.topic_id, directory_id)})
        if refused:
            raise KafkaError(refused[partition.name], "the controller does not take the replica's new log dir")

    def report(self, name: TopicPartition, topic_id: UUID, directory_id: UUID) -> None:
        """As `assign`, in the background: until the controller has heard it, or the partition is gone."""
        self._pending[name] = (topic_id, directory_id)
        if self._reporting is None:
            self._reporting = asyncio.ensure_future(self._report())

    def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()

    async def _report(self) -> None:
        try:
            while self._pending:
                batch = dict(list(self._pending.items())[:PARTITIONS_PER_REQUEST_MAX])
                try:
                    refused = await self._send(batch)
                except KafkaError as error:
                    # Not registered yet, or no longer.
                    logger.debug("log dirs could not be reported: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                for name, sent in batch.items():
                    if self._pending.get(name) == sent:
                        del self._pending[name]
                for name, code in refused.items():
                    logger.warning("the log dir of %s could not be reported: %s", name, code.name.upper())
        finally:
            self._reporting = None

    async def _send(self, assignments: Mapping[TopicPartition, _Assignment]) -> dict[TopicPartition, ErrorCode]:
        """Those that the controller refused. Raises KafkaError if it refused the request."""
        names = {(topic_id, name.partition): name for name, (topic_id, _) in assignments.items()}
        request = _request(self._node_id, self._broker_epoch(), assignments)
        response = await self._controller.handle(ApiKey.ASSIGN_REPLICAS_TO_DIRS, VERSION, request)
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code)
        return {
            names[topic.topic_id, partition.partition_index]: partition.error_code
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
            if partition.error_code is not ErrorCode.none
        }


def _request(node_id: int, broker_epoch: int, assignments: Mapping[TopicPartition, _Assignment]) -> object:
    # Nodes with a single log dir, the most, never come here.
    from kio.schema.assign_replicas_to_dirs.v0 import request as messages

    wanted: dict[UUID, dict[UUID, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name, (topic_id, directory_id) in assignments.items():
        wanted[directory_id][topic_id].append(name.partition)
    return messages.AssignReplicasToDirsRequest(
        broker_id=BrokerId(node_id),
        broker_epoch=i64(broker_epoch),
        directories=tuple(
            messages.DirectoryData(
                id_=directory_id,
                topics=tuple(
                    messages.TopicData(
                        topic_id=topic_id,
                        partitions=tuple(messages.PartitionData(partition_index=i32(index)) for index in indexes),
                    )
                    for topic_id, indexes in topics.items()
                ),
            )
            for directory_id, topics in wanted.items()
        ),
    )
