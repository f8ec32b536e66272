"""The partition changes that follow from a change of one broker."""

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from odradek.core.controller.partition_change import Election, PartitionChange, Rules
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.image import PartitionImage, TopicImage
from odradek.core.metadata.records import PartitionChangeRecord


class Elections:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def remove_broker(self, broker_id: int, *, also_from_elr: bool = False) -> list[PartitionChangeRecord]:
        """The broker is shutting down or offline: it leaves all ISRs and leads no partition."""
        index = self._state.index
        topics = index.topics_with_broker_in_isr(broker_id)
        changes = self._leave(topics, broker_id, lambda partition: broker_id in partition.isr)
        if also_from_elr:
            topics = index.topics_with_broker_in_elr(broker_id)
            changes += self._leave(topics, broker_id, lambda partition: broker_id in partition.elr)
        return changes

    def remove_directories(self, broker_id: int, directories: Iterable[UUID]) -> list[PartitionChangeRecord]:
        """Like `remove_broker`, for the replicas in these directories."""
        lost = set(directories)
        topics = self._state.index.topics_with_broker_in_isr(broker_id)
        return self._leave(
            topics,
            broker_id,
            lambda partition: broker_id in partition.isr and partition.directory_of(broker_id) in lost,
        )

    def after_unclean_shutdown(self, broker_id: int) -> list[PartitionChangeRecord]:
        """The broker may have lost unsynced records: it leaves ISR and ELR until it has caught up."""
        index = self._state.index
        topics = dict.fromkeys(index.topics_with_broker_in_isr(broker_id))
        topics |= dict.fromkeys(index.topics_with_broker_in_elr(broker_id))
        return self._leave(
            topics,
            broker_id,
            lambda partition: broker_id in partition.isr or broker_id in partition.elr,
            unclean_shutdown=True,
        )

    def add_broker(self, broker_id: int) -> list[PartitionChangeRecord]:
        """The broker is unfenced: partitions without a leader may get one."""
        state = self._state

        def is_active(candidate: int) -> bool:
            return candidate == broker_id or state.is_active(candidate)

        changes = []
        for topic, rules, index, partition in self._partitions_of(state.index.topics_without_leader()):
            if not partition.has_leader:
                change = self.change(topic, index, partition, partition.isr, is_active, rules)
                if (record := change.record()) is not None:
                    changes.append(record)
        return changes

    def change(
        self,
        topic: TopicImage,
        index: int,
        partition: PartitionImage,
        isr: tuple[int, ...] | None = None,
        is_active: Callable[[int], bool] | None = None,
        rules: Rules | None = None,
    ) -> PartitionChange:
        """A change that keeps everything that is not given; the topic's config determines the allowed elections."""
        state = self._state
        is_alive = state.is_active if is_active is None else is_active
        rules = self._rules_of(topic) if rules is None else rules

        def can_lead(broker_id: int) -> bool:
            return (
                is_alive(broker_id)
                and broker_id in partition.replicas
                and state.has_online_directory(broker_id, partition.directory_of(broker_id))
            )

        return PartitionChange(
            topic_id=topic.id,
            partition_id=index,
            before=partition,
            can_lead=can_lead,
            default_directory=state.default_directory,
            rules=rules,
            isr=partition.isr if isr is None else isr,
            election=Election.UNCLEAN if rules.unclean_allowed else Election.ONLINE,
        )

    def _partitions_of(self, topic_ids: Iterable[UUID]) -> Iterator[tuple[TopicImage, Rules, int, PartitionImage]]:
        for topic_id in topic_ids:
            topic = self._state.image.topics_by_id[topic_id]
            rules = self._rules_of(topic)
            for index, partition in topic.partitions.items():
                yield topic, rules, index, partition

    def _rules_of(self, topic: TopicImage) -> Rules:
        state = self._state
        config = state.topic_config(topic.name)
        return Rules(
            metadata_version=state.metadata_version,
            is_elr_enabled=state.is_elr_enabled,
            min_insync_replicas=config.min_insync_replicas,
            unclean_allowed=config.unclean_leader_election_enable,
        )

    def _leave(
        self,
        topic_ids: Iterable[UUID],
        broker_id: int,
        is_touched: Callable[[PartitionImage], bool],
        *,
        unclean_shutdown: bool = False,
    ) -> list[PartitionChangeRecord]:
        state = self._state

        def is_active(candidate: int) -> bool:
            return candidate != broker_id and state.is_active(candidate)

        changes = []
        for topic, rules, index, partition in self._partitions_of(topic_ids):
            if is_touched(partition):
                isr = tuple([replica for replica in partition.isr if replica != broker_id])
                change = self.change(topic, index, partition, isr, is_active, rules)
                if unclean_shutdown:
                    change.unclean_shutdown = broker_id
                if (record := change.record()) is not None:
                    changes.append(record)
        return changes
