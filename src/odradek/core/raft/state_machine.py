"""One replica of the metadata log as a state machine: `step` takes an event and the time, and returns effects.

It has no clock, disk, network or random source of its own. As in Kafka's KRaft, followers fetch, and a Fetch is the
acknowledgement of what was fetched before.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from odradek.base.ids import ZERO_UUID
from odradek.base.ports import Random
from odradek.core.raft import (
    appending,
    committing,
    dead_leader,
    describe,
    election,
    fetching,
    leadership,
    membership,
    messages,
    self_registration,
    serving,
    snapshots,
)
from odradek.core.raft.effects import Effect, ReadyToStop, SetTimer
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.events import (
    AppendRequested,
    ConnectionRefused,
    ConnectionUp,
    Event,
    KRaftVersionRequested,
    LogStartAdvanced,
    LogSynced,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SnapshotLoaded,
    SnapshotTaken,
    StopRequested,
    TimePassed,
)
from odradek.core.raft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from odradek.core.raft.settings import Identity, RaftSettings
from odradek.core.raft.stored_state import StoredState
from odradek.core.raft.voter_set import ReplicaKey
from odradek.core.raft.voters import Quorum
from odradek.records.control import VoterEndpoint

_TRANSITIONS_MAX = 8
"""Role changes in one step. More of them would be an endless loop."""


class RaftStateMachine:
    def __init__(self, identity: Identity, settings: RaftSettings, random: Random, durable: StoredState) -> None:
        self._replica = Replica(identity, settings, random, durable)
        self._found = durable.quorum_state
        self._timer_ms: int | None = None
        self._is_ready_to_stop = False

    def start(self, now_ms: int) -> tuple[Effect, ...]:
        """To be called once, before the first `step`."""
        self._replica.now_ms = now_ms
        state = self._found
        voted_directory_id = None if state.voted_directory_id == ZERO_UUID else state.voted_directory_id
        election.choose_first_role(
            self._replica,
            state.leader_epoch,
            None if state.leader_id < 0 else state.leader_id,
            None if state.voted_id < 0 else ReplicaKey(state.voted_id, voted_directory_id),
        )
        return self._finish_step()

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Raises BrokenQuorum if the replica must stop."""
        replica = self._replica
        replica.now_ms = max(now_ms, replica.now_ms)
        _EVENTS[type(event)](replica, event)
        return self._finish_step()

    # Views

    @property
    def directory_id(self) -> UUID:
        return self._replica.identity.directory_id

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_id(self) -> int | None:
        return self._replica.leader_id

    @property
    def leader_endpoints(self) -> tuple[VoterEndpoint, ...]:
        """Empty while the leader's endpoints are unknown."""
        return self._replica.leader_endpoints

    @property
    def is_voter(self) -> bool:
        return self._replica.is_voter

    @property
    def is_leader(self) -> bool:
        return isinstance(self._replica.role, Leader)

    @property
    def role_name(self) -> str:
        return type(self._replica.role).__name__

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark

    @property
    def has_caught_up(self) -> bool:
        return self._replica.has_caught_up

    @property
    def log_start_offset(self) -> int:
        return self._replica.log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._replica.log.end_offset

    @property
    def quorum(self) -> Quorum:
        """The voters at the end of the log, committed or not."""
        return Quorum(self._replica.quorum.kraft_version, self._replica.voters.voters)

    def quorum_at(self, end_offset: int) -> Quorum:
        """The voters that a snapshot with this end offset contains."""
        return self._replica.quorum.at(end_offset)

    def describe(self) -> DescribeQuorumResponse:
        return describe.describe(self._replica)

    # After every event

    def _finish_step(self) -> tuple[Effect, ...]:
        replica = self._replica
        for _ in range(_TRANSITIONS_MAX):
            replica.clear_wake()
            role = replica.role
            _poll(replica)
            if replica.role is role:
                break
        else:
            raise BrokenQuorum(f"node {replica.identity.node_id} changes its role endlessly")
        if replica.is_stopping and not self._is_ready_to_stop and _can_stop(replica):
            self._is_ready_to_stop = True
            replica.emit(ReadyToStop())
        if replica.next_wake_ms is not None and replica.next_wake_ms != self._timer_ms:
            replica.emit(SetTimer(replica.next_wake_ms))
            self._timer_ms = replica.next_wake_ms
        return replica.drain_effects()


def _poll(replica: Replica) -> None:
    match replica.role:
        case Unattached() as role:
            fetching.poll_unattached(replica, role)
        case Prospective() as role:
            election.poll_prospective(replica, role)
        case Candidate() as role:
            election.poll_candidate(replica, role)
        case Leader() as role:
            leadership.poll_leader(replica, role)
        case Follower() as role:
            fetching.poll_follower(replica, role)
        case Resigned() as role:
            leadership.poll_resigned(replica, role)


def _can_stop(replica: Replica) -> bool:
    has_other_leader = replica.leader_id not in (None, replica.identity.node_id)
    return has_other_leader or not replica.is_voter or replica.voters.is_only_voter(replica.key)


def _on_request(replica: Replica, event: RequestReceived) -> None:
    _REQUESTS[type(event.message)](replica, event.request_id, event.message)


def _on_response(replica: Replica, event: ResponseReceived) -> None:
    if not replica.requests.complete(event.source, event.correlation_id):
        return
    if not _RESPONSES[type(event.message)](replica, event.source, event.message):
        replica.requests.back_off(event.source, replica.now_ms)


def _on_failure(replica: Replica, event: RequestFailed) -> None:
    if replica.requests.complete(event.destination, event.correlation_id):
        replica.requests.back_off(event.destination, replica.now_ms)


def _on_time_passed(replica: Replica, event: TimePassed) -> None:
    """Deadlines are checked after every event."""


def _on_stop_requested(replica: Replica, event: StopRequested) -> None:
    replica.is_stopping = True


def _on_describe_request(replica: Replica, request_id: int, request: DescribeQuorumRequest) -> None:
    replica.respond(request_id, describe.describe(replica))


# Dispatch is by exact type, so each handler receives the type that it declares.
_EVENTS: dict[type[Event], Callable[[Replica, Any], None]] = {
    TimePassed: _on_time_passed,
    RequestReceived: _on_request,
    ResponseReceived: _on_response,
    RequestFailed: _on_failure,
    AppendRequested: appending.on_append_requested,
    LogSynced: committing.on_log_synced,
    SnapshotTaken: snapshots.on_snapshot_taken,
    SnapshotLoaded: snapshots.on_snapshot_loaded,
    LogStartAdvanced: snapshots.on_log_start_advanced,
    ResignRequested: leadership.on_resign_requested,
    KRaftVersionRequested: membership.on_kraft_version_requested,
    StopRequested: _on_stop_requested,
    ConnectionRefused: dead_leader.on_connection_refused,
    ConnectionUp: dead_leader.on_connection_up,
}
_REQUESTS: dict[type[messages.Request], Callable[[Replica, int, Any], None]] = {
    messages.VoteRequest: election.on_vote_request,
    messages.BeginQuorumEpochRequest: leadership.on_begin_request,
    messages.EndQuorumEpochRequest: leadership.on_end_request,
    messages.FetchRequest: serving.on_fetch_request,
    messages.FetchSnapshotRequest: serving.on_fetch_snapshot_request,
    messages.AddRaftVoterRequest: membership.on_add_request,
    messages.RemoveRaftVoterRequest: membership.on_remove_request,
    messages.UpdateRaftVoterRequest: membership.on_update_request,
    messages.DescribeQuorumRequest: _on_describe_request,
}
_RESPONSES: dict[type[messages.Response], Callable[[Replica, int, Any], bool]] = {
    messages.VoteResponse: election.on_vote_response,
    messages.BeginQuorumEpochResponse: leadership.on_begin_response,
    messages.EndQuorumEpochResponse: leadership.on_end_response,
    messages.FetchResponse: fetching.on_fetch_response,
    messages.FetchSnapshotResponse: snapshots.on_fetch_snapshot_response,
    messages.AddRaftVoterResponse: self_registration.on_join_response,
    messages.RemoveRaftVoterResponse: self_registration.on_join_response,
    messages.UpdateRaftVoterResponse: self_registration.on_update_response,
    messages.ApiVersionsResponse: membership.on_versions_response,
}
