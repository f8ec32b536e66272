"""When to write a snapshot, and which old snapshots to delete."""

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.core.metadata.snapshot import SnapshotId


@dataclass(slots=True, kw_only=True)
class SnapshotPolicy:
    max_bytes: int
    max_interval_ms: int
    """0: no time limit."""
    bytes_since: int = 0
    changed_at_ms: int | None = None
    """When the first record after the last snapshot was appended."""

    def note(self, size_bytes: int, now_ms: int) -> None:
        self.bytes_since += size_bytes
        if self.changed_at_ms is None:
            self.changed_at_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        if self.bytes_since >= self.max_bytes:
            return True
        if self.max_interval_ms == 0 or self.changed_at_ms is None:
            return False
        return now_ms - self.changed_at_ms >= self.max_interval_ms

    def on_snapshot(self) -> None:
        self.bytes_since = 0
        self.changed_at_ms = None


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    id: SnapshotId
    size_bytes: int
    last_contained_log_timestamp_ms: int


def oldest_to_keep(
    snapshots: Sequence[KeptSnapshot],
    *,
    log_size_bytes: int,
    now_ms: int,
    retention_bytes: int,
    retention_ms: int,
) -> KeptSnapshot | None:
    """The oldest snapshot that retention by size and time keeps. The newest one is always kept.

    None: there are no snapshots.
    """
    if not snapshots:
        return None
    total_bytes = log_size_bytes + sum(snapshot.size_bytes for snapshot in snapshots)
    first = 0
    while first < len(snapshots) - 1:
        snapshot = snapshots[first]
        is_too_much = 0 <= retention_bytes < total_bytes
        is_too_old = 0 <= retention_ms < now_ms - snapshot.last_contained_log_timestamp_ms
        if not is_too_much and not is_too_old:
            break
        total_bytes -= snapshot.size_bytes
        first += 1
    return snapshots[first]
