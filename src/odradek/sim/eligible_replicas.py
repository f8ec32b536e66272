"""Which brokers may crash under guarantee B, which eligible leader replicas (KIP-966) provide."""

from collections.abc import Iterable, Set

from odradek.base.ids import TopicPartition
from odradek.sim.checkers.partition_model import ClusterModel


def leaves_eligible_replica(model: ClusterModel, partitions: Iterable[TopicPartition], doubtful: Set[int]) -> bool:
    """Whether every partition keeps a complete replica although these brokers crash or have crashed.

    Fewer than min.insync.replicas of the replicas that may lead are among them. With more, the remaining replica may
    be unreachable for the controller and leave the ISR while the crashed ones are still in it; then none can lead.
    """
    for partition in partitions:
        key = model.key(partition)
        if key is None:
            return False
        may_lead = {*model.partitions[key].isr, *model.partitions[key].elr}
        if may_lead <= doubtful or len(may_lead & doubtful) >= (model.min_isr(key) or 1):
            return False
    return True
