"""Takes snapshots of a cluster: the cheap part every time, the details less often.

An unresponsive node does not fail the snapshot: its data is missing, and the readings say so.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.disks import LogDir, log_dirs_of
from odradek.client.errors import ClientError, NotSupportedByBroker
from odradek.client.features import finalized_features
from odradek.client.layout import TopicLayout
from odradek.client.membership import Member, brokers
from odradek.client.quorum import QuorumAdmin, QuorumStatus
from odradek.client.reassignments import Reassignment, Reassignments
from odradek.client.traffic import Traffic, traffic
from odradek.console.readings.snapshot import ClusterSnapshot

# HTTP timeout per node.
_HTTP_S: Final = 0.5
_TOPICS_AT_ONCE: Final = 500
_MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Data that is expensive to query and changes slowly."""

    disks: Mapping[int, tuple[LogDir, ...]]
    traffic: Traffic
    features: Mapping[str, int]


def take_snapshot(cluster: Cluster, before: ClusterSnapshot | None) -> ClusterSnapshot:
    """Copies the details from `before`."""
    found = brokers(cluster)
    layout = cluster.retry("listing topics", lambda: cluster.layout(None))
    now_ms = time.time_ns() // 1_000_000
    snapshot = ClusterSnapshot(
        at_ms=now_ms,
        cluster_id=found.cluster_id,
        members=found.nodes,
        reachable=frozenset(layout.brokers),
        topics=layout.topics,
        quorum=_quorum(cluster),
        reassignments=_reassignments(cluster),
        min_isr=_min_isr(cluster, layout.topics, before.min_isr if before else {}),
    )
    if before is None:
        return snapshot
    return replace(
        snapshot,
        disks={broker: held for broker, held in before.disks.items() if broker in snapshot.reachable},
        traffic=before.traffic,
        features=before.features,
        down_since_ms=_down_since(snapshot, before, now_ms),
    )


def fetch_details(cluster: Cluster, snapshot: ClusterSnapshot) -> Details:
    disks = {}
    for broker in sorted(snapshot.reachable):
        try:
            disks[broker] = log_dirs_of(cluster, broker)
        except (KafkaError, ClientError):
            continue
    serving: dict[int, Member] = {one: snapshot.members[one] for one in snapshot.reachable if one in snapshot.members}
    try:
        rates = traffic(cluster, snapshot.cluster_id, serving, timeout_s=_HTTP_S)
        features = finalized_features(cluster)
    except (KafkaError, ClientError) as error:
        return Details(
            disks=disks,
            traffic=Traffic(rates={}, unavailable=dict.fromkeys(serving, str(error))),
            features=snapshot.features,
        )
    return Details(disks=disks, traffic=rates, features=features)


def add_details(snapshot: ClusterSnapshot, details: Details) -> ClusterSnapshot:
    return replace(snapshot, disks=details.disks, traffic=details.traffic, features=details.features)


def _quorum(cluster: Cluster) -> QuorumStatus | None:
    try:
        return QuorumAdmin(cluster).describe()
    except (KafkaError, ClientError):
        # Older clusters do not support the request, and others may deny it.
        return None


def _reassignments(cluster: Cluster) -> tuple[Reassignment, ...]:
    try:
        return tuple(Reassignments(cluster).list_ongoing())
    except NotSupportedByBroker:
        return ()
    except KafkaError as error:
        if error.code is ErrorCode.cluster_authorization_failed:
            return ()
        raise


def _min_isr(cluster: Cluster, topics: Mapping[str, TopicLayout], known: Mapping[str, int]) -> dict[str, int]:
    """Queries only topics with missing replicas, every time, because a user may be changing the config."""
    under_replicated = [
        topic.name for topic in topics.values() if any(len(one.isr) < len(one.replicas) for one in topic.partitions)
    ]
    found = {name: known[name] for name in under_replicated if name in known}
    try:
        for start in range(0, len(under_replicated), _TOPICS_AT_ONCE):
            described = Admin(cluster).topic_configs(under_replicated[start : start + _TOPICS_AT_ONCE], [_MIN_ISR])
            for topic, configs in described.items():
                found.update((topic, int(one.value)) for one in configs if one.name == _MIN_ISR and one.value)
    except (KafkaError, ClientError):
        # A topic may be deleted between two requests.
        return found
    return found


def _down_since(snapshot: ClusterSnapshot, before: ClusterSnapshot, now_ms: int) -> dict[int, int]:
    """Covers brokers that went down between snapshots; for the others the time is unknown."""
    down = set(snapshot.down) | (before.members.keys() - snapshot.members.keys())
    still = {broker: since for broker, since in before.down_since_ms.items() if broker in down}
    serving = set(before.members) - set(before.down)
    went = down & serving - still.keys()
    return still | {broker: before.unresponsive_since_ms.get(broker, now_ms) for broker in went}
