"""Voter changes by the leader, one at a time (KIP-853).

A change is a Voters record, which takes effect when it is appended. The next change waits until it is committed, and
the first change of an epoch until a record of that epoch is: two uncommitted changes could have disjoint majorities.

The error messages are exactly Kafka's, since `kafka-metadata-quorum` prints them.
"""

from odradek.base.errors import ErrorCode
from odradek.base.ids import uuid_to_text
from odradek.core.raft import appending, epochs
from odradek.core.raft.effects import AppendRejected
from odradek.core.raft.events import KRaftVersionRequested
from odradek.core.raft.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader, VoterChange
from odradek.core.raft.voter_set import ReplicaKey, VoterSet
from odradek.records.control import KRaftVersion, KRaftVersionRange, VoterEndpoint, VoterRegistration, Voters

Refusal = tuple[ErrorCode, str | None]
"""Error code and message. None: Kafka's default message for the error code."""
NO_KRAFT_VERSIONS = KRaftVersionRange(min_supported_version=0, max_supported_version=0)


def check_voter_change(replica: Replica, leader: Leader, verb: str) -> Refusal | None:
    """Returns the reason why the voters cannot be changed now, or None."""
    if leader.change is not None:
        return (
            ErrorCode.request_timed_out,
            "Request timed out waiting for leader to handle previous voter change request",
        )
    if leader.high_watermark is None:
        return (
            ErrorCode.request_timed_out,
            "Request timed out waiting for leader to establish HWM and fence previous voter changes",
        )
    if replica.quorum.kraft_version == 0:
        message = f"Cluster doesn't support {verb} voter because the kraft.version feature is 0"
        return ErrorCode.unsupported_version, message
    if has_open_change(replica, leader.high_watermark):
        return (
            ErrorCode.request_timed_out,
            "Request timed out waiting for voters to commit the latest voter change at "
            f"Optional[{replica.quorum.last_change_offset}] with HWM {leader.high_watermark}",
        )
    return None


def has_open_change(replica: Replica, high_watermark: int) -> bool:
    last = replica.quorum.last_change_offset
    return last is None or last >= high_watermark


def _leader_or_error(replica: Replica, cluster_id: str | None) -> Leader | Refusal:
    if epochs.check_cluster_id(replica, cluster_id) is not None:
        own = replica.identity.cluster_id
        message = f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"'
        return ErrorCode.inconsistent_cluster_id, message
    error = epochs.check_fetcher_epoch(replica, replica.epoch)
    if error is not None or not isinstance(replica.role, Leader):
        return error or ErrorCode.not_leader_or_follower, ""
    return replica.role


def _has_default_listener(replica: Replica, endpoints: tuple[VoterEndpoint, ...]) -> bool:
    return replica.identity.endpoints[0].name in {endpoint.name for endpoint in endpoints}


# Adding


def on_add_request(replica: Replica, request_id: int, request: AddRaftVoterRequest) -> None:
    leader = _leader_or_error(replica, request.cluster_id)
    refusal = leader if isinstance(leader, tuple) else _check_add(replica, leader, request)
    if isinstance(leader, tuple) or refusal is not None:
        _respond_add(replica, request_id, refusal)
        return
    leader.change = VoterChange(
        request_id=request_id,
        is_removal=False,
        voter=request.voter,
        endpoints=request.endpoints,
        ack_when_committed=request.ack_when_committed,
        deadline_ms=replica.now_ms + replica.settings.request_timeout_ms,
    )
    # Continues in on_versions_response: a new voter must be reachable and support the kraft.version.
    if not replica.send_if_ready(request.voter.node_id, request.endpoints, ApiVersionsRequest()):
        message = f"New voter {_text(request.voter)} is not ready to receive requests"
        _finish(replica, leader, ErrorCode.request_timed_out, message)


def _check_add(replica: Replica, leader: Leader, request: AddRaftVoterRequest) -> Refusal | None:
    if request.voter.node_id < 0 or request.voter.directory_id is None:
        return ErrorCode.invalid_request, "Add voter request didn't include a valid voter"
    if not _has_default_listener(replica, request.endpoints):
        listener = replica.identity.endpoints[0].name
        message = (
            f"Add voter request didn't include the endpoint ({_endpoints(request.endpoints)}) for the default listener "
            f"ListenerName({listener})"
        )
        return ErrorCode.invalid_request, message
    refusal = check_voter_change(replica, leader, "adding")
    if refusal is None and replica.voters.get(request.voter.node_id) is not None:
        message = f"The voter id for {_text(request.voter)} is already part of the set of voters {_voters(replica)}."
        return ErrorCode.duplicate_voter, message
    return refusal


def on_versions_response(replica: Replica, source: int, response: ApiVersionsResponse) -> bool:
    """The new voter has responded. If it is suitable, it becomes a voter now."""
    leader = replica.role
    change = leader.change if isinstance(leader, Leader) else None
    if not isinstance(leader, Leader) or change is None or change.is_removal or change.record_offset is not None:
        return True
    if change.voter.node_id != source:
        return True
    voter = VoterRegistration(
        voter_id=change.voter.node_id,
        voter_directory_id=change.voter.directory_id,
        endpoints=change.endpoints,
        kraft_version_feature=response.kraft_versions or NO_KRAFT_VERSIONS,
    )
    voters = replica.voters.add(voter)
    refusal = _check_new_voter(replica, leader, change, response)
    if refusal is not None or voters is None:
        _finish(replica, leader, *(refusal or (ErrorCode.duplicate_voter, None)))
        return response.error is ErrorCode.none
    change.record_offset = appending.append_control(replica, leader, (Voters(voters=voters.voters),))
    if not change.ack_when_committed and change.request_id is not None:
        _respond_add(replica, change.request_id, None)
        change.request_id = None
    return True


def _check_new_voter(
    replica: Replica, leader: Leader, change: VoterChange, response: ApiVersionsResponse
) -> Refusal | None:
    if response.error is not ErrorCode.none:
        error = response.error.name.upper()
        message = f"Aborted add voter operation for since API_VERSIONS returned an error {error}"
        return ErrorCode.request_timed_out, message
    versions = response.kraft_versions or NO_KRAFT_VERSIONS
    known = f"(min: {versions.min_supported_version}, max: {versions.max_supported_version}"
    if response.kraft_versions is None:
        known += ")"
    final = replica.quorum.kraft_version
    if not versions.min_supported_version <= final <= versions.max_supported_version:
        message = (
            f"Aborted add voter operation for {_text(change.voter)} since the kraft.version range {known} doesn't "
            f"support the finalized version {final}"
        )
        return ErrorCode.invalid_request, message
    if not leader.progress.is_caught_up(change.voter, replica.now_ms):
        message = f"Aborted add voter operation for {_text(change.voter)} since it is lagging behind"
        return ErrorCode.request_timed_out, message
    return None


def _respond_add(replica: Replica, request_id: int, refusal: Refusal | None) -> None:
    error, message = refusal or (ErrorCode.none, None)
    replica.respond(request_id, AddRaftVoterResponse(error=error, error_message=message))


# Removing


def on_remove_request(replica: Replica, request_id: int, request: RemoveRaftVoterRequest) -> None:
    leader = _leader_or_error(replica, request.cluster_id)
    refusal = leader if isinstance(leader, tuple) else _check_remove(replica, leader, request)
    voters = replica.voters.remove(request.voter)
    if isinstance(leader, tuple) or refusal is not None or voters is None:
        _respond_remove(replica, request_id, refusal)
        return
    leader.change = VoterChange(
        request_id=request_id,
        is_removal=True,
        voter=request.voter,
        record_offset=appending.append_control(replica, leader, (Voters(voters=voters.voters),)),
        deadline_ms=replica.now_ms + replica.settings.request_timeout_ms,
    )


def _check_remove(replica: Replica, leader: Leader, request: RemoveRaftVoterRequest) -> Refusal | None:
    if request.voter.node_id < 0 or request.voter.directory_id is None:
        return ErrorCode.invalid_request, "Remove voter request didn't include a valid voter"
    refusal = check_voter_change(replica, leader, "removing")
    if refusal is None and replica.voters.remove(request.voter) is None:
        message = f"Cannot remove voter {_text(request.voter)} from the set of voters {_voters(replica)}"
        return ErrorCode.voter_not_found, message
    return refusal


def _respond_remove(replica: Replica, request_id: int, refusal: Refusal | None) -> None:
    error, message = refusal or (ErrorCode.none, None)
    replica.respond(request_id, RemoveRaftVoterResponse(error=error, error_message=message))


# Updating


def on_update_request(replica: Replica, request_id: int, request: UpdateRaftVoterRequest) -> None:
    """A voter has new endpoints or versions. The response does not wait for the commit: the voter retries if needed."""
    error = epochs.check_cluster_id(replica, request.cluster_id)
    if error is None:
        error = epochs.check_fetcher_epoch(replica, request.current_leader_epoch)
    leader = replica.role
    if error is None and isinstance(leader, Leader):
        error = _update(replica, leader, request)
    replica.respond(request_id, replica.with_leader(UpdateRaftVoterResponse(error=error or ErrorCode.none)))


def _update(replica: Replica, leader: Leader, request: UpdateRaftVoterRequest) -> ErrorCode | None:
    versions = request.kraft_versions
    is_range = 0 <= versions.min_supported_version <= versions.max_supported_version
    is_whole = request.voter.directory_id is not None and _has_default_listener(replica, request.endpoints)
    if not is_range or not is_whole:
        return ErrorCode.invalid_request
    if leader.change is not None or leader.high_watermark is None:
        return ErrorCode.request_timed_out
    voter = VoterRegistration(
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
        endpoints=request.endpoints,
        kraft_version_feature=versions,
    )
    if not VoterSet((voter,)).supports(replica.quorum.kraft_version):
        return ErrorCode.invalid_request
    if leader.described_voters is not None:
        described = leader.described_voters.update_by_id(voter)
        if described is None:
            return ErrorCode.voter_not_found
        leader.described_voters = described
        return None
    if has_open_change(replica, leader.high_watermark):
        return ErrorCode.request_timed_out
    voters = replica.voters.update(voter)
    if voters is None:
        return ErrorCode.voter_not_found
    if voters != replica.voters:
        appending.append_control(replica, leader, (Voters(voters=voters.voters),))
    return None


# Upgrade from static voters to voters in the log


def on_kraft_version_requested(replica: Replica, event: KRaftVersionRequested) -> None:
    leader = replica.role
    if not isinstance(leader, Leader) or leader.epoch != event.epoch:
        replica.emit(AppendRejected(f"this node is not the leader of epoch {event.epoch}"))
        return
    current, wanted = replica.quorum.kraft_version, event.kraft_version
    if wanted == current:
        return
    voters = leader.described_voters
    if voters is None or wanted < current:
        replica.emit(AppendRejected(f"kraft.version cannot change from {current} to {wanted}"))
    elif not voters.supports(wanted) or any(key.directory_id is None for key in voters.keys):
        replica.emit(AppendRejected(f"not all of the voters are known to support kraft.version {wanted}"))
    else:
        leader.described_voters = None
        messages = (KRaftVersion(kraft_version=wanted), Voters(voters=voters.voters))
        appending.append_control(replica, leader, messages)


# Completion of a change


def on_high_watermark(replica: Replica, leader: Leader, high_watermark: int) -> None:
    change = leader.change
    if change is not None and change.record_offset is not None and change.record_offset < high_watermark:
        _finish(replica, leader, ErrorCode.none, None)
    if not replica.is_voter and not has_open_change(replica, high_watermark):
        # The removal of this leader is committed, so it resigns.
        leader.is_resigning = True


def expire(replica: Replica, leader: Leader) -> None:
    """Responds with a timeout. An appended record may still be committed, and blocks the next change until then."""
    if leader.change is None:
        return
    if replica.now_ms >= leader.change.deadline_ms:
        _finish(replica, leader, ErrorCode.request_timed_out, None)
    else:
        replica.wake_at(leader.change.deadline_ms)


def _finish(replica: Replica, leader: Leader, error: ErrorCode, message: str | None) -> None:
    change = leader.change
    leader.change = None
    if change is None or change.request_id is None:
        return
    respond = _respond_remove if change.is_removal else _respond_add
    respond(replica, change.request_id, (error, message))


def _text(key: ReplicaKey) -> str:
    directory = "<undefined>" if key.directory_id is None else uuid_to_text(key.directory_id)
    return f"ReplicaKey(id={key.node_id}, directoryId={directory})"


def _endpoints(endpoints: tuple[VoterEndpoint, ...]) -> str:
    listeners = ", ".join(f"ListenerName({one.name})={one.host}/<unresolved>:{one.port}" for one in endpoints)
    return f"Endpoints(endpoints={{{listeners}}})"


def _voters(replica: Replica) -> str:
    return f"[{', '.join(_text(key) for key in replica.voters.keys)}]"
