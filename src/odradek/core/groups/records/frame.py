"""What keys and values have in common.

The key's version is the number of the record's kind; a value has a version of its own. Both are two bytes in front.
"""

from typing import ClassVar, NamedTuple

from odradek.base.record_form import RecordForm


class RecordKey(RecordForm):
    __slots__ = ()

    KEY_VERSION: ClassVar[int]
    # Keys are compared by compaction byte for byte, so their encoding never changes.
    FLEXIBLE_SINCE: ClassVar[int] = 1


class RecordValue(RecordForm):
    __slots__ = ()


class GroupRecord(NamedTuple):
    """`value` is None in a tombstone; `version` is the one the value is written in."""

    key: RecordKey
    value: RecordValue | None
    version: int = 0
