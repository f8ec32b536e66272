"""Reports to the controller in which of its log dirs this broker keeps a replica (AssignReplicasToDirs).

The broker chooses the log dir. The controller has to know it, because it elects new leaders for the replicas in a log
dir that fails.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64

from odradek.base.background import start_task
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import ControllerPort
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import ApiKey

logger = logging.getLogger(__name__)

VERSION: Final = 0
RETRY_SECONDS: Final = 1.0
# Kafka's limit.
PARTITIONS_PER_REQUEST_MAX: Final = 2250

# The topic ID and the directory ID.
_Assignment = tuple[UUID, UUID]


class DirectoryAssignments:
    def __init__(self, controller: ControllerPort, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._controller: Final = controller
        self._node_id: Final = node_id
        self._broker_epoch: Final = broker_epoch
        self._pending: Final[dict[TopicPartition, _Assignment]] = {}
        self._reporting: asyncio.Task[None] | None = None

    async def assign(self, partition: Partition, directory_id: UUID) -> None:
        """Returns once the assignment is committed. Raises KafkaError if the controller rejects it."""
        self._pending.pop(partition.name, None)
        rejected = await self._send({partition.name: (partition.topic_id, directory_id)})
        if rejected:
            raise KafkaError(rejected[partition.name], "the controller rejected the replica's new log dir")

    def report(self, name: TopicPartition, topic_id: UUID, directory_id: UUID) -> None:
        """Like `assign`, but in the background, with retries."""
        self._pending[name] = (topic_id, directory_id)
        if self._reporting is None:
            self._reporting = start_task("reports of log dirs", self._report())

    def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()

    async def _report(self) -> None:
        try:
            while self._pending:
                batch = dict(list(self._pending.items())[:PARTITIONS_PER_REQUEST_MAX])
                try:
                    rejected = await self._send(batch)
                except KafkaError as error:
                    # Not registered yet, or no longer.
                    logger.debug("Reporting log dirs failed: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                except Exception:
                    # A bug must not keep the controller from learning where the replicas are.
                    logger.exception("Reporting log dirs failed")
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                for name, sent in batch.items():
                    if self._pending.get(name) == sent:
                        del self._pending[name]
                for name, code in rejected.items():
                    logger.warning("AssignReplicasToDirs rejected for %s: %s", name, code.name.upper())
        finally:
            self._reporting = None

    async def _send(self, assignments: Mapping[TopicPartition, _Assignment]) -> dict[TopicPartition, ErrorCode]:
        """Returns the rejected partitions. Raises KafkaError if the whole request was rejected."""
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
    # Imported here because most nodes, those with a single log dir, never need it.
    from kio.schema.assign_replicas_to_dirs.v0 import request as messages

    by_directory: dict[UUID, dict[UUID, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name, (topic_id, directory_id) in assignments.items():
        by_directory[directory_id][topic_id].append(name.partition)
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
            for directory_id, topics in by_directory.items()
        ),
    )
