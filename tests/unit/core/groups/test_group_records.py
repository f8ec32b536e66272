"""Invalid and hostile records of groups."""

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


def test_member_with_an_impossible_topic_count_is_unreadable() -> None:
    """It would be counted for years."""
    before_topics = b"\x00\x00" + b"\x00\x00\x01\x01"
    endless = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(UnreadableRecord):
        decode(encode_key(MEMBER), before_topics + endless + b"\x01\x00\x01\x00")


def test_name_too_long_for_a_record_is_unwritable() -> None:
    with pytest.raises(UnwritableRecord):
        encode_key(GroupRecord(GroupMetadataKey(group="g" * 32_768), None))
