import json
from dataclasses import fields
from pathlib import Path

import pytest

from odradek.core.metadata.records import RECORD_TYPES, MetadataRecord, UnreadableRecord, decode, encode
from tests.unit.core.metadata.sample_records import SAMPLES

BY_KAFKA: list[list[str]] = json.loads((Path(__file__).parent / "records_by_kafka.json").read_text())

CASES = [
    pytest.param(record, version, bytes.fromhex(written), id=f"{type(record).__name__}-{number}-v{version}")
    for number, (record, versions) in enumerate(zip(SAMPLES, BY_KAFKA, strict=True))
    for version, written in enumerate(versions)
]


def test_every_record_type_has_a_sample() -> None:
    assert {type(record) for record in SAMPLES} == set(RECORD_TYPES.values())
    assert len(RECORD_TYPES) == 26


@pytest.mark.parametrize(("record", "version", "written"), CASES)
def test_bytes_are_kafkas(record: MetadataRecord, version: int, written: bytes) -> None:
    assert encode(record, version).hex() == written.hex()


@pytest.mark.parametrize(("record", "version", "written"), CASES)
def test_what_a_version_lacks_is_read_as_its_default(record: MetadataRecord, version: int, written: bytes) -> None:
    found = decode(written)
    for field in fields(record):  # type: ignore[arg-type]
        kept = field.metadata.get("since", 0) <= version
        assert getattr(found, field.name) == (getattr(record, field.name) if kept else field.default)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is truncated"),
        (b"\x01", "is truncated"),
        (b"\x01\x02", "is truncated"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x7f\x00", "type 127"),
        (b"\x01\x02\x01", "newer release"),
        (b"\x01\x02\x00\x05abc", "TopicRecord"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableRecord, match=reason):
        decode(data)


@pytest.mark.parametrize(("record", "version", "written"), CASES)
def test_every_truncation_is_refused(record: MetadataRecord, version: int, written: bytes) -> None:
    for length in range(len(written)):
        with pytest.raises(UnreadableRecord):
            decode(written[:length])
