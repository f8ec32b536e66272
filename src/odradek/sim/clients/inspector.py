"""Asks every broker for all that it knows of the cluster, and every voter who leads, until they say the same.

Asks again and again: what is asked for is that the cluster becomes whole, within a time that somebody else watches.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.sim.checkers.agreement import disagreement
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.wire import ConnectionLost, Wire
from odradek.sim.history import ClusterView
from odradek.sim.layout import CLIENT_PORT, CONTROLLER_PORT, Plan
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_TOPICS_MAX: Final = 1000


class Inspector:
    def __init__(self, client: ClusterClient, plan: Plan, replication_factor: int = 1) -> None:
        """`replication_factor`: as many replicas as every partition has in the end, all of them in sync."""
        self._client: Final = client
        self._plan: Final = plan
        self._replication_factor: Final = replication_factor
        self.complaint = "nobody has been asked yet"
        """Why the cluster is not whole; empty once it is."""

    async def until_whole(self) -> None:
        while self.complaint:
            try:
                views = [await self._ask_broker(node.name) for node in self._plan.brokers]
                unlike = disagreement(views, (node.node_id for node in self._plan.brokers))
                self.complaint = unlike or await self._complaint_of_quorum() or await self._complaint_of_replicas()
            except ConnectionLost as lost:
                self.complaint = str(lost)
            if self.complaint:
                self._client.note(f"finds the cluster not whole: {self.complaint}")
                await self._client.back_off()

    # ---- replicas

    async def _complaint_of_replicas(self) -> str:
        if self._replication_factor == 1:
            return ""
        client = self._client
        wire = await client.any_wire()
        moves = await client.ask(wire, ApiKey.LIST_PARTITION_REASSIGNMENTS, _reassignments_question)
        if moves.error_code is not ErrorCode.none or moves.topics:
            return f"partitions are still moving: {moves.error_code.name} {[topic.name for topic in moves.topics]}"
        for topic in (await client.ask(wire, ApiKey.METADATA, _metadata_question)).topics:
            for partition in topic.partitions:
                is_whole = len(partition.isr_nodes) == len(partition.replica_nodes) == self._replication_factor
                if not is_whole or partition.leader_id < 0:
                    return f"{topic.name}-{partition.partition_index}: {_placed(partition)}"
        return ""

    # ---- the quorum

    async def _complaint_of_quorum(self) -> str:
        if len(self._plan.voters) == 1:
            return ""
        leaders = {node.name: answer for node in self._plan.voters if (answer := await self._ask_voter(node.name))}
        if len(leaders) != 1:
            return f"{len(leaders)} voters say that they lead: {', '.join(leaders)}"
        (answer,) = leaders.values()
        known = {state.replica_id for state in (*answer.current_voters, *answer.observers)}
        if missing := [node.name for node in self._plan.nodes if node.node_id not in known]:
            return f"the leader does not hear of {', '.join(missing)}"
        return ""

    async def _ask_voter(self, host: str) -> Message | None:
        """What it says of the quorum, if it leads it."""
        client = self._client
        wire = await client.wire(host, CONTROLLER_PORT)
        answer = (await client.ask(wire, ApiKey.DESCRIBE_QUORUM, _quorum_question)).topics[0].partitions[0]
        return answer if answer.error_code is ErrorCode.none else None

    # ---- brokers

    async def _ask_broker(self, host: str) -> ClusterView:
        client = self._client
        wire = await client.wire(host, CLIENT_PORT)
        facts: dict[str, str] = {}
        metadata = await client.ask(wire, ApiKey.METADATA, _metadata_question)
        facts.update(_facts_of_metadata(metadata))
        names = sorted(topic.name for topic in metadata.topics)
        if names:
            facts.update(await self._facts_of_topics(wire, names))
            facts.update(await self._facts_of_configs(wire, names))
        cluster = await client.ask(wire, ApiKey.DESCRIBE_CLUSTER, _cluster_question)
        facts["cluster"] = cluster.cluster_id
        return ClusterView(broker=host, facts=facts)

    async def _facts_of_topics(self, wire: Wire, names: Sequence[str]) -> dict[str, str]:
        def build(chosen: Schema) -> Message:
            topics = tuple(chosen.new("TopicRequest", name=name) for name in names)
            return chosen.new("DescribeTopicPartitionsRequest", topics=topics, response_partition_limit=_TOPICS_MAX)

        response = await self._client.ask(wire, ApiKey.DESCRIBE_TOPIC_PARTITIONS, build)
        return {
            f"described {topic.name}-{partition.partition_index}": _described(partition)
            for topic in response.topics
            for partition in topic.partitions
        }

    async def _facts_of_configs(self, wire: Wire, names: Sequence[str]) -> dict[str, str]:
        def build(chosen: Schema) -> Message:
            resources = tuple(
                chosen.new(
                    "DescribeConfigsResource", resource_type=RESOURCE_TOPIC, resource_name=name, configuration_keys=None
                )
                for name in names
            )
            return chosen.new(
                "DescribeConfigsRequest", resources=resources, include_synonyms=False, include_documentation=False
            )

        response = await self._client.ask(wire, ApiKey.DESCRIBE_CONFIGS, build)
        return {
            f"config {config.name} of {result.resource_name}": str(config.value)
            for result in response.results
            for config in result.configs
        }


def _facts_of_metadata(response: Message) -> Iterator[tuple[str, str]]:
    for broker in response.brokers:
        yield f"broker {broker.node_id}", f"{broker.host}:{broker.port} in rack {broker.rack}"
    for topic in response.topics:
        yield f"topic {topic.name}", f"{topic.topic_id}, {topic.error_code.name}"
        for partition in topic.partitions:
            yield f"partition {topic.name}-{partition.partition_index}", _placed(partition)


def _placed(partition: Message) -> str:
    return (
        f"{partition.error_code.name}, leader {partition.leader_id} of epoch {partition.leader_epoch}, "
        f"replicas {list(partition.replica_nodes)}, in sync {list(partition.isr_nodes)}, "
        f"offline {list(partition.offline_replicas)}"
    )


def _described(partition: Message) -> str:
    return (
        f"{_placed(partition)}, eligible {list(partition.eligible_leader_replicas or ())}, "
        f"known before {list(partition.last_known_elr or ())}"
    )


def _metadata_question(chosen: Schema) -> Message:
    return chosen.new(
        "MetadataRequest",
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def _reassignments_question(chosen: Schema) -> Message:
    return chosen.new("ListPartitionReassignmentsRequest", timeout=milliseconds(1500), topics=None)


def _cluster_question(chosen: Schema) -> Message:
    return chosen.new(
        "DescribeClusterRequest", include_cluster_authorized_operations=False, include_fenced_brokers=False
    )


def _quorum_question(chosen: Schema) -> Message:
    # The response has classes of the same names.
    parts = sys.modules[chosen.request_type.__module__]
    topic = parts.TopicData(topic_name=METADATA_TOPIC, partitions=(parts.PartitionData(partition_index=0),))
    return chosen.new("DescribeQuorumRequest", topics=(topic,))
