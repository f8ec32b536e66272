"""Describes the controller quorum and changes its voters.

Any broker forwards these requests. An inactive controller does not, so the client finds the active one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import METADATA_TOPIC
from odradek.client.address import Address
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import BuildRequest, milliseconds
from odradek.client.membership import controllers
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

T = TypeVar("T")

# Followers and observers fetch at least every half second.
UNRESPONSIVE_MS: Final = 3000


class ControllerEndpoint(NamedTuple):
    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    id: int
    directory_id: UUID | None
    is_voter: bool
    log_end_offset: int
    """-1 if the leader has not received a Fetch from it yet."""
    last_fetch_ms: int
    """By the leader's clock; -1 for never and for the leader itself."""
    last_caught_up_ms: int
    endpoints: tuple[ControllerEndpoint, ...]
    """Known for voters only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    replicas: tuple[QuorumReplica, ...]
    """The leader first, then the other voters, then observers."""

    @property
    def voters(self) -> tuple[QuorumReplica, ...]:
        return tuple(replica for replica in self.replicas if replica.is_voter)

    @property
    def observers(self) -> tuple[QuorumReplica, ...]:
        return tuple(replica for replica in self.replicas if not replica.is_voter)

    def lag(self, replica: QuorumReplica) -> int | None:
        """Return the number of records that the replica is behind, or None if unknown."""
        if replica.log_end_offset < 0:
            return None
        return max(one.log_end_offset for one in self.replicas) - replica.log_end_offset


class QuorumAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._active: Address | None = None
        """Address of the active controller, known after an inactive controller was contacted."""

    def describe(self) -> QuorumStatus:
        def build(chosen: Schema) -> Message:
            # Request and response have parts with the same names: these are the request's.
            parts = import_module(chosen.request_type.__module__)
            partition = parts.PartitionData(partition_index=0)
            topic = parts.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
            return chosen.new("DescribeQuorumRequest", topics=(topic,))

        def attempt() -> QuorumStatus:
            response = self._send(ApiKey.DESCRIBE_QUORUM, build)
            raise_for_error(response)
            partition = response.topics[0].partitions[0]
            raise_for_error(partition)
            return _status(response, partition)

        return self._retry("describing the quorum", attempt)

    def add_voter(
        self, node_id: int, directory_id: UUID, endpoints: Sequence[ControllerEndpoint], *, cluster_id: str | None
    ) -> None:
        """Return once the new quorum has committed the change. The node must be running and almost caught up."""

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "AddRaftVoterRequest",
                cluster_id=cluster_id,
                timeout=milliseconds(self._cluster.timeout_s * 1000),
                voter_id=node_id,
                voter_directory_id=directory_id,
                listeners=tuple(
                    chosen.new("Listener", name=one.listener, host=one.host, port=one.port) for one in endpoints
                ),
                ack_when_committed=True,
            )

        self._retry(f"adding controller {node_id}", lambda: raise_for_error(self._send(ApiKey.ADD_RAFT_VOTER, build)))

    def remove_voter(self, node_id: int, directory_id: UUID, *, cluster_id: str | None = None) -> None:
        def build(chosen: Schema) -> Message:
            return chosen.new(
                "RemoveRaftVoterRequest", cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id
            )

        self._retry(
            f"removing controller {node_id}", lambda: raise_for_error(self._send(ApiKey.REMOVE_RAFT_VOTER, build))
        )

    def _send(self, api_key: int, build: BuildRequest) -> Message:
        if self._active is not None:
            return self._cluster.send_to(self._active, api_key, build)
        return self._cluster.send_to_any(api_key, build)

    def _retry(self, what: str, action: Callable[[], T]) -> T:
        def attempt() -> T:
            try:
                return action()
            except KafkaError as error:
                if error.code in (ErrorCode.not_controller, ErrorCode.not_leader_or_follower):
                    self._active = self._find_active()
                raise

        return self._cluster.retry(what, attempt)

    def _find_active(self) -> Address | None:
        """Return None if brokers were contacted, which forward requests, or if there is no active controller now."""
        try:
            found = controllers(self._cluster)
        except KafkaError as error:
            if error.code is not ErrorCode.mismatched_endpoint_type:
                raise
            return None
        return found.nodes[found.controller_id].address if found.controller_id in found.nodes else None


def _status(response: Message, partition: Message) -> QuorumStatus:
    endpoints = {
        node.node_id: tuple(ControllerEndpoint(one.name, one.host, one.port) for one in node.listeners)
        for node in getattr(response, "nodes", ())
    }
    voters = [_replica(one, endpoints.get(one.replica_id, ()), True) for one in partition.current_voters]
    observers = [_replica(one, (), False) for one in partition.observers]
    return QuorumStatus(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        replicas=(
            *sorted(voters, key=lambda one: (one.id != partition.leader_id, one.id)),
            *sorted(observers, key=lambda one: one.id),
        ),
    )


def _replica(state: Message, endpoints: tuple[ControllerEndpoint, ...], is_voter: bool) -> QuorumReplica:
    return QuorumReplica(
        id=state.replica_id,
        directory_id=getattr(state, "replica_directory_id", None),
        is_voter=is_voter,
        log_end_offset=state.log_end_offset,
        last_fetch_ms=getattr(state, "last_fetch_timestamp", -1),
        last_caught_up_ms=getattr(state, "last_caught_up_timestamp", -1),
        endpoints=endpoints,
    )


def leaders_time_ms(found: QuorumStatus) -> int:
    """Return the leader's current time. The leader always reports itself as caught up now."""
    return max((replica.last_caught_up_ms for replica in found.replicas), default=0)
