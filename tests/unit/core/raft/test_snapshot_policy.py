from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.snapshot_policy import KeptSnapshot, SnapshotPolicy, oldest_to_keep


def test_due_by_bytes() -> None:
    policy = SnapshotPolicy(max_bytes=100, max_interval_ms=0)
    policy.note(99, now_ms=0)
    assert not policy.is_due(10**9)
    policy.note(1, now_ms=0)
    assert policy.is_due(0)
    policy.on_snapshot()
    assert not policy.is_due(10**9)


def test_due_by_time_only_after_a_change() -> None:
    policy = SnapshotPolicy(max_bytes=100, max_interval_ms=1000)
    assert not policy.is_due(10**9)
    policy.note(1, now_ms=5000)
    policy.note(1, now_ms=5900)
    assert not policy.is_due(5999)
    assert policy.is_due(6000)
    policy.on_snapshot()
    assert not policy.is_due(10**9)


def snapshots(*sizes: int) -> list[KeptSnapshot]:
    return [KeptSnapshot(SnapshotId(10 * number, 1), size, 1000 * number) for number, size in enumerate(sizes)]


def keep(kept: list[KeptSnapshot], *, log: int = 0, now: int = 0, size: int = -1, age: int = -1) -> int | None:
    found = oldest_to_keep(kept, log_size_bytes=log, now_ms=now, retention_bytes=size, retention_ms=age)
    return None if found is None else found.id.end_offset


def test_without_limits_all_snapshots_are_kept() -> None:
    assert keep([]) is None
    assert keep(snapshots(5, 5, 5), log=10**9, now=10**9) == 0


def test_newest_snapshot_is_always_kept() -> None:
    assert keep(snapshots(5, 5, 5), log=10**9, size=1) == 20
    assert keep(snapshots(5, 5, 5), now=10**9, age=0) == 20
    assert keep(snapshots(5), log=10**9, size=1) == 0


def test_oldest_snapshots_are_deleted_by_size() -> None:
    assert keep(snapshots(5, 5, 5), log=10, size=25) == 0
    assert keep(snapshots(5, 5, 5), log=10, size=24) == 10
    assert keep(snapshots(5, 5, 5), log=10, size=19) == 20


def test_oldest_snapshots_are_deleted_by_age() -> None:
    assert keep(snapshots(5, 5, 5), now=1500, age=1500) == 0
    assert keep(snapshots(5, 5, 5), now=1501, age=1500) == 10
    assert keep(snapshots(5, 5, 5), now=2501, age=1500) == 20
