"""Reassigns partitions, cancels reassignments and elects preferred leaders while other clients write and read."""

import asyncio
from collections.abc import Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_PREFERRED: Final = 0
_ELECT_PROBABILITY: Final = 0.3
_CANCEL_PROBABILITY: Final = 0.15


class ReassignmentClient:
    def __init__(
        self,
        client: ClusterClient,
        partitions: Sequence[TopicPartition],
        broker_ids: Sequence[int],
        replication_factor: int,
    ) -> None:
        self._client: Final = client
        self._partitions: Final = partitions
        self._broker_ids: Final = tuple(broker_ids)
        self._replication_factor: Final = replication_factor
        self.is_finishing = False

    async def run(self, interval_seconds: float) -> None:
        """Runs until `is_finishing` is set, then restores the replication factor of every partition."""
        random = self._client.random
        while not self.is_finishing:
            await asyncio.sleep(random.expovariate(1 / interval_seconds))
            partition = random.choice(self._partitions)
            try:
                await self._change(partition)
            except RequestFailed as failure:
                self._client.note(f"gets no response for {partition}: {failure}")
        for partition in self._partitions:
            while not await self._restore(partition):
                await self._client.back_off()

    async def _change(self, partition: TopicPartition) -> None:
        chance = self._client.random.random()
        if chance < _ELECT_PROBABILITY:
            await self._elect(partition)
        elif chance < _ELECT_PROBABILITY + _CANCEL_PROBABILITY:
            await self._reassign(partition, None)
        else:
            await self._reassign(partition, self._some_replicas())

    def _some_replicas(self) -> tuple[int, ...]:
        """Mostly the same number of replicas: other brokers, or another order."""
        random = self._client.random
        spread = random.choice((-1, 0, 0, 0, 1))
        count = max(1, min(len(self._broker_ids), self._replication_factor + spread))
        # With fewer replicas than min.insync.replicas nothing would be acknowledged.
        count = max(count, min(2, self._replication_factor))
        return tuple(random.sample(self._broker_ids, count))

    async def _restore(self, partition: TopicPartition) -> bool:
        """Whether the reassignment to the original replication factor was accepted."""
        replicas = tuple(self._client.random.sample(self._broker_ids, self._replication_factor))
        try:
            return await self._reassign(partition, replicas) is ErrorCode.none
        except RequestFailed:
            return False

    async def _elect(self, partition: TopicPartition) -> None:
        client = self._client
        client.note(f"requests the election of the preferred leader of {partition}")
        response = await client.send_request(
            await client.connect_to_any(), ApiKey.ELECT_LEADERS, lambda chosen: _elect_leaders(chosen, partition)
        )
        code = getattr(response, "error_code", ErrorCode.none)
        for result in response.replica_election_results:
            code = result.partition_result[0].error_code
        client.note(f"receives {code.name} for the preferred leader of {partition}")

    async def _reassign(self, partition: TopicPartition, replicas: tuple[int, ...] | None) -> ErrorCode:
        client = self._client
        wish = "the original ones" if replicas is None else str(list(replicas))
        client.note(f"requests the replicas {wish} for {partition}")
        response = await client.send_request(
            await client.connect_to_any(),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            lambda chosen: _alter_reassignments(chosen, partition, replicas),
        )
        code: ErrorCode = response.error_code
        for topic in response.responses:
            code = topic.partitions[0].error_code
        client.note(f"receives {code.name} for the replicas {wish} of {partition}")
        return code


def _elect_leaders(chosen: Schema, partition: TopicPartition) -> Message:
    topic = chosen.new("TopicPartitions", topic=partition.topic, partitions=(partition.partition,))
    return chosen.new(
        "ElectLeadersRequest", election_type=_PREFERRED, topic_partitions=(topic,), timeout=milliseconds(1500)
    )


def _alter_reassignments(chosen: Schema, partition: TopicPartition, replicas: tuple[int, ...] | None) -> Message:
    wanted = chosen.new("ReassignablePartition", partition_index=partition.partition, replicas=replicas)
    topic = chosen.new("ReassignableTopic", name=partition.topic, partitions=(wanted,))
    return chosen.new("AlterPartitionReassignmentsRequest", timeout=milliseconds(1500), topics=(topic,))
