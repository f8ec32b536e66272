"""Control records: Kafka's bytes, and rejection of anything shorter."""

from uuid import UUID

import pytest

from odradek.records.batch import parse_batches
from odradek.records.control import (
    ControlMessage,
    ControlType,
    EndTransactionMarker,
    KRaftVersion,
    KRaftVersionRange,
    LeaderChange,
    LeaderChangeV0,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterById,
    VoterEndpoint,
    VoterRegistration,
    Voters,
    build_control_batch,
    build_end_transaction,
    control_type,
    decode_control,
    encode_control,
)
from odradek.records.decode import decode_batch
from odradek.records.record import InvalidRecords, Record

DIRECTORY = UUID("b21ba2c0-7f2c-45d7-8c54-048848c68f7b")
EXAMPLES: list[tuple[ControlMessage | EndTransactionMarker, str]] = [
    (EndTransactionMarker(committed=True, coordinator_epoch=7), "000000000007"),
    (EndTransactionMarker(committed=False, coordinator_epoch=-1), "0000ffffffff"),
    (
        LeaderChange(leader_id=3, voters=(Voter(voter_id=3, voter_directory_id=DIRECTORY),), granting_voters=()),
        "0001000000030200000003" + DIRECTORY.hex + "000100",
    ),
    (
        LeaderChangeV0(leader_id=3, voters=(VoterById(voter_id=3),), granting_voters=(VoterById(voter_id=3),)),
        "00000000000302000000030002000000030000",
    ),
    (SnapshotHeader(last_contained_log_timestamp=5), "0000000000000000000500"),
    (SnapshotFooter(), "000000"),
    (KRaftVersion(kraft_version=1), "0000000100"),
    (
        Voters(
            voters=(
                VoterRegistration(
                    voter_id=1,
                    voter_directory_id=DIRECTORY,
                    endpoints=(VoterEndpoint(name="C", host="h", port=9093),),
                    kraft_version_feature=KRaftVersionRange(min_supported_version=0, max_supported_version=1),
                ),
            )
        ),
        "00000200000001" + DIRECTORY.hex + "0202430268238500" + "0000000100" + "0000",
    ),
]


@pytest.mark.parametrize(("message", "expected"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_round_trip_and_bytes(message: ControlMessage | EndTransactionMarker, expected: str) -> None:
    record = encode_control(message, 9)
    assert record.value is not None and record.value.hex() == expected
    assert decode_control(record) == message
    for size in range(len(record.value)):
        with pytest.raises(InvalidRecords):
            decode_control(record._replace(value=record.value[:size]))


def test_keys() -> None:
    assert control_type(b"\x00\x00\x00\x01") is ControlType.COMMIT
    assert control_type(b"\x00\x00\x00\x63") is None
    assert decode_control(Record(b"\x00\x00\x00\x63", b"whatever")) is None
    for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"):
        with pytest.raises(InvalidRecords):
            control_type(key)


def test_future_leader_change_version_is_read_as_the_newest_known() -> None:
    record = encode_control(LeaderChange(version=2, leader_id=3, voters=(), granting_voters=()), 9)
    assert decode_control(record) == LeaderChange(version=2, leader_id=3, voters=(), granting_voters=())


def test_batches() -> None:
    data = build_control_batch(
        [SnapshotHeader(last_contained_log_timestamp=1), SnapshotFooter()], base_offset=4, leader_epoch=2, timestamp=99
    )
    (header,) = parse_batches(data)
    assert header.is_control and not header.is_transactional
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.max_timestamp) == (4, 5, 2, 99)
    marker = EndTransactionMarker(committed=True, coordinator_epoch=3)
    data = build_end_transaction(marker, producer_id=11, producer_epoch=5, timestamp=99)
    (header,) = parse_batches(data)
    assert header.is_control and header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 5, -1)
    assert decode_control(decode_batch(data, header)[0]) == marker
