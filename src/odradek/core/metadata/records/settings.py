"""Records about configs, feature levels, client quotas, and the next producer ID."""

from dataclasses import field
from typing import ClassVar

from odradek.base.record_form import NestedForm, form
from odradek.base.values import named_value
from odradek.core.metadata.records.form import MetadataRecord


@named_value
class ConfigRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 4

    resource_type: int = field(metadata=form("int8"))
    resource_name: str = field(metadata=form("string"))
    name: str = field(metadata=form("string"))
    value: str | None = field(metadata=form("string"))
    """None removes the config."""


@named_value
class FeatureLevelRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 12

    name: str = field(metadata=form("string"))
    feature_level: int = field(metadata=form("int16"))


@named_value
class QuotaEntity(NestedForm):
    entity_type: str = field(metadata=form("string"))
    entity_name: str | None = field(metadata=form("string"))
    """None is the default of its type."""


@named_value
class ClientQuotaRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 14

    entity: tuple[QuotaEntity, ...]
    key: str = field(metadata=form("string"))
    value: float = field(metadata=form("float64"))
    remove: bool = field(metadata=form("bool"))


@named_value
class ProducerIdsRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 15

    broker_id: int = field(metadata=form("int32"))
    broker_epoch: int = field(metadata=form("int64"))
    next_producer_id: int = field(metadata=form("int64"))
    """The first producer ID of the next block."""
