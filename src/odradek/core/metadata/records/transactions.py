"""Records that change nothing by themselves: transactions of the metadata log, and what is left of older times."""

from dataclasses import field
from typing import ClassVar

from odradek.base.record_form import form
from odradek.base.values import named_value
from odradek.core.metadata.records.form import MetadataRecord


@named_value
class BeginTransactionRecord(MetadataRecord):
    """What follows, up to the end record, takes effect as a whole or not at all."""

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
    """Moves the end of the log, so that brokers can tell an idle controller from a silent one."""

    API_KEY: ClassVar[int] = 20


@named_value
class ZkMigrationStateRecord(MetadataRecord):
    """Written by Kafka up to 3.9; read and ignored."""

    API_KEY: ClassVar[int] = 21

    zk_migration_state: int = field(metadata=form("int8"))
