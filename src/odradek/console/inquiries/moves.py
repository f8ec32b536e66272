"""How far the moves are that are under way."""

from odradek.client.cluster import Cluster
from odradek.client.log_dirs import sizes_on
from odradek.client.reassignment_progress import ReassignmentState, state_of
from odradek.client.reassignments import Reassignments


def states_of_moves(cluster: Cluster) -> list[ReassignmentState]:
    moves = Reassignments(cluster).ongoing()
    if not moves:
        return []
    layout = cluster.retry("listing brokers", lambda: cluster.layout({move.partition.topic for move in moves}))
    asked = {broker for move in moves for broker in move.replicas} & layout.brokers.keys()
    sizes = sizes_on(cluster, sorted(asked), [move.partition for move in moves])
    leaders = {(topic.name, one.id): one.leader for topic in layout.topics.values() for one in topic.partitions}
    return [state_of(move, leaders.get(move.partition, -1), sizes) for move in moves]
