"""Who may vote, and the messages by which a quorum speaks of itself in its log."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from odradek.records.control import (
    ControlMessage,
    KRaftVersion,
    KRaftVersionRange,
    LeaderChangeV0,
    VoterById,
    VoterEndpoint,
    VoterRegistration,
    Voters,
)

SUPPORTED_KRAFT_VERSIONS = KRaftVersionRange(min_supported_version=0, max_supported_version=1)


class UnsuitableQuorum(Exception):
    """The directory belongs to a quorum that this node cannot lead alone."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """What log and snapshots say of the quorum so far."""

    kraft_version: int = 0
    voters: tuple[VoterRegistration, ...] = ()
    """Known from kraft.version 1 on; before that they are the configuration's."""

    def after(self, messages: Iterable[ControlMessage]) -> "Quorum":
        quorum = self
        for message in messages:
            if isinstance(message, KRaftVersion):
                quorum = replace(quorum, kraft_version=message.kraft_version)
            elif isinstance(message, Voters):
                quorum = replace(quorum, voters=message.voters)
        return quorum

    def messages(self) -> tuple[ControlMessage, ...]:
        """What a snapshot keeps of it."""
        if self.kraft_version == 0:
            return ()
        return (KRaftVersion(kraft_version=self.kraft_version), Voters(voters=self.voters))


def standalone(node_id: int, directory_id: UUID, endpoints: tuple[VoterEndpoint, ...]) -> Quorum:
    """One voter, known by its directory: the quorum of a new cluster that can grow later."""
    voter = VoterRegistration(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=endpoints,
        kraft_version_feature=SUPPORTED_KRAFT_VERSIONS,
    )
    return Quorum(kraft_version=1, voters=(voter,))


def check_only_voter(
    quorum: Quorum, node_id: int, directory_id: UUID | None, configured_voter_ids: tuple[int, ...]
) -> None:
    """Raises UnsuitableQuorum unless this node, with this directory, is the quorum."""
    if quorum.kraft_version == 0:
        if configured_voter_ids != (node_id,):
            listed = ", ".join(map(str, configured_voter_ids)) or "nobody"
            raise UnsuitableQuorum(
                f"node {node_id} has to be the only voter, but controller.quorum.voters names {listed}"
            )
        return
    if [voter.voter_id for voter in quorum.voters] != [node_id]:
        listed = ", ".join(str(voter.voter_id) for voter in quorum.voters) or "nobody"
        raise UnsuitableQuorum(f"node {node_id} has to be the only voter, but the quorum's voters are {listed}")
    if quorum.voters[0].voter_directory_id != directory_id:
        raise UnsuitableQuorum(
            f"node {node_id} is a voter with another directory than this one: the metadata directory was replaced or "
            "formatted again"
        )


def first_messages(
    quorum: Quorum, node_id: int, endpoints: tuple[VoterEndpoint, ...], *, log_is_empty: bool
) -> tuple[tuple[ControlMessage, ...], Quorum]:
    """What a quorum's only voter writes when its epoch begins, and the quorum from then on."""
    me = (VoterById(voter_id=node_id),)
    change = LeaderChangeV0(leader_id=node_id, voters=me, granting_voters=me)
    if quorum.kraft_version == 0:
        return (change,), quorum
    voter = quorum.voters[0]
    now = quorum if voter.endpoints == endpoints else replace(quorum, voters=(replace(voter, endpoints=endpoints),))
    if log_is_empty:
        return (change, *now.messages()), now
    return ((change,) if now == quorum else (change, Voters(voters=now.voters))), now
