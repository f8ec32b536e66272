"""Random lives of a small cluster: what must never be false of in-sync sets, and an index that forgets nothing.

Beside the controller's own word, `Copies` keeps who really has what was committed: a leader commits what all in-sync
replicas have, as long as there are enough of them; a broker that stops uncleanly may lose it; who has caught up has it.
"""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.ids import NO_LEADER
from odradek.core.controller.commands import ElectionKind, IsrChange, NewPartitions, Reassignment
from odradek.core.controller.index import ClusterIndex
from odradek.core.metadata.image import RECOVERED, PartitionImage, TopicImage
from tests.unit.core.controller.cluster import Cluster

BROKERS = (1, 2, 3, 4, 5)
MIN_ISR = 2
COMMON = ["fence", "unfence", "catch up", "catch up", "fall behind", "swap", "swap", "call off"]
RARE = ["kill", "stop", "expire", "create", "delete", "add partition", "all catch up", "grow", "shrink"]
RARE += ["elect", "balance"]

events = st.tuples(st.sampled_from(COMMON * 2 + RARE), st.sampled_from(BROKERS))


def happen(cluster: Cluster, event: str, broker_id: int, number: int) -> None:
    broker = cluster.image.brokers[broker_id]
    topics = list(cluster.image.topics_by_name.values())
    match event:
        case "fence":
            cluster.beat(broker_id, want_fence=True)
        case "unfence":
            cluster.beat(broker_id)
        case "kill":
            cluster.restart(broker_id, incarnation=1000 + number)
        case "stop":
            for _ in range(3):
                cluster.beat(broker_id, want_shutdown=True)
                for other in BROKERS:
                    if other != broker_id and not cluster.image.brokers[other].in_controlled_shutdown:
                        cluster.beat(other, want_fence=cluster.image.brokers[other].fenced)
            cluster.restart(broker_id, incarnation=2000 + number, previous_broker_epoch=broker.epoch)
        case "create":
            cluster.create(f"topic.{number}", 2, 3, configs={"min.insync.replicas": str(MIN_ISR)})
        case "delete" if topics:
            cluster.take(cluster.controller.delete_topics([topics[number % len(topics)].id]))
        case "add partition" if topics:
            topic = topics[number % len(topics)]
            request = NewPartitions(topic.name, len(topic.partitions) + 1, None)
            cluster.take(cluster.controller.create_partitions([request], validate_only=False))
        case "expire":
            cluster.now += 5
            cluster.beat(broker_id, want_fence=broker.fenced)
            cluster.now += 4.5
            while cluster.take(cluster.controller.expire_sessions(cluster.now)) is not None:
                check(cluster)
        case "catch up" | "fall behind":
            for topic in topics:
                for index, partition in topic.partitions.items():
                    if partition.has_leader and partition.leader != broker_id and broker_id in partition.replicas:
                        others = [one for one in partition.isr if one != broker_id]
                        comes = event == "catch up" and cluster.is_alive(broker_id)
                        say_in_sync(cluster, topic, index, [*others, broker_id] if comes else others)
        case "all catch up":
            for topic in topics:
                cluster.rejoin(topic.name)
        case "swap" | "grow" | "shrink" if topics:
            move(cluster, event, topics[number % len(topics)], number, broker_id)
        case "call off" if topics:
            wishes = [Reassignment(topic.name, index, None) for topic in topics for index in topic.partitions]
            cluster.take(cluster.controller.alter_reassignments(wishes, allow_replication_factor_change=True))
        case "elect":
            cluster.take(cluster.controller.elect_leaders(ElectionKind.PREFERRED, None))
        case "balance":
            cluster.take(cluster.controller.balance_leaders())
        case _:
            pass


def say_in_sync(cluster: Cluster, topic: TopicImage, index: int, isr: list[int]) -> None:
    partition = topic.partitions[index]
    epochs = [(one, cluster.image.brokers[one].epoch) for one in isr]
    change = IsrChange(topic.id, index, partition.leader_epoch, partition.partition_epoch, epochs, RECOVERED)
    cluster.take(
        cluster.controller.alter_partitions(partition.leader, cluster.image.brokers[partition.leader].epoch, [change])
    )


def move(cluster: Cluster, how: str, topic: TopicImage, number: int, broker_id: int) -> None:
    """To where the partition is, with this broker more or less, or instead of another."""
    index = number % len(topic.partitions)
    partition = topic.partitions[index]
    final = [one for one in partition.replicas if one not in partition.removing and one != broker_id]
    if how != "shrink":
        final.insert(number % (len(final) + 1), broker_id)
    if how == "swap" and len(final) > 1:
        final.remove(next(one for one in final if one != broker_id))
    wish = Reassignment(topic.name, index, tuple(final))
    cluster.take(cluster.controller.alter_reassignments([wish], allow_replication_factor_change=True))


def check(cluster: Cluster) -> None:
    for topic in cluster.image.topics_by_name.values():
        for partition in topic.partitions.values():
            replicas = set(partition.replicas)
            assert len(replicas) == len(partition.replicas) == len(partition.directories) > 0
            assert not set(partition.isr) & set(partition.elr)
            assert set(partition.isr) | set(partition.elr) | set(partition.last_known_elr) <= replicas
            assert not (len(partition.isr) >= min(MIN_ISR, len(replicas)) and partition.elr)
            assert all(not cluster.image.brokers[one].fenced for one in partition.isr)
            assert partition.leader == NO_LEADER or partition.leader in partition.isr
            assert partition.leader != NO_LEADER or partition.isr == ()
            assert len(partition.last_known_elr) <= 1
            assert set(partition.adding) | set(partition.removing) <= replicas
            assert not set(partition.adding) & set(partition.removing)


class Copies:
    def __init__(self, cluster: Cluster) -> None:
        self.of: dict[tuple[UUID, int], set[int]] = {}
        self.follow(cluster, "begin", 0)

    def follow(self, cluster: Cluster, event: str, broker_id: int) -> None:
        """What the event made of the copies, and whether the controller's word is still true."""
        for topic in cluster.image.topics_by_name.values():
            for index, partition in topic.partitions.items():
                key = topic.id, index
                has = self.of.get(key)
                self.of[key] = set(partition.isr) if has is None else self._after(event, broker_id, partition, has)

    def _after(self, event: str, broker_id: int, partition: PartitionImage, had: set[int]) -> set[int]:
        has = set(had)
        if event == "kill":
            has.discard(broker_id)
        if event in ("catch up", "all catch up") or partition.leader_recovery_state != RECOVERED:
            has |= set(partition.isr)
        assert set(partition.isr) | set(partition.elr) <= has, (
            "the ISR or ELR contains a replica without all committed records"
        )
        has &= set(partition.replicas)
        if event not in ("kill", "call off"):
            enough = min(MIN_ISR, len(partition.replicas), len(had))
            assert len(has) >= enough, "copies were given away that were promised"
        return set(partition.isr) if len(partition.isr) >= min(MIN_ISR, len(partition.replicas)) else has


def contents(index: ClusterIndex) -> object:
    def counts(by_broker: object) -> object:
        assert isinstance(by_broker, dict)
        return {broker: dict(topics._counts) for broker, topics in by_broker.items() if topics}

    return (
        counts(index._in_isr),
        counts(index._in_elr),
        counts(index._led),
        index._led_by_another._counts,
        index._reassigned._counts,
        {key: set(names) for key, names in index._colliding.items()},
        index._broker_of_directory,
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(events, max_size=30))
def test_isr_and_elr_invariants_hold_in_random_histories(life: list[tuple[str, int]]) -> None:
    cluster = Cluster(brokers=len(BROKERS))
    cluster.create("first.topic", 1, 3, configs={"min.insync.replicas": str(MIN_ISR)})
    copies = Copies(cluster)
    for number, (event, broker_id) in enumerate(life):
        happen(cluster, event, broker_id, number)
        check(cluster)
        copies.follow(cluster, event, broker_id)
    state = cluster.controller._state
    assert contents(state.index) == contents(ClusterIndex(state.image))
