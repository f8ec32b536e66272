"""The cluster as seen through one listener: brokers, leaders and offline replicas."""

from collections.abc import Iterator
from uuid import UUID

from odradek.base.ports import Random
from odradek.core.metadata.directories import LOST, MIGRATING, UNASSIGNED
from odradek.core.metadata.image import BrokerImage, ClusterImage, PartitionImage
from odradek.core.metadata.records import Endpoint

NO_BROKER = -1


def reachable_brokers(image: ClusterImage, listener: str) -> Iterator[tuple[BrokerImage, Endpoint]]:
    """Every registered broker that has the listener, including fenced ones."""
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            yield broker, endpoint


def random_alive_broker(image: ClusterImage, random: Random) -> int:
    """The broker that clients use as the controller: any broker forwards to the active controller."""
    alive = [broker.id for broker in image.brokers.values() if not broker.fenced]
    return alive[random.randrange(len(alive))] if alive else NO_BROKER


def leader_endpoint(image: ClusterImage, partition: PartitionImage, listener: str) -> Endpoint | None:
    leader = image.brokers.get(partition.leader)
    return None if leader is None else leader.endpoint(listener)


def is_alive(image: ClusterImage, broker_id: int, listener: str) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and broker.endpoint(listener) is not None


def offline_replicas(image: ClusterImage, partition: PartitionImage, listener: str) -> tuple[int, ...]:
    return tuple(
        broker_id
        for broker_id, directory in zip(partition.replicas, partition.directories, strict=True)
        if not is_alive(image, broker_id, listener) or not _is_online(image.brokers[broker_id], directory)
    )


def _is_online(broker: BrokerImage, directory: UUID | None) -> bool:
    if directory in (UNASSIGNED, MIGRATING) or not broker.directories:
        return True
    return directory != LOST and directory in broker.directories
