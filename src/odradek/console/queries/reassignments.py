"""Queries the progress of ongoing reassignments."""

from odradek.client.cluster import Cluster
from odradek.client.log_dirs import sizes_on
from odradek.client.reassignment_progress import ReassignmentState, state_of
from odradek.client.reassignments import Reassignments


def reassignment_states(cluster: Cluster) -> list[ReassignmentState]:
    reassignments = Reassignments(cluster).list_ongoing()
    if not reassignments:
        return []
    layout = cluster.retry(
        "listing brokers", lambda: cluster.layout({reassignment.partition.topic for reassignment in reassignments})
    )
    queried = {broker for reassignment in reassignments for broker in reassignment.replicas} & layout.brokers.keys()
    sizes = sizes_on(cluster, sorted(queried), [reassignment.partition for reassignment in reassignments])
    leaders = {(topic.name, one.id): one.leader for topic in layout.topics.values() for one in topic.partitions}
    return [state_of(reassignment, leaders.get(reassignment.partition, -1), sizes) for reassignment in reassignments]
