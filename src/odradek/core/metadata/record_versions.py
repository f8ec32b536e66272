"""The version in which a record is written, so that all nodes of the cluster's metadata version can read it."""

from odradek.core.metadata.features import (
    IV_3_7_DIRECTORIES,
    IV_4_0_ELIGIBLE_LEADER_REPLICAS,
    IV_4_3_CORDONED_DIRECTORIES,
)
from odradek.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)


def version_to_write(record: MetadataRecord, metadata_version: int) -> int:
    # The most frequent records first.
    if isinstance(record, PartitionRecord) or isinstance(record, PartitionChangeRecord):  # noqa: SIM101 - faster
        if metadata_version >= IV_4_0_ELIGIBLE_LEADER_REPLICAS:
            return 2
        return 1 if metadata_version >= IV_3_7_DIRECTORIES else 0
    if isinstance(record, RegisterBrokerRecord):
        if metadata_version >= IV_4_3_CORDONED_DIRECTORIES:
            return 4
        if metadata_version >= IV_3_7_DIRECTORIES:
            return 3
        return 2 if metadata_version >= 8 else 1
    if isinstance(record, BrokerRegistrationChangeRecord):
        # As in Kafka, the lowest version that can represent the record.
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return type(record).HIGHEST_VERSION
