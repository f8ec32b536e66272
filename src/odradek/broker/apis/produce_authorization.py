"""What the client of a Produce request may write: first its transaction, for the whole request, then each topic."""

from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.slices import Slices
from odradek.broker.apis.authorization import AllowedTopics, may_write_transaction
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType
from odradek.records.batch import is_transactional
from odradek.wire.produce_codec import SLICE_PARTITIONS, ProduceRequest

# Looking up a member of an enumeration takes longer than looking up a global name.
_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC


class WritePermissions:
    """The permissions for one request. A client without a transactional id may not write a transactional batch."""

    def __init__(self, access: Access, request: ProduceRequest, *, has_transactional_batch: bool) -> None:
        transactional_id = request.transactional_id
        self.is_transaction_denied: Final = has_transactional_batch and (
            transactional_id is None or not may_write_transaction(access, transactional_id)
        )
        self._topics: Final = AllowedTopics(access, _WRITE)

    def why_denied(self, topic: str) -> ErrorCode | None:
        return None if topic in self._topics else ErrorCode.topic_authorization_failed


def why_denied(
    access: Access, request: ProduceRequest, topic: str | None, records: memoryview | None
) -> ErrorCode | None:
    """As `WritePermissions`, for a request with one partition. `topic` is None if its ID is unknown."""
    if records is not None and is_transactional(records):
        transactional_id = request.transactional_id
        if transactional_id is None or not may_write_transaction(access, transactional_id):
            return ErrorCode.transactional_id_authorization_failed
    if topic is None or access.allows(_WRITE, _TOPIC, topic):
        return None
    return ErrorCode.topic_authorization_failed


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
