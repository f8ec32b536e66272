"""Reports the administrative changes that brokers carry out themselves. The active controller reports all others."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from odradek.base.errors import ErrorCode
from odradek.broker.coordinators.broker_queues import CLIENT_ID
from odradek.broker.ports import BrokerPort
from odradek.core.audit.event import AuditEvent, Caller
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.apis.logger_levels import levels
from odradek.server.audit.requests import (
    ChangeKind,
    Handle,
    RequestAudit,
    failed_events,
    name_of_result,
    response_of,
    succeeded,
)
from odradek.server.audit.results import results_of
from odradek.server.audit.trail import AuditTrail
from odradek.server.context import RequestContext
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message

_BROKER_LOGGER: Final = 8
_KAFKA_MARKER_SENDER: Final = "broker-{}-txn-marker-sender"

BROKER_CHANGES: Final[Mapping[int, ChangeKind]] = {
    ApiKey.DELETE_RECORDS: ChangeKind("records.delete", "TOPIC"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ChangeKind("log_dir.move", "TOPIC"),
    ApiKey.DELETE_GROUPS: ChangeKind("group.delete", "GROUP"),
    ApiKey.OFFSET_DELETE: ChangeKind("group_offsets.delete", "GROUP", lambda request, _: str(request.group_id)),
    ApiKey.WRITE_TXN_MARKERS: ChangeKind("transaction.end", "PRODUCER"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ChangeKind("logger.alter", "BROKER_LOGGER"),
}

_Partition = tuple[str, int]
_Values = dict[str, Any]


class BrokerAudit(RequestAudit):
    def __init__(self, trail: AuditTrail, *, has_authorizer: bool) -> None:
        super().__init__(trail, BROKER_CHANGES, has_authorizer=has_authorizer)

    async def run(
        self, kind: ChangeKind, handle: Handle, request: Message, context: RequestContext, port: Any, caller: Caller
    ) -> Any:
        describe = _DESCRIBERS[context.api_key](request, context, port)
        response = await response_of(handle, request, context, port)
        if describe is not None:
            now_ms, node_id = self._trail.clock.wall_ms(), self._trail.node_id
            described = describe(response)

            def build() -> list[AuditEvent]:
                changes = [
                    succeeded(kind, now_ms, node_id, caller, name, before=before, after=after)
                    for name, before, after in described
                ]
                own = response
                if context.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
                    # The controller reports the failures of other resources.
                    loggers = tuple(one for one in response.responses if one.resource_type == _BROKER_LOGGER)
                    own = replace(response, responses=loggers)
                return [*changes, *failed_events(kind, request, own, now_ms, node_id, caller)]

            self._trail.sink.offer(build, size=max(1, len(described)), is_change=bool(described))
        return response


_Change = tuple[str | None, _Values | None, _Values | None]
_Describe = Callable[[Message], list[_Change]]
"""The name, and the values before and after, of each resource that a response reports as changed."""


def _deleted_records(request: Message, context: RequestContext, broker: BrokerPort) -> _Describe:
    before = {
        (topic.name, one.partition_index): {"log_start_offset": None if found is None else found.log.log_start_offset}
        for topic in request.topics
        for one in topic.partitions
        for found in (broker.partition(topic.name, one.partition_index),)
    }

    def describe(response: Message) -> list[_Change]:
        after = {
            (topic.name, one.partition_index): {"log_start_offset": one.low_watermark}
            for topic in response.topics
            for one in topic.partitions
            if one.error_code is ErrorCode.none
        }
        return _by_topic(before, after)

    return describe


def _moved_replicas(request: Message, context: RequestContext, broker: BrokerPort) -> _Describe:
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    before = {
        key: {"log_dir": None if found is None else found.log_dir}
        for key in wanted
        for found in (broker.partition(*key),)
    }

    def describe(response: Message) -> list[_Change]:
        after = {
            (topic.topic_name, one.partition_index): {"log_dir": wanted[topic.topic_name, one.partition_index]}
            for topic in response.results
            for one in topic.partitions
            if one.error_code is ErrorCode.none
        }
        return _by_topic(before, after)

    return describe


def _by_topic(before: Mapping[_Partition, _Values], after: Mapping[_Partition, _Values]) -> list[_Change]:
    """One change per topic, of the partitions that have changed."""
    found: dict[str, tuple[_Values, _Values]] = {}
    for (topic, index), values in after.items():
        of_topic = found.setdefault(topic, ({}, {}))
        of_topic[0][str(index)] = before.get((topic, index))
        of_topic[1][str(index)] = values
    return [(topic, *values) for topic, values in found.items()]


def _deleted_groups(request: Message, context: RequestContext, broker: BrokerPort) -> _Describe:
    def describe(response: Message) -> list[_Change]:
        kind = BROKER_CHANGES[ApiKey.DELETE_GROUPS]
        return [
            (name_of_result(kind, request, one), None, None)
            for one in results_of(response)
            if one.code is ErrorCode.none
        ]

    return describe


def _deleted_offsets(request: Message, context: RequestContext, broker: BrokerPort) -> _Describe:
    def describe(response: Message) -> list[_Change]:
        deleted = {
            topic.name: [one.partition_index for one in topic.partitions if one.error_code is ErrorCode.none]
            for topic in response.topics
        }
        deleted = {topic: partitions for topic, partitions in deleted.items() if partitions}
        return [(request.group_id, {"partitions": deleted}, None)] if deleted else []

    return describe


def _ended_transactions(request: Message, context: RequestContext, broker: BrokerPort) -> _Describe | None:
    """None: a coordinator sends the markers of transactions that producers have ended."""
    if _is_coordinator(context, broker):
        return None
    requested = {marker.producer_id: marker for marker in request.markers}

    def describe(response: Message) -> list[_Change]:
        changes: list[_Change] = []
        for one in response.markers:
            written = {
                topic.name: [part.partition_index for part in topic.partitions if part.error_code is ErrorCode.none]
                for topic in one.topics
            }
            written = {topic: partitions for topic, partitions in written.items() if partitions}
            marker = requested.get(one.producer_id)
            if written and marker is not None:
                after = {
                    "result": "COMMIT" if marker.transaction_result else "ABORT",
                    "producer_epoch": marker.producer_epoch,
                    "partitions": written,
                }
                changes.append((str(one.producer_id), None, after))
        return changes

    return describe


def _is_coordinator(context: RequestContext, broker: BrokerPort) -> bool:
    if context.listener_name != broker.config.inter_broker_listener_name:
        return False
    names = (CLIENT_ID, _KAFKA_MARKER_SENDER)
    if not any(context.client_id == name.format(broker_id) for broker_id in broker.image.brokers for name in names):
        return False
    return not context.access.is_restricted or context.access.allows(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False
    )


def _altered_loggers(request: Message, context: RequestContext, broker: BrokerPort) -> _Describe | None:
    resources = [one for one in request.resources if one.resource_type == _BROKER_LOGGER]
    if not resources or request.validate_only:
        return None
    former = levels()

    def describe(response: Message) -> list[_Change]:
        current = levels()
        done = {
            one.resource_name
            for one in response.responses
            if one.resource_type == _BROKER_LOGGER and one.error_code is ErrorCode.none
        }
        return [
            (
                resource.resource_name,
                {config.name: former.get(config.name) for config in resource.configs},
                {config.name: current.get(config.name) for config in resource.configs},
            )
            for resource in resources
            if resource.resource_name in done
        ]

    return describe


_DESCRIBERS: Final[Mapping[int, Callable[[Message, RequestContext, BrokerPort], _Describe | None]]] = {
    ApiKey.DELETE_RECORDS: _deleted_records,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _moved_replicas,
    ApiKey.DELETE_GROUPS: _deleted_groups,
    ApiKey.OFFSET_DELETE: _deleted_offsets,
    ApiKey.WRITE_TXN_MARKERS: _ended_transactions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered_loggers,
}
