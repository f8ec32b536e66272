"""What holds of every assignment, whatever the group looks like."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.core.groups.assignors import (
    Assignment,
    AssignorFailed,
    GroupSpec,
    MemberSpec,
    assign_ranges,
    assign_uniformly,
)

TOPICS = [UUID(int=number) for number in range(1, 5)]

members = st.dictionaries(st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from(TOPICS)), min_size=1)
counts = st.fixed_dictionaries({topic_id: st.integers(1, 9) for topic_id in TOPICS})


def group_of(topics: dict[str, frozenset[UUID]], partition_counts: dict[UUID, int], had: Assignment) -> GroupSpec:
    specs = {
        member_id: MemberSpec(
            topic_ids, None, {topic: frozenset(each) for topic, each in had.get(member_id, {}).items()}
        )
        for member_id, topic_ids in topics.items()
    }
    return GroupSpec(specs, partition_counts, len({member.topic_ids for member in specs.values()}) <= 1)


def check_complete(group: GroupSpec, assignment: Assignment) -> None:
    owned = [
        (topic_id, partition)
        for topics in assignment.values()
        for topic_id, partitions in topics.items()
        for partition in partitions
    ]
    wanted = {topic_id for member in group.members.values() for topic_id in member.topic_ids}
    assert sorted(owned) == sorted((one, index) for one in wanted for index in range(group.partition_counts[one]))
    for member_id, topics in assignment.items():
        assert topics.keys() <= group.members[member_id].topic_ids
        assert all(topics.values())


@settings(deadline=None)
@given(members, counts)
def test_range_assignor_assigns_every_partition_once(
    topics: dict[str, frozenset[UUID]], partition_counts: dict[UUID, int]
) -> None:
    group = group_of(topics, partition_counts, {})
    check_complete(group, assign_ranges(group))


@settings(deadline=None)
@given(st.lists(members, min_size=1, max_size=4), counts)
def test_uniform_assignor_assigns_every_partition_once_after_changes(
    history: list[dict[str, frozenset[UUID]]], partition_counts: dict[UUID, int]
) -> None:
    had: Assignment = {}
    for topics in history:
        group = group_of(topics, partition_counts, had)
        had = assign_uniformly(group)
        check_complete(group, had)
        settled = group_of(topics, partition_counts, had)
        assert assign_uniformly(settled) == had, "who has its share keeps it"


@settings(deadline=None)
@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=4), counts)
def test_uniform_assignor_is_balanced_for_equal_subscriptions(
    history: list[set[str]], partition_counts: dict[UUID, int]
) -> None:
    had: Assignment = {}
    for names in history:
        group = group_of({name: frozenset(TOPICS) for name in sorted(names)}, partition_counts, had)
        had = assign_uniformly(group)
        loads = [sum(map(len, topics.values())) for topics in had.values()]
        assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize("assign", [assign_ranges, assign_uniformly])
def test_unknown_topic_fails_the_assignment(assign: type) -> None:
    with pytest.raises(AssignorFailed):
        assign(GroupSpec({"a": MemberSpec(frozenset(TOPICS))}, {}, True))


def test_group_without_members_or_topics_gets_an_empty_assignment() -> None:
    assert assign_ranges(GroupSpec({}, {}, True)) == assign_uniformly(GroupSpec({}, {}, True)) == {}
