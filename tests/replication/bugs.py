"""Faults planted into the machines, the broker around them or the controller, by name. A checker is worth what it
catches of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.replication import follower as follower_module
from odradek.core.replication import leader as leader_module
from odradek.core.replication.actions import TruncateTo
from odradek.core.replication.epochs import EpochEnd, ReplicaLog
from odradek.core.replication.follower import FetchAnswer, FetchPosition, FollowerState, Progress
from odradek.core.replication.isr import UNKNOWN_BROKER_EPOCH
from odradek.core.replication.leader import LeaderState
from odradek.core.replication.progress import FollowerProgress
from tests.replication import broker as broker_module
from tests.replication.broker import Broker
from tests.replication.controller import NOBODY, BrokerEntry, Controller


@dataclass(frozen=True, slots=True)
class Bug:
    patches: tuple[tuple[Any, str, Any], ...] = ()
    broker_type: type[Broker] = Broker
    controller_type: type[Controller] = Controller


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    with ExitStack() as stack:
        for target, name, value in bug.patches:
            stack.enter_context(patch.object(target, name, value))
        yield


def _always(value: object) -> Callable[..., object]:
    return lambda *_, **__: value


# In the broker around the machines


class CuttingBroker(Broker):
    """Cuts its log at its high watermark whenever it begins to follow somebody."""

    def _follow(self, leader_id: int, leader_epoch: int) -> None:
        if leader_id != NOBODY and (self.follower is None or leader_epoch > self.follower.leader_epoch):
            self.world.checker.truncates(self, self._high_watermark)
            self.log.truncate_to(self._high_watermark)
        super()._follow(leader_id, leader_epoch)


class UnfencedBroker(Broker):
    """Serves whoever asks, of whatever epoch."""

    def refusal_by_epoch(self, leader_epoch: int) -> ErrorCode | None:
        return None


class HastyFollower(Broker):
    def may_acknowledge(self) -> bool:
        return True


class HastyLeader(Broker):
    def counted_end_offset(self) -> int:
        return self.log.log_end_offset


# In the controller


class CarelessController(Controller):
    """Lets anybody lead who lives, when nobody else does."""

    def elect(
        self, brokers: dict[int, BrokerEntry], replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]
    ) -> int:
        elected = super().elect(brokers, replicas, isr, elr)
        if elected != NOBODY:
            return elected
        return next((one for one in replicas if one in brokers and brokers[one].is_active), NOBODY)


class TrustingController(Controller):
    """Takes every stop for a clean one."""

    def register(self, broker: int, life: int, *, is_clean: bool) -> int:
        return super().register(broker, life, is_clean=True)


class GenerousController(Controller):
    """Whoever ever fell out stays eligible, also while there were enough in sync without it."""

    def eligible(self, isr: tuple[int, ...], unclean: int) -> tuple[int, ...]:
        before = self.image.partition
        return tuple(sorted({*before.elr, *before.isr} - {*isr, unclean}))


# In the leader

_changed = LeaderState.changed


def _without_epoch_start(leader: LeaderState, follower: FollowerProgress) -> None:
    is_in_sync = follower.end_offset >= leader.high_watermark
    if is_in_sync and leader._is_eligible(follower) and leader._pending is None:
        leader._propose((*leader.isr, follower.broker_id), added=follower.broker_id)


def _without_high_watermark(leader: LeaderState, follower: FollowerProgress) -> None:
    is_in_sync = follower.end_offset >= leader.epoch_start_offset
    if is_in_sync and leader._is_eligible(follower) and leader._pending is None:
        leader._propose((*leader.isr, follower.broker_id), added=follower.broker_id)


def _proposed_only(leader: LeaderState) -> tuple[int, ...]:
    pending = leader._pending
    return leader.isr if pending is None else tuple(member.broker_id for member in pending.proposal.isr)


def _by_any_life(leader: LeaderState, follower: FollowerProgress) -> bool:
    broker = leader._brokers(follower.broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def _forget_pending(leader: LeaderState, **fields: Any) -> bool:
    if fields["partition_epoch"] >= leader.partition_epoch:
        leader._pending = None
    return _changed(leader, **fields)


def _of_any_life(leader: LeaderState, replica_id: int, broker_epoch: int) -> None:
    if replica_id not in leader.followers:
        raise KafkaError(ErrorCode.unknown_leader_epoch)


def _most_of_them(leader: LeaderState, now: float) -> bool:
    ends = [leader.followers[one].end_offset for one in leader.isr if one != leader.broker_id]
    ends = sorted([*ends, leader.log_end_offset], reverse=True)
    reached = ends[len(ends) // 2]
    if leader.under_min_isr or reached <= leader.high_watermark:
        return False
    leader.high_watermark = reached
    return True


# In the follower

_answered = FollowerState.answered


def _whoever_answers(
    state: FollowerState, log: ReplicaLog, asked: FetchPosition, answer: FetchAnswer, now: float
) -> object:
    return _answered(state, log, asked._replace(leader_epoch=state.leader_epoch), answer, now)


def _as_the_leader_says(state: FollowerState, log: ReplicaLog, answer: FetchAnswer) -> Progress:
    has_moved = answer.high_watermark > state.high_watermark
    state.high_watermark = max(state.high_watermark, answer.high_watermark)
    return Progress(has_moved, log.log_start_offset)


def _to_the_leaders_end(log: ReplicaLog, leader: EpochEnd) -> int:
    return min(leader.end_offset, log.log_end_offset)


def _to_the_high_watermark(state: FollowerState, log: ReplicaLog, leader: EpochEnd, now: float) -> TruncateTo:
    state._go_on()
    return TruncateTo(min(state.high_watermark, log.log_end_offset), loses_committed=False)


BUGS: dict[str, Bug] = {
    "acknowledged before the in-sync replicas have it": Bug(
        ((LeaderState, "acknowledgement", _always(ErrorCode.none)),)
    ),
    "committed by a majority": Bug(((LeaderState, "_advance", _most_of_them),)),
    "high watermark moves below min ISR": Bug(((LeaderState, "under_min_isr", False),)),
    "in sync before the epoch's start": Bug(((LeaderState, "_admit", _without_epoch_start),)),
    "in sync before the high watermark": Bug(((LeaderState, "_admit", _without_high_watermark),)),
    "a proposed shrink counts before it is committed": Bug(((LeaderState, "maximal_isr", property(_proposed_only)),)),
    "a proposed member does not count until committed": Bug(
        (
            (LeaderState, "maximal_isr", property(lambda leader: leader.isr)),
            (LeaderState, "_is_joining", _always(False)),
        )
    ),
    "an outdated proposal counts as not done": Bug(
        (
            (leader_module, "_REFUSED", leader_module._REFUSED | leader_module._OUTDATED),
            (LeaderState, "_is_joining", _always(False)),
        )
    ),
    "known metadata ends what is under way": Bug(
        ((LeaderState, "changed", _forget_pending), (LeaderState, "_is_joining", _always(False)))
    ),
    "fetches of a former life believed": Bug(((LeaderState, "check_follower", _of_any_life),)),
    "in-sync replicas proposed without their lives": Bug(
        (
            (LeaderState, "_is_eligible", _by_any_life),
            (LeaderState, "_broker_epoch_of", _always(UNKNOWN_BROKER_EPOCH)),
        )
    ),
    "offsets told before they are known": Bug(((LeaderState, "may_tell_offsets", True),)),
    "missing epoch fence": Bug(broker_type=UnfencedBroker),
    "divergence not looked for": Bug(((broker_module, "divergence", _always(None)),)),
    "truncation to the high watermark": Bug(broker_type=CuttingBroker),
    "diverging logs cut at the high watermark": Bug(((FollowerState, "_diverged", _to_the_high_watermark),)),
    "own epochs not looked at": Bug(((follower_module, "truncation_point", _to_the_leaders_end),)),
    "former leaders believed": Bug(((FollowerState, "answered", _whoever_answers),)),
    "high watermark as the leader says": Bug(((FollowerState, "appended", _as_the_leader_says),)),
    "fetch before sync": Bug(broker_type=HastyFollower),
    "leader counts what it has not synced": Bug(broker_type=HastyLeader),
    "leader from outside ISR and ELR": Bug(controller_type=CarelessController),
    "unclean stop taken for a clean one": Bug(controller_type=TrustingController),
    "eligible though others went on": Bug(controller_type=GenerousController),
}
