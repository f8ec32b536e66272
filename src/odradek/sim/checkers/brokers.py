"""Fencing: live brokers are not fenced early, expired sessions are fenced. Uses heartbeats and committed records."""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.sim.checkers.quiet_periods import QuietPeriods
from odradek.sim.checkers.violation import Violation
from odradek.sim.quorum_history import (
    BrokerChange,
    CommittedBatch,
    Heartbeat,
    QuorumHistory,
    QuorumSettings,
    ShutdownRequested,
)

NOT_EARLY: Final = "a reachable broker is not fenced before its session expires"
FENCED: Final = "a broker whose session expires is fenced"
STALE_EPOCH: Final = "heartbeats with a stale broker epoch are rejected"
OWN_EPOCH: Final = "every incarnation of a broker has its own epoch"
HOST_FENCED: Final = "a host that dies with all its brokers is fenced at once, as one broker is"
NOT_REPLACED: Final = "a running broker is not replaced by a copy of its disk"
# How late a controller may act because its disk or its threads are slow.
_LATE_SECONDS: Final = 1.5
_BUSY_SECONDS: Final = 0.1
_ROUNDING_SECONDS: Final = 1e-6
# The first probe, the grace period itself, and the commit.
_GRACES_UNTIL_FENCED: Final = 2
# For the fencing of other brokers, which it writes one by one once it can commit again.
_OTHERS_FENCED_SECONDS: Final = 0.5


def check_brokers(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    yield from check_epochs(history)
    yield from check_early(history, settings)
    yield from check_replaced(history, settings)
    yield from check_dead_hosts(history, settings)
    yield from check_expired_sessions(history, settings)


def check_epochs(history: QuorumHistory) -> Iterator[Violation]:
    registered = [
        (one.seen_seconds, change) for one in history.committed for change in one.brokers if change.incarnation
    ]
    incarnation_of: dict[tuple[int, int], str] = {}
    for seen_seconds, change in registered:
        known = incarnation_of.setdefault((change.broker_id, change.broker_epoch), change.incarnation)
        if known != change.incarnation:
            what = f"broker {change.broker_id} has epoch {change.broker_epoch} in two incarnations"
            yield Violation(OWN_EPOCH, what, seen_seconds)
    for beat in history.heartbeats:
        newer = [
            change
            for seconds, change in registered
            if seconds < beat.responded_seconds - _BUSY_SECONDS
            and change.broker_id == beat.broker_id
            and change.broker_epoch > beat.broker_epoch
        ]
        if newer:
            what = f"{beat.controller} accepts a heartbeat of broker {beat.broker_id} with epoch {beat.broker_epoch}, "
            what += f"which has been registered with {newer[-1].broker_epoch} before"
            yield Violation(STALE_EPOCH, what, beat.responded_seconds)


def check_early(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    names = {node_id: name for name, node_id in settings.node_ids.items()}
    for one, change in _fences(history):
        name = names[change.broker_id]
        # Heartbeats of the controller's own broker do not use the network.
        if name == one.leader:
            continue
        fenced_at = one.appended_seconds
        beats = [beat for beat in history.heartbeats if _is_of(beat, change) and beat.responded_seconds <= fenced_at]
        if any(beat.wants_to_leave for beat in beats) or _wants_to_leave(history, change, fenced_at):
            continue
        # The session starts when a heartbeat arrives; its response may wait for a commit.
        received = [beat.sent_seconds for beat in beats if beat.controller == one.leader]
        # A controller that has just become active gives every broker a whole session.
        since = max([_leadership_start_s(history, one), *received])
        if fenced_at - since >= settings.session_seconds - settings.grace_seconds / 2:
            continue
        if settings.grace_seconds == 0:
            what = f"{one.leader} fences {name} after {fenced_at - since:.3f} s, although detection is disabled"
            yield Violation(NOT_EARLY, what, fenced_at)
        elif (
            _open_for(history, name, settings, fenced_at - settings.grace_seconds, fenced_at)
            > settings.grace_seconds / 2
        ):
            what = f"{one.leader} fences {name} after {fenced_at - since:.3f} s, while {name} accepts connections"
            yield Violation(NOT_EARLY, what, fenced_at)


def check_replaced(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    """The original's session never expires while a copy of its disk runs: see `sim/clones`."""
    names = {node_id: name for name, node_id in settings.node_ids.items()}
    hosts = {(one.broker_id, one.incarnation): one.host for one in history.registrations}
    for one in history.committed:
        for change in one.brokers:
            name, moment = names[change.broker_id], one.appended_seconds
            host = hosts.get((change.broker_id, change.incarnation), name)
            if host == name or _is_leaving(history, change.broker_id, moment):
                continue
            # To the end: a clone whose original has just been killed may take over.
            if _open_for(history, name, settings, moment - _BUSY_SECONDS, moment) > _BUSY_SECONDS - _ROUNDING_SECONDS:
                what = f"{one.leader} registers {host} as broker {change.broker_id}, while {name} accepts connections"
                yield Violation(NOT_REPLACED, what, moment)


def _is_leaving(history: QuorumHistory, broker_id: int, moment: float) -> bool:
    """A broker that has requested its shutdown closes its port a moment later."""
    return any(
        one.broker_id == broker_id and moment - _LATE_SECONDS <= one.seconds <= moment
        for one in history.shutdown_requests
    )


def check_dead_hosts(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    """On three or more hosts. Brokers that are fenced early count until their session would have expired."""
    earlier = -settings.session_seconds
    for crash in history.host_crashes:
        due = crash.seconds + _GRACES_UNTIL_FENCED * settings.grace_seconds
        is_alone = crash.seconds - earlier > settings.session_seconds
        earlier = crash.seconds
        if not is_alone or crash.restarted_seconds < due:
            continue
        for name in crash.nodes:
            broker_id = settings.node_ids[name]
            if _is_unfenced_at(history, broker_id, crash.seconds) and _is_unfenced_at(history, broker_id, due):
                what = f"{name} was killed with its host {', '.join(crash.nodes)} and is not fenced"
                yield Violation(HOST_FENCED, what, due)


def _is_unfenced_at(history: QuorumHistory, broker_id: int, moment: float) -> bool:
    states = [
        change.is_fenced
        for one in history.committed
        for change in one.brokers
        if one.appended_seconds <= moment and change.broker_id == broker_id and change.is_fenced is not None
    ]
    return bool(states) and not states[-1]


def _fences(history: QuorumHistory) -> Iterator[tuple[CommittedBatch, BrokerChange]]:
    for one in history.committed:
        for change in one.brokers:
            if change.is_fenced and not change.incarnation:
                yield one, change


def _is_of(beat: Heartbeat | ShutdownRequested, change: BrokerChange) -> bool:
    return (beat.broker_id, beat.broker_epoch) == (change.broker_id, change.broker_epoch)


def _wants_to_leave(history: QuorumHistory, change: BrokerChange, moment: float) -> bool:
    """The response to the shutdown request follows the fencing, or never arrives if the broker has died."""
    requested = any(
        beat.wants_to_leave and beat.sent_seconds <= moment <= beat.responded_seconds
        for beat in history.heartbeats
        if _is_of(beat, change)
    )
    return requested or any(
        shutdown_request.seconds <= moment
        for shutdown_request in history.shutdown_requests
        if _is_of(shutdown_request, change)
    )


def _leadership_start_s(history: QuorumHistory, fence: CommittedBatch) -> float:
    begins = [
        one.seconds
        for one in history.appended
        if one.node == fence.leader and one.batch.epoch == fence.batch.epoch and one.batch.leader_id is not None
    ]
    return min(begins, default=0.0)


def _open_for(history: QuorumHistory, name: str, settings: QuorumSettings, start: float, end: float) -> float:
    """How many of these seconds the broker's port was open."""
    total, opened = 0.0, None
    for one in history.listening:
        if one.node != name or one.port != settings.broker_ports[name]:
            continue
        if one.is_open:
            opened = one.seconds
        elif opened is not None:
            total += max(0.0, min(end, one.seconds) - max(start, opened))
            opened = None
    return total if opened is None else total + max(0.0, end - max(start, opened))


def check_expired_sessions(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    """While a controller is active and commits, every broker sends heartbeats or is fenced."""
    names = {node_id: name for name, node_id in settings.node_ids.items()}
    quiet = QuietPeriods([one for one in history.disturbances if one.one == one.other])
    patience = settings.session_seconds + _LATE_SECONDS
    commit_times: dict[tuple[str, int], list[float]] = defaultdict(list)
    ends: dict[tuple[str, int], int] = {}
    for one in history.high_watermarks:
        # A repeated high watermark does not show that the leader can still commit.
        if one.offset > ends.get((one.leader, one.epoch), -1):
            ends[one.leader, one.epoch] = one.offset
            commit_times[one.leader, one.epoch].append(one.seconds)
    beats: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for beat in history.heartbeats:
        beats[beat.controller, beat.broker_id, beat.broker_epoch].append(beat.responded_seconds)
    quiet_links = QuietPeriods([one for one in history.disturbances if one.one != one.other])
    for sent in history.pending_heartbeats.values():
        # The broker or controller stopped before the response; without a disturbance the heartbeat arrived.
        ends_at = sent.seconds + _BUSY_SECONDS
        if quiet_links.lasts(frozenset({names[sent.broker_id], sent.controller}), sent.seconds, ends_at):
            insort(beats[sent.controller, sent.broker_id, sent.broker_epoch], sent.seconds)
    for broker_id, broker_epoch, begin, end in _unfenced_periods(history):
        for (leader, _), times in sorted(commit_times.items()):
            if names[broker_id] == leader:
                continue
            received = beats[leader, broker_id, broker_epoch]
            for moment in times:
                since = moment - patience
                if since < max(begin, times[0]) or moment > end:
                    continue
                if not _has_one(times, since + settings.session_seconds, moment - _OTHERS_FENCED_SECONDS):
                    # It could commit nothing since the fence was due.
                    continue
                place = bisect_right(received, since)
                has_heartbeat = place < len(received) and received[place] <= moment
                if not has_heartbeat and quiet.lasts(frozenset({leader}), since, moment):
                    what = (
                        f"{leader} has not fenced {names[broker_id]}, which has sent no heartbeat since {since:.3f} s"
                    )
                    yield Violation(FENCED, what, moment)
                    return


def _has_one(times: Sequence[float], first: float, last: float) -> bool:
    place = bisect_left(times, first)
    return place < len(times) and times[place] <= last


def _unfenced_periods(history: QuorumHistory) -> Iterator[tuple[int, int, float, float]]:
    """Brokers, by id and epoch, with when the log says that they are not fenced."""
    since: dict[int, tuple[int, float]] = {}
    for one in history.committed:
        for change in one.brokers:
            began = since.pop(change.broker_id, None)
            if began is not None:
                yield change.broker_id, began[0], began[1], one.appended_seconds
            if change.is_fenced is False:
                since[change.broker_id] = change.broker_epoch, one.seen_seconds
    last = max((one.seconds for one in history.high_watermarks), default=0.0)
    for broker_id, (broker_epoch, began_seconds) in since.items():
        yield broker_id, broker_epoch, began_seconds, last
