"""The votes for one replica in one election."""

from collections.abc import Set as AbstractSet

from odradek.core.raft.voter_set import ReplicaKey, VoterSet


class Ballot:
    """Starts with the replica's own vote. Only voters count."""

    def __init__(self, voters: VoterSet, own_id: int) -> None:
        self._keys = {key.node_id: key for key in voters.keys}
        self._majority = voters.majority
        self._votes: dict[int, bool] = {own_id: True} if own_id in self._keys else {}

    def record(self, node_id: int, granted: bool) -> None:
        """A voter cannot revoke a vote: a later rejection belongs to an older request."""
        if node_id in self._keys:
            self._votes[node_id] = granted or self._votes.get(node_id, False)

    @property
    def granting_voters(self) -> tuple[int, ...]:
        return tuple(sorted(node_id for node_id, granted in self._votes.items() if granted))

    @property
    def unrecorded_voters(self) -> tuple[ReplicaKey, ...]:
        return tuple(key for node_id, key in self._keys.items() if node_id not in self._votes)

    @property
    def is_won(self) -> bool:
        return len(self.granting_voters) >= self._majority

    @property
    def is_lost(self) -> bool:
        return self.is_lost_without(frozenset())

    def is_lost_without(self, unreachable_ids: AbstractSet[int]) -> bool:
        """Whether it cannot be won any more if these voters do not respond."""
        expected = [node_id for node_id in self._keys if node_id not in self._votes and node_id not in unreachable_ids]
        return len(self.granting_voters) + len(expected) < self._majority
