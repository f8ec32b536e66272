"""Waits until all brokers describe the same cluster, one voter leads, and all replicas are in sync.

The caller limits how long this may take.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.sim.checkers.agreement import disagreement
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import Connection, RequestFailed
from odradek.sim.history import ClusterView
from odradek.sim.layout import CONTROLLER_PORT, Plan, PlannedNode
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_TOPICS_MAX: Final = 1000


class Inspector:
    def __init__(self, client: ClusterClient, plan: Plan, replication_factor: int = 1) -> None:
        """`replication_factor`: the number of replicas, all in sync, that every partition must have at the end."""
        self._client: Final = client
        self._plan: Final = plan
        self._replication_factor: Final = replication_factor
        self.problem = "no broker was queried yet"
        """Why the cluster is not healthy; empty once it is."""

    async def wait_until_healthy(self) -> None:
        while self.problem:
            try:
                views = [await self._describe_cluster(node) for node in self._plan.brokers]
                unlike = disagreement(views, (node.node_id for node in self._plan.brokers))
                self.problem = unlike or await self._quorum_problem() or await self._replica_problem()
            except RequestFailed as failure:
                self.problem = str(failure)
            if self.problem:
                self._client.note(f"finds the cluster unhealthy: {self.problem}")
                await self._client.back_off()

    # ---- replicas

    async def _replica_problem(self) -> str:
        if self._replication_factor == 1:
            return ""
        client = self._client
        connection = await client.connect_to_any()
        reassignments = await client.send_request(
            connection, ApiKey.LIST_PARTITION_REASSIGNMENTS, _list_reassignments_request
        )
        if reassignments.error_code is not ErrorCode.none or reassignments.topics:
            names = [topic.name for topic in reassignments.topics]
            return f"reassignments are in progress: {reassignments.error_code.name} {names}"
        for topic in (await client.send_request(connection, ApiKey.METADATA, _metadata_request)).topics:
            for partition in topic.partitions:
                is_whole = len(partition.isr_nodes) == len(partition.replica_nodes) == self._replication_factor
                if not is_whole or partition.leader_id < 0:
                    return f"{topic.name}-{partition.partition_index}: {_describe_placement(partition)}"
        return ""

    # ---- the quorum

    async def _quorum_problem(self) -> str:
        if len(self._plan.voters) == 1:
            return ""
        leaders = {
            node.name: result for node in self._plan.voters if (result := await self._describe_quorum(node.name))
        }
        if len(leaders) != 1:
            return f"{len(leaders)} voters claim to lead: {', '.join(leaders)}"
        (result,) = leaders.values()
        known = {state.replica_id for state in (*result.current_voters, *result.observers)}
        if missing := [node.name for node in self._plan.nodes if node.node_id not in known]:
            return f"the leader has not received a fetch from {', '.join(missing)}"
        return ""

    async def _describe_quorum(self, host: str) -> Message | None:
        """The quorum as the voter describes it, if it is the leader."""
        client = self._client
        connection = await client.connect(host, CONTROLLER_PORT)
        result = (
            (await client.send_request(connection, ApiKey.DESCRIBE_QUORUM, _describe_quorum_request))
            .topics[0]
            .partitions[0]
        )
        return result if result.error_code is ErrorCode.none else None

    # ---- brokers

    async def _describe_cluster(self, broker: PlannedNode) -> ClusterView:
        client = self._client
        connection = await client.connect(broker.name, broker.client_port)
        facts: dict[str, str] = {}
        metadata = await client.send_request(connection, ApiKey.METADATA, _metadata_request)
        facts.update(_facts_of_metadata(metadata))
        names = sorted(topic.name for topic in metadata.topics)
        if names:
            facts.update(await self._facts_of_topics(connection, names))
            facts.update(await self._facts_of_configs(connection, names))
        cluster = await client.send_request(connection, ApiKey.DESCRIBE_CLUSTER, _describe_cluster_request)
        facts["cluster"] = cluster.cluster_id
        return ClusterView(broker=broker.name, facts=facts)

    async def _facts_of_topics(self, connection: Connection, names: Sequence[str]) -> dict[str, str]:
        def build(chosen: Schema) -> Message:
            topics = tuple(chosen.new("TopicRequest", name=name) for name in names)
            return chosen.new("DescribeTopicPartitionsRequest", topics=topics, response_partition_limit=_TOPICS_MAX)

        response = await self._client.send_request(connection, ApiKey.DESCRIBE_TOPIC_PARTITIONS, build)
        return {
            f"described {topic.name}-{partition.partition_index}": _describe_partition(partition)
            for topic in response.topics
            for partition in topic.partitions
        }

    async def _facts_of_configs(self, connection: Connection, names: Sequence[str]) -> dict[str, str]:
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

        response = await self._client.send_request(connection, ApiKey.DESCRIBE_CONFIGS, build)
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
            yield f"partition {topic.name}-{partition.partition_index}", _describe_placement(partition)


def _describe_placement(partition: Message) -> str:
    return (
        f"{partition.error_code.name}, leader {partition.leader_id} of epoch {partition.leader_epoch}, "
        f"replicas {list(partition.replica_nodes)}, in sync {list(partition.isr_nodes)}, "
        f"offline {list(partition.offline_replicas)}"
    )


def _describe_partition(partition: Message) -> str:
    return (
        f"{_describe_placement(partition)}, eligible {list(partition.eligible_leader_replicas or ())}, "
        f"known before {list(partition.last_known_elr or ())}"
    )


def _metadata_request(chosen: Schema) -> Message:
    return chosen.new(
        "MetadataRequest",
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def _list_reassignments_request(chosen: Schema) -> Message:
    return chosen.new("ListPartitionReassignmentsRequest", timeout=milliseconds(1500), topics=None)


def _describe_cluster_request(chosen: Schema) -> Message:
    return chosen.new(
        "DescribeClusterRequest", include_cluster_authorized_operations=False, include_fenced_brokers=False
    )


def _describe_quorum_request(chosen: Schema) -> Message:
    # The response has classes of the same names.
    parts = sys.modules[chosen.request_type.__module__]
    topic = parts.TopicData(topic_name=METADATA_TOPIC, partitions=(parts.PartitionData(partition_index=0),))
    return chosen.new("DescribeQuorumRequest", topics=(topic,))
