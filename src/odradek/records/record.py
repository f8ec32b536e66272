"""One decoded record, and the error for invalid records."""

from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import NO_TIMESTAMP

NO_OFFSET = -1


class Record(NamedTuple):
    """`offset` is set for decoded records; building a batch assigns its own offsets."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = NO_OFFSET


class InvalidRecords(KafkaError):
    """Length and CRC of the batch are right, but its records are malformed or violate the topic's configs.

    `records` contains the index and the reason of each rejected record.
    """

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.invalid_record,
        records: tuple[tuple[int, str], ...] = (),
    ) -> None:
        super().__init__(code, message)
        self.records = records
