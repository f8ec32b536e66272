"""What a controller makes of a command: records to write, and the answer that waits until they are committed."""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.metadata.records import MetadataRecord

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")

RECORDS_MAX: Final = 10_000
"""Of one decision that takes effect as a whole."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[T_co]):
    records: tuple[MetadataRecord, ...]
    response: T_co
    is_atomic: bool = True
    """All records take effect together, or none: they must fit one batch."""
    kraft_version: int | None = None
    """A new level of `kraft.version`: the quorum writes it for itself, beside the records."""

    def answered(self, response: R) -> "Decision[R]":
        """The same decision with another answer, as a handler translates it."""
        return Decision(self.records, response, self.is_atomic, self.kraft_version)


class BoundedRecords(list[MetadataRecord]):
    """Records of one atomic decision; one more than allowed is refused as Kafka refuses it."""

    def check(self) -> None:
        if len(self) > RECORDS_MAX:
            raise KafkaError(ErrorCode.policy_violation, "Unable to perform excessively large batch operation.")
