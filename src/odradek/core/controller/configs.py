"""Config changes of topics, brokers, groups and client metrics."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, alter_broker_configs, alter_topic_configs, check_topic_configs
from odradek.config.group_config import check_group_configs
from odradek.config.levels import describe_topic
from odradek.core.controller.bounded_records import BoundedRecords
from odradek.core.controller.commands import ConfigEntry, ControllerResult
from odradek.core.controller.resource_names import check_resource_name
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.features import IV_4_3_CORDONED_DIRECTORIES
from odradek.core.metadata.image import NO_CONFIG, RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC, ConfigResource
from odradek.core.metadata.records import ClearElrRecord, ConfigRecord, MetadataRecord, PartitionChangeRecord

MIN_ISR = "min.insync.replicas"
CORDONED_LOG_DIRS = "cordoned.log.dirs"
VALUE_LENGTH_MAX = 32767
ALL_TOPICS = ""


class Configs:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def change(
        self, changes: Mapping[ConfigResource, Sequence[Change]], *, validate_only: bool
    ) -> ControllerResult[Mapping[ConfigResource, KafkaError | None]]:
        """Changes only the given configs."""

        def records_for(resource: ConfigResource) -> list[ConfigRecord]:
            current = self._state.image.configs.get(resource, NO_CONFIG)
            altered_configs = alter_broker_configs if resource[0] == RESOURCE_BROKER else alter_topic_configs
            altered = altered_configs(current, changes[resource])
            named = dict.fromkeys(change.name for change in changes[resource])
            return _changes_of(resource, current, {name: altered.get(name) for name in named})

        return self._decide(changes, records_for, validate_only)

    def replace(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool
    ) -> ControllerResult[Mapping[ConfigResource, KafkaError | None]]:
        """Configs that are not given return to their defaults."""

        def records_for(resource: ConfigResource) -> list[ConfigRecord]:
            wanted = configs[resource]
            current = self._state.image.configs.get(resource, NO_CONFIG)
            dropped = [_config_record(resource, name, None) for name in current if name not in wanted]
            return _changes_of(resource, current, wanted) + dropped

        return self._decide(configs, records_for, validate_only)

    def of_new_topic(self, name: str, configs: Sequence[tuple[str, str | None]]) -> list[MetadataRecord]:
        """Raises KafkaError for invalid topic configs."""
        without_value = [key for key, value in configs if value is None]
        if without_value:
            raise KafkaError(
                ErrorCode.invalid_config, f"Null value not supported for topic configs: {','.join(without_value)}"
            )
        resource = (RESOURCE_TOPIC, name)
        records = [_config_record(resource, key, value) for key, value in dict(configs).items()]
        self._check(resource, records, is_new=True)
        return [*records, *self._clear_elrs(records)]

    def effective_of_topic(self, settings: Mapping[str, str]) -> list[ConfigEntry]:
        return [
            ConfigEntry(one.name, one.value, one.read_only, int(one.source), one.sensitive)
            for one in sorted(describe_topic(self._state.config, settings), key=lambda one: one.name)
        ]

    def before_eligible_leader_replicas(self) -> list[MetadataRecord]:
        """Records that must precede the ELR feature: one cluster-wide min.insync.replicas, none per broker."""
        records: list[MetadataRecord] = []
        image = self._state.image
        if MIN_ISR not in image.default_broker_config():
            minimum = self._state.config.topic_defaults.min_insync_replicas
            records.append(_config_record((RESOURCE_BROKER, ""), MIN_ISR, str(minimum)))
        for resource, settings in image.configs.items():
            if resource[0] == RESOURCE_BROKER and resource[1] and MIN_ISR in settings:
                records.append(_config_record(resource, MIN_ISR, None))
        return records

    def _decide(
        self,
        resources: Iterable[ConfigResource],
        records_for: Callable[[ConfigResource], list[ConfigRecord]],
        validate_only: bool,
    ) -> ControllerResult[Mapping[ConfigResource, KafkaError | None]]:
        records = BoundedRecords()
        results: dict[ConfigResource, KafkaError | None] = {}
        for resource in resources:
            try:
                changed = records_for(resource)
                self._check(resource, changed, is_new=False)
            except KafkaError as error:
                results[resource] = error
            else:
                results[resource] = None
                records.extend(changed)
        records.extend(self._clear_elrs(records))
        records.check()
        return ControllerResult(() if validate_only else tuple(records), results)

    def _check(self, resource: ConfigResource, changed: Sequence[ConfigRecord], *, is_new: bool) -> None:
        settings = dict(self._state.image.configs.get(resource, NO_CONFIG))
        for record in changed:
            self._check_record(record)
            if record.value is None:
                settings.pop(record.name, None)
            else:
                settings[record.name] = record.value
        check_resource_name(resource)
        if resource[0] == RESOURCE_TOPIC:
            check_topic_configs(settings, self._state.config.topic_defaults)
        elif resource[0] == RESOURCE_GROUP:
            check_group_configs(settings, self._state.config)
        if not is_new:
            self._check_existence(resource)

    def _check_record(self, record: ConfigRecord) -> None:
        is_broker = record.resource_type == RESOURCE_BROKER
        if is_broker and record.name == MIN_ISR and self._state.is_elr_enabled:
            if record.resource_name:
                raise _invalid_config("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
            if record.value is None:
                raise _invalid_config("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
        knows_cordoned = self._state.metadata_version >= IV_4_3_CORDONED_DIRECTORIES
        if is_broker and record.name == CORDONED_LOG_DIRS and not knows_cordoned:
            raise _invalid_config(
                "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= "
                "4.3-IV0"
            )
        if record.value is not None and len(record.value) > VALUE_LENGTH_MAX:
            raise _invalid_config(
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_LENGTH_MAX} bytes."
            )

    def _check_existence(self, resource: ConfigResource) -> None:
        resource_type, name = resource
        image = self._state.image
        if resource_type == RESOURCE_TOPIC and name not in image.topics_by_name:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
        if resource_type == RESOURCE_BROKER and name:
            node_id = int(name)
            is_known = node_id in image.brokers or node_id in image.controllers
            if not is_known and node_id != self._state.config.node_id:
                raise KafkaError(ErrorCode.broker_id_not_registered, f"No node with id {node_id} found.")

    def _clear_elrs(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        """A changed min.insync.replicas clears the ELR: under a lower minimum the leader may commit without it.

        The ELR of a partition without a leader stays, since its members still have all committed records. Apache Kafka
        clears that too, and with it every possible leader.
        """
        if not self._state.is_elr_enabled:
            return []
        topics = dict.fromkeys(
            record.resource_name if record.resource_type == RESOURCE_TOPIC else ALL_TOPICS
            for record in records
            if isinstance(record, ConfigRecord) and record.name == MIN_ISR
        )
        cleared: list[MetadataRecord] = [ClearElrRecord(topic_name=name) for name in topics]
        return cleared + self._eligible_without_leader(topics) if topics else []

    def _eligible_without_leader(self, topic_names: Container[str]) -> list[MetadataRecord]:
        state = self._state
        kept: list[MetadataRecord] = []
        for topic_id in state.index.topics_without_leader():
            topic = state.image.topics_by_id[topic_id]
            if topic.name in topic_names or ALL_TOPICS in topic_names:
                kept += [
                    PartitionChangeRecord(
                        partition_id=index,
                        topic_id=topic_id,
                        eligible_leader_replicas=partition.elr or None,
                        last_known_elr=partition.last_known_elr or None,
                    )
                    for index, partition in topic.partitions.items()
                    if not partition.has_leader and not partition.isr and (partition.elr or partition.last_known_elr)
                ]
        return kept


def _changes_of(
    resource: ConfigResource, current: Mapping[str, str], wanted: Mapping[str, str | None]
) -> list[ConfigRecord]:
    # A broker config is written even if it is equal: a password file that it names may have changed.
    return [
        _config_record(resource, name, value)
        for name, value in wanted.items()
        if value != current.get(name) or resource[0] == RESOURCE_BROKER
    ]


def _config_record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)


def _invalid_config(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_config, message)
