"""One step of a member towards its target assignment."""

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.commands import TopicIdPartitions
from odradek.core.groups.consumer_member import ConsumerMember, MemberState
from odradek.core.groups.consumer_reconciliation import Reconciliation, TargetAssignment

A, B = UUID(int=1), UUID(int=2)


def result(
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
        TargetAssignment(epoch, wanted),
        frozenset(reads),
        bool(reads),
        changed,
        lambda topic_id, partition: (topic_id, partition) not in taken,
        said,
    ).next()


def test_reconciled_member_does_not_change() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2}})
    assert result(member, 3, {A: {0}}, {A: (0,)}) is member


def test_kept_partitions_keep_their_assignment_epoch() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2}})
    reached = result(member, 5, {A: {0, 1}}, None)
    assert (reached.epoch, reached.previous_epoch, reached.state) == (5, 3, MemberState.STABLE)
    assert reached.assigned == {A: {0: 2, 1: 5}}


def test_member_keeps_its_epoch_until_it_has_revoked() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2, 1: 3}})
    revoking_member = result(member, 5, {A: {0}, B: {0}}, None)
    assert (revoking_member.epoch, revoking_member.state) == (3, MemberState.UNREVOKED_PARTITIONS)
    assert (revoking_member.assigned, revoking_member.revoking) == ({A: {0: 2}}, {A: {1: 3}})
    assert result(revoking_member, 5, {A: {0}, B: {0}}, None) is revoking_member
    assert result(revoking_member, 5, {A: {0}, B: {0}}, {A: (0, 1)}) is revoking_member
    done = result(revoking_member, 5, {A: {0}, B: {0}}, {A: (0,)})
    assert (done.epoch, done.state, done.revoking) == (5, MemberState.STABLE, {})
    assert done.assigned == {A: {0: 2}, B: {0: 5}}


def test_already_revoked_partitions_are_not_revoked_again() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2, 1: 3}})
    assert result(member, 5, {A: {0}}, {A: (0,)}).state is MemberState.STABLE


def test_member_waits_for_partitions_owned_by_others() -> None:
    member = ConsumerMember("m", 3, 2)
    waiting = result(member, 5, {A: {0, 1}}, {}, taken=((A, 1),))
    assert (waiting.epoch, waiting.state, waiting.assigned) == (5, MemberState.UNRELEASED_PARTITIONS, {A: {0: 5}})
    reached = result(waiting, 5, {A: {0, 1}}, None)
    assert (reached.state, reached.assigned) == (MemberState.STABLE, {A: {0: 5, 1: 5}})


def test_partition_in_revocation_can_be_reassigned_to_its_owner() -> None:
    member = ConsumerMember("m", 3, 2, MemberState.UNREVOKED_PARTITIONS, assigned={A: {0: 2}}, revoking={A: {1: 3}})
    reached = result(member, 6, {A: {0, 1}}, {A: (0,)}, taken=((A, 1),))
    assert (reached.state, reached.assigned) == (MemberState.STABLE, {A: {0: 2, 1: 6}})


def test_unsubscribed_topics_are_revoked() -> None:
    member = ConsumerMember("m", 3, 2, assigned={A: {0: 2}, B: {0: 3}})
    revoking_member = result(member, 3, {A: {0}, B: {0}}, None, reads=(A,), changed=True)
    assert (revoking_member.epoch, revoking_member.state) == (3, MemberState.UNREVOKED_PARTITIONS)
    assert (revoking_member.assigned, revoking_member.revoking) == ({A: {0: 2}}, {B: {0: 3}})
    assert result(member, 5, {A: {0}, B: {0}}, {A: (0,)}, reads=(A,)).assigned == {A: {0: 2}}


def test_unknown_member_state_is_reconciled_from_its_assignment() -> None:
    member = ConsumerMember("m", 3, 2, MemberState.UNKNOWN, assigned={A: {0: 2}})
    with pytest.raises(KafkaError) as rejection:
        result(member, 5, {A: {0}}, {A: (0,)})
    assert rejection.value.code is ErrorCode.fenced_member_epoch
    assert result(member, 5, {A: {0}}, {}).epoch == 5
