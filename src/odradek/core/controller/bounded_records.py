"""The records of one atomic result, whose number is limited because they must fit one batch."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import RECORDS_MAX
from odradek.core.metadata.records import MetadataRecord


class BoundedRecords(list[MetadataRecord]):
    def check(self) -> None:
        """Raises KafkaError, with Kafka's error code and text, if there are too many."""
        if len(self) > RECORDS_MAX:
            raise KafkaError(ErrorCode.policy_violation, "Unable to perform excessively large batch operation.")
