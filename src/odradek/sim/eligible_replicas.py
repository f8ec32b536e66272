"""Who may die where a copy of everything is to be spared: promise B, as eligible leader replicas (KIP-966) keep it."""

from collections.abc import Iterable, Set

from odradek.base.ids import TopicPartition
from odradek.sim.checkers.partition_model import ClusterModel


def leaves_eligible_replica(model: ClusterModel, partitions: Iterable[TopicPartition], doubtful: Set[int]) -> bool:
    """Whether all is well though these brokers die, or have died since they were last heard of.

    Somebody else has to have everything of every partition. And fewer than min.insync.replicas of those that may lead
    are among them: where they are as many, whoever is left may be out of the controller's sight and lose its place
    while the dead still have theirs, and then nobody is left who may lead.
    """
    for partition in partitions:
        key = model.key(partition)
        if key is None:
            return False
        may_lead = {*model.partitions[key].isr, *model.partitions[key].elr}
        if may_lead <= doubtful or len(may_lead & doubtful) >= (model.min_isr(key) or 1):
            return False
    return True
