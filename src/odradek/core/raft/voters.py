"""The voters, and the control records that describe them in the log."""

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
    """The kraft.version and the voters, as the log and its snapshots have them."""

    kraft_version: int = 0
    voters: tuple[VoterRegistration, ...] = ()
    """Empty with kraft.version 0, where the voters are configured."""

    def after(self, messages: Iterable[ControlMessage]) -> "Quorum":
        quorum = self
        for message in messages:
            if isinstance(message, KRaftVersion):
                quorum = replace(quorum, kraft_version=message.kraft_version)
            elif isinstance(message, Voters):
                quorum = replace(quorum, voters=message.voters)
        return quorum

    def messages(self) -> tuple[ControlMessage, ...]:
        """The control records of a snapshot."""
        if self.kraft_version == 0:
            return ()
        return (KRaftVersion(kraft_version=self.kraft_version), Voters(voters=self.voters))


def standalone(node_id: int, directory_id: UUID, endpoints: tuple[VoterEndpoint, ...]) -> Quorum:
    """A quorum with one voter, to which others can be added later."""
    voter = VoterRegistration(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=endpoints,
        kraft_version_feature=SUPPORTED_KRAFT_VERSIONS,
    )
    return Quorum(kraft_version=1, voters=(voter,))
