"""The first records of a new cluster, and the end of an unfinished metadata transaction."""

from collections.abc import Sequence

from odradek.core.controller.configs import MIN_ISR
from odradek.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, IV_3_6_TRANSACTIONS, METADATA_VERSION
from odradek.core.metadata.image import RESOURCE_BROKER
from odradek.core.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)


def first_records(bootstrap: Sequence[MetadataRecord], min_insync_replicas: int) -> tuple[MetadataRecord, ...]:
    """The bootstrap records of a formatted directory, as one metadata transaction."""
    levels = {record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)}
    records = list(bootstrap)
    if levels.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
        records.append(
            ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name=MIN_ISR, value=str(min_insync_replicas))
        )
    if levels.get(METADATA_VERSION, 0) < IV_3_6_TRANSACTIONS:
        return tuple(records)
    return (BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord())


def abort_unfinished() -> tuple[MetadataRecord, ...]:
    """A leader died inside a metadata transaction: none of its records may take effect."""
    return (AbortTransactionRecord(reason="Controller failover"),)
