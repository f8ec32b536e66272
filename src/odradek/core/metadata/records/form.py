"""What the records of the metadata log have in common."""

from typing import ClassVar

from odradek.base.record_form import RecordForm


class MetadataRecord(RecordForm):
    __slots__ = ()

    API_KEY: ClassVar[int]
    """The record type's number in the log."""
