"""Elections: which voters may become candidates, get votes, or replace a leader. Uses the messages between voters."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.sim.checkers.quiet_periods import QuietPeriods
from odradek.sim.checkers.violation import Violation
from odradek.sim.quorum_history import (
    NO_NODE,
    Candidacy,
    ClaimAccepted,
    DiskSeen,
    EpochReported,
    QuorumHistory,
    QuorumSettings,
    Vote,
)

ONE_VOTE: Final = "19 one vote per epoch"
VOTE_SYNCED: Final = "19 votes are synced before they are granted"
EPOCH_SYNCED: Final = "19 epochs are synced before they are reported"
PAST_EPOCH: Final = "19 requests of a past epoch are rejected"
LOG_FRESH: Final = "19 voters grant votes only to candidates with an up-to-date log"
CLAIM_SYNCED: Final = "19 candidates report only their synced log"
PRE_VOTES: Final = "19 a new epoch needs pre-votes of a majority"
ONE_LEADER: Final = "19 one leader per epoch"
NOT_DEPOSED: Final = "a leader that a majority can reach is not replaced"
NO_HELP: Final = "followers of a live leader grant no pre-votes"
# After this time connections are open again, delayed messages have arrived, and followers have fetched.
_SETTLING_SECONDS: Final = 2.0
_LATE_SECONDS: Final = 0.05
_HELD_UP_SECONDS: Final = 1.0


def check_elections(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    yield from check_votes(history.votes, history.candidacies)
    yield from check_freshness(history)
    yield from check_epochs(history.epochs)
    yield from check_past_epochs(history.accepted, history.votes)
    yield from check_pre_votes(history, settings)
    if history.has_fixed_voters:
        yield from check_not_deposed(history, settings)
        yield from check_no_help(history, settings)


def check_votes(votes: Iterable[Vote], candidacies: Iterable[Candidacy]) -> Iterator[Violation]:
    """A candidate has voted for itself."""
    given: dict[tuple[str, int], int] = {}
    cast = [
        (vote.seconds, vote.voter, vote.candidate_id, vote.epoch, vote.durable)
        for vote in votes
        if not vote.is_pre_vote
    ]
    cast += [
        (one.seconds, one.candidate, one.candidate_id, one.epoch, one.durable)
        for one in candidacies
        if not one.is_pre_vote
    ]
    for seconds, voter, candidate_id, epoch, kept in sorted(cast, key=lambda one: one[0]):
        chosen = given.setdefault((voter, epoch), candidate_id)
        if chosen != candidate_id:
            what = f"{voter} votes for {candidate_id} in epoch {epoch}, after it voted for {chosen}"
            yield Violation(ONE_VOTE, what, seconds)
        # In a later epoch it cannot vote in the earlier one.
        is_safe = kept is not None and (
            kept.epoch > epoch or (kept.epoch == epoch and candidate_id in (kept.voted_id, kept.leader_id))
        )
        if not is_safe:
            holds = "nothing" if kept is None else f"epoch {kept.epoch} with a vote for {kept.voted_id}"
            what = f"{voter} votes for {candidate_id} in epoch {epoch}, and its disk holds {holds}"
            yield Violation(VOTE_SYNCED, what, seconds)


def check_freshness(history: QuorumHistory) -> Iterator[Violation]:
    for vote in history.votes:
        if vote.claimed_end < vote.durable_end:
            what = f"{vote.voter}, whose log ends at {vote.durable_end}, votes for {vote.candidate_id} in epoch "
            yield Violation(LOG_FRESH, f"{what}{vote.epoch}, which has only {vote.claimed_end}", vote.seconds)
    steps: list[DiskSeen | Candidacy] = [*history.disks, *history.candidacies]
    # It had the records that were truncated after its request.
    longest: dict[str, int] = defaultdict(int)
    for step in sorted(steps, key=lambda one: one.seconds):
        if isinstance(step, DiskSeen):
            longest[step.node] = max(longest[step.node], step.end_offset)
        elif step.claimed_end.offset > longest[step.candidate] and (
            step.durable is None or step.durable.epoch <= step.epoch
        ):
            what = (
                f"{step.candidate} claims that its log ends at {step.claimed_end}, and its disk has {step.durable_end}"
            )
            yield Violation(CLAIM_SYNCED, what, step.seconds)


def check_epochs(said: Iterable[EpochReported]) -> Iterator[Violation]:
    leader_of: dict[int, tuple[int, str]] = {}
    for one in said:
        if one.epoch > one.durable_epoch:
            what = f"{one.node} reports epoch {one.epoch}, and its disk has only {one.durable_epoch}"
            yield Violation(EPOCH_SYNCED, what, one.seconds)
        if one.leader_id != NO_NODE:
            known, known_from = leader_of.setdefault(one.epoch, (one.leader_id, one.node))
            if known != one.leader_id:
                what = f"{one.leader_id} leads epoch {one.epoch} as {one.node} says, and {known} as {known_from} says"
                yield Violation(ONE_LEADER, what, one.seconds)


def check_past_epochs(accepted: Iterable[ClaimAccepted], votes: Iterable[Vote]) -> Iterator[Violation]:
    for vote in votes:
        if vote.voter_epoch != vote.epoch:
            what = f"{vote.voter}, in epoch {vote.voter_epoch}, votes for {vote.candidate_id} in epoch {vote.epoch}"
            yield Violation(PAST_EPOCH, what, vote.seconds)
    for claim in accepted:
        what = f"{claim.node}, in epoch {claim.own_epoch}, accepts {claim.what} of epoch {claim.epoch}"
        yield Violation(PAST_EPOCH, what, claim.seconds)


def check_pre_votes(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    voter_sets = {frozenset(settings.node_ids[name] for name in settings.voters)}
    voter_sets |= {one.batch.voter_ids for one in history.appended if one.batch.voter_ids is not None}
    granting: dict[tuple[int, int], set[int]] = defaultdict(set)
    initialized: set[tuple[int, int]] = set()
    steps: list[Vote | Candidacy] = [one for one in history.votes if one.is_pre_vote]
    steps += [one for one in history.candidacies if not one.is_pre_vote]
    for step in sorted(steps, key=lambda one: one.seconds):
        if isinstance(step, Vote):
            granting[step.candidate_id, step.epoch].add(step.voter_id)
            continue
        stands = step.candidate_id, step.epoch
        if stands not in initialized:
            initialized.add(stands)
            for_it = granting[step.candidate_id, step.epoch - 1] | {step.candidate_id}
            if not any(len(for_it & ids) > len(ids) // 2 for ids in voter_sets):
                what = f"{step.candidate} begins epoch {step.epoch} with only the votes of {sorted(for_it)}"
                yield Violation(PRE_VOTES, what, step.seconds)


def check_not_deposed(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    """No new epoch starts while the leader is healthy and connected to a majority."""
    quiet = QuietPeriods(history.disturbances)
    settled = _SETTLING_SECONDS + 2 * settings.fetch_timeout_seconds
    leads_since: dict[int, tuple[str, float]] = {}
    for one in history.appended:
        if one.batch.leader_id is not None:
            leads_since.setdefault(one.batch.epoch, (one.node, one.seconds))
    known = sorted([(one.seconds, one.epoch) for one in history.epochs])
    for step in history.candidacies:
        epoch = step.epoch - 1
        leader, since = leads_since.get(epoch, ("", step.seconds))
        begins = step.seconds - settled
        is_new = not any(begins < seconds < step.seconds and named > epoch for seconds, named in known)
        was_last = not any(seconds <= begins and named > epoch for seconds, named in known)
        if step.is_pre_vote or since > begins or _has_resigned(history, epoch, step.seconds):
            continue
        if not (is_new and was_last):
            continue
        with_it = [
            name for name in settings.voters - {leader} if quiet.lasts(frozenset({leader, name}), begins, step.seconds)
        ]
        if len(with_it) >= len(settings.voters) // 2:
            what = f"{step.candidate} begins epoch {step.epoch}, while {leader}, which leads, is well connected with "
            yield Violation(NOT_DEPOSED, f"{what}{', '.join(sorted(with_it))}", step.seconds)


def check_no_help(history: QuorumHistory, settings: QuorumSettings) -> Iterator[Violation]:
    """Two Fetch responses within the fetch timeout show that the follower has a live leader."""
    quiet = QuietPeriods(history.disturbances)
    soon = settings.fetch_timeout_seconds / 2
    responses: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
    for one in history.served:
        responses[one.voter, one.epoch].append((one.seconds, one.leader))
    for vote in history.votes:
        recent = [one for one in responses[vote.voter, vote.epoch] if one[0] < vote.seconds - _LATE_SECONDS][-2:]
        if not vote.is_pre_vote or len(recent) < 2 or _has_resigned(history, vote.epoch, vote.seconds):
            continue
        (first, _), (last, leader) = recent
        is_content = last - first < soon and vote.seconds - last < soon
        if is_content and quiet.lasts(frozenset({vote.voter, leader}), first - _HELD_UP_SECONDS, vote.seconds):
            what = f"{vote.voter} would vote for {vote.candidate_id}, although its leader {leader} responded at "
            yield Violation(NO_HELP, f"{what}{last:.3f} s", vote.seconds)


def _has_resigned(history: QuorumHistory, epoch: int, seconds: float) -> bool:
    """Whether the leader of this epoch had resigned by then."""
    return any(ended == epoch and said <= seconds for ended, said in history.resigned)
