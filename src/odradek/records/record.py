"""One record as Python sees it, and the refusal of records that cannot be read."""

from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import NO_TIMESTAMP

NO_OFFSET = -1


class Record(NamedTuple):
    """`offset` is known of records that were read; a batch that is being built numbers its records itself."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = NO_OFFSET


class InvalidRecords(KafkaError):
    """The batch is whole, by length and CRC, but its records are not what its header says: INVALID_RECORD."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.invalid_record, message)
