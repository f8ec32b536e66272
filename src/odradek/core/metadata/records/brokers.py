"""Records about brokers and controllers."""

from dataclasses import field
from typing import ClassVar
from uuid import UUID

from odradek.base.record_form import NestedForm, form
from odradek.base.values import named_value
from odradek.core.metadata.records.form import MetadataRecord


@named_value
class Endpoint(NestedForm):
    name: str = field(metadata=form("string"))
    host: str = field(metadata=form("string"))
    port: int = field(metadata=form("uint16"))
    security_protocol: int = field(metadata=form("int16"))


@named_value
class SupportedFeature(NestedForm):
    name: str = field(metadata=form("string"))
    min_supported_version: int = field(metadata=form("int16"))
    max_supported_version: int = field(metadata=form("int16"))


@named_value
class RegisterBrokerRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4

    broker_id: int = field(metadata=form("int32"))
    is_migrating_zk_broker: bool = field(default=False, metadata=form("bool", since=2))
    incarnation_id: UUID = field(metadata=form("uuid"))
    broker_epoch: int = field(metadata=form("int64"))
    end_points: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None = field(metadata=form("string"))
    fenced: bool = field(default=True, metadata=form("bool"))
    in_controlled_shutdown: bool = field(default=False, metadata=form("bool", since=1))
    log_dirs: tuple[UUID, ...] = field(default=(), metadata=form("uuid", since=3, tag=0))
    cordoned_log_dirs: tuple[UUID, ...] | None = field(default=None, metadata=form("uuid", since=4, tag=1))


@named_value
class UnregisterBrokerRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 1

    broker_id: int = field(metadata=form("int32"))
    broker_epoch: int = field(metadata=form("int64"))


@named_value
class FenceBrokerRecord(MetadataRecord):
    """Written by Kafka up to 3.2; still read."""

    API_KEY: ClassVar[int] = 7

    id: int = field(metadata=form("int32"))
    epoch: int = field(metadata=form("int64"))


@named_value
class UnfenceBrokerRecord(MetadataRecord):
    """Written by Kafka up to 3.2; still read."""

    API_KEY: ClassVar[int] = 8

    id: int = field(metadata=form("int32"))
    epoch: int = field(metadata=form("int64"))


@named_value
class BrokerRegistrationChangeRecord(MetadataRecord):
    """A change of a registered broker; the fields left at their default change nothing."""

    API_KEY: ClassVar[int] = 17
    HIGHEST_VERSION: ClassVar[int] = 3

    broker_id: int = field(metadata=form("int32"))
    broker_epoch: int = field(metadata=form("int64"))
    fenced: int = field(default=0, metadata=form("int8", tag=0))
    """-1: unfenced, 1: fenced, 0: no change."""
    in_controlled_shutdown: int = field(default=0, metadata=form("int8", since=1, tag=1))
    """1: in controlled shutdown, 0: no change."""
    log_dirs: tuple[UUID, ...] = field(default=(), metadata=form("uuid", since=2, tag=2))
    cordoned_log_dirs: tuple[UUID, ...] | None = field(default=None, metadata=form("uuid", since=3, tag=3))


@named_value
class RegisterControllerRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 27

    controller_id: int = field(metadata=form("int32"))
    incarnation_id: UUID = field(metadata=form("uuid"))
    zk_migration_ready: bool = field(metadata=form("bool"))
    end_points: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
