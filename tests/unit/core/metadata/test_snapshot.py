from pathlib import Path

import pytest

from odradek.core.metadata.apply import apply
from odradek.core.metadata.batches import MetadataBatch
from odradek.core.metadata.image import EMPTY_IMAGE, ClusterImage
from odradek.core.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from odradek.core.metadata.replay import Replay
from odradek.core.metadata.snapshot import (
    BrokenSnapshot,
    SnapshotId,
    decode_snapshot,
    encode_bootstrap,
    is_leftover,
    parse_file_name,
    read_timestamp,
    snapshot_of,
)
from odradek.core.raft.voters import Quorum, standalone
from odradek.records.batch import CorruptBatch, parse_batches
from odradek.records.control import VoterEndpoint
from tests.unit.core.metadata.sample_records import IDS

QUORUM = standalone(1, IDS[0], (VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=9093),))


begin, end, abort = BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord


def level(number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=number)


def batch(base_offset: int, *records: MetadataRecord) -> MetadataBatch:
    return MetadataBatch(base_offset + len(records) - 1, 1, 0, 100, records)


def image_with(partitions: int) -> ClusterImage:
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        TopicRecord(name="orders", topic_id=IDS[1]),
    ]
    for index in range(partitions):
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=IDS[1],
                replicas=(1,),
                isr=(1,),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=(IDS[2],),
            )
        )
    image, _ = apply(EMPTY_IMAGE, records, offset=41, epoch=7, timestamp_ms=1000)
    return image


def test_an_image_comes_back_equal() -> None:
    image = image_with(3000)
    data = snapshot_of(image, now_ms=2000, quorum=QUORUM.messages())
    snapshot = decode_snapshot(data)
    assert snapshot.image(SnapshotId(42, 7)) == image
    assert Quorum().after(snapshot.quorum) == QUORUM
    assert snapshot.last_contained_log_timestamp_ms == 1000
    assert {header.record_count for header in parse_batches(data)} == {3, 1024, 3002 - 2048, 1}


def test_without_a_footer_it_is_not_whole() -> None:
    data = snapshot_of(image_with(1), now_ms=2000)
    headers = parse_batches(data)
    with pytest.raises(BrokenSnapshot):
        decode_snapshot(data[: headers[-1].position])
    with pytest.raises(BrokenSnapshot):
        decode_snapshot(data[headers[1].position :])
    with pytest.raises(BrokenSnapshot):
        decode_snapshot(b"")


def test_every_truncation_and_every_flipped_bit_is_detected() -> None:
    data = snapshot_of(image_with(1), now_ms=2000)
    for length in range(len(data)):
        with pytest.raises((BrokenSnapshot, CorruptBatch)):
            decode_snapshot(data[:length])
    covered_by_crc = [header.position + 21 for header in parse_batches(data)]
    for position in covered_by_crc:
        broken = bytearray(data)
        broken[position] ^= 1
        with pytest.raises(CorruptBatch):
            decode_snapshot(bytes(broken))


def test_file_names() -> None:
    assert SnapshotId(42, 7).file_name == "00000000000000000042-0000000007.checkpoint"
    assert parse_file_name("00000000000000000042-0000000007.checkpoint") == SnapshotId(42, 7)
    for other in ("bootstrap.checkpoint", "00000000000000000042.snapshot", "quorum-state"):
        assert parse_file_name(other) is None
    for mark in (".deleted", ".part", ".tmp"):
        name = f"00000000000000000042-0000000007.checkpoint{mark}"
        assert parse_file_name(name) is None
        assert is_leftover(name)
    assert is_leftover("00000000000000000042-0000000007-1234567890.checkpoint.part")
    for kept in ("00000000000000000042-0000000007.checkpoint", "quorum-state", "00000000000000000042.log.deleted"):
        assert not is_leftover(kept)


def test_the_timestamp_is_read_without_the_rest() -> None:
    data = snapshot_of(image_with(3000), now_ms=2000, quorum=QUORUM.messages())
    assert read_timestamp(data) == read_timestamp(data[:400]) == 1000
    headers = parse_batches(data)
    for broken in (b"", data[:20], data[: headers[0].size - 1], data[headers[1].position :]):
        with pytest.raises((BrokenSnapshot, CorruptBatch)):
            read_timestamp(broken)


def test_bootstrap_is_kafkas_but_for_its_times() -> None:
    """Written by `kafka-storage format` of Apache Kafka 4.3.1, without options."""
    by_kafka = (Path(__file__).parent / "bootstrap_by_kafka.checkpoint").read_bytes()
    found = decode_snapshot(by_kafka)
    levels = [(record.name, record.feature_level) for record in found.records if isinstance(record, FeatureLevelRecord)]
    assert levels[0] == ("metadata.version", 30)
    ours = encode_bootstrap(levels, next(found.batches).timestamp_ms)
    assert len(ours) == len(by_kafka)
    assert decode_snapshot(ours).records == found.records
    assert [header.base_offset for header in parse_batches(ours)] == [
        header.base_offset for header in parse_batches(by_kafka)
    ]


class TestReplay:
    def test_a_transaction_takes_effect_at_its_end(self) -> None:
        replay = Replay(EMPTY_IMAGE)
        replay.take(batch(0, begin(), level(30)))
        assert replay.is_inside_transaction
        assert replay.image().features.metadata_version == 0
        replay.take(batch(2, end()))
        assert not replay.is_inside_transaction
        assert replay.image().features.metadata_version == 30
        assert replay.image().offset == 2

    def test_an_aborted_one_never_does(self) -> None:
        replay = Replay(EMPTY_IMAGE)
        replay.take_all([batch(0, level(29), begin(), level(30)), batch(3, abort(), begin(), end())])
        assert replay.image().features.metadata_version == 29
        assert not replay.is_inside_transaction
