"""Consensus: invariant 19, checked on the contents of disks; see also `elections` and `commits`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.sim.checkers.brokers import check_brokers
from odradek.sim.checkers.commits import SAME_ON_ALL, check_commits, check_final_logs
from odradek.sim.checkers.elections import ONE_LEADER, ONE_VOTE, check_elections
from odradek.sim.checkers.violation import Violation
from odradek.sim.quorum_history import (
    NO_NODE,
    Acknowledgement,
    Appended,
    LogBatch,
    MetadataCopy,
    QuorumHistory,
    QuorumSettings,
    QuorumState,
)

EPOCH_GROWS: Final = "19 epochs only grow"
LOG_SYNCED: Final = "19 voters acknowledge only synced records"
SAME_SNAPSHOT: Final = "19 a snapshot equals the log it replaces"


def check_quorum(
    history: QuorumHistory, settings: QuorumSettings, *, ended_seconds: float, is_whole: bool
) -> Iterator[Violation]:
    """`is_whole`: at the end every node follows one leader, so that no log has records that others lack."""
    yield from check_states(history.states)
    yield from check_elections(history, settings)
    yield from check_acknowledgements(history.acknowledgements)
    yield from check_leaders(history.copies, history.states)
    yield from check_epoch_starts(history.appended)
    yield from check_order(history.copies)
    yield from check_snapshots(history)
    yield from check_commits(history, settings, ended_seconds=ended_seconds)
    yield from check_brokers(history, settings)
    if is_whole:
        last_of = {copy.node: copy for copy in history.copies}
        yield from check_final_logs(last_of.values(), history.committed)
        yield from check_same_logs(last_of.values())


def check_states(states: Iterable[QuorumState]) -> Iterator[Violation]:
    """Checks the quorum-state files of each node in the order of time, also across restarts."""
    last_of: dict[str, QuorumState] = {}
    voted: dict[tuple[str, int], int] = {}
    for state in states:
        before = last_of.get(state.node)
        if before is not None and state.epoch < before.epoch:
            what = f"the epoch of {state.node} decreases from {before.epoch} to {state.epoch}"
            yield Violation(EPOCH_GROWS, what, state.seconds)
        last_of[state.node] = state
        if state.voted_id != NO_NODE:
            chosen = voted.setdefault((state.node, state.epoch), state.voted_id)
            if chosen != state.voted_id:
                what = f"{state.node} notes a vote for {state.voted_id} in epoch {state.epoch}, after one for {chosen}"
                yield Violation(ONE_VOTE, what, state.seconds)


def check_acknowledgements(acknowledgements: Iterable[Acknowledgement]) -> Iterator[Violation]:
    for one in acknowledgements:
        # A late fetch of a log that was truncated in a later epoch acknowledges nothing.
        if one.offset > one.durable_end_offset and one.epoch >= one.durable_epoch:
            what = f"{one.voter} fetches from {one.offset} on, and its disk holds only what is below "
            yield Violation(LOG_SYNCED, f"{what}{one.durable_end_offset}", one.seconds)


def check_leaders(copies: Iterable[MetadataCopy], states: Iterable[QuorumState]) -> Iterator[Violation]:
    """All logs at all times, and all messages, agree on the leader of an epoch."""
    leader_of: dict[int, tuple[int, str]] = {}
    named = [
        (batch.epoch, batch.leader_id, f"the log of {copy.node}", copy.seconds)
        for copy in copies
        for batch in copy.batches
        if batch.leader_id is not None
    ]
    named += [
        (state.epoch, state.leader_id, f"quorum-state of {state.node}", state.seconds)
        for state in states
        if state.leader_id != NO_NODE
    ]
    sent: set[tuple[int, int]] = set()
    for epoch, leader_id, where, seconds in sorted(named, key=lambda one: one[3]):
        known, known_from = leader_of.setdefault(epoch, (leader_id, where))
        if known != leader_id and (epoch, leader_id) not in sent:
            sent.add((epoch, leader_id))
            what = f"{leader_id} leads epoch {epoch} by {where}, and {known} by {known_from}"
            yield Violation(ONE_LEADER, what, seconds)


def check_epoch_starts(appended: Iterable[Appended]) -> Iterator[Violation]:
    """An epoch starts with one record, which exists once."""
    begins: dict[int, LogBatch] = {}
    for one in appended:
        if one.batch.leader_id is not None:
            known = begins.setdefault(one.batch.epoch, one.batch)
            if known != one.batch:
                what = f"{one.node} has the beginning of epoch {one.batch.epoch} at {one.batch.base_offset}, and there "
                yield Violation(ONE_LEADER, f"{what}is another at {known.base_offset}", one.seconds)


def check_order(copies: Iterable[MetadataCopy]) -> Iterator[Violation]:
    """Within a log, offsets are contiguous and epochs never decrease."""
    for copy in copies:
        for before, batch in zip(copy.batches, copy.batches[1:], strict=False):
            if batch.base_offset != before.last_offset + 1:
                what = f"the log of {copy.node} goes from {before.last_offset} to {batch.base_offset}"
                yield Violation(SAME_ON_ALL, what, copy.seconds)
                break
            if batch.epoch < before.epoch:
                what = f"in the log of {copy.node} the epoch decreases from {before.epoch} to {batch.epoch} at "
                yield Violation(EPOCH_GROWS, f"{what}{batch.base_offset}", copy.seconds)
                break


def check_same_logs(copies: Iterable[MetadataCopy]) -> Iterator[Violation]:
    seen: dict[int, tuple[LogBatch, str]] = {}
    for copy in copies:
        for batch in copy.batches:
            other, holder = seen.setdefault(batch.base_offset, (batch, copy.node))
            if other != batch:
                what = f"{_text(batch)} in the log of {copy.node} and {_text(other)} in that of {holder}"
                yield Violation(SAME_ON_ALL, what, copy.seconds)
                break


def check_snapshots(history: QuorumHistory) -> Iterator[Violation]:
    """Snapshots of the same offset are equal on all nodes, and end at a committed record of their epoch."""
    for sent in history.high_watermarks:
        # The high watermark in a message may be slightly old: a snapshot is correct if a majority has its end offset.
        if sent.snapshot_end > sent.offset and not sent.is_snapshot_held:
            what = f"{sent.leader} has a snapshot of everything below {sent.snapshot_end}, of which only what is below "
            yield Violation(SAME_SNAPSHOT, f"{what}{sent.offset} is committed", sent.seconds)
            break
    committed = {one.batch.last_offset + 1: one.batch.epoch for one in history.committed}
    seen: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for copy in history.copies:
        for snapshot_id, digest in copy.snapshots.items():
            others = seen[snapshot_id]
            if digest not in others and others:
                other = next(iter(others.values()))
                what = f"the snapshot of everything below {snapshot_id[0]} at {copy.node} is not that of {other}"
                yield Violation(SAME_SNAPSHOT, what, copy.seconds)
            others.setdefault(digest, copy.node)
            end_offset, epoch = snapshot_id
            if committed.get(end_offset, epoch) != epoch:
                what = f"{copy.node} has a snapshot of everything below {end_offset} with epoch {epoch}, where "
                what += f"{committed[end_offset]} is committed"
                yield Violation(SAME_SNAPSHOT, what, copy.seconds)


def _text(batch: LogBatch) -> str:
    return f"{batch.base_offset} to {batch.last_offset} of epoch {batch.epoch}"
