"""Committed records: on a majority, equal on all voters, permanent; and a healthy majority makes progress."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.sim.checkers.quiet_periods import QuietPeriods, majorities
from odradek.sim.checkers.violation import Violation
from odradek.sim.quorum_history import (
    Appended,
    CommittedBatch,
    Damage,
    DiskSeen,
    HighWatermarkSent,
    LeaderAnnounced,
    LogBatch,
    MetadataCopy,
    QuorumHistory,
    QuorumSettings,
    VoterServed,
)

ON_A_MAJORITY: Final = "19 committed records are on a majority"
OWN_EPOCH: Final = "19 only records of the leader's own epoch are committed by counting"
NEVER_BACK: Final = "19 high watermarks only grow"
STAYS: Final = "19 committed records stay"
SAME_ON_ALL: Final = "19 committed records are the same on all voters"
RESIGNS: Final = "19 a leader without a majority resigns"
PROGRESS: Final = "23 a healthy majority makes progress"
_LATE_SECONDS: Final = 1.0
_PROGRESS_SECONDS: Final = 4.0


def check_commits(history: QuorumHistory, settings: QuorumSettings, *, ended_seconds: float) -> Iterator[Violation]:
    yield from check_high_watermarks(history)
    yield from check_stays(history)
    yield from check_leader_logs(history)
    if history.has_fixed_voters:
        yield from check_following(history, settings)
        yield from check_progress(history, settings, ended_seconds)


def check_high_watermarks(history: QuorumHistory) -> Iterator[Violation]:
    latest: dict[tuple[str, int, str], int] = {}
    committed_end = 0
    for one in history.high_watermarks:
        before = latest.get((one.leader, one.epoch, one.listener), 0)
        if one.offset < before:
            what = f"the high watermark of {one.leader} decreases from {before} to {one.offset} in epoch {one.epoch}"
            yield Violation(NEVER_BACK, what, one.seconds)
        latest[one.leader, one.epoch, one.listener] = one.offset
        if one.offset <= committed_end:
            continue
        committed_end = one.offset
        assignment = _find_holders(one)
        names = assignment | one.covering
        if not any(len(names & voters) > len(voters) // 2 for voters in (one.voters, one.former_voters)):
            what = f"{one.leader} reports {one.offset} as its high watermark, which only {sorted(names)} have"
            yield Violation(ON_A_MAJORITY, what, one.seconds)
        for epoch in {batch.epoch for name, batch in one.holders.items() if name in assignment}:
            if epoch != one.epoch:
                what = f"{one.leader} of epoch {one.epoch} counts up to {one.offset}, which is of epoch {epoch}"
                yield Violation(OWN_EPOCH, what, one.seconds)


def _find_holders(sent: HighWatermarkSent) -> frozenset[str]:
    """The nodes whose batch at the high watermark equals the leader's. While the leader has not written it, the
    largest set of nodes with equal batches."""
    having: dict[LogBatch, set[str]] = defaultdict(set)
    for name, batch in sent.holders.items():
        having[batch].add(name)
    if sent.leader in sent.holders:
        return frozenset(having[sent.holders[sent.leader]])
    most = max(having.values(), key=lambda names: (len(names & sent.voters), sorted(names)), default=set[str]())
    return frozenset(most)


def check_stays(history: QuorumHistory) -> Iterator[Violation]:
    """Committed records stay on every disk that has had them, except those that faults removed."""
    steps: list[DiskSeen | Damage | HighWatermarkSent] = [*history.disks, *history.damages, *history.high_watermarks]
    had: dict[str, int] = defaultdict(int)
    sent: set[str] = set()
    for step in sorted(steps, key=lambda one: one.seconds):
        if isinstance(step, Damage):
            had[step.node] = 0
        elif isinstance(step, HighWatermarkSent):
            for name in _find_holders(step) | step.covering:
                had[name] = max(had[name], step.offset)
        elif step.end_offset < had[step.node] and step.node not in sent:
            sent.add(step.node)
            what = f"the log of {step.node} ends at {step.end_offset}, and had all below {had[step.node]}, committed"
            yield Violation(STAYS, what, step.seconds)


def check_leader_logs(history: QuorumHistory) -> Iterator[Violation]:
    """A leader has all records that were committed before its epoch."""
    for log in history.leader_logs:
        has = {batch.base_offset: batch for batch in log.batches}
        for one in history.committed:
            # Responses of an earlier leader may be late.
            is_earlier = one.seen_seconds < log.seconds and one.committed_in < log.epoch
            if not is_earlier or one.batch.base_offset < log.start_offset:
                continue
            if has.get(one.batch.base_offset) != one.batch:
                what = f"{log.leader}, leader of epoch {log.epoch}, does not have {_text(one.batch)}"
                yield Violation(SAME_ON_ALL, what, log.seconds)
                break


def check_final_logs(copies: Iterable[MetadataCopy], committed: Iterable[CommittedBatch]) -> Iterator[Violation]:
    for copy in copies:
        has = {batch.base_offset: batch for batch in copy.batches}
        start, end = min(has, default=0), max(has, default=-1)
        for one in committed:
            # The last records may still be in flight.
            if start <= one.batch.base_offset <= end and has.get(one.batch.base_offset) != one.batch:
                yield Violation(SAME_ON_ALL, f"{copy.node} does not have {_text(one.batch)}", copy.seconds)
                break


def check_following(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    """A leader writes and claims to lead only while a majority has fetched from it recently."""
    patience = 2 * settings.fetch_timeout_seconds + _LATE_SECONDS
    others_needed = len(settings.voters) // 2
    quiet = QuietPeriods([one for one in history.disturbances if one.one == one.other])
    steps: list[VoterServed | Appended | LeaderAnnounced] = [*history.served, *history.appended, *history.announcements]
    steps.sort(key=lambda one: one.seconds)
    fetched: dict[str, dict[str, float]] = defaultdict(dict)
    leads: dict[str, tuple[int, float]] = {}
    sent: set[tuple[str, int]] = set()
    for step in steps:
        if isinstance(step, VoterServed):
            fetched[step.leader][step.voter] = step.seconds
            continue
        node, epoch = (step.leader, step.epoch) if isinstance(step, LeaderAnnounced) else (step.node, step.batch.epoch)
        if isinstance(step, Appended) and step.batch.leader_id == settings.node_ids[node]:
            leads[node] = epoch, step.seconds
            fetched[node].clear()
        if node not in leads or leads[node][0] != epoch or not others_needed:
            continue
        times = sorted(fetched[node].values(), reverse=True)[:others_needed]
        followed = max(leads[node][1], times[-1] if len(times) == others_needed else 0.0)
        is_late = step.seconds - followed > patience and quiet.lasts(frozenset({node}), followed, step.seconds)
        if is_late and (node, epoch) not in sent:
            sent.add((node, epoch))
            what = f"{node} still leads epoch {epoch}, in which no majority has followed it since {followed:.3f} s"
            yield Violation(RESIGNS, what, step.seconds)


def check_progress(history: QuorumHistory, settings: QuorumSettings, ended_seconds: float) -> Iterator[Violation]:
    """While a majority of the voters runs and its members reach each other, the quorum commits regularly."""
    if len(settings.voters) == 1:
        # It sends its high watermark to no other node.
        return
    bound = _PROGRESS_SECONDS + 2 * settings.idle_seconds
    bound += 2 * settings.fetch_timeout_seconds + 4 * settings.election_timeout_seconds
    quiet = QuietPeriods(history.disturbances)
    committed_end = 0
    times = [0.0]
    for one in history.high_watermarks:
        if one.offset > committed_end:
            committed_end = one.offset
            times.append(one.seconds)
    for before, after in zip(times, [*times[1:], ended_seconds], strict=True):
        if after - before <= bound:
            continue
        for some in majorities(settings.voters):
            for begin, end in quiet.intervals(some, before, after):
                if end - begin > bound:
                    what = f"nothing is committed from {before:.3f} s on, though {', '.join(sorted(some))} are healthy "
                    yield Violation(PROGRESS, f"{what}since {begin:.3f} s", begin + bound)
                    return


def _text(batch: LogBatch) -> str:
    return f"what is committed from {batch.base_offset} to {batch.last_offset}, of epoch {batch.epoch}"
