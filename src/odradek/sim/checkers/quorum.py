"""Consensus: rule 19 of what must never be false, from what disks held and what voters told each other."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.sim.checkers.violation import Violation
from odradek.sim.history import Acknowledgement, History, LogBatch, MetadataCopy, QuorumState, Vote

ONE_VOTE: Final = "19 one vote per epoch"
VOTE_SYNCED: Final = "19 a vote is synced before it is given"
EPOCH_GROWS: Final = "19 the epoch only grows"
ONE_LEADER: Final = "19 one leader per epoch"
LOG_SYNCED: Final = "19 the log is synced before it is acknowledged"
SAME_LOG: Final = "19 what is committed is the same on all"
SAME_SNAPSHOT: Final = "19 a snapshot equals the log it replaces"
_NOBODY: Final = -1


def check_quorum(history: History, *, is_whole: bool) -> Iterator[Violation]:
    """`is_whole`: every node follows one leader in the end, so that no log holds what others do not."""
    yield from check_states(history.quorum_states)
    yield from check_votes(history.votes)
    yield from check_acknowledgements(history.acknowledgements)
    yield from check_leaders(history.metadata_copies, history.quorum_states)
    yield from check_order(history.metadata_copies)
    yield from check_snapshots(history.metadata_copies)
    if is_whole:
        last_of = {copy.node: copy for copy in history.metadata_copies}
        yield from check_same_logs(list(last_of.values()))


def check_states(states: Iterable[QuorumState]) -> Iterator[Violation]:
    """What a node's disk says of elections, in time: across restarts as well."""
    last_of: dict[str, QuorumState] = {}
    voted: dict[tuple[str, int], int] = {}
    for state in states:
        before = last_of.get(state.node)
        if before is not None and state.epoch < before.epoch:
            what = f"{state.node} goes back from epoch {before.epoch} to {state.epoch}"
            yield Violation(EPOCH_GROWS, what, state.seconds)
        last_of[state.node] = state
        if state.voted_id != _NOBODY:
            chosen = voted.setdefault((state.node, state.epoch), state.voted_id)
            if chosen != state.voted_id:
                what = f"{state.node} notes a vote for {state.voted_id} in epoch {state.epoch}, after one for {chosen}"
                yield Violation(ONE_VOTE, what, state.seconds)


def check_votes(votes: Iterable[Vote]) -> Iterator[Violation]:
    given: dict[tuple[str, int], int] = {}
    for vote in votes:
        chosen = given.setdefault((vote.voter, vote.epoch), vote.candidate_id)
        if chosen != vote.candidate_id:
            what = f"{vote.voter} votes for {vote.candidate_id} in epoch {vote.epoch}, after it voted for {chosen}"
            yield Violation(ONE_VOTE, what, vote.seconds)
        kept = vote.durable
        # In a later epoch it can no longer be asked for the earlier one.
        is_safe = kept is not None and (
            kept.epoch > vote.epoch or (kept.epoch == vote.epoch and kept.voted_id == vote.candidate_id)
        )
        if not is_safe:
            holds = "nothing" if kept is None else f"epoch {kept.epoch} with a vote for {kept.voted_id}"
            what = f"{vote.voter} votes for {vote.candidate_id} in epoch {vote.epoch}, and its disk holds {holds}"
            yield Violation(VOTE_SYNCED, what, vote.seconds)


def check_acknowledgements(acknowledgements: Iterable[Acknowledgement]) -> Iterator[Violation]:
    for one in acknowledgements:
        if one.offset > one.durable_end_offset:
            what = f"{one.voter} fetches from {one.offset} on, and its disk holds only what is below "
            yield Violation(LOG_SYNCED, f"{what}{one.durable_end_offset}", one.seconds)


def check_leaders(copies: Iterable[MetadataCopy], states: Iterable[QuorumState]) -> Iterator[Violation]:
    """Every log, at every time it was looked at, and every node's word agree on who led an epoch."""
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
        if state.leader_id != _NOBODY
    ]
    told: set[tuple[int, int]] = set()
    for epoch, leader_id, where, seconds in sorted(named, key=lambda one: one[3]):
        known, known_from = leader_of.setdefault(epoch, (leader_id, where))
        if known != leader_id and (epoch, leader_id) not in told:
            told.add((epoch, leader_id))
            what = f"{leader_id} leads epoch {epoch} by {where}, and {known} by {known_from}"
            yield Violation(ONE_LEADER, what, seconds)


def check_order(copies: Iterable[MetadataCopy]) -> Iterator[Violation]:
    """Within a log offsets follow each other, and epochs never go back."""
    for copy in copies:
        for before, batch in zip(copy.batches, copy.batches[1:], strict=False):
            if batch.base_offset != before.last_offset + 1:
                what = f"the log of {copy.node} goes from {before.last_offset} to {batch.base_offset}"
                yield Violation(SAME_LOG, what, copy.seconds)
                break
            if batch.epoch < before.epoch:
                what = f"the log of {copy.node} goes back from epoch {before.epoch} to {batch.epoch} at "
                yield Violation(EPOCH_GROWS, f"{what}{batch.base_offset}", copy.seconds)
                break


def check_same_logs(copies: Iterable[MetadataCopy]) -> Iterator[Violation]:
    seen: dict[int, tuple[LogBatch, str]] = {}
    for copy in copies:
        for batch in copy.batches:
            other, holder = seen.setdefault(batch.base_offset, (batch, copy.node))
            if other != batch:
                what = f"{_text(batch)} in the log of {copy.node} and {_text(other)} in that of {holder}"
                yield Violation(SAME_LOG, what, copy.seconds)
                break


def check_snapshots(copies: Iterable[MetadataCopy]) -> Iterator[Violation]:
    seen: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for copy in copies:
        for snapshot_id, digest in copy.snapshots.items():
            others = seen[snapshot_id]
            if digest not in others and others:
                other = next(iter(others.values()))
                what = f"the snapshot of everything below {snapshot_id[0]} at {copy.node} is not that of {other}"
                yield Violation(SAME_SNAPSHOT, what, copy.seconds)
            others.setdefault(digest, copy.node)


def _text(batch: LogBatch) -> str:
    return f"{batch.base_offset} to {batch.last_offset} of epoch {batch.epoch}"
