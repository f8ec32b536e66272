"""The voter set and its changes along the log. It knows offsets, but neither roles nor messages."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.voters import Quorum
from odradek.records.control import ControlMessage, KRaftVersion, VoterEndpoint, VoterRegistration, Voters


class ReplicaKey(NamedTuple):
    """A node with its directory: with another directory it is another replica."""

    node_id: int
    directory_id: UUID | None


@dataclass(frozen=True, slots=True)
class VoterSet:
    voters: tuple[VoterRegistration, ...] = ()
    """Sorted by ID, which is unique."""

    @classmethod
    def of(cls, voters: Iterable[VoterRegistration]) -> "VoterSet":
        return cls(tuple(sorted(voters, key=lambda voter: voter.voter_id)))

    def __len__(self) -> int:
        return len(self.voters)

    def __iter__(self) -> Iterator[VoterRegistration]:
        return iter(self.voters)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.voter_id for voter in self.voters)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(key_of(voter) for voter in self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def get(self, node_id: int) -> VoterRegistration | None:
        return next((voter for voter in self.voters if voter.voter_id == node_id), None)

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.get(key.node_id)
        return voter is not None and matches(key_of(voter), key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(key)

    def endpoints(self, node_id: int) -> tuple[VoterEndpoint, ...]:
        voter = self.get(node_id)
        return () if voter is None else voter.endpoints

    def add(self, voter: VoterRegistration) -> "VoterSet | None":
        """None: there is a voter with this ID."""
        return None if self.get(voter.voter_id) else VoterSet.of((*self.voters, voter))

    def remove(self, key: ReplicaKey) -> "VoterSet | None":
        """None: there is no such voter, or it is the only one."""
        rest = tuple(voter for voter in self.voters if key_of(voter) != key)
        return VoterSet(rest) if 0 < len(rest) < len(self.voters) else None

    def update(self, voter: VoterRegistration) -> "VoterSet | None":
        """None: there is no such voter."""
        return self._replace(voter) if self.is_voter(key_of(voter)) else None

    def update_by_id(self, voter: VoterRegistration) -> "VoterSet | None":
        """For kraft.version 0, where the directories are unknown until the voters send them."""
        return self._replace(voter) if self.get(voter.voter_id) else None

    def _replace(self, voter: VoterRegistration) -> "VoterSet":
        return VoterSet(tuple(voter if one.voter_id == voter.voter_id else one for one in self.voters))

    def supports(self, kraft_version: int) -> bool:
        ranges = (voter.kraft_version_feature for voter in self.voters)
        return all(one.min_supported_version <= kraft_version <= one.max_supported_version for one in ranges)

    def has_overlapping_majority(self, other: "VoterSet") -> bool:
        """Any majority of one shares a voter with any majority of the other."""
        return self.majority + other.majority > len(set(self.keys) | set(other.keys))


def key_of(voter: VoterRegistration) -> ReplicaKey:
    return ReplicaKey(voter.voter_id, voter.voter_directory_id)


def matches(known: ReplicaKey, claimed: ReplicaKey) -> bool:
    """A voter with an unknown directory matches by ID alone."""
    return known.node_id == claimed.node_id and known.directory_id in (None, claimed.directory_id)


@dataclass(frozen=True, slots=True)
class QuorumAt:
    """The quorum from one offset on."""

    offset: int
    kraft_version: int
    voters: VoterSet
    is_decided: bool = False
    """Whether a leader wrote the voters to the log. Configured voters may differ between nodes."""


class QuorumHistory:
    """The quorum along the log. A change takes effect when it is appended, and ends when it is truncated."""

    def __init__(self, static_voters: VoterSet) -> None:
        self._static = static_voters
        self._entries: list[QuorumAt] = []

    @property
    def voters(self) -> VoterSet:
        return self._entries[-1].voters if self._entries else self._static

    @property
    def kraft_version(self) -> int:
        return self._entries[-1].kraft_version if self._entries else 0

    @property
    def last_change_offset(self) -> int | None:
        """-1: the quorum comes from the formatted directory. None: it comes from the configuration."""
        return self._entries[-1].offset if self._entries else None

    def voters_before_change(self, offset: int) -> VoterSet:
        """The voters before the changes at or after this offset."""
        index = bisect_right(self._entries, offset - 1, key=lambda entry: entry.offset)
        return self._entries[index - 1].voters if index > 0 else self._static

    def on_append(self, messages: Iterable[ControlMessage], first_offset: int) -> None:
        for offset, message in enumerate(messages, first_offset):
            last = self._entries[-1] if self._entries else QuorumAt(-1, 0, self._static)
            assert offset > last.offset, f"a voter change at {offset} cannot follow one at {last.offset}"
            if isinstance(message, KRaftVersion):
                self._entries.append(replace(last, offset=offset, kraft_version=message.kraft_version))
            elif isinstance(message, Voters):
                voters = VoterSet.of(message.voters)
                if last.is_decided and not last.voters.has_overlapping_majority(voters):
                    raise BrokenQuorum(f"voters {voters.ids} and voters {last.voters.ids} may have disjoint majorities")
                self._entries.append(QuorumAt(offset, last.kraft_version, voters, is_decided=True))

    def load(self, quorum: Quorum, end_offset: int) -> None:
        """From a snapshot with this end offset."""
        self._entries.clear()
        if quorum.kraft_version > 0:
            voters = VoterSet.of(quorum.voters)
            self._entries.append(QuorumAt(end_offset - 1, quorum.kraft_version, voters, is_decided=end_offset > 0))

    def truncate(self, end_offset: int) -> None:
        while self._entries and self._entries[-1].offset >= end_offset:
            self._entries.pop()

    def forget_before(self, start_offset: int) -> None:
        """Keeps the last entry before the offset, which is still in effect there."""
        del self._entries[: max(0, bisect_right(self._entries, start_offset - 1, key=lambda entry: entry.offset) - 1)]

    def at(self, end_offset: int) -> Quorum:
        """The quorum in a snapshot with this end offset."""
        index = bisect_right(self._entries, end_offset - 1, key=lambda entry: entry.offset)
        if index == 0:
            return Quorum()
        entry = self._entries[index - 1]
        return Quorum(entry.kraft_version, entry.voters.voters)
