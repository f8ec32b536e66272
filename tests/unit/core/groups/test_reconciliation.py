"""One step of a member towards its assignment."""

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.commands import TopicIdPartitions
from odradek.core.groups.consumer_member import ConsumerMember, MemberState
from odradek.core.groups.consumer_reconciliation import Reconciliation, Wanted

A, B = UUID(int=1), UUID(int=2)


def step(
    member: ConsumerMember,
    epoch: int,
    wanted: dict[UUID, set[int]],
    owned: dict[UUID, tuple[int, ...]] | None,
    *,
    taken: tuple[tuple[UUID, int], ...] = (),
    reads: tuple[UUID, ...] = (A, B),
    changed: bool = False,
) -> ConsumerMember:
    said = None if owned is None else tuple(TopicIdPartitions(topic_id, each) for topic_id, each in owned.items())
    return Reconciliation(
        member,
        Wanted(epoch, wanted),
        frozenset(reads),
        bool(reads),
        changed,
        lambda topic_id, partition: (topic_id, partition) not in taken,
        said,
    ).next()


def test_nothing_to_do() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2}})
    assert step(member, 3, {A: {0}}, {A: (0,)}) is member


def test_what_is_kept_is_kept_since_it_was_gained() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2}})
    reached = step(member, 5, {A: {0, 1}}, None)
    assert (reached.epoch, reached.previous_epoch, reached.state) == (5, 3, MemberState.STABLE)
    assert reached.assigned == {A: {0: 2, 1: 5}}


def test_it_stays_in_its_epoch_until_it_has_given_up() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2, 1: 3}})
    asked = step(member, 5, {A: {0}, B: {0}}, None)
    assert (asked.epoch, asked.state) == (3, MemberState.UNREVOKED_PARTITIONS)
    assert (asked.assigned, asked.revoking) == ({A: {0: 2}}, {A: {1: 3}})
    assert step(asked, 5, {A: {0}, B: {0}}, None) is asked
    assert step(asked, 5, {A: {0}, B: {0}}, {A: (0, 1)}) is asked
    done = step(asked, 5, {A: {0}, B: {0}}, {A: (0,)})
    assert (done.epoch, done.state, done.revoking) == (5, MemberState.STABLE, {})
    assert done.assigned == {A: {0: 2}, B: {0: 5}}


def test_who_has_given_up_already_is_not_asked_to() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2, 1: 3}})
    assert step(member, 5, {A: {0}}, {A: (0,)}).state is MemberState.STABLE


def test_it_waits_for_what_others_hold() -> None:
    member = ConsumerMember("m", 3, 2)
    waiting = step(member, 5, {A: {0, 1}}, {}, taken=((A, 1),))
    assert (waiting.epoch, waiting.state, waiting.assigned) == (5, MemberState.UNRELEASED_PARTITIONS, {A: {0: 5}})
    reached = step(waiting, 5, {A: {0, 1}}, None)
    assert (reached.state, reached.assigned) == (MemberState.STABLE, {A: {0: 5, 1: 5}})


def test_what_it_is_giving_up_may_be_its_own_again() -> None:
    member = ConsumerMember("m", 3, 2, MemberState.UNREVOKED_PARTITIONS, assigned={A: {0: 2}}, revoking={A: {1: 3}})
    reached = step(member, 6, {A: {0, 1}}, {A: (0,)}, taken=((A, 1),))
    assert (reached.state, reached.assigned) == (MemberState.STABLE, {A: {0: 2, 1: 6}})


def test_topics_it_does_not_read_any_more_are_not_its_own() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2}, B: {0: 3}})
    asked = step(member, 3, {A: {0}, B: {0}}, None, reads=(A,), changed=True)
    assert (asked.epoch, asked.state) == (3, MemberState.UNREVOKED_PARTITIONS)
    assert (asked.assigned, asked.revoking) == ({A: {0: 2}}, {B: {0: 3}})
    assert step(member, 5, {A: {0}, B: {0}}, {A: (0,)}, reads=(A,)).assigned == {A: {0: 2}}


def test_a_state_of_a_later_release_is_begun_from() -> None:
    member = ConsumerMember("m", 3, 2, MemberState.UNKNOWN, assigned={A: {0: 2}})
    with pytest.raises(KafkaError) as refusal:
        step(member, 5, {A: {0}}, {A: (0,)})
    assert refusal.value.code is ErrorCode.fenced_member_epoch
    assert step(member, 5, {A: {0}}, {}).epoch == 5
