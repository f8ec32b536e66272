"""A transaction's first batch in a partition is appended only if its coordinator verified it (KIP-890)."""

from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.storage.log.producer_state import Origin
from odradek.storage.log.verification import Verification
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch

INVALID = ErrorCode.invalid_txn_state
OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number


def verify(box: LogBox, epoch: int = 0, sequence: int = 0, *, epochs_rise: bool = True) -> Verification | None:
    return box.log.producers.begin_verification(1, epoch, sequence, epochs_rise=epochs_rise, now_ms=NOW_MS)


def write(
    box: LogBox,
    verification: Verification | None,
    *,
    epoch: int = 0,
    sequence: int = 0,
    origin: Origin = Origin.CLIENT,
) -> ErrorCode:
    data = batch(1, producer_id=1, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)
    try:
        box.append(data, origin=origin, verification=verification, verifies=True)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def test_unverified_transaction_is_rejected(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    assert write(box, None) is INVALID
    verification = verify(box)
    assert write(box, None) is INVALID
    assert write(box, verification) is ErrorCode.none
    assert write(box, None, sequence=1) is ErrorCode.none, "the transaction is open here"
    assert verify(box) is None


def test_marker_invalidates_a_verification(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    verification = verify(box, epochs_rise=False)
    box.end_transaction(1, commit=False)
    assert write(box, verification) is INVALID
    again = verify(box, epochs_rise=False)
    assert again is not verification
    assert write(box, verification) is INVALID
    assert write(box, again) is ErrorCode.none


def test_previous_marker_keeps_the_next_verification(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    assert write(box, verify(box)) is ErrorCode.none
    verification = verify(box, epoch=1)
    box.end_transaction(1, commit=True, epoch=1, version=2)
    assert write(box, verification, epoch=1) is ErrorCode.none
    # Its own marker does not keep it.
    assert verify(box, epoch=1) is None
    box.end_transaction(1, commit=True, epoch=2, version=2)
    assert write(box, verification, epoch=1) is ErrorCode.invalid_producer_epoch


def test_old_epoch_needs_no_verification(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    assert write(box, verify(box, epoch=3), epoch=3) is ErrorCode.none
    with pytest.raises(KafkaError) as caught:
        verify(box, epoch=2)
    assert caught.value.code is ErrorCode.invalid_producer_epoch


def test_lowest_waiting_sequence_is_written_first(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    later = verify(box, sequence=5, epochs_rise=False)
    first = verify(box, sequence=0, epochs_rise=False)
    assert first is later
    assert write(box, later, sequence=5) is OUT_OF_ORDER
    assert write(box, first, sequence=0) is ErrorCode.none


def test_transaction_version_2_starts_at_sequence_zero(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    assert write(box, verify(box, sequence=5), sequence=5) is OUT_OF_ORDER
    assert write(box, verify(box, sequence=0), sequence=0) is ErrorCode.none
    box.end_transaction(1, commit=True, epoch=1, version=2)
    assert write(box, verify(box, epoch=1, sequence=1), epoch=1, sequence=1) is OUT_OF_ORDER


def test_coordinator_appends_with_a_confirmed_verification(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    assert write(box, None, origin=Origin.COORDINATOR) is INVALID
    verification = verify(box)
    assert verification is not None
    assert write(box, None, origin=Origin.COORDINATOR) is INVALID
    verification.is_confirmed = True
    assert write(box, None, origin=Origin.COORDINATOR) is ErrorCode.none
    assert write(box, None, origin=Origin.COORDINATOR) is ErrorCode.none


def test_verifications_expire_with_their_producers(tmp_path: Path) -> None:
    box = LogBox(tmp_path, producer_id_expiration_ms=1_000)
    verification = verify(box)
    box.log.producers.expire(NOW_MS + 999)
    assert verify(box) is verification
    box.log.producers.expire(NOW_MS + 1_000)
    assert verify(box) is not verification
