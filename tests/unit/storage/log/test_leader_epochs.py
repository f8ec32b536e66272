import errno
from pathlib import Path

import pytest

from odradek.host.disk import HostDisk
from odradek.storage.log.checkpoints import MalformedCheckpoint
from odradek.storage.log.leader_epochs import LeaderEpochs
from tests.unit.storage.log.faulty_disk import FaultyDisk


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    epochs = LeaderEpochs(HostDisk(), str(tmp_path))
    for epoch, start in ((2, 10), (3, 20), (7, 35)):
        epochs.assign(epoch, start)
    return epochs


def listed(epochs: LeaderEpochs) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in epochs.entries]


def test_leader_epoch_checkpoint_has_kafkas_format(epochs: LeaderEpochs, tmp_path: Path) -> None:
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n3\n2 10\n3 20\n7 35\n"
    assert listed(LeaderEpochs.read(HostDisk(), str(tmp_path))) == [(2, 10), (3, 20), (7, 35)]


def test_end_offset_for_epoch(epochs: LeaderEpochs) -> None:
    ends = {epoch: tuple(epochs.end_offset_for(epoch, 50)) for epoch in range(-1, 10)}
    assert ends == {
        -1: (-1, -1),
        0: (0, 10),
        1: (1, 10),
        2: (2, 20),
        3: (3, 35),
        4: (3, 35),
        5: (3, 35),
        6: (3, 35),
        7: (7, 50),
        8: (-1, -1),
        9: (-1, -1),
    }


def test_epoch_for_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 34, 35, 99)] == [None, 2, 2, 3, 3, 7, 7]


def test_repeated_epoch_changes_nothing(epochs: LeaderEpochs) -> None:
    epochs.assign(7, 40)
    assert listed(epochs) == [(2, 10), (3, 20), (7, 35)]


def test_conflicting_epoch_entries_are_removed(epochs: LeaderEpochs) -> None:
    epochs.assign(8, 35)
    assert listed(epochs) == [(2, 10), (3, 20), (8, 35)]
    epochs.assign(9, 15)
    assert listed(epochs) == [(2, 10), (9, 15)]
    epochs.assign(5, 60)
    assert listed(epochs) == [(2, 10), (5, 60)]


def test_truncation_of_epochs(epochs: LeaderEpochs, tmp_path: Path) -> None:
    epochs.truncate_from_end(36)
    assert listed(epochs) == [(2, 10), (3, 20), (7, 35)]
    epochs.truncate_from_end(35)
    assert listed(epochs) == [(2, 10), (3, 20)]
    epochs.truncate_from_start(15)
    assert listed(epochs) == [(2, 15), (3, 20)]
    epochs.truncate_from_start(20)
    assert listed(epochs) == [(3, 20)]
    epochs.truncate_from_start(99)
    assert listed(epochs) == [(3, 99)]
    assert epochs.latest_epoch == 3
    epochs.write_if_changed()
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n3 99\n"


@pytest.mark.parametrize("epoch, start", [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_are_rejected(epochs: LeaderEpochs, epoch: int, start: int) -> None:
    with pytest.raises(ValueError):
        epochs.assign(epoch, start)


def test_failed_write_keeps_the_old_epochs(tmp_path: Path) -> None:
    disk = FaultyDisk()
    epochs = LeaderEpochs(disk, str(tmp_path))
    epochs.assign(1, 0)
    disk.fail_kinds = {"write_atomically"}
    with pytest.raises(OSError) as caught:
        epochs.assign(2, 5)
    assert caught.value.errno == errno.ENOSPC
    assert listed(epochs) == [(1, 0)]
    assert epochs.latest_epoch == 1


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n2\n1 1\n", b"x\n", b"0\n1\n1\n", b"0\n1\na b\n", b"0\nx\n", b"\xff"]
)
def test_malformed_checkpoint_raises(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(content)
    with pytest.raises(MalformedCheckpoint):
        LeaderEpochs.read(HostDisk(), str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"0\n", b"0\n0\n"])
def test_empty_checkpoint_has_no_epochs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(content)
    assert LeaderEpochs.read(HostDisk(), str(tmp_path)).entries == []
