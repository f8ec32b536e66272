"""The records of `__cluster_metadata`, exactly Kafka's. They define bytes and no behaviour."""

from odradek.base.record_form import UnreadableRecord
from odradek.core.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from odradek.core.metadata.records.codec import RECORD_TYPES, decode, encode
from odradek.core.metadata.records.form import MetadataRecord
from odradek.core.metadata.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from odradek.core.metadata.records.settings import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    QuotaEntity,
)
from odradek.core.metadata.records.topics import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from odradek.core.metadata.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
)

__all__ = [
    "NO_LEADER_CHANGE",
    "NO_RECOVERY_STATE_CHANGE",
    "RECORD_TYPES",
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "Endpoint",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "MetadataRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "QuotaEntity",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "SupportedFeature",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnreadableRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
    "decode",
    "encode",
]
