"""Who may vote, and the messages by which a quorum speaks of itself in its log."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from odradek.records.control import (
    ControlMessage,
    KRaftVersion,
    KRaftVersionRange,
    VoterEndpoint,
    VoterRegistration,
    Voters,
)

SUPPORTED_KRAFT_VERSIONS = KRaftVersionRange(min_supported_version=0, max_supported_version=1)


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
