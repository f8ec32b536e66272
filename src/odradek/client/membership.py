"""The members of the cluster: registered brokers, fenced ones included, and the controllers."""

from dataclasses import dataclass
from typing import Final

from odradek.client.address import Address
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    id: int
    address: Address
    rack: str | None
    is_fenced: bool
    """Registered but not serving requests: the broker is down or has not caught up yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    cluster_id: str
    controller_id: int
    """In the controllers' view the active controller; in the brokers' view any broker."""
    nodes: dict[int, Member]


def brokers(cluster: Cluster) -> Members:
    return cluster.retry("listing brokers", lambda: _describe(cluster, _BROKERS))


def controllers(cluster: Cluster) -> Members:
    """Return the controllers, as controllers report them. Brokers return MISMATCHED_ENDPOINT_TYPE."""
    return _describe(cluster, _CONTROLLERS)


def unregister_broker(cluster: Cluster, node_id: int) -> None:
    def attempt() -> None:
        raise_for_error(
            cluster.send_to_controller(
                ApiKey.UNREGISTER_BROKER, lambda chosen: chosen.new("UnregisterBrokerRequest", broker_id=node_id)
            )
        )

    cluster.retry(f"unregistering broker {node_id}", attempt)


def _describe(cluster: Cluster, endpoint_type: int) -> Members:
    def build(chosen: Schema) -> Message:
        return chosen.new(
            "DescribeClusterRequest",
            include_cluster_authorized_operations=False,
            endpoint_type=endpoint_type,
            include_fenced_brokers=endpoint_type == _BROKERS,
        )

    response = cluster.send_to_any(ApiKey.DESCRIBE_CLUSTER, build)
    raise_for_error(response)
    return Members(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        nodes={
            node.broker_id: Member(
                id=node.broker_id,
                address=Address(node.host, node.port),
                rack=node.rack,
                is_fenced=getattr(node, "is_fenced", False),
            )
            for node in sorted(response.brokers, key=lambda node: node.broker_id)
        },
    )
