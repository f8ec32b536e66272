"""Encoded topics are kept exactly as long as they are valid: the cached response always equals a fresh one."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from odradek.base.slices import run_at_once
from odradek.broker.apis import metadata
from odradek.broker.metadata_cache import TABLES_MAX, MetadataCache, TopicTable
from odradek.core.metadata import records as log
from odradek.core.metadata.apply import apply
from odradek.core.metadata.directories import LOST, UNASSIGNED
from odradek.core.metadata.image import RESOURCE_TOPIC, ClusterImage
from odradek.core.metadata.records import Endpoint
from odradek.server.context import RequestContext
from odradek.wire.metadata_codec import topic_form
from odradek.wire.schemas import Schema, schema
from tests import raw_wire
from tests.unit.broker.fake_broker import FakeBroker, broker_image, partition_image, run
from tests.unit.wire.counted_slices import run_and_count

METADATA = 3
NEWEST = 13
LISTENER, OTHER_LISTENER = "PLAINTEXT", "EXTERNAL"


def context_of(version: int, listener: str = LISTENER) -> RequestContext:
    return RequestContext(METADATA, version, "test", listener, "127.0.0.1", schema(METADATA, version))


def request_of(messages: Schema, names: list[str] | None = None, **fields: Any) -> Any:
    topics = [{"name": name} for name in names] if names is not None else None
    if topics is None and messages.version == 0:
        topics = []
    defaults = {"topics": topics, "allow_auto_topic_creation": False}
    return raw_wire.build(messages.request_type, {**defaults, **fields})


def respond(broker: FakeBroker, version: int = NEWEST, listener: str = LISTENER, **fields: Any) -> bytes:
    """The encoded response. The broker that is returned as the controller is always the same."""
    broker.random = random.Random(7)
    context = context_of(version, listener)
    return b"".join(run(metadata.handle(request_of(context.schema, **fields), context, broker)))


def respond_without_cache(broker: FakeBroker, version: int = NEWEST, listener: str = LISTENER, **fields: Any) -> bytes:
    kept, broker.metadata_cache = broker.metadata_cache, MetadataCache()
    try:
        return respond(broker, version, listener, **fields)
    finally:
        broker.metadata_cache = kept


def table_of(broker: FakeBroker, version: int = NEWEST, listener: str = LISTENER) -> TopicTable:
    return broker.metadata_cache.table(listener, topic_form(version))


def encodings(broker: FakeBroker, do: Callable[[], Any]) -> int:
    """How many topics are encoded while the callable runs."""
    before = table_of(broker).stored
    do()
    return table_of(broker).stored - before


@pytest.fixture
def cluster(broker: FakeBroker) -> FakeBroker:
    """Three brokers and 30 topics, of which every third has a replica on each broker, with all of them encoded."""
    broker.set_brokers(*map(broker_image, (1, 2, 3)))
    for number in range(30):
        replicas = (1 + number % 3, 1 + (number + 1) % 3)
        directory = UUID(int=1000)
        state = partition_image(
            replicas=replicas, directories=(directory, directory), isr=replicas, leader=replicas[0], leader_epoch=3
        )
        broker.add_topic(f"topic-{number}", 2, state=state, held=False)
    assert encodings(broker, lambda: respond(broker)) == 30
    return broker


class TestCountedEncodings:
    def test_topics_are_encoded_once(self, cluster: FakeBroker) -> None:
        assert encodings(cluster, lambda: [respond(cluster) for _ in range(5)]) == 0
        assert encodings(cluster, lambda: respond(cluster, names=["topic-1", "topic-7"])) == 0

    def test_versions_with_the_same_form_share_their_topics(self, cluster: FakeBroker) -> None:
        for version in (10, 11, 12):
            assert encodings(cluster, lambda version=version: respond(cluster, version)) == 0  # type: ignore[misc]
        respond(cluster, 7)
        before = table_of(cluster, 7).stored
        respond(cluster, 8)
        assert table_of(cluster, 8).stored == before

    def test_authorized_operations_need_no_encoding(self, cluster: FakeBroker) -> None:
        fields = {"include_topic_authorized_operations": True}
        assert encodings(cluster, lambda: respond(cluster, **fields)) == 0
        assert respond(cluster, **fields) == respond_without_cache(cluster, **fields) != respond(cluster)

    def test_changed_topic_is_encoded_alone(self, cluster: FakeBroker) -> None:
        topic = cluster.image.topics_by_name["topic-4"]
        record = log.PartitionChangeRecord(topic_id=topic.id, partition_id=1, isr=(topic.partitions[1].replicas[0],))
        cluster.image, _ = apply(cluster.image, [record], offset=1, epoch=1)
        assert encodings(cluster, lambda: respond(cluster)) == 1
        assert respond(cluster) == respond_without_cache(cluster)

    def test_records_about_other_things_need_no_encoding(self, cluster: FakeBroker) -> None:
        record = log.ConfigRecord(
            resource_type=RESOURCE_TOPIC, resource_name="topic-1", name="retention.ms", value="1000"
        )
        cluster.image, _ = apply(cluster.image, [record], offset=1, epoch=1)
        assert encodings(cluster, lambda: respond(cluster)) == 0

    @pytest.mark.parametrize(
        "change",
        [
            {"fenced": True},
            {"directories": (UUID(int=5),)},
            {"endpoints": ()},
        ],
        ids=str,
    )
    def test_changed_broker_invalidates_the_topics_with_its_replicas(
        self, cluster: FakeBroker, change: dict[str, Any]
    ) -> None:
        cluster.set_brokers(broker_image(1), replace(broker_image(2), **change), broker_image(3))
        assert encodings(cluster, lambda: respond(cluster)) == 20
        assert respond(cluster) == respond_without_cache(cluster)

    def test_unregistered_broker_invalidates_the_topics_with_its_replicas(self, cluster: FakeBroker) -> None:
        cluster.set_brokers(broker_image(1), broker_image(3))
        assert encodings(cluster, lambda: respond(cluster)) == 20
        assert respond(cluster) == respond_without_cache(cluster)
        cluster.set_brokers(*map(broker_image, (1, 2, 3)))
        assert encodings(cluster, lambda: respond(cluster)) == 20
        assert respond(cluster) == respond_without_cache(cluster)

    def test_unreachable_leader_invalidates_the_topics_with_its_replicas(self, cluster: FakeBroker) -> None:
        for unreachable in ({2}, set()):
            cluster.unreachable = unreachable
            assert encodings(cluster, lambda: respond(cluster)) == 20
            assert respond(cluster) == respond_without_cache(cluster)

    def test_new_address_of_a_broker_needs_no_encoding_of_topics(self, cluster: FakeBroker) -> None:
        before = respond(cluster)
        moved = Endpoint(name=LISTENER, host="elsewhere", port=1, security_protocol=0)
        cluster.set_brokers(
            broker_image(1), replace(broker_image(2), endpoints=(moved,), epoch=11, rack="other"), broker_image(3)
        )
        assert encodings(cluster, lambda: respond(cluster)) == 0
        assert respond(cluster) == respond_without_cache(cluster) != before

    def test_listeners_have_separate_topics(self, cluster: FakeBroker) -> None:
        assert respond(cluster, NEWEST, OTHER_LISTENER) == respond_without_cache(cluster, NEWEST, OTHER_LISTENER)
        assert table_of(cluster, NEWEST, OTHER_LISTENER).stored == 30
        assert respond(cluster) == respond_without_cache(cluster)


class TestBounds:
    def test_deleted_topics_are_dropped(self, broker: FakeBroker) -> None:
        for number in range(1100):
            broker.add_topic(f"topic-{number}", held=False)
        respond(broker)
        assert len(table_of(broker)) == 1100
        broker.image = replace(
            broker.image, topics_by_name=ClusterImage().topics_by_name, topics_by_id=ClusterImage().topics_by_id
        )
        respond(broker)
        assert len(table_of(broker)) == 0

    def test_few_listeners_and_forms_are_kept(self, cluster: FakeBroker) -> None:
        for version in (0, 1, 5, 6, 7, 9, 10):
            respond(cluster, version)
        assert len(cluster.metadata_cache) == TABLES_MAX
        assert encodings(cluster, lambda: respond(cluster)) == 0

    @pytest.mark.parametrize(
        ("topics", "partitions", "first", "later"), [(9000, 0, 47, 2), (600, 10, 18, 0), (1, 6000, 15, 0)]
    )
    def test_responses_are_built_in_slices(
        self, broker: FakeBroker, topics: int, partitions: int, first: int, later: int
    ) -> None:
        """A slice encodes 400 partitions or 200 topics, or takes 4,000 topics from the cache."""
        for number in range(topics):
            broker.add_topic(f"topic-{number}", partitions, held=False)
        context = context_of(NEWEST)
        for expected in (first, later):
            wanted = metadata._Wanted(broker.image)
            _, slices = run_and_count(metadata._response(wanted, request_of(context.schema), context, broker))
            assert slices == pytest.approx(expected, abs=1)


class TestImagesThatChangeMeanwhile:
    def test_response_is_about_the_image_with_which_it_started(self, broker: FakeBroker) -> None:
        broker.set_brokers(*map(broker_image, (1, 2)))
        state = partition_image(replicas=(1, 2), directories=(UUID(int=1000),) * 2, isr=(1, 2))
        for number in range(1000):
            broker.add_topic(f"topic-{number}", state=state, held=False)
        first = broker.image
        context = context_of(NEWEST)
        broker.random = random.Random(7)
        slices = metadata._response(metadata._Wanted(first), request_of(context.schema), context, broker)
        next(slices)
        broker.set_brokers(broker_image(1), broker_image(2, fenced=True))
        second = respond(broker)
        assert second == respond_without_cache(broker)
        finished = b"".join(run_at_once(slices))
        assert respond(broker) == second
        broker.image = first
        assert finished == respond_without_cache(broker)


# Random changes


class History:
    """Random changes of the metadata image, and of the leaders that seem to be dead."""

    LISTENERS = (LISTENER, OTHER_LISTENER)
    DIRECTORIES = (UUID(int=1000), UUID(int=1001), LOST, UNASSIGNED)

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.image = ClusterImage()
        self.unreachable: set[int] = set()
        self._offset = 0

    def step(self) -> None:
        changes = (
            self._register,
            self._change_broker,
            self._unregister,
            self._create_topic,
            self._create_topic,
            self._grow_topic,
            self._change_partition,
            self._change_partition,
            self._change_partition,
            self._delete_topic,
            self._change_config,
            self._doubt,
        )
        for _ in range(self._chance.randint(1, 3)):
            records = self._chance.choice(changes)()
            self._offset += 1
            self.image, _ = apply(self.image, records, offset=self._offset, epoch=1)

    def _register(self) -> list[Any]:
        chance = self._chance
        broker_id = chance.randint(1, 5)
        names = chance.sample(self.LISTENERS, chance.randint(0, 2))
        return [
            log.RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=UUID(int=chance.getrandbits(64)),
                broker_epoch=self._offset,
                end_points=tuple(
                    Endpoint(name=name, host=f"host-{chance.randint(1, 3)}", port=9092, security_protocol=0)
                    for name in names
                ),
                features=(),
                rack=chance.choice((None, "a", "b")),
                fenced=chance.random() < 0.3,
                log_dirs=tuple(chance.sample(self.DIRECTORIES[:2], chance.randint(0, 2))),
            )
        ]

    def _change_broker(self) -> list[Any]:
        if not self.image.brokers:
            return []
        broker = self._chance.choice(list(self.image.brokers.values()))
        return [
            log.BrokerRegistrationChangeRecord(
                broker_id=broker.id,
                broker_epoch=broker.epoch,
                fenced=self._chance.choice((-1, 0, 1)),
                log_dirs=tuple(self._chance.sample(self.DIRECTORIES[:2], self._chance.randint(0, 2))),
            )
        ]

    def _unregister(self) -> list[Any]:
        if not self.image.brokers:
            return []
        broker = self._chance.choice(list(self.image.brokers.values()))
        return [log.UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)]

    def _replicas(self) -> tuple[int, ...]:
        return tuple(self._chance.sample(range(1, 6), self._chance.randint(1, 3)))

    def _partition(self, topic_id: UUID, index: int) -> Any:
        chance, replicas = self._chance, self._replicas()
        return log.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=tuple(chance.sample(replicas, chance.randint(1, len(replicas)))),
            leader=chance.choice((*replicas, -1)),
            leader_epoch=chance.randint(0, 9),
            partition_epoch=0,
            directories=tuple(chance.choice(self.DIRECTORIES) for _ in replicas),
        )

    def _create_topic(self) -> list[Any]:
        name = self._chance.choice(("a", "b", "c", "d", "e", "__consumer_offsets"))
        if name in self.image.topics_by_name:
            return []
        topic_id = UUID(int=self._chance.getrandbits(100))
        count = self._chance.randint(1, 4)
        return [
            log.TopicRecord(name=name, topic_id=topic_id),
            *(self._partition(topic_id, index) for index in range(count)),
        ]

    def _topic(self) -> Any:
        return self._chance.choice(list(self.image.topics_by_id.values()))

    def _grow_topic(self) -> list[Any]:
        if not self.image.topics_by_id:
            return []
        topic = self._topic()
        return [self._partition(topic.id, len(topic.partitions))]

    def _change_partition(self) -> list[Any]:
        if not self.image.topics_by_id:
            return []
        chance, topic = self._chance, self._topic()
        index = chance.choice(list(topic.partitions))
        replicas = chance.choice((topic.partitions[index].replicas, self._replicas()))
        return [
            log.PartitionChangeRecord(
                partition_id=index,
                topic_id=topic.id,
                replicas=replicas,
                isr=tuple(chance.sample(replicas, chance.randint(1, len(replicas)))),
                leader=chance.choice((*replicas, -1)),
                directories=tuple(chance.choice(self.DIRECTORIES) for _ in replicas),
            )
        ]

    def _delete_topic(self) -> list[Any]:
        return [log.RemoveTopicRecord(topic_id=self._topic().id)] if self.image.topics_by_id else []

    def _change_config(self) -> list[Any]:
        return [
            log.ConfigRecord(
                resource_type=RESOURCE_TOPIC,
                resource_name="a",
                name="retention.ms",
                value=str(self._chance.randint(1, 9)),
            )
        ]

    def _doubt(self) -> list[Any]:
        self.unreachable = set(self._chance.sample(range(1, 6), self._chance.randint(0, 2)))
        return []


@pytest.mark.parametrize("seed", range(28))
def test_cached_response_equals_a_fresh_one_after_random_changes(broker: FakeBroker, seed: int) -> None:
    history, chance = History(seed), random.Random(seed)
    every = [(version, listener) for version in range(14) for listener in History.LISTENERS]
    # As many as the cache keeps. All seeds together use every version on both listeners.
    requests = [every[seed], *chance.sample(every, TABLES_MAX - 1)]
    for _ in range(150):
        history.step()
        broker.image, broker.unreachable = history.image, history.unreachable
        # Not after every change, so that entries miss several changes.
        for version, listener in chance.sample(requests, 2):
            fields = {"include_topic_authorized_operations": chance.random() < 0.5}
            if chance.random() < 0.3:
                fields["names"] = chance.sample("abcdxy", 3)
            cached = respond(broker, version, listener, **fields)
            assert cached == respond_without_cache(broker, version, listener, **fields)
