"""Bugs planted by name into the state machines, the broker or the controller. The checker has to find every one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.replication import follower as follower_module
from odradek.core.replication import leader as leader_module
from odradek.core.replication.effects import TruncateTo
from odradek.core.replication.epochs import EpochEnd, ReplicaLog
from odradek.core.replication.follower import FetchPosition, FetchResponse, FollowerState
from odradek.core.replication.follower_progress import FollowerProgress
from odradek.core.replication.isr import UNKNOWN_BROKER_EPOCH
from odradek.core.replication.leader import LeaderState
from tests.replication import broker as broker_module
from tests.replication.broker import Broker
from tests.replication.controller import NO_BROKER, BrokerEntry, Controller


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


def _return(value: object) -> Callable[..., object]:
    return lambda *_, **__: value


# Bugs in the broker
class TruncatingBroker(Broker):
    """Truncates its log to its high watermark whenever it starts to follow a leader."""

    def _follow(self, leader_id: int, leader_epoch: int) -> None:
        if leader_id != NO_BROKER and (self.follower is None or leader_epoch > self.follower.leader_epoch):
            self.world.checker.on_truncation(self, self.high_watermark.offset)
            self.log.truncate_to(self.high_watermark.offset)
        super()._follow(leader_id, leader_epoch)


class BrokerWithoutEpochFence(Broker):
    """Serves requests of any epoch."""

    def refusal_by_epoch(self, leader_epoch: int) -> ErrorCode | None:
        return None


class FollowerWithoutSync(Broker):
    def is_ready_to_fetch(self) -> bool:
        return True


class LeaderWithoutSync(Broker):
    def counted_end_offset(self) -> int:
        return self.log.log_end_offset


# Bugs in the controller
class UncleanElectionController(Controller):
    """Elects any active replica if no other can lead."""

    def elect(
        self, brokers: dict[int, BrokerEntry], replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]
    ) -> int:
        elected = super().elect(brokers, replicas, isr, elr)
        if elected != NO_BROKER:
            return elected
        return next((one for one in replicas if one in brokers and brokers[one].is_active), NO_BROKER)


class IgnoreUncleanShutdownController(Controller):
    """Treats every shutdown as clean."""

    def register(self, broker: int, life: int, *, is_clean: bool) -> int:
        return super().register(broker, life, is_clean=True)


class PermissiveElrController(Controller):
    """Keeps every former ISR member eligible, even if the ISR was large enough without it."""

    def eligible(self, isr: tuple[int, ...], unclean: int) -> tuple[int, ...]:
        before = self.image.partition
        return tuple(sorted({*before.elr, *before.isr} - {*isr, unclean}))


# Bugs in the leader
_on_metadata_change = LeaderState.on_metadata_change


def _admit_without_epoch_start(leader: LeaderState, follower: FollowerProgress) -> None:
    is_in_sync = follower.end_offset >= leader.high_watermark
    if is_in_sync and leader._is_eligible(follower) and leader._pending is None:
        leader._propose((*leader.isr, follower.broker_id), added=follower.broker_id)


def _admit_without_high_watermark(leader: LeaderState, follower: FollowerProgress) -> None:
    is_in_sync = follower.end_offset >= leader.epoch_start_offset
    if is_in_sync and leader._is_eligible(follower) and leader._pending is None:
        leader._propose((*leader.isr, follower.broker_id), added=follower.broker_id)


def _proposed_isr_only(leader: LeaderState) -> tuple[int, ...]:
    pending = leader._pending
    return leader.isr if pending is None else tuple(member.broker_id for member in pending.proposal.isr)


def _is_eligible_in_any_epoch(leader: LeaderState, follower: FollowerProgress) -> bool:
    broker = leader._brokers(follower.broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def _forget_pending(leader: LeaderState, **fields: Any) -> None:
    if fields["partition_epoch"] >= leader.partition_epoch:
        leader._pending = None
    _on_metadata_change(leader, **fields)


def _accept_any_broker_epoch(leader: LeaderState, replica_id: int, broker_epoch: int) -> None:
    if replica_id not in leader.followers:
        raise KafkaError(ErrorCode.unknown_leader_epoch)


def _advance_by_majority(leader: LeaderState, now: float, *size: int) -> None:
    ends = [leader.followers[one].end_offset for one in leader.isr if one != leader.broker_id]
    ends = sorted([*ends, leader.log_end_offset], reverse=True)
    if not leader.under_min_isr:
        leader.shared_high_watermark.advance_to(ends[len(ends) // 2], *size)


# Bugs in the follower
_on_fetch_response = FollowerState.on_fetch_response


def _accept_any_leader(
    state: FollowerState, log: ReplicaLog, position: FetchPosition, response: FetchResponse, now: float
) -> object:
    return _on_fetch_response(state, log, position._replace(leader_epoch=state.leader_epoch), response, now)


def _take_high_watermark_from_leader(state: FollowerState, log: ReplicaLog, response: FetchResponse) -> int:
    state.shared_high_watermark.advance_to(response.high_watermark)
    return log.log_start_offset


def _truncate_to_leader_end(log: ReplicaLog, leader: EpochEnd) -> int:
    return min(leader.end_offset, log.log_end_offset)


def _truncate_to_high_watermark(state: FollowerState, log: ReplicaLog, leader: EpochEnd, now: float) -> TruncateTo:
    state._reset_backoff()
    return TruncateTo(min(state.high_watermark, log.log_end_offset), loses_committed=False)


BUGS: dict[str, Bug] = {
    "acknowledged before the ISR has the record": Bug(((LeaderState, "acks_all_result", _return(ErrorCode.none)),)),
    "committed by a majority": Bug(((LeaderState, "advance_high_watermark", _advance_by_majority),)),
    "high watermark advances below min ISR": Bug(((LeaderState, "under_min_isr", False),)),
    "in sync before the epoch's start": Bug(((LeaderState, "_maybe_expand_isr", _admit_without_epoch_start),)),
    "in sync before the high watermark": Bug(((LeaderState, "_maybe_expand_isr", _admit_without_high_watermark),)),
    "a proposed shrink counts before it is committed": Bug(
        ((LeaderState, "maximal_isr", property(_proposed_isr_only)),)
    ),
    "a proposed member does not count until committed": Bug(
        (
            (LeaderState, "maximal_isr", property(lambda leader: leader.isr)),
            (LeaderState, "_is_joining", _return(False)),
        )
    ),
    "an outdated proposal counts as rejected": Bug(
        (
            (leader_module, "_REJECTED", leader_module._REJECTED | leader_module._OUTDATED),
            (LeaderState, "_is_joining", _return(False)),
        )
    ),
    "known metadata cancels a pending proposal": Bug(
        ((LeaderState, "on_metadata_change", _forget_pending), (LeaderState, "_is_joining", _return(False)))
    ),
    "fetches with an old broker epoch accepted": Bug(((LeaderState, "check_follower", _accept_any_broker_epoch),)),
    "ISR proposed without broker epochs": Bug(
        (
            (LeaderState, "_is_eligible", _is_eligible_in_any_epoch),
            (LeaderState, "_broker_epoch_of", _return(UNKNOWN_BROKER_EPOCH)),
        )
    ),
    "offsets returned before they are known": Bug(((LeaderState, "is_high_watermark_known", True),)),
    "missing epoch fence": Bug(broker_type=BrokerWithoutEpochFence),
    "divergence not checked": Bug(((broker_module, "divergence", _return(None)),)),
    "truncation to the high watermark": Bug(broker_type=TruncatingBroker),
    "diverging logs truncated to the high watermark": Bug(
        ((FollowerState, "_on_divergence", _truncate_to_high_watermark),)
    ),
    "own epochs not checked": Bug(((follower_module, "truncation_point", _truncate_to_leader_end),)),
    "responses of former leaders accepted": Bug(((FollowerState, "on_fetch_response", _accept_any_leader),)),
    "high watermark not limited by the log end": Bug(((FollowerState, "on_append", _take_high_watermark_from_leader),)),
    "fetch before sync": Bug(broker_type=FollowerWithoutSync),
    "leader counts unsynced records": Bug(broker_type=LeaderWithoutSync),
    "leader from outside ISR and ELR": Bug(controller_type=UncleanElectionController),
    "unclean shutdown treated as clean": Bug(controller_type=IgnoreUncleanShutdownController),
    "eligible although the ISR committed without it": Bug(controller_type=PermissiveElrController),
}
