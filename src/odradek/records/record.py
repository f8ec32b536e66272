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
    """The batch is whole, by length and CRC, but its records are refused: malformed, or against the topic's rules.

    `records` names the refused ones by their place in the batch, with the reason for each.
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
