"""AlterPartition, versions 2 and 3: leaders propose a new ISR. Version 2 has no broker epochs for it."""

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import NO_BROKER_EPOCH, ControllerCommands, ControllerResult, IsrChange
from odradek.core.metadata.image import RECOVERED, PartitionImage
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_authorized(Operation.CLUSTER_ACTION, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    changes = [
        IsrChange(
            topic_id=topic.topic_id,
            partition=partition.partition_index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=_isr(partition),
            leader_recovery_state=partition.leader_recovery_state,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    result = controller.alter_partitions(request.broker_id, request.broker_epoch, changes)
    results = iter(result.response)
    topics = tuple(
        messages.new(
            "TopicData",
            topic_id=topic.topic_id,
            partitions=tuple(
                _partition(messages, partition.partition_index, next(results)) for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return result.with_response(_response(messages, ErrorCode.none, topics))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, error.code, ())


def _isr(partition: Message) -> tuple[tuple[int, int], ...]:
    if hasattr(partition, "new_isr"):
        return tuple((broker_id, NO_BROKER_EPOCH) for broker_id in partition.new_isr)
    return tuple((broker.broker_id, broker.broker_epoch) for broker in partition.new_isr_with_epochs)


def _partition(messages: Schema, index: int, result: PartitionImage | KafkaError) -> Message:
    if isinstance(result, KafkaError):
        return messages.new(
            "PartitionData",
            partition_index=index,
            error_code=result.code,
            leader_id=0,
            leader_epoch=0,
            isr=(),
            leader_recovery_state=RECOVERED,
            partition_epoch=0,
        )
    return messages.new(
        "PartitionData",
        partition_index=index,
        error_code=ErrorCode.none,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=result.isr,
        leader_recovery_state=result.leader_recovery_state,
        partition_epoch=result.partition_epoch,
    )


def _response(messages: Schema, code: ErrorCode, topics: tuple[Message, ...]) -> Message:
    return messages.new("AlterPartitionResponse", throttle_time=NO_THROTTLE, error_code=code, topics=topics)
