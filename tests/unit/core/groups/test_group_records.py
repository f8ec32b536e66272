"""Records of groups that could not have been written, or that nobody should wait for."""

import pytest

from odradek.base.record_form import UnreadableRecord, UnwritableRecord
from odradek.core.groups.records import (
    ConsumerGroupMemberMetadataKey,
    GroupMetadataKey,
    GroupRecord,
    decode,
    encode_key,
)

MEMBER = GroupRecord(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), None)


def test_a_member_that_claims_to_read_more_topics_than_there_are_bytes() -> None:
    """It would be counted for years."""
    before_topics = b"\x00\x00" + b"\x00\x00\x01\x01"
    endless = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(UnreadableRecord):
        decode(encode_key(MEMBER), before_topics + endless + b"\x01\x00\x01\x00")


def test_a_name_that_no_record_can_hold() -> None:
    with pytest.raises(UnwritableRecord):
        encode_key(GroupRecord(GroupMetadataKey(group="g" * 32_768), None))
