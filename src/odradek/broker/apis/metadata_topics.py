"""The topics of a Metadata response, encoded as one listener's clients see them, from the cache where possible."""

from collections.abc import Iterable
from itertools import islice
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.slices import Slices
from odradek.broker.apis.cluster_view import (
    NO_BROKER,
    is_alive,
    leader_endpoint,
    offline_replicas,
    reachable_brokers,
)
from odradek.broker.metadata_cache import MetadataCache
from odradek.core.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.core.metadata.topic_names import INTERNAL_TOPICS
from odradek.wire.metadata_codec import (
    FIRST_WITH_LISTENER_NOT_FOUND,
    MetadataBroker,
    MetadataPartition,
    topic_form,
    write_brokers,
    write_partitions,
    write_topic_start,
)

# What one slice may cost, about a millisecond: partitions that are encoded, and topics that are found in the cache.
SLICE_COST: Final = 4000
_PARTITION_COST: Final = 10
_ENCODED_TOPIC_COST: Final = 20
_TOPIC_COST: Final = 1
_SLICE_PARTITIONS: Final = SLICE_COST // _PARTITION_COST


class TopicEncoder:
    """Encodes topics of one image for one listener and version."""

    def __init__(
        self, image: ClusterImage, listener: str, version: int, unreachable: frozenset[int], cache: MetadataCache
    ) -> None:
        self._image: Final = image
        self._listener: Final = listener
        self._version: Final = version
        self._unreachable: Final = unreachable
        self._table: Final = cache.table(listener, topic_form(version))
        self._generation: Final = self._table.update(image, unreachable)
        # Kept, since there are far fewer replica sets than partitions.
        self._offline: Final[dict[tuple[tuple[int, ...], tuple[UUID | None, ...]], tuple[int, ...]]] = {}

    @property
    def brokers(self) -> bytes:
        """The encoded brokers."""
        encoded = self._table.encoded_brokers
        if encoded is None:
            encoded = self._table.encoded_brokers = write_brokers(
                self._version,
                [
                    MetadataBroker(one.id, endpoint.host, endpoint.port, one.rack)
                    for one, endpoint in reachable_brokers(self._image, self._listener)
                    if not one.fenced
                ],
            )
        return encoded

    def encode(self, topics: Iterable[TopicImage], end: bytes) -> Slices[list[bytes]]:
        """Returns chunks of encoded topics. `end` completes each topic."""
        chunks: list[bytes] = []
        pieces: list[bytes] = []
        left = SLICE_COST
        find, generation = self._table.find, self._generation
        for topic in topics:
            encoded = find(topic, generation)
            if encoded is None:
                partition_count = len(topic.partitions)
                if partition_count <= _SLICE_PARTITIONS:
                    encoded = self._encode_at_once(topic)
                else:
                    encoded = yield from self._encode_in_slices(topic)
                left -= _ENCODED_TOPIC_COST + _PARTITION_COST * partition_count
            pieces += (encoded, end)
            left -= _TOPIC_COST
            if left <= 0:
                chunks.append(b"".join(pieces))
                pieces.clear()
                left = SLICE_COST
                yield
        return [*chunks, b"".join(pieces)]

    def _encode_at_once(self, topic: TopicImage) -> bytes:
        encoded = self._topic_start(topic) + self._encode_partitions(topic.partitions.items())
        self._table.store(topic, encoded, _brokers_of(topic.partitions.values()), self._generation)
        return encoded

    def _encode_in_slices(self, topic: TopicImage) -> Slices[bytes]:
        pieces = [self._topic_start(topic)]
        brokers: frozenset[int] = frozenset()
        partitions = iter(topic.partitions.items())
        while some := list(islice(partitions, _SLICE_PARTITIONS)):
            pieces.append(self._encode_partitions(some))
            brokers |= _brokers_of(partition for _, partition in some)
            yield
        encoded = b"".join(pieces)
        self._table.store(topic, encoded, brokers, self._generation)
        return encoded

    def _topic_start(self, topic: TopicImage) -> bytes:
        is_internal = topic.name in INTERNAL_TOPICS
        return write_topic_start(
            self._version, ErrorCode.none, topic.name, topic.id, is_internal, len(topic.partitions)
        )

    def _encode_partitions(self, partitions: Iterable[tuple[int, PartitionImage]]) -> bytes:
        return write_partitions(self._version, [self._describe(index, one) for index, one in partitions])

    def _describe(self, index: int, partition: PartitionImage) -> MetadataPartition:
        replicas, isr = partition.replicas, partition.isr
        if self._version == 0:
            # Later versions return offline brokers too: clients compare them with the list of brokers.
            replicas = tuple(one for one in replicas if is_alive(self._image, one, self._listener))
            isr = tuple(one for one in isr if is_alive(self._image, one, self._listener))
        error = ErrorCode.none
        leader_id = partition.leader
        if leader_endpoint(self._image, partition, self._listener) is None:
            lacks_listener = leader_id in self._image.brokers and self._version >= FIRST_WITH_LISTENER_NOT_FOUND
            error = ErrorCode.listener_not_found if lacks_listener else ErrorCode.leader_not_available
            leader_id = NO_BROKER
        elif leader_id in self._unreachable:
            # A successor is about to be elected: without a leader, the client retries soon.
            error, leader_id = ErrorCode.leader_not_available, NO_BROKER
        elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.replica_not_available
        return MetadataPartition(
            error, index, leader_id, partition.leader_epoch, replicas, isr, self._offline_replicas(partition)
        )

    def _offline_replicas(self, partition: PartitionImage) -> tuple[int, ...]:
        key = (partition.replicas, partition.directories)
        found = self._offline.get(key)
        if found is None:
            found = self._offline[key] = offline_replicas(self._image, partition, self._listener)
        return found


def _brokers_of(partitions: Iterable[PartitionImage]) -> frozenset[int]:
    """The brokers with replicas. A partition's leader and ISR are among its replicas."""
    # There are far fewer replica sets than partitions.
    return frozenset().union(*{partition.replicas for partition in partitions})
