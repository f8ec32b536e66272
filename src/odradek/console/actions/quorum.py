"""Adds and removes voters of the KRaft quorum, one at a time."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from odradek.client.address import parse_address
from odradek.client.cluster import Cluster
from odradek.client.quorum import ControllerEndpoint, QuorumAdmin, QuorumReplica, QuorumStatus
from odradek.console.actions.action import Preview, Refused
from odradek.console.readings.quorum import is_unresponsive
from odradek.console.readings.table import format_count, inert
from odradek.text.errors import as_sentence

_FIXED: Final = (
    "The voter set of this cluster is static (controller.quorum.voters). It changes only with the configuration of"
    " every node."
)


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    node: int
    name: str = "Remove voter"

    @property
    def target(self) -> str:
        return f"controller {self.node}"

    def details(self) -> dict[str, object]:
        return {}

    def preview(self, cluster: Cluster) -> Preview:
        quorum = QuorumAdmin(cluster).describe()
        directory_of(quorum, self.node)
        left = [one for one in quorum.voters if one.id != self.node]
        if not left:
            raise Refused(f"Node {self.node} is the only voter. Without it the cluster has no active controller.")
        responsive = sum(not is_unresponsive(quorum, one) for one in left)
        warnings = []
        if responsive <= len(left) // 2:
            warnings.append(
                f"Only {responsive} of the {len(left)} remaining voters are responsive, which is not a majority."
            )
        if self.node == quorum.leader_id:
            warnings.append("It is the active controller: another controller must be elected first.")
        return Preview(
            sentence=f"Removes node {self.node} from the voter set:"
            f" {format_count(len(left), 'voter remains', 'voters remain')}, of which {(len(left) - 1) // 2} may fail."
            " The node keeps running as an observer until it is stopped.",
            warnings=warnings,
            typed=str(self.node),
        )

    def carry_out(self, cluster: Cluster) -> str:
        admin = QuorumAdmin(cluster)
        admin.remove_voter(self.node, directory_of(admin.describe(), self.node))
        return f"Node {self.node} was removed from the voter set."


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter:
    node: int
    listener: str
    address: str
    """Address of its controller listener, which observers do not report."""
    name: str = "Add voter"

    @property
    def target(self) -> str:
        return f"controller {self.node}"

    def details(self) -> dict[str, object]:
        return {"endpoint": f"{self.listener}://{self.address}"}

    def preview(self, cluster: Cluster) -> Preview:
        quorum = QuorumAdmin(cluster).describe()
        observer = self._observer(quorum)
        endpoint = self._endpoint()
        behind = quorum.lag(observer)
        warnings = [] if not behind else [f"It is {format_count(behind, 'record')} behind and must catch up first."]
        return Preview(
            sentence=f"Node {self.node}, at {inert(str(endpoint))}, joins the voter set:"
            f" {len(quorum.voters) + 1} voters, of which {len(quorum.voters) // 2} may fail.",
            warnings=warnings,
        )

    def carry_out(self, cluster: Cluster) -> str:
        admin = QuorumAdmin(cluster)
        directory = self._observer(admin.describe()).directory_id
        assert directory is not None
        admin.add_voter(self.node, directory, [self._endpoint()], cluster_id=None)
        return f"Node {self.node} was added to the voter set."

    def _observer(self, quorum: QuorumStatus) -> QuorumReplica:
        if any(one.directory_id is None for one in quorum.voters):
            raise Refused(_FIXED)
        if any(one.id == self.node for one in quorum.voters):
            raise Refused(f"Node {self.node} is already a voter.")
        for one in quorum.observers:
            if one.id == self.node and one.directory_id is not None:
                return one
        raise Refused(
            f"The active controller does not know node {self.node}. Start the node and wait for its first fetch."
        )

    def _endpoint(self) -> ControllerEndpoint:
        if not self.listener.strip():
            raise Refused("Enter the controller listener, for example CONTROLLER (see controller.listener.names).")
        try:
            host, port = parse_address(self.address.strip())
        except ValueError as error:
            raise Refused(
                as_sentence(f"The address must be the HOST:PORT of the controller listener: {error}")
            ) from None
        return ControllerEndpoint(self.listener.strip(), host, port)


def directory_of(quorum: QuorumStatus, node: int) -> UUID:
    """Returns the directory ID of a voter. Raises Refused."""
    voters = {voter.id: voter for voter in quorum.voters}
    if node not in voters:
        raise Refused(f"Node {node} is not a voter. Voters: {', '.join(map(str, sorted(voters)))}.")
    found = voters[node].directory_id
    if found is None:
        raise Refused(_FIXED)
    return found
