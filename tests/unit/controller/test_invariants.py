"""Random lives of a small cluster: what must never be false of in-sync sets, and an index that forgets nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.ids import NO_LEADER
from odradek.controller.index import ClusterIndex
from odradek.metadata.commands import NewPartitions

from .cluster import Cluster

BROKERS = (1, 2, 3)
MIN_ISR = 2

events = st.tuples(
    st.sampled_from(["fence", "kill", "stop", "unfence", "create", "delete", "grow", "expire"]),
    st.sampled_from(BROKERS),
)


def happen(cluster: Cluster, event: str, broker_id: int, number: int) -> None:
    broker = cluster.image.brokers[broker_id]
    topics = list(cluster.image.topics_by_name.values())
    match event:
        case "fence":
            cluster.beat(broker_id, want_fence=True)
        case "unfence":
            cluster.beat(broker_id)
        case "kill":
            cluster.register(broker_id, incarnation=1000 + number)
        case "stop":
            for _ in range(3):
                cluster.beat(broker_id, want_shutdown=True)
                for other in BROKERS:
                    if other != broker_id and not cluster.image.brokers[other].in_controlled_shutdown:
                        cluster.beat(other, want_fence=cluster.image.brokers[other].fenced)
            cluster.register(broker_id, incarnation=2000 + number, previous_broker_epoch=broker.epoch)
        case "create":
            cluster.create(f"topic.{number}", 2, 3, configs={"min.insync.replicas": str(MIN_ISR)})
        case "delete" if topics:
            cluster.take(cluster.controller.delete_topics([topics[number % len(topics)].id]))
        case "grow" if topics:
            topic = topics[number % len(topics)]
            request = NewPartitions(topic.name, len(topic.partitions) + 1, None)
            cluster.take(cluster.controller.create_partitions([request], validate_only=False))
        case "expire":
            cluster.now += 5
            cluster.beat(broker_id, want_fence=broker.fenced)
            cluster.now += 4.5
            while cluster.take(cluster.controller.expire_sessions(cluster.now)) is not None:
                check(cluster)
        case _:
            pass


def check(cluster: Cluster) -> None:
    for topic in cluster.image.topics_by_name.values():
        for partition in topic.partitions.values():
            assert not set(partition.isr) & set(partition.elr)
            assert set(partition.isr) | set(partition.elr) <= set(partition.replicas)
            assert not (len(partition.isr) >= MIN_ISR and partition.elr)
            assert all(not cluster.image.brokers[one].fenced for one in partition.isr)
            assert partition.leader == NO_LEADER or partition.leader in partition.isr
            assert partition.leader != NO_LEADER or partition.isr == ()
            assert len(partition.last_known_elr) <= 1


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


@settings(max_examples=60, deadline=None)
@given(st.lists(events, max_size=25))
def test_whatever_happens(life: list[tuple[str, int]]) -> None:
    cluster = Cluster(brokers=len(BROKERS))
    cluster.create("first.topic", 3, 3, configs={"min.insync.replicas": str(MIN_ISR)})
    for number, (event, broker_id) in enumerate(life):
        happen(cluster, event, broker_id, number)
        check(cluster)
    state = cluster.controller._state
    assert contents(state.index) == contents(ClusterIndex(state.image))
