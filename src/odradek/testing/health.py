"""Whether a cluster is well, as its brokers say themselves to whoever asks over the wire."""

from collections.abc import Iterable, Mapping

from odradek.base.errors import KafkaError
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.layout import ClusterLayout, PartitionLayout
from odradek.testing.errors import ClusterError

ANSWER_SECONDS_MAX = 2.0


def what_is_missing(brokers: Mapping[int, Address]) -> str:
    """Until each of these brokers serves, and knows these to be there and no others, every partition to have a leader,
    and all replicas on them to be in sync. Empty: nothing is.
    """
    if not brokers:
        return "no broker is running"
    for node_id, address in brokers.items():
        try:
            layout = _ask_for_layout(address)
        except (ClientError, KafkaError) as error:
            return f"broker {node_id} does not answer: {error}"
        if layout.brokers.keys() != brokers.keys():
            return f"broker {node_id} knows of brokers {sorted(layout.brokers)}, where {sorted(brokers)} are running"
        for topic in layout.topics.values():
            for partition in topic.partitions:
                if ill := _what_ails(partition, brokers):
                    return f"partition {topic.name}-{partition.id} {ill}, says broker {node_id}"
    return ""


def leader_of(brokers: Iterable[Address], topic: str, partition: int) -> int:
    """By the newest word of these brokers. Raises ClusterError."""
    newest = (-1, -1)
    for address in brokers:
        try:
            found = _ask_for_layout(address).topics.get(topic)
        except (ClientError, KafkaError):
            continue
        if found is not None and partition < len(found.partitions):
            newest = max(newest, (found.partitions[partition].leader_epoch, found.partitions[partition].leader))
    if newest[1] < 0:
        raise ClusterError(f"partition {topic}-{partition} has no leader")
    return newest[1]


def _ask_for_layout(address: Address) -> ClusterLayout:
    with Cluster([address], timeout_s=ANSWER_SECONDS_MAX) as client:
        return client.layout(None)


def _what_ails(partition: PartitionLayout, brokers: Mapping[int, Address]) -> str:
    alive = brokers.keys() & set(partition.replicas)
    if not alive:
        return ""
    if partition.leader not in alive:
        return "has no leader"
    missing = alive - set(partition.isr)
    return f"is not in sync on {sorted(missing)}" if missing else ""
