"""Apache Kafka's assignors and Odradek's return the same assignments for groups that change repeatedly."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from odradek.base.ids import uuid_from_text, uuid_to_text
from odradek.core.groups.assignors import (
    Assignment,
    AssignorFailed,
    GroupSpec,
    MemberSpec,
    assign_ranges,
    assign_uniformly,
)
from tests.kafka.java_program import JavaProgram

GROUPS = 150
CHANGES = 8
ASSIGNORS = {"range": assign_ranges, "uniform": assign_uniformly}


@pytest.fixture(scope="module")
def kafkas_assignors(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "Assignors") as program:
        yield program


def _kafkas(program: JavaProgram, assignor: str, group: GroupSpec) -> Assignment | None:
    members = [
        {
            "id": member_id,
            "instance": member.instance_id,
            # Topics in the same hash bucket keep this order.
            "topics": [uuid_to_text(topic_id) for topic_id in sorted(member.topic_ids)],
            "assigned": {uuid_to_text(topic_id): sorted(each) for topic_id, each in member.assigned.items()},
        }
        for member_id, member in group.members.items()
    ]
    counts = {uuid_to_text(topic_id): count for topic_id, count in group.partition_counts.items()}
    request = {"assignor": assignor, "homogeneous": group.is_homogeneous, "counts": counts, "members": members}
    (line,) = program.request(json.dumps(request))
    assignments = json.loads(line)
    if "failed" in assignments:
        return None
    return {
        member_id: {uuid_from_text(topic_id): set(each) for topic_id, each in topics.items()}
        for member_id, topics in assignments.items()
    }


def _ours(assignor: str, group: GroupSpec) -> Assignment | None:
    try:
        return ASSIGNORS[assignor](group)
    except AssignorFailed:
        return None


def _spec(members: dict[str, MemberSpec], counts: dict[UUID, int]) -> GroupSpec:
    return GroupSpec(members, counts, len({member.topic_ids for member in members.values()}) <= 1)


class Group:
    """Members join, leave and change subscriptions, and topics get partitions."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.same_for_all = rng.random() < 0.4
        ids = [UUID(int=rng.getrandbits(128)) for _ in range(rng.randrange(1, 6))]
        self.counts = {topic_id: rng.choice([1, 2, 3, 7, 20]) for topic_id in ids}
        self.members: dict[str, MemberSpec] = {}
        for _ in range(rng.randrange(1, 9)):
            self.join()

    def spec(self) -> GroupSpec:
        return _spec(dict(self.members), dict(self.counts))

    def change(self) -> None:
        self.rng.choice([self.join, self.leave, self.grow, self.resubscribe])()

    def join(self) -> None:
        topic_ids = self.topics()
        if self.same_for_all and self.members:
            topic_ids = next(iter(self.members.values())).topic_ids
        instance_id = f"static{self.rng.randrange(1000)}" if self.rng.random() < 0.3 else None
        self.members[f"member{self.rng.randrange(10**6)}"] = MemberSpec(topic_ids, instance_id)

    def leave(self) -> None:
        if len(self.members) > 1:
            del self.members[self.rng.choice(list(self.members))]

    def grow(self) -> None:
        self.counts[self.rng.choice(list(self.counts))] += self.rng.randrange(1, 6)

    def resubscribe(self) -> None:
        topic_ids = self.topics()
        for member_id in list(self.members) if self.same_for_all else [self.rng.choice(list(self.members))]:
            self.members[member_id] = self.members[member_id]._replace(topic_ids=topic_ids)

    def topics(self) -> frozenset[UUID]:
        return frozenset(self.rng.sample(list(self.counts), self.rng.randrange(len(self.counts) + 1)))

    def take(self, assignment: Assignment) -> None:
        for member_id, member in self.members.items():
            assigned = {topic_id: frozenset(each) for topic_id, each in assignment.get(member_id, {}).items()}
            self.members[member_id] = member._replace(assigned=assigned)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_assignments_equal_kafkas(kafkas_assignors: JavaProgram, assignor: str) -> None:
    for seed in range(GROUPS):
        group = Group(random.Random(seed))
        for step in range(CHANGES):
            spec = group.spec()
            expected = _kafkas(kafkas_assignors, assignor, spec)
            assert _ours(assignor, spec) == expected, f"group {seed}, step {step}: {spec}"
            assert expected is not None
            group.take(expected)
            group.change()


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_assignors_fail_on_a_missing_topic_like_kafkas(kafkas_assignors: JavaProgram, assignor: str) -> None:
    here, gone = UUID(int=1), UUID(int=2)
    for members in (
        {"a": MemberSpec(frozenset({gone}))},
        {"a": MemberSpec(frozenset({gone})), "b": MemberSpec(frozenset({here}))},
    ):
        spec = _spec(members, {here: 3})
        assert _ours(assignor, spec) is None
        assert _kafkas(kafkas_assignors, assignor, spec) is None
