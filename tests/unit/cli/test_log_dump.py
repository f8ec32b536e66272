from pathlib import Path

import pytest

from odradek.cli.log_dump import Depth, Entry, dump, find_files
from odradek.core.metadata.records import FeatureLevelRecord, encode
from odradek.host.disk import HostDisk
from odradek.records.builder import build_batch
from odradek.records.control import EndTransactionMarker, encode_control
from odradek.records.record import Record
from odradek.storage.log.offset_index import OffsetIndex
from odradek.storage.log.producer_entry import ProducerEntry, SequencedBatch
from odradek.storage.log.producer_snapshots import encode_snapshot
from odradek.storage.log.time_index import TimeIndex
from odradek.storage.log.transaction_index import AbortedTransaction, TransactionIndex
from odradek.text.errors import UserError

SHALLOW = Depth(records=False, metadata=False)
DEEP = Depth(records=True, metadata=False)
METADATA = Depth(records=True, metadata=True)


def entries(path: Path, depth: Depth = SHALLOW) -> list[Entry]:
    passed: list[int] = []
    found = list(dump(path, depth, passed.append))
    if not any(entry["kind"] == "damage" for entry in found):
        assert sum(passed) == path.stat().st_size
    return found


def log_file(directory: Path, data: bytes, base_offset: int = 0) -> Path:
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(data)
    return path


def test_batches_are_dumped_with_their_records(tmp_path: Path) -> None:
    data = build_batch([Record(b"k", b"\xff", 7, (("h", b"1"),))], base_offset=5, compression=4, leader_epoch=2)
    data += build_batch([Record(None, None, 8)], base_offset=6, append_time_ms=9, producer_id=3, base_sequence=1)
    path = log_file(tmp_path, data, 5)
    first, second = entries(path)
    assert (first["position"], first["base_offset"], first["compression"], first["leader_epoch"]) == (0, 5, "zstd", 2)
    assert "records" not in first
    assert (second["position"], second["timestamp_type"], second["max_timestamp"]) == (
        first["size"],
        "LogAppendTime",
        9,
    )
    assert entries(path, DEEP)[0]["records"] == [
        {
            "offset": 5,
            "timestamp": 7,
            "key": "k",
            "value_base64": "/w==",
            "headers": [{"name": "h", "value": "1"}],
        }
    ]


def test_control_records_are_always_decoded(tmp_path: Path) -> None:
    marker = encode_control(EndTransactionMarker(committed=False, coordinator_epoch=4), 5)
    path = log_file(tmp_path, build_batch([marker], is_control=True, is_transactional=True, producer_id=1))
    (entry,) = entries(path)
    assert entry["records"][0]["control"] == {
        "type": "EndTransactionMarker",
        "committed": False,
        "coordinator_epoch": 4,
        "version": 0,
    }


def test_metadata_records_and_undecodable_values(tmp_path: Path) -> None:
    known = encode(FeatureLevelRecord(name="metadata.version", feature_level=30))
    path = log_file(tmp_path, build_batch([Record(None, known, 1), Record(None, b"\x7fjunk", 1)]))
    (entry,) = entries(path, METADATA)
    first, second = entry["records"]
    assert first["metadata"] == {"type": "FeatureLevelRecord", "name": "metadata.version", "feature_level": 30}
    assert "frame version" in second["unreadable"]
    assert second["value"] == "\x7fjunk"


@pytest.mark.parametrize("cut", range(1, 70))
def test_a_torn_tail_ends_the_dump(tmp_path: Path, cut: int) -> None:
    whole = build_batch([Record(None, b"first", 1)])
    torn = build_batch([Record(None, b"second", 1)], base_offset=1)
    path = log_file(tmp_path, whole + torn[:-cut])
    found = entries(path)
    if cut == len(torn):
        assert [entry["kind"] for entry in found] == ["batch"]
    else:
        assert [entry["kind"] for entry in found] == ["batch", "damage"]
        assert (found[1]["position"], found[1]["bytes"]) == (len(whole), len(torn) - cut)


@pytest.mark.parametrize("position", range(75))
def test_a_flipped_byte_never_breaks_the_dump(tmp_path: Path, position: int) -> None:
    data = bytearray(build_batch([Record(b"key", b"value", 1)], compression=1) * 2)
    data[position] ^= 0xFF
    found = entries(log_file(tmp_path, bytes(data)), METADATA)
    assert found
    # Base offset and leader epoch lie outside the CRC.
    if position >= 17:
        assert found[0]["kind"] == "damage" or found[0]["is_valid"] is False


def test_an_empty_segment_has_no_entries(tmp_path: Path) -> None:
    assert entries(log_file(tmp_path, b"")) == []


def test_offset_indexes_are_compared_with_their_log(tmp_path: Path) -> None:
    first = build_batch([Record(None, b"a"), Record(None, b"b")], base_offset=100)
    log_file(tmp_path, first + build_batch([Record(None, b"c")], base_offset=102), 100)
    path = tmp_path / f"{100:020d}.index"
    index = OffsetIndex(HostDisk(), str(path), 100, 8 * 100)
    index.create()
    index.append(102, len(first))
    index.append(103, len(first) + 7)
    index.handle.release()
    # The file of an active segment is longer than its entries.
    assert path.stat().st_size == 800
    assert entries(path) == [
        {"kind": "offset", "offset": 102, "position": len(first), "agrees_with_log": True},
        {"kind": "offset", "offset": 103, "position": len(first) + 7, "agrees_with_log": False},
    ]
    (tmp_path / f"{100:020d}.log").unlink()
    assert [entry["agrees_with_log"] for entry in entries(path)] == [None, None]


def test_time_indexes_are_dumped(tmp_path: Path) -> None:
    path = tmp_path / f"{100:020d}.timeindex"
    index = TimeIndex(HostDisk(), str(path), 100, 12 * 10)
    index.create()
    index.append_if_later(1000, 105)
    index.handle.release()
    assert entries(path) == [{"kind": "timestamp", "timestamp": 1000, "offset": 105}]


def test_aborted_transactions_and_producers_are_dumped(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.txnindex"
    TransactionIndex(HostDisk(), str(path), 0).append(AbortedTransaction(7, 1, 5, 6))
    assert entries(path) == [
        {"kind": "aborted_transaction", "producer_id": 7, "first_offset": 1, "last_offset": 5, "last_stable_offset": 6}
    ]
    snapshot = tmp_path / f"{9:020d}.snapshot"
    snapshot.write_bytes(encode_snapshot([ProducerEntry(7, 1, -1, 50, 3, [SequencedBatch(4, 8, 2, 50)])]))
    (entry,) = entries(snapshot)
    assert (entry["producer_id"], entry["last_sequence"], entry["transaction_first_offset"]) == (7, 4, 3)
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    (entry,) = entries(snapshot)
    assert entry["kind"] == "damage"


def test_dumping_needs_read_access_only_and_changes_nothing(tmp_path: Path) -> None:
    data = build_batch([Record(None, b"a")])
    for name in (f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", f"{0:020d}.txnindex"):
        (tmp_path / name).write_bytes(data if name.endswith(".log") else b"")
        (tmp_path / name).chmod(0o444)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    for path in find_files([tmp_path]):
        entries(path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_directory_is_expanded_to_its_log_files(tmp_path: Path) -> None:
    names = [f"{0:020d}.log", f"{0:020d}.index", f"{9:020d}.log.deleted", f"{9:020d}.snapshot"]
    for name in [*names, "leader-epoch-checkpoint", "partition.metadata", "notes.txt"]:
        (tmp_path / name).touch()
    assert [path.name for path in find_files([tmp_path])] == names


def test_paths_without_log_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for path, expected in (
        (tmp_path / "none.log", "File not found"),
        (tmp_path / "notes.txt", "is not a log file"),
        (tmp_path, "No log files in"),
    ):
        with pytest.raises(UserError, match=expected):
            find_files([path])
    odd = tmp_path / "odd.index"
    odd.touch()
    with pytest.raises(UserError, match="not named by a base offset"):
        entries(odd)
