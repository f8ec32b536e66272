"""Generates the snapshot records of a cluster of any size without holding all of them in memory."""

from collections.abc import Iterator
from random import Random
from uuid import UUID

from odradek.core.metadata import records as log
from odradek.core.metadata.features import METADATA_VERSION

BROKERS = 30
PARTITIONS_PER_TOPIC = 50
REPLICAS = 3
METADATA_LEVEL = 30


def cluster_records(partitions: int) -> Iterator[log.MetadataRecord]:
    """Topics of fifty partitions with three replicas each, with the epochs of a cluster in use."""
    random = Random(partitions)
    directories = [_uuid(random) for _ in range(BROKERS)]
    yield log.FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_LEVEL)
    for broker_id, directory in enumerate(directories):
        yield log.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=_uuid(random),
            broker_epoch=broker_id,
            end_points=(),
            features=(),
            rack=None,
            fenced=False,
            log_dirs=(directory,),
        )
    for number in range(partitions // PARTITIONS_PER_TOPIC):
        yield from topic_records(f"topic-{number}", PARTITIONS_PER_TOPIC, random, directories)


def topic_records(
    name: str, partitions: int, random: Random, directories: list[UUID]
) -> Iterator[log.TopicRecord | log.PartitionRecord]:
    topic_id = _uuid(random)
    yield log.TopicRecord(name=name, topic_id=topic_id)
    for index in range(partitions):
        replicas = tuple(random.sample(range(BROKERS), REPLICAS))
        yield log.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=random.randrange(100),
            partition_epoch=random.randrange(1000),
            directories=tuple(directories[replica] for replica in replicas),
        )


def _uuid(random: Random) -> UUID:
    return UUID(bytes=random.randbytes(16), version=4)
