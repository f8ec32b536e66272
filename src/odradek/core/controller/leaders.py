"""Elections on request, and the periodic election of preferred leaders.

Elections that follow from a change of a broker are in `elections.py`.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerResult, ElectionKind, PartitionElection, TopicElections
from odradek.core.controller.draft import Draft
from odradek.core.controller.elections import Elections
from odradek.core.controller.index import partitions_of
from odradek.core.controller.partition_change import Election
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.image import PartitionImage, TopicImage

ELECTIONS_MAX: Final = 1000
"""Elections in one periodic run."""

_ELECTIONS: Final = {ElectionKind.PREFERRED: Election.PREFERRED, ElectionKind.UNCLEAN: Election.UNCLEAN}
_UNAVAILABLE: Final = {
    ElectionKind.PREFERRED: (ErrorCode.preferred_leader_not_available, "The preferred leader was not available."),
    ElectionKind.UNCLEAN: (
        ErrorCode.eligible_leaders_not_available,
        "Eligible topic partition leaders are not available.",
    ),
}


class Leaders:
    def __init__(self, state: ControllerState, elections: Elections) -> None:
        self._state = state
        self._elections = elections

    # On request

    def elect(
        self, kind: ElectionKind, topics: Sequence[tuple[str, Sequence[int]]] | None
    ) -> ControllerResult[Sequence[TopicElections]]:
        by_name = self._state.image.topics_by_name
        everything = topics is None
        wanted = [(name, tuple(topic.partitions)) for name, topic in by_name.items()] if topics is None else topics
        draft = Draft()
        results = []
        for name, indexes in wanted:
            elections = [PartitionElection(index, self._elect_one(kind, name, index, draft)) for index in indexes]
            draft.records.check()
            if everything:
                # The request named no partitions, so those that need no election are omitted.
                elections = [one for one in elections if not _is_not_needed(one)]
            results.append(TopicElections(name, elections))
        return ControllerResult(tuple(draft.records), results, is_atomic=False)

    def _elect_one(self, kind: ElectionKind, name: str, index: int, draft: Draft) -> KafkaError | None:
        topic = self._state.image.topics_by_name.get(name)
        if topic is None:
            return KafkaError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}")
        partition = draft.partition(topic, index)
        if partition is None:
            return KafkaError(ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{index}")
        is_preferred = kind is ElectionKind.PREFERRED
        if partition.leader == partition.preferred_leader if is_preferred else partition.has_leader:
            return KafkaError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
        if not self._changes(_ELECTIONS[kind], topic, index, partition, draft):
            return KafkaError(*_UNAVAILABLE[kind])
        return None

    # Periodic

    def balance(self) -> ControllerResult[bool]:
        """Elects preferred leaders. True: there may be more partitions."""
        candidates = (
            (topic, index, partition)
            for topic, index, partition in partitions_of(self._state.image, self._state.index.topics_led_by_another())
            if partition.leader != partition.preferred_leader
        )
        return self._elect_some(Election.PREFERRED, candidates)

    def elect_unclean(self) -> ControllerResult[bool]:
        """Elects leaders uncleanly where the topic allows it. True: there may be more partitions."""
        allowing = filter(self._allows_unclean, self._state.index.topics_without_leader())
        candidates = (
            (topic, index, partition)
            for topic, index, partition in partitions_of(self._state.image, allowing)
            if not partition.has_leader
        )
        return self._elect_some(Election.UNCLEAN, candidates)

    def _allows_unclean(self, topic_id: UUID) -> bool:
        name = self._state.image.topics_by_id[topic_id].name
        return self._state.topic_config(name).unclean_leader_election_enable

    def _elect_some(
        self, election: Election, candidates: Iterator[tuple[TopicImage, int, PartitionImage]]
    ) -> ControllerResult[bool]:
        draft = Draft()
        for topic, index, partition in candidates:
            self._changes(election, topic, index, partition, draft)
            if len(draft.records) == ELECTIONS_MAX:
                break
        return ControllerResult(tuple(draft.records), len(draft.records) == ELECTIONS_MAX, is_atomic=False)

    def _changes(
        self, election: Election, topic: TopicImage, index: int, partition: PartitionImage, draft: Draft
    ) -> bool:
        change = self._elections.change(topic, index, partition)
        change.election = election
        record = change.record()
        if record is not None:
            draft.add(partition, record)
        return record is not None


def _is_not_needed(election: PartitionElection) -> bool:
    return election.error is not None and election.error.code is ErrorCode.election_not_needed
