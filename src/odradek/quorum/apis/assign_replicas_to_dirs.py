"""AssignReplicasToDirs, version 0."""

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, DirectoryAssignment
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_authorized(Operation.CLUSTER_ACTION, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    assignments = [
        DirectoryAssignment(topic.topic_id, partition.partition_index, directory.id_)
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    result = controller.assign_directories(request.broker_id, request.broker_epoch, assignments)
    results = iter(result.response)
    directories = tuple(
        messages.new(
            "DirectoryData",
            id_=directory.id_,
            topics=tuple(
                messages.new(
                    "TopicData",
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        messages.new(
                            "PartitionData",
                            partition_index=partition.partition_index,
                            error_code=code_of(next(results)),
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in directory.topics
            ),
        )
        for directory in request.directories
    )
    response = _response(messages, ErrorCode.none, directories)
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, error.code, ())


def _response(messages: Schema, code: ErrorCode, directories: tuple[Message, ...]) -> Message:
    return messages.new(
        "AssignReplicasToDirsResponse", throttle_time=NO_THROTTLE, error_code=code, directories=directories
    )
