"""What the client of a Produce request may write: first its transaction, for the whole request, then each topic."""

from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.slices import Slices
from odradek.broker.apis.authorization import AllowedTopics, may_write_transaction
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation
from odradek.records.batch import is_transactional
from odradek.wire.produce_codec import SLICE_PARTITIONS, ProduceRequest


class WritePermissions:
    """The permissions for one request. A client without a transactional id may not write a transactional batch."""

    def __init__(self, access: Access, request: ProduceRequest, *, has_transactional_batch: bool) -> None:
        transactional_id = request.transactional_id
        self.is_transaction_denied: Final = has_transactional_batch and (
            transactional_id is None or not may_write_transaction(access, transactional_id)
        )
        self._topics: Final = AllowedTopics(access, Operation.WRITE)

    def why_denied(self, topic: str) -> ErrorCode | None:
        return None if topic in self._topics else ErrorCode.topic_authorization_failed


def find_transactional_batch(request: ProduceRequest) -> Slices[bool]:
    """Whether the first batch of any partition is transactional."""
    left = SLICE_PARTITIONS
    for topic in request.topics:
        for _, records in topic.partitions:
            if records is not None and is_transactional(records):
                return True
            left -= 1
            if not left:
                left = SLICE_PARTITIONS
                yield
    return False
