"""The assertions of the log fail where an invariant breaks."""

from pathlib import Path

import pytest

from odradek.host.disk import HostDisk
from odradek.records.batch import parse_batches
from odradek.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from odradek.storage.log.offset_index import OffsetIndex
from odradek.storage.log.producer_entry import ProducerEntry, SequencedBatch
from odradek.storage.log.time_index import TimeIndex
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch


def test_leader_epoch_of_an_append_never_decreases(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch(), epoch=3)
    data = bytearray(batch())
    with pytest.raises(AssertionError, match="leader epoch decreased from 3 to 2"):
        box.log.append_as_leader(data, parse_batches(data), leader_epoch=2, now_ms=NOW_MS)
    assert box.log.log_end_offset == 1


def test_log_start_never_passes_the_log_end(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch())
    with pytest.raises(AssertionError, match="log start 2 is above the log end 1"):
        box.log.advance_log_start(2)


def test_leader_epochs_and_their_start_offsets_increase(tmp_path: Path) -> None:
    epochs = LeaderEpochs(HostDisk(), str(tmp_path))
    with pytest.raises(AssertionError, match="leader epochs are not in order"):
        epochs._set([EpochEntry(1, 10), EpochEntry(2, 10)])


def test_offset_index_entries_increase(tmp_path: Path) -> None:
    index = OffsetIndex(HostDisk(), str(tmp_path / "0.index"), 0, 80)
    index.create()
    index.append(10, 100)
    with pytest.raises(AssertionError, match="entry 9 at 200 after 10 at 100"):
        index.append(9, 200)
    with pytest.raises(AssertionError, match="entry 11 at 100 after 10 at 100"):
        index.append(11, 100)


def test_time_index_entries_increase(tmp_path: Path) -> None:
    index = TimeIndex(HostDisk(), str(tmp_path / "0.timeindex"), 0, 120)
    index.create()
    index.append_if_later(1000, 5)
    with pytest.raises(AssertionError, match="entry 2000 at 4 after 1000 at 5"):
        index.append_if_later(2000, 4)


def test_batches_of_a_producer_have_increasing_offsets() -> None:
    entry = ProducerEntry(7)
    entry.add_batch(0, SequencedBatch(0, 10, 0, NOW_MS))
    with pytest.raises(AssertionError, match="producer 7: batch at 10 after 10"):
        entry.add_batch(0, SequencedBatch(1, 10, 0, NOW_MS))
