"""The follower: it sends one Fetch at a time, once everything before it is synced, and appends what it fetches.

An observer fetches like a voter, but never starts an election.
"""

from odradek.core.raft import dead_leader, election, epochs, self_registration, snapshots
from odradek.core.raft.batch import Batch, OffsetAndEpoch
from odradek.core.raft.effects import Append, Truncate
from odradek.core.raft.epochs import Verdict
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.messages import FetchRequest, FetchResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Follower, Unattached


def poll_unattached(replica: Replica, unattached: Unattached) -> None:
    if unattached.election_deadline_ms is None and replica.is_eligible:
        # A snapshot that was loaded after the leader disappeared made this replica a voter.
        unattached.election_deadline_ms = replica.election_deadline_ms()
    if unattached.election_deadline_ms is not None and replica.can_start_election:
        if replica.now_ms >= unattached.election_deadline_ms:
            election.start_election(replica)
            return
        replica.wake_at(unattached.election_deadline_ms)
    _find_leader(replica)


def poll_follower(replica: Replica, follower: Follower) -> None:
    if replica.can_start_election:
        is_late = replica.now_ms >= follower.fetch_deadline_ms
        if dead_leader.should_start_election(replica, follower) or is_late:
            election.start_election(replica)
            return
        replica.wake_at(follower.fetch_deadline_ms)
    if not self_registration.send_if_due(replica, follower):
        _fetch_or_find_leader(replica, follower)


def _fetch_or_find_leader(replica: Replica, follower: Follower) -> None:
    requests, now_ms = replica.requests, replica.now_ms
    if requests.has_timed_out(follower.leader_id, now_ms) or requests.is_in_backoff(follower.leader_id, now_ms):
        # Another node may know of a new leader.
        _find_leader(replica)
    elif _may_fetch(replica):
        max_wait_ms = replica.settings.fetch_max_wait_ms
        request = snapshots.next_piece_request(replica, follower) or _fetch_request(replica, max_wait_ms)
        replica.send_if_ready(follower.leader_id, follower.leader_endpoints, request)


def _find_leader(replica: Replica) -> None:
    if not _may_fetch(replica):
        return
    known_ids = dict.fromkeys((*replica.settings.bootstrap_ids, *replica.voters.ids))
    node_ids = [node_id for node_id in known_ids if node_id != replica.identity.node_id]
    if not node_ids:
        return
    first = replica.random.randrange(len(node_ids))
    for node_id in (*node_ids[first:], *node_ids[:first]):
        if replica.requests.is_ready(node_id, replica.now_ms):
            # A short timeout: an unresponsive node must not delay the search.
            timeout_ms = replica.settings.discovery_timeout_ms
            replica.send_if_ready(node_id, replica.voters.endpoints(node_id), _fetch_request(replica, 0), timeout_ms)
            return
    replica.wake_at(min(replica.requests.ready_at_ms(node_id, replica.now_ms) for node_id in node_ids))


def _may_fetch(replica: Replica) -> bool:
    """One request at a time; since it acknowledges everything before its offset, that must be synced."""
    busy_until_ms = replica.requests.busy_until_ms(replica.now_ms)
    if busy_until_ms is not None:
        replica.wake_at(busy_until_ms)
        return False
    return replica.log.is_synced


def _fetch_request(replica: Replica, max_wait_ms: int) -> FetchRequest:
    return FetchRequest(
        cluster_id=replica.identity.cluster_id,
        replica=replica.key,
        current_leader_epoch=replica.epoch,
        fetch_offset=replica.log.end_offset,
        last_fetched_epoch=replica.log.last_epoch,
        high_watermark=replica.high_watermark,
        max_bytes=replica.settings.fetch_max_bytes,
        max_wait_ms=max_wait_ms,
    )


def on_fetch_response(replica: Replica, source: int, response: FetchResponse) -> bool:
    """False: the next Fetch waits for the backoff."""
    verdict = epochs.check_response(replica, response)
    follower = replica.role
    if verdict is not Verdict.CONTINUE or not isinstance(follower, Follower):
        return verdict is not Verdict.RETRY_LATER
    if response.leader_id != follower.leader_id:
        return False
    follower.fetch_deadline_ms = replica.now_ms + replica.settings.fetch_timeout_ms
    follower.has_fetched = True
    if response.diverging_epoch is not None:
        return _truncate(replica, response.diverging_epoch)
    if response.snapshot_id is not None:
        return snapshots.begin_download(replica, follower, response.snapshot_id)
    is_whole = _append(replica, follower, response.batches)
    replica.advance_high_watermark(min(response.high_watermark, replica.log.end_offset))
    if 0 <= response.high_watermark <= replica.log.end_offset:
        replica.has_caught_up = True
    return is_whole


def _append(replica: Replica, follower: Follower, batches: tuple[Batch, ...]) -> bool:
    """Ignores a batch that does not continue the log or has an invalid epoch, and all batches after it."""
    appended: list[Batch] = []
    change = 0
    for batch in batches:
        is_next = batch.base_offset == replica.log.end_offset <= batch.last_offset
        if not is_next or not replica.log.last_epoch <= batch.epoch <= follower.epoch:
            break
        change = replica.log.append(batch)
        replica.quorum.on_append(batch.control, batch.base_offset)
        appended.append(batch)
    if appended:
        replica.emit(Append(change, tuple(appended)))
    return len(appended) == len(batches)


def _truncate(replica: Replica, leader_end: OffsetAndEpoch) -> bool:
    end_offset = replica.log.truncation_point(leader_end)
    check_truncation(replica, min(end_offset, leader_end.offset))
    if end_offset == replica.log.end_offset:
        return False
    change = replica.log.truncate(end_offset)
    replica.quorum.truncate(end_offset)
    replica.emit(Truncate(change, end_offset))
    return True


def check_truncation(replica: Replica, end_offset: int) -> None:
    if end_offset < replica.high_watermark:
        raise BrokenQuorum(
            f"the leader requests truncation to {end_offset}, below the high watermark {replica.high_watermark}"
        )
