"""What a follower sends to its leader about itself: its new endpoints, or the request to become a voter (KIP-1186)."""

from odradek.base.errors import ErrorCode
from odradek.core.raft import epochs
from odradek.core.raft.epochs import Verdict
from odradek.core.raft.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Follower
from odradek.core.raft.voter_set import key_of


def send_if_due(replica: Replica, follower: Follower) -> bool:
    """Whether it sent a request in place of a Fetch."""
    if replica.now_ms < follower.update_voter_deadline_ms or replica.is_stopping:
        return False
    request = _update_request(replica, follower) if replica.is_voter else _join_request(replica)
    if request is None or replica.requests.busy_until_ms(replica.now_ms) is not None:
        return False
    if not replica.send_if_ready(follower.leader_id, follower.leader_endpoints, request):
        return False
    follower.update_voter_deadline_ms = replica.now_ms + replica.settings.fetch_timeout_ms
    return True


def _update_request(replica: Replica, follower: Follower) -> UpdateRaftVoterRequest | None:
    if replica.quorum.kraft_version > 0:
        is_needed = replica.voters.update(replica.registration) != replica.voters
    else:
        is_needed = not follower.has_described_itself
    if not is_needed:
        return None
    return UpdateRaftVoterRequest(
        cluster_id=replica.identity.cluster_id,
        current_leader_epoch=follower.epoch,
        voter=replica.key,
        endpoints=replica.identity.endpoints,
        kraft_versions=replica.identity.kraft_versions,
    )


def _join_request(replica: Replica) -> AddRaftVoterRequest | RemoveRaftVoterRequest | None:
    identity = replica.identity
    is_wanted = replica.settings.auto_join and identity.can_become_voter
    if not is_wanted or replica.quorum.kraft_version == 0:
        return None
    former = replica.voters.get(identity.node_id)
    if former is not None:
        # This node is a voter with its former directory, which must be removed first.
        return RemoveRaftVoterRequest(cluster_id=identity.cluster_id, voter=key_of(former))
    return AddRaftVoterRequest(
        cluster_id=identity.cluster_id, voter=replica.key, endpoints=identity.endpoints, ack_when_committed=False
    )


def on_update_response(replica: Replica, source: int, response: UpdateRaftVoterResponse) -> bool:
    follower = replica.role
    if response.error is ErrorCode.unsupported_version and isinstance(follower, Follower):
        follower.has_described_itself = True
        return True
    verdict = epochs.check_response(replica, response)
    follower = replica.role
    if verdict is Verdict.CONTINUE and isinstance(follower, Follower):
        follower.has_described_itself = True
        follower.fetch_deadline_ms = replica.now_ms + replica.settings.fetch_timeout_ms
    return verdict is not Verdict.RETRY_LATER


def on_join_response(replica: Replica, source: int, response: AddRaftVoterResponse | RemoveRaftVoterResponse) -> bool:
    """The log shows the result; the next attempt follows after the usual interval."""
    return response.error is ErrorCode.none
