"""Bugs of replication, switched on by name. What finds them are several brokers with copies: see `planted`."""

import asyncio
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.apis import fetch, fetch_reading, list_offsets
from odradek.broker.replicas.replica_fetcher import ReplicaFetcher
from odradek.broker.replicas.roles import Roles
from odradek.core.controller.assignment import Assignment
from odradek.core.controller.brokers import Brokers
from odradek.core.controller.commands import NO_BROKER_EPOCH
from odradek.core.controller.isr_changes import IsrChanges
from odradek.core.controller.partition_change import PartitionChange
from odradek.core.metadata.records import MetadataRecord
from odradek.core.replication.follower import FetchPosition, FollowerState
from odradek.core.replication.follower_progress import FollowerProgress
from odradek.core.replication.leader import LeaderState
from odradek.sim.planted_bug import always, plant
from odradek.sim.scenarios import (
    REPLICAS_APART,
    REPLICAS_CRASH,
    REPLICAS_DAMAGED,
    REPLICAS_DEPOSED,
    REPLICAS_FLUSHED,
    REPLICAS_POWER_LOSS,
)
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.producer_state import Origin, StagedProducers
from odradek.storage.partition.log_dir_moves import LogDirMoves
from odradek.storage.partition.partition import Partition

_LATE_RESPONSES: Final = 10
_REPEAT_SECONDS: Final = 0.05
_DELETION_SECONDS: Final = 2.0

# ---- leaders


def _advance_below_min_isr(sound: Any) -> Any:
    def advance(leader: LeaderState, now: float, *size: Any) -> None:
        configured, leader._min_isr = leader._min_isr, 1
        try:
            sound(leader, now, *size)
        finally:
            leader._min_isr = configured

    return advance


def _advance_by_majority(sound: Any) -> Any:
    def advance(leader: LeaderState, now: float, *size: Any) -> None:
        ends = [leader.followers[one].end_offset for one in leader.isr if one != leader.broker_id]
        ends = sorted([*ends, leader.log_end_offset], reverse=True)
        if not leader.under_min_isr:
            leader.shared_high_watermark.advance_to(ends[len(ends) // 2], *size)

    return advance


def _count_proposed_only(sound: Any) -> Any:
    def maximal_isr(leader: LeaderState) -> tuple[int, ...]:
        pending = leader._pending
        return leader.isr if pending is None else tuple(member.broker_id for member in pending.proposal.isr)

    return property(maximal_isr)


def _admit_at_once(sound: Any) -> Any:
    def admit(leader: LeaderState, follower: FollowerProgress) -> None:
        if leader._is_eligible(follower) and leader._pending is None:
            leader._propose((*leader.isr, follower.broker_id), added=follower.broker_id)

    return admit


def _admit_before_the_epoch(sound: Any) -> Any:
    def admit(leader: LeaderState, follower: FollowerProgress) -> None:
        began, leader.epoch_start_offset = leader.epoch_start_offset, 0  # type: ignore[misc]
        try:
            sound(leader, follower)
        finally:
            leader.epoch_start_offset = began  # type: ignore[misc]

    return admit


def _remember_former_life(sound: Any) -> Any:
    """What a broker had before it died, it has when it is back."""

    def on_fetch(progress: FollowerProgress, broker_epoch: int, fetch_offset: int, *others: Any) -> None:
        former = progress.broker_epoch
        sound(progress, broker_epoch if former is None else former, max(fetch_offset, progress.end_offset), *others)

    return on_fetch


def _admit_any_life(sound: Any) -> Any:
    def is_eligible(leader: LeaderState, follower: FollowerProgress) -> bool:
        broker = leader._brokers(follower.broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    return is_eligible


_log_starts: Final[WeakKeyDictionary[LeaderState, int]] = WeakKeyDictionary()
"""The log start offset of each leader, which `LeaderState` itself does not know."""


def _note_log_start(sound: Any) -> Any:
    def on_follower_fetch(partition: Partition, *fetch: Any) -> None:
        if partition.leader_state is not None:
            _log_starts[partition.leader_state] = partition.log.log_start_offset
        sound(partition, *fetch)

    return on_follower_fetch


def _require_log_start(sound: Any) -> Any:
    def maybe_expand_isr(leader: LeaderState, follower: FollowerProgress) -> None:
        if 0 <= follower.log_start_offset < _log_starts.get(leader, 0):
            follower.awaits_isr_expansion = False
        else:
            sound(leader, follower)

    return maybe_expand_isr


def _send_log_start_to_isr(sound: Any) -> Any:
    """Widens the window: no follower outside the ISR receives the log start offset, not only one whose log diverges."""

    def read_partition(partition: Partition, target: Any, size: int, min_one: bool, reader: Any, *others: Any) -> Any:
        fetched = sound(partition, target, size, min_one, reader, *others)
        leader = partition.leader_state
        if fetched is None or reader.follower is None or leader is None or reader.follower.replica_id in leader.isr:
            return fetched
        return fetched._replace(log_start_offset=target.log_start_offset)

    return read_partition


def _publish_after_stop(sound: Any) -> Any:
    def publish(partition: Partition, appended: Any, data: memoryview, *others: Any) -> None:
        sound(partition, appended, data, *others)
        if partition.leader_state is None and not appended.duplicate:
            partition.shared_high_watermark.advance_to(appended.last_offset + 1, len(data))

    return publish


def _commit_on_leaving(sound: Any) -> Any:
    """Widens the window: every record that is uncommitted when the leadership ends counts, not only a slow append."""

    def leave_leadership(partition: Partition, *new: Any) -> None:
        if partition.is_leader:
            partition.shared_high_watermark.advance_to(partition.log.log_end_offset, 1)
        sound(partition, *new)

    return leave_leadership


def _acknowledge_on_leaving(sound: Any) -> Any:
    return lambda partition, code: sound(partition, ErrorCode.none)


def _serve_without_leading(sound: Any) -> Any:
    def check_leader(partition: Partition, *epoch: Any) -> None:
        try:
            sound(partition, *epoch)
        except KafkaError as error:
            if error.code is not ErrorCode.not_leader_or_follower:
                raise

    return check_leader


def _read_to_the_end(sound: Any) -> Any:
    def find_cached_batches(log: PartitionLog, offset: int, max_bytes: int, **limits: Any) -> Any:
        return sound(log, offset, max_bytes, **(limits | {"end_offset_exclusive": log.log_end_offset}))

    return find_cached_batches


# ---- followers


def _cut_when_following(sound: Any) -> Any:
    def follow(roles: Roles, partition: Partition, state: Any) -> None:
        if not partition.is_busy and partition.log.log_end_offset > partition.high_watermark:
            partition.log.truncate_to(partition.high_watermark, partition._clock.wall_ms())
        sound(roles, partition, state)

    return follow


def _claim_more(sound: Any) -> Any:
    """A follower acknowledges records to the leader before it has fetched them."""

    def position(state: FollowerState, log: Any, now: float) -> FetchPosition | None:
        found: FetchPosition | None = sound(state, log, now)
        if found is None or found.fetch_offset >= state.leader_high_watermark:
            return found
        return found._replace(fetch_offset=state.leader_high_watermark)

    return position


def _forget_replicated(sound: Any) -> Any:
    def add(staged: StagedProducers, *batch: Any) -> None:
        if staged._origin is not Origin.REPLICATION:
            sound(staged, *batch)

    return add


def _keep_the_log_start(sound: Any) -> Any:
    def on_append(state: FollowerState, log: Any, response: Any) -> int:
        sound(state, log, response)
        start: int = log.log_start_offset
        return start

    return on_append


_responses: Final[WeakKeyDictionary[FollowerState, int]] = WeakKeyDictionary()


def _apply_log_start_late(sound: Any) -> Any:
    """Widens the window: the follower ignores the log start offset of its first responses."""

    def on_append(state: FollowerState, log: Any, response: Any) -> int:
        _responses[state] = _responses.get(state, 0) + 1
        start: int = sound(state, log, response)
        return start if _responses[state] > _LATE_RESPONSES else int(log.log_start_offset)

    return on_append


def _leave_move_running(sound: Any) -> Any:
    async def cancel(moves: LogDirMoves, name: Any) -> None:
        move = moves._moves.get(name)
        if move is None or move.partition.unavailable is None:
            await sound(moves, name)
        else:
            # AlterReplicaLogDirs repeats this call until the move has ended.
            await asyncio.sleep(_REPEAT_SECONDS)

    return cancel


def _delete_original_late(sound: Any) -> Any:
    """Widens the window: after a log dir move has replaced the log, deleting the original takes long."""

    async def run_exclusively(partition: Partition, work: Any, then: Any = None) -> Any:
        original = partition.log
        result = await sound(partition, work, then)
        if partition.log is not original:
            await asyncio.sleep(_DELETION_SECONDS)
        return result

    return run_exclusively


async def _no_sync(fetcher: ReplicaFetcher) -> None:
    await asyncio.sleep(0)


# ---- the controller


def _elect_anybody(sound: Any) -> Any:
    def elect(change: PartitionChange, replicas: Any, isr: Any, elr: Any) -> tuple[int, bool]:
        leader, is_unclean = sound(change, replicas, isr, elr)
        others = [one for one in replicas if change.can_lead(one)]
        return (others[0], True) if leader < 0 and others else (leader, is_unclean)

    return elect


def _keep_eligible(sound: Any) -> Any:
    def eligible(change: PartitionChange, replicas: Any, isr: Any) -> tuple[int, ...]:
        return tuple(sorted(change._whole().intersection(replicas).difference(isr)))

    return eligible


def _take_for_clean(sound: Any) -> Any:
    def end_previous_incarnation(brokers: Brokers, registration: Any, existing: Any) -> list[MetadataRecord]:
        return [*brokers._elections.remove_broker(registration.broker_id)]

    return end_previous_incarnation


def _complete_at_once(sound: Any) -> Any:
    def try_complete(assignment: Assignment, isr: Any, whole: Any, min_isr: int) -> Assignment | None:
        final = assignment.final_replicas
        return Assignment(final) if assignment.is_changing and set(isr) & set(final) else None

    return try_complete


_bug: Final = partial(plant, scenario=REPLICAS_CRASH)

REPLICATION_BUGS: Final = (
    _bug(
        "ack-before-isr-replicated",
        "acks=all is acknowledged before the ISR has the records",
        LeaderState,
        "acks_all_result",
        always(ErrorCode.none),
    ),
    _bug(
        "deposed-leader-acknowledges",
        "a deposed leader acknowledges uncommitted records",
        Partition,
        "_fail_uncommitted",
        _acknowledge_on_leaving,
    ),
    _bug(
        "zombie-leader",
        "a broker that no longer leads accepts records",
        Partition,
        "check_leader",
        _serve_without_leading,
    ),
    _bug(
        "high-watermark-by-majority",
        "the high watermark advances with a majority of the ISR",
        LeaderState,
        "advance_high_watermark",
        _advance_by_majority,
    ),
    _bug(
        "high-watermark-below-min-isr",
        "the high watermark advances with fewer ISR members than min.insync.replicas",
        LeaderState,
        "advance_high_watermark",
        _advance_below_min_isr,
        scenario=REPLICAS_APART,
    ),
    _bug(
        "min-isr-not-checked",
        "min.insync.replicas is not enforced for acks=all",
        LeaderState,
        "min_isr",
        lambda sound: property(lambda leader: 1),
    ),
    _bug(
        "isr-shrink-before-commit",
        "the leader ignores a replica before the controller has committed its removal from the ISR",
        LeaderState,
        "maximal_isr",
        _count_proposed_only,
    ),
    _bug(
        "isr-join-at-once",
        "a follower joins the ISR with its first fetch",
        LeaderState,
        "_maybe_expand_isr",
        _admit_at_once,
    ),
    _bug(
        "isr-join-before-epoch-start",
        "a follower joins the ISR before it reaches the start of the leader epoch",
        LeaderState,
        "_maybe_expand_isr",
        _admit_before_the_epoch,
        scenario=REPLICAS_DEPOSED,
    ),
    _bug(
        "isr-join-with-stale-broker-epoch",
        "fetches of a broker's earlier incarnation count when it joins the ISR",
        IsrChanges,
        "_is_eligible",
        lambda sound: lambda changes, broker_id, _, partition: sound(changes, broker_id, NO_BROKER_EPOCH, partition),
        (LeaderState, "_is_eligible", _admit_any_life),
        (FollowerProgress, "on_fetch", _remember_former_life),
        scenario=REPLICAS_POWER_LOSS,
    ),
    _bug(
        "read-above-high-watermark",
        "consumers read above the high watermark",
        PartitionLog,
        "find_cached_batches",
        _read_to_the_end,
    ),
    _bug(
        "end-offset-before-high-watermark-known",
        "a new leader returns an end offset before its high watermark has caught up with its predecessor's",
        list_offsets,
        "_check_watermark_known",
        always(None),
        scenario=REPLICAS_APART,
    ),
    _bug(
        "truncation-to-high-watermark",
        "a follower truncates its log to its high watermark before it compares epochs with the leader",
        Roles,
        "_follow",
        _cut_when_following,
    ),
    _bug(
        "follower-fetches-beyond-log-end",
        "a follower fetches from an offset above its log end",
        FollowerState,
        "fetch_position",
        _claim_more,
    ),
    _bug(
        "follower-fetches-before-fsync",
        "a follower of a topic with flush.messages=1 fetches before it has synced",
        ReplicaFetcher,
        "_sync_before_fetch",
        lambda sound: _no_sync,
        scenario=REPLICAS_FLUSHED,
    ),
    _bug(
        "producer-state-not-replicated",
        "followers do not update the producer state",
        StagedProducers,
        "add",
        _forget_replicated,
    ),
    _bug(
        "divergence-not-detected",
        "a leader does not detect a follower's diverging log",
        fetch_reading,
        "diverging_of",
        always(None),
        (fetch, "diverging_of", always(None)),
        scenario=REPLICAS_DEPOSED,
    ),
    _bug(
        "log-start-not-replicated",
        "followers ignore the leader's log start offset",
        FollowerState,
        "on_append",
        _keep_the_log_start,
    ),
    _bug(
        "unclean-election",
        "any replica is elected when the ISR and the ELR are empty",
        PartitionChange,
        "_elect",
        _elect_anybody,
    ),
    _bug(
        "elr-not-cleared",
        "the ELR keeps replicas that missed committed records",
        PartitionChange,
        "_eligible",
        _keep_eligible,
        (PartitionChange, "_check_sets", always(None)),
    ),
    _bug(
        "unclean-shutdown-treated-as-clean",
        "a broker keeps its place in the ISR after an unclean shutdown",
        Brokers,
        "_end_previous_incarnation",
        _take_for_clean,
        scenario=REPLICAS_POWER_LOSS,
    ),
    _bug(
        "reassignment-completed-before-isr",
        "a reassignment completes before the added replicas are in the ISR",
        Assignment,
        "try_complete",
        _complete_at_once,
        scenario=REPLICAS_POWER_LOSS,
    ),
    # The next four were faults of this broker that seeds found: see tests/sim/test_found_seeds.py.
    _bug(
        "log-dir-move-outlives-replica",
        "a replica that is removed during a log dir move and assigned again loses its log to the end of the old move",
        LogDirMoves,
        "cancel",
        _leave_move_running,
        (Partition, "run_exclusively", _delete_original_late),
        scenario=REPLICAS_DAMAGED,
    ),
    _bug(
        "log-start-sent-late",
        "a restarted follower learns its leader's log start offset late, and may lead with deleted records before",
        fetch_reading,
        "_needs_log_start",
        always(False),
        (FollowerState, "on_append", _apply_log_start_late),
        scenario=REPLICAS_DAMAGED,
    ),
    _bug(
        "append-after-stop-committed",
        "records whose append completes when the broker no longer leads count as committed",
        Partition,
        "_publish",
        _publish_after_stop,
        (Partition, "_leave_leadership", _commit_on_leaving),
    ),
    _bug(
        "isr-requires-log-start",
        "a follower joins the ISR only with its leader's log start offset, which it cannot have before it joins",
        LeaderState,
        "_maybe_expand_isr",
        _require_log_start,
        (Partition, "on_follower_fetch", _note_log_start),
        (fetch_reading, "_read_partition", _send_log_start_to_isr),
        scenario=REPLICAS_APART,
    ),
)
