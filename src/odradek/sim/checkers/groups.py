"""Groups: each partition has one owner, stale members cannot commit, and acknowledged commits stay.

A commit without a response may take effect at any time, even after later ones: it may wait in a queue. An acknowledged
commit is overwritten only by one that began after its response, or overlapped with it.

A coordinator returns committed offsets from memory, as Kafka's does: one that is partitioned from the other nodes, but
not from its clients, returns them until it is notified that it was replaced. Its offsets may be old, but they must have
been committed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from odradek.base.ids import TopicPartition
from odradek.sim.checkers.violation import Violation
from odradek.sim.group_history import NO_OFFSET, Commit, CommitView, GroupHistory

ONE_OWNER: Final = "14 a partition has one owner per generation"
ONE_HOLDER: Final = "14 a partition has one owner per member epoch"
STALE: Final = "14 a stale member cannot commit"
COMMITS_STAY: Final = "15 acknowledged offset commits stay"


class Replacements(Protocol):
    def is_replaced(self, coordinator: str, group: str, seconds: float) -> bool:
        """Whether another node was the group's coordinator by then."""


def check_groups(history: GroupHistory, replacements: Replacements) -> Iterator[Violation]:
    yield from _one_owner(history)
    yield from _check_stale(history)
    yield from _one_holder(history)
    yield from _check_replaced(history)
    commits: dict[tuple[str, TopicPartition], list[Commit]] = defaultdict(list)
    for commit in history.commits:
        commits[commit.group, commit.partition].append(commit)
    for view in history.views:
        may_be_old = replacements.is_replaced(view.coordinator, view.group, view.ended)
        yield from _check_view(view, commits[view.group, view.partition], may_be_old=may_be_old)


def _one_owner(history: GroupHistory) -> Iterator[Violation]:
    owners: dict[tuple[str, int, int], str] = {}
    for share in history.shares:
        for place in share.share:
            owner = owners.setdefault((share.group, share.generation, place), share.member)
            if owner != share.member:
                what = f"{owner} and {share.member} both have part {place} of {share.group} in {share.generation}"
                yield Violation(ONE_OWNER, what, share.ended)


def _check_stale(history: GroupHistory) -> Iterator[Violation]:
    """A generation is permanent once the coordinator has sent an assignment of it to a member."""
    for commit in history.commits:
        if commit.ended is None or commit.generation < 0:
            continue
        for share in history.shares:
            if share.group == commit.group and share.generation > commit.generation and share.ended < commit.began:
                what = f"{commit}, though {share.member} was given its share in {share.generation} before"
                yield Violation(STALE, what, commit.ended)
                break


def _one_holder(history: GroupHistory) -> Iterator[Violation]:
    """Every assignment has its own epoch, which a member enters once it has revoked all other partitions."""
    holders: dict[tuple[str, int, TopicPartition], str] = {}
    for assignment in history.member_assignments:
        for partition in sorted(assignment.partitions):
            holder = holders.setdefault((assignment.group, assignment.epoch, partition), assignment.member)
            if holder != assignment.member:
                members = f"{holder} and {assignment.member}"
                what = f"{members} both own {partition} in epoch {assignment.epoch} of {assignment.group}"
                yield Violation(ONE_HOLDER, what, assignment.ended)


def _check_replaced(history: GroupHistory) -> Iterator[Violation]:
    """A partition gets a new owner in a later epoch, after its old owner revoked it or was fenced. A member may be in
    an older epoch as long as no other member owns its partition."""
    for commit in history.commits:
        if commit.ended is None:
            continue
        for assignment in history.member_assignments:
            if (
                (assignment.group, assignment.member != commit.member) == (commit.group, True)
                and commit.partition in assignment.partitions
                and assignment.epoch > commit.generation
                and assignment.ended < commit.began
            ):
                what = f"{commit}, though {assignment.member} was given it in {assignment.epoch} before"
                yield Violation(STALE, what, commit.ended)
                break


def _check_view(view: CommitView, commits: Sequence[Commit], *, may_be_old: bool) -> Iterator[Violation]:
    # The commits that the coordinator must have applied.
    before = [] if may_be_old else [one for one in commits if one.ended is not None and one.ended < view.began]
    if view.offset == NO_OFFSET:
        if before:
            yield Violation(COMMITS_STAY, f"nothing is committed, after {before[-1]}", view.ended)
        return
    found = next((one for one in commits if one.offset == view.offset), None)
    if found is None or found.is_refused or found.began > view.ended:
        yield Violation(COMMITS_STAY, f"{view.offset} of {view.group} was never committed", view.ended)
        return
    if found.ended is None:
        return
    for later in before:
        if later.began > found.ended:
            yield Violation(COMMITS_STAY, f"{found} is there again, after {later}", view.ended)
            return
