"""The log end offsets of the other replicas, as the leader knows them from their Fetches."""

from dataclasses import dataclass

from odradek.core.raft.voter_set import ReplicaKey, VoterSet, matches

OBSERVER_SESSION_MS = 300_000
OBSERVERS_MAX = 10_000
CAUGHT_UP_WITHIN_MS = 3_600_000
NEVER_MS = -1


@dataclass(slots=True, eq=False)
class ReplicaProgress:
    key: ReplicaKey
    end_offset: int | None = None
    """Up to here the replica has synced its log. None: it has not fetched in this epoch."""
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    leader_end_at_last_fetch: int = -1

    def on_fetch(self, end_offset: int, leader_end_offset: int, now_ms: int) -> None:
        assert 0 <= end_offset <= leader_end_offset, f"{self.key} fetched at {end_offset}, beyond {leader_end_offset}"
        if end_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.leader_end_at_last_fetch <= end_offset:
            # It has everything that the leader had at its last fetch, so it was caught up then.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = end_offset


class ReplicationProgress:
    """Voters by ID, observers by ID and directory. The leader is one of them."""

    def __init__(self, voters: VoterSet, own_key: ReplicaKey) -> None:
        self._own_key = own_key
        self.voters: dict[int, ReplicaProgress] = {key.node_id: ReplicaProgress(key) for key in voters.keys}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}

    def find(self, key: ReplicaKey) -> ReplicaProgress | None:
        voter = self.voters.get(key.node_id)
        return voter if voter is not None and matches(voter.key, key) else self.observers.get(key)

    def of(self, key: ReplicaKey, now_ms: int) -> ReplicaProgress:
        found = self.find(key)
        if found is None:
            self.remove_expired_observers(now_ms)
            found = ReplicaProgress(key)
            if len(self.observers) < OBSERVERS_MAX:
                self.observers[key] = found
        return found

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.voters.get(key.node_id)
        return voter is not None and matches(voter.key, key)

    def update_voters(self, voters: VoterSet) -> None:
        """The voter set has changed. Replicas keep their offsets."""
        former = self.voters
        self.voters = {}
        for key in voters.keys:
            progress = former.get(key.node_id)
            if progress is not None and matches(progress.key, key):
                del former[key.node_id]
            else:
                progress = self.observers.pop(key, None) or ReplicaProgress(key)
            progress.key = key
            self.voters[key.node_id] = progress
        self.observers.update((progress.key, progress) for progress in former.values())

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether it is so close to the log end that commits will not wait for it as a voter."""
        progress = self.observers.get(key)
        if progress is None or progress.last_caught_up_ms == NEVER_MS:
            return False
        return now_ms - progress.last_fetch_ms < CAUGHT_UP_WITHIN_MS

    def majority_end_offset(self) -> int | None:
        """Up to here a majority of the voters has synced the log. None: no majority has fetched yet."""
        ends = [progress.end_offset for progress in self.voters.values() if progress.end_offset is not None]
        majority = len(self.voters) // 2 + 1
        return sorted(ends, reverse=True)[majority - 1] if len(ends) >= majority else None

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, longest log first."""
        others = [progress for progress in self.voters.values() if not matches(progress.key, self._own_key)]
        others.sort(key=lambda one: (-1 if one.end_offset is None else one.end_offset, -one.key.node_id), reverse=True)
        return tuple(progress.key for progress in others)

    def remove_expired_observers(self, now_ms: int) -> None:
        expired = [
            key
            for key, progress in self.observers.items()
            if now_ms - progress.last_fetch_ms >= OBSERVER_SESSION_MS and key != self._own_key
        ]
        for key in expired:
            del self.observers[key]
