"""What the checker of groups objects to, and what it lets pass."""

from math import inf

import pytest

from odradek.base.ids import TopicPartition
from odradek.sim.checkers.groups import COMMITS_STAY, ONE_HOLDER, ONE_OWNER, STALE, check_groups
from odradek.sim.group_history import (
    NO_GENERATION,
    NO_OFFSET,
    Commit,
    CommitView,
    GroupHistory,
    MemberAssignment,
    Share,
)

PARTITION = TopicPartition("orders", 0)


def commit(offset: int, began: float, ended: float | None, *, generation: int = NO_GENERATION) -> Commit:
    return Commit(
        group="team",
        member=f"member of {generation}",
        generation=generation,
        partition=PARTITION,
        offset=offset,
        began=began,
        ended=ended,
    )


def view(offset: int, began: float) -> CommitView:
    return CommitView(
        coordinator="node-1", group="team", partition=PARTITION, offset=offset, began=began, ended=began + 0.5
    )


def share(generation: int, ended: float, *places: int, member: str = "") -> Share:
    return Share(
        group="team", member=member or f"member of {generation}", generation=generation, share=places, ended=ended
    )


class Replaced:
    """Every coordinator counts as replaced from some time on."""

    def __init__(self, since: float) -> None:
        self._since = since

    def is_replaced(self, coordinator: str, group: str, seconds: float) -> bool:
        return seconds >= self._since


def rules(history: GroupHistory) -> list[str]:
    return [violation.rule for violation in check_groups(history, Replaced(inf))]


@pytest.mark.parametrize(
    ("commits", "seen", "at"),
    [
        ([commit(1, 0, 1), commit(2, 2, 3)], 2, 4),
        # Under way while it was looked at.
        ([commit(1, 0, 1), commit(2, 2, 5)], 1, 3),
        ([commit(1, 0, 1), commit(2, 2, 5)], 2, 3),
        # Both overlapped: either may have been later.
        ([commit(1, 0, 3), commit(2, 1, 2)], 1, 4),
        # Without a response: it may take effect after others.
        ([commit(1, 0, None), commit(2, 2, 3)], 1, 9),
        ([commit(1, 0, None)], NO_OFFSET, 9),
        ([], NO_OFFSET, 9),
        ([commit(1, 0, 4)], NO_OFFSET, 3),
    ],
)
def test_possible_offset_fetches_are_accepted(commits: list[Commit], seen: int, at: float) -> None:
    assert rules(GroupHistory(commits, [view(seen, at)])) == []


@pytest.mark.parametrize(
    ("commits", "seen", "at"),
    [
        ([commit(1, 0, 1), commit(2, 2, 3)], 1, 4),
        ([commit(1, 0, 1)], NO_OFFSET, 2),
        ([commit(1, 0, 1)], 7, 2),
        ([commit(1, 0, 1), commit(2, 5, 6)], 2, 3),
    ],
)
def test_lost_and_invented_commits_are_violations(commits: list[Commit], seen: int, at: float) -> None:
    assert rules(GroupHistory(commits, [view(seen, at)])) == [COMMITS_STAY]


def test_a_replaced_coordinator_may_return_old_but_no_invented_offsets() -> None:
    commits = [commit(1, 0, 1), commit(2, 2, 3)]
    for seen, since, expected in (
        (1, 3.0, []),
        (NO_OFFSET, 3.0, []),
        (7, 3.0, [COMMITS_STAY]),
        (1, 5.0, [COMMITS_STAY]),
    ):
        found = [one.rule for one in check_groups(GroupHistory(commits, [view(seen, 4.0)]), Replaced(since))]
        assert found == expected, (seen, since)


def test_a_rejected_commit_must_not_be_visible() -> None:
    refused = commit(1, 0, None)
    refused.is_refused = True
    assert rules(GroupHistory([refused], [view(1, 2)])) == [COMMITS_STAY]


def test_a_partition_has_one_owner_per_generation() -> None:
    assert rules(GroupHistory([], [], [share(1, 1, 0, 1), share(1, 2, 2, member="other"), share(2, 3, 0, 1)])) == []
    assert rules(GroupHistory([], [], [share(1, 1, 0, 1), share(1, 2, 1, member="other")])) == [ONE_OWNER]


def test_a_commit_with_an_old_generation_is_a_violation() -> None:
    shares = [share(1, 1.0, 0), share(2, 5.0, 0)]
    assert rules(GroupHistory([commit(1, 4.5, 6, generation=1)], [], shares)) == []
    assert rules(GroupHistory([commit(1, 5.5, None, generation=1)], [], shares)) == []
    assert rules(GroupHistory([commit(1, 5.5, 6, generation=2)], [], shares)) == []
    assert rules(GroupHistory([commit(1, 5.5, 6, generation=1)], [], shares)) == [STALE]


def assignment(epoch: int, ended: float, *partitions: TopicPartition, member: str = "") -> MemberAssignment:
    member = member or f"member of {epoch}"
    return MemberAssignment(group="crew", member=member, epoch=epoch, partitions=frozenset(partitions), ended=ended)


def test_a_partition_has_one_owner_per_member_epoch() -> None:
    other = TopicPartition("orders", 1)
    apart = [
        assignment(1, 1, PARTITION),
        assignment(1, 2, other, member="other"),
        assignment(2, 3, PARTITION, member="other"),
    ]
    assert rules(GroupHistory(member_assignments=apart)) == []
    assert rules(GroupHistory(member_assignments=[*apart, assignment(2, 9, PARTITION, other)])) == [ONE_HOLDER]


@pytest.mark.parametrize(
    ("epoch", "began", "ended", "violations"),
    [
        # Before the next owner received its assignment.
        (1, 4.5, 6.0, []),
        # Without a response.
        (1, 5.5, None, []),
        # In the epoch of the next owner: Kafka checks only the epoch.
        (2, 5.5, 6.0, []),
        (1, 5.5, 6.0, [STALE]),
    ],
)
def test_a_commit_after_another_member_owns_the_partition_is_a_violation(
    epoch: int, began: float, ended: float | None, violations: list[str]
) -> None:
    late = Commit(
        group="crew",
        member="member of 1",
        generation=epoch,
        partition=PARTITION,
        offset=1,
        began=began,
        ended=ended,
    )
    elsewhere = TopicPartition("orders", 1)
    member_assignments = [
        assignment(1, 1.0, PARTITION, elsewhere),
        assignment(2, 5.0, PARTITION),
        assignment(3, 5.1, elsewhere),
    ]
    assert rules(GroupHistory([late], member_assignments=member_assignments)) == violations


def test_a_member_in_an_old_epoch_may_commit_for_partitions_it_still_owns() -> None:
    member_assignments = [assignment(1, 1.0, PARTITION, member="a"), assignment(2, 5.0, PARTITION, member="a")]
    behind = Commit(group="crew", member="a", generation=1, partition=PARTITION, offset=1, began=5.5, ended=6.0)
    assert rules(GroupHistory([behind], member_assignments=member_assignments)) == []


def test_all_partitions_are_owned_once_each_has_one_owner() -> None:
    history, other = GroupHistory(), TopicPartition("orders", 1)
    everything = frozenset((PARTITION, other))
    history.record_assignment(assignment(1, 1.0, PARTITION, other), "a")
    history.record_assignment(assignment(1, 1.0, other), "b")
    assert not history.is_fully_assigned("crew", everything)
    history.record_assignment(assignment(2, 2.0, PARTITION), "a")
    assert history.is_fully_assigned("crew", everything)
    # Members end one after the other.
    history.record_assignment(assignment(3, 3.0), "a")
    assert history.is_fully_assigned("crew", everything)
