"""Snapshots: downloaded from the leader in pieces to replace the log, or written by this node itself."""

from odradek.base.errors import ErrorCode
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import epochs
from odradek.core.raft.effects import AbandonSnapshot, LoadSnapshot, WriteSnapshotPiece
from odradek.core.raft.epochs import Verdict
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.events import LogStartAdvanced, SnapshotLoaded, SnapshotTaken
from odradek.core.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Follower, SnapshotDownload

# Downloading


def begin_download(replica: Replica, follower: Follower, snapshot_id: SnapshotId) -> bool:
    if snapshot_id.end_offset < replica.high_watermark:
        raise BrokenQuorum(f"the leader's {snapshot_id} ends below the high watermark {replica.high_watermark}")
    if follower.download is None or follower.download.snapshot_id != snapshot_id:
        _abandon(replica, follower)
        follower.download = SnapshotDownload(snapshot_id=snapshot_id)
    return True


def next_piece_request(replica: Replica, follower: Follower) -> FetchSnapshotRequest | None:
    if follower.download is None:
        return None
    return FetchSnapshotRequest(
        cluster_id=replica.identity.cluster_id,
        replica=replica.key,
        current_leader_epoch=follower.epoch,
        snapshot_id=follower.download.snapshot_id,
        position=follower.download.position,
        max_bytes=replica.settings.fetch_snapshot_max_bytes,
    )


def on_fetch_snapshot_response(replica: Replica, source: int, response: FetchSnapshotResponse) -> bool:
    if response.error is ErrorCode.unknown_server_error and isinstance(replica.role, Follower):
        # The only error that Apache Kafka 4.3.1 returns for a snapshot that it has deleted.
        _abandon(replica, replica.role)
        return False
    verdict = epochs.check_response(replica, response)
    follower = replica.role
    if verdict is not Verdict.CONTINUE or not isinstance(follower, Follower):
        return verdict is not Verdict.RETRY_LATER
    download = follower.download
    if download is None or response.leader_id != follower.leader_id:
        return False
    follower.fetch_deadline_ms = replica.now_ms + replica.settings.fetch_timeout_ms
    follower.has_fetched = True
    is_other = download.size_bytes not in (None, response.size_bytes)
    if response.error is not ErrorCode.none or response.snapshot_id is None or is_other:
        # The leader has deleted it meanwhile; the next Fetch response names another snapshot.
        _abandon(replica, follower)
        return True
    is_next = response.snapshot_id == download.snapshot_id and response.position == download.position
    if not is_next or not response.data:
        return False
    replica.emit(WriteSnapshotPiece(download.snapshot_id, download.position, response.data))
    download.position += len(response.data)
    download.size_bytes = response.size_bytes
    if download.position >= response.size_bytes:
        follower.download = None
        replica.emit(LoadSnapshot(replica.log.begin_loading(download.snapshot_id), download.snapshot_id))
    return True


def _abandon(replica: Replica, follower: Follower) -> None:
    if follower.download is not None:
        replica.emit(AbandonSnapshot(follower.download.snapshot_id))
        follower.download = None


def on_snapshot_loaded(replica: Replica, event: SnapshotLoaded) -> None:
    if replica.log.loading != event.snapshot_id:
        raise BrokenQuorum(f"{event.snapshot_id} was loaded instead of {replica.log.loading}")
    replica.log.on_loaded(event.snapshot_id, event.size_bytes)
    replica.quorum.load(event.quorum, event.snapshot_id.end_offset)
    replica.advance_high_watermark(event.snapshot_id.end_offset)


# Writing


def on_snapshot_taken(replica: Replica, event: SnapshotTaken) -> None:
    check_snapshot(replica, event.snapshot_id)
    replica.log.snapshots[event.snapshot_id] = event.size_bytes


def check_snapshot(replica: Replica, snapshot_id: SnapshotId) -> None:
    """A snapshot replaces the log up to its end, so it may contain only committed records."""
    end_offset, epoch = snapshot_id
    if not replica.log.start_offset <= end_offset <= replica.high_watermark:
        raise BrokenQuorum(f"{snapshot_id} is not within the committed log, which ends at {replica.high_watermark}")
    if replica.log.epoch_before(end_offset) != epoch:
        raise BrokenQuorum(f"{snapshot_id} does not end with a record of epoch {epoch} in this log")


def on_log_start_advanced(replica: Replica, event: LogStartAdvanced) -> None:
    replica.log.advance_start(event.snapshot_id)
    replica.quorum.forget_before(event.snapshot_id.end_offset)
