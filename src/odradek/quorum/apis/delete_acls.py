"""DeleteAcls, versions 1 to 3: deletes what the filters of a request match, all together."""

from collections.abc import Awaitable, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_with_authorizer
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_with_authorizer(Operation.ALTER, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    result = controller.delete_acls([_filter(one) for one in request.filters])
    return result.with_response(_response(messages, result.response))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, [error] * len(request.filters))


def _filter(one: Message) -> AclFilter:
    return AclFilter(
        one.resource_type_filter,
        one.resource_name_filter,
        one.pattern_type_filter,
        one.principal_filter,
        one.host_filter,
        one.operation,
        one.permission_type,
    )


def _response(messages: Schema, results: Sequence[Sequence[AccessControlEntry] | KafkaError]) -> Message:
    return messages.new(
        "DeleteAclsResponse",
        throttle_time=NO_THROTTLE,
        filter_results=tuple(_filter_result(messages, result) for result in results),
    )


def _filter_result(messages: Schema, result: Sequence[AccessControlEntry] | KafkaError) -> Message:
    error = result if isinstance(result, KafkaError) else None
    deleted = () if isinstance(result, KafkaError) else result
    return messages.new(
        "DeleteAclsFilterResult",
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        matching_acls=tuple(_matching_acl(messages, entry) for entry in deleted),
    )


def _matching_acl(messages: Schema, entry: AccessControlEntry) -> Message:
    return messages.new(
        "DeleteAclsMatchingAcl",
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )
