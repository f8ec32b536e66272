"""Records that do not change the image: metadata transactions, no-op, and records of old releases."""

from dataclasses import field
from typing import ClassVar

from odradek.base.record_form import form
from odradek.base.values import named_value
from odradek.core.metadata.records.form import MetadataRecord


@named_value
class BeginTransactionRecord(MetadataRecord):
    """The records up to the end record take effect together or not at all."""

    API_KEY: ClassVar[int] = 23

    name: str | None = field(default=None, metadata=form("string", tag=0))


@named_value
class EndTransactionRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 24


@named_value
class AbortTransactionRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 25

    reason: str | None = field(default=None, metadata=form("string", tag=0))


@named_value
class NoOpRecord(MetadataRecord):
    """Advances the log end, so that brokers can distinguish an idle controller from an unresponsive one."""

    API_KEY: ClassVar[int] = 20


@named_value
class ZkMigrationStateRecord(MetadataRecord):
    """Written by Kafka up to 3.9; read and ignored."""

    API_KEY: ClassVar[int] = 21

    zk_migration_state: int = field(metadata=form("int8"))
