"""The common format of keys and values.

The version of a key is the type of the record; a value has its own version. Both are the first two bytes.
"""

from typing import ClassVar, NamedTuple

from odradek.base.record_form import RecordForm


class RecordKey(RecordForm):
    __slots__ = ()

    KEY_VERSION: ClassVar[int]
    # Compaction compares the bytes of keys, so that their encoding never changes.
    FLEXIBLE_SINCE: ClassVar[int] = 1


class RecordValue(RecordForm):
    __slots__ = ()


class GroupRecord(NamedTuple):
    """`value` is None in a tombstone; `version` is that of the value."""

    key: RecordKey
    value: RecordValue | None
    version: int = 0
