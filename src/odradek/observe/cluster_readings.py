"""Metrics of the cluster, from the metadata image: those of every controller, and leader elections."""

from typing import Final

from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import BrokerImage, ClusterImage
from odradek.instruments.elections import ElectionCounts
from odradek.observe.families import NO_LABELS, Family, Kind, attribute, gauge, meter, own, value

_DOMAIN: Final = "kafka.controller"
_CONTROLLER: Final = "KafkaController"
_STATS: Final = "ControllerStats"
_LOADER: Final = "MetadataLoader"


def count_elections(delta: ImageDelta, counts: ElectionCounts) -> None:
    """Counts the elections of one image change. The first leader of a partition is not elected."""
    for topic in delta.topics_changed:
        before = delta.previous.topics_by_id.get(topic.id)
        if before is None:
            continue
        for index in delta.partitions_changed.get(topic.id, ()):
            old, new = before.partitions.get(index), topic.partitions[index]
            if old is not None and new.leader >= 0 and new.leader != old.leader:
                counts.count_election(new.leader, old.isr, old.elr)


def controller_families(image: ClusterImage, elections: ElectionCounts, *, is_active: bool) -> list[Family]:
    def count(name: str, number: float) -> Family:
        return value(_DOMAIN, _CONTROLLER, name, number)

    partitions = [one for topic in image.topics_by_name.values() for one in topic.partitions.values()]
    brokers = image.brokers.values()
    return [
        count("ActiveControllerCount", int(is_active)),
        count("ActiveBrokerCount", sum(not broker.fenced for broker in brokers)),
        count("FencedBrokerCount", sum(broker.fenced for broker in brokers)),
        count("ControlledShutdownBrokerCount", sum(broker.in_controlled_shutdown for broker in brokers)),
        count("GlobalTopicCount", len(image.topics_by_name)),
        count("GlobalPartitionCount", len(partitions)),
        count("OfflinePartitionsCount", sum(not one.has_leader for one in partitions)),
        count("PreferredReplicaImbalanceCount", sum(one.leader != one.preferred_leader for one in partitions)),
        gauge(
            _DOMAIN,
            _CONTROLLER,
            "BrokerRegistrationState",
            (({"broker": str(broker.id)}, _registration_state(broker)) for broker in brokers),
        ),
        count("LastAppliedRecordOffset", image.offset),
        count("LastAppliedRecordTimestamp", image.timestamp_ms),
        meter(_DOMAIN, _STATS, "UncleanLeaderElectionsPerSec", [(NO_LABELS, elections.unclean)]),
        meter(_DOMAIN, _STATS, "ElectionFromEligibleLeaderReplicasPerSec", [(NO_LABELS, elections.from_eligible)]),
        own(
            "leader_elections",
            "Leader elections that this node has seen in the metadata log",
            Kind.COUNTER,
            [(NO_LABELS, elections.total)],
        ),
    ]


def metadata_families(image: ClusterImage, *, leader_id: int, epoch: int, log_end_offset: int) -> list[Family]:
    """Metrics of any node: its position in the metadata log, and the quorum leader that it follows."""
    return [
        value("kafka.server", _LOADER, "CurrentControllerId", leader_id),
        value("kafka.server", _LOADER, "CurrentMetadataVersion", image.features.metadata_version),
        gauge(
            "kafka.server",
            _LOADER,
            "FinalizedLevel",
            (({"featureName": _camel(name)}, level) for name, level in sorted(image.features.levels.items())),
        ),
        attribute("broker-metadata-metrics", "last-applied-record-offset", [(NO_LABELS, image.offset)]),
        attribute("broker-metadata-metrics", "last-applied-record-timestamp", [(NO_LABELS, image.timestamp_ms)]),
        attribute("raft-metrics", "current-leader", [(NO_LABELS, leader_id)]),
        attribute("raft-metrics", "current-epoch", [(NO_LABELS, epoch)]),
        attribute("raft-metrics", "log-end-offset", [(NO_LABELS, log_end_offset)]),
    ]


def _registration_state(broker: BrokerImage) -> int:
    """As the value that Kafka uses."""
    return 10 if broker.fenced else 20 if broker.in_controlled_shutdown else 30


def _camel(feature: str) -> str:
    first, *others = feature.replace("-", ".").split(".")
    return first + "".join(part.capitalize() for part in others)
